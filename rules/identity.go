package rules

import (
	"fmt"
	"slices"
	"strings"
)

const (
	nodesGroup = "system:nodes"
	nodePrefix = "system:node:"
)

func nodeIdentity() *Rule {
	return &Rule{
		Name:     "node-identity",
		Severity: High,
		Doc: `A kubelet's identity does not conform

## What
One of these: a member of the group system:nodes whose user name is not system:node:<nodeName>; a user system:node:<nodeName> outside
the group; a kubelet's user agent under another identity; or a node identity for which the cluster has no Node object, with the reason
where it can be told (letter case, a host name with or without its domain).

## Why
The Node authorizer serves only requests that have both the group and the name. Anything else lives on RBAC alone: on the very
binding that is to go. A name that differs from the Node's gets nothing from the graph.

## What to do
Issue the kubelet a client certificate with O=system:nodes and CN=system:node:<name of its Node object>, both exactly, the name in
lower case; one certificate for each node, by TLS bootstrapping and rotation. Where --hostname-override or a cloud provider sets the
Node's name, the certificate must follow it.

## False positives
A node that registers for the first time asks for its Node before there is one; it is flagged only if the state has no such Node even
afterwards. Bootstrapping kubelets (group system:bootstrappers) are left out.

## How to silence it
Run with --disable node-identity.`,
		Check: checkIdentity,
	}
}

func checkIdentity(r *Request, s State, _ *Memory) (Finding, bool) {
	u := r.Event.Effective()
	found := func(subject, detail, message string) (Finding, bool) {
		return Finding{Rule: "node-identity", Severity: High, Subject: subject, Detail: detail, Message: message, Allowed: r.Allowed}, true
	}
	inGroup := slices.Contains(u.Groups, nodesGroup)
	name, named := strings.CutPrefix(u.Username, nodePrefix)
	switch {
	case inGroup && !named:
		return found(u.Username, "name", fmt.Sprintf(
			"user %q is in the group %s but is not named %s<nodeName>: the Node authorizer does not know it", u.Username, nodesGroup, nodePrefix))
	case named && !inGroup:
		return found(name, "group", fmt.Sprintf(
			"user %q is not in the group %s: the Node authorizer does not know it", u.Username, nodesGroup))
	case named && name == "":
		return found(u.Username, "name", fmt.Sprintf("user %q names no node", u.Username))
	case !named && Product(r.Event.UserAgent) == "kubelet" && !slices.Contains(u.Groups, "system:bootstrappers"):
		return found(u.Username, "kubelet", fmt.Sprintf(
			"a kubelet (by its user agent) uses the identity %q, which is no node's", u.Username))
	case !named || s == nil:
		return Finding{}, false
	}
	if registered, known := s.NodeRegistered(name, r.Time); registered || !known {
		return Finding{}, false
	}
	why := ""
	if similar, how := s.SimilarNode(name, r.Time); similar != "" {
		why = fmt.Sprintf("; there is a Node %q, which differs in its %s", similar, how)
	}
	return found(name, "unregistered", fmt.Sprintf("user %q: the cluster has no Node %q%s", u.Username, name, why))
}
