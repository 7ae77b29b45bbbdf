package rules

import (
	"fmt"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

func foreignNodeWrite() *Rule {
	return &Rule{
		Name:     "foreign-node-write",
		Severity: Critical,
		Doc: `A node writes an object of another node

## What
A node creates, updates, patches or deletes a Node, a Lease, a CSINode, a pod or a status that is not its own.

## Why
Authorization does not look into bodies: the admission plugin NodeRestriction is what keeps nodes to their own objects. A write that
went through means that NodeRestriction is not in force, and that a stolen kubelet credential can taint, label or empty other nodes,
and draw their pods to itself.

## What to do
If it went through: add NodeRestriction to --enable-admission-plugins of every apiserver. Either way find out which program did it
(user agent, address): a kubelet does this only when its node name and its certificate differ (see node-identity).

## False positives
A pod deleted from the node or bound elsewhere within the skew is not flagged, nor is one that no node has: a kubelet
reports on its pods once more after they are gone.

## How to silence it
Run with --disable foreign-node-write.`,
		Check: checkForeignWrite,
	}
}

func checkForeignWrite(r *Request, s State, _ *Memory) (Finding, bool) {
	a := r.Attrs
	if !r.IsNode || !a.ResourceRequest || r.Node == "" {
		return Finding{}, false
	}
	switch a.Verb {
	case "create", "update", "patch", "delete":
	default:
		return Finding{}, false
	}
	name := a.Name
	if name == "" {
		name = r.Event.ObjectRef.Name // on create, from the body
	}
	namespace := a.Namespace
	foreign := false
	switch {
	case a.APIGroup == "" && a.Resource == "nodes",
		a.APIGroup == "storage.k8s.io" && a.Resource == "csinodes",
		a.APIGroup == "coordination.k8s.io" && a.Resource == "leases" && namespace == "kube-node-lease":
		foreign = name != "" && name != r.Node
	case a.APIGroup == "" && a.Resource == "pods" && name != "" && a.Verb != "create" || isEviction(r):
		if s != nil {
			other, bound := s.PodNode(namespace, name, r.Time)
			own := s.PodOnNode(namespace, name, r.Node, r.Time)
			foreign = bound && other != r.Node && own.Verdict == nodeauthz.Deny && !own.Race
		}
	}
	if !foreign {
		return Finding{}, false
	}
	f := Finding{Rule: "foreign-node-write", Severity: High, Subject: r.Node, Allowed: r.Allowed}
	outcome := "was refused"
	if r.Succeeded() {
		f.Severity, outcome = Critical, "went through: NodeRestriction is not in force"
	}
	target := object(r)
	if a.Name == "" && name != "" {
		target = fmt.Sprintf("%s %s", a.Resource, name)
	}
	f.Message = fmt.Sprintf("%s %s by node %s %s", a.Verb, target, r.Node, outcome)
	return f, true
}

func isEviction(r *Request) bool {
	return r.Attrs.APIGroup == "" && r.Attrs.Resource == "pods" && r.Attrs.Subresource == "eviction"
}
