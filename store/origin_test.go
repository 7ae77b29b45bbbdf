package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

func originEntry(i int, at time.Time) tally.Entry {
	e := tally.Entry{
		ID: tally.IDOf(fmt.Sprint(i)), Time: at, IsNode: true, Node: "worker-1",
		Origin: tally.Origin{
			User: fmt.Sprint("user-", i%3, `"],["x`), Groups: []string{"system:nodes", "\x00 \\ \u202e"}, Code: int32(200 + i%4),
			Address: tally.Address{Address: fmt.Sprint("10.0.0.", i%5), Node: []string{"", "worker-1"}[i%2]},
		},
		Findings: []tally.Finding{{Key: tally.Key{Rule: rules.ExcessAccess, Node: "worker-1", Verb: "get"}, Reason: rules.BindingNeeded, Severity: rules.High, Allowed: true}},
	}
	if i%4 == 0 {
		e.Origin.Impersonated = "system:node:worker-2"
	}
	return e
}

// What a store gathers of origins commit by commit is what a tally gathers of them at once, on both databases.
func TestOriginsAreGathered(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		defer s.Close()
		must(s.Acquire(ctx, "log", 0, 0))(t)
		want, begin := tally.New(), time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		for i := range 60 {
			e := originEntry(i, begin.Add(time.Duration(i)*3*time.Minute)) // of three hours
			want.Add(&e)
			ok(t, s.Commit(ctx, &tally.Commit{At: begin, Lanes: []tally.LaneCommit{{Lane: "log", Latest: e.Time, Entries: []tally.Entry{e}}}}))
		}
		got := must(s.Tally(ctx, time.Time{}, time.Time{}))(t)
		for k, g := range want.Groups {
			if diff := cmp.Diff(g.Origins.Filled(), got.Groups[k].Origins.Filled()); diff != "" {
				t.Errorf("origins (-tally +store):\n%s", diff)
			}
			if len(g.Origins.Users) != 3 || len(g.Origins.Addresses) != 10 || len(g.Origins.Answers) != 4 || len(g.Origins.Impersonated) != 1 {
				t.Errorf("the test has %+v", g.Origins)
			}
		}
	})
}

// However many there are, a row does not grow without end.
func TestGatheredIsBounded(t *testing.T) {
	ctx := context.Background()
	s := must(OpenSQLite(ctx, filepath.Join(t.TempDir(), "nodetrail.db"), Options{}))(t)
	defer s.Close()
	must(s.Acquire(ctx, "log", 0, 0))(t)
	begin := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i := range 500 {
		e := originEntry(i, begin)
		e.Origin.Address.Address = fmt.Sprintf("made-up-%0200d", i)
		ok(t, s.Commit(ctx, &tally.Commit{At: begin, Lanes: []tally.LaneCommit{{Lane: "log", Latest: e.Time, Entries: []tally.Entry{e}}}}))
	}
	ok(t, s.read(ctx, "reading", func(r reader) error {
		return r.each(ctx, `SELECT length(addresses), length(users) FROM findings`, nil, func(scan func(...any) error) error {
			var addresses, users int64
			if err := scan(&addresses, &users); err != nil {
				return err
			}
			if addresses > 5000 || addresses < 3000 || users > 200 {
				t.Errorf("%d and %d characters", addresses, users)
			}
			return nil
		})
	}))
	for _, g := range must(s.Tally(ctx, time.Time{}, time.Time{}))(t).Groups {
		if len(g.Origins.Addresses) != tally.MaxOrigins {
			t.Errorf("%d addresses", len(g.Origins.Addresses))
		}
	}
}

// A store of version 5 of the schema, which knew only whether a request was authorized, is read and continued.
func TestStoreWithoutOrigins(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		var db engine
		var err error
		if strings.HasPrefix(at_.where, "postgres") {
			db, err = openShared(ctx, at_.where, Options{}, migrations[:5])
		} else {
			db, err = openEmbedded(ctx, at_.where, Options{}.Log, migrations[:5])
		}
		ok(t, err)
		begin := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		hour := begin.Unix() / hourSeconds
		row := func(node string, reason rules.Reason, allowed int64) {
			key := keyText(&tally.Key{Rule: rules.ExcessAccess, Node: node, Verb: "get"})
			id := hash(key)
			ok(t, db.write(ctx, false, func(w tx) error {
				return w.exec(ctx, `INSERT INTO findings (hour, id, finding, count, low, first, last, reason, params, severity, allowed, wide, audit_ids, listed)
					VALUES ($1, $2, $3, 7, 0, $4, $4, $5, '', 3, $6, 0, 'a b', 2)`, hour, id[:], key, begin.UnixNano(), string(reason), allowed)
			}))
		}
		row("worker-1", rules.BindingNeeded, 1)
		row("worker-2", rules.ObjectMissing, 1)
		row("worker-3", rules.BindingNeeded, 0)
		ok(t, db.close())
		s := at_.open(t, Options{})
		defer s.Close()
		must(s.Acquire(ctx, "log", 0, 0))(t)
		e := originEntry(1, begin)
		ok(t, s.Commit(ctx, &tally.Commit{At: begin, Lanes: []tally.LaneCommit{{Lane: "log", Latest: e.Time, Entries: []tally.Entry{e}}}}))
		got := must(s.Tally(ctx, time.Time{}, time.Time{}))(t)
		for node, want := range map[string]tally.Group{
			"worker-1": {Count: 8, Allowed: true, Succeeded: true, Origins: tally.Origins{Users: []string{e.Origin.User}}}, "worker-2": {Count: 7, Allowed: true}, "worker-3": {Count: 7},
		} {
			g := got.Groups[tally.Key{Rule: rules.ExcessAccess, Node: node, Verb: "get"}]
			if g == nil || g.Count != want.Count || g.Allowed != want.Allowed || g.Succeeded != want.Succeeded || !cmp.Equal(g.Origins.Users, want.Origins.Users) {
				t.Errorf("%s: %+v", node, g)
			}
		}
	})
}
