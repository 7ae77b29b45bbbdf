package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

func TestRecent(t *testing.T) {
	both(t, func(t *testing.T, at_ *site) {
		ctx := context.Background()
		s := at_.open(t, Options{})
		must(s.Acquire(ctx, "a", 1, 0))(t)
		base := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
		finding := func(after time.Duration, name string, id byte) tally.Entry {
			return tally.Entry{ID: tally.ID{id}, Time: base.Add(after), IsNode: true, Node: "n", Findings: []tally.Finding{{
				Key: tally.Key{Rule: "r", Node: "n\x00\xff", Namespace: "shop", Name: name}, Severity: rules.High, Reason: "m\x01", Params: codes.Params{codes.Text("k\x02", "v\xff")}, AuditID: "audit-" + name,
			}}}
		}
		entries := []tally.Entry{
			finding(-time.Minute, "long ago", 1), finding(5*time.Minute, "a", 2), finding(50*time.Minute, "a", 3), finding(70*time.Minute, "a", 4),
			finding(65*time.Minute, "b", 5),
		}
		ok(t, s.Commit(ctx, &tally.Commit{At: base, Lanes: []tally.LaneCommit{{Lane: "a", Fence: 1, Entries: entries}}}))
		type row struct {
			Name        string
			Count       int64
			First, Last time.Duration
		}
		rows := func(since time.Duration, most int) (out []row) {
			for _, r := range must(s.Recent(ctx, base.Add(since), most))(t) {
				out = append(out, row{r.Key.Name, r.Group.Count, r.Group.First.Sub(base), r.Group.Last.Sub(base)})
				if r.Key.Node != "n\x00\xff" || r.Group.Reason != "m\x01" || r.Group.Params.Text("k\x02") != "v\xff" || r.Group.Severity != rules.High || len(r.Group.AuditIDs) == 0 {
					t.Errorf("%+v", r)
				}
			}
			return out
		}
		want := []row{{"a", 1, 70 * time.Minute, 70 * time.Minute}, {"b", 1, 65 * time.Minute, 65 * time.Minute}, {"a", 2, 5 * time.Minute, 50 * time.Minute}}
		if diff := cmp.Diff(want, rows(55*time.Minute, 100)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want[:2], rows(60*time.Minute, 100)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want[:1], rows(-time.Hour, 1)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if got := rows(3*time.Hour, 100); got != nil {
			t.Errorf("%v", got)
		}
	})
}
