package wording

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
)

// named bounds what a step names.
const named = 10

// steps has a sentence for each step of the plan.
var steps = map[codes.Code]func(codes.Params) string{
	codes.EnableNodeAuthorizer: func(codes.Params) string {
		return "Enable the Node authorizer before RBAC and the admission plugin NodeRestriction on every apiserver; the bindings stay meanwhile, and nothing breaks"
	},
	codes.EnableNodeRestriction: func(codes.Params) string { return "Enable the admission plugin NodeRestriction on every apiserver" },
	codes.CheckAllRules: func(codes.Params) string {
		return "Check every rule that decides: nothing is found by one that is disabled"
	},
	codes.GiveMode: func(codes.Params) string { return "Say how the apiserver decides: its flag is the truth" },
	codes.FixPolicy: func(codes.Params) string {
		return "Have the audit policy log all requests of nodes at level Metadata, by this as the first of its rules, and check it"
	},
	codes.CompleteLog: func(codes.Params) string {
		return "Get the part of the log that is missing, from every apiserver, rotated files included"
	},
	codes.LookAtNodes: func(codes.Params) string {
		return "See why nodes are silent: down, cut off, or served by an apiserver whose log is missing"
	},
	codes.RecordState: func(codes.Params) string { return "Record the whole state of the cluster for the time of the log" },
	codes.IssueCertificates: func(p codes.Params) string {
		set := map[string]bool{}
		for _, r := range p.All(codes.ParamReason) {
			set[identities[rules.Reason(r)]] = true
		}
		return fmt.Sprintf("Issue certificates of their own to the kubelets of %s with a wrong user or group (%s): O=system:nodes and CN=system:node:<name of the Node object>",
			Plural(p.Int(codes.ParamCount), "identity"), strings.Join(slices.Sorted(maps.Keys(set)), ", "))
	},
	codes.MoveClients: func(p codes.Params) string {
		var names []string
		for _, c := range p.All(codes.ParamClient) {
			names = append(names, strconv.Quote(c))
		}
		return fmt.Sprintf("Give what needs a binding a service account and a role of its own, and move it there: %s. Whatever reached what it should not is to be looked at first",
			Some(names, int(p.Int(codes.ParamTotal)), named))
	},
	codes.AskAgain: func(codes.Params) string {
		return `Let a week of ordinary work go by, with deployments, drains and a node that joins, and ask again: this report must say "ready"`
	},
	codes.FindBindings: func(p codes.Params) string {
		if p.Has(codes.ParamNone) {
			return "The state holds no binding any more that gives nodes the role system:node, or that they used; look whether that is so"
		}
		return "No binding is known that gives nodes the role system:node, or that they used; look whether there is one"
	},
	codes.PreviewDeletion: func(p codes.Params) string {
		return "See what their deletion would change, and keep a copy to go back with" + more(p)
	},
	codes.DeleteBindings: func(p codes.Params) string {
		s := "Delete what gives nodes more than the Node authorizer does" + more(p) +
			". If a binding also binds others, take only the subjects out that are nodes"
		if p.Has(codes.ParamChecked) {
			s += ". The apiserver answers 409 if a binding has changed since this report looked at it: then look again before you delete it"
		}
		return s
	},
	codes.NodesJoin: func(p codes.Params) string {
		return fmt.Sprintf("Stop the autoscaling of nodes while the canary lasts: in the time of the log %s joined (%s), and a node that joins now is in no binding "+
			"with names, so it goes without, as the canaries do", Plural(p.Int(codes.ParamCount), "node"), Some(p.All(codes.ParamNode), int(p.Int(codes.ParamCount)), named))
	},
	codes.UsersGain: func(p codes.Params) string {
		return fmt.Sprintf("Look first at %s that also made requests without the group system:nodes (%s): a binding by name gives these requests what the group is given",
			Plural(p.Int(codes.ParamCount), "user"), Some(p.All(codes.ParamIdentity), int(p.Int(codes.ParamCount)), named))
	},
	codes.BindByName: func(p codes.Params) string {
		return fmt.Sprintf("Bind %s by name, which leaves out %s, before the binding of the group goes. Nodes that join later are not named and go without",
			Plural(p.Int(codes.ParamTotal), "identity"), Some(p.All(codes.ParamNode), int(p.Int(codes.ParamCount)), named))
	},
	codes.EndCanary: func(codes.Params) string {
		return "When the canaries have held for as long as you want to see, delete the bindings with names too: then no node is bound any more"
	},
	codes.WatchDenials: func(codes.Params) string {
		return "Keep the copies at hand and watch for denials. A watch is authorized when it begins: what needs a binding breaks up to 10 minutes after the " +
			"deletion, and up to 60 minutes with watches of secrets and config maps. Ask again after an hour and after a day; to go back, apply the copies"
	},
}

func more(p codes.Params) string {
	n := p.Int(codes.ParamMore)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and of %s that nodes use)", Plural(n, "more binding"))
}
