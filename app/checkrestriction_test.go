package app

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// restrictionDay is what is known of a window of some hours.
type restrictionDay struct {
	hours   int
	refused []int    // hours in which the plugin refused something in its own words
	servers []string // API servers that renew their Lease in each hour
	starts  []int    // minutes in which the first of them starts
	at      []int    // minutes in which the plugin refused something, in addition
	bypass  *tally.Key
	one     bool          // there is one API server, by configuration
	blind   bool          // nobody looked for refusals
	from    time.Duration // after the first hour's start: when the window begins
	stored  func(*restrictionBook) *restrictionBook
}

// result is the check's state with its items in short.
func (d *restrictionDay) result(t *testing.T) (string, []string) {
	t.Helper()
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	p := proof{
		minWindow: time.Duration(d.hours)*time.Hour - d.from, to: from.Add(time.Duration(d.hours) * time.Hour), ledger: evidence.New(),
		tally: &tally.Tally{Groups: map[tally.Key]*tally.Group{}},
	}
	for h := range d.hours {
		for _, name := range d.servers {
			for second := 0; second < 3600; second += 10 {
				p.ledger.Observe(ofLease("update", name, from.Add(time.Duration(h)*time.Hour+time.Duration(second)*time.Second)), evidence.Origin{})
			}
		}
	}
	for _, m := range d.starts {
		p.ledger.Observe(ofLease("get", d.servers[0], from.Add(time.Duration(m)*time.Minute)), evidence.Origin{})
	}
	if !d.blind {
		p.restricted = newRestrictionBook()
		minutes := slices.Clone(d.at)
		for _, h := range d.refused {
			minutes = append(minutes, h*60+1)
		}
		for _, m := range minutes {
			p.restricted.add(refusedAt(from.Add(time.Duration(m) * time.Minute)))
		}
		p.restricted.add(&pipeline.Judgement{Request: rules.Request{Time: from, Admission: rules.Admission{Observed: nodeadmission.ObservedOther}}})
	}
	if d.stored != nil {
		p.restricted = d.stored(p.restricted)
	}
	if d.bypass != nil {
		p.tally.Groups[*d.bypass] = &tally.Group{Count: 2, Severity: rules.Critical, AuditIDs: []string{"a"}, First: from, Last: from}
	}
	in := checks.Input{Options: checks.Options{MinWindow: p.minWindow}}
	if d.one {
		in.Servers.Configured = 1
	}
	p.restriction(&in)
	results := checks.Run(&in)
	r := &results[slices.IndexFunc(results, func(r checks.Result) bool { return r.Check == "node-restriction-on" })]
	var items []string
	for _, i := range r.Evidence {
		clock := func(t time.Time) string {
			hours := t.Sub(from).Hours()
			if hours == float64(int(hours)) || i.Code == checks.CodeNotLookedAt {
				return strconv.Itoa(int(hours))
			}
			return fmt.Sprintf("%d:%02d:%02d", int(hours), t.Minute(), t.Second())
		}
		items = append(items, fmt.Sprintf("%s %s %s-%s", i.State, i.Code, clock(i.From), clock(i.To)))
	}
	return r.State.String(), items
}

// ofLease is a request of an API server for its own Lease.
func ofLease(verb, name string, at time.Time) *audit.Event {
	return &audit.Event{
		Stage: audit.StageResponseComplete, Verb: verb, Code: 200, RequestReceived: at, User: audit.User{Username: "system:apiserver"},
		ObjectRef: audit.ObjectRef{Resource: "leases", APIGroup: "coordination.k8s.io", Namespace: "kube-system", Name: name},
	}
}

// refusedAt is a request that NodeRestriction refused.
func refusedAt(at time.Time) *pipeline.Judgement {
	return &pipeline.Judgement{Request: rules.Request{Time: at, Admission: rules.Admission{Observed: nodeadmission.ObservedDeny}}}
}

// throughStore is a book that two processes stored, each of them the refusals of every second slot, after another one stored their hours as earlier versions do.
func throughStore(b *restrictionBook) *restrictionBook {
	var all []tally.Remembered
	books := [2]*restrictionBook{newRestrictionBook(), newRestrictionBook()}
	for _, x := range b.refused {
		for i, slot := range x.Slots {
			books[i%2].add(refusedAt(evidence.SlotStart(slot)))
		}
	}
	for i, one := range books {
		all = append(all, one.changes(strconv.Itoa(i))...)
		if more := one.changes(strconv.Itoa(i)); len(more) > 0 {
			panic("it is stored again")
		}
	}
	return restrictionOf(append(all, asBefore(b)...))
}

// asBefore is what earlier versions store of a book.
func asBefore(b *restrictionBook) (out []tally.Remembered) {
	for h := range b.refused {
		out = append(out, tally.Remembered{Kind: rememberedRestriction, Key: strconv.Itoa(int(h)), Value: []byte("{}")})
	}
	return out
}

// What a flag says is shown for each life of the API server.
func TestRestrictionOfEachLife(t *testing.T) {
	one := []string{"apiserver-a"}
	old := func(b *restrictionBook) *restrictionBook { return restrictionOf(asBefore(b)) }
	const life = "unproven restriction-not-seen-between-starts "
	for name, c := range map[string]struct {
		day   restrictionDay
		items []string
	}{
		"a start after the last refusal":          {restrictionDay{hours: 2, at: []int{25, 85}, starts: []int{88}}, []string{life + "1:28:05-2"}},
		"and one after it":                        {restrictionDay{hours: 2, at: []int{25, 85, 95}, starts: []int{88}}, nil},
		"the next hour's is of the new life":      {restrictionDay{hours: 2, at: []int{25, 85}, starts: []int{28}}, nil},
		"a life without one between two":          {restrictionDay{hours: 3, at: []int{25, 85, 145}, starts: []int{88, 140}}, []string{life + "1:28:05-2:20:00"}},
		"two such lives":                          {restrictionDay{hours: 2, at: []int{25, 115}, starts: []int{80, 100, 110}}, []string{life + "1:20:05-1:50:00"}},
		"the first life has none":                 {restrictionDay{hours: 2, at: []int{25, 85}, starts: []int{20}}, []string{life + "0-0:20:00"}},
		"of the window it has less than a minute": {restrictionDay{hours: 2, at: []int{25, 85}, starts: []int{20}, from: 19*time.Minute + 1}, nil},
		"it is before the window":                 {restrictionDay{hours: 2, at: []int{25, 85}, starts: []int{20}, from: 21 * time.Minute}, nil},
		"a refusal right before a start":          {restrictionDay{hours: 1, at: []int{25, 50}, starts: []int{26}}, []string{life + "0-0:26:00"}},
		"an hour without one, of a life with one": {restrictionDay{hours: 3, at: []int{25, 145}, starts: []int{28}}, []string{"unproven restriction-not-seen 1-2"}},
		"of earlier versions, without a start":    {restrictionDay{hours: 2, at: []int{25, 85}, stored: old}, nil},
		"of earlier versions, with one": {
			restrictionDay{hours: 3, at: []int{25, 85, 145}, starts: []int{140}, stored: old}, []string{life + "2:20:05-3"},
		},
		"of earlier versions, one in each hour": {
			restrictionDay{hours: 1, at: []int{25, 35}, starts: []int{30}, stored: old}, []string{life + "0-1"},
		},
	} {
		c.day.servers = one
		state := "passed"
		if len(c.items) > 0 {
			state = "unproven"
		}
		for range 2 {
			if got, items := c.day.result(t); got != state || !slices.Equal(items, c.items) {
				t.Errorf("%s, stored %t: %s %q, want %q", name, c.day.stored != nil, got, items, c.items)
			}
			if c.day.stored == nil {
				c.day.stored = throughStore
			}
		}
	}
}

// A server that does not get its Lease asks for it again, which is no further start. One that renewed it in between started again.
func TestServerLives(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		gets, renewals []int // seconds
		want           int
	}{
		"none":                    {nil, []int{0, 10}, 1},
		"one":                     {[]int{100}, []int{90, 100, 110}, 2},
		"asked again":             {[]int{100, 107, 113}, []int{90, 114, 124}, 2},
		"made, as it was missing": {[]int{104, 105}, []int{105, 115}, 2},
		"another one":             {[]int{100, 140}, []int{90, 100, 110, 120, 140, 150}, 3},
	} {
		l := evidence.New()
		for _, s := range c.gets {
			l.Observe(ofLease("get", "apiserver-a", from.Add(time.Duration(s)*time.Second)), evidence.Origin{})
		}
		for _, s := range c.renewals {
			l.Observe(ofLease("update", "apiserver-a", from.Add(time.Duration(s)*time.Second)), evidence.Origin{})
		}
		h := evidence.HourOf(from)
		if got := serverLives(l, h, h); len(got) != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRestriction(t *testing.T) {
	one, two := []string{"apiserver-a"}, []string{"apiserver-a", "apiserver-b"}
	bypass := &tally.Key{Rule: rules.RestrictionBypass, Node: "worker-1", Verb: "patch", Resource: "nodes", Name: "worker-1"}
	foreign := &tally.Key{Rule: rules.ForeignWrite, Node: "worker-1", Verb: "patch", Resource: "nodes", Name: "worker-2"}
	for _, c := range []struct {
		name  string
		day   restrictionDay
		state string
		items []string
	}{
		{"refused in each hour", restrictionDay{hours: 3, refused: []int{0, 1, 2}, servers: one}, "passed", nil},
		{"not in one of them", restrictionDay{hours: 3, refused: []int{0, 2}, servers: one}, "unproven", []string{"unproven restriction-not-seen 1-2"}},
		{"in none", restrictionDay{hours: 3, servers: one}, "unproven", []string{"unproven restriction-not-seen 0-3"}},
		{"one of two servers refused", restrictionDay{hours: 2, refused: []int{0, 1}, servers: two}, "unproven", []string{"unproven restriction-of-one-server 0-2"}},
		{"there is one, and the log does not have its Lease", restrictionDay{hours: 2, refused: []int{0, 1}, one: true}, "unproven", []string{"unproven restriction-without-starts 0-2"}},
		{"nobody knows how many servers there are", restrictionDay{hours: 2, refused: []int{0}}, "unproven",
			[]string{"unproven restriction-of-one-server 0-1", "unproven restriction-not-seen 1-2"}},
		{"a write passed", restrictionDay{hours: 1, refused: []int{0}, servers: one, bypass: bypass}, "failed", []string{"failed restriction-bypassed 0-0"}},
		{"a write of another's object passed", restrictionDay{hours: 1, refused: []int{0}, servers: one, bypass: foreign}, "failed", []string{"failed restriction-bypassed 0-0"}},
		{"a write passed, of a store", restrictionDay{hours: 1, bypass: bypass, blind: true}, "failed", []string{"failed restriction-bypassed 0-0"}},
		{"of a store", restrictionDay{hours: 1, blind: true}, "unproven", []string{"unproven not-looked-at 0-0"}},
	} {
		state, items := c.day.result(t)
		for i := range items {
			if c.name == "of a store" {
				items[i] = "unproven not-looked-at 0-0" // it has no times
			}
		}
		if state != c.state || !slices.Equal(items, c.items) {
			t.Errorf("%s: %s %q, want %s %q", c.name, state, items, c.state, c.items)
		}
	}
}
