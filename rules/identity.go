package rules

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
)

const (
	nodePrefix         = "system:node:"
	bootstrappersGroup = "system:bootstrappers"
)

func nodeIdentity() *Rule {
	return &Rule{
		Name:     "node-identity",
		Severity: High,
		Doc: `A kubelet's identity does not conform

## What
One of these:

- a member of the group 'system:nodes' whose user name is not 'system:node:<nodeName>';
- a user 'system:node:<nodeName>' outside of that group;
- a kubelet's user agent under another identity;
- a node identity for which the cluster has no Node object, with the reason where it can be told (letter case, a host name with or
  without its domain).

The severity is high. It is low where the identity was impersonated ('kubectl --as'): then somebody tried it, and no kubelet has it.
Low findings are no reason against deleting the binding.

## Why
The Node authorizer serves only requests that have both the group and the name. Any other lives on RBAC alone: on the very binding that
is to go. A name that differs from the Node's gets nothing from the graph.

## What to do
Issue the kubelet a client certificate with 'O=system:nodes' and 'CN=system:node:<name of its Node object>', both exactly so, the name in
lower case, and one certificate for each node, best by TLS bootstrapping and rotation. Where '--hostname-override' or a cloud provider
sets the Node's name, the certificate must follow it.

## False positives
A node that registers for the first time asks for its Node before there is one: it is flagged only if no such Node came in all of the
state. 'nodetrail run' with live state does not know what comes: it waits for five minutes from the name's first request on, unless
there is a Node of nearly that name. Kubelets that bootstrap (group 'system:bootstrappers') are left out. The user agent is the
client's own claim: another program may call itself a kubelet.

## How to silence it
Run with '--disable node-identity'.`,
		Check: checkIdentity,
	}
}

func checkIdentity(r *Request, s State, _ *Memory) (Finding, bool) {
	if r.IsNode && r.Node != "" { // it is named so, and in the group
		return checkRegistered(r, s)
	}
	u := r.Event.Effective()
	inGroup := slices.Contains(u.Groups, user.NodesGroup)
	name, named := strings.CutPrefix(u.Username, nodePrefix)
	switch {
	case inGroup && !named:
		return identity(r, u.Username, "name", fmt.Sprintf(
			"user %q is in the group %s but is not named %s<nodeName>: the Node authorizer does not know it",
			u.Username, user.NodesGroup, nodePrefix))
	case named && !inGroup:
		return identity(r, name, "group", fmt.Sprintf(
			"user %q is not in the group %s: the Node authorizer does not know it", u.Username, user.NodesGroup))
	case named && name == "":
		return identity(r, u.Username, "name", fmt.Sprintf("user %q names no node", u.Username))
	case !named && strayKubelet(r.Event):
		return identity(r, u.Username, "kubelet", fmt.Sprintf(
			"a kubelet (by its user agent) uses the identity %q, which is no node's", u.Username))
	}
	return Finding{}, false
}

func checkRegistered(r *Request, s State) (Finding, bool) {
	if s == nil {
		return Finding{}, false
	}
	if registered, known := s.NodeRegistered(r.Node, r.Time); registered || !known {
		return Finding{}, false
	}
	why := ""
	if similar, how := s.SimilarNode(r.Node, r.Time); similar != "" {
		why = fmt.Sprintf("; there is a Node %q, which differs in its %s", similar, how)
	}
	return identity(r, r.Node, "unregistered", fmt.Sprintf("user %q: the cluster has no Node %q%s", r.Event.Effective().Username, r.Node, why))
}

// strayKubelet reports whether something that says it is a kubelet has authenticated itself as somebody else, and not in order to
// become a node.
func strayKubelet(ev *audit.Event) bool {
	return Product(ev.UserAgent) == "kubelet" && ev.User.Username != "" && !ev.IsImpersonated &&
		!slices.ContainsFunc(ev.User.Groups, func(g string) bool {
			return g == bootstrappersGroup || strings.HasPrefix(g, bootstrappersGroup+":")
		})
}

// identity is the finding on an identity, weighed by whether it is really somebody's.
func identity(r *Request, subject, detail, message string) (Finding, bool) {
	f := Finding{Rule: "node-identity", Severity: High, Subject: subject, Detail: detail, Message: message, Allowed: r.Allowed}
	if r.Event.IsImpersonated {
		f.Severity, f.Detail = Low, detail+", impersonated"
		f.Message += fmt.Sprintf(" (impersonated by %q)", r.Event.User.Username)
	}
	return f, true
}
