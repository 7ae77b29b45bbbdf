package rules

import "fmt"

func rbacExcessAccess() *Rule {
	return &Rule{
		Name:     "rbac-excess-access",
		Severity: Critical,
		Doc: `RBAC allowed a node what the Node authorizer does not

## What
A request of a node was allowed by RBAC through a binding whose subject is the node itself or the group system:nodes, while the Node
authorizer, asked about the same instant, has no opinion. Delete the binding and this request is refused.

## Why
Such a binding gives every holder of any kubelet's credential the access of all nodes: with the legacy binding of the ClusterRole
system:node that is every secret of the cluster. It is also what stands between you and deleting the binding: each of these requests
is somebody who will notice.

## What to do
Look at the user agent. If it is the kubelet's, the access is one that a kubelet of this version should not need: look at the verb and
the object. If it is another program (a CNI agent, a log shipper, a monitoring agent), it rides on the kubelet's credential: give it a
service account with a role of its own, move it there, and watch this finding stop. Then delete the binding.

## False positives
A request whose object was bound to the node within the skew of the request is a race and is not flagged. Objects that the given
state does not contain count as not existing: if persistent volumes were left out of the state, secrets that only they lead to are
flagged; the report warns of kinds with no objects.

## How to silence it
Run with --disable rbac-excess-access. To accept one binding for good, give its subjects a group of their own instead of system:nodes.`,
		Check: func(r *Request, _ State, _ *Memory) (Finding, bool) {
			if !r.NodeDenies() || !r.Allowed || r.Spare {
				return Finding{}, false
			}
			by := "an RBAC binding that the log does not name"
			switch {
			case r.HasGrant && !r.Grant.ForNodes():
				return Finding{}, false
			case r.HasGrant:
				by = fmt.Sprintf("%s %s", r.Grant.Binding.Kind, bindingName(r))
			case r.Observed.Decision != "" || !r.Attrs.ResourceRequest:
				// The annotation names another authorizer, or the path may be anybody's.
				return Finding{}, false
			}
			f := Finding{
				Rule: "rbac-excess-access", Severity: High, Subject: r.Node, Allowed: true, Binding: r.Grant.Binding,
				Message: fmt.Sprintf("%s %s is allowed to node %s by %s alone", r.Attrs.Verb, object(r), r.Node, by),
			}
			if r.Attrs.APIGroup == "" && (r.Attrs.Resource == "secrets" || isToken(r)) {
				f.Severity = Critical
			}
			return f, true
		},
	}
}

func bindingName(r *Request) string {
	if b := r.Grant.Binding; b.Namespace != "" {
		return b.Namespace + "/" + b.Name
	}
	return r.Grant.Binding.Name
}

func isToken(r *Request) bool {
	return r.Attrs.APIGroup == "" && r.Attrs.Resource == "serviceaccounts" && r.Attrs.Subresource == "token"
}
