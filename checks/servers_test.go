package checks

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/evidence"
)

// lines are the result's figures and its items, a line for each: what, of which server or node, from when to when, how many of how many were seen, of
// which request, and for how many it stands.
func lines(r *Result) []string {
	out := []string{fmt.Sprintf("%s %d/%d", r.State, r.Seen, r.Expected)}
	for i := range r.Evidence {
		x := &r.Evidence[i]
		line := fmt.Sprintf("%s %s", x.State, x.Code)
		if who := x.Server + x.Node; who != "" {
			line += " " + who
		}
		if !x.From.IsZero() {
			line += fmt.Sprintf(" %s-%s", x.From.Format(time.TimeOnly), x.To.Format(time.TimeOnly))
		}
		if x.Expected != 0 {
			line += fmt.Sprintf(" %d/%d", x.Seen, x.Expected)
		}
		if x.Request != "" {
			line += ": " + x.Request
		}
		if x.Count != 0 {
			line += fmt.Sprintf(" (%d)", x.Count)
		}
		out = append(out, line)
	}
	return out
}

// bySource is a log without identity Leases, of which each event comes from the API server that of names; none where that is empty.
func bySource(of func(t *tick, i int) string) func(*Input) {
	return func(in *Input) {
		var kept []tick
		for i, t := range ticks(nil) {
			if t.o.Source = of(&t, i); t.o.Node != "" && t.o.Source != "" {
				kept = append(kept, t)
			}
		}
		in.Ledger, in.Servers = ledger(kept, nil), Servers{Configured: 2, Apart: true}
	}
}

// Which API servers are missing, when, and how many of how many.
func TestServersThatAreMissing(t *testing.T) {
	inTurn := func(_ *tick, i int) string { return []string{"a", "b"}[i%2] }
	alone := func(*tick, int) string { return "a" }
	oneFrom := func(from, to time.Time) func(*tick, int) string {
		return func(t *tick, i int) string {
			if name := inTurn(t, i); name == "a" || t.time().Before(from) || !t.time().Before(to) {
				return name
			}
			return ""
		}
	}
	ended := func(to time.Time) func(*Input) {
		return all(without(renewals("apiserver-1", to, at(23, 0, 0))), func(in *Input) { in.Servers.Live[1].Lives = []Span{{at(1, 0, 0), to}} })
	}
	servers := func(s Servers) func(*Input) { return func(in *Input) { in.Servers = s } }
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"none", func(*Input) {}, []string{"passed 2119/2119"}},
		{"one of two is known", all(without(func(t *tick) bool { return t.who() == "apiserver-1" }), servers(Servers{Configured: 2})), []string{"unproven 1059/1059", "unproven servers-too-few 12:20:00-15:20:00 1/2"}},
		{"one ended before the window", ended(at(12, 20, 0)), []string{"unproven 1059/1059", "unproven servers-too-few 12:20:00-15:20:00 1/2"}},
		{"one renews nothing for half an hour", without(renewals("apiserver-1", at(14, 0, 0), at(14, 30, 0))), []string{"unproven 1943/2119", "unproven server-missing apiserver-1 14:00:00-15:00:00 177/353"}},
		{"one renews less often than it may, by single renewals", without(single(8, "apiserver-0")), []string{
			"unproven 2111/2118", "unproven server-missing apiserver-0 14:00:00-15:00:00 345/352", "passed server-restart apiserver-0 14:00:00-15:00:00 345/352",
		}},
		{"one renews nothing for half a minute", without(renewals("apiserver-1", at(14, 0, 0), at(14, 0, 30))), []string{"passed 2116/2119"}},
		{"one renews nothing for half an hour, and so much may be lost", all(without(renewals("apiserver-1", at(14, 0, 0), at(14, 30, 0))), func(in *Input) { in.MaxLoss = 0.5 }), []string{"passed 1943/2119"}},
		{"one starts after two minutes", without(renewals("apiserver-0", at(13, 58, 30), at(14, 0, 30))), []string{"passed 2107/2107", "passed server-restart apiserver-0 13:00:00-15:00:00 694/694"}},
		{"one starts after three minutes", without(renewals("apiserver-0", at(13, 57, 30), at(14, 0, 30))), []string{
			"unproven 2101/2107", "unproven server-missing apiserver-0 13:00:00-14:00:00 338/344", "passed server-restart apiserver-0 13:00:00-15:00:00 688/694",
		}},
		{"two sources", bySource(inTurn), []string{"passed 8/8"}},
		{"three sources for two", bySource(func(_ *tick, i int) string { return []string{"a", "b", "c"}[i%3] }), []string{"passed 8/8"}},
		{"one source of two in an hour", bySource(oneFrom(at(13, 0, 0), at(14, 0, 0))), []string{"unproven 7/8", "unproven servers-too-few 13:00:00-14:00:00 1/2"}},
		{"one source of two in the last hour", bySource(oneFrom(at(15, 0, 0), at(16, 0, 0))), []string{"unproven 7/8", "unproven servers-too-few 15:00:00-16:00:00 1/2"}},
		{"one source of two in the window's part of an hour", bySource(oneFrom(at(12, 20, 0), at(13, 0, 0))), []string{"unproven 7/8", "unproven servers-too-few 12:00:00-13:00:00 1/2"}},
		{"a source at the beginning of an hour alone", bySource(oneFrom(at(13, 5, 0), at(14, 0, 0))), []string{"passed 8/8"}},
		{"one source of two in a brief hour", all(bySource(oneFrom(noon, at(13, 0, 0))), func(in *Input) { in.MinWindow = in.Log.Until.Sub(at(12, 56, 0)) }), []string{"passed 6/6"}},
		{"two sources in a brief hour", all(bySource(inTurn), func(in *Input) { in.MinWindow = in.Log.Until.Sub(at(12, 56, 0)) }), []string{"passed 8/8"}},
		{"one source of one, which names nobody", all(bySource(alone), servers(Servers{Configured: 1})), []string{"passed 4/4"}},
		{"two sources that do not tell servers apart", all(bySource(inTurn), servers(Servers{Configured: 2})), []string{"unproven 0/0", "unproven servers-unknown"}},
		{"sources, and nobody knows how many servers there are", all(bySource(inTurn), servers(Servers{Apart: true})), []string{"unproven 0/0", "unproven servers-unknown"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clean()
			c.change(in)
			r := serversSeen(in)
			if diff := cmp.Diff(c.want, lines(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A server that ended was there up to the end of its last renewal in the log, if the log can lack no more than a hundredth of an hour of that.
func TestLifeUntilLastRenewal(t *testing.T) {
	ended := Span{at(14, 0, 0), at(14, 0, 30)}
	before, life := Span{at(1, 0, 0), at(9, 0, 0)}, Span{From: at(13, 0, 0)}
	for _, c := range []struct {
		name  string
		last  time.Time // renewal in the log
		ended Span
		want  Span
	}{
		{"nothing ended", at(14, 0, 0), Span{}, life},
		{"in the time", at(14, 0, 10), ended, Span{life.From, at(14, 0, 15)}},
		{"before the time", at(13, 50, 0), ended, Span{life.From, at(14, 0, 0)}},
		{"in the last slot that may be", at(14, 0, 30), ended, Span{life.From, at(14, 0, 35)}},
		{"after the time", at(14, 0, 35), ended, life},
		{"36 seconds before the end", at(13, 59, 55), Span{at(13, 59, 50), at(14, 0, 36)}, Span{life.From, at(14, 0, 0)}},
		{"more than 36 seconds before the end", at(13, 59, 55), Span{at(13, 59, 50), at(14, 0, 36).Add(1)}, life},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := evidence.New()
			for _, e := range []tick{ofServer("apiserver-0", "update", at(13, 10, 0)), ofServer("apiserver-0", "update", c.last)} {
				l.Observe(&e.ev, e.o)
			}
			s := Server{Name: "apiserver-0", Lives: []Span{before, life}, Ended: c.ended}
			w := window{from: at(12, 0, 0), to: at(15, 0, 0), first: evidence.HourOf(at(12, 0, 0)), last: evidence.HourOf(at(14, 0, 0))}
			if got, want := s.livesBy(l, &w), []Span{before, c.want}; !slices.Equal(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
}

// A server that takes the place of another does not count twice, and the time between them counts.
func TestFewerAtOnce(t *testing.T) {
	w := window{from: at(12, 0, 0), to: at(16, 0, 0)}
	whole := Server{Name: "a", Lives: []Span{{From: at(1, 0, 0)}}}
	life := func(name string, from, to time.Time) Server { return Server{Name: name, Lives: []Span{{from, to}}} }
	for name, c := range map[string]struct {
		servers []Server
		n       int
		want    []string
	}{
		"nobody says":                {[]Server{whole}, 0, nil},
		"one":                        {[]Server{whole}, 1, nil},
		"more than there have to be": {[]Server{whole, whole, whole}, 2, nil},
		"too few":                    {[]Server{whole, whole}, 3, []string{"12:00-16:00 2/3"}},
		"at once":                    {[]Server{whole, life("b", at(1, 0, 0), at(14, 0, 0)), life("c", at(14, 0, 0), time.Time{})}, 2, nil},
		"with a gap":                 {[]Server{whole, life("b", at(1, 0, 0), at(14, 0, 0)), life("c", at(14, 30, 0), time.Time{})}, 2, []string{"14:00-14:30 1/2"}},
		"and both are there":         {[]Server{whole, life("b", at(1, 0, 0), at(14, 30, 0)), life("c", at(14, 0, 0), time.Time{})}, 3, []string{"12:00-14:00 2/3", "14:30-16:00 2/3"}},
		"fewer and fewer":            {[]Server{whole, life("b", at(1, 0, 0), at(14, 0, 0)), life("c", at(1, 0, 0), at(13, 0, 0))}, 3, []string{"13:00-16:00 1/3"}},
		"one with two lives":         {[]Server{{Name: "a", Lives: []Span{{at(1, 0, 0), at(13, 0, 0)}, {From: at(14, 0, 0)}}}}, 1, []string{"13:00-14:00 0/1"}},
		"none of the window":         {[]Server{whole, life("b", at(1, 0, 0), at(12, 0, 0)), life("c", at(16, 0, 0), time.Time{})}, 2, []string{"12:00-16:00 1/2"}},
	} {
		var p proof
		fewerAtOnce(c.servers, &w, c.n, &p)
		var got []string
		for _, e := range p.r.Evidence {
			got = append(got, fmt.Sprintf("%s-%s %d/%d", e.From.Format("15:04"), e.To.Format("15:04"), e.Seen, e.Expected))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
