package wording

import (
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
)

// sentences has one for each code that is no reason of a rule.
var sentences = map[codes.Code]func(codes.Params) string{
	codes.KindMissing: func(p codes.Params) string { return "the state holds no " + p.Text(codes.ParamKind) },
	codes.KindPartial: func(p codes.Params) string {
		return fmt.Sprintf("the state may not hold each %s: it has them from no list or journal", p.Text(codes.ParamKind))
	},
	codes.VolumesMissing: func(codes.Params) string {
		return "the state has no PersistentVolume, although pods on nodes use claims: paths through volumes are missing"
	},
	codes.StateBeginsLate: func(p codes.Params) string {
		return fmt.Sprintf("the state begins %s after the log: verdicts on requests before %s may be unknown", p.Text(codes.ParamBy), seconds(p))
	},
	codes.StateEndsEarly: func(p codes.Params) string {
		return fmt.Sprintf("the state ends %s before the log: what changed after %s is not in it", p.Text(codes.ParamBy), seconds(p))
	},
	codes.RecorderBehind: func(p codes.Params) string {
		return fmt.Sprintf("the clock of the recorder of the state is behind those of the API servers, by %s at most: its times were moved, and verdicts next to changes may be wrong",
			p.Text(codes.ParamBy))
	},
	codes.KubeletAhead: func(p codes.Params) string {
		return fmt.Sprintf("the clock of the kubelet of node %s is ahead of those of most others, by %s: times that it wrote into the state do not count",
			p.Text(codes.ParamName), p.Text(codes.ParamBy))
	},
	codes.KubeletsAhead: func(p codes.Params) string {
		return fmt.Sprintf("the clocks of %d more kubelets are ahead: times that they wrote into the state do not count", p.Int(codes.ParamCount))
	},
	codes.NotWatched: func(p codes.Params) string {
		return fmt.Sprintf("the cluster was not watched for %s from %s on: verdicts on requests from that time may be unknown",
			p.Text(codes.ParamBy), seconds(p))
	},
	codes.NotWatchedMore: func(p codes.Params) string {
		return fmt.Sprintf("the cluster was not watched %d more times", p.Int(codes.ParamCount))
	},
	codes.StateForgotten: func(p codes.Params) string {
		return fmt.Sprintf("a restart forgot what bodies in the audit log showed in %s after the end of the state, %s: verdicts that depend on it are unknown. "+
			"Watch the cluster (state.live), or start again with state that reaches further", p.Text(codes.ParamBy), seconds(p))
	},
	codes.WatchErrors: func(p codes.Params) string {
		return fmt.Sprintf("the journal holds %d ERROR entries: the watch was interrupted, changes may be missing", p.Int(codes.ParamCount))
	},
	codes.StateUnreadable: func(p codes.Params) string {
		return fmt.Sprintf("entries of the state that could not be read: %d", p.Int(codes.ParamCount))
	},
	codes.EntryUnreadable: func(p codes.Params) string { return p.Text(codes.ParamTrouble) },
	codes.FileUseless:     func(p codes.Params) string { return p.Text(codes.ParamName) + " holds nothing of use" },
	codes.KindRefused: func(p codes.Params) string {
		return fmt.Sprintf("objects of kind %s may not be listed and watched: what depends on them is unknown", p.Text(codes.ParamKind))
	},
	codes.KindUnlisted: func(p codes.Params) string {
		if trouble := p.Text(codes.ParamTrouble); trouble != "" {
			return fmt.Sprintf("objects of kind %s could not be listed yet: %s", p.Text(codes.ParamKind), trouble)
		}
		return fmt.Sprintf("objects of kind %s were not listed yet", p.Text(codes.ParamKind))
	},
	codes.WatchInterrupted: func(p codes.Params) string {
		return fmt.Sprintf("the watch of kind %s is interrupted: nothing is known of it since %s", p.Text(codes.ParamKind), seconds(p))
	},
	codes.StateNotGiven: func(p codes.Params) string {
		if p.Has(codes.ParamDecided) {
			return "no cluster state was given (--state): this rests on the API server's own decisions in the log, and which nodes there are is not known"
		}
		return "no cluster state was given (--state): what the graph decides is unknown unless audit bodies tell it"
	},

	codes.PolicyUnclear: func(codes.Params) string {
		return "a rule names too much to look at all of it: it may hide requests of nodes"
	},
	codes.PolicyLacks: func(p codes.Params) string {
		return withheld(p, "does not log", "are not logged, because no rule matches them")
	},
	codes.PolicyLacksDecision: func(p codes.Params) string {
		return withheld(p, "does not log the end of", "are not logged to their end, because no rule matches them")
	},
	codes.PolicyLacksStart: func(p codes.Params) string {
		return withheld(p, "leaves out the stage ResponseStarted, so that these are not in the log while they are open", "are not logged while they are open, because no rule matches them")
	},
	codes.PolicyLacksPanic: func(p codes.Params) string {
		return withheld(p, "leaves out the stages RequestReceived and Panic, so that these are not in the log if the API server panics", "are not logged if the API server panics, because no rule matches them")
	},
	codes.PolicyLacksBody: func(p codes.Params) string {
		return withheld(p, "does not log the body of", "are logged without their body, because no rule matches them")
	},

	codes.LogEmpty: func(codes.Params) string { return "the log holds no events" },
	codes.LogWithoutNodes: func(codes.Params) string {
		return "the log holds no requests of nodes: the audit policy or a filter may drop them"
	},
	codes.WindowEmpty: func(p codes.Params) string {
		return NothingInWindow(p.Time(codes.ParamFirst), p.Time(codes.ParamLast))
	},
	codes.NamesTogether: func(p codes.Params) string {
		names := "more"
		if n := p.Int(codes.ParamCount); n > 0 {
			names = fmt.Sprint(n)
		}
		return fmt.Sprintf("the log has too many names of nodes: %s names without a Node object count together, as (others), with %s", names, Plural(p.Int(codes.ParamTotal), "request"))
	},
	codes.LogUnread: func(p codes.Params) string {
		return "the log was not read to its end: " + p.Text(codes.ParamTrouble)
	},
	codes.DenialsUnlogged: func(p codes.Params) string {
		return "NODE DENY lines of the API server's own log without an audit event: " + p.Text(codes.ParamCount) + "; the audit policy may hide the requests"
	},
	codes.LinesUnreadable: func(p codes.Params) string {
		return Plural(p.Int(codes.ParamCount), "line") + " of the log could not be read"
	},
	codes.WindowShort: func(p codes.Params) string {
		return fmt.Sprintf("the log covers %s; READY needs at least %s (--min-window)",
			Spell(p.Duration(codes.ParamHave)), Spell(p.Duration(codes.ParamWant)))
	},
	codes.WindowUncovered: func(p codes.Params) string {
		return fmt.Sprintf("the requests in the store cover %s of the %s asked for", p.Text(codes.ParamHave), p.Text(codes.ParamWant))
	},
	codes.ManyGaps:    func(codes.Params) string { return "further findings of this rule, too many to be kept apart" },
	codes.PartMissing: func(codes.Params) string { return "part of the log may be missing:" },
	codes.NodesUnseen: func(p codes.Params) string {
		n := p.Int(codes.ParamCount)
		return fmt.Sprintf("%s of the cluster made no request that was logged: %s", Plural(n, "node"), Some(p.All(codes.ParamNode), int(n), 5))
	},

	codes.ModeAmbiguous: func(p codes.Params) string {
		const what = "RBAC allows what the Node authorizer gives every node: it is asked first, or Node is not in force on every API server any more; "
		if flag := p.Text(codes.ParamWant); flag != "" {
			return what + "give " + flag
		}
		return what + "look at the flags of each and give --authorization-mode"
	},
	codes.ModeUnknown: func(codes.Params) string {
		return "the log does not tell whether the Node authorizer is in force: give --authorization-mode"
	},
	codes.RequestsUndecided: func(p codes.Params) string {
		n, total := p.Int(codes.ParamCount), p.Int(codes.ParamTotal)
		return fmt.Sprintf("%d of %s (%s) could not be judged for lack of state", n, Plural(total, "request"), Percent(n, total))
	},
	codes.Disagreements: func(p codes.Params) string {
		return fmt.Sprintf("nodetrail and the API server disagree on %s outside of races: the state, the version or the mode given may be wrong",
			Plural(p.Int(codes.ParamCount), "request"))
	},
	codes.RuleDisabled: func(p codes.Params) string { return "the rule " + p.Text(codes.ParamRule) + " was not checked" },

	codes.NodeRestrictionOff: func(codes.Params) string {
		return "the admission plugin NodeRestriction is not in force: a write passed that it refuses"
	},
	codes.AllowedInVain: func(p codes.Params) string {
		does := "do"
		if p.Int(codes.ParamCount) == 1 {
			does = "does"
		}
		return passed(p) + ", and " + does + " not depend on it (404 or 403 anyway, the pod was just deleted, or the client continues without it): harmless: " + kinds(p)
	},
	codes.AllowedByKubeadm: func(p codes.Params) string {
		return passed(p) + ", which is kubeadm's, stays, and does not block: " + kinds(p)
	},
	codes.AllowedByProfiles: func(p codes.Params) string {
		return passed(p) + ", which is k0s's, stays, and does not block: " + kinds(p)
	},
	codes.OutcomeUnknown: func(p codes.Params) string {
		return fmt.Sprintf("it is not known whether %s would break, because the state does not cover them (--state)", Plural(p.Int(codes.ParamCount), "request"))
	},
	codes.BindingsUnknown: func(p codes.Params) string {
		return fmt.Sprintf("for %s the state does not know all bindings of then: another one may allow what is listed here",
			Plural(p.Int(codes.ParamCount), "request"))
	},
	codes.BindsOthers: func(p codes.Params) string {
		return Binding(p) + " also binds subjects that are no nodes: their requests are not looked at"
	},
	codes.ApprovesCertificate: func(p codes.Params) string {
		return fmt.Sprintf("%s lets the controller manager approve the nodes' certificates (%s): that is asked in "+
			"a review and is no request of a node, so nothing here shows it; kubelets cannot renew their certificates without it", Binding(p), p.Text(codes.ParamRole))
	},
	codes.RightUnseen: func(p codes.Params) string {
		return fmt.Sprintf("%s gives nodes what may be in use without a request that shows it: %s", Binding(p), kinds(p))
	},
	codes.NothingRemoved: func(codes.Params) string {
		return "no binding to delete was found, neither in the state nor in the log"
	},

	codes.NodeAuthorizerOff: func(p codes.Params) string {
		mode := p.Text(codes.ParamMode)
		if mode == "" {
			mode = "without Node"
		}
		return fmt.Sprintf("the Node authorizer is not in force (authorization mode %s): put Node before RBAC first; without it, deleting the bindings cuts off all nodes", mode)
	},
	codes.ClientBreaks: func(p codes.Params) string {
		return fmt.Sprintf("%s of %q on %s would break without %s: %s", Plural(p.Int(codes.ParamCount), "request"), p.Text(codes.ParamClient),
			Plural(p.Int(codes.ParamNodes), "node"), Visible(Binding(p)), kinds(p))
	},
	codes.IdentityUnserved: func(p codes.Params) string {
		clients := p.All(codes.ParamClient)
		return fmt.Sprintf("(%s of %s)", Plural(p.Int(codes.ParamCount), "request"), Some(clients, int(p.Int(codes.ParamTotal)), 4))
	},
}

// seconds is when something began or ended.
func seconds(p codes.Params) string { return p.Time(codes.ParamAt).Format(time.RFC3339) }

// kinds lists the kinds of requests.
func kinds(p codes.Params) string {
	all := p.All(codes.ParamRequest)
	for i, s := range all {
		if s == "" {
			all[i] = "various"
		}
	}
	return Some(all, int(p.Int(codes.ParamTotal)), 4)
}

// passed begins a sentence about requests that only one binding allowed.
func passed(p codes.Params) string {
	were := "were"
	if p.Int(codes.ParamCount) == 1 {
		were = "was"
	}
	return fmt.Sprintf("%s of %q on %s %s allowed only by %s", Plural(p.Int(codes.ParamCount), "request"), p.Text(codes.ParamClient),
		Plural(p.Int(codes.ParamNodes), "node"), were, Visible(Binding(p)))
}

// Binding names the binding that the parameters tell.
func Binding(p codes.Params) string {
	switch {
	case p.Has(codes.ParamBinding):
		return p.Text(codes.ParamBindingKind) + " " + Qualified(p.Text(codes.ParamBindingNamespace), p.Text(codes.ParamBinding))
	case p.Has(codes.ParamWide):
		return "some RBAC binding"
	}
	return "an RBAC binding that the log does not name"
}

// withheld says which requests a rule of an audit policy, or that no rule matches, keeps from a check.
func withheld(p codes.Params, rule, noRule string) string {
	requests := p.All(codes.ParamRequest)
	if n := p.Int(codes.ParamMore); n > 0 {
		requests = append(requests, fmt.Sprintf("and %d more", n))
	}
	if where := p.Text(codes.ParamWhere); where != codes.NoRule {
		return where + " " + rule + ": " + strings.Join(requests, ", ")
	}
	return strings.Join(requests, ", ") + " " + noRule
}
