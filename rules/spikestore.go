package rules

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/floor"
)

// Advance implements Detector.
func (s *spike) Advance(t time.Time, _ State, found func(*Detection)) {
	// The minutes that are over were given before; the one of t and, within its first step, the one before it were not.
	now := minuteOf(t.Add(-DetectStep))
	s.end(now, found)
	if hour := floor.Div(now, 60); hour > s.swept {
		s.swept = hour
		for name, n := range s.nodes {
			if n.Now == nil && n.Last < (hour-maxSpikeHours)*60 {
				delete(s.nodes, name)
				s.dropped = true
			}
		}
	}
}

const rememberedSpike = "deny-spike"

func (n *spikeSubject) appendJSON(b []byte) ([]byte, error) {
	m := membersOf(slices.Grow(b, 64+64*len(n.Past)))
	m.number(`"seen":`, n.Seen)
	m.number(`"last":`, n.Last)
	if len(n.Past) > 0 {
		m.name(`"past":`)
		appendAll(&m, n.Past, spikeHour.members)
	}
	if n.Now != nil {
		m.value(`"now":`, n.Now)
	}
	return m.end()
}

func (h spikeHour) members(m *members) {
	m.number(`"h":`, h.Hour)
	m.amount(`"s":`, h.Sum)
	m.amount(`"q":`, h.Sq)
	m.number(`"m":`, h.Most)
}

// Changes implements Detector.
func (s *spike) Changes() []Remembered {
	var out []Remembered
	for _, name := range slices.Sorted(maps.Keys(s.changed)) {
		n := &s.cluster
		if name != "" {
			if n = s.nodes[name]; n == nil {
				continue
			}
		}
		out = remember(out, rememberedSpike, name, n)
	}
	clear(s.changed)
	return out
}

// Restore implements Detector.
func (s *spike) Restore(r *Remembered) (own bool, err error) {
	if r.Kind != rememberedSpike {
		return false, nil
	}
	if r.Key == "" && s.cluster.Last != 0 || r.Key != "" && (s.nodes[r.Key] != nil || len(s.nodes) >= MaxNodes) {
		return true, nil
	}
	n := &spikeSubject{}
	if err := json.Unmarshal(r.Value, n); err != nil {
		return true, err
	}
	if err := n.valid(); err != nil {
		return true, err
	}
	name := strings.Clone(r.Key)
	if name == "" {
		s.cluster = *n
	} else {
		s.nodes[name] = n
	}
	if n.Now != nil {
		s.active[name] = struct{}{}
	}
	return true, nil
}

// valid holds what was stored to the bounds of what is kept.
func (n *spikeSubject) valid() error {
	const most = 1 << 40 // minutes; no time in the log's form is as late
	if n.Last == 0 || n.Seen < -most || n.Last > most || len(n.Past) > maxSpikeHours+1 {
		return errors.New("a past that cannot be")
	}
	for i := range n.Past {
		h := &n.Past[i]
		if h.Sum < 0 || h.Sq < 0 || h.Most < 0 || h.Sum > most || h.Sq > most*most || i > 0 && h.Hour <= n.Past[i-1].Hour {
			return errors.New("an hour that cannot be")
		}
	}
	w := n.Now
	if w == nil {
		return nil
	}
	if len(w.Reasons) > maxSpikeReasons || len(w.Products) > maxSpikeReasons || len(w.Worst) > 3 || len(w.AuditIDs) > 5 ||
		w.Last < -most || w.Last > most || w.Onset < -most || w.Onset > w.Last {
		return errors.New("a spike that cannot be")
	}
	return nil
}
