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

// EndedAtOnce returns when pods were deleted that had no time to end in, as by force: the API server keeps no such pod until its kubelet deletes it. Only a
// watch that saw the pod before and its end tells; of other pods nobody knows.
func (s *State) EndedAtOnce() map[nodeauthz.NamespacedName][]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[nodeauthz.NamespacedName][]time.Time, len(s.atOnce))
	for i := range s.atOnce {
		e := &s.atOnce[i]
		out[e.pod] = append(out[e.pod], timeOf(e.at))
	}
	return out
}

// podEnd is when a pod was deleted, in nanoseconds since 1970.
type podEnd struct {
	pod nodeauthz.NamespacedName
	at  int64
}

// maxAtOnce bounds State.atOnce: of those that went before, nobody knows.
const maxAtOnce = 10_000

// endAtOnce takes in that a watch sees the end of a pod that it saw before, if the pod never had time to end in. The API server takes that time away in the
// end, so that the last state of a pod does not tell.
func (s *State) endAtOnce(c *change) {
	if _, ending := s.ending[c.ref]; !ending && !c.ends() && c.clocked && c.notBefore == 0 {
		if len(s.atOnce) >= maxAtOnce {
			s.atOnce = slices.Delete(s.atOnce, 0, maxAtOnce/2)
		}
		s.atOnce = append(s.atOnce, podEnd{c.ref, c.at})
	}
}

// ends reports whether a pod has time to end in, after which its kubelet deletes it.
func (c *change) ends() bool { return c.deletion != 0 && !c.graceless }

// finish takes in a pod as it is.
func (s *State) finish(c *change) {
	if c.ends() {
		s.ending[c.ref] = c.uid
	}
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
	if own, ending := s.ending[ref]; ending && (uid == "" || own == "" || own == uid) {
		delete(s.ending, ref)
	}
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
	from := before.UnixNano()
	s.atOnce = slices.DeleteFunc(s.atOnce, func(e podEnd) bool { return e.at < from })
}
