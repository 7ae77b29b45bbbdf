package rules

import (
	"net/netip"
	"strings"
	"time"
)

// MaxNodes is how many nodes a Memory remembers at least, if there are so many; it never remembers more than twice as many. Of
// certificates it remembers four times that. What was seen longest ago is forgotten first.
const MaxNodes = 20_000

// maxRemembered bounds the names that are remembered, in bytes. Node names have at most 253, credential ids are hashes.
const maxRemembered = 256

// Memory is what rules remember between requests: per node its addresses and certificates. It is not safe for concurrent use.
type Memory struct {
	// Kubelets are further user-agent products that count as a kubelet's.
	Kubelets []string
	nodes    latest[nodeMemory]
	certs    latest[string] // credential id -> the first node that used it
	journal  *journal       // nil if nobody asks for changes
}

// nodeMemory holds the first address of each family and when it was used last.
type nodeMemory struct {
	v4, v6     netip.Addr
	v4at, v6at time.Time
	told       storedNode // as it was told last
}

// NewMemory returns an empty memory.
func NewMemory() *Memory {
	return &Memory{nodes: newLatest[nodeMemory](MaxNodes), certs: newLatest[string](4 * MaxNodes)}
}

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
