package rules

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// MaxNodes is how many nodes are distinguished by what looks at requests over time.
const MaxNodes = 20_000

// maxRemembered bounds the names that are remembered, in bytes. Node names have at most 253, credential ids are hashes.
const maxRemembered = 256

// Memory is what rules know in addition to the request and the state. Rules only read it: requests are judged on several cores at once. See is not safe for
// concurrent use.
type Memory struct {
	// Kubelets are further user agents that count as a kubelet's, without version.
	Kubelets []string
	// Bootstrap says what is usual when nodes join.
	Bootstrap Bootstrap

	named time.Time // of the latest event with a user agent
}

// namedFor is for how long a log is taken to have user agents after the last one, by its own time. Kubelets renew their Leases every ten seconds.
const namedFor = 10 * time.Minute

// See takes in an event as it comes in, of whomever, before requests of its time are judged.
func (m *Memory) See(ev *audit.Event) {
	if ev.UserAgent != "" && ev.StageTime.After(m.named) {
		m.named = ev.StageTime
	}
}

// Unnamed reports whether the event has no user agent because the log has none: something cut them off, or masked them. Then that says nothing of the client.
func (m *Memory) Unnamed(ev *audit.Event) bool {
	return ev.UserAgent == "" && ev.StageTime.Sub(m.named) > namedFor
}

// NewMemory returns a memory that knows nothing.
func NewMemory() *Memory { return &Memory{} }

// latest is a map that keeps its latest entries: when the young generation is full, the old one is forgotten and the young one
// takes its place.
type latest[V any] struct {
	young, old map[string]*V
	most       int
}

func newLatest[V any](most int) latest[V] {
	return latest[V]{young: map[string]*V{}, most: most}
}

// get returns the entry, or nil.
func (l *latest[V]) get(key string) *V {
	if v := l.young[key]; v != nil {
		return v
	}
	v := l.old[key]
	if v != nil {
		l.add(key, v)
	}
	return v
}

// add puts in an entry. The key is copied. Keys that are too long for what they should be are not kept.
func (l *latest[V]) add(key string, v *V) {
	if len(key) > maxRemembered {
		return
	}
	if len(l.young) >= l.most {
		l.old, l.young = l.young, make(map[string]*V, l.most/4)
	}
	l.young[strings.Clone(key)] = v
}
