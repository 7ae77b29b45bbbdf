package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// found tells of a spike's minute.
func (s *spike) found(n *spikeSubject, m *spikeMinute, at, usual int64, found func(*Detection)) {
	w := n.Now
	if w == nil {
		w = &spikeState{Onset: at, Usual: usual, First: m.denials[0].First}
		for _, d := range m.denials {
			if d.First.Before(w.First) {
				w.First = d.First
			}
		}
		n.Now = w
		s.active[strings.Clone(m.name)] = struct{}{}
	}
	w.Last = at
	for _, d := range m.denials {
		if d.Last.After(w.LastAt) {
			w.LastAt = d.Last
		}
	}
	w.Total += m.count
	if m.count > w.Peak {
		w.Peak, w.PeakAt, w.Nodes, w.Worst = m.count, at, m.nodes, m.worst
	}
	ids := 0
	for _, d := range m.denials {
		addReason(&w.Reasons, d.Object.Verb+" "+d.Object.kind()+": "+cmp.Or(d.Reason, "no reason"), d.Count)
		addReason(&w.Products, fmt.Sprintf("%q", d.Product), d.Count)
		w.Passed = w.Passed || d.Allowed
		if d.AuditID != "" && len(w.AuditIDs) < 5 && ids == 0 {
			w.AuditIDs = append(w.AuditIDs, d.AuditID)
			ids++
		}
	}
	found(s.detection(m.name, n, false))
}

// end tells of the spikes that have been over for a while at the given minute.
func (s *spike) end(at int64, found func(*Detection)) {
	for _, name := range slices.Sorted(maps.Keys(s.active)) {
		n := &s.cluster
		if name != "" {
			n = s.nodes[name]
		}
		if at-n.Now.Last <= int64(spikeQuiet/time.Minute) {
			continue
		}
		found(s.detection(name, n, true))
		n.Now = nil
		delete(s.active, name)
		s.changed[name] = struct{}{}
	}
}

func (s *spike) detection(name string, n *spikeSubject, over bool) *Detection {
	w := n.Now
	f := &Detection{
		Finding: Finding{Rule: s.rule.Name, Severity: s.rule.Severity, Subject: name, Detail: "since " + stamp(timeOfMinute(w.Onset)), Allowed: w.Passed},
		Time:    w.LastAt, First: w.First, Last: w.LastAt, Count: w.Total, AuditIDs: slices.Clone(w.AuditIDs),
	}
	who := "node " + name
	if name == "" {
		who = fmt.Sprintf("%d nodes at once", w.Nodes)
	}
	goes := "goes on"
	if over {
		f.Phase = "end"
		goes = "over since " + stamp(timeOfMinute(w.Last+1))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d denials from %s on, at the most %d a minute at %s, where up to %d are usual; %s; mostly %s; by %s",
		who, w.Total, stamp(timeOfMinute(w.Onset)), w.Peak, stamp(timeOfMinute(w.PeakAt)), max(0, w.Usual-1), goes, top(w.Reasons), top(w.Products))
	if name == "" {
		fmt.Fprintf(&b, "; most on %s", top(w.Worst))
	}
	f.Message = b.String()
	return f
}

// addReason counts a text among the few that are counted; what there is no room for takes the place of the least (as in the space-saving
// algorithm, which never loses what is frequent).
func addReason(all *[]spikeReason, text string, n int64) {
	i := slices.IndexFunc(*all, func(r spikeReason) bool { return r.Text == text })
	switch {
	case i >= 0:
		(*all)[i].Count += n
	case len(*all) < maxSpikeReasons:
		*all = append(*all, spikeReason{text, n})
	default:
		least := 0
		for i := range *all {
			if (*all)[i].Count < (*all)[least].Count {
				least = i
			}
		}
		(*all)[least] = spikeReason{text, (*all)[least].Count + n}
	}
}

// top names the three that came most.
func top(all []spikeReason) string {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b spikeReason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	var out []string
	for i := range sorted[:min(3, len(sorted))] {
		out = append(out, fmt.Sprintf("%s (%d)", sorted[i].Text, sorted[i].Count))
	}
	return strings.Join(out, ", ")
}
