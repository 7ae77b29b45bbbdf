package pipeline

import (
	"net/http"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/version"
)

// Judgement is everything said of one request. It and what it points to live as long as the call it is given to.
type Judgement struct {
	rules.Request
	Findings []Finding
	// Entry is what the judgement adds to a tally, where the Judge tallies; else nil.
	Entry *tally.Entry
	// Early says that the request was judged although the state had not caught up with it. It is unknown where that could matter.
	Early bool
	// Contradicted says that the API server refused, with no other authorizer than Node and RBAC, what RBAC allows by the state.
	Contradicted bool
	// AddressNode is the node that has the address from which the request came, where there are Findings; "" for none, or several.
	AddressNode string
	node        *nodeauthz.Authorizer
	// between are the two versions that differ on the request, where it is unknown which is the API server's.
	between [2]string
}

// Finding is a rule's finding with the rule.
type Finding struct {
	rules.Finding
	Rule *rules.Rule
}

// Reason is the reason of the re-evaluated verdict: the reference's for a deny, else empty.
func (j *Judgement) Reason() string {
	if j.Answer.Verdict == nodeauthz.Deny {
		return j.Answer.Reason
	}
	return ""
}

// RaceDistance is how far from the request the change of the state is that makes the verdict a race, where the API server's Node authorizer decided
// otherwise; false where it did not.
func (j *Judgement) RaceDistance() (time.Duration, bool) {
	if !j.Answer.Race || !j.otherwise() {
		return 0, false
	}
	return j.node.RaceDistance(j.Attrs, j.Time)
}

// otherwise reports whether the API server's Node authorizer decided otherwise.
func (j *Judgement) otherwise() bool {
	decided := func(v nodeauthz.Verdict) bool { return v == nodeauthz.Allow || v == nodeauthz.Deny }
	ours, theirs := j.Answer.Verdict, j.Observed.NodeVerdict
	return j.IsNode && ours != theirs && decided(ours) && decided(theirs)
}

// ClockDistance is how far from the request the change of the state is by which the API server decided, outside of races, if it decided as one does whose clock differs
// from that of the state: it knew a pod of the node already, or not any more. What it did not know yet is lag, and false.
func (j *Judgement) ClockDistance() (time.Duration, bool) {
	if j.Answer.Race || !j.otherwise() {
		return 0, false
	}
	after, is := j.node.NearestChange(j.Attrs, j.Time)
	return after.Abs(), is && (after > 0 || j.Answer.Verdict == nodeauthz.Deny)
}

// unordered reports whether the request's time is a whole second, and its verdict could be the API server's if times were cut: then the request, or a change that
// an event of the log tells of, came up to a second later.
func (j *Judgement) unordered() bool {
	if j.node == nil || j.Time.Nanosecond() != 0 || j.Event.StageTime.Nanosecond() != 0 {
		return false
	}
	for _, by := range []time.Duration{time.Second, -time.Second} {
		if other := j.node.Decide(j.Attrs, j.Time.Add(by)); other.Race || other.Verdict == j.Observed.NodeVerdict {
			return true
		}
	}
	return false
}

// Authorizer is the one that answered.
func (j *Judgement) Authorizer() *nodeauthz.Authorizer { return j.node }

// Unlimited reports whether the Node authorizer allows the request only while it does not limit nodes to their own Nodes and pods, as up to Kubernetes 1.31
// or with the feature gate AuthorizeNodeWithSelectors off. justGone says that the object was the node's own until a day before at most.
func (j *Judgement) Unlimited() (is, justGone bool) {
	if j.node == nil || !j.IsNode || j.NodeDenies() {
		return false, false
	}
	limited := j.node.Limited(j.Attrs)
	if limited == nil {
		return false, false
	}
	if ans := limited.Decide(j.Attrs, j.Time); ans.Verdict != nodeauthz.Deny || ans.Race {
		return false, false
	}
	return true, limited.MayAllow(j.Attrs, j.Time.Add(-rules.ReturnsFor), j.Time)
}

// Between names the two Kubernetes versions, the older first, that differ on the request while API servers of both write the log, or between which
// the API server's lies; empty where one is known. The verdict then is a race, or unknown.
func (j *Judgement) Between() (older, newer string) { return j.between[0], j.between[1] }

// Detail names the edge that makes the verdict a race, or the state that an unknown one lacks. It searches the graph when called.
func (j *Judgement) Detail() string {
	switch {
	case j.Event.Derived && j.Answer.Verdict == nodeauthz.Unknown && selectable(j.Attrs):
		return "the log does not hold the request's selectors"
	case j.Early && j.Answer.Verdict == nodeauthz.Unknown:
		return "the state had not caught up with the request"
	case j.between[0] != "":
		return "Kubernetes " + j.between[0] + " and " + j.between[1] + " differ on the request"
	case j.Answer.Race && j.node.Others(j.Attrs, j.Time, authorizedBy(j)) && !j.node.Others(j.Attrs, j.Time, j.Time):
		return "the state changed before the API server had answered, and the request may have waited in a queue until then"
	case j.Answer.Race && !j.node.Decide(j.Attrs, j.Time).Race:
		return "an API server that started after a change of the pod answers differently"
	case j.Answer.Race:
		return j.node.RaceDetail(j.Attrs, j.Time)
	case j.Answer.Verdict == nodeauthz.Unknown:
		return j.node.MissingFor(j.Attrs, j.Time)
	}
	return ""
}

// Judge judges single requests. It is not safe for concurrent use: it reuses its memory.
type Judge struct {
	// Node is the authorizer with memory. Where there are Versions, it is not asked.
	Node *nodeauthz.Authorizer
	// Versions say by which version requests are judged; nil for Node's.
	Versions *Versions
	// RBAC may be nil: then what is not annotated is not known.
	RBAC *rbac.Store
	// Admission is the admission plugin NodeRestriction over the state, and Blind the same without any; nil to leave writes alone.
	Admission, Blind *nodeadmission.Admission
	// State is what rules ask; nil if there is none.
	State rules.State
	// Rules are checked in their order.
	Rules []*rules.Rule
	// Own are rules that the user wrote, checked after Rules; nil if there are none.
	Own rules.Own
	// Memory is what rules remember; it must not be nil.
	Memory *rules.Memory
	// Mode tells what annotations imply.
	Mode *Mode
	// Kept are bindings for nodes that are to stay: of several that let a request through, one of them is named.
	Kept []rbac.BindingRef
	// Early says that the state has not caught up with the next request: what it does not know may be there.
	Early bool
	// Tallies says that each judgement is to have its entry.
	Tallies bool

	own     hearing
	write   nodeadmission.Request
	reasons map[string]parsedReason
	names   resourceNames
	checker ownChecker
	aside   *aside // of a copy that judges in parallel
}

// hearing is the memory of a judgement.
type hearing struct {
	attrs   audit.Attributes
	j       Judgement
	entries Entries
	finding rules.Finding // what a rule has just found
	// foreseen says that the judgement was made in parallel: see [Judge.settle]; by whose rules and for which release, if there are versions.
	foreseen bool
	ruledBy  *nodeauthz.Authorizer
	release  string
	// expected is what the versions will take in of it.
	expected version.Expected
}

type parsedReason struct {
	grant rbac.Grant
	ok    bool
}

// Judge returns the judgement of the request of which ev is an event. It is valid until the next call.
func (j *Judge) Judge(ev *audit.Event) *Judgement {
	j.hear(&j.own, ev)
	return &j.own.j
}

// hear judges a request in its turn: it may depend on what requests before it showed of the mode and the version.
func (j *Judge) hear(h *hearing, ev *audit.Event) {
	out := &h.j
	j.begin(h, ev)
	if out.IsNode {
		j.Mode.Observe(out)
		out.Observed.NodeVerdict = j.Mode.Implies(out)
	}
	if j.compares(out) {
		j.Versions.observe(out, j.Mode.plain())
	}
	j.finish(h)
}

// begin asks the Node authorizer, and reads the API server's own word.
func (j *Judge) begin(h *hearing, ev *audit.Event) {
	out := &h.j
	u := ev.Effective()
	out.node, out.between, out.Early = j.Node, [2]string{}, false
	out.Request = rules.Request{Event: ev, Time: receivedAt(ev), Unnamed: j.Memory.Unnamed(ev)}
	// Versions that do not hand selectors to authorizers do not have Node look at any.
	out.Attrs = h.attrs.Of(ev, j.Versions != nil || j.Node.Features().AuthorizeWithSelectors)
	out.Node, out.IsNode = nodeid.Of(u.Username, u.Groups)
	if out.IsNode {
		switch {
		case j.aside != nil && j.aside.node != nil:
			out.node = j.aside.node
			out.Answer = out.node.Decide(out.Attrs, out.Time)
		case j.Versions != nil:
			j.Versions.decide(out)
		default:
			out.Answer = j.Node.Decide(out.Attrs, out.Time)
		}
		if out.Early = j.Early; j.Early && out.Answer.Verdict == nodeauthz.Deny && !out.Answer.Static {
			out.Answer = nodeauthz.Answer{Verdict: nodeauthz.Unknown}
		}
		if ev.Derived && out.Answer.Verdict == nodeauthz.Deny && selectable(out.Attrs) {
			out.Answer = nodeauthz.Answer{Verdict: nodeauthz.Unknown} // its selectors were not logged
		}
	}
	o := &out.Observed
	o.Decision, o.Reason = decisionOf(ev), ev.Reason
	if o.Grant, o.HasGrant = j.parse(ev.Reason); o.HasGrant && o.Decision != "allow" {
		o.Grant, o.HasGrant = rbac.Grant{}, false
	}
	o.Authorizer = authorizerOf(out)
}

// compares reports whether the answer is held against the API server's to find the version.
func (j *Judge) compares(out *Judgement) bool {
	return j.Versions != nil && out.IsNode && !j.Early && (!out.Event.Derived || !selectable(out.Attrs))
}

// finish says what follows from the two answers and the state. It can be called again when one of them has changed.
func (j *Judge) finish(h *hearing) {
	out := &h.j
	ev := out.Event
	out.Findings = out.Findings[:0]
	out.Admission, out.Impersonator, out.Spare = rules.Admission{}, "", false
	out.Allowed, out.Open = passed(ev)
	j.admission(out)
	j.grant(out)
	j.impersonation(out)
	out.Contradicted = j.contradicted(out)
	out.JustGone = j.justGone(out)
	out.Contested, out.Elsewhere, out.Unused = j.contested(out)
	for _, r := range j.Rules {
		if r.Check == nil {
			continue
		}
		if r.Check(&out.Request, j.State, j.Memory, &h.finding) {
			out.found(&h.finding, r)
		}
	}
	if j.Own != nil {
		for _, f := range j.checker.of(j.Own).Check(&out.Request, j.State, j.Memory) {
			out.found(&f.Finding, f.Rule)
		}
	}
	out.AddressNode = ""
	if address, logged := ev.Address(); logged && len(out.Findings) > 0 && j.State != nil {
		out.AddressNode = j.State.NodeAt(address)
	}
	out.Client() // which those who look at the judgement share
	if audit.Signs(ev) {
		out.Signing()
	}
	if out.Entry = nil; j.Tallies {
		h.entries.names = &j.names
		out.Entry = h.entries.Of(out)
	}
}

// found adds a finding.
func (j *Judgement) found(f *rules.Finding, r *rules.Rule) {
	if address, logged := j.Event.Address(); logged && f.Severity == rules.Critical {
		f.Params = append(f.Params[:len(f.Params):len(f.Params)], codes.Text(rules.ParamAddress, address))
	}
	j.Findings = append(j.Findings, Finding{Finding: *f, Rule: r})
}

// ownChecker is what checks requests by the rules that the user wrote.
type ownChecker struct {
	rules   rules.Own
	checker rules.OwnChecker
}

// of returns what checks by the rules, with what it remembers from before where they are the same.
func (c *ownChecker) of(own rules.Own) rules.OwnChecker {
	if c.rules != own {
		c.rules, c.checker = own, own.Checker()
	}
	return c.checker
}

// decided reports whether enough has been seen to judge by.
func (j *Judge) decided() bool { return j.Mode.Decided() && (j.Versions == nil || j.Versions.settled) }

// selectable reports whether the Node authorizer's answer to such a request can depend on its selectors.
func selectable(a *authorizer.AttributesRecord) bool {
	switch a.Verb {
	case "list", "watch", "deletecollection":
	default:
		return false
	}
	switch a.Resource {
	case "pods", "nodes", "secrets", "configmaps", "resourceslices":
		return true
	}
	return false
}

// decisionOf is the API server's decision. It writes two words; another one says nothing.
func decisionOf(ev *audit.Event) string {
	if ev.Decision == "allow" || ev.Decision == "forbid" {
		return ev.Decision
	}
	return ""
}

// passed reports whether the request passed authorization, and whether the event leaves that open.
func passed(ev *audit.Event) (allowed, open bool) {
	switch decision := decisionOf(ev); {
	case decision != "":
		return decision == "allow", false
	case ev.Code >= 100 && ev.Code < 300: // it was served
		return true, false
	case ev.Reason != "": // a reason without a decision is that of an authorizer which failed
		return false, false
	case ev.Code == 0:
		return false, true
	}
	// Without the annotation a 403 may be admission's, but then nothing went through either; and a 429 comes before authorization.
	return ev.Code != 401 && ev.Code != 403 && ev.Code != 429, false
}

// grant finds the RBAC grant that let the request through, when Node did not.
func (j *Judge) grant(out *Judgement) {
	out.Grant, out.HasGrant = out.Observed.Grant, out.Observed.HasGrant
	if !out.IsNode || !out.Allowed && !out.Open || j.RBAC == nil || !out.NodeDenies() {
		return
	}
	if o := &out.Observed; !out.HasGrant && (o.Decision == "" || o.Authorizer == rules.ByRBAC) {
		d := j.RBAC.Authorize(out.Attrs, out.Time)
		if d.Allowed {
			out.Grant, out.HasGrant, out.Allowed = d.Grant, true, true
		}
		out.Open = out.Open && !d.Known
	}
	if out.HasGrant && out.Allowed {
		out.Grant = KeptGrant(j.RBAC, j.Kept, out.Attrs, out.Time, out.Grant)
	}
	out.Spare = j.RBAC.AuthorizeWithout(out.Attrs, out.Time, rbac.Grant.ForNodes).Allowed
	if !out.HasGrant || !out.JoinsBy() || out.JoinsThrough(&out.Grant.Binding) {
		return
	}
	// RBAC looks at ClusterRoleBindings first, and names one of those where the RoleBinding of kubeadm or k0s gives the same.
	out.Grant = grantOf(j.RBAC, out.Attrs, out.Time, func(g rbac.Grant) bool { return out.JoinsThrough(&g.Binding) }, out.Grant)
}

// grantOf is a grant of some that allows the request, or other if there is none.
func grantOf(s *rbac.Store, a authorizer.Attributes, t time.Time, some func(rbac.Grant) bool, other rbac.Grant) rbac.Grant {
	if d := s.AuthorizeWithout(a, t, func(g rbac.Grant) bool { return !some(g) }); d.Allowed {
		return d.Grant
	}
	return other
}

// KeptGrant is the grant of a kept binding that allows the request, or g if there is none. An API server may name any of several bindings.
func KeptGrant(s *rbac.Store, kept []rbac.BindingRef, a authorizer.Attributes, t time.Time, g rbac.Grant) rbac.Grant {
	if len(kept) == 0 {
		return g
	}
	return grantOf(s, a, t, func(other rbac.Grant) bool { return keeps(kept, other) }, g)
}

// keeps reports whether the grant is by a kept binding. What system:node gives to the group system:nodes cannot be kept.
func keeps(kept []rbac.BindingRef, g rbac.Grant) bool {
	all := g.Role == rbac.RoleRef{Kind: rbac.KindClusterRole, Name: "system:node"} && g.Subject == rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup}
	return !all && slices.Contains(kept, g.Binding)
}

// bindingLag is how long an API server may take at most to follow a change of bindings.
const bindingLag = time.Minute

// contradicted reports whether a request was refused although the state has a binding for it, and had it for as long as an API server may take to follow.
func (j *Judge) contradicted(out *Judgement) bool {
	if out.Observed.Decision != "forbid" || j.RBAC == nil || !out.NodeDenies() || !j.Mode.plain() || !sameReason(out.Observed.Reason, out.Answer.Reason) {
		return false
	}
	skew := j.Node.Skew()
	for _, at := range [...]time.Time{out.Time.Add(-max(skew, bindingLag)), out.Time.Add(-skew), out.Time, out.Time.Add(skew), authorizedBy(out).Add(skew)} {
		if !j.RBAC.Authorize(out.Attrs, at).Allowed {
			return false
		}
	}
	return true
}

// UntilBefore is how long before a request its object may have been on the node to count as just gone, where the node was not silent.
const UntilBefore = time.Minute

// justGone reports whether the request was for what is not there, was in vain, or is one that a kubelet makes again, and Node allowed it until just before, or when
// the node's kubelet heard of the cluster last. The API server asks no authorizer if it is too busy (429).
func (j *Judge) justGone(out *Judgement) bool {
	if !out.Rereads() && !out.Failed() && out.Event.Code != http.StatusNotFound || !out.Allowed && out.Event.Code != http.StatusTooManyRequests || !out.Attrs.ResourceRequest || !out.NodeDenies() {
		return false
	}
	since := out.Time.Add(-UntilBefore)
	if j.State != nil {
		if silent := j.State.SilentSince(out.Node, out.Time); !silent.IsZero() {
			since = silent.Add(-rules.ClockDoubt)
		}
	}
	return out.node.MayAllow(out.Attrs, since, out.Time)
}

// contested reports whether the API server allowed without a reason a read of a secret, a configmap or the like to which the state does not lead the node within
// [rules.ClockDoubt], whether it leads another node there, and whether it lacks nothing that could.
func (j *Judge) contested(out *Judgement) (is, elsewhere, unused bool) {
	a, ans := out.Attrs, &out.Answer
	if !out.IsNode || out.Early || ans.Verdict != nodeauthz.Deny || ans.Static || ans.Race || out.Observed.NodeVerdict != nodeauthz.Allow {
		return false, false, false
	}
	switch a.Resource {
	case "secrets", "configmaps", "serviceaccounts":
	default:
		return false, false, false
	}
	from, to := out.Time.Add(-rules.ClockDoubt), out.Time.Add(rules.ClockDoubt)
	if out.node.MayAllow(a, from, to) {
		return false, false, false
	}
	object := nodeauthz.Step{Kind: nodeauthz.KindOfResource(a.APIGroup, a.Resource), Namespace: a.Namespace, Name: a.Name}
	elsewhere = out.node.Reach(object, from, to, 1).Nodes > 0
	unused = !elsewhere && j.State != nil && j.State.PodsWatched(out.Time) && !out.node.MayAllow(a, time.Time{}, time.Unix(endOfTime, 0))
	return true, elsewhere, unused
}

// endOfTime is later than all that a state holds, in Unix seconds.
const endOfTime = 1 << 40

// parse reads an RBAC reason. The same few come again and again.
func (j *Judge) parse(reason string) (rbac.Grant, bool) {
	const most = 4096
	if len(reason) < 5 || reason[:5] != "RBAC:" {
		return rbac.Grant{}, false
	}
	if p, seen := j.reasons[reason]; seen {
		return p.grant, p.ok
	}
	reason = strings.Clone(reason) // what is parsed of it aliases it, and is kept
	p := parsedReason{}
	p.grant, p.ok = rbac.ParseReason(reason)
	if j.reasons == nil || len(j.reasons) >= most {
		j.reasons = map[string]parsedReason{}
	}
	j.reasons[reason] = p
	return p.grant, p.ok
}

// longestWait is how long a request waits at most in a queue of API priority and fairness, which comes before authorization: the limit in
// getRequestWaitContext of k8s.io/apiserver/pkg/server/filters.
const longestWait = time.Minute

// authorizedBy is the latest time at which the request can have been authorized, if the event tells when it was answered; otherwise its own time.
func authorizedBy(out *Judgement) time.Time {
	by, most := out.Event.StageTime, out.Time.Add(longestWait)
	switch {
	case out.Event.Stage == audit.StageRequestReceived || by.Before(out.Time):
		return out.Time
	case by.After(most):
		return most
	}
	return by
}

// receivedAt is the request's time; what lacks it was answered soon after. The zero time of an event without any precedes all state.
func receivedAt(ev *audit.Event) time.Time {
	if ev.RequestReceived.IsZero() {
		return ev.StageTime
	}
	return ev.RequestReceived
}
