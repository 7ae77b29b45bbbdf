package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// many adds so many requests that both allow.
func (l *log) many(n int) {
	for range n {
		l.add("worker-1 get pods shop/web-1")
	}
}

// What speaks against deleting the bindings, what the evidence lacks, and that neither answers anything: without checks nothing is proven.
func TestReadiness(t *testing.T) {
	const (
		ready   = "no blocker, no hole"
		no      = "1 blocker"
		lacking = "holes alone"
		binding = "ClusterRoleBinding legacy"
	)
	legacy := byRBAC("legacy")
	silent := func(r *rules.Request) { theirs(nodeauthz.NotNode)(r); ours(nodeauthz.Unknown)(r) }
	f := func(name, head string, want []string, tell func(*log), change ...func(*Facts)) {
		t.Helper()
		l := newLog(t)
		tell(l)
		given := facts(int64(l.n))
		for _, c := range change {
			c(&given)
		}
		r := l.b.Report(given)
		out := text(t, r, Text{All: true})
		_, notes, _ := strings.Cut(out, "\nBlockers and notes in full\n")
		notes, _, _ = strings.Cut(notes, "\n\n")
		var got []string
		for line := range strings.Lines(notes) {
			got = append(got, strings.TrimSpace(line))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		found := plural(int64(len(r.Readiness.Blockers)), "blocker")
		if len(r.Readiness.Blockers) == 0 {
			if found = ready; len(r.Readiness.Holes) > 0 {
				found = lacking
			}
		}
		if found != head {
			t.Errorf("%s: %s, want %s", name, found, head)
		}
		if x := &r.Readiness; x.Verdict != VerdictUnknown || x.Ready || x.Evidence != "insufficient" || !strings.Contains(out, "deleted?   NOT ENOUGH EVIDENCE   ") {
			t.Errorf("%s: readiness %+v", name, r.Readiness)
		}
	}
	noState := func(f *Facts) { f.HasState = false }
	malformed := func(n, read int64) func(*Facts) {
		return func(f *Facts) { f.Events.Malformed, f.Events.Read = n, read }
	}

	// Ready.
	f("all allowed", ready, nil, func(l *log) { l.many(10) })
	f("refused by all", ready, nil, func(l *log) { l.many(10); l.add("worker-1 get secrets shop/db", denied) })
	f("races", ready, nil, func(l *log) { l.many(10); l.add("worker-1 get secrets shop/db", legacy, race) })
	f("warnings of the state", ready, []string{"! the state holds no Pod"}, func(l *log) { l.many(1) },
		func(f *Facts) {
			f.Gaps = []codes.Gap{{Code: codes.KindMissing, Params: codes.Params{codes.Text(codes.ParamKind, "Pod")}}}
		})
	f("failed anyway", ready,
		[]string{`! 2 requests of "kubelet" on 2 nodes were allowed only by ` + binding + `, and do not depend on it (404 or 403 anyway, the pod was just deleted, or the client continues without it): harmless: create serviceaccounts/token, get pods`},
		func(l *log) {
			l.many(10)
			l.add("worker-1 get pods shop/gone", legacy, code(404))
			l.add("worker-2 create serviceaccounts/token shop/web", legacy, code(403))
		})
	f("upgraded by kubeadm", ready, []string{`! 1 request of "kubeadm" on 1 node was allowed only by RoleBinding kube-system/kubeadm:nodes-kubeadm-config, ` +
		"which is kubeadm's, stays, and does not block: get configmaps"}, func(l *log) {
		l.many(10)
		l.add("worker-1 get configmaps kube-system/kubeadm-config", legacy, agent("kubeadm/v1.36.3"), func(r *rules.Request) {
			r.Grant.Binding = rbac.BindingRef{Kind: "RoleBinding", Namespace: "kube-system", Name: "kubeadm:nodes-kubeadm-config"}
		})
	})
	// The checks say that the binding stays, so that nothing breaks.
	for _, why := range []checks.Code{checks.WhyKeep, checks.WhyProvider} {
		f("a binding that stays: "+string(why), ready, nil, func(l *log) { l.many(10); l.add("worker-1 get configmaps shop/x", legacy) }, func(f *Facts) {
			f.Checks = []checks.Result{{Check: "bindings-inventoried", State: checks.Passed, Evidence: []checks.Item{
				{State: checks.Passed, Code: checks.CodeBindingStays, Object: binding, Value: string(why)},
			}}}
		})
	}
	f("a worker of k0s started", ready, []string{`! 1 request of "k0s" on 1 node was allowed only by RoleBinding kube-system/system:bootstrappers:worker-config-1.36, ` +
		"which is k0s's, stays, and does not block: get configmaps"}, func(l *log) {
		l.many(10)
		l.add("worker-1 get configmaps kube-system/worker-config-default-1.36", legacy, agent("k0s/v1.36.3"), func(r *rules.Request) {
			r.Grant.Binding = rbac.BindingRef{Kind: "RoleBinding", Namespace: "kube-system", Name: "system:bootstrappers:worker-config-1.36"}
		})
	})
	f("NodeRestriction is off", ready, []string{"! the admission plugin NodeRestriction is not in force: a write passed that it refuses"},
		func(l *log) { l.add("worker-1 patch nodes worker-2"); l.add("worker-1 patch nodes worker-3") })
	f("NodeRestriction is on", ready, nil, func(l *log) { l.add("worker-1 patch nodes worker-2", code(403)) })
	f("an administrator who tries", ready, nil, func(l *log) {
		l.many(10)
		l.add(" get pods shop/web-1", stranger("system:node:worker-1"), func(r *rules.Request) {
			r.Event.Impersonated, r.Event.IsImpersonated = r.Event.User, true
			r.Event.Impersonated.Groups, r.Event.User.Username = nil, "admin"
		}, denied)
	})
	f("without state, by the API server's word", lacking,
		[]string{"! no cluster state was given (--state): this rests on the API server's own decisions in the log, and which nodes there are is not known"},
		func(l *log) { l.many(10); l.add("worker-1 get pods shop/web-1", ours(nodeauthz.Unknown)) }, noState)

	// Not ready.
	f("a client", no, []string{`x 3 requests of "calico-node" on 2 nodes would break without ` + binding + `: get pods, get secrets`},
		func(l *log) {
			l.many(10)
			l.add("worker-1 get pods shop/x", legacy, agent("calico-node/v3"))
			l.add("worker-1 get secrets shop/x", legacy, agent("calico-node/v3"))
			l.add("worker-2 get secrets shop/x", legacy, agent("calico-node/v4"))
		})
	f("only what reached something counts", no, []string{
		`x 1 request of "curl" on 1 node would break without ` + binding + `: get secrets`,
		`! 2 requests of "curl" on 1 node were allowed only by ` + binding + `, and do not depend on it (404 or 403 anyway, the pod was just deleted, or the client continues without it): harmless: get secrets`,
	}, func(l *log) {
		l.many(10)
		l.add("worker-1 get secrets shop/x", legacy, agent("curl/8"), code(404))
		l.add("worker-1 get secrets shop/x", legacy, agent("curl/8"))
		l.add("worker-1 get secrets shop/x", legacy, agent("curl/8"), code(404))
	})
	f("many kinds", no, []string{`x 6 requests of "" on 1 node would break without ` + binding + `: get a, get b, get c, get d and 2 more`},
		func(l *log) {
			for _, resource := range []string{"a", "b", "c", "d", "e", "f"} {
				l.add("worker-1 get "+resource+" x", legacy, agent(""))
			}
		})
	f("a binding that is not named", no, []string{`x 1 request of "kubelet" on 1 node would break without an RBAC binding that the log does not name: list pods`},
		func(l *log) {
			l.add("worker-1 list pods ", func(r *rules.Request) {
				r.Answer.Verdict, r.Observed = nodeauthz.Deny, rules.Observed{}
			})
		})
	f("most first, then by name", "3 blockers", []string{
		`x 2 requests of "kubelet" on 1 node would break without ClusterRoleBinding b: get pods`,
		`x 1 request of "curl" on 1 node would break without ClusterRoleBinding a: get pods`,
		`x 1 request of "kubelet" on 1 node would break without ClusterRoleBinding a: get pods`,
	}, func(l *log) {
		for _, name := range []string{"b", "a", "b"} {
			l.add("worker-1 get pods shop/x", byRBAC(name))
		}
		l.add("worker-1 get pods shop/x", byRBAC("a"), agent("curl/8"))
	})
	f("an identity", no,
		[]string{`x user "kubelet" is in the group system:nodes but is not named system:node:<nodeName>: the Node authorizer does not know it (2 requests of "", kubelet)`},
		func(l *log) {
			l.many(10)
			l.add(" get nodes x", stranger("kubelet"))
			l.add(" get pods x", stranger("kubelet"), agent(""))
		})
	f("a reason is a reason, whatever the evidence", no, []string{
		`x 1 request of "kubelet" on 1 node would break without ` + binding + `: get secrets`,
		"! no cluster state was given (--state): this rests on the API server's own decisions in the log, and which nodes there are is not known",
	}, func(l *log) { l.add("worker-1 get secrets shop/x", legacy) }, noState)

	mode := func(mode string, inferred bool) func(*Facts) {
		return func(f *Facts) { f.Authorization.Mode, f.Authorization.Inferred = mode, inferred }
	}
	const force = "x the Node authorizer is not in force (authorization mode RBAC): put Node before RBAC first; without it, deleting the bindings cuts off all nodes"
	f("only RBAC", no, []string{force}, func(l *log) { l.many(10) }, mode("RBAC", true))
	f("only RBAC, given", no, []string{force}, func(l *log) { l.many(10) }, mode("RBAC", false))
	f("neither, given", no, []string{strings.Replace(force, "mode RBAC", "mode without Node", 1)}, func(l *log) { l.many(10) }, mode("", false))
	f("RBAC before Node, given", ready, nil, func(l *log) { l.many(10) }, mode("RBAC,Node", false))
	f("Node alone", ready, nil, func(l *log) { l.many(10) }, mode("Node", false))
	f("only RBAC comes first", "2 blockers", []string{
		force, `x 1 request of "kubelet" on 1 node would break without ` + binding + `: get pods`,
	}, func(l *log) { l.add("worker-1 get pods shop/x", legacy) }, mode("RBAC", true))

	// Not enough evidence.
	f("a mode that the log does not tell", lacking,
		[]string{"! the log does not tell whether the Node authorizer is in force: give --authorization-mode"},
		func(l *log) { l.many(10) }, mode("", true))
	f("RBAC before Node, or Node not everywhere", lacking,
		[]string{"! RBAC allows what the Node authorizer gives every node: it is asked first, or Node is not in force on every API server any more; " +
			"look at the flags of each and give --authorization-mode"},
		func(l *log) { l.many(10) }, mode("RBAC,Node", true))
	f("nothing", lacking, []string{"! the log holds no events"}, func(*log) {})
	f("no nodes", lacking, []string{"! the log holds no requests of nodes: the audit policy or a filter may drop them"}, func(*log) {},
		func(f *Facts) { f.Events.Read = 100 })
	f("without state", lacking, []string{
		"! no cluster state was given (--state): what the graph decides is unknown unless audit bodies tell it",
		"! 1 of 2 requests (50.0 %) could not be judged for lack of state",
	}, func(l *log) { l.many(1); l.add("worker-1 get pods shop/x", silent) }, noState)
	f("6 % unknown", lacking, []string{"! 3 of 50 requests (6.0 %) could not be judged for lack of state"}, func(l *log) {
		l.many(47)
		for range 3 {
			l.add("worker-1 get pods shop/x", silent)
		}
	})
	f("5 % unknown", ready, []string{"! 1 of 20 requests (5.0 %) could not be judged for lack of state"},
		func(l *log) { l.many(19); l.add("worker-1 get pods shop/x", silent) })
	f("disagreement", lacking,
		[]string{"! nodetrail and the API server disagree on 2 requests outside of races: the state, the version or the mode given may be wrong"},
		func(l *log) {
			l.many(100)
			l.add("worker-1 get pods shop/x", ours(nodeauthz.Deny))
			l.add("worker-1 get pods shop/x", ours(nodeauthz.Deny))
		})
	f("little disagreement", ready,
		[]string{"! nodetrail and the API server disagree on 1 request outside of races: the state, the version or the mode given may be wrong"},
		func(l *log) { l.many(99); l.add("worker-1 get pods shop/x", ours(nodeauthz.Deny)) })
	f("malformed", lacking, []string{"! 2 lines of the log could not be read"}, func(l *log) { l.many(1) }, malformed(2, 1000))
	f("a torn line", ready, []string{"! 1 line of the log could not be read"}, func(l *log) { l.many(1) }, malformed(1, 1000))
}

// The disagreements that are not listed count too.
func TestManyDisagreements(t *testing.T) {
	l := newLog(t)
	for range tally.MaxDisagree + 5 {
		l.add("worker-1 get pods shop/x", ours(nodeauthz.Deny))
	}
	r := l.b.Report(facts(1))
	if len(r.Agreement.Disagree) != tally.MaxDisagree || r.Agreement.DisagreeMore != 5 {
		t.Errorf("%d are listed and %d are not", len(r.Agreement.Disagree), r.Agreement.DisagreeMore)
	}
	if out := text(t, r, Text{All: true}); !strings.Contains(out, "... and 995 more disagreements\n") || !strings.Contains(out, "disagree on 1005 requests") {
		t.Errorf("the text is\n%s", out)
	}
}

func TestWords(t *testing.T) {
	for _, x := range []struct {
		n          int64
		what, want string
	}{
		{0, "request", "0 requests"}, {1, "request", "1 request"}, {2, "request", "2 requests"}, {1, "identity", "1 identity"},
		{2, "identity", "2 identities"}, {3, "more node", "3 more nodes"}, {2, "day", "2 days"},
	} {
		if got := plural(x.n, x.what); got != x.want {
			t.Errorf("plural(%d, %q) = %q, want %q", x.n, x.what, got, x.want)
		}
	}
	for _, x := range []struct {
		n, of int64
		want  string
	}{
		{0, 0, "0 %"}, {0, 5, "0.0 %"}, {5, 5, "100.0 %"}, {1, 3, "33.3 %"}, {99_999, 100_000, "99.9 %"}, {1, 100_000, "0.1 %"},
	} {
		if got := wording.Percent(x.n, x.of); got != x.want {
			t.Errorf("wording.Percent(%d, %d) = %q, want %q", x.n, x.of, got, x.want)
		}
	}
}
