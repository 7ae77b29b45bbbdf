package tally

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
)

// MaxGroups bounds how many nodes a Tally tells apart, and how many groups of findings of one class ([Rooms]). Groups beyond that are counted by
// rule, node and class, and then by rule and class; nodes beyond it together. A hostile client can make names without end.
const MaxGroups = 50_000

// Others stands for the nodes beyond MaxGroups. No node can have that name.
const Others = "(others)"

// Bounds of lists in a Tally.
const (
	MaxAuditIDs  = 5
	MaxDisagree  = 1000
	MaxAmbient   = 200
	MaxMalformed = 20
	// MaxDays is as long as a store keeps counts by default; of more the latest are kept.
	MaxDays = 90
)

// Events counts what the input held.
type Events struct {
	// Read counts all events; Node those of node identities, of any stage; Judged the requests that were given a verdict.
	Read, Node, Judged int64
	// Duplicates came more than once to one process; Skipped no rule could need, or lay outside of the window asked for.
	Duplicates, Malformed, Skipped int64
	// MalformedAt says where, at most MaxMalformed of them.
	MalformedAt []Place
}

// Place is where something was wrong in an input.
type Place struct {
	File  string `json:"file"`
	Line  int    `json:"line"`
	Cause string `json:"cause"`
	// OfNoNode says that what is left of the event shows that it is no node's, and that nothing else needs it.
	OfNoNode bool `json:"ofNoNode,omitempty"`
}

// Add adds other to e.
func (e *Events) Add(other *Events) {
	e.Read += other.Read
	e.Node += other.Node
	e.Judged += other.Judged
	e.Duplicates += other.Duplicates
	e.Malformed += other.Malformed
	e.Skipped += other.Skipped
	if room := MaxMalformed - len(e.MalformedAt); room > 0 {
		e.MalformedAt = append(e.MalformedAt, other.MalformedAt[:min(room, len(other.MalformedAt))]...)
	}
}

// Sums are the counts of requests of nodes.
type Sums struct {
	Allow, Deny, Unknown, RaceAllow, RaceDeny int64
	// Undecided are those whose verdict neither the state nor the API server tells.
	Undecided int64
	// Compared and Agree compare verdicts outside of races, the next two within races.
	Compared, Agree, RacesCompared, RacesAgree int64
	// ReasonsCompared and ReasonsEqual compare the reasons of denials, races included.
	ReasonsCompared, ReasonsEqual int64
	// DisagreeMore counts disagreements beyond those listed.
	DisagreeMore int64
}

func (s *Sums) each(o *Sums, f func(*int64, int64)) {
	f(&s.Allow, o.Allow)
	f(&s.Deny, o.Deny)
	f(&s.Unknown, o.Unknown)
	f(&s.RaceAllow, o.RaceAllow)
	f(&s.RaceDeny, o.RaceDeny)
	f(&s.Undecided, o.Undecided)
	f(&s.Compared, o.Compared)
	f(&s.Agree, o.Agree)
	f(&s.RacesCompared, o.RacesCompared)
	f(&s.RacesAgree, o.RacesAgree)
	f(&s.ReasonsCompared, o.ReasonsCompared)
	f(&s.ReasonsEqual, o.ReasonsEqual)
	f(&s.DisagreeMore, o.DisagreeMore)
}

// Add adds other to s.
func (s *Sums) Add(other *Sums) { s.each(other, func(to *int64, n int64) { *to += n }) }

// Node counts one node's requests.
type Node struct {
	// Deny counts those that the Node authorizer denies, races included; Unknown those without a verdict, and Excess those that need RBAC
	// allowed.
	Requests, Deny, Unknown, Excess int64
}

// Group is the findings of one Key.
type Group struct {
	Count int64
	// Low is how many of Count are harmless ([rules.Harmless]).
	Low         int64
	First, Last time.Time
	// Severity is the highest.
	Severity rules.Severity
	// Allowed says that one of the requests passed authorization, Succeeded that one of those was carried out.
	Allowed, Succeeded bool
	// Reason and Params are the latest of that severity; of a wide group there are none.
	Reason rules.Reason
	Params codes.Params
	// AuditIDs are at most MaxAuditIDs.
	AuditIDs []string
	// Origins are who made the requests, from where, and how the API server answered.
	Origins Origins
	// Wide says that the group stands for many.
	Wide bool
	// Days is how many of Count, those of low severity left out, came on each day, in order; of access that needs RBAC only, at most MaxDays.
	Days []Day
}

// Day counts what came on a day, UTC, which is counted from 1970.
type Day struct{ Day, Count int64 }

// DayOf returns the day of a time.
func DayOf(t time.Time) int64 {
	s := t.Unix()
	if s < 0 {
		s -= 24*60*60 - 1
	}
	return s / (24 * 60 * 60)
}

// Tally is the sum of entries. Not safe for concurrent use.
type Tally struct {
	Events Events
	// From and To bound the requests' times; zero if there was none.
	From, To      time.Time
	Sums          Sums
	Disagreements []Disagreement
	Nodes         map[string]*Node
	Groups        map[Key]*Group
	Ambient       map[AmbientKey]int64
	// Admission counts the writes that NodeRestriction was asked about.
	Admission map[AdmissionKey]*int64

	owned map[AmbientKey]*AmbientKey // the keys of [Ambient]
	max   int
	rooms *Rooms
	names *Names // nil for none that are shared
}

// New returns an empty tally.
func New() *Tally { return newBounded(MaxGroups) }

func newBounded(most int) *Tally {
	return &Tally{Nodes: map[string]*Node{}, Groups: map[Key]*Group{}, Ambient: map[AmbientKey]int64{}, Admission: map[AdmissionKey]*int64{}, owned: map[AmbientKey]*AmbientKey{}, max: most, rooms: NewRooms(most)}
}

// Bound sets how many groups and nodes are distinguished, of a tally to which nothing was added yet.
func (t *Tally) Bound(most int) { t.max, t.rooms = most, NewRooms(most) }

// Share has the keys of groups share their strings with those of other tallies.
func (t *Tally) Share(names *Names) { t.names = names }

// Add takes in one entry. Nothing of it is kept that may alias other memory.
func (t *Tally) Add(e *Entry) {
	if e.IsNode {
		t.request(e)
	}
	for i := range e.Findings {
		f := &e.Findings[i]
		if f.Key.Rule == rules.ExcessAccess && e.IsNode {
			t.node(e.Node).Excess++
		}
		if g := t.AddFinding(e, f); len(g.AuditIDs) < MaxAuditIDs {
			g.AuditIDs = append(g.AuditIDs, strings.Clone(Bounded(f.AuditID)))
		}
	}
}

func (t *Tally) request(e *Entry) {
	widen(&t.From, &t.To, e.Time)
	n := t.node(e.Node)
	n.Requests++
	s := &t.Sums
	switch e.Verdict {
	case nodeauthz.Allow:
		s.Allow++
		if e.Race {
			s.RaceAllow++
		}
	case nodeauthz.Deny:
		s.Deny++
		n.Deny++
		if e.Race {
			s.RaceDeny++
		}
	case nodeauthz.Unknown:
		s.Unknown++
		n.Unknown++
		if e.Observed == nodeauthz.NotNode {
			s.Undecided++
		}
	}
	if e.Ambient != nil {
		t.ambient(e.Ambient, 1)
	}
	if e.Admission != nil {
		t.admission(e.Admission, 1)
	}
	t.compare(e)
}

func (t *Tally) admission(k *AdmissionKey, n int64) {
	c := t.Admission[*k]
	if c == nil {
		owned := *k
		owned.own()
		c = new(int64)
		t.Admission[owned] = c
	}
	*c += n
}

func (t *Tally) compare(e *Entry) {
	if e.Verdict == nodeauthz.Unknown || e.Observed == nodeauthz.NotNode {
		return
	}
	s := &t.Sums
	if e.ReasonCompared {
		s.ReasonsCompared++
		if e.ReasonEqual {
			s.ReasonsEqual++
		}
	}
	agree := e.Verdict == e.Observed
	switch {
	case e.Disagreement != nil:
		d := *e.Disagreement
		d.own()
		t.disagree(d)
	case e.Race && agree:
		s.RacesAgree++
		fallthrough
	case e.Race:
		s.RacesCompared++
		return
	case agree:
		s.Agree++
	}
	s.Compared++
}

func (t *Tally) disagree(d Disagreement) {
	if len(t.Disagreements) >= MaxDisagree {
		t.Sums.DisagreeMore++
		return
	}
	t.Disagreements = append(t.Disagreements, d)
}

// node returns what is counted of the node, or of the others where there are too many.
func (t *Tally) node(name string) *Node {
	name = Bounded(name)
	n := t.Nodes[name]
	if n != nil {
		return n
	}
	if len(t.Nodes) >= t.max {
		if n = t.Nodes[Others]; n != nil {
			return n
		}
		name = Others
	}
	n = &Node{}
	t.Nodes[strings.Clone(name)] = n
	return n
}

func (t *Tally) ambient(k *AmbientKey, n int64) {
	owned := t.owned[*k]
	if owned == nil {
		owned = &AmbientKey{}
		if _, there := t.Ambient[*k]; there || len(t.Ambient) < MaxAmbient-1 {
			*owned = *k
			owned.own()
			t.owned[*owned] = owned
		}
	}
	t.Ambient[*owned] += n // adding under k would put k in place of the key, with whatever memory it aliases
}

// AddFinding takes in one finding of an entry, but for its audit ID, and of the entry nothing else. It returns the finding's group.
func (t *Tally) AddFinding(e *Entry, f *Finding) *Group {
	one := Group{Count: 1, First: e.Time, Last: e.Time, Severity: f.Severity, Allowed: f.Allowed, Succeeded: e.Succeeded(f), Reason: f.Reason, Params: f.Params}
	if rules.Harmless(f.Severity, f.Reason) {
		one.Low = 1
	}
	g := t.group(&f.Key, f.Class(), false)
	g.add(&one)
	g.trend(f.Key.Rule, &one)
	g.Origins.Add(&e.Origin)
	return g
}

// group returns the group of the key, a wider one where there are too many.
func (t *Tally) group(k *Key, c Class, wide bool) *Group {
	if g := t.Groups[*k]; g != nil {
		return g
	}
	key, room := t.rooms.Place(k, c, wide, func(k Key) bool { return t.Groups[k] != nil })
	if g := t.Groups[key]; g != nil {
		return g
	}
	t.names.own(&key)
	g := &Group{Wide: room.Wide}
	t.Groups[key] = g
	return g
}

// add adds all but the audit IDs and the origins.
func (g *Group) add(o *Group) {
	g.Count += o.Count
	g.Low += o.Low
	g.Allowed, g.Succeeded = g.Allowed || o.Allowed, g.Succeeded || o.Succeeded
	if o.Severity > g.Severity || o.Severity == g.Severity && o.Last.After(g.Last) { // of what continues the latest word counts
		g.Severity = o.Severity
		if !g.Wide {
			g.Reason = o.Reason
			if !g.Params.Equal(o.Params) {
				g.Params = o.Params.Own()
			}
		}
	}
	widen(&g.First, &g.Last, o.First)
	widen(&g.First, &g.Last, o.Last)
}

// trend adds the days of o. One without days is of a single one, as the store has them.
func (g *Group) trend(rule string, o *Group) {
	if rule != rules.ExcessAccess {
		return
	}
	if len(o.Days) == 0 && o.Count > o.Low && !o.First.IsZero() {
		g.onDay(DayOf(o.First), o.Count-o.Low)
	}
	for _, d := range o.Days {
		g.onDay(d.Day, d.Count)
	}
}

func (g *Group) onDay(day, n int64) {
	i, there := slices.BinarySearchFunc(g.Days, day, func(d Day, day int64) int { return cmp.Compare(d.Day, day) })
	if there {
		g.Days[i].Count += n
		return
	}
	g.Days = slices.Insert(g.Days, i, Day{day, n})
	if len(g.Days) > MaxDays {
		g.Days = slices.Delete(g.Days, 0, 1)
	}
}

// widen makes the interval hold t. The zero time is none.
func widen(from, to *time.Time, t time.Time) {
	if t.IsZero() {
		return
	}
	if from.IsZero() || t.Before(*from) {
		*from = t
	}
	if t.After(*to) {
		*to = t
	}
}

// EndBy says that the requests end with the one of newest: what has a later time, by a clock that is wrong, counts, but does not move the end.
func (t *Tally) EndBy(newest time.Time) {
	if !newest.IsZero() && t.To.After(newest) && !t.From.After(newest) {
		t.To = newest
	}
}

// Merge adds the other tally to t. The other must not be used afterwards.
func (t *Tally) Merge(o *Tally) {
	t.Events.Add(&o.Events)
	widen(&t.From, &t.To, o.From)
	widen(&t.From, &t.To, o.To)
	t.Sums.Add(&o.Sums)
	for i := range o.Disagreements {
		t.disagree(o.Disagreements[i])
	}
	for name, n := range o.Nodes {
		to := t.node(name)
		to.Requests += n.Requests
		to.Deny += n.Deny
		to.Unknown += n.Unknown
		to.Excess += n.Excess
	}
	for k, g := range o.Groups {
		t.MergeGroup(k, g)
	}
	for k, n := range maps.All(o.Ambient) {
		t.ambient(&k, n)
	}
	for k, n := range maps.All(o.Admission) {
		t.admission(&k, *n)
	}
}

// MergeGroup adds a group of findings.
func (t *Tally) MergeGroup(k Key, g *Group) {
	to := t.group(&k, g.Class(&k), g.Wide)
	to.add(g)
	to.trend(k.Rule, g)
	to.Origins.Merge(&g.Origins)
	if room := MaxAuditIDs - len(to.AuditIDs); room > 0 {
		to.AuditIDs = append(to.AuditIDs, g.AuditIDs[:min(room, len(g.AuditIDs))]...)
	}
}
