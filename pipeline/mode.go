package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
)

// Mode is the order of the apiserver's authorizers, given or inferred from the log. The union of authorizers tells only the reason of
// the one that allowed (Node's is empty) or, joined, those of all that had no opinion; so the order decides what a reason implies.
// Not safe for concurrent use.
type Mode struct {
	given    bool
	node     bool // Node is in the chain
	rbac     bool
	rbacLead bool // RBAC is asked before Node

	settled bool

	// Evidence, from requests whose answer is beyond doubt.
	annotated int // requests with a decision
	nodeWord  int // allowed with Node's empty reason, or refused with a reason of Node's
	rbacOwn   int // allowed by RBAC although Node allows it: RBAC was asked first, or Node never
	rbacOnly  int // allowed by RBAC, and Node does not allow it
}

// ParseMode reads the value of kube-apiserver's flag --authorization-mode, or "auto".
func ParseMode(s string) (*Mode, error) {
	if s == "auto" || s == "" {
		return &Mode{}, nil
	}
	m := &Mode{given: true}
	for i, name := range strings.Split(s, ",") {
		switch name {
		case "Node":
			m.node = true
		case "RBAC":
			m.rbac = true
			m.rbacLead = !m.node
		case "Webhook", "ABAC", "AlwaysAllow", "AlwaysDeny":
		default:
			return nil, fmt.Errorf("authorization mode %d of %q is none of Node, RBAC, Webhook, ABAC, AlwaysAllow, AlwaysDeny", i+1, s)
		}
	}
	return m, nil
}

// String returns the mode as the flag would have it: "Node,RBAC", "RBAC,Node", "RBAC", "Node", or "" when nothing tells it.
func (m *Mode) String() string {
	node, rbac, lead := m.state()
	switch {
	case node && rbac && lead:
		return "RBAC,Node"
	case node && rbac:
		return "Node,RBAC"
	case node:
		return "Node"
	case rbac:
		return "RBAC"
	}
	return ""
}

// Inferred reports whether the mode was read from the log.
func (m *Mode) Inferred() bool { return !m.given }

func (m *Mode) state() (node, rbac, lead bool) {
	if m.given {
		return m.node, m.rbac, m.rbacLead
	}
	node = m.nodeWord > 0
	rbac = m.rbacOwn+m.rbacOnly > 0
	// With Node first, RBAC is never asked of what Node allows; a few exceptions are the apiserver's lag behind the state.
	lead = m.rbacOwn > 0 && m.rbacOwn*20 > m.nodeWord
	if node && !rbac {
		rbac = true // asked last without ever allowing: the usual order
	}
	return node, rbac, lead
}

// Decided reports whether enough has been seen to say what annotations imply.
func (m *Mode) Decided() bool { return m.given || m.settled || m.annotated >= decideAfter }

// settle ends the waiting for more evidence: what has been seen must do. Further evidence still counts.
func (m *Mode) settle() { m.settled = true }

// decideAfter is how many annotated requests of nodes settle the mode: a kubelet alone makes a handful a minute.
const decideAfter = 256

// authorizerOf says whose reason it is.
func authorizerOf(j *Judgement) rules.Authorizer {
	o := &j.Observed
	switch {
	case o.Decision == "":
		return rules.ByNobody
	case o.HasGrant:
		return rules.ByRBAC
	case o.Decision != "allow":
		return rules.ByNobody
	case slices.Contains(j.Event.Effective().Groups, user.SystemPrivilegedGroup):
		return rules.ByOther // allowed before any authorizer, with the same empty reason
	case o.Reason == "" && j.IsNode:
		return rules.ByNode
	}
	return rules.ByOther
}

// Observe takes in what a request shows of the mode.
func (m *Mode) Observe(j *Judgement) {
	o := &j.Observed
	if m.given || o.Decision == "" || !j.IsNode {
		return
	}
	m.annotated++
	sure := !j.Answer.Race && j.Answer.Verdict != nodeauthz.Unknown
	switch {
	case o.Authorizer == rules.ByNode:
		m.nodeWord++
	case o.Authorizer == rules.ByRBAC && sure && j.Answer.Verdict == nodeauthz.Allow:
		m.rbacOwn++
	case o.Authorizer == rules.ByRBAC:
		m.rbacOnly++
	case o.Decision == "forbid" && isNodeReason(o.Reason):
		m.nodeWord++
	}
}

// isNodeReason reports whether a refusal's reason holds one of Node's. RBAC's begin with "RBAC:", and RBAC mostly has none.
func isNodeReason(reason string) bool {
	first, _, _ := strings.Cut(reason, "\n")
	return first != "" && !strings.HasPrefix(first, "RBAC:")
}

// Implies returns what the annotations say the Node authorizer said: Allow, Deny, or NotNode for nothing.
func (m *Mode) Implies(j *Judgement) nodeauthz.Verdict {
	node, _, lead := m.state()
	o := &j.Observed
	switch {
	case !node:
		return nodeauthz.NotNode
	case o.Authorizer == rules.ByNode:
		return nodeauthz.Allow
	case o.Decision == "forbid":
		return nodeauthz.Deny
	case o.Authorizer == rules.ByRBAC && !lead:
		return nodeauthz.Deny
	}
	return nodeauthz.NotNode
}
