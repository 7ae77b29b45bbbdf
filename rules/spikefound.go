package rules

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// The reasons of the rule node-deny-spike.
const (
	SpikeOfNode    Reason = "spike-of-node"
	SpikeOfCluster Reason = "spike-of-cluster"
)

// found tells of a spike's minute.
func (s *spike) found(n *spikeSubject, m *spikeMinute, at, usual int64, found func(*Detection)) {
	w := n.Now
	if w == nil {
		w = &spikeState{Onset: at, Usual: usual, Lag: true}
		for d := range m.denials {
			if w.First.IsZero() || d.First.Before(w.First) {
				w.First = d.First
			}
		}
		n.Now = w
		s.active[strings.Clone(m.name)] = struct{}{}
	}
	w.Last = at
	for d := range m.denials {
		if d.Last.After(w.LastAt) {
			w.LastAt = d.Last
		}
	}
	w.Total += m.count
	if m.count > w.Peak {
		w.Peak, w.PeakAt, w.Nodes, w.Worst = m.count, at, m.nodes, m.worst
	}
	ids, others := 0, int64(0)
	for d := range m.denials {
		others += d.Count - d.Lagged
		addReason(&w.Reasons, d.Object.Verb+" "+d.Object.kind()+": "+d.Reason, d.Count)
		addReason(&w.Products, d.Product, d.Count)
		w.Passed = w.Passed || d.Allowed
		if d.AuditID != "" && len(w.AuditIDs) < 5 && ids == 0 {
			w.AuditIDs = append(w.AuditIDs, strings.Clone(d.AuditID))
			ids++
		}
	}
	w.Lag = w.Lag && others < usual
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
	onset := timeOfMinute(w.Onset)
	f := &Detection{
		Finding: Finding{
			Rule: s.rule.Name, Reason: SpikeOfNode, Severity: s.rule.Severity, Subject: name, Apart: onset.Format(time.RFC3339), Allowed: w.Passed,
		},
		Time: w.LastAt, First: w.First, Last: w.LastAt, Count: w.Total, AuditIDs: slices.Clone(w.AuditIDs),
	}
	if w.Lag {
		f.Severity = Low
	}
	f.Params = codes.Params{
		codes.Int(ParamCount, w.Total), codes.Time(ParamSince, onset), codes.Int(ParamPeak, w.Peak),
		codes.Time(ParamPeakAt, timeOfMinute(w.PeakAt)), codes.Int(ParamUsual, max(0, w.Usual-1)),
	}
	if over {
		f.Phase = "end"
		f.Params = append(f.Params, codes.Time(ParamUntil, timeOfMinute(w.Last+1)))
	}
	if name == "" {
		f.Reason, f.Params = SpikeOfCluster, append(f.Params, codes.Int(ParamNodes, w.Nodes))
	}
	f.Params = append(f.Params, codes.List(ParamDenied, top(w.Reasons))...)
	f.Params = append(f.Params, codes.List(ParamClient, top(w.Products))...)
	if name == "" {
		f.Params = append(f.Params, codes.List(ParamNode, top(w.Worst))...)
	}
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

// top are the three that came most, each after its count and a space.
func top(all []spikeReason) []string {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b spikeReason) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text))
	})
	var out []string
	for i := range sorted[:min(3, len(sorted))] {
		out = append(out, strconv.FormatInt(sorted[i].Count, 10)+" "+sorted[i].Text)
	}
	return out
}
