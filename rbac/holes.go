package rbac

import (
	"slices"
	"sort"
	"time"
)

// hole is a time in which nobody watched, both ends included.
type hole struct{ from, to instant }

// maxHoles bounds the holes that are remembered. Beyond it the two oldest
// become one with what is between them.
const maxHoles = 512

// Uncovered says that nobody watched from `from` to `to`: a binding that was
// made and deleted in between was never seen, so there absence is unknown. A
// zero from means that nobody ever watched before.
func (s *Store) Uncovered(from, to time.Time) {
	n := hole{instantOf(from), instantOf(to)}
	if n.to < n.from {
		return
	}
	s.writer.Lock()
	defer s.writer.Unlock()
	old := s.loadHoles()
	i := sort.Search(len(old), func(i int) bool { return old[i].to >= n.from })
	j := i
	for ; j < len(old) && old[j].from <= n.to; j++ {
		n.from, n.to = min(n.from, old[j].from), max(n.to, old[j].to)
	}
	holes := slices.Replace(slices.Clone(old), i, j, n) // readers may hold the old ones
	if len(holes) > maxHoles {
		holes[1].from = holes[0].from
		holes = holes[1:]
	}
	s.holes.Store(&holes)
}

// UncoveredSince says the same of all time from t on, until CoveredAgain is
// called. The zero time says that nothing is known at all.
func (s *Store) UncoveredSince(t time.Time) { s.blind.Store(int64(instantOf(t))) }

// CoveredAgain takes UncoveredSince back: what happened since then is known by
// now, or was given to Uncovered.
func (s *Store) CoveredAgain() { s.blind.Store(int64(never)) }

func (s *Store) loadHoles() []hole {
	if p := s.holes.Load(); p != nil {
		return *p
	}
	return nil
}

// watched reports whether somebody watched at t.
func (s *Store) watched(t instant) bool {
	if int64(t) >= s.blind.Load() {
		return false
	}
	holes := s.loadHoles()
	i := sort.Search(len(holes), func(i int) bool { return holes[i].to >= t })
	return i == len(holes) || holes[i].from > t
}

// pruneHoles forgets what was over before t. The writer's lock is held.
func (s *Store) pruneHoles(t instant) {
	old := s.loadHoles()
	if i := sort.Search(len(old), func(i int) bool { return old[i].to >= t }); i > 0 {
		kept := slices.Clone(old[i:])
		s.holes.Store(&kept)
	}
}
