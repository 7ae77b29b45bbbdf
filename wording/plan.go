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
		return "Enable the Node authorizer before RBAC and the admission plugin NodeRestriction on every API server. The bindings stay meanwhile, and nothing breaks"
	},
	codes.EnableNodeRestriction: func(codes.Params) string { return "Enable the admission plugin NodeRestriction on every API server" },
	codes.CheckAllRules: func(codes.Params) string {
		return "Turn on every rule that decides: a rule that is off finds nothing"
	},
	codes.GiveMode: func(codes.Params) string {
		return "Give the order of the API server's authorizers, from its flags or its configuration file"
	},
	codes.FixPolicy: func(codes.Params) string {
		return "Make the audit policy log all requests of nodes at level Metadata: add this as its first rule, and check the policy"
	},
	codes.CompleteLog: func(codes.Params) string {
		return "Get the part of the log that is missing, from every API server, rotated files included"
	},
	codes.LookAtNodes: func(codes.Params) string {
		return "See why nodes are silent: down, cut off, or served by an API server whose log is missing"
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
	codes.FindKubelets: func(p codes.Params) string {
		return "Find out what uses the node's credential where a client calls itself a kubelet and needs a binding: " + clientsOf(p) +
			". A kubelet needs no more than the Node authorizer allows. If nobody knows the program, treat the credential as stolen"
	},
	codes.MoveClients: func(p codes.Params) string {
		return fmt.Sprintf("Give each client that needs a binding a service account and a role of its own, and move it there: %s. First investigate clients that read objects they should not read", clientsOf(p))
	},
	codes.AskAgain: func(codes.Params) string {
		return "Record one week of normal work, with deployments, drains and a node that joins. Then run the report again: it must say READY"
	},
	codes.FindBindings: func(p codes.Params) string {
		if p.Has(codes.ParamNone) {
			return "The state has no binding of the role system:node, and none for nodes besides those that stay. Confirm this"
		}
		return "No binding of the role system:node for nodes is known, and no other binding that nodes used. Check whether there is one"
	},
	codes.PreviewDeletion: func(p codes.Params) string {
		return "See what breaks if you delete the bindings, and keep a copy of each so that you can go back" + more(p)
	},
	codes.DeleteBindings: func(p codes.Params) string {
		s := "Delete what gives nodes more than the Node authorizer does" + more(p) +
			". If a binding of another role than system:node also has other subjects, remove only the subjects that are nodes"
		if p.Has(codes.ParamChecked) {
			s += ". The API server answers 409 if a binding has changed since this report: then run the report again before you delete it"
		}
		return s
	},
	codes.NodesJoin: func(p codes.Params) string {
		return fmt.Sprintf("Stop the autoscaling of nodes while the canary lasts: in the time of the log %s joined (%s), and a node that joins now is in no binding "+
			"with names, so it goes without, as the canaries do", Plural(p.Int(codes.ParamCount), "node"), Some(p.All(codes.ParamNode), int(p.Int(codes.ParamCount)), named))
	},
	codes.UsersGain: func(p codes.Params) string {
		return fmt.Sprintf("First check %s that also made requests without the group system:nodes (%s): a binding by name gives these requests what the group is given",
			Plural(p.Int(codes.ParamCount), "user"), Some(p.All(codes.ParamIdentity), int(p.Int(codes.ParamCount)), named))
	},
	codes.BindByName: func(p codes.Params) string {
		return fmt.Sprintf("Bind %s by name, which leaves out %s, before the binding of the group goes. Nodes that join later are not named and go without",
			Plural(p.Int(codes.ParamTotal), "identity"), Some(p.All(codes.ParamNode), int(p.Int(codes.ParamCount)), named))
	},
	codes.EndCanary: func(codes.Params) string {
		return "When the canaries have worked for long enough, delete the bindings with names, too: then no node has a binding"
	},
	codes.WatchDenials: func(codes.Params) string {
		return "Keep the copies at hand and watch for denials. A watch is authorized only when it begins, so requests can begin to fail up to 10 minutes after the " +
			"deletion, and watches of secrets and config maps up to 60 minutes after it. Run the report again after an hour and after a day; to go back, apply the copies"
	},
}

func more(p codes.Params) string {
	n := p.Int(codes.ParamMore)
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" (and of %s that nodes use)", Plural(n, "more binding"))
}

// clientsOf lists the clients of a step.
func clientsOf(p codes.Params) string {
	var names []string
	for _, c := range p.All(codes.ParamClient) {
		names = append(names, strconv.Quote(c))
	}
	return Some(names, int(p.Int(codes.ParamTotal)), named)
}
