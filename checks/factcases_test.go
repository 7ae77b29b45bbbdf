package checks

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/rbac"
)

func factCases() []kase {
	const policy, judged, agree, rare, state, on = "policy-known", "every-event-judged", "agreement", "rare-paths-seen", "state-complete", "rules-on"
	const identity, restriction = "identities-conform", "node-restriction-on"
	unjudged := func(u Unjudged) func(*Input) { return func(in *Input) { in.Unjudged = []Unjudged{u} } }
	start := func(t *tick) bool { return t.ev.Verb == "create" }
	begun := func(is func(*tick) bool) func(*Input) {
		return func(in *Input) { in.Ledger = ledgerWith(ticks(nil), nil, is) }
	}
	in0 := sync.OnceValue(clean)
	facts := map[string]func(*Input, *Findings){
		restriction:      func(in *Input, f *Findings) { in.Restriction = f },
		"tokens-on-node": func(in *Input, f *Findings) { in.Tokens = f },
		"one-holder":     func(in *Input, f *Findings) { in.Holders = f },
		"birth-guarded":  func(in *Input, f *Findings) { in.Births = f },
	}
	out := []kase{
		{policy, "not known", func(in *Input) { in.Policy = Policy{} }, Unproven, CodePolicyUnknown},
		{policy, "it hides", func(in *Input) { in.Policy.Hidden = []Hidden{{Request: "get nodes"}} }, Unproven, CodePolicyHides},
		{policy, "it hides what is open", func(in *Input) {
			in.Policy.Hidden = []Hidden{{Request: "watch *", Code: CodePolicyNoStart}}
		}, Unproven, CodePolicyNoStart},
		{policy, "it hides what panics", func(in *Input) { in.Policy.Hidden = []Hidden{{Request: "* *", Code: CodePolicyNoPanic}} }, Unproven, CodePolicyNoPanic},
		{policy, "no watch begins in the log", begun(func(*tick) bool { return false }), Unproven, CodeStartsMissing},
		{policy, "no watch of an hour begins in the log", begun(func(t *tick) bool { return t.time().Before(at(14, 0, 0)) || t.time().After(at(15, 0, 0)) }), Unproven, CodeStartsMissing},
		{policy, "no watch begins that was asked for before the window", begun(func(t *tick) bool { return !t.time().Before(in0().Log.Until.Add(-in0().MinWindow)) }), Passed, ""},
		{policy, "one watch does not begin in the log", begun(func(t *tick) bool {
			return t.who() != "worker-1" || t.ev.ObjectRef.Resource != "pods" || t.time().Before(at(13, 20, 0)) || t.time().After(at(13, 25, 0))
		}), Passed, ""},
		{policy, "few watches of each hour do not begin in the log", begun(unbegun(25, 45)), Unproven, CodeStartsMissing},
		{policy, "two watches of one hour do not begin in the log", begun(func(t *tick) bool { return t.time().Hour() != 13 || unbegun(25, 45)(t) }), Unproven, CodeStartsMissing},
		{policy, "two of one hour, and that may be lost", func(in *Input) {
			in.MaxLoss = 0.06
			begun(func(t *tick) bool { return t.time().Hour() != 13 || unbegun(25, 45)(t) })(in)
		}, Passed, ""},
		{policy, "more of one hour, and they are few of all", func(in *Input) {
			in.MaxLoss = 0.05
			begun(func(t *tick) bool { return t.time().Hour() != 13 || unbegun(5, 25, 45)(t) })(in)
		}, Unproven, CodeStartsMissing},
		{policy, "the log begins at 13:34", logsOnly(func(at time.Time) bool { return at.Hour() > 13 || at.Hour() == 13 && at.Minute() >= 34 }), Passed, ""},
		{policy, "the log has a break of half an hour", logsOnly(func(at time.Time) bool { return at.Hour() != 13 || at.Minute() < 12 || at.Minute() >= 42 }), Passed, ""},
		{policy, "the log has a break of nine minutes", logsOnly(func(at time.Time) bool { return at.Hour() != 13 || at.Minute() < 12 || at.Minute() >= 21 }), Passed, ""},
		{policy, "after which no watch begins in it", func(in *Input) {
			in.Ledger = ledgerWith(ticks(nil), func(t *tick) bool { return t.ev.StageTime.Before(at(13, 32, 0)) }, func(*tick) bool { return false })
		}, Unproven, CodeStartsMissing},
		{policy, "no watch of secrets begins in the log", func(in *Input) {
			in.Ledger = ledger(ticks(nil), nil)
			e := event("worker-1", "watch", "", "secrets", "shop", "db", at(13, 2, 0))
			e.ev.Stage, e.ev.StageTime = audit.StageResponseComplete, at(13, 50, 0)
			in.Ledger.Observe(&e.ev, e.o)
		}, Unproven, CodeStartsMissing},
		{policy, "not in force", func(in *Input) {
			in.Policy.Contradicted = []Contradiction{{Request: "get nodes", AuditID: "a"}}
		}, Unproven, CodePolicyOther},

		{judged, "too long", unjudged(Unjudged{Code: CodeTooLong, Line: "audit.log:7"}), Unproven, CodeTooLong},
		{judged, "no verdict", unjudged(Unjudged{Code: CodeNoVerdict, Node: "worker-1", Count: 3}), Unproven, CodeNoVerdict},
		{judged, "of no node", unjudged(Unjudged{Code: CodeTorn, OfNoNode: true}), Passed, CodeOfNoNode},
		{judged, "no requests", func(in *Input) { in.Log.Requests = 0 }, Unproven, CodeNothingSeen},

		{agree, "one disagreement", func(in *Input) { in.Agreement.Disagreements = []Disagreement{{Node: "worker-1"}} }, Failed, CodeDisagreement},
		{agree, "more that are not listed", func(in *Input) { in.Agreement.More = 1 }, Failed, CodeDisagreement},
		{agree, "lag", func(in *Input) { in.Agreement.Disagreements = []Disagreement{{Node: "worker-1", Lag: true}} }, Passed, CodeLag},
		{agree, "one when nobody watched", func(in *Input) { in.Agreement.Disagreements = []Disagreement{{Node: "worker-1", Unwatched: true}} }, Unproven, CodeNotWatched},
		{agree, "one more when nobody watched", func(in *Input) {
			in.Agreement.Disagreements = []Disagreement{{Node: "worker-1", Unwatched: true}, {Node: "worker-1"}}
		}, Failed, CodeDisagreement},
		{agree, "one within a second that nothing orders", func(in *Input) { in.Agreement.Disagreements = []Disagreement{{Node: "worker-1", Unordered: true}} }, Unproven, CodeWholeSeconds},
		{agree, "more of those than are listed", func(in *Input) {
			in.Agreement.Disagreements, in.Agreement.More = []Disagreement{{Node: "worker-1", Unordered: true}}, 1
		}, Failed, CodeDisagreement},
		{agree, "one within a second and another one", func(in *Input) {
			in.Agreement.Disagreements = []Disagreement{{Node: "worker-1", Unordered: true}, {Node: "worker-1"}}
		}, Failed, CodeDisagreement},
		{agree, "more than are listed, of which one is another one", func(in *Input) {
			in.Agreement.Disagreements, in.Agreement.More = []Disagreement{{Node: "worker-1", Unordered: true}, {Node: "worker-1", Unwatched: true}}, 1
		}, Failed, CodeDisagreement},
		{agree, "nothing could be compared", func(in *Input) { in.Agreement = Agreement{Decided: 10, Rests: 1} }, Unproven, CodeNotCompared},
		{agree, "everything is decided by the apiserver", func(in *Input) { in.Agreement = Agreement{Decided: 10} }, Passed, ""},
		{agree, "nothing at all", func(in *Input) { in.Agreement = Agreement{} }, Unproven, CodeNothingSeen},

		{rare, "no kubelet started", without(start), Unproven, CodeNoKubeletStart},
		{rare, "one started before the window", func(in *Input) { in.MinWindow = 30 * time.Minute }, Unproven, CodeNoKubeletStart},
		{rare, "one started and watched no services", without(func(t *tick) bool {
			return t.ev.ObjectRef.Resource == "services" && t.who() == "worker-0" && !t.time().Before(at(12, 50, 0))
		}), Unproven, CodeStartIncomplete},
		{rare, "one joined", registers("worker-2", at(14, 0, 0), 201), Passed, CodeNodeJoined},
		{rare, "one joined, by the state, and the log does not show how", livesFrom(at(13, 40, 0)), Unproven, CodeStartIncomplete},
		{rare, "one joined right before the log ends", func(in *Input) { in.Nodes[2].Lives[0].From = in.Log.Until.Add(-20 * time.Minute) }, Passed, ""},
		{rare, "one joined, and the state has it nine minutes later", all(livesFrom(at(13, 40, 0)), registers("worker-2", at(13, 31, 0), 201)), Passed, ""},
		{rare, "a virtual one joined", func(in *Input) {
			in.Nodes[2].Virtual, in.Nodes[2].Lives[0].From = true, at(13, 40, 0)
			in.Ledger = ledger(ticks(nil), func(t *tick) bool { return t.o.Node == "worker-2" })
		}, Passed, ""},
		{rare, "one joined, and was registered", all(livesFrom(at(13, 40, 0)), registers("worker-2", at(13, 41, 0), 409)), Passed, ""},
		{rare, "one that is no node of the state", all(without(start), registers("other", at(14, 0, 0), 201)), Unproven, CodeNoKubeletStart},
		{rare, "no log", func(in *Input) { in.Ledger = nil }, Unproven, CodeNoLog},

		{state, "none", func(in *Input) { in.State.Given = false }, Unproven, CodeStateMissing},
		{state, "a gap", func(in *Input) { in.State.Gaps = []Gap{{Kind: "state", Code: "no-pods"}} }, Unproven, CodeStateGap},
		{state, "empty", func(in *Input) { in.State.Objects = 0 }, Unproven, CodeNothingSeen},

		{on, "one is off", func(in *Input) { in.Rules[2].On = false }, Unproven, CodeRuleOff},
		{on, "one was forgotten", func(in *Input) { in.Rules = in.Rules[:2] }, Unproven, CodeRuleUnknown},
		{on, "one is on here and off there", func(in *Input) { in.Rules = append(in.Rules, Rule{Name: in.Rules[0].Name}) }, Unproven, CodeRuleOff},

		{identity, "a missing group", func(in *Input) { in.Identities = []Identity{{User: "system:node:a", Reason: "group-missing"}} }, Failed, "group-missing"},
		{identity, "one that failed anyway", func(in *Input) {
			in.Identities = []Identity{{User: "system:node:a", Reason: "group-missing", Harmless: true}}
		}, Passed, CodeIdentityHarmless},
		{identity, "a machine whose Node was deleted", func(in *Input) {
			in.Identities = []Identity{{User: "system:node:a", Reason: "node-gone", Harmless: true, Gone: true}}
		}, Passed, CodeIdentityGone},
		{identity, "one that asks for another Node, too", func(in *Input) {
			in.Identities = []Identity{{User: "system:node:a", Reason: "node-gone", Harmless: true, Gone: true}, {User: "system:node:a", Reason: "node-missing"}}
		}, Failed, "node-missing"},
		{identity, "nobody looked", func(in *Input) { in.Rules = in.Rules[:1] }, Unproven, CodeRuleUnknown},
		{identity, "the rule is off", func(in *Input) { in.Rules[1].On = false }, Unproven, CodeRuleOff},
		{identity, "no requests", func(in *Input) { in.Log.Requests = 0 }, Unproven, CodeNothingSeen},
	}
	for name, set := range facts {
		out = append(out,
			kase{name, "nobody looked", func(in *Input) { set(in, nil) }, Unproven, CodeNotLookedAt},
			kase{name, "nothing was there to look at", func(in *Input) { set(in, &Findings{}) }, Unproven, CodeNothingSeen},
			kase{name, "something is wrong", func(in *Input) {
				set(in, &Findings{Looked: 2, Wrong: []Item{{Code: "x"}}, NotKnown: []Item{{Code: "y"}}})
			}, Failed, "x"},
			kase{name, "something is not known", func(in *Input) { set(in, &Findings{Looked: 2, NotKnown: []Item{{Code: "y"}}}) }, Unproven, "y"},
		)
	}
	return out
}

// registers has a node ask for its Node to be created, and be answered with a status of HTTP.
func registers(node string, when time.Time, code int32) func(*Input) {
	return func(in *Input) {
		e := event(node, "create", "", "nodes", "", node, when)
		e.ev.Code = code
		in.Ledger.Observe(&e.ev, e.o)
	}
}

// asksReview has somebody ask what another user may do.
func asksReview(username string, kubelet bool) func(*Input) {
	return func(in *Input) {
		e := event("", "create", "authorization.k8s.io", "subjectaccessreviews", "", "", at(14, 0, 0))
		e.ev.User, e.o = audit.User{Username: username}, evidence.Origin{Kubelet: kubelet}
		if node, is := strings.CutPrefix(username, "system:node:"); is {
			e.o.Node = node
		}
		in.Ledger.Observe(&e.ev, e.o)
	}
}

// livesFrom has the state know worker-2 from then on.
func livesFrom(from time.Time) func(*Input) {
	return func(in *Input) { in.Nodes[2].Lives[0].From = from }
}

// logsOnly has the log hold only what is written at some times.
func logsOnly(logs func(at time.Time) bool) func(*Input) {
	return func(in *Input) {
		in.Ledger = ledgerWith(ticks(nil), func(t *tick) bool { return !logs(t.ev.StageTime) }, func(t *tick) bool { return logs(t.time()) })
	}
}

// unbegun is false for the watches of worker-1 in those five minutes of each hour.
func unbegun(minutes ...int) func(*tick) bool {
	return func(t *tick) bool { return t.who() != "worker-1" || !slices.Contains(minutes, t.time().Minute()/5*5) }
}

// In whatever minute a log begins, or continues after a break, what began before is not missed.
func TestLogBeginsInAnyMinute(t *testing.T) {
	for minute := range 60 {
		begins := at(13, minute, 0)
		for name, logs := range map[string]func(time.Time) bool{
			"begins": func(at time.Time) bool { return !at.Before(begins) },
			"breaks": func(at time.Time) bool { return !at.Before(begins) || at.Before(begins.Add(-20*time.Minute)) },
		} {
			in := clean()
			logsOnly(logs)(in)
			if r := resultOf(in, "policy-known"); r.State != Passed {
				t.Errorf("the log %s at %s: %+v", name, begins, r.Evidence)
			}
		}
	}
}

// What is to be done next is what removes the doubt: the API servers have to log more, the policy that is given is not the one in force, or somebody has to be found.
func TestNext(t *testing.T) {
	none := func(in *Input) { in.Ledger = ledgerWith(ticks(nil), nil, func(*tick) bool { return false }) }
	other := func(in *Input) { in.Policy.Contradicted = []Contradiction{{Request: "get nodes", AuditID: "a"}} }
	hides := func(in *Input) { in.Policy.Hidden = []Hidden{{Request: "get nodes"}} }
	doubts := func(codes ...Code) func(*Input) {
		return func(in *Input) {
			in.Holders = &Findings{}
			for _, c := range codes {
				in.Holders.Doubt(Item{Code: c})
			}
		}
	}
	wrong := func(in *Input) { in.Holders = &Findings{Looked: 1, Wrong: []Item{{Code: CodeSecondUser}}} }
	disagrees := func(all ...Disagreement) func(*Input) { return func(in *Input) { in.Agreement.Disagreements = all } }
	uses := func(all ...Use) func(*Input) {
		return func(in *Input) {
			for i := range all {
				all[i].Node, all[i].Outcome, all[i].Count = "worker-1", OutcomeNotFound, 1
			}
			in.Uses = all
		}
	}
	const policy, holder, agree, depends = "policy-known", "one-holder", "agreement", "nothing-depends"
	for _, c := range []struct {
		check, name string
		change      func(*Input)
		want        Code
	}{
		{policy, "no beginnings", none, NextLogStarts},
		{policy, "not in force", other, NextGivePolicyInForce},
		{policy, "both", all(none, other), NextGivePolicyInForce},
		{policy, "nobody who makes pods", without(func(t *tick) bool { return t.brings() == "pod" }), NextLogOthers},
		{policy, "it hides", hides, NextGivePolicy},
		{agree, "whole seconds", disagrees(Disagreement{Unordered: true}), NextKeepFractions},
		{agree, "whole seconds and more", disagrees(Disagreement{Unordered: true}, Disagreement{Unwatched: true}), NextCheckState},
		{depends, "nobody watched", uses(Use{Unseen: true}), NextRecordState},
		{depends, "nobody watched one of two", uses(Use{Unseen: true}, Use{}), NextMoveClients},
		{depends, "no requests", func(in *Input) { in.Log.Requests = 0 }, NextMoveClients},
		{holder, "somebody else", wrong, NextFindHolder},
		{holder, "perhaps somebody else", doubts(CodeAddressUnnamed, CodeSecondUserDoubtful), NextFindHolder},
		{holder, "perhaps somebody else, and no order", doubts(CodeLeftOut, CodeSecondUserDoubtful), NextFindHolder},
		{holder, "no order", doubts(CodeAddressUnnamed, CodeLeftOut), NextOrderLogs},
		{holder, "no credential IDs", doubts(CodeAddressUnnamed), NextLogCredentials},
	} {
		in := clean()
		c.change(in)
		if r := resultOf(in, c.check); r.Next.Code != c.want {
			t.Errorf("%s: %q, want %q", c.name, r.Next.Code, c.want)
		}
	}
}

func useCases() []kase {
	const depends, races, excess = "nothing-depends", "races-decided", "no-excess-use"
	goes := rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: "legacy"}
	staying := rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: "kubeadm:get-nodes"}
	use := func(change func(*Use)) func(*Input) {
		return func(in *Input) {
			u := Use{Binding: goes, Node: "worker-1", Client: "kubelet", Kubelet: true, Request: "get secrets", Outcome: OutcomeSucceeded, Count: 1}
			change(&u)
			in.Uses = []Use{u}
			in.Bindings = append(in.Bindings, clusterBinding("legacy", "system:node", systemNode, group("system:nodes")))
		}
	}
	race := func(r Races) func(*Input) { return func(in *Input) { in.Races = []Races{r} } }
	answer := func(o Outcome, more func(*Use)) func(*Input) {
		return use(func(u *Use) {
			u.Outcome = o
			if more != nil {
				more(u)
			}
		})
	}
	gone := func(u *Use) { u.JustGone = true }
	limited := func(change func(*Use)) func(*Input) {
		return func(in *Input) {
			use(func(u *Use) { u.Unlimited = true; change(u) })(in)
			in.Limited = true
		}
	}
	return []kase{
		{depends, "lag", use(func(u *Use) { u.Lag = true }), Passed, CodeLag},
		{excess, "lag", use(func(u *Use) { u.Lag = true }), Passed, CodeLag},
		{races, "nobody looked at them", func(in *Input) { in.RacesKnown = false }, Unproven, CodeNotLookedAt},
		{depends, "it succeeded", answer(OutcomeSucceeded, nil), Failed, CodeNeedsBinding},
		{depends, "a watch of what was its own until just before", answer(OutcomeSucceeded, gone), Passed, CodeHarmlessUse},
		{depends, "no user of a node", use(func(u *Use) { u.Node, u.User = "", "jane" }), Failed, CodeNeedsBinding},
		{depends, "a binding that nobody names", use(func(u *Use) { u.Binding = rbac.BindingRef{} }), Failed, CodeNeedsBinding},
		{depends, "a binding that the state does not have", use(func(u *Use) { u.Binding.Name = "another" }), Failed, CodeNeedsBinding},
		{depends, "a binding that stays", use(func(u *Use) { u.Binding = staying }), Passed, CodeStayingUse},
		{depends, "a binding that is not about nodes", use(func(u *Use) { u.Binding.Name = "system:discovery" }), Passed, CodeStayingUse},
		{depends, "one that is not about nodes any more", use(func(u *Use) { u.Binding.Name, u.Went = "system:discovery", true }), Failed, CodeNeedsBinding},
		{depends, "a binding that stays, and went", use(func(u *Use) { u.Binding, u.Went = staying, true }), Unproven, CodeGaveMore},
		{depends, "lag at a binding that stays, and went", use(func(u *Use) { u.Binding, u.Went, u.Lag = staying, true, true }), Passed, CodeLag},
		{depends, "what admission refused, by a binding that stays, and went", use(func(u *Use) { u.Binding, u.Went, u.Outcome = staying, true, OutcomeRefused }), Passed, CodeHarmlessUse},
		{depends, "a binding that is kept", all(use(func(u *Use) { u.Binding, u.Went = staying, true }), func(in *Input) { in.Keep = []rbac.BindingRef{staying} }), Passed, CodeStayingUse},
		{depends, "a conflict", answer(OutcomeOther, nil), Failed, CodeNeedsBinding},
		{depends, "404 of what was on the node", answer(OutcomeNotFound, gone), Passed, CodeHarmlessUse},
		{depends, "what the client does without", answer(OutcomeSucceeded, func(u *Use) { u.Tolerated = true }), Passed, CodeHarmlessUse},
		{depends, "404 of what was not", answer(OutcomeNotFound, nil), Failed, CodeNeedsBinding},
		{depends, "404 of what nobody watched", answer(OutcomeNotFound, func(u *Use) { u.Unseen = true }), Unproven, CodeOwnUnknown},
		{depends, "allowed before 1.32, and the API servers limit nodes", limited(func(u *Use) {}), Failed, CodeNeedsSinceLimited},
		{depends, "404 of what was on the node, allowed before 1.32", limited(func(u *Use) { u.Outcome, u.JustGone = OutcomeNotFound, true }), Passed, ""},
		{depends, "allowed before 1.32 by a binding that stays", limited(func(u *Use) { u.Binding = staying }), Passed, CodeStayingUse},
		{depends, "nodes are not limited", use(func(u *Use) { u.Unlimited = true }), Passed, CodeNeedsLater},
		{excess, "allowed before 1.32", limited(func(u *Use) {}), Passed, ""},
		{excess, "404 of what nobody watched", answer(OutcomeNotFound, func(u *Use) { u.Unseen = true }), Unproven, CodeOwnUnknown},
		{depends, "404 by another client", answer(OutcomeNotFound, func(u *Use) { u.JustGone, u.Kubelet = true, false }), Failed, CodeNeedsBinding},
		{depends, "404 by no node", answer(OutcomeNotFound, func(u *Use) { u.JustGone, u.Node = true, "" }), Failed, CodeNeedsBinding},
		{depends, "404 of a backend", answer(OutcomeNotFound, func(u *Use) { u.JustGone, u.Proxy = true, true }), Failed, CodeNeedsBinding},
		{depends, "refused by admission", answer(OutcomeRefused, func(u *Use) { u.Kubelet = false }), Passed, CodeHarmlessUse},
		{depends, "refused by a backend", answer(OutcomeRefused, func(u *Use) { u.Proxy = true }), Failed, CodeNeedsBinding},
		{depends, "impersonation of what is not there", answer(OutcomeNotFound, func(u *Use) { u.JustGone, u.Impersonation = true, true }), Failed, CodeNeedsBinding},
		{depends, "no answer", answer(OutcomeUnknown, nil), Unproven, CodeAnswerUnknown},
		{depends, "a group may have been asked for", use(func(u *Use) { u.Perhaps = true }), Unproven, CodeMayAsk},
		{depends, "rights were given to others", use(func(u *Use) { u.Given = true }), Unproven, CodeGivesRights},
		{depends, "rights were not given, for admission", answer(OutcomeRefused, func(u *Use) { u.Given = true }), Passed, CodeHarmlessUse},
		{depends, "another binding gave the same until it ended", use(func(u *Use) { u.Ended = true }), Unproven, CodeOtherEnded},
		{depends, "another binding ended, and the client does not notice", answer(OutcomeRefused, func(u *Use) { u.Ended = true }), Passed, CodeHarmlessUse},
		{excess, "another binding gave the same until it ended", use(func(u *Use) { u.Ended = true }), Passed, ""},
		{excess, "rights were given to others", use(func(u *Use) { u.Given = true }), Passed, ""},
		{depends, "in a race", use(func(u *Use) { u.Race = true }), Passed, ""},
		{depends, "bindings that nobody knows", func(in *Input) { in.BindingsKnown = false }, Unproven, CodeBindingsUnknown},
		{depends, "no requests", func(in *Input) { in.Log.Requests = 0 }, Unproven, CodeNothingSeen},

		{excess, "by a binding that is not about nodes", func(in *Input) {
			in.Uses = []Use{{Binding: in.Bindings[2].Binding, Node: "worker-1", Outcome: OutcomeSucceeded}}
		}, Failed, CodeExcessUse},
		{excess, "it succeeded", use(func(u *Use) { u.Binding.Name = "system:discovery" }), Failed, CodeExcessUse},
		{excess, "by a binding that stays", use(func(u *Use) { u.Binding = staying }), Passed, CodeStayingUse},
		{excess, "by a binding that stays, and went", use(func(u *Use) { u.Binding, u.Went = staying, true }), Failed, CodeExcessUse},
		{excess, "by a binding that is kept, and gave too much", all(use(func(u *Use) { u.Binding, u.TooMuch = staying, true }), func(in *Input) { in.Keep = []rbac.BindingRef{staying} }), Failed, CodeExcessUse},
		{excess, "by a binding that is kept", all(use(func(u *Use) { u.Binding, u.Went = staying, true }), func(in *Input) { in.Keep = []rbac.BindingRef{staying} }), Passed, CodeStayingUse},
		{excess, "harmless", answer(OutcomeNotFound, gone), Passed, CodeHarmlessUse},
		{excess, "a kubelet in a race", use(func(u *Use) { u.Race = true }), Passed, CodeHarmlessUse},
		{excess, "another client in a race", use(func(u *Use) { u.Race, u.Kubelet = true, false }), Failed, CodeExcessUse},
		{excess, "no answer", answer(OutcomeUnknown, nil), Unproven, CodeAnswerUnknown},
		{excess, "bindings that nobody knows", func(in *Input) { in.BindingsKnown = false }, Unproven, CodeBindingsUnknown},
		{excess, "no requests", func(in *Input) { in.Log.Requests = 0 }, Unproven, CodeNothingSeen},

		{races, "a program", race(Races{Client: "curl", ByRBAC: 1}), Failed, CodeRaceNotExcused},
		{races, "a program, not decided", race(Races{Client: "curl", Undecided: 1}), Unproven, CodeRaceUndecided},
		{races, "a kubelet", race(Races{Kubelet: true, ByRBAC: 15, Undecided: 5}), Passed, ""},
		{races, "a kubelet, again and again", race(Races{Kubelet: true, ByRBAC: 16, Undecided: 5}), Unproven, CodeManyRaces},
		{races, "no requests", func(in *Input) { in.Log.Requests = 0 }, Unproven, CodeNothingSeen},
	}
}

// keptCases are bindings that are kept: what they give may not be of another node.
func keptCases(rights string, rule func(verb, group, resource string) []rbacv1.PolicyRule, bind func([]rbacv1.PolicyRule, ...rbac.SubjectRef) func(*Input)) (out []kase) {
	const leaseGroup, storage = "coordination.k8s.io", "storage.k8s.io"
	add := func(what string, rules []rbacv1.PolicyRule, namespace, object string, state State) {
		if object != "" {
			rules[0].ResourceNames = []string{object}
		}
		code := CodeBindingStays
		if state == Failed {
			code = CodeDangerousRight
		}
		out = append(out, kase{rights, "kept: " + what, all(bind(rules, group("system:nodes")), func(in *Input) {
			b := &in.Bindings[len(in.Bindings)-1].Binding
			if namespace != "" {
				*b = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: namespace, Name: "x"}
			}
			in.Keep = []rbac.BindingRef{*b}
		}), state, code})
	}
	for _, verb := range []string{"get", "list", "watch", "update", "*"} {
		for _, k := range nodeKinds() {
			add(verb+" all "+k.resource, rule(verb, k.group, k.resource), "", "", Failed)
		}
	}
	add("ConfigMaps of a namespace", rule("get", "", "configmaps"), "shop", "", Failed)
	add("pods of a namespace", rule("list", "", "pods"), "shop", "", Failed)
	add("logs of pods", rule("get", "", "pods/log"), "", "", Failed)
	add("metrics of nodes", rule("get", "", "nodes/metrics"), "", "", Failed)
	add("status of everything", rule("get", "*", "*/status"), "", "", Failed)
	add("the Lease of a node", rule("get", leaseGroup, "leases"), "", "worker-1", Failed)
	add("a Lease of nodes", rule("get", leaseGroup, "leases"), nodeLeases, "worker-1", Failed)
	add("a Node by its name", rule("get", "", "nodes"), "", "worker-1", Failed)
	add("a ConfigMap by its name", rule("get", "", "configmaps"), "kube-system", "cni-config", Passed)
	add("a ConfigMap by its name, in every namespace", rule("get", "", "configmaps"), "", "cni-config", Passed)
	add("a Lease of its own", rule("update", leaseGroup, "leases"), "", "node-agent", Passed)
	add("Leases of another namespace", rule("update", leaseGroup, "leases"), "kube-system", "", Passed)
	add("what is in no namespace, in one", rule("get", storage, "csinodes"), "shop", "", Passed)
	add("to create CSINodes, which NodeRestriction limits", rule("create", storage, "csinodes"), "", "", Passed)
	add("what Node gives all nodes", rule("list", "", "services"), "", "", Passed)
	add("what is of no node", rule("list", "", "namespaces"), "", "", Passed)
	add("objects of others", rule("list", "example.com", "pods"), "", "", Passed)
	add("devices of its own node, about which admission asks", rule("associated-node:update", "resource.k8s.io", "resourceclaims/driver"), "", "", Passed)
	return out
}

func bindingCases() []kase {
	const inventory, rights = "bindings-inventoried", "no-excess-rights"
	order := func(names string) func(*Input) { return func(in *Input) { in.Modes = []Mode{{"", names}} } }
	rule := func(verb, group, resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}}
	}
	ended := func(to ...rbac.SubjectRef) func(*Input) {
		return func(in *Input) {
			in.Ended = []EndedRight{{BindingInfo: clusterBinding("agents", "agents", rule("get", "", "nodes/proxy"), to...), Right: "get nodes/proxy"}}
		}
	}
	bindAs := func(name, role string, rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) func(*Input) {
		return func(in *Input) { in.Bindings = append(in.Bindings, clusterBinding(name, role, rules, subjects...)) }
	}
	bind := func(rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) func(*Input) {
		return bindAs("x", "x", rules, subjects...)
	}
	paths := func(verb, path string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, NonResourceURLs: []string{path}}}
	}
	inNamespace := func(change func(*Input)) func(*Input) {
		return all(change, func(in *Input) {
			in.Bindings[len(in.Bindings)-1].Binding = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: "shop", Name: "x"}
		})
	}
	grown := func(of string) func(*Input) {
		return all(bind(systemNode, group("system:nodes")), func(in *Input) {
			in.Grown = []Grown{{Binding: in.Bindings[len(in.Bindings)-1].Binding, Since: at(14, 0, 0), Group: of}}
		})
	}
	out := []kase{
		{inventory, "another binding gave the same until it ended, to nodes", grown(""), Unproven, CodeBindingGrown},
		{inventory, "to a group that nodes are in", grown("system:nodes"), Unproven, CodeBindingGrown},
		{inventory, "to a group that no node is in", grown("acme:people"), Passed, CodeBindingGoes},
		{inventory, "to a group, and nobody looked whether nodes are in it", all(grown("acme:people"), func(in *Input) { in.NodeGroupsKnown = false }), Unproven, CodeBindingGrown},
		{inventory, "not known", func(in *Input) { in.BindingsKnown = false }, Unproven, CodeBindingsUnknown},
		{inventory, "no role system:node", func(in *Input) { in.Bindings = in.Bindings[1:] }, Unproven, CodeRoleUnknown},
		{inventory, "its rules are given", func(in *Input) { in.Bindings, in.SystemNode = in.Bindings[1:], systemNode }, Passed, ""},
		{inventory, "the log names another binding", func(in *Input) {
			in.Uses = []Use{{Binding: rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: "a", Name: "b"}, Outcome: OutcomeRefused}}
		}, Unproven, CodeBindingNotInState},
		{inventory, "the log names another binding, of others", func(in *Input) {
			in.NotInState = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "b"}}
		}, Unproven, CodeBindingNotInState},
		{inventory, "requests that nobody judged", func(in *Input) { in.UnjudgedUses = 1 }, Unproven, CodeUsesUnjudged},
		{inventory, "a binding that goes", bind(systemNode, group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "one of others, whose requests nobody judged", bind(systemNode, group("system:nodes"), userOf("jane")), Unproven, CodeUsesUnjudged},
		{inventory, "one of others, whose requests were judged", all(bind(systemNode, userOf("jane")), func(in *Input) { in.OthersJudged = true }), Passed, CodeBindingGoes},

		{inventory, "one of machines that join, of which none joined", bind(rule("get", "", "configmaps"), group("system:bootstrappers:edge")), Unproven, CodeNobodyJoined},
		{inventory, "one of machines that join, and a kubelet that only started again", all(bind(rule("get", "", "configmaps"), group("system:bootstrappers:edge")),
			registers("worker-2", at(14, 0, 0), 409)), Unproven, CodeNobodyJoined},
		{inventory, "one of machines that join, of which one joined", all(bind(rule("get", "", "configmaps"), group("system:bootstrappers:edge")),
			func(in *Input) { in.OthersJudged = true }, registers("worker-2", at(14, 0, 0), 201)), Passed, CodeBindingGoes},
		{inventory, "one of machines that join, which a binding that stays makes needless", all(bind(rule("get", "", "nodes"), group("system:bootstrappers:edge")),
			bindAs("kubeadm:get-nodes", "kubeadm:get-nodes", rule("get", "", "nodes"), group("system:bootstrappers:edge")),
			func(in *Input) { in.OthersJudged = true }), Passed, CodeBindingGoes},

		{inventory, "certificates are approved by it", bind(rule("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "kubelets ask about it", bind(rule("get", "", "nodes/metrics"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a named audience of tokens", bind(rule(verbAudience, "", "vault"), group("system:nodes")), Passed, CodeBindingStays},
		{inventory, "all audiences, about which admission asks", bind(rule(verbAudience, "", "*"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "the API server's own audience", bind(rule(verbAudience, "", "https://kubernetes.default.svc.cluster.local"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "an audience and more", bind(append(rule(verbAudience, "", "vault"), rule("get", "", "configmaps")...), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "requests show it", bind(rule("update", "certificates.k8s.io", "certificatesigningrequests/approval"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "a right to everything", bind(rule("*", "*", "*"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to all of a group", bind(rule("create", "certificates.k8s.io", "*"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to a subresource of all", bind(rule("create", "certificates.k8s.io", "*/selfnodeclient"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to read all", bind(rule("get", "", "*"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "metrics of all", bind(rule("get", "", "*/metrics"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience", bind(rule("*", "", "registry.example"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience of a plain name", bind(rule("*", "", "vault"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience that is a URL", bind(rule("*", "", "https://registry.example/v2"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience of any group", bind(rule("*", "*", "registry.example"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience and more", bind(append(rule("*", "", "registry.example"), rule("*", "", "configmaps")...), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience in a namespace", inNamespace(bind(rule("*", "", "registry.example"), group("system:nodes"))), Unproven, CodeRightUnseen},
		{inventory, "all verbs on an audience that another binding names", all(bind(rule("*", "", "registry.example"), group("system:nodes")), func(in *Input) {
			in.Bindings = append(in.Bindings, clusterBinding("y", "y", rule(verbAudience, "", "registry.example"), group("system:nodes")))
		}), Passed, CodeBindingStays},
		{inventory, "all verbs on a name of another group", bind(rule("*", "example.com", "vault"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "all verbs on resources of any group", bind(rule("*", "*", "deployments"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "all verbs on a subresource", bind(rule("*", "", "pods/log"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "all verbs on a subresource of all", bind(rule("*", "", "*/scale"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "all verbs on a signer of pods' certificates", bind(rule("*", certificatesGroup, "example.com:mesh"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on signers", bind(rule("*", certificatesGroup, signers), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all verbs on signers in a namespace, where it gives nothing", inNamespace(bind(rule("*", certificatesGroup, signers), group("system:nodes"))), Passed, CodeBindingGoes},
		{inventory, "all verbs on certificate requests", bind(rule("*", certificatesGroup, certificateRequests), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "all verbs on the devices of a driver", bind(rule("*", "resource.k8s.io", "resourceclaims/driver"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to allocate devices", bind(rule("patch", "resource.k8s.io", "resourceclaims/binding"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to allocate devices, by all subresources", bind(rule("update", "resource.k8s.io", "resourceclaims/*"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "a right to allocate devices, by one of all kinds", bind(rule("update", "*", "*/binding"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to read an allocation, about which nobody asks", bind(rule("get", "resource.k8s.io", "resourceclaims/binding"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "all verbs on the status of claims", bind(rule("*", "resource.k8s.io", "resourceclaims/status"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "a right to the statusz of kubelets", bind(rule("get", "", "*/statusz"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all that may be done to pods", bind(rule("*", "", "pods"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "a path, about which other servers ask", bind(paths("get", "/metrics"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "paths below", bind(paths("get", "/debug/*"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "all paths", bind(paths("*", "*"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a path that everybody has", bind(paths("get", "/api/v1"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "a path that everybody has, with another verb", bind(paths("post", "/api/v1"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a path that a binding which stays gives", all(bind(paths("get", "/metrics"), group("system:nodes")), func(in *Input) {
			in.Bindings = append(in.Bindings, clusterBinding("kept", "kept", paths("get", "/*"), group("system:nodes")))
			in.Keep = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "kept"}}
		}), Passed, CodeBindingGoes},
		{inventory, "a path that another binding gives which goes", all(bind(paths("get", "/metrics"), group("system:nodes")), bind(paths("get", "/*"), group("system:nodes"))), Unproven, CodeRightUnseen},
		{inventory, "a path in a namespace, where it gives nothing", inNamespace(bind(paths("get", "/metrics"), group("system:nodes"))), Passed, CodeBindingGoes},
		{inventory, "kubelets in a namespace, where it gives nothing", inNamespace(bind(rule("get", "", "nodes/metrics"), group("system:nodes"))), Passed, CodeBindingGoes},
		{inventory, "audiences in a namespace", inNamespace(bind(rule(verbAudience, "", "vault"), group("system:nodes"))), Passed, CodeBindingStays},
		{inventory, "OpenShift's admission asks about Endpoints", bind(rule("create", "", "endpoints/restricted"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "OpenShift's admission asks about Routes", bind(rule("create", "route.openshift.io", "routes/custom-host"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "admission asks about finalizers", bind(rule("update", "", "pods/finalizers"), group("system:nodes")), Unproven, CodeRightUnseen},
		{inventory, "a right to list all", bind(rule("list", "", "*"), group("system:nodes")), Passed, CodeBindingGoes},
		{inventory, "any right, and somebody asks for reviews", all(bind(rule("*", "", "pods"), group("system:nodes")), asksReview("system:serviceaccount:monitoring:proxy", false)), Unproven, CodeRightUnseen},
		{inventory, "any right, and a program with a node's credential asks", all(bind(rule("list", "", "*"), group("system:nodes")), asksReview("system:node:worker-1", false)), Unproven, CodeRightUnseen},
		{inventory, "any right, and only a kubelet asks", all(bind(rule("*", "", "pods"), group("system:nodes")), asksReview("system:node:worker-1", true)), Passed, CodeBindingGoes},
		{inventory, "any right, and only the scheduler asks", all(bind(rule("*", "", "pods"), group("system:nodes")), asksReview("system:kube-scheduler", false)), Passed, CodeBindingGoes},
		{inventory, "any right, and the policy does not log who asks", all(bind(rule("*", "", "pods"), group("system:nodes")), func(in *Input) { in.Policy.OmitsReviews = true }), Unproven, CodeRightUnseen},
		{inventory, "a right of system:node, and somebody asks", all(func(in *Input) { in.SystemNode = systemNode }, bind(rule("get", "", "pods"), group("system:nodes")), asksReview("jane", false)), Passed, CodeBindingGoes},
		{inventory, "system:node itself, and somebody asks", all(bindAs("node", "system:node", systemNode, group("system:nodes")), asksReview("jane", false)), Passed, CodeBindingGoes},
		{inventory, "a copy of it, and somebody asks", all(bind(systemNode, group("system:nodes")), asksReview("jane", false)), Passed, CodeBindingGoes},
		{inventory, "any right that everybody has, and somebody asks", all(bind(rule("*", "", "pods"), group("system:nodes")), asksReview("jane", false), func(in *Input) {
			in.Bindings = append(in.Bindings, clusterBinding("y", "y", rule("*", "*", "*"), group("system:authenticated")))
		}), Passed, CodeBindingGoes},
		{inventory, "another binding gives it too", all(bind(rule("get", "", "nodes/metrics"), group("system:nodes")), func(in *Input) {
			in.Bindings = append(in.Bindings, clusterBinding("y", "y", rule("*", "*", "*"), group("system:authenticated")))
		}), Passed, CodeBindingGoes},

		{rights, "nobody looked at the groups of nodes", func(in *Input) { in.NodeGroupsKnown = false }, Unproven, CodeNotLookedAt},
		{rights, "not known", func(in *Input) { in.BindingsKnown = false }, Unproven, CodeBindingsUnknown},
		{rights, "system:masters", func(in *Input) { in.NodeGroups = append(in.NodeGroups, "system:masters") }, Failed, CodeDangerousGroup},
		{rights, "a right of all nodes", bind(rule("get", "", "configmaps"), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "a right of one node", bind(rule("get", "", "configmaps"), userOf("system:node:worker-1")), Failed, CodeExcessRight},
		{rights, "a named audience of tokens", bind(rule(verbAudience, "", "registry.example"), group("system:nodes")), Passed, CodeBindingStays},
		{rights, "an audience that is a URL", bind(rule(verbAudience, "", "https://registry.example/v2"), group("system:nodes")), Passed, CodeBindingStays},
		{rights, "an audience to another group of theirs", all(bind(rule(verbAudience, "", "registry.example"), group("eks")), func(in *Input) {
			in.NodeGroups = append(in.NodeGroups, "eks")
		}), Passed, ""},
		{rights, "any audience", bind(rule(verbAudience, "", "*"), group("system:nodes")), Failed, CodeDangerousRight},
		{rights, "any request with a name as of an audience", bind(rule("*", "", "registry.example"), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "the API server's own audience", bind(rule(verbAudience, "", "https://kubernetes.default.svc"), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "the audience without a name, which is the API server's", bind(rule(verbAudience, "", ""), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "an audience and more", bind(append(rule(verbAudience, "", "vault"), rule("get", "", "configmaps")...), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "a right of another group of theirs", all(bind(rule("get", "", "configmaps"), group("eks")), func(in *Input) {
			in.NodeGroups = append(in.NodeGroups, "eks")
		}), Failed, CodeExcessRight},
		{rights, "of a group that is not theirs", bind(rule("get", "", "configmaps"), group("eks")), Passed, ""},
		{rights, "what everybody has", bind([]rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api/v1"}}}, group("system:nodes")), Passed, ""},
		{rights, "more paths than everybody", bind([]rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/*"}}}, group("system:nodes")), Failed, CodeExcessRight},
		{rights, "a role that is not there", bind(nil, group("system:nodes")), Passed, ""},
		{rights, "the proxy of kubelets for some time", ended(group("system:nodes")), Failed, CodeEndedRight},
		{rights, "the proxy of kubelets for some time, to a group of nodes", all(ended(group("machines")), func(in *Input) { in.NodeGroups = []string{"machines"} }), Failed, CodeEndedRight},
		{rights, "the proxy of kubelets for some time, to others", ended(group("administrators")), Passed, ""},
		{rights, "everything to everybody", bind(rule("*", "*", "*"), group("system:authenticated")), Failed, CodeDangerousRight},
		{rights, "deletions of secrets by everybody", bind(rule("delete", "", "secrets"), group("system:authenticated")), Failed, CodeDangerousRight},
		{rights, "bootstrap tokens by everybody", bind(rule("create", "", "secrets"), group("system:authenticated")), Failed, CodeDangerousRight},
		{rights, "certificates of any node, under kubeadm's name", bindAs("kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			rule("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient"), group("system:nodes")), Failed, CodeDangerousRight},
		{rights, "certificates of any node, to machines that join", bindAs("kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
			rule("create", "certificates.k8s.io", "certificatesigningrequests/nodeclient"), group("system:bootstrappers:kubeadm:default-node-token")), Passed, ""},
		{rights, "certificates of its own", bindAs("kubeadm:node-autoapprove-certificate-rotation", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
			rule("create", "certificates.k8s.io", "certificatesigningrequests/selfnodeclient"), group("system:nodes")), Passed, CodeBindingStays},
		{rights, "secrets to everybody", bind(rule("get", "", "secrets"), group("system:authenticated")), Failed, CodeDangerousRight},
		{rights, "secrets to all service accounts, which no node is", bind(rule("get", "", "secrets"), group("system:serviceaccounts")), Passed, ""},
		{rights, "a harmless right of everybody", bind(rule("list", "", "services"), group("system:authenticated")), Passed, ""},
		{rights, "everything is allowed", order("Node,RBAC,AlwaysAllow"), Failed, CodeOtherAuthorizer},
		{rights, "a webhook allows, and then everything is", order("Node,Webhook,AlwaysAllow"), Failed, CodeOtherAuthorizer},
		{rights, "ABAC", order("Node,ABAC,RBAC"), Unproven, CodeOtherAuthorizer},
		{rights, "a webhook", order("Node,RBAC,Webhook"), Unproven, CodeOtherAuthorizer},
		{rights, "a webhook of one server", func(in *Input) { in.Modes = append(in.Modes, Mode{"apiserver-1", "Node,Webhook"}) }, Unproven, CodeOtherAuthorizer},
		{rights, "an order that is not given", func(in *Input) { in.Modes = nil }, Passed, ""},
		{rights, "denials after Node", order("Node,AlwaysDeny,RBAC"), Passed, ""},
		{rights, "kept, but dangerous", all(bind(rule("create", "", "pods/exec"), group("system:nodes")), func(in *Input) {
			in.Keep = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "x"}}
		}), Failed, CodeDangerousRight},
		{rights, "kept, and a power", all(bind(rule("create", "apps", "daemonsets"), group("system:nodes")), func(in *Input) {
			in.Keep = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "x"}}
		}), Failed, CodeDangerousRight},
		{rights, "kept, and reads all secrets", all(bind(rule("get", "", "secrets"), group("system:nodes")), func(in *Input) {
			in.Keep = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "x"}}
		}), Failed, CodeDangerousRight},
		{rights, "tokens for any audience in an hour", func(in *Input) { in.Versions[1].AnyAudience = true }, Unproven, CodeAnyAudience},
	}
	out = slices.Concat(out, keptCases(rights, rule, bind), wideCases(bindAs), anonymousCases(), reviewCases(bindAs), everybodyCases(rights, rule, bind))
	for _, d := range slices.Concat(dangers(), []atom{
		{verb: "*", group: "certificates.k8s.io", resource: "signers"}, {verb: "impersonate", resource: "*"}, {verb: "get", resource: "*/proxy"},
	}) {
		out = append(out, kase{rights, "dangerous: " + d.verb + " " + d.resource, bind(rule(d.verb, d.group, d.resource), group("system:authenticated")), Failed, CodeDangerousRight})
	}
	return out
}
