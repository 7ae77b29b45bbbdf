package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Finished is a time in which a pod had succeeded or failed: its kubelet reads nothing for it any more, or never did, though the Node authorizer still
// allows that. To is zero while the pod is there.
type Finished struct {
	From, To time.Time
	uid      string
}

// FinishedPods returns when each pod had succeeded or failed, of those that had. Only watches and lists of pods tell.
func (s *State) FinishedPods() map[nodeauthz.NamespacedName][]Finished {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := maps.Clone(s.finished)
	for ref, all := range out {
		out[ref] = slices.Clone(all)
	}
	return out
}

// finish takes in a pod as it is.
func (s *State) finish(c *change) {
	all := s.finished[c.ref]
	if last := len(all) - 1; last >= 0 && all[last].To.IsZero() {
		if all[last].uid == c.uid {
			return // a pod that has finished stays so
		}
		all[last].To = timeOf(c.at)
	}
	if c.finished {
		s.finished[c.ref] = append(all, Finished{From: timeOf(c.at), uid: c.uid})
	}
}

// unfinish takes in that a pod is gone.
func (s *State) unfinish(ref nodeauthz.NamespacedName, uid string, at time.Time) {
	all := s.finished[ref]
	if last := len(all) - 1; last >= 0 && all[last].To.IsZero() && (uid == "" || all[last].uid == uid) {
		all[last].To = at
	}
}

// pruneFinished forgets pods that were gone before the given time.
func (s *State) pruneFinished(before time.Time) {
	maps.DeleteFunc(s.finished, func(ref nodeauthz.NamespacedName, all []Finished) bool {
		all = slices.DeleteFunc(all, func(f Finished) bool { return !f.To.IsZero() && f.To.Before(before) })
		s.finished[ref] = all
		return len(all) == 0
	})
}
