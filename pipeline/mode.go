package pipeline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// Mode is the order of the API server's authorizers, given or inferred from the log. The union of authorizers tells only the reason of
// the one that allowed (Node's is empty) or, joined, those of all that had no opinion; so the order decides what a reason implies.
// Not safe for concurrent use.
type Mode struct {
	given []string // as the flag has it; nil to infer
	seen  int      // requests with a decision
	// settled says to wait for no more.
	settled bool

	// word is whether Node's own word was seen: an allow without a reason, or a refusal with one of Node's.
	word bool
	// byRBAC is whether RBAC allowed anything.
	byRBAC bool
	// static holds the latest requests that a static rule lets any node make, such as a report of its status: a bit is 1 where RBAC
	// allowed one, which shows that RBAC was asked before Node or alone, and 0 where Node did. Nothing can be wrong about those; and
	// where the order changed in the midst of a log, the older ones soon drop out.
	static uint64
	// hasStatic is whether there was any such request.
	hasStatic bool
	// refused is whether anything was refused that a static rule lets any node do.
	refused bool
	// granted counts what the graph allows and Node (0) or RBAC (1) let through, of late: both are halved when they are many, so that years of
	// RBAC only do not outweigh the day on which Node comes before it. The API server's lag behind the graph makes some of the latter in any
	// order, and after a restart many; so they count only where there are no static requests.
	granted [2]int
}

// ParseMode reads the value of kube-apiserver's flag --authorization-mode, or "auto".
func ParseMode(s string) (*Mode, error) {
	if s == "auto" || s == "" {
		return &Mode{}, nil
	}
	m := &Mode{given: strings.Split(s, ",")}
	for i, name := range m.given {
		switch name {
		case "Node", "RBAC", "Webhook", "ABAC", "AlwaysAllow", "AlwaysDeny":
		default:
			return nil, fmt.Errorf("authorization mode %d of %q is none of Node, RBAC, Webhook, ABAC, AlwaysAllow, AlwaysDeny", i+1, s)
		}
		if slices.Contains(m.given[:i], name) {
			return nil, fmt.Errorf("authorization mode %s comes twice in %q", name, s)
		}
	}
	return m, nil
}

// String returns the mode as the flag has it, or when inferred "Node,RBAC", "RBAC,Node" or "RBAC"; "" when nothing tells it.
func (m *Mode) String() string { return strings.Join(m.order(), ",") }

// savedMode is a Mode as it is stored.
type savedMode struct {
	Seen    int    `json:"seen"`
	Settled bool   `json:"settled"`
	Word    bool   `json:"word"`
	ByRBAC  bool   `json:"byRBAC"`
	Static  uint64 `json:"static,string"`
	Granted [2]int `json:"granted"`
	// HasStatic is absent in what was stored before it was known: then the static requests to come tell.
	HasStatic bool `json:"hasStatic,omitempty"`
	Refused   bool `json:"refused,omitempty"`
}

// Save returns what was inferred, to be stored; nil for a mode that was given. It changes seldom once the mode is settled.
func (m *Mode) Save() []byte {
	if m.given != nil || m.seen == 0 {
		return nil
	}
	// Beyond these bounds a number says no more.
	s := savedMode{Seen: min(m.seen, decideAfter), Settled: m.settled, Word: m.word, ByRBAC: m.byRBAC, Static: m.static, Granted: m.granted, HasStatic: m.hasStatic, Refused: m.refused}
	b, err := json.Marshal(&s)
	if err != nil {
		return nil
	}
	return b
}

// Restore puts back what Save returned. A mode that was given, and what cannot be read, stay as they are.
func (m *Mode) Restore(saved []byte) {
	var s savedMode
	if m.given != nil || json.Unmarshal(saved, &s) != nil {
		return
	}
	m.seen, m.settled, m.word, m.byRBAC, m.static, m.granted = s.Seen, s.Settled, s.Word, s.ByRBAC, s.Static, s.Granted
	m.hasStatic, m.refused = s.HasStatic || s.Static != 0, s.Refused
}

// Inferred reports whether the mode is read from the log.
func (m *Mode) Inferred() bool { return m.given == nil }

// Overruled reports whether the log shows that RBAC is asked before Node, or alone: RBAC allowed what Node allows by its static rules or by the state, or a node was
// refused what those rules allow. That RBAC allowed what Node does not shows nothing.
func (m *Mode) Overruled() bool {
	order := m.order()
	return m.given == nil && len(order) > 0 && order[0] == "RBAC" && (m.refused || m.static != 0 || m.granted[1] > 0)
}

// order is the authorizers in the order in which they are asked.
func (m *Mode) order() []string {
	switch {
	case m.given != nil:
		return m.given
	case m.word && m.rbacFirst():
		return []string{"RBAC", "Node"}
	case m.word:
		return []string{"Node", "RBAC"} // RBAC asked last without ever allowing anything is the usual case
	case m.byRBAC:
		return []string{"RBAC"}
	}
	return nil
}

func (m *Mode) rbacFirst() bool {
	const few = 8
	if m.hasStatic {
		return m.static != 0
	}
	return m.granted[1] >= few && m.granted[1]*4 > m.granted[0]
}

// plain reports whether a refusal's reasons can be those of Node and RBAC only. Of one mode it is always the same.
func (m *Mode) plain() bool {
	return !slices.ContainsFunc(m.order(), func(name string) bool { return name != "Node" && name != "RBAC" })
}

// Decided reports whether enough has been seen to say what annotations imply.
func (m *Mode) Decided() bool { return m.given != nil || m.settled || m.seen >= decideAfter }

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
	case o.Reason == "" && j.IsNode && !neverByNode(j):
		return rules.ByNode
	case o.Reason != "" && rbac.OwnReason(o.Reason):
		return rules.ByRBAC // what is left of its reason names no grant
	}
	return rules.ByOther
}

// neverByNode reports whether the Node authorizer allows such a request to no node, whatever its version and the state: then it is another authorizer that gives no
// reason.
func neverByNode(j *Judgement) bool {
	return j.Answer.Verdict == nodeauthz.Deny && j.Answer.Static && !j.Answer.Race && j.Node != "" && !dependsOnVersion(j.Attrs)
}

// Observe takes in what a request shows of the mode.
func (m *Mode) Observe(j *Judgement) {
	o := &j.Observed
	if m.given != nil || o.Decision == "" || !j.IsNode {
		return
	}
	m.seen++
	rbac := o.Authorizer == rules.ByRBAC
	node := o.Authorizer == rules.ByNode
	m.byRBAC = m.byRBAC || rbac
	m.word = m.word || node || o.Decision == "forbid" && isNodeReason(o.Reason)
	if j.Answer.Verdict != nodeauthz.Allow || j.Answer.Race {
		return
	}
	if !rbac && !node {
		m.refused = m.refused || o.Decision == "forbid" && j.Answer.Static && !dependsOnVersion(j.Attrs)
		return
	}
	one := 0
	if rbac {
		one = 1
	}
	if j.Answer.Static {
		if dependsOnVersion(j.Attrs) {
			return
		}
		m.static, m.hasStatic = m.static<<1|uint64(one), true
	} else {
		m.granted[one]++
		if m.granted[0]+m.granted[1] >= decideAfter {
			m.granted[0], m.granted[1] = m.granted[0]/2, m.granted[1]/2
		}
	}
}

// dependsOnVersion reports whether Kubernetes versions and feature gates differ on the static rules for such a request. The version may be found only
// after the mode.
func dependsOnVersion(a *authorizer.AttributesRecord) bool {
	switch a.APIGroup {
	case "":
		read := a.Subresource == "" && a.IsReadOnly()
		return a.Resource == "serviceaccounts" || read && a.Resource == "pods" || read && a.Resource == "nodes" && nodeid.UserPrefix+a.Name != a.User.GetName()
	case "certificates.k8s.io":
		return a.Resource != "certificatesigningrequests"
	case "storage.k8s.io":
		return a.Resource == "csinodes" && a.Subresource != ""
	case "events.k8s.io", "resource.k8s.io":
		return true
	}
	return false
}

// isNodeReason reports whether a refusal's reason begins with one of Node's. RBAC's begin with "RBAC:", and RBAC mostly has none; since Kubernetes
// 1.37 the authorizer's name comes before either.
func isNodeReason(reason string) bool {
	first, _, _ := strings.Cut(reason, "\n")
	_, first = nodeauthz.CutAuthorizer(first)
	return first != "" && !strings.HasPrefix(first, "RBAC:")
}

// Implies returns what the annotations say the Node authorizer said: Allow, Deny, or NotNode for nothing.
func (m *Mode) Implies(j *Judgement) nodeauthz.Verdict {
	o, order := &j.Observed, m.order()
	node := slices.Index(order, "Node")
	switch {
	case node < 0:
		return nodeauthz.NotNode
	case o.Decision == "forbid":
		return nodeauthz.Deny
	case o.Authorizer == rules.ByNode:
		// An authorizer that need not give a reason may have allowed it too.
		if m.others() {
			return nodeauthz.NotNode
		}
		return nodeauthz.Allow
	case o.Authorizer == rules.ByRBAC && node < slices.Index(order, "RBAC"):
		return nodeauthz.Deny
	case o.Authorizer == rules.ByOther && o.Reason != "" && m.given != nil && node == 0:
		return nodeauthz.Deny // whoever it was, Node was asked before
	}
	return nodeauthz.NotNode
}

// others reports whether an authorizer is asked whose answers nobody re-evaluates.
func (m *Mode) others() bool {
	return slices.ContainsFunc(m.given, func(name string) bool { return name != "Node" && name != "RBAC" && name != "AlwaysDeny" })
}
