package checks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

func cases() []kase {
	out := windowCases()
	for _, more := range [][]kase{readCases(), serverCases(), factCases(), useCases(), bindingCases()} {
		out = append(out, more...)
	}
	return out
}

func TestChecks(t *testing.T) {
	for i, c := range cases() {
		if i%effort.Of(1, 4) != 0 {
			continue
		}
		in := clean()
		c.change(in)
		r := resultOf(in, c.check)
		if r.State != c.want || c.code != "" && !codes(&r, c.want)[c.code] {
			t.Errorf("%s, %s: %s with %+v, want %s with %q", c.check, c.name, r.State, r.Evidence, c.want, c.code)
		}
		if (r.State == Passed) != (r.Next.Code == "") {
			t.Errorf("%s, %s: %s, next %q", c.check, c.name, r.State, r.Next.Code)
		}
	}
}

// A check that always passes is found out: for each one there is a case in which it alone stands between the input and a yes.
func TestEachCheckIsNeeded(t *testing.T) {
	found := map[string]string{}
	for _, c := range cases() {
		if c.want == Passed || found[c.check] != "" {
			continue
		}
		in := clean()
		c.change(in)
		results := Run(in)
		for i := range results {
			if results[i].Check == c.check {
				results[i] = Result{Check: c.check, State: Passed, Expected: 1, Seen: 1} // the planted defect
			}
		}
		for _, q := range []Question{Ready, Confined} {
			honest, planted := Conclude(q, Run(in), nil), Conclude(q, results, nil)
			if !honest.Good(true) && planted.Good(false) {
				found[c.check] = c.name
			}
		}
	}
	for _, c := range All() {
		if found[c.Name] == "" {
			t.Errorf("%s: no case shows that it is needed", c.Name)
		}
	}
}

// secretAt is a secret that worker-0, whose kubelet starts, needs in the span.
func secretAt(s Span) []Steady {
	return []Steady{{Node: "worker-0", Kind: evidence.ReadSecrets, Object: "shop/db", Spans: []Span{s}, Once: true}}
}

// morePods has a pod more come to each of the nodes, at those times, of which the log lacks an act.
func morePods(lacks evidence.Act, times ...time.Time) func(*Input) {
	return func(in *Input) {
		for i, at := range times {
			node := in.Nodes[i].Name
			in.Pods = append(in.Pods, PodLife{Node: node, At: at, Token: true})
			for act, e := range map[evidence.Act]tick{
				evidence.ActGetPod:      event(node, "get", "", "pods", "shop", "web", at),
				evidence.ActReportPod:   sub(event(node, "patch", "", "pods", "shop", "web", at), "status"),
				evidence.ActCreateToken: sub(event(node, "create", "", "serviceaccounts", "shop", "web", at), "token"),
			} {
				if act != lacks {
					in.Ledger.Observe(&e.ev, e.o)
				}
			}
		}
	}
}

// twoWatches are the first two watches, after 13:15, of so many kinds of each of the nodes.
func twoWatches(kinds int, nodes ...string) func(*tick) bool {
	lost := map[string]int{}
	return func(t *tick) bool {
		if t.ev.Verb != "watch" || t.time().Before(at(13, 15, 0)) || !slices.Contains(nodes, t.who()) {
			return false
		}
		kind := slices.Index([]string{"pods", "nodes", "services"}, t.ev.ObjectRef.Resource)
		of := t.who() + " " + t.ev.ObjectRef.Resource
		if kind < 0 || kind >= kinds || lost[of] == 2 {
			return false
		}
		lost[of]++
		return true
	}
}

func readCases() []kase {
	const check = "reads-logged"
	var out []kase
	watch := func(kind, node string, from, to int) func(*tick) bool {
		return func(t *tick) bool {
			return t.ev.Verb == "watch" && t.ev.ObjectRef.Resource == kind && (node == "" || t.who() == node) &&
				!t.ev.StageTime.Before(at(from, 0, 0)) && t.time().Before(at(to, 0, 0))
		}
	}
	fourth := func(node string) func(*tick) bool {
		n := 0
		return func(t *tick) bool {
			if t.ev.Verb != "watch" || node != "" && t.who() != node {
				return false
			}
			n++
			return n%4 == 0
		}
	}
	half := func(t *tick) bool { return t.ev.Verb == "watch" && t.time().Minute()/10%2 == 0 }
	out = append(out,
		kase{check, "a fourth of all watches", without(fourth("")), Unproven, CodeWatchesLost},
		kase{check, "a fourth of the watches of one node", without(fourth("worker-2")), Unproven, CodeWatchesLost},
		kase{check, "so many of one node, and of all they may be lost", all(without(fourth("worker-2")), func(in *Input) { in.MaxLoss = 0.1 }), Unproven, CodeWatchesLost},
		kase{check, "half of all watches of an hour, and of all hours they may be lost", all(without(func(t *tick) bool {
			return t.time().Hour() == 13 && half(t)
		}), func(in *Input) { in.MaxLoss = 0.2 }), Unproven, CodeWatchesLost},
	)
	for kind := range evidence.Watches {
		out = append(out,
			kase{check, "no watch of " + kind.String(), without(watch(kind.String(), "", 0, 23)), Unproven, CodeWatchMissing},
			kase{check, "none for an hour of one node: " + kind.String(), without(watch(kind.String(), "worker-2", 13, 14)), Unproven, CodeWatchMissing},
		)
	}
	act := func(act evidence.Act, node string, from, to int) func(*Input) {
		return without(func(t *tick) bool {
			name, kind := t.ev.Verb, t.ev.ObjectRef.Resource
			if t.ev.ObjectRef.Subresource != "" {
				kind += "/" + t.ev.ObjectRef.Subresource
			}
			return name+" "+kind == act.String() && (node == "" || t.o.Node == node) && !t.time().Before(at(from, 0, 0)) && t.time().Before(at(to, 0, 0))
		})
	}
	for a := range evidence.Acts {
		out = append(out,
			kase{check, a.String() + " of all missing", act(a, "", 0, 23), Unproven, CodeRequestMissing},
			kase{check, a.String() + " of all missing, as the policy says", all(act(a, "", 0, 23), func(in *Input) { in.Policy.Omits = []evidence.Act{a} }), Passed, ""},
			kase{check, a.String() + " of one node missing", act(a, "worker-1", 0, 23), Unproven, CodeRequestMissing},
		)
	}
	pods := func(change func(i int, p *PodLife)) func(*Input) {
		return func(in *Input) {
			for i := range in.Pods {
				change(i, &in.Pods[i])
			}
		}
	}
	renewed := func(t *tick) { t.ev.UserAgent = strings.Replace(t.ev.UserAgent, "/v1.30.", "/v1.36.", 1) }
	kept := func(i int, p *PodLife) { p.Until, p.Gone = time.Time{}, false }
	out = append(out,
		kase{check, "a node's status is not reported for an hour", act(evidence.ActReportNode, "worker-2", 13, 14), Unproven, CodeRequestMissing},
		kase{check, "an old kubelet does not get its Node for an hour", act(evidence.ActGetNode, "worker-1", 13, 14), Unproven, CodeRequestMissing},
		kase{check, "a kubelet of several that starts does not get its Node", act(evidence.ActGetNode, "worker-0", 13, 14), Passed, ""},
		kase{check, "the only one that starts does not get its Node", without(func(t *tick) bool {
			renewed(t)
			return t.ev.Verb == "get" && t.ev.ObjectRef.Name == "worker-0"
		}), Unproven, CodeRequestMissing},
		kase{check, "the only one that starts gets another Node", without(func(t *tick) bool {
			if renewed(t); t.ev.Verb == "get" && t.ev.ObjectRef.Name == "worker-0" {
				t.ev.ObjectRef.Name = "worker-2"
			}
			return false
		}), Unproven, CodeRequestMissing},
		kase{check, "not for an hour in which it was Ready for 20 minutes", all(act(evidence.ActReportNode, "worker-2", 13, 14), notReady(2, at(13, 20, 0), at(14, 0, 0))), Passed, ""},
		kase{check, "one pod of a node that its kubelet rejects", all(act(evidence.ActCreateToken, "worker-1", 0, 23), func(in *Input) {
			in.Pods = append(in.Pods[:4], in.Pods[6:]...)
		}), Passed, ""},
		kase{check, "four of nine pods nobody looked at", all(act(evidence.ActGetPod, "", 0, 23), pods(func(i int, p *PodLife) {
			if i%2 == 0 {
				p.At = at(14, 9, 0)
			}
		}), func(in *Input) {
			for _, n := range in.Nodes {
				e := event(n.Name, "get", "", "pods", "shop", "web", at(14, 9, 30))
				in.Ledger.Observe(&e.ev, e.o)
			}
		}), Unproven, CodeRequestMissing},
		kase{check, "others than those that were looked at", pods(func(i int, p *PodLife) {
			if p.Namespace, p.Name = "shop", "web"; i%3 == 0 {
				p.Namespace = "payments"
			}
		}), Unproven, CodeRequestMissing},
		kase{check, "those that were looked at", pods(func(_ int, p *PodLife) { p.Namespace, p.Name = "shop", "web" }), Passed, ""},
		kase{check, "pods without tokens", all(act(evidence.ActCreateToken, "", 0, 23), pods(func(_ int, p *PodLife) { p.Token = false })), Passed, ""},
		kase{check, "pods that stay", all(act(evidence.ActDeletePod, "", 0, 23), pods(kept)), Passed, ""},
		kase{check, "pods that end", all(act(evidence.ActDeletePod, "", 0, 23), pods(func(_ int, p *PodLife) { p.Gone = false })), Passed, ""},
		kase{check, "two pods deleted by force", all(act(evidence.ActDeletePod, "", 0, 23), pods(func(i int, p *PodLife) {
			if i > 1 {
				kept(i, p)
			}
		})), Passed, ""},
		kase{check, "three pods whose node vanished", all(act(evidence.ActDeletePod, "", 0, 23), pods(func(i int, p *PodLife) {
			if i > 2 {
				kept(i, p)
			}
		}), func(in *Input) {
			in.Nodes[0].Lives[0].To = at(14, 9, 40)
			in.Ledger = ledger(ticks(nil), func(t *tick) bool {
				return t.o.Node == "worker-0" && t.time().After(at(14, 9, 40)) || t.ev.Verb == "delete"
			})
		}), Passed, ""},
		kase{check, "three pods of a node that is not Ready", all(act(evidence.ActDeletePod, "", 0, 23), pods(func(i int, p *PodLife) {
			if i < 6 {
				kept(i, p)
			}
		}), notReady(2, at(14, 5, 0), at(14, 20, 0))), Passed, ""},
		kase{check, "pods that came before the window", all(act(evidence.ActGetPod, "", 0, 23), pods(func(_ int, p *PodLife) { p.At = at(12, 10, 0) })), Passed, ""},
		kase{check, "pods that went at once", all(act(evidence.ActGetPod, "", 0, 23), pods(func(_ int, p *PodLife) { p.Until, p.Gone = p.At.Add(30*time.Second), false })), Passed, ""},
		kase{check, "one pod is all there is, and nobody looked at it", all(act(evidence.ActGetPod, "", 0, 23), func(in *Input) { in.Pods = in.Pods[:1] }), Unproven, CodeRequestMissing},
		kase{check, "three pods of an hour without tokens", morePods(evidence.ActCreateToken, at(14, 30, 0), at(14, 31, 0), at(14, 32, 0)), Unproven, CodeRequestMissing},
		kase{check, "two pods of an hour without tokens", morePods(evidence.ActCreateToken, at(14, 30, 0), at(14, 31, 0)), Passed, ""},
		kase{check, "a pod of each hour without a token", morePods(evidence.ActCreateToken, at(12, 30, 0), at(14, 30, 0), at(15, 5, 0)), Passed, ""},
		kase{check, "a pod of each hour that nobody looked at", morePods(evidence.ActGetPod, at(12, 30, 0), at(14, 30, 0), at(15, 5, 0)), Unproven, CodeRequestMissing},
		kase{check, "a pod of each hour that nobody reported", morePods(evidence.ActReportPod, at(12, 30, 0), at(14, 30, 0), at(15, 5, 0)), Unproven, CodeRequestMissing},
		kase{check, "pods that come right before the log ends", morePods(evidence.ActGetPod, at(15, 12, 0), at(15, 13, 0), at(15, 14, 0)), Passed, ""},
		kase{check, "pods that start after eight minutes", pods(func(_ int, p *PodLife) { p.At = at(12, 54, 0) }), Passed, ""},
		kase{check, "pods that are seen to come a second late", pods(func(_ int, p *PodLife) { p.At = at(13, 5, 1) }), Passed, ""},
		kase{check, "pods that are seen to go a second late", pods(func(_ int, p *PodLife) { p.Until = at(14, 15, 1) }), Passed, ""},
		kase{check, "pods that are seen to go a second early", pods(func(_ int, p *PodLife) { p.Until = at(14, 9, 59) }), Passed, ""},
		kase{check, "two watches of each node, one after another", without(twoWatches(1, "worker-0", "worker-1", "worker-2")), Unproven, CodeWatchesLost},
		kase{check, "six watches of a node, where more may be lost", all(without(twoWatches(3, "worker-2")), func(in *Input) { in.MaxLoss = 0.1 }), Passed, ""},
	)
	reads := func(resource string) func(*tick) bool {
		return func(t *tick) bool { return t.ev.ObjectRef.Resource == resource && t.ev.ObjectRef.Namespace == "shop" }
	}
	silent := func(t *tick) bool { return t.o.Node == "worker-1" && !t.renews() }
	short := func(in *Input) { in.MinWindow = 2 * 60e9; in.Needs = nil }
	steady := func(spans ...Span) func(*Input) {
		return func(in *Input) {
			in.Steady = []Steady{{Node: "worker-1", Kind: evidence.ReadConfigMaps, Object: "shop/kube-root-ca.crt", Spans: spans}, {
				Node: "worker-0", Kind: evidence.ReadConfigMaps, Object: "shop/kube-root-ca.crt", Spans: spans[:1],
			}}
		}
	}
	// Both nodes read at 13:02, and worker-0 starts at 13:30.
	again := func(in *Input) {
		for _, x := range []struct {
			node string
			at   time.Time
		}{{"worker-0", at(13, 32, 0)}, {"worker-0", at(14, 20, 0)}, {"worker-1", at(14, 12, 0)}} {
			e := event(x.node, "watch", "", "configmaps", "shop", "kube-root-ca.crt", x.at)
			in.Ledger.Observe(&e.ev, e.o)
		}
	}
	until := func(t time.Time) func(*Input) { return func(in *Input) { in.Needs[0].Until = t } }
	always, untilTwo := Span{From: at(1, 0, 0)}, Span{at(1, 0, 0), at(14, 2, 0)}
	return append(out,
		kase{check, "what is needed all the time, and read again", all(again, steady(always)), Passed, ""},
		kase{check, "and read once", steady(always), Unproven, CodeReadMissing},
		kase{check, "needed until an hour later", all(again, steady(untilTwo, Span{at(13, 50, 0), at(14, 5, 0)})), Passed, ""},
		kase{check, "needed by one pod after another", all(again, steady(untilTwo, Span{From: at(13, 50, 0)})), Passed, ""},
		kase{check, "needed by one after another, and not read again", steady(Span{at(1, 0, 0), at(13, 20, 0)}, Span{From: at(13, 10, 0)}), Unproven, CodeReadMissing},
		kase{check, "not read again in the last hour, and the log has watches when they end", all(func(in *Input) {
			in.Ledger = ledgerWith(ticks(nil), nil, func(*tick) bool { return false })
		}, steady(Span{From: at(13, 50, 0)})), Passed, ""},
		kase{check, "not read for more than an hour between two reads", all(func(in *Input) {
			e := event("worker-1", "watch", "", "configmaps", "shop", "kube-root-ca.crt", at(14, 30, 0))
			in.Ledger.Observe(&e.ev, e.o)
		}, func(in *Input) {
			in.Steady = []Steady{{Node: "worker-1", Kind: evidence.ReadConfigMaps, Object: "shop/kube-root-ca.crt", Spans: []Span{{From: at(13, 2, 0)}}}}
		}), Unproven, CodeReadMissing},
		kase{check, "not read again in the last hour, and the policy hides watches while they last", all(steady(Span{From: at(13, 50, 0)}), func(in *Input) {
			in.Policy.Hidden = []Hidden{{Request: "watch *", Code: CodePolicyNoStart}}
		}), Passed, ""},
		kase{check, "not read again in the last hour, and only watches of other kinds have no beginning", all(steady(Span{From: at(13, 50, 0)}), func(in *Input) {
			e := event("worker-1", "watch", "acme.io", "things", "", "", at(13, 2, 0))
			e.ev.Stage, e.ev.StageTime = audit.StageResponseComplete, at(13, 50, 0)
			in.Ledger.Observe(&e.ev, e.o)
		}), Unproven, CodeReadMissing},
		kase{check, "not read after a start", steady(Span{at(1, 0, 0), at(13, 55, 0)}), Unproven, CodeReadMissing},
		kase{check, "a secret that is not read after a start", func(in *Input) { in.Steady = secretAt(Span{at(1, 0, 0), at(13, 55, 0)}) }, Unproven, CodeReadMissing},
		kase{check, "a secret that is read after a start", func(in *Input) {
			in.Steady = secretAt(Span{From: at(1, 0, 0)})
			e := event("worker-0", "watch", "", "secrets", "shop", "db", at(13, 32, 0))
			in.Ledger.Observe(&e.ev, e.o)
		}, Passed, ""},
		kase{check, "a start just before the need ends", steady(Span{at(1, 0, 0), at(13, 48, 0)}), Passed, ""},
		kase{check, "needed while the node was not Ready", all(again, steady(always), func(in *Input) {
			in.Ledger = ledger(ticks(nil), func(t *tick) bool { return t.o.Node == "worker-1" && t.ev.ObjectRef.Resource == "configmaps" })
			again(in)
		}, notReady(1, at(12, 40, 0), at(14, 5, 0)), func(in *Input) { in.Needs = nil }), Passed, ""},
		kase{check, "half an hour across the end of an hour", without(func(t *tick) bool {
			return t.ev.Verb == "watch" && t.who() == "worker-2" && t.ev.StageTime.After(at(13, 40, 0)) && t.time().Before(at(14, 20, 0))
		}), Unproven, CodeWatchMissing},
		kase{check, "no reads at all", without(func(t *tick) bool { return t.ev.Verb == "watch" || t.ev.Verb == "get" && t.o.Node != "" }), Unproven, CodeWatchMissing},
		kase{check, "a node that is silent but for its Lease", without(silent), Unproven, CodeWatchMissing},
		kase{check, "no read of a secret", without(reads("secrets")), Unproven, CodeReadMissing},
		kase{check, "no read of a configmap", without(reads("configmaps")), Unproven, CodeReadMissing},
		kase{check, "a pod that is seen a second late, in the next five minutes", func(in *Input) { in.Needs[0].At = at(13, 5, 1) }, Passed, ""},
		kase{check, "a secret that was read before the pod came", func(in *Input) { in.Needs[0].At = at(13, 5, 3) }, Unproven, CodeReadMissing},
		kase{check, "a secret that is read too late", func(in *Input) { in.Needs[0].At = at(12, 45, 0) }, Unproven, CodeReadMissing},
		kase{check, "a need before the window", func(in *Input) { in.Needs[0].At = at(12, 10, 0) }, Passed, ""},
		kase{check, "a need that lasts for two minutes", all(without(reads("secrets")), until(at(13, 4, 0))), Unproven, CodeReadMissing},
		kase{check, "a need that lasts for half a minute", all(without(reads("secrets")), until(at(13, 2, 20))), Passed, ""},
		kase{check, "a need of a node that is not Ready until it goes", all(without(reads("secrets")), notReady(1, at(12, 50, 0), at(13, 20, 0)), until(at(13, 20, 0))), Passed, ""},
		kase{check, "a need of a node that is Ready later", all(without(reads("secrets")), notReady(1, at(12, 50, 0), at(13, 20, 0))), Unproven, CodeReadMissing},
		kase{check, "and reads it then", all(without(reads("secrets")), notReady(1, at(12, 50, 0), at(13, 20, 0)), func(in *Input) {
			e := event("worker-1", "get", "", "secrets", "shop", "db", at(13, 20, 30))
			in.Ledger.Observe(&e.ev, e.o)
		}), Passed, ""},
		kase{check, "a need of a node that is about to be found not Ready", all(without(reads("secrets")), notReady(1, at(13, 2, 40), at(23, 0, 0))), Passed, ""},
		kase{check, "a need of a node that is about to vanish", all(without(func(t *tick) bool {
			return reads("secrets")(t) || t.o.Node == "worker-1" && t.time().After(at(13, 2, 0))
		}), func(in *Input) { in.Nodes[1].Lives[0].To = at(13, 3, 30) }), Passed, ""},
		kase{check, "needs of a virtual node", all(without(func(t *tick) bool { return t.o.Node == "worker-1" }), steady(always), again, func(in *Input) {
			in.Nodes[1].Virtual, in.Steady[1].Node = true, "worker-1"
			in.Ledger = ledger(ticks(nil), func(t *tick) bool { return t.o.Node == "worker-1" })
		}), Passed, ""},
		kase{check, "nobody knows the needs", func(in *Input) { in.NeedsKnown = false }, Unproven, CodeNeedsUnknown},
		kase{check, "an unknown set of nodes", func(in *Input) { in.NodesKnown = false }, Unproven, CodeNodesUnknown},
		kase{check, "no nodes", func(in *Input) { in.Nodes, in.Needs = nil, nil }, Unproven, CodeNothingSeen},
		kase{check, "a node that was not Ready", all(without(watch("pods", "worker-2", 13, 14)), notReady(2, at(13, 14, 0), at(13, 59, 59))), Passed, ""},
		kase{check, "one that was Ready for a quarter of the hour", all(without(watch("pods", "worker-2", 13, 14)), notReady(2, at(13, 16, 0), at(14, 0, 0))), Unproven, CodeWatchMissing},
		kase{check, "a window of two minutes", short, Passed, ""},
		kase{check, "a window of two minutes without a watch", all(without(watch("pods", "worker-2", 0, 23)), short), Unproven, CodeWatchMissing},
		kase{check, "a virtual node", all(without(func(t *tick) bool { return t.o.Node == "worker-0" }), func(in *Input) { in.Nodes[0].Virtual = true }), Passed, ""},
		kase{check, "no log", func(in *Input) { in.Ledger = nil }, Unproven, CodeNoLog},
	)
}

func serverCases() []kase {
	const seen, mode, version = "servers-seen", "node-authorizer-on", "version-known"
	rbacFirst := func(in *Input) {
		all := ticks(nil)
		for i := range all {
			if all[i].time().After(at(14, 0, 0)) {
				all[i].ev.Reason = `RBAC: allowed by ClusterRoleBinding "x" of ClusterRole "system:node" to Group "system:nodes"`
			}
		}
		in.Ledger = ledger(all, nil)
	}
	undecided := func(in *Input) {
		all := ticks(nil)
		for i := range all {
			all[i].ev.Decision = ""
		}
		in.Ledger = ledger(all, nil)
	}
	sometimesUndecided := func(in *Input) {
		all := ticks(nil)
		for i := range all {
			if m := all[i].time().Minute(); m >= 10 && m < 20 {
				all[i].ev.Decision = ""
			}
		}
		in.Ledger = ledger(all, nil)
	}
	noLeases := func(in *Input) {
		all := ticks(nil)
		for i := range all {
			all[i].o.Source = []string{"a", "b"}[i%2]
		}
		in.Ledger = ledger(all, func(t *tick) bool { return t.o.Node == "" })
		in.Servers = Servers{Configured: 2, Apart: true}
	}
	oneSource := func(in *Input) {
		noLeases(in)
		in.Ledger = ledger(ticks(nil), func(t *tick) bool { return t.o.Node == "" })
	}
	withoutReason := func(in *Input) {
		in.Unreasoned = Unreasoned{At: at(14, 0, 0), User: "system:serviceaccount:shop:builder", Request: "create configmaps", AuditID: "a"}
	}
	refused := func(in *Input) {
		e := event("worker-1", "update", "coordination.k8s.io", "leases", "kube-node-lease", "worker-1", at(14, 0, 0))
		e.ev.Decision, e.ev.Code = "forbid", 403
		in.Ledger.Observe(&e.ev, e.o)
	}
	configured := func(order string) func(*Input) {
		return func(in *Input) { in.Modes = []Mode{{"", order}} }
	}
	// The second server's last renewal in the log, and the last one of the state, which may have it to ten minutes.
	replaced := func(last, renewed time.Time, within time.Duration) func(*Input) {
		return all(without(renewals("apiserver-1", last, at(23, 0, 0))), func(in *Input) {
			in.Servers.Live[1].Ended = Span{renewed, renewed.Add(within)}
			in.Servers.Configured = 0
		})
	}
	lostStart := func(in *Input) {
		in.Ledger = ledger(ticks(nil), renewals("apiserver-0", at(14, 0, 0), at(14, 1, 0)))
	}
	out := []kase{
		{seen, "a server is missing", without(func(t *tick) bool { return t.who() == "apiserver-1" }), Unproven, CodeServerMissing},
		{seen, "a server is missing for ten minutes", without(renewals("apiserver-1", at(14, 0, 0), at(14, 10, 0))), Unproven, CodeServerMissing},
		{seen, "it was away for a minute and started", lostStart, Passed, CodeServerRestart},
		{seen, "it was away for a minute and did not start", without(renewals("apiserver-1", at(14, 0, 0), at(14, 1, 0))), Unproven, CodeServerMissing},
		{seen, "a server that ended", all(without(renewals("apiserver-1", at(14, 0, 0), at(23, 0, 0))), func(in *Input) {
			in.Servers.Live[1].Lives[0].To = at(14, 0, 0)
			in.Servers.Configured = 0
		}), Passed, ""},
		{seen, "a server that ended by its Lease", replaced(at(14, 2, 0), at(14, 1, 55), 0), Passed, ""},
		{seen, "it ended, and the log lacks its last half minute", replaced(at(14, 2, 0), at(14, 2, 25), 0), Passed, ""},
		{seen, "it ended, and the log lacks what was before", replaced(at(13, 52, 0), at(14, 0, 0), 0), Unproven, CodeServerMissing},
		{seen, "the state has it end before its last renewal", replaced(at(14, 30, 0), at(14, 0, 0), 0), Unproven, CodeServerMissing},
		{seen, "it ended at some time within ten minutes", replaced(at(14, 2, 0), at(14, 0, 0), 10*time.Minute), Unproven, CodeServerMissing},
		{seen, "and the log has nearly all of them", replaced(at(14, 9, 40), at(14, 0, 0), 10*time.Minute), Passed, ""},
		{seen, "nobody watched Leases, and how many there are is configured", func(in *Input) { in.Servers = Servers{Configured: 2} }, Passed, ""},
		{seen, "more are configured", func(in *Input) { in.Servers = Servers{Configured: 3} }, Unproven, CodeServersTooFew},
		{seen, "nobody knows how many there are", func(in *Input) { in.Servers = Servers{} }, Unproven, CodeServersUnknown},
		{seen, "no identity Leases, two sources", noLeases, Passed, ""},
		{seen, "no identity Leases, one source of two", oneSource, Unproven, CodeServersTooFew},
		{seen, "no identity Leases, sources that tell nothing", func(in *Input) { noLeases(in); in.Servers.Apart = false }, Unproven, CodeServersUnknown},
		{seen, "no log", func(in *Input) { in.Ledger = nil }, Unproven, CodeNoLog},

		{mode, "RBAC is first for an hour", rbacFirst, Failed, CodeNodeNotFirst},
		{mode, "a node may not renew its Lease", refused, Failed, CodeNodeNotFirst},
		{mode, "no annotations", undecided, Unproven, CodeModeUnknown},
		{mode, "no annotations in some minutes", sometimesUndecided, Unproven, CodeModeHidden},
		{mode, "no annotations in some minutes, but configured", all(sometimesUndecided, configured("Node,RBAC")), Passed, ""},
		{mode, "an authorizer without reasons", withoutReason, Unproven, CodeModeUntold},
		{mode, "an authorizer without reasons, long ago", func(in *Input) { withoutReason(in); in.Unreasoned.At = at(3, 0, 0) }, Passed, ""},
		{mode, "an authorizer without reasons, configured after Node", all(withoutReason, configured("Node,ABAC,RBAC")), Passed, ""},
		{mode, "an authorizer without reasons, and none is configured", all(withoutReason, configured("Node,RBAC")), Unproven, CodeModeUntold},
		{mode, "no annotations, but configured", all(undecided, configured("Node,RBAC")), Passed, ""},
		{mode, "configured for one of two servers", all(undecided, func(in *Input) { in.Servers, in.Modes = clean().Servers, []Mode{{"apiserver-0", "Node,RBAC"}} }), Unproven, CodeModeUnknown},
		{mode, "configured for both", all(undecided, func(in *Input) { in.Modes = []Mode{{"apiserver-0", "Node,RBAC"}, {"apiserver-1", "Node"}} }), Passed, ""},
		{mode, "two servers, and one source", func(in *Input) { in.Servers = clean().Servers }, Passed, CodeModeOfSome},
		{mode, "configured, and RBAC is first", all(rbacFirst, configured("Node,RBAC")), Failed, CodeNodeNotFirst},
		{mode, "only RBAC is configured", configured("RBAC"), Failed, CodeModeOff},
		{mode, "RBAC before Node is configured", configured("RBAC,Node"), Failed, CodeModeOff},
		{mode, "a webhook before Node", configured("Webhook,Node,RBAC"), Failed, CodeModeOff},
		{mode, "an hour without requests", without(func(t *tick) bool { return t.o.Node != "" && t.time().Hour() == 13 }), Unproven, CodeModeUnknown},
		{mode, "seconds of an hour before the log", func(in *Input) {
			in.Ledger = ledger(ticks(nil), func(t *tick) bool { return t.time().Before(at(13, 0, 0)) })
			in.MinWindow = in.Log.Until.Sub(at(12, 59, 40))
		}, Passed, ""},
		{mode, "six minutes of an hour before the log", func(in *Input) {
			in.Ledger = ledger(ticks(nil), func(t *tick) bool { return t.time().Before(at(13, 0, 0)) })
			in.MinWindow = in.Log.Until.Sub(at(12, 54, 0))
		}, Unproven, CodeModeUnknown},
		{mode, "no log", func(in *Input) { in.Ledger = nil }, Unproven, CodeNoLog},

		{version, "no end of the log", func(in *Input) { in.Log.Until = time.Time{} }, Unproven, CodeNoLog},
		{version, "an hour of which nothing is known", func(in *Input) { in.Versions = append(in.Versions[:1:1], in.Versions[2:]...) }, Unproven, CodeVersionUnknown},
		{version, "an hour without a minor", func(in *Input) { in.Versions[2].Minor = "" }, Unproven, CodeVersionUnknown},
		{version, "one server of two without a minor", func(in *Input) {
			in.Versions = append([]Version{{Hour: in.Versions[1].Hour, Server: "apiserver-1"}}, in.Versions...)
		}, Unproven, CodeVersionUnknown},
		{version, "two servers", func(in *Input) {
			in.Versions = append(in.Versions, Version{Hour: in.Versions[1].Hour, Server: "apiserver-1", Minor: "1.36"})
		}, Passed, ""},
		{mode, "another version's answers", func(in *Input) { in.Versions[1].Doubts = 1 }, Unproven, CodeVersionMoved},
		{mode, "the same, and the state is dated too early", func(in *Input) { in.Behind, in.Versions[1].Doubts = 3*time.Second, 1 }, Unproven, CodeClockBehind},
		{mode, "no version for all hours, and the state is dated too early", func(in *Input) { in.Behind, in.Versions[1].Moved = 3*time.Second, true }, Unproven, CodeVersionMoved},
		{mode, "the state is dated too early", func(in *Input) { in.Behind = 3 * time.Second }, Passed, ""},
		{version, "contradicted", func(in *Input) { in.Versions[1].Contradicted = 1 }, Failed, CodeVersionDiffers},
		{version, "contradicted before the window", func(in *Input) {
			in.Versions = append(in.Versions, Version{Hour: evidence.HourOf(noon) - 1, Contradicted: 9})
		}, Passed, ""},
		{version, "no log", func(in *Input) { in.Log.Until = at(0, 0, 0).AddDate(0, 0, -9) }, Unproven, CodeVersionUnknown},
	}
	for i := range out {
		if out[i].check == mode {
			out[i].change = all(inferred, out[i].change)
		}
	}
	return out
}
