package version

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/internal/floor"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Force is which hypotheses are in force at a moment.
type Force struct {
	// Members are places in the list, of which N count. Two are in force while API servers of both write the log: the likelier one is the first.
	Members [2]int
	N       int
	// Beyond says that the version is not known to nodeauthz: the members are the two nearest, and where they differ nothing is known.
	Beyond bool
	// Release is the version of the API servers of the first member's minor that the log shows about the moment, such as v1.33.13; empty where it shows
	// none, or several.
	Release string
}

// InForce says which hypotheses requests of a time are judged by, as far as the log shows. It may say another thing after the next request.
func (a *Accumulator) InForce(t time.Time) Force {
	minute := minuteOf(t.Unix())
	if c := &a.force; c.minute == minute && c.changes == a.changes && c.set.N > 0 {
		return c.set
	}
	f := Force{Members: [2]int{a.prior}, N: 1}
	if a.given >= 0 && a.beyond == 0 {
		f.Members[0] = a.given
	} else if h := a.hour(t); h != nil {
		f = a.choose(h, &minute)
	}
	f.Release = a.about(floor.Div(minute, 60), &minute)[a.list[f.Members[0]].Minor]
	a.force.minute, a.force.changes, a.force.set = minute, a.changes, f
	return f
}

// Stands is InForce where something was observed in the hour; it is false elsewhere. Other than InForce it does not begin the hour.
func (a *Accumulator) Stands(t time.Time) (Force, bool) {
	if k := hourOf(t); (a.given < 0 || a.beyond != 0) && (a.last == nil || a.last.start != k) && a.hours[k] == nil {
		return Force{}, false
	}
	return a.InForce(t), true
}

// Doubts reports whether a request that contradicts what is in force through the state alone fits a version that the log has not excluded yet, by a
// static rule of it.
func (a *Accumulator) Doubts(r *Request, answer func(hypothesis int) nodeauthz.Answer) (hypothesis int, ok bool) {
	h := a.hour(r.Time)
	if h == nil || a.given >= 0 || r.Implied != nodeauthz.Allow && r.Implied != nodeauthz.Deny {
		return 0, false
	}
	minute := minuteOf(r.Time.Unix())
	minors := a.servers(h, &minute)
	fits, _ := a.fits(h, ^uint64(0), 0)
	for _, i := range fits {
		if len(minors) > 0 && !slices.Contains(minors, a.list[i].Minor) {
			continue
		}
		if ans := answer(i); ans.Static && r.Fits(ans) {
			of := h.doubts[i]
			if of == nil {
				if h.doubts == nil {
					h.doubts = map[int]*doubts{}
				}
				of = &doubts{}
				h.doubts[i] = of
			}
			if of.requests++; len(of.ids) < examples {
				of.ids = append(of.ids, keptID(r.AuditID))
			}
			h.fresh = changed
			return i, true
		}
	}
	return 0, false
}

// doubtful is how many requests that lag could explain put another hypothesis in force.
const doubtful = 8

// fits are the hypotheses that no request of some minutes of the hour contradicts; least is how many requests contradict the best ones. With a minor
// that is not 0, only its own are looked at.
func (a *Accumulator) fits(h *hour, during uint64, minor int) (fits []int, least int64) {
	hard, soft := make([]int64, len(a.list)), make([]int64, len(a.list))
	for i := range a.list {
		if minor != 0 && a.list[i].Minor != minor {
			hard[i] = math.MaxInt64 / 2
		}
	}
	for k, c := range h.masks {
		if k.set.count() == len(a.list) || c.minutes&during == 0 {
			continue
		}
		for i := range a.list {
			switch {
			case !k.set.has(i):
			case k.soft:
				soft[i] += c.requests
			default:
				hard[i] += c.requests
			}
		}
	}
	least = slices.Min(hard)
	softest := int64(-1)
	for i := range a.list {
		if hard[i] == least && (softest < 0 || soft[i] < softest) {
			softest = soft[i]
		}
	}
	for i := range a.list {
		if hard[i] == least && soft[i]-softest < doubtful {
			fits = append(fits, i)
		}
	}
	return fits, least
}

// choose says what is in force in a minute of an hour, or in all of it.
func (a *Accumulator) choose(h *hour, minute *int64) Force {
	if a.given >= 0 {
		f := Force{Members: [2]int{a.given}, N: 1}
		for i := range a.list {
			if _, second := nodeauthz.NearestMinors(a.beyond); a.beyond != 0 && f.N == 1 && a.list[i].Minor == second {
				f = Force{Members: [2]int{a.given, i}, N: 2, Beyond: true}
			}
		}
		return f
	}
	minors, during, alone := a.servers(h, minute), ^uint64(0), 0
	if minute != nil && len(a.servers(h, nil)) > 1 { // what an API server said that was replaced counts against none that came later
		during = 7 << (*minute % 60) >> nearby
		if len(minors) == 1 && minors[0] >= nodeauthz.OldestMinor && minors[0] <= nodeauthz.NewestMinor {
			alone = minors[0]
		}
	}
	fits, least := a.fits(h, during, alone)
	one := func(i int) Force { return Force{Members: [2]int{i}, N: 1} }
	if alone == 0 && (least > 0 || len(minors) > 1) {
		if pair, ok := a.pair(h, minors, during); ok {
			return pair
		}
	}
	of := func(minor int) (int, bool) {
		var list []int
		for _, i := range fits {
			if a.list[i].Minor == minor {
				list = append(list, i)
			}
		}
		if len(list) == 0 {
			return 0, false
		}
		return a.prefer(list, h), true
	}
	switch len(minors) {
	case 0:
		if i, _, ok := a.byAgent(h, fits); ok {
			return one(i)
		}
	case 1:
		nearest, second := nodeauthz.NearestMinors(minors[0])
		i, ok := of(nearest)
		switch {
		case !ok:
		case nearest == minors[0]:
			return one(i)
		default:
			if j, ok := of(second); ok {
				return Force{Members: [2]int{i, j}, N: 2, Beyond: true}
			}
		}
	}
	return one(a.prefer(fits, h))
}

// prefer picks the one that was in force before, else the first of its minor, else the first. After a first look at the same
// requests the first counts.
func (a *Accumulator) prefer(fits []int, h *hour) int {
	if h.guessed {
		return fits[0]
	}
	if slices.Contains(fits, h.prior) {
		return h.prior
	}
	for _, i := range fits {
		if a.list[i].Minor == a.list[h.prior].Minor {
			return i
		}
	}
	return fits[0]
}

// pair finds two hypotheses of which one fits wherever the other does not: of neighbouring minors, as API servers of a cluster may have while they are
// replaced, or of one minor with other gates. Where one server was seen at the time, it is its own alone.
func (a *Accumulator) pair(h *hour, minors []int, during uint64) (Force, bool) {
	var all []set
	for k, c := range h.masks {
		if !k.soft && k.set.count() < len(a.list) && c.minutes&during != 0 {
			all = append(all, k.set)
		}
	}
	best, rank := Force{}, 0
	for i := range a.list {
		for j := i + 1; j < len(a.list); j++ {
			older, newer := a.list[j].Minor, a.list[i].Minor
			if older > newer {
				older, newer = newer, older
			}
			if newer-older > 1 || len(minors) > 1 && !slices.Equal(minors[len(minors)-2:], []int{older, newer}) ||
				slices.ContainsFunc(all, func(s set) bool { return s.has(i) && s.has(j) }) {
				continue
			}
			r := 1
			for _, m := range []int{i, j} {
				if m == h.prior {
					r += 2
				}
				if slices.Contains(minors, a.list[m].Minor) {
					r += 4
				}
			}
			if r > rank {
				best, rank = Force{Members: [2]int{i, j}, N: 2}, r
			}
		}
	}
	if rank == 0 {
		return Force{}, false
	}
	m := &best.Members
	if a.list[m[0]].Minor < a.list[m[1]].Minor {
		m[0], m[1] = m[1], m[0]
	}
	if len(minors) == 1 && a.list[m[0]].Minor != a.list[m[1]].Minor {
		for _, i := range m {
			if a.list[i].Minor == minors[0] {
				return Force{Members: [2]int{i}, N: 1}, true
			}
		}
	}
	return best, true
}

// nearby is for how many minutes before and after a time the sightings of API servers count: each renews its identity Lease every ten seconds.
const nearby = 1

// servers are the minors of the API servers that were seen about a minute of the hour, or in all of it, in order: by their own user agents, else by
// those seen last before, else by what one answered when it was asked.
func (a *Accumulator) servers(h *hour, minute *int64) []int {
	seen := a.about(h.start, minute)
	if len(seen) == 0 && h.reported != 0 {
		seen[h.reported] = ""
	}
	return slices.Sorted(maps.Keys(seen))
}

// about are the versions of the API servers that were seen about a minute of the hour that starts then, or in all of it, by their minors; a version is
// empty where those of a minor differ.
func (a *Accumulator) about(start int64, minute *int64) map[int]string {
	seen := map[int]string{}
	look := func(from, to int64) bool { // minutes, both included
		for k := floor.Div(from, 60); k <= floor.Div(to, 60); k++ {
			in := a.hours[k]
			if in == nil {
				continue
			}
			window := ^uint64(0)
			if d := from - k*60; d > 0 {
				window &= ^uint64(0) << d
			}
			if d := to - k*60; d < 63 {
				window &= 1<<(d+1) - 1
			}
			for agent, s := range in.agents {
				if agent.Program != apiserver || s.minutes&window == 0 {
					continue
				}
				if v, again := seen[s.minor]; again && v != agent.Version {
					seen[s.minor] = ""
				} else {
					seen[s.minor] = agent.Version
				}
			}
		}
		return len(seen) > 0
	}
	first, last := start*60, start*60+59
	if minute == nil {
		look(first, last)
	} else if !look(*minute-nearby, *minute+nearby) {
		at := int64(-1) // of the sighting before
		for k := start; k > start-2 && at < 0; k-- {
			if in := a.hours[k]; in != nil {
				for agent, s := range in.agents {
					until := s.minutes
					if k == start {
						until &= 1<<(*minute-first) - 1
					}
					if agent.Program == apiserver && until != 0 {
						at = max(at, k*60+63-int64(bits.LeadingZeros64(until)))
					}
				}
			}
		}
		if at >= 0 {
			look(at, at)
		} else {
			look(*minute, last)
		}
	}
	return seen
}
