package checks

import (
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

// reportFor is how much of an hour a node must be Ready for its kubelet to report the Node's status in it: it does so every five to ten minutes, unless it
// is configured to do it less often.
const reportFor = 30 * time.Minute

// podActs counts the acts of kubelets for their pods. What a filter keeps out of the log is missing everywhere, at one node, or for a time; a single pod
// that its kubelet rejects, or that is deleted by force, shows nothing.
type podActs struct {
	all   [evidence.Acts]loss
	hours [][evidence.Acts]loss
	nodes map[string]*[evidence.Acts]loss
}

func newPodActs(w *window) *podActs {
	return &podActs{hours: make([][evidence.Acts]loss, w.last-w.first+1), nodes: map[string]*[evidence.Acts]loss{}}
}

// ask adds an act that had to be done at that time, which is in the window.
func (a *podActs) ask(w *window, node string, at time.Time, act evidence.Act, done bool) {
	of := a.nodes[node]
	if of == nil {
		of = &[evidence.Acts]loss{}
		a.nodes[node] = of
	}
	for _, s := range []*loss{&a.all[act], &a.hours[evidence.HourOf(at)-w.first][act], &of[act]} {
		s.add(loss{expected: 1, missing: 1 - one(done)})
	}
}

// started adds what follows when a pod comes to a node.
func (a *podActs) started(in *Input, w *window, node *Node, pod *PodLife) {
	if pod.At.Before(w.from) {
		return
	}
	ready, able := readySince(in, w, node, Span{pod.At, pod.Until})
	if !able || ready.Add(readFor).After(w.to) {
		return
	}
	since, until := pod.At.Add(-seenLate), ready.Add(readFor)
	for _, act := range []evidence.Act{evidence.ActGetPod, evidence.ActReportPod} {
		done := acted(in, node.Name, act, since, until) &&
			(pod.Name == "" || in.Ledger.DidFor(act, pod.Namespace, pod.Name, evidence.HourOf(since), evidence.HourOf(until)))
		a.ask(w, node.Name, pod.At, act, done)
	}
	if pod.Token {
		a.ask(w, node.Name, pod.At, evidence.ActCreateToken, acted(in, node.Name, evidence.ActCreateToken, since, until))
	}
}

// ended adds the deletion of a pod that went while its node was Ready: an API server keeps the pod until the kubelet deletes it, if the pod has time to end in.
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
		if all.expected == 0 || slices.Contains(in.Policy.Omits, act) {
			continue
		}
		p.count(1, one(all.missing < all.expected))
		item := Item{Code: CodeRequestMissing, Request: act.String(), From: w.first.Start(), To: w.last.End()}
		least := int64(1)
		if act == evidence.ActDeletePod {
			least = leastMissing // or deleted by force
		}
		every := act == evidence.ActGetPod || act == evidence.ActReportPod // of the others a pod may be an exception
		if all.whole(least) || every && all.tooMany(in) {
			item.Count = all.missing
			p.unproven(item)
			continue
		}
		for _, node := range slices.Sorted(maps.Keys(a.nodes)) {
			if s := &a.nodes[node][act]; s.whole(leastMissing) {
				item.Node, item.Count = node, s.expected
				p.unproven(item)
			}
		}
		item.Node = ""
		w.runs(func(h evidence.Hour) bool { return a.hours[h-w.first][act].whole(leastMissing) }, func(first, last evidence.Hour) {
			item.From, item.To, item.Count = first.Start(), last.End(), 0
			for h := first; h <= last; h++ {
				item.Count += a.hours[h-w.first][act].expected
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
