package checks

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
)

// Watches without a beginning are counted as a count by hand of each five minutes has them.
func TestStartsAreCounted(t *testing.T) {
	resources := [evidence.Longs]struct{ group, resource string }{{"", "pods"}, {"", "secrets"}, {"", "configmaps"}, {"acme.io", "things"}}
	r := rand.New(rand.NewPCG(5, 5))
	for round := range 40 {
		in := &Input{Ledger: evidence.New()}
		in.Log.Until = noon.Add(time.Duration(r.IntN(61)) * time.Minute)
		in.MinWindow = []time.Duration{time.Hour, 2 * time.Hour, 100 * time.Minute, in.Log.Until.Sub(at(9, 0, 0))}[r.IntN(4)]
		var all [evidence.Longs][]loss
		w := windowOf(in)
		sums := make([]loss, w.last-w.first+1)
		for kind := range all {
			all[kind] = make([]loss, len(sums))
		}
		observe := func(e tick) { in.Ledger.Observe(&e.ev, e.o) }
		for n := range 3 {
			node, renewed := fmt.Sprint("worker-", n), map[time.Time]bool{}
			for part := at(8, 0, 0); part.Before(at(15, 0, 0)); part = part.Add(evidence.PartLength) {
				if renewed[part] = r.IntN(8) > 0; renewed[part] {
					observe(event(node, "update", "coordination.k8s.io", "leases", "kube-node-lease", node, part.Add(time.Minute)))
				}
			}
			for part := at(8, 0, 0); part.Before(at(15, 0, 0)); part = part.Add(evidence.PartLength) {
				for kind, of := range resources {
					began, ended := r.IntN(3) > 0, r.IntN(2) > 0
					e := event(node, "watch", of.group, of.resource, "", "", part.Add(2*time.Minute))
					e.ev.AuditID = fmt.Sprint(part, kind)
					if began {
						observe(e)
					}
					if e.ev.Stage = audit.StageResponseComplete; ended {
						observe(e)
					}
					if !ended || part.Before(w.from) || !part.Before(w.to) || !renewed[part.Add(-evidence.PartLength)] || !renewed[part] || !renewed[part.Add(evidence.PartLength)] {
						continue
					}
					l, h := loss{1, 1 - one(began)}, evidence.HourOf(part)-w.first
					all[kind][h].add(l)
					sums[h].add(l)
				}
			}
		}
		s := startsOf(in)
		if got, want := fmt.Sprint(s.all, s.sums), fmt.Sprint(all, sums); got != want {
			t.Fatalf("round %d, %v to %v: %s, want %s", round, w.from, w.to, got, want)
		}
	}
}

// Which watches have no beginning in the log: of a kind, and if no kind lacks enough, of all together.
func TestStartsThatAreMissing(t *testing.T) {
	begun := func(lost func(t *tick) bool) func(*Input) {
		return func(in *Input) { in.Ledger = ledgerWith(ticks(nil), nil, func(t *tick) bool { return !lost(t) }) }
	}
	ended := func(group, resource string, times ...time.Time) func(*Input) {
		return func(in *Input) {
			for _, at := range times {
				e := event("worker-1", "watch", group, resource, "", "", at)
				e.ev.Stage = audit.StageResponseComplete
				in.Ledger.Observe(&e.ev, e.o)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"none", func(*Input) {}, []string{"passed 1/1"}},
		{"all", begun(func(*tick) bool { return true }), []string{
			"unproven 1/1", "unproven starts-missing 12:00:00-16:00:00 0/105: watch pods, nodes, services, csidrivers and runtimeclasses",
		}},
		{"two in each of two hours", all(begun(func(t *tick) bool { return slices.Contains([]int{13, 14}, t.time().Hour()) && !unbegun(25, 45)(t) }), func(in *Input) { in.MaxLoss = 0.05 }), []string{"unproven 1/1", "unproven starts-missing 13:00:00-15:00:00 68/72: watch"}},
		{"of two hours", all(ended("acme.io", "things", at(13, 2, 0), at(14, 2, 0)), ended("", "secrets", at(13, 12, 0), at(14, 12, 0)), func(in *Input) { in.MaxLoss = 0.05 }), []string{
			"unproven 1/1", "unproven starts-missing 12:00:00-16:00:00 0/2: watch secrets", "unproven starts-missing 12:00:00-16:00:00 0/2: watch other resources",
		}},
		{"one in each of two kinds", func(in *Input) {
			for _, kind := range []string{"secrets", "configmaps"} {
				for n := range 12 {
					e := event("worker-1", "watch", "", kind, "", "", at(13, 5*n+2, 0))
					in.Ledger.Observe(&e.ev, e.o)
					ended("", kind, at(13, 5*n+2, 0))(in)
				}
				ended("", kind, at(14, 22, 0))(in)
			}
			in.MaxLoss = 0.02
		}, []string{"unproven 1/1", "unproven starts-missing 14:00:00-15:00:00 36/38: watch"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := clean()
			c.change(in)
			r := resultOf(in, "policy-known")
			if diff := cmp.Diff(c.want, lines(&r)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
