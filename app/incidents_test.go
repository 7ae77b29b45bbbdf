package app

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// theftEntries are a theft of 40 secrets over 20 minutes, through two bindings, among 500 refusals.
func theftEntries(node, from string, begin time.Time) []tally.Entry {
	var out []tally.Entry
	add := func(at time.Time, id string, findings ...tally.Finding) {
		for i := range findings {
			findings[i].Key.Node, findings[i].AuditID = node, id
		}
		out = append(out, tally.Entry{ID: tally.IDOf(node + id), Time: at, IsNode: true, Node: node, Findings: findings})
	}
	secret := func(rule, name, binding string) tally.Key {
		k := tally.Key{Rule: rule, Verb: "get", Resource: "secrets", Namespace: "shop", Name: name, Product: "curl"}
		if binding != "" {
			k.Binding = rbac.BindingRef{Kind: "ClusterRoleBinding", Name: binding}
		}
		return k
	}
	for i := range 500 {
		add(begin.Add(time.Duration(i)*2400*time.Millisecond), fmt.Sprint("refused-", i), tally.Finding{
			Key: secret("out-of-scope-secret-read", fmt.Sprint("made-up-", i), ""), Reason: rules.ReadRefused, Severity: rules.Medium,
		})
		if i%12 != 6 || i > 480 {
			continue
		}
		p := codes.Params{codes.Text(rules.ParamAddress, from)}
		name, binding := fmt.Sprint("secret-", i/12), []string{"legacy", "other"}[i/12%2]
		add(begin.Add(time.Duration(i)*2400*time.Millisecond+time.Second), fmt.Sprint("read-", i),
			tally.Finding{Key: secret("out-of-scope-secret-read", name, binding), Reason: rules.ReadSucceeded, Severity: rules.Critical, Allowed: true, Params: p},
			tally.Finding{Key: secret(rules.ExcessAccess, name, binding), Reason: rules.BindingNeeded, Severity: rules.Critical, Allowed: true, Params: p})
	}
	return out
}

// A store that is closed and opened again in the midst of a theft, and is given some of it twice, has one incident with the same ID as one that was not.
func TestIncidentsLastThroughRestarts(t *testing.T) {
	begin := time.Now().UTC().Truncate(time.Hour).Add(-2*time.Hour + 50*time.Minute) // over the hour
	all := append(theftEntries("worker-3", "198.51.100.9", begin), theftEntries("worker-5", "198.51.100.10", begin.Add(5*time.Minute))...)
	read := func(restarts bool) []incidents.Incident {
		ctx := context.Background()
		path := filepath.Join(t.TempDir(), "nodetrail.db")
		open := func() *store.Store {
			s, err := store.OpenSQLite(ctx, path, store.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Acquire(ctx, "lane", 0, 0); err != nil {
				t.Fatal(err)
			}
			return s
		}
		commit := func(s *store.Store, entries []tally.Entry) {
			if err := s.Commit(ctx, &tally.Commit{At: time.Now(), Lanes: []tally.LaneCommit{{Lane: "lane", Entries: append([]tally.Entry(nil), entries...)}}}); err != nil {
				t.Fatal(err)
			}
		}
		s := open()
		if restarts {
			commit(s, all[:300])
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open()
			commit(s, all[200:])
		} else {
			commit(s, all)
		}
		defer s.Close()
		out, err := storedIncidents(ctx, s, "prod", nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	got := read(true)
	if diff := cmp.Diff(read(false), got); diff != "" {
		t.Errorf("(-without a restart +with one):\n%s", diff)
	}
	if len(got) != 2 {
		t.Fatalf("%d incidents, want one of each thief", len(got))
	}
	for i := range got {
		in := &got[i]
		if in.State != incidents.Open || in.Severity != "critical" || len(in.Rotate) != 40 || in.Succeeded != 40 || in.Refused != 500 || len(in.Bindings) != 2 || len(in.Addresses) != 1 {
			t.Errorf("%s: %s, %s, %d to rotate, %d succeeded, %d refused, %d bindings, from %v", in.Credential, in.State, in.Severity, len(in.Rotate), in.Succeeded, in.Refused, len(in.Bindings), in.Addresses)
		}
		first := begin
		if in.Credential == "worker-5" {
			first = begin.Add(5 * time.Minute)
		}
		if !in.First.Equal(first) || in.Timeline[0].Code != incidents.FirstRefusal && in.Timeline[1].Code != incidents.FirstRefusal {
			t.Errorf("%s begins at %s, want %s: %+v", in.Credential, in.First, first, in.Timeline)
		}
	}
}
