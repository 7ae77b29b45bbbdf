package store

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// flooded puts long names of refused requests, some allowed ones, a gap and one theft into a store, over three hours.
func flooded(t *testing.T, s *Store, most int) tally.Key {
	t.Helper()
	ctx := context.Background()
	must(s.Acquire(ctx, "files", 0, 0))(t)
	long := strings.Repeat("x", 400)
	n := 0
	entry := func(when time.Time, f tally.Finding) tally.Entry {
		n++
		f.AuditID = fmt.Sprint("audit-", n)
		e := request(n, when)
		e.Findings = []tally.Finding{f}
		return e
	}
	read := func(name string, severity rules.Severity, allowed bool) tally.Finding {
		return tally.Finding{
			Key:    tally.Key{Rule: rules.ExcessAccess, Node: "worker-1", Verb: "get", Resource: "secrets", Namespace: "shop", Name: name},
			Reason: rules.Reason("seen as " + severity.String()), Severity: severity, Allowed: allowed,
		}
	}
	theft := read("root-password", rules.Critical, true)
	var entries []tally.Entry
	for i := range most {
		when := at(time.Duration(i/3%3)*time.Hour + time.Duration(i*7919%most)*time.Millisecond)
		entries = append(entries, entry(when, read(fmt.Sprint(long, i), rules.Severity(1+i%3), false)))
		if i%10 == 0 {
			entries = append(entries, entry(when, read(fmt.Sprint(long, "allowed", i), rules.Severity(1+i%3), true)))
		}
		if i == most/2 {
			entries = append(entries, entry(at(0), theft)) // the oldest of all
			gap := tally.Finding{Key: tally.Key{Rule: rules.CoverageGap, Name: "files", Reason: rules.LogLost}, Reason: rules.LogLost, Severity: rules.Low}
			entries = append(entries, entry(at(0), gap))
		}
	}
	for len(entries) > 0 {
		k := min(len(entries), 2000)
		ok(t, s.Commit(ctx, commit("files", 0, fmt.Sprint(len(entries)), entries[:k]...)))
		entries = entries[k:]
	}
	return theft.Key
}

// counted sums the groups of a tally.
func counted(all *tally.Tally) (requests, named, refused, allowed, gaps int64) {
	for k, g := range all.Groups {
		requests += g.Count
		switch {
		case g.Wide:
		case k.Rule == rules.CoverageGap:
			gaps++
		case g.Allowed:
			named, allowed = named+1, allowed+1
		default:
			named, refused = named+1, refused+1
		}
	}
	return requests, named, refused, allowed, gaps
}

// A flood of long names gives way before anything that was allowed, low severities before high ones, and the theft last; whatever goes is still counted.
func TestAttack02StoreKeepsToItsBytes(t *testing.T) {
	both(t, func(t *testing.T, site *site) {
		ctx := context.Background()
		s := site.open(t, Options{MaxGroups: 1 << 20, MaxBytes: 1 << 40})
		theft := flooded(t, s, 6000)
		before := all(t, s)
		requests, _, refused, allowed, _ := counted(before)
		if got := must(s.Shrink(ctx))(t); got.Groups != 0 || got.Bytes < 2<<20 {
			t.Fatalf("below its bound: %+v", got)
		}
		changes := changesOf(t, s)
		for _, bound := range []int64{3 << 20, 2 << 20, 0} {
			rest := restOf(t, s) // what is no finding, and is not folded
			s.options.MaxBytes = max(bound, (rest+64<<10)/9*10+10)
			got := must(s.Shrink(ctx))(t)
			now := all(t, s)
			sum, named, nowRefused, nowAllowed, gaps := counted(now)
			if sum != requests {
				t.Errorf("bound %d: %d requests are counted, want %d", bound, sum, requests)
			}
			if kept := bytesOf(t, s, "allowed <> 0"); got.Groups == 0 || got.Bytes > s.options.MaxBytes && kept > s.options.MaxBytes/4 {
				t.Errorf("bound %d of %d: %+v, with %d named groups", s.options.MaxBytes, bound, got, named)
			}
			if nowAllowed < allowed && nowRefused > 0 {
				t.Errorf("bound %d: %d of %d allowed groups are left next to %d refused", bound, nowAllowed, allowed, nowRefused)
			}
			if g := now.Groups[theft]; g == nil || g.Wide || g.Count != 1 || len(g.AuditIDs) != 1 {
				t.Errorf("bound %d: the theft is %+v", bound, g)
			}
			if gaps != 1 {
				t.Errorf("bound %d: %d gaps", bound, gaps)
			}
			if nowRefused >= refused {
				t.Errorf("bound %d: %d refused groups, had %d", bound, nowRefused, refused)
			}
			low, high := severities(now)
			if low > 0 && high < refused/3 {
				t.Errorf("bound %d: %d low refused groups are left next to %d high ones", bound, low, high)
			}
			if last, first := folded(before, now); last != "" && first != "" && last > first {
				t.Errorf("bound %d: folded up to %s, and %s is left", bound, last, first)
			}
			refused, allowed = nowRefused, nowAllowed
		}
		if changesOf(t, s) <= changes {
			t.Error("readers that know a step's changes do not see that it changed")
		}
		// What comes after is counted, and has its name, as before.
		e := request(1<<20, at(0))
		e.Findings = []tally.Finding{{Key: tally.Key{Rule: rules.ExcessAccess, Node: "worker-2", Name: "late"}, Severity: rules.Low}}
		ok(t, s.Commit(ctx, commit("files", 0, "end", e)))
		if g := all(t, s).Groups[e.Findings[0].Key]; g == nil || g.Wide {
			t.Errorf("a later group is %+v", g)
		}
		// What is no finding may be larger than the bound. A quarter of the bound is left to the names of what was allowed, the theft among them.
		s.options.MaxBytes = restOf(t, s) / 2
		had := bytesOf(t, s, "allowed <> 0")
		got := must(s.Shrink(ctx))(t)
		kept, most := bytesOf(t, s, "allowed <> 0"), s.options.MaxBytes/4
		if g := all(t, s).Groups[theft]; !got.Over || g == nil || g.Wide || kept > most || kept < min(had, most)-1000 {
			t.Errorf("a store that is full of other things: %+v, %d bytes are of what was allowed, the theft is %+v", got, kept, g)
		}
	})
}

// folded returns the most important of the groups that lost their names, and the least important of those that have them. Of texts, the earlier is of
// less importance.
func folded(before, now *tally.Tally) (last, first string) {
	for k, g := range before.Groups {
		if g.Wide || k.Rule == rules.CoverageGap {
			continue
		}
		importance := fmt.Sprintf("%d %d %s", outcome(g), g.Severity, g.Last.UTC().Format("2006-01-02T15:04:05.000000000"))
		switch left := now.Groups[k]; {
		case left == nil:
			last = max(last, importance)
		case first == "" || importance < first:
			first = importance
		}
	}
	return last, first
}

// severities counts refused groups by severity.
func severities(all *tally.Tally) (low, high int64) {
	for k, g := range all.Groups {
		if g.Wide || g.Allowed || k.Rule == rules.CoverageGap {
			continue
		}
		switch g.Severity {
		case rules.Low:
			low++
		case rules.High:
			high++
		}
	}
	return low, high
}

func changesOf(t *testing.T, s *Store) (n int64) {
	t.Helper()
	ok(t, s.read(context.Background(), "reading", func(r reader) error {
		return r.each(context.Background(), `SELECT CAST(sum(changes) AS BIGINT) FROM hours`, nil, func(scan func(...any) error) error { return scan(&n) })
	}))
	return n
}

// restOf is what the store takes up without named groups.
func restOf(t *testing.T, s *Store) (n int64) {
	t.Helper()
	ok(t, s.read(context.Background(), "reading", func(r reader) (err error) {
		n, err = s.db.size(context.Background(), r, 0)
		return err
	}))
	return n - bytesOf(t, s, "1 = 1")
}

// bytesOf is what named groups take up.
func bytesOf(t *testing.T, s *Store, which string) (n int64) {
	t.Helper()
	ok(t, s.read(context.Background(), "reading", func(r reader) error {
		return r.each(context.Background(), `SELECT CAST(coalesce(sum(`+textBytes(&findingsTable)+` + 160), 0) AS BIGINT) FROM findings WHERE wide = 0 AND `+which, nil,
			func(scan func(...any) error) error { return scan(&n) })
	}))
	return n
}
