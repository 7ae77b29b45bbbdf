package report

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// Outcome is what would become of a request, were RBAC changed.
type Outcome uint8

// The outcomes. Every request has one.
const (
	// AllowedByNode means that the Node authorizer allows it, whatever RBAC says.
	AllowedByNode Outcome = iota
	// AllowedByRBAC means that a binding which stays, or is added, allows it.
	AllowedByRBAC
	// AllowedByOther means that an authorizer allowed it which is neither Node nor RBAC, and which is taken to stay.
	AllowedByOther
	// Breaks means that it passed and would be refused, and that the client needs the answer, which may be 404, or asks again (429 and 5xx).
	Breaks
	// Fruitless means that it passed, was refused by admission (403), and would be refused earlier, that the client continues when it is refused, or that a kubelet
	// asked for what is not there (404).
	Fruitless
	// Race means that it would pass or be refused by how far the API server's graph was at that moment, as happens to any kubelet: near a change, when a
	// pod of its node was just deleted, or after the API server's start ([WhatIfBuilder.Settle]).
	Race
	// Undecided means that it passed and state is missing to tell what would allow it.
	Undecided
	// Refused means that it was refused and would be again.
	Refused
	// Gained means that it was refused and would pass.
	Gained
	outcomes
)

// String returns the outcome as JSON output has it.
func (o Outcome) String() string {
	return [...]string{"node", "rbac", "other", "breaks", "fruitless", "race", "unknown", "refused", "gained", ""}[min(o, outcomes)]
}

// WhatIf tells what would become of requests with another RBAC and another order of authorizers. Not safe for concurrent use.
type WhatIf struct {
	// RBAC is RBAC as it was.
	RBAC *rbac.Store
	// Change is what would be different.
	Change *rbac.Change
	// Then are the authorizers that the cluster will run, in their order; nil for those that the log shows, with Node before RBAC where
	// Node is not among them.
	Then []string
	// Mode is what the log shows.
	Mode *pipeline.Mode
	// Kubelets are further user agents that are a kubelet's, without version.
	Kubelets []string
	// Everybody says that requests of others than nodes count, too, where a grant that goes let them through.
	Everybody bool
}

// ParseThen reads the authorizers that a cluster will run: "auto", "Node,RBAC", "RBAC,Node" or "RBAC".
func ParseThen(s string) (then []string, ok bool) {
	switch s {
	case "", "auto":
		return nil, true
	case "Node,RBAC", "RBAC,Node", "RBAC":
		return strings.Split(s, ","), true
	}
	return nil, false
}

// Authorizers returns the order in which the authorizers will be asked.
func (w *WhatIf) Authorizers() []string {
	if w.Then != nil {
		return w.Then
	}
	if w.Mode != nil {
		if now := strings.Split(w.Mode.String(), ","); slices.Contains(now, "Node") {
			return now
		}
	}
	return []string{"Node", "RBAC"}
}

// ConcernsNodes reports whether the request is of a node, or of an identity that is taken for one by bindings: its user is named like
// a node's or is in the group of nodes. So is one that a node made as somebody else.
func ConcernsNodes(j *pipeline.Judgement) bool {
	u := j.Event.Effective()
	return j.IsNode || j.Impersonator != "" || nodeid.Resembles(u.Username, u.Groups)
}

// Concerns reports whether the change may decide the request: it concerns nodes, or with Everybody something that goes.
func (w *WhatIf) Concerns(j *pipeline.Judgement) bool {
	return ConcernsNodes(j) || w.Everybody && w.passedBy(j)
}

// passedBy reports whether a grant that goes let the request of somebody else than a node through: by the API server's own word, else by what RBAC was.
func (w *WhatIf) passedBy(j *pipeline.Judgement) bool {
	o := &j.Observed
	switch {
	case !j.Allowed && !j.Unasked():
		return false
	case o.Decision != "":
		return o.HasGrant && w.Change.Removes(o.Grant)
	case slices.Contains(j.Event.Effective().Groups, user.SystemPrivilegedGroup):
		return false // no authorizer is asked
	}
	for g := range w.RBAC.Grants(j.Attrs, j.Time) {
		if w.Change.Removes(g) {
			return true
		}
	}
	return false
}

// Fate is the outcome of one request.
type Fate struct {
	Outcome Outcome
	// Grant is what would allow it, for AllowedByRBAC, and for Gained where it is RBAC.
	Grant rbac.Grant
	// ByRBAC is whether Grant is set.
	ByRBAC bool
	// Uncertain is true for what would break as far as the log tells, while the state does not know all bindings of then.
	Uncertain bool
}

// Of returns the fate of a request that concerns nodes.
func (w *WhatIf) Of(j *pipeline.Judgement) Fate {
	if j.Impersonator != "" {
		return w.impersonation(j)
	}
	node, race := w.node(j)
	grant, granted, known := w.grant(j)
	f := Fate{}
	allowed := false
	asked := w.Authorizers()
	for _, name := range asked {
		switch {
		case allowed:
		case name == "Node" && node == nodeauthz.Allow && !race:
			f.Outcome, allowed = AllowedByNode, true
		case name == "RBAC" && granted:
			f.Outcome, f.Grant, f.ByRBAC, allowed = AllowedByRBAC, grant, true, true
		}
	}
	if !allowed && j.Observed.Authorizer == rules.ByOther {
		f.Outcome, allowed = AllowedByOther, true
	}
	unanswered := j.Observed.Decision == "" && j.Event.Code == 0
	unasked := j.Unasked() && (allowed && f.Outcome == AllowedByNode || w.RBAC.Authorize(j.Attrs, j.Time).Allowed)
	if !j.Allowed && !unanswered && !unasked {
		// Without the API server's word a 403 may be admission's, of a request that the authorizers let through already.
		if gains := j.Observed.Decision == "forbid" || f.ByRBAC && !w.RBAC.Authorize(j.Attrs, j.Time).Allowed; !allowed || !gains {
			f = Fate{Outcome: Refused}
		} else {
			f.Outcome = Gained
		}
		return f
	}
	if also := j.AlsoAsked(); allowed && also != nil && f.Outcome != AllowedByOther && !(slices.Contains(asked, "Node") && j.NodeAllows(also)) {
		if d := w.RBAC.AuthorizeUnder(w.Change, also, j.Time); !d.Allowed && w.RBAC.Authorize(also, j.Time).Allowed {
			return Fate{Outcome: Breaks, Uncertain: !d.Known}
		}
	}
	if allowed {
		return f
	}
	asksNode := slices.Contains(asked, "Node")
	switch {
	case asksNode && node == nodeauthz.Unknown:
		f.Outcome = Undecided
	case asksNode && (race || ownUntilBefore(j)):
		f.Outcome = Race
	case unanswered || !known && !j.HasGrant:
		f.Outcome = Undecided
	case w.harmless(j):
		f.Outcome = Fruitless
	default:
		f.Outcome = Breaks
	}
	f.Uncertain = !known && f.Outcome != Undecided
	return f
}

// Later returns the fate of a request that the Node authorizer allows only as long as it does not limit nodes to their own Nodes and pods, once it does (see
// [pipeline.Judgement.Unlimited]). ok is false where that changes nothing: for any other request, for one that RBAC does not allow today, or will allow, for
// one that failed, and for what was its node's own until before, which a kubelet does without.
func (w *WhatIf) Later(j *pipeline.Judgement) (f Fate, ok bool) {
	is, gone := j.Unlimited()
	if !is || gone && rules.IsKubelet(j.Client(), w.Kubelets) || !j.Succeeded() || !w.RBAC.Authorize(j.Attrs, j.Time).Allowed {
		return Fate{}, false
	}
	if _, granted, _ := w.grant(j); granted {
		return Fate{}, false
	}
	return Fate{Outcome: Breaks}, true
}

// ownUntilBefore reports whether a kubelet watches what was its node's until just before, by the rule rbac-excess-access.
func ownUntilBefore(j *pipeline.Judgement) bool {
	return found(j, rules.OwnUntilBefore)
}

// harmless reports whether the client does not notice when RBAC refuses the request, as the check nothing-depends decides it. A kubelet takes a refusal for a 404.
func (w *WhatIf) harmless(j *pipeline.Judgement) bool {
	u := checks.Use{
		Kubelet: j.IsNode && rules.IsKubelet(j.Client(), w.Kubelets), Node: j.Node, Outcome: AnswerOf(j), Tolerated: apart(j, rules.Tolerated),
		JustGone: apart(j, rules.JustGone) || j.Unasked() && j.JustGone, Proxy: j.Attrs.Subresource == "proxy", Impersonation: j.Impersonator != "",
	}
	return u.Tolerated || u.Harmless() || u.Kubelet && !u.Proxy && u.Outcome == checks.OutcomeNotFound
}

// AnswerOf is how a request ended that was let through.
func AnswerOf(j *pipeline.Judgement) checks.Outcome {
	switch code := j.Event.Code; {
	case code == 0:
		return checks.OutcomeUnknown
	case code == http.StatusForbidden && j.Observed.Decision == "allow" && j.Admitted() && !j.Failed():
		return checks.OutcomeRefused
	case code == http.StatusNotFound:
		return checks.OutcomeNotFound
	case code < 300:
		return checks.OutcomeSucceeded
	case j.Failed():
		return checks.OutcomeFailed
	}
	return checks.OutcomeOther
}

// apart reports whether a finding of the request is in a group of its own for that.
func apart(j *pipeline.Judgement, why string) bool {
	return slices.ContainsFunc(j.Findings, func(f pipeline.Finding) bool { return f.Finding.Apart == why })
}

func found(j *pipeline.Judgement, reason rules.Reason) bool {
	return slices.ContainsFunc(j.Findings, func(f pipeline.Finding) bool { return f.Finding.Reason == reason })
}

// impersonation is the fate of a request that a node made as somebody else: it needs both what allowed the request itself and the right to
// act as that user, which the Node authorizer never gives.
func (w *WhatIf) impersonation(j *pipeline.Judgement) Fate {
	d := w.actsUnder(j)
	itself := !j.Observed.HasGrant || !w.Change.Removes(j.Observed.Grant)
	if !itself {
		_, itself, _ = w.grant(j)
	}
	switch {
	case !j.Allowed && !j.Unasked():
		return Fate{Outcome: Refused}
	case d.Allowed && itself:
		return Fate{Outcome: AllowedByRBAC, Grant: d.Grant, ByRBAC: true}
	case !j.HasGrant:
		return Fate{Outcome: Undecided}
	case w.harmless(j):
		return Fate{Outcome: Fruitless, Uncertain: !d.Known}
	}
	return Fate{Outcome: Breaks, Uncertain: !d.Known}
}

// actsUnder says whether a node may act as the user of an impersonation once the change is made: what refuses a part of that, or else what allows the user itself.
func (w *WhatIf) actsUnder(j *pipeline.Judgement) (d rbac.Decision) {
	for i, attrs := range w.actsBy(j) {
		part := w.RBAC.AuthorizeUnder(w.Change, attrs, j.Time)
		if i == 0 || d.Allowed && !part.Allowed {
			d = part
		}
	}
	return d
}

// actsBy is what the API server asks for an impersonation, of which each must be allowed.
func (w *WhatIf) actsBy(j *pipeline.Judgement) []*authorizer.AttributesRecord {
	return pipeline.Impersonation(w.RBAC, j.Event, j.Attrs, j.Time, func(a authorizer.Attributes) bool {
		return w.RBAC.AuthorizeUnder(w.Change, a, j.Time).Allowed
	})
}

// node is what the Node authorizer says, by the API server's own word where there is one. In a race the word is of that moment only.
func (w *WhatIf) node(j *pipeline.Judgement) (v nodeauthz.Verdict, race bool) {
	if !j.IsNode {
		return nodeauthz.Deny, false
	}
	switch j.Observed.NodeVerdict {
	case nodeauthz.Allow:
		return nodeauthz.Allow, false
	case nodeauthz.Deny:
		return nodeauthz.Deny, j.Answer.Race
	}
	return j.Answer.Verdict, j.Answer.Race
}

// grant finds what of RBAC would allow the request; known is false when nothing does and the state cannot know all.
func (w *WhatIf) grant(j *pipeline.Judgement) (g rbac.Grant, ok, known bool) {
	if o := &j.Observed; o.HasGrant && !w.Change.Removes(o.Grant) {
		return o.Grant, true, true
	}
	d := w.RBAC.AuthorizeUnder(w.Change, j.Attrs, j.Time)
	return d.Grant, d.Allowed, d.Known
}

// lost calls add with each binding that allowed the request and would not any more.
func (w *WhatIf) lost(j *pipeline.Judgement, add func(rbac.BindingRef)) {
	if o := &j.Observed; o.HasGrant && w.Change.Removes(o.Grant) {
		add(o.Grant.Binding)
	}
	asked := []*authorizer.AttributesRecord{j.Attrs}
	if j.Impersonator != "" {
		asked = w.actsBy(j)
	}
	for _, attrs := range asked {
		for g := range w.RBAC.Grants(attrs, j.Time) {
			if w.Change.Removes(g) {
				add(g.Binding)
			}
		}
	}
}
