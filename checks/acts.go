package checks

import (
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

const (
	// reportFor is how much of an hour a node must be Ready for its kubelet to report the Node's status in it: it does so every five to ten minutes, unless it
	// is configured to do it less often.
	reportFor = 30 * time.Minute
	// leastActs is how many times an act must be missing, of one node or in one hour, to tell of a filter. One pod may be an exception.
	leastActs = 3
)

// sum counts how often kubelets had to do something, and how often they did.
type sum struct{ asked, done int64 }

// none reports whether it was never done though it had to be done so many times at least.
func (s *sum) none(least int64) bool { return s.done == 0 && s.asked >= least }

// tooFew reports whether it was missing more often than a log may lose of its renewals.
func (s *sum) tooFew(in *Input) bool {
	missing := s.asked - s.done
	return missing >= leastActs && float64(missing) > in.MaxLoss*float64(s.asked)
}

// podActs counts the acts of kubelets for their pods. What a filter keeps out of the log is missing everywhere, at one node, or for a time; a single pod
// that its kubelet rejects, or that is deleted by force, shows nothing.
type podActs struct {
	all   [evidence.Acts]sum
	hours [][evidence.Acts]sum
	nodes map[string]*[evidence.Acts]sum
}

func newPodActs(w *window) *podActs {
	return &podActs{hours: make([][evidence.Acts]sum, w.last-w.first+1), nodes: map[string]*[evidence.Acts]sum{}}
}

// ask adds an act that had to be done at that time, which is in the window.
func (a *podActs) ask(w *window, node string, at time.Time, act evidence.Act, done bool) {
	of := a.nodes[node]
	if of == nil {
		of = &[evidence.Acts]sum{}
		a.nodes[node] = of
	}
	for _, s := range []*sum{&a.all[act], &a.hours[evidence.HourOf(at)-w.first][act], &of[act]} {
		s.asked++
		if done {
			s.done++
		}
	}
}

// started adds what follows when a pod comes to a node.
func (a *podActs) started(in *Input, w *window, node *Node, pod *PodLife) {
	if pod.At.Before(w.from) {
		return
	}
	ready, able := readySince(in, w, node, pod.Span())
	if !able || ready.Add(readFor).After(w.to) {
		return
	}
	for _, act := range []evidence.Act{evidence.ActGetPod, evidence.ActReportPod, evidence.ActCreateToken} {
		if act != evidence.ActCreateToken || pod.Token {
			a.ask(w, node.Name, pod.At, act, acted(in, node.Name, act, pod.At.Add(-seenLate), ready.Add(readFor)))
		}
	}
}

// ended adds the deletion of a pod that went while its node was Ready: an API server keeps the pod until the kubelet deletes it.
func (a *podActs) ended(in *Input, w *window, node *Node, pod *PodLife) {
	if !pod.Gone || pod.Until.Before(w.from) || !pod.Until.Before(w.to) {
		return
	}
	alive := slices.ContainsFunc(node.Lives, func(l Span) bool {
		return l.Holds(pod.Until.Add(-in.NodeGrace)) && l.Holds(pod.Until.Add(in.NodeGrace))
	})
	if alive && len(clip(widen(node.NotReady, in.NodeGrace, in.NodeGrace), pod.Until.Add(-time.Second), pod.Until)) == 0 {
		a.ask(w, node.Name, pod.Until, evidence.ActDeletePod, acted(in, node.Name, evidence.ActDeletePod, pod.Until.Add(-seenLate), pod.Until.Add(seenLate)))
	}
}

// tell says what is missing.
func (a *podActs) tell(in *Input, w *window, p *proof) {
	for act := range evidence.Acts {
		all := &a.all[act]
		if all.asked == 0 || slices.Contains(in.Policy.Omits, act) {
			continue
		}
		p.count(1, one(all.done > 0))
		item := Item{Code: CodeRequestMissing, Request: act.String(), From: w.first.Start(), To: w.last.End()}
		least := int64(1)
		if act == evidence.ActDeletePod {
			least = leastActs // or deleted by force
		}
		every := act == evidence.ActGetPod || act == evidence.ActReportPod // of the others a pod may be an exception
		if all.none(least) || every && all.tooFew(in) {
			item.Count = all.asked - all.done
			p.unproven(item)
			continue
		}
		for _, node := range slices.Sorted(maps.Keys(a.nodes)) {
			if s := &a.nodes[node][act]; s.none(leastActs) {
				item.Node, item.Count = node, s.asked
				p.unproven(item)
			}
		}
		item.Node = ""
		w.runs(func(h evidence.Hour) bool { return a.hours[h-w.first][act].none(leastActs) }, func(first, last evidence.Hour) {
			item.From, item.To, item.Count = first.Start(), last.End(), 0
			for h := first; h <= last; h++ {
				item.Count += a.hours[h-w.first][act].asked
			}
			p.unproven(item)
		})
	}
}

// acted reports whether a kubelet did it in one of the parts of hours from one time to another.
func acted(in *Input, node string, act evidence.Act, from, to time.Time) bool {
	return within(in, node, from, to, func(x *evidence.NodeHour) evidence.Parts { return x.Acted[act] })
}

// within reports whether one of the parts of hours from one time to another is in the sets that of chooses.
func within(in *Input, node string, from, to time.Time, of func(*evidence.NodeHour) evidence.Parts) bool {
	for at := from.Truncate(evidence.PartLength); !at.After(to); at = at.Add(evidence.PartLength) {
		if x := in.Ledger.Node(node, evidence.HourOf(at)); x != nil && of(x).Has(at) {
			return true
		}
	}
	return false
}
