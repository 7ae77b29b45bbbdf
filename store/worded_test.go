package store

import (
	"bytes"
	"compress/gzip"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// The stores under testdata were written by the program of before, of a part of a capture and of hostile and ordinary requests that every rule
// flags: schema2.db.gz is one of SQLite, schema2.sql.gz the same from PostgreSQL, as pg_dump writes it.

func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	f := must(os.Open(filepath.Join("testdata", name)))(t)
	defer f.Close()
	return must(io.ReadAll(must(gzip.NewReader(f))(t)))(t)
}

// groupCount is what has to stay equal: the counts of a rule on a day.
type groupCount struct {
	rule, node, verb, resource, namespace, name, product, binding string
	day                                                           int64
}

type sums struct{ Count, Low, Groups int64 }

// wordedCounts sums up the rows of before, read by themselves.
func wordedCounts(t *testing.T, each func(f func(hour, count, low int64, finding string))) map[groupCount]sums {
	t.Helper()
	out := map[groupCount]sums{}
	each(func(hour, count, low int64, finding string) {
		var k []string
		ok(t, json.Unmarshal([]byte(finding), &k))
		for i := range k {
			k[i] = must(unescape(k[i]))(t)
		}
		g := groupCount{k[0], k[1], k[2], k[4] + "." + k[3] + "/" + k[5], k[6], k[7], k[8], k[12], hour / (24 * 60 * 60)}
		s := out[g]
		out[g] = sums{s.Count + count, s.Low + low, s.Groups + 1}
	})
	return out
}

func TestStoreOfBefore(t *testing.T) {
	ctx := context.Background()
	const query = `SELECT hour, count, low, finding FROM findings`
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "nodetrail.db")
		ok(t, os.WriteFile(path, unpacked(t, "schema2.db.gz"), 0o600))
		db := must(sql.Open("sqlite", path))(t)
		want := wordedCounts(t, func(f func(hour, count, low int64, finding string)) {
			rows := must(db.QueryContext(ctx, query))(t)
			defer rows.Close()
			for rows.Next() {
				var hour, count, low int64
				var finding string
				ok(t, rows.Scan(&hour, &count, &low, &finding))
				f(hour, count, low, finding)
			}
			ok(t, rows.Err())
		})
		ok(t, db.Close())
		if _, err := OpenSQLite(ctx, path, Options{ReadOnly: true}); err == nil || !strings.Contains(err.Error(), "brings it up to date") {
			t.Errorf("a reader: %v", err)
		}
		for range 2 { // the second time there is nothing to move
			s := must(OpenSQLite(ctx, path, Options{}))(t)
			isMoved(t, s, want)
			ok(t, s.Close())
		}
	})
	t.Run("postgres", func(t *testing.T) {
		dsn := server.Shared(t).DSN()
		conn := must(pgx.Connect(ctx, dsn))(t)
		defer func() { ok(t, conn.Close(ctx)) }()
		_, err := conn.Exec(ctx, `DROP SCHEMA IF EXISTS nodetrail CASCADE`)
		ok(t, err)
		_, err = conn.PgConn().Exec(ctx, string(unpacked(t, "schema2.sql.gz"))).ReadAll()
		ok(t, err)
		want := wordedCounts(t, func(f func(hour, count, low int64, finding string)) {
			rows := must(conn.Query(ctx, strings.Replace(query, "findings", "nodetrail.findings", 1)))(t)
			defer rows.Close()
			for rows.Next() {
				var hour, count, low int64
				var finding string
				ok(t, rows.Scan(&hour, &count, &low, &finding))
				f(hour, count, low, finding)
			}
			ok(t, rows.Err())
		})
		for range 2 {
			s := must(OpenPostgres(ctx, dsn, Options{Schema: "nodetrail"}))(t)
			isMoved(t, s, want)
			ok(t, s.Close())
		}
	})
}

// isMoved holds a store against the counts of before, and against what the sentences said.
func isMoved(t *testing.T, s *Store, want map[groupCount]sums) {
	t.Helper()
	ctx := context.Background()
	got := map[groupCount]sums{}
	reasons := map[rules.Reason]int64{}
	ok(t, s.read(ctx, "reading", func(r reader) error {
		return eachFinding(ctx, r, `hour > $1`, []any{int64(0)}, func(hour int64, k tally.Key, g *tally.Group) {
			c := groupCount{
				k.Rule, k.Node, k.Verb, k.Resource + "." + k.APIGroup + "/" + k.Subresource, k.Namespace, k.Name, k.Product, k.Binding.Name, hour / (24 * 60 * 60),
			}
			was := got[c]
			got[c] = sums{was.Count + g.Count, was.Low + g.Low, was.Groups + 1}
			reasons[g.Reason] += g.Count
			rule := rules.All()[slices.IndexFunc(rules.All(), func(r *rules.Rule) bool { return r.Name == k.Rule })]
			if !slices.ContainsFunc(rule.Reasons, func(d rules.ReasonDoc) bool { return d.Reason == g.Reason }) {
				t.Errorf("%s has no reason %q (%s)", k.Rule, g.Reason, g.Params.Text(codes.ParamMessage))
			}
			if g.Params.Text(codes.ParamMessage) == "" || rules.ByReason(k.Rule) != (k.Reason == g.Reason) {
				t.Errorf("%+v: %+v", k, g)
			}
		})
	}))
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(groupCount{})); diff != "" {
		t.Errorf("counts (-before +moved):\n%s", diff)
	}
	for _, r := range []rules.Reason{
		rules.BindingNeeded, rules.ObjectMissing, rules.ReadSucceeded, rules.ReadRefused, rules.WriteSucceeded, rules.WriteRefusedByAdmission, rules.NameForm,
		rules.NameEmpty, rules.GroupMissing, rules.NoNodeIdentity, rules.NodeMissing, rules.NameLetterCase, rules.NameDomain, rules.ForeignClient,
		rules.Impersonation, rules.SharedCertificate, rules.TwoCertificates, rules.SecondAddress, rules.DeniedThroughout, rules.ManyWithinMinutes,
		rules.SpikeOfCluster, rules.LogSilent, rules.NodeSilent, rules.PolicyHidden,
	} {
		if reasons[r] == 0 {
			t.Errorf("nothing has the reason %s: %v", r, reasons)
		}
	}
	all := must(s.Tally(ctx, time.Time{}, time.Time{}))(t)
	for name, want := range map[string]rules.Reason{
		"Worker-1": rules.NameLetterCase, "worker-1.example.com": rules.NameDomain, strings.Repeat("W", 180): rules.NodeMissing,
		"ghost, which differs in its letter case": rules.NodeMissing, `ghost; there is a Node "x", which differs in its letter case`: rules.NodeMissing,
	} {
		n := 0
		for k, g := range all.Groups {
			if k.Rule == rules.NodeIdentity && k.Node == name {
				if n++; g.Reason != want {
					t.Errorf("%s: %s, want %s", name, g.Reason, want)
				}
			}
		}
		if n != 1 {
			t.Errorf("%s: %d groups", name, n)
		}
	}
	for instance, body := range must(s.Facts(ctx))(t) {
		var f struct {
			State struct{ Warnings []string }
			Gaps  []codes.Gap
			Holes []string
		}
		ok(t, json.Unmarshal(body, &f))
		kinds := map[codes.Code]codes.Kind{}
		for _, g := range f.Gaps {
			kinds[g.Code] = g.Kind
		}
		want := map[codes.Code]codes.Kind{codes.StateBeginsLate: codes.Doubt, codes.StateEndsEarly: codes.State}
		if diff := cmp.Diff(want, kinds); diff != "" || f.Holes != nil || f.State.Warnings != nil {
			t.Errorf("%s: facts (-want +got):\n%s%s", instance, diff, body)
		}
	}
}

// Sentences that were cut, and names that hold the words of others, lead to a reason that fits what is left.
func TestWordedReasons(t *testing.T) {
	upper, lower := strings.Repeat("W", 180), strings.Repeat("w", 180)
	missing := func(name, rest string) string {
		return tally.Bounded(fmt.Sprintf("user %q: the cluster has no Node %q%s", "system:node:"+name, name, rest))
	}
	for _, x := range []struct {
		rule, node, detail, message string
		reason                      rules.Reason
		apart                       string
	}{
		{rules.NodeIdentity, upper, "unregistered", missing(upper, `; there is a Node "`+lower+`", which differs in its letter case`), rules.NameLetterCase, ""},
		{rules.NodeIdentity, upper, "unregistered", missing(upper, `; there is a Node "`+upper+`.example.com", which differs in its domain`), rules.NameLetterCase, ""},
		{rules.NodeIdentity, "x", "unregistered, impersonated", missing("x", ` (impersonated by "y")`), rules.NodeMissing, rules.Impersonated},
		{rules.NodeIdentity, "X", "unregistered, impersonated", missing("X", `; there is a Node "x", which differs in its letter case (impersonated by "y")`), rules.NameLetterCase, rules.Impersonated},
		{rules.NodeIdentity, "x", "unregistered", "", rules.NodeMissing, ""},
		{rules.CredentialMisuse, "x", "address 10.0.0.1", "m", rules.SecondAddress, "10.0.0.1"},
		{rules.CoverageGap, "", "policy-hidden, minor", "m", rules.PolicyHidden, rules.Minor},
		{rules.CoverageGap, "", "silent nodes", "m", rules.NodesSilent, ""},
		{"node-deny-spike", "", "since 2026-11-21T06:04:00Z", "m", rules.SpikeOfCluster, "2026-11-21T06:04:00Z"},
		{rules.ExcessAccess, "n", "", "get secrets x/alone, and there was no such object (404) is allowed to node n by A b alone", rules.BindingUnknown, ""},
		{"of a newer program", "n", "d", "m", "", ""},
	} {
		w := worded{k: tally.Key{Rule: x.rule, Node: x.node}, detail: x.detail, message: x.message}
		w.code()
		if w.g.Reason != x.reason || w.k.Apart != x.apart || w.g.Params.Text(codes.ParamMessage) != x.message {
			t.Errorf("%s %s %q: %s %q", x.rule, x.detail, x.message, w.g.Reason, w.k.Apart)
		}
	}
	if out, changed, err := codedFacts([]byte(`{"x":1}`)); err != nil || changed || !bytes.Equal(out, nil) {
		t.Errorf("other facts: %s, %v", out, err)
	}
}
