package days

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
)

// strange are texts that a client chooses. All but the last two are names that no Node can have.
func strange() []string {
	return []string{
		strings.Repeat("x", 254), strings.Repeat("a.", 150) + "a", "-", ".", "..", "registry/team", "%2f", "Worker_1", "\x1b[2J", "\u202e", "\x00", "worker 1", "kubelet", "null",
	}
}

// refused is a request of somebody without rights, who chose all texts.
func (a *attacker) refused(at time.Time) *Event {
	text := func(others ...string) string {
		all := slices.Concat(strange(), others, others, others)
		return all[a.IntN(len(all))]
	}
	verb := []string{"get", "list", "watch", "create", "update", "patch", "delete"}[a.IntN(7)]
	res := []apiResource{resNodes, resSecrets, resPods, resConfigMaps, resAccounts, {"coordination.k8s.io", "v1", "leases"}, {"coordination.k8s.io", "v1", "leases"}}[a.IntN(7)]
	ref := &Ref{Group: res.group, Version: res.version, Resource: res.name, Name: text("apiserver-0123456789", a.NodeNames[0], "apiserver-"+strange()[0])}
	if res != resNodes {
		ref.Namespace = text("kube-node-lease", "kube-system", "kube-system")
	}
	e := a.event(at, verb, 403, ref, res.path("namespace", "name", ""))
	e.UserAgent = text("kubelet/v1.20.0", "kube-apiserver/v9.9.9", "kubelet/v1.36.0")
	e.AuditID = text(e.AuditID, a.Events[a.IntN(len(a.Events))].AuditID)
	switch a.IntN(4) {
	case 0:
		e.Code, e.Decision, e.User = 401, "", &User{}
	case 1:
		e.User = &User{Username: strange()[a.IntN(len(strange()))], Groups: []string{"system:authenticated"}}
	case 2:
		e.User = &User{Username: "system:apiserver", Groups: []string{"system:authenticated"}}
	}
	return e
}

// proven are checks, with all that is not passed.
func proven(all []report.Check) map[string][]string {
	out := map[string][]string{}
	for _, c := range all {
		out[c.Name] = append(out[c.Name], c.State)
		for _, i := range c.Evidence {
			if i.State != "passed" {
				out[c.Name] = append(out[c.Name], i.Code+" "+i.Node+i.Server)
			}
		}
	}
	return out
}

// refusedNode is a request with a node's certificate for a name that no Node can have. The Node authorizer denies it.
func (a *attacker) refusedNode(at time.Time) *Event {
	e := a.event(at, "get", 403, &Ref{Version: "v1", Resource: "secrets", Namespace: "shop", Name: "db"}, resSecrets.path("shop", "db", ""))
	name := strange()[a.IntN(len(strange())-2)]
	e.User = &User{Username: "system:node:" + name, Groups: []string{"system:nodes", "system:authenticated"}}
	e.UserAgent, e.DecisionReason = "kubelet/v1.36.0", fmt.Sprintf("no relationship found between node '%s' and this object", name)
	return e
}

// Anybody can send requests that are refused. Whatever is in them, they cost no proof. Those with a node's certificate for a name that no Node can have say so themselves.
func TestRefusedRequestsCostNoProof(t *testing.T) {
	day := clean(t, 43, Options{Span: leastSpan, NoBinding: true})
	for what, f := range map[string]func(*attacker, time.Time) *Event{"stranger": (*attacker).refused, "impossible node": (*attacker).refusedNode} {
		checksOf := func(d *Day) []report.Check {
			r := analyze(t, d)
			if what == "stranger" {
				return slices.Concat(r.Readiness.Checks, r.Confinement.Checks)
			}
			return r.Readiness.Checks // the certificate's holder is a holder
		}
		base := proven(checksOf(day))
		if what != "stranger" {
			base["identities-conform"] = nil
		}
		for seed := range effort.Of(uint64(8), 2) {
			d := day.copyOf()
			a := &attacker{mutator: &mutator{newRand(seed, d.Seed), d}}
			p := a.late(10 * minute)
			var all []*Event
			for range 300 {
				all = append(all, f(a, p.from.Add(time.Duration(a.Int64N(int64(p.to.Sub(p.from)))))))
			}
			a.add(all...)
			got := proven(checksOf(d))
			if what != "stranger" {
				if states := got["identities-conform"]; states[0] != "failed" || !slices.ContainsFunc(states, func(s string) bool { return strings.HasPrefix(s, "node-missing ") }) {
					t.Errorf("%s, seed %d: identities-conform is %q", what, seed, states)
				}
				got["identities-conform"] = nil
			}
			if diff := cmp.Diff(base, got); diff != "" {
				t.Errorf("%s, seed %d: refused requests changed checks:\n%s", what, seed, diff)
			}
		}
	}
}
