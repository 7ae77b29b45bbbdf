package version

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// What does not have the latest of an hour. Whatever changes an hour sets both, which is one store: it is done for each request.
const (
	unsaved = 1 << iota
	unconcluded
	changed = unsaved | unconcluded
)

// Saved is what an hour holds, to be stored.
type Saved struct {
	Hour  int64 // since 1970
	Value []byte
}

// The forms of an hour as it is saved. A store outlives the program: the keys stay as they are. All lists are sorted, so that the same hour is the same bytes.
type (
	savedHour struct {
		List     string         `json:"l"`
		Prior    int            `json:"p,omitempty"`
		Guessed  bool           `json:"g,omitempty"`
		Reported int            `json:"k,omitempty"`
		Requests int64          `json:"r,omitempty"`
		Open     int64          `json:"o,omitempty"`
		Held     int64          `json:"h,omitempty"`
		Started  bool           `json:"s,omitempty"`
		Sample   []savedAsked   `json:"q,omitempty"`
		Masks    []savedAgainst `json:"m,omitempty"`
		Agents   []savedAgent   `json:"a,omitempty"`
		Doubts   []savedDoubts  `json:"d,omitempty"`
	}
	savedAsked struct {
		Shape     [4]string `json:"s"`
		Deny      bool      `json:"d,omitempty"`
		Forbidden bool      `json:"f,omitempty"`
		Fit       int       `json:"y,omitempty"`
		Not       int       `json:"n,omitempty"`
	}
	savedAgainst struct {
		Set      set      `json:"h"`
		Soft     bool     `json:"s,omitempty"`
		Requests int64    `json:"r"`
		Minutes  uint64   `json:"m"`
		First    []string `json:"i"`
	}
	savedAgent struct {
		Program  string `json:"p"`
		Version  string `json:"v"`
		Minor    int    `json:"n"`
		Requests int64  `json:"r"`
		Minutes  uint64 `json:"m"`
	}
	savedDoubts struct {
		Hypothesis int      `json:"h"`
		Requests   int64    `json:"r"`
		IDs        []string `json:"i"`
	}
)

// Changed returns the hours that changed since it was called last, in their order. Each is whole: it takes the place of what was saved of it before.
func (a *Accumulator) Changed() (out []Saved) {
	for _, k := range slices.Sorted(maps.Keys(a.hours)) {
		h := a.hours[k]
		if h.fresh&unsaved == 0 {
			continue
		}
		h.fresh &^= unsaved
		if value, err := json.Marshal(a.saved(h)); err == nil { // of strings and numbers
			out = append(out, Saved{k, value})
		}
	}
	return out
}

// Unsaved has Changed return an hour again, which could not be stored.
func (a *Accumulator) Unsaved(k int64) {
	if h := a.hours[k]; h != nil {
		h.fresh |= unsaved
	}
}

func (a *Accumulator) saved(h *hour) *savedHour {
	s := &savedHour{
		List: a.fingerprint(), Prior: h.prior, Guessed: h.guessed, Reported: h.reported, Requests: h.requests, Open: h.open, Held: h.held, Started: h.started,
	}
	for o, n := range h.sample { // nothing depends on how much more they are
		s.Sample = append(s.Sample, savedAsked{
			[4]string{o.shape.Verb, o.shape.APIGroup, o.shape.Resource, o.shape.Subresource}, o.implied == nodeauthz.Deny, o.forbidden, min(n.fit, sampled), min(n.not, doubted),
		})
	}
	slices.SortFunc(s.Sample, func(x, y savedAsked) int {
		return cmp.Or(slices.Compare(x.Shape[:], y.Shape[:]), compareBools(x.Deny, y.Deny), compareBools(x.Forbidden, y.Forbidden))
	})
	for k, c := range h.masks {
		s.Masks = append(s.Masks, savedAgainst{k.set, k.soft, c.requests, c.minutes, c.first})
	}
	slices.SortFunc(s.Masks, func(x, y savedAgainst) int {
		return cmp.Or(slices.Compare(x.Set[:], y.Set[:]), compareBools(x.Soft, y.Soft))
	})
	for agent, of := range h.agents {
		s.Agents = append(s.Agents, savedAgent{agent.Program, agent.Version, of.minor, of.requests, of.minutes})
	}
	slices.SortFunc(s.Agents, func(x, y savedAgent) int {
		return cmp.Or(cmp.Compare(x.Program, y.Program), cmp.Compare(x.Version, y.Version))
	})
	for _, i := range slices.Sorted(maps.Keys(h.doubts)) {
		s.Doubts = append(s.Doubts, savedDoubts{i, h.doubts[i].requests, h.doubts[i].ids})
	}
	return s
}

func compareBools(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// fingerprint tells lists of hypotheses apart, and what is given, by which requests count.
func (a *Accumulator) fingerprint() string {
	if a.print == "" {
		x := fnv.New64a()
		for i := range a.list {
			_, _ = fmt.Fprintln(x, Name(a.list[i]))
		}
		_, _ = fmt.Fprintln(x, a.given, a.beyond)
		a.print = fmt.Sprintf("%x", x.Sum64())
	}
	return a.print
}

// Restore puts an hour back that Changed returned. It is false, and changes nothing, where the hypotheses are others now, where the hour is there already or
// there are too many, and where Changed returns no such value: stores are damaged now and then.
func (a *Accumulator) Restore(k int64, value []byte) bool {
	var s savedHour
	if len(a.hours) >= hours || a.hours[k] != nil || k < 0 || k > maxHour || json.Unmarshal(value, &s) != nil || s.List != a.fingerprint() {
		return false
	}
	h := a.restored(k, &s)
	if h == nil {
		return false
	}
	a.hours[k] = h
	a.changes++
	return true
}

const (
	// maxHour is the last hour of the year 9999.
	maxHour = 253402300799 / 3600
	// maxCount is more than an hour has of anything.
	maxCount = 1 << 40
)

// restored is the hour that was saved, nil if it can be none.
func (a *Accumulator) restored(k int64, s *savedHour) *hour {
	if s.Prior < 0 || s.Prior >= len(a.list) || s.Reported < 0 || s.Reported > maxMinor || !counts(s.Requests, s.Open, s.Held) || len(s.Masks) > masks {
		return nil
	}
	h := &hour{
		start: k, fresh: unconcluded, prior: s.Prior, guessed: s.Guessed, reported: s.Reported, requests: s.Requests, open: s.Open, held: s.Held, started: s.Started,
		sample: map[outcome]*asked{}, masks: map[against]*contradiction{}, agents: map[Agent]*sighting{},
	}
	for _, x := range s.Sample {
		o := outcome{Shape{x.Shape[0], x.Shape[1], x.Shape[2], x.Shape[3]}, nodeauthz.Allow, x.Forbidden}
		if x.Deny {
			o.implied = nodeauthz.Deny
		}
		if o.shape.tooLong() || h.sample[o] != nil || len(h.sample) >= shapes && o.shape != (Shape{}) || x.Fit < 0 || x.Fit > sampled || x.Not < 0 || x.Not > doubted {
			return nil
		}
		h.sample[o] = &asked{x.Fit, x.Not}
	}
	var all set
	for i := range a.list {
		all.add(i)
	}
	for _, x := range s.Masks {
		m := against{x.Set, x.Soft}
		if x.Set.count() == 0 || x.Set[0]&^all[0]|x.Set[1]&^all[1] != 0 || h.masks[m] != nil || !counts(x.Requests) || x.Minutes>>60 != 0 || len(x.First) == 0 || !areIDs(x.First) {
			return nil
		}
		h.masks[m] = &contradiction{x.Requests, x.Minutes, x.First}
	}
	of := map[string]int{}
	for _, x := range s.Agents {
		of[x.Program]++
		agent := Agent{x.Program, x.Version}
		if name, _ := userOf(x.Program); name == "" || len(x.Version) > idBytes || h.agents[agent] != nil || of[x.Program] > agents ||
			x.Minor < 1 || x.Minor > maxMinor || !counts(x.Requests) || x.Minutes>>60 != 0 {
			return nil
		}
		h.agents[agent] = &sighting{x.Minor, x.Requests, x.Minutes}
	}
	for _, x := range s.Doubts {
		if x.Hypothesis < 0 || x.Hypothesis >= len(a.list) || h.doubts[x.Hypothesis] != nil || !counts(x.Requests) || !areIDs(x.IDs) {
			return nil
		}
		if h.doubts == nil {
			h.doubts = map[int]*doubts{}
		}
		h.doubts[x.Hypothesis] = &doubts{x.Requests, x.IDs}
	}
	return h
}

func counts(all ...int64) bool {
	return !slices.ContainsFunc(all, func(n int64) bool { return n < 0 || n > maxCount })
}

func areIDs(all []string) bool {
	return len(all) <= examples && !slices.ContainsFunc(all, func(id string) bool { return len(id) > idBytes })
}

// tooLong reports whether no kind of request that is known has such names. These count together.
func (s *Shape) tooLong() bool {
	return len(s.Verb)+len(s.APIGroup)+len(s.Resource)+len(s.Subresource) > shapeBytes
}

// keptID is an audit ID to be kept. Clients may choose it.
func keptID(id string) string {
	if len(id) > idBytes {
		id = id[:idBytes]
	}
	return strings.Clone(strings.ToValidUTF8(id, ""))
}

// Observed reports whether requests of nodes were observed in any hour.
func (a *Accumulator) Observed() bool {
	for _, h := range a.hours {
		if h.requests+h.open > 0 {
			return true
		}
	}
	return false
}

// Forget forgets the hours that are over before a time, and returns what they said. What was in force in the last of them is so until the log tells more.
func (a *Accumulator) Forget(before time.Time) (said []Conclusion) {
	var latest *hour
	for _, h := range a.hours {
		if h.start < hourOf(before) && (latest == nil || h.start > latest.start) {
			latest = h
		}
	}
	if latest == nil {
		return nil
	}
	for _, c := range a.Conclusions() {
		if hourOf(c.Hour) <= latest.start {
			said = append(said, c)
		}
	}
	if a.given < 0 {
		a.prior = a.choose(latest, nil).Members[0]
	}
	maps.DeleteFunc(a.hours, func(k int64, _ *hour) bool { return k <= latest.start })
	a.last = nil
	a.changes++
	return said
}
