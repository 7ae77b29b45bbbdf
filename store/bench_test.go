package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/pgtest"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// realistic makes entries as 5,000 nodes do: one in fifty with a finding, of some thousand groups.
type realistic struct {
	r     *rand.Rand
	now   time.Time
	nodes []string
}

func newRealistic() *realistic {
	g := &realistic{r: rand.New(rand.NewPCG(1, 2)), now: start}
	for n := range 5000 {
		g.nodes = append(g.nodes, fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", n>>12, n>>6&63, n&63))
	}
	return g
}

// commit returns what comes in within so much time, at 4,000 requests a second, on four lanes.
func (g *realistic) commit(d time.Duration) *tally.Commit {
	c := &tally.Commit{At: g.now}
	for l := range 4 {
		one := tally.LaneCommit{Lane: fmt.Sprint("kafka:audit/", l), Fence: 1, Position: "123456", Latest: g.now}
		n := int(d.Seconds() * 1000)
		one.Events = tally.Events{Read: int64(5 * n), Node: int64(n), Judged: int64(n), Skipped: int64(4 * n)}
		for range n {
			node := g.nodes[g.r.IntN(len(g.nodes))]
			e := tally.Entry{
				Time: g.now.Add(time.Duration(g.r.Int64N(int64(d)))), IsNode: true, Node: node, Verdict: nodeauthz.Allow, Observed: nodeauthz.Allow,
			}
			for i := range e.ID {
				e.ID[i] = byte(g.r.Uint32())
			}
			if g.r.IntN(50) == 0 {
				e.Verdict, e.Observed = nodeauthz.Deny, nodeauthz.Deny
				e.Findings = []tally.Finding{{
					Key: tally.Key{
						Rule: rules.ExcessAccess, Node: node, Verb: "get", Resource: "secrets", Namespace: "shop", Name: fmt.Sprint("db-", g.r.IntN(4)),
						Product: "calico-node", Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "legacy:system:node"},
					},
					Severity: rules.Critical, Allowed: true, Reason: rules.BindingNeeded,
					AuditID: "3d1c3b0e-3b8e-4c8e-9a70-7e2f8b5d1a11",
				}}
			}
			one.Entries = append(one.Entries, e)
		}
		c.Lanes = append(c.Lanes, one)
	}
	g.now = g.now.Add(d)
	return c
}

// BenchmarkCommit stores what comes in within some time; with evidence, each request is one that changes its node's record.
func BenchmarkCommit(b *testing.B) {
	durable := func(b *testing.B) *site {
		s, err := pgtest.Start(pgtest.Set("fsync", "on"), pgtest.Set("full_page_writes", "on"))
		ok(b, err)
		b.Cleanup(func() { ok(b, s.Stop()) })
		dsn := schemaDSN(s.DSN())
		return newSite(dsn, func(o Options) (*Store, error) { return OpenPostgres(context.Background(), dsn, o) })
	}
	for _, db := range []struct {
		name string
		site func(b *testing.B) *site
	}{{"sqlite", func(b *testing.B) *site { return embeddedSite(b) }}, {"postgres", durable}} {
		for _, d := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 2 * time.Second} {
			for _, ledger := range []*evidence.Ledger{nil, evidence.New()} {
				b.Run(fmt.Sprintf("%s/%v/evidence=%t", db.name, d, ledger != nil), func(b *testing.B) { benchmarkCommit(b, db.site(b), d, ledger) })
			}
		}
	}
}

func benchmarkCommit(b *testing.B, at_ *site, d time.Duration, ledger *evidence.Ledger) {
	s := at_.open(b, Options{})
	for l := range 4 {
		must(s.Acquire(context.Background(), fmt.Sprint("kafka:audit/", l), 1, 0))(b)
	}
	g, n := newRealistic(), 0
	s.aging.elapsed = func() time.Time { return g.now } // so that evidence is merged as often as at that pace
	b.ReportAllocs()
	spent := time.Duration(0)
	var c *tally.Commit
	runtime.GC()
	for b.Loop() {
		b.StopTimer()
		c = g.commit(d)
		if ledger != nil {
			for l := range c.Lanes {
				for i := range c.Lanes[l].Entries {
					renew(ledger, c.Lanes[l].Entries[i].Node, c.Lanes[l].Entries[i].Time)
				}
			}
			c.Evidence = ledger.AppendChanges(nil)
		}
		n += 4 * len(c.Lanes[0].Entries)
		b.StartTimer()
		began := time.Now()
		ok(b, s.Commit(context.Background(), c))
		spent += time.Since(began)
	}
	b.ReportMetric(float64(n)/spent.Seconds(), "entries/s")
	b.ReportMetric(100*spent.Seconds()/(float64(n)/4000), "%-of-time-at-4000/s")
}

// BenchmarkTally reads the counts of 5,000 nodes for 90 days.
func BenchmarkTally(b *testing.B) {
	for _, db := range []struct {
		name string
		site func(b *testing.B) *site
	}{{"sqlite", func(b *testing.B) *site { return embeddedSite(b) }}, {"postgres", func(b *testing.B) *site { return sharedSite(b) }}} {
		b.Run(db.name, func(b *testing.B) {
			s := db.site(b).open(b, Options{})
			ninety(b, s)
			for b.Loop() {
				if t := all(b, s); len(t.Nodes) != 5000 {
					b.Fatal(len(t.Nodes))
				}
			}
		})
	}
}

// ninety fills 83 days and the hours of seven more.
func ninety(b *testing.B, s *Store) {
	for h := range int64(83 + 7*24) {
		hour := 24 * h
		if h > 83 {
			hour = 83*24 + h - 83
		}
		day := tally.New()
		for n := range 5000 {
			day.Nodes[fmt.Sprintf("ip-10-%d-%d-%d.eu-central-1.compute.internal", n>>12, n>>6&63, n&63)] = &tally.Node{Requests: 100, Deny: 1}
		}
		for n := range 500 {
			k := tally.Key{Rule: rules.ExcessAccess, Node: fmt.Sprint("worker-", n), Verb: "get", Resource: "secrets", Name: "db"}
			day.Groups[k] = &tally.Group{Count: 3, First: start, Last: start, Severity: rules.High, Params: codes.Params{codes.Text(codes.ParamMessage, "m")}, AuditIDs: []string{"a", "b", "c"}}
		}
		ok(b, s.turn.take(context.Background()))
		err := s.write(context.Background(), "filling", func(w tx) error {
			return s.put(context.Background(), w, map[int64]*delta{hour: {Tally: day}})
		})
		s.known.forget()
		s.turn.give()
		ok(b, err)
	}
}
