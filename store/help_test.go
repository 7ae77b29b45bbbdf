package store

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/pgtest"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// server is the PostgreSQL server that all tests share.
var server pgtest.Holder

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		child()
		return
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// place for one store, of either kind: each call of open opens it anew.
type site struct {
	open func(t testing.TB, o Options) *Store
	try  func(o Options) (*Store, error)
	// where is the file or the DSN.
	where string
}

func embeddedSite(t testing.TB) *site {
	path := filepath.Join(t.TempDir(), "store", "nodetrail.db")
	return newSite(path, func(o Options) (*Store, error) { return OpenSQLite(context.Background(), path, o) })
}

func sharedSite(t testing.TB) *site {
	dsn := schemaDSN(server.Shared(t).DSN())
	return newSite(dsn, func(o Options) (*Store, error) { return OpenPostgres(context.Background(), dsn, o) })
}

// schemaDSN gives the DSN a schema that no other test has.
func schemaDSN(dsn string) string {
	return dsn + "&search_path=" + url.QueryEscape(fmt.Sprintf("test%d", rand.Uint64()))
}

func newSite(where string, try func(Options) (*Store, error)) *site {
	return &site{where: where, try: try, open: func(t testing.TB, o Options) *Store {
		t.Helper()
		s, err := try(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}}
}

// both runs the test on both databases.
func both(t *testing.T, f func(t *testing.T, at *site)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { f(t, embeddedSite(t)) })
	t.Run("postgres", func(t *testing.T) { f(t, sharedSite(t)) })
}

func must[T any](v T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var start = time.Date(2026, 11, 21, 6, 4, 19, 448_123_456, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

// commit is a commit of one lane.
func commit(lane string, fence int64, position string, entries ...tally.Entry) *tally.Commit {
	l := tally.LaneCommit{Lane: lane, Fence: fence, Position: position, Entries: entries}
	for i := range entries {
		if entries[i].Time.After(l.Latest) {
			l.Latest = entries[i].Time
		}
	}
	return &tally.Commit{Lanes: []tally.LaneCommit{l}, At: at(time.Hour)}
}

func id(n int) (out tally.ID) {
	binary.BigEndian.PutUint64(out[:], uint64(n)*0x9e3779b97f4a7c15)
	binary.BigEndian.PutUint64(out[8:], uint64(n))
	return out
}

// request is a node's request that was allowed.
func request(n int, when time.Time) tally.Entry {
	return tally.Entry{ID: id(n), Time: when, IsNode: true, Node: fmt.Sprintf("worker-%d", n%7), Verdict: nodeauthz.Allow, Observed: nodeauthz.Allow}
}

func requests(from, to int, when time.Time) (out []tally.Entry) {
	for n := from; n < to; n++ {
		out = append(out, request(n, when))
	}
	return out
}

func hostileNames() []string {
	return []string{
		"", "worker-1", "nul\x00nul", "\xff\xfe", "a\\b", `\00`, "new\nline", "tab\t", "sp ace", `"quoted"`, "emoji 🚀", "'; DROP TABLE seen; --",
		strings.Repeat("x", 512), strings.Repeat("é", 255), strings.Repeat("\xff", 512), "{least}", "$1", "%s", "(others)", "\u0085\u2028", "\x7f",
	}
}

// random returns entries as a hostile log may make them.
func random(r *rand.Rand, n int) []tally.Entry {
	names := hostileNames()
	name := func() string { return names[r.IntN(len(names))] }
	out := make([]tally.Entry, n)
	for i := range out {
		e := tally.Entry{
			ID: id(int(r.Uint32())), Time: at(time.Duration(r.IntN(4*3600)) * time.Second).Add(time.Duration(r.IntN(1e9))), IsNode: r.IntN(5) > 0,
			Node: name(), Verdict: nodeauthz.Verdict(1 + r.IntN(3)), Observed: nodeauthz.Verdict(r.IntN(3)), Race: r.IntN(4) == 0,
			ReasonCompared: r.IntN(3) == 0,
		}
		if r.IntN(50) == 0 {
			e.Time = time.Time{}
		}
		e.ReasonEqual = e.ReasonCompared && r.IntN(2) == 0
		if r.IntN(6) == 0 {
			e.Ambient = &tally.AmbientKey{Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: name()}, Verb: "get", Resource: name()}
		}
		if e.IsNode && r.IntN(3) == 0 {
			e.Admission = &tally.AdmissionKey{Outcome: rules.Outcomes()[r.IntN(7)], Missing: name(), Verb: "patch", Resource: name()}
		}
		if e.IsNode && !e.Race && e.Verdict != nodeauthz.Unknown && e.Observed != nodeauthz.NotNode && e.Verdict != e.Observed {
			e.Disagreement = &tally.Disagreement{
				AuditID: fmt.Sprintf("%x", e.ID), Time: e.Time, Node: strings.ToValidUTF8(e.Node, "?"), Name: strings.ToValidUTF8(name(), "?"),
				Verdict: e.Verdict.String(), Observed: e.Observed.String(),
			}
		}
		for range r.IntN(3) {
			e.Findings = append(e.Findings, tally.Finding{
				Key: tally.Key{
					Rule: []string{rules.ExcessAccess, "node-identity", "foreign-node-write"}[r.IntN(3)], Node: e.Node, Verb: "get", Resource: "secrets",
					Name: name(), Apart: name(), Product: name(), Binding: rbac.BindingRef{Name: name()},
				},
				Severity: rules.Severity(1 + r.IntN(4)), Allowed: r.IntN(3) == 0, AuditID: fmt.Sprintf("%x", e.ID) + name(),
			})
			f := &e.Findings[len(e.Findings)-1]
			f.Reason = rules.Reason("seen as " + f.Severity.String())
			f.Params = codes.Params{codes.Text(name(), name())}
		}
		out[i] = e
	}
	return out
}

// equal compares all that adds up whatever the order, and of the rest that there is as much of it.
func equal(t testing.TB, want, got *tally.Tally) {
	t.Helper()
	byTime := func(a, b tally.Disagreement) int { return strings.Compare(a.AuditID, b.AuditID) }
	slices.SortFunc(want.Disagreements, byTime)
	slices.SortFunc(got.Disagreements, byTime)
	exact := func(in *tally.Tally) map[tally.Key]tally.Group {
		out := map[tally.Key]tally.Group{}
		for k, g := range in.Groups {
			one := *g
			one.Reason, one.Params, one.AuditIDs = "", nil, make([]string, len(g.AuditIDs))
			if !g.Wide && (g.Reason != rules.Reason("seen as "+g.Severity.String()) || len(g.Params) != 1) {
				t.Errorf("the reason %q with %q is not of %v", g.Reason, g.Params, g.Severity)
			}
			out[k] = one
		}
		return out
	}
	if diff := cmp.Diff(exact(want), exact(got)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(tally.Tally{}), cmpopts.IgnoreFields(tally.Tally{}, "Groups"),
		cmpopts.EquateEmpty(), cmp.Comparer(func(a, b tally.Place) bool { return true })); diff != "" {
		t.Errorf("tally (-want +got):\n%s", diff)
	}
}

func all(t testing.TB, s *Store) *tally.Tally {
	t.Helper()
	return must(s.Tally(context.Background(), time.Time{}, time.Time{}))(t)
}
