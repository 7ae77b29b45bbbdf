package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// The bounds of what is kept of requests, whatever a log holds.
const (
	maxWhatIfGroups   = 50_000
	maxWhatIfExamples = 5
	maxWhatIfBindings = 8
)

// furtherNodes stands for the nodes that are not kept apart, furtherClients for the clients.
const (
	furtherNodes   = "(further nodes)"
	furtherClients = "(further clients)"
)

// WhatIfReport is what would become of the requests of a log.
type WhatIfReport struct {
	Cluster string `json:"cluster"`
	Window  Window `json:"window"`
	// Authorization is what the log shows; Then what the cluster will run.
	Authorization Authorization `json:"authorization"`
	Then          string        `json:"then"`
	// Without says in words what goes, With which files are added.
	Without []string `json:"without"`
	With    []string `json:"with"`
	// Removed are the bindings that go, as far as the state or the log shows them.
	Removed []RemovedBinding `json:"removed"`
	// Requests counts requests by outcome.
	Requests WhatIfCounts  `json:"requests"`
	Groups   []WhatIfGroup `json:"groups"`
	// Evidence is "sufficient", or "insufficient" when requests that would break may be missing here.
	Evidence string   `json:"evidence"`
	Warnings []string `json:"warnings"`
	// Doubts are the warnings with their codes.
	Doubts []Hole `json:"doubts"`
}

// Warn adds a gap or a doubt, in the words given or in English. It says nothing of whether the evidence is enough.
func (r *WhatIfReport) Warn(g codes.Gap, w wording.Words) {
	g.Params = paramsOf(g.Params)
	say := wording.Or(w).Say(g.Code, g.Params)
	r.Warnings, r.Doubts = append(r.Warnings, say), append(r.Doubts, Hole{g, say})
}

// WhatIfCounts are requests by outcome.
type WhatIfCounts struct {
	Node      int64 `json:"node"`
	RBAC      int64 `json:"rbac"`
	Other     int64 `json:"other"`
	Breaks    int64 `json:"breaks"`
	Fruitless int64 `json:"fruitless"`
	Race      int64 `json:"race"`
	Unknown   int64 `json:"unknown"`
	Refused   int64 `json:"refused"`
	Gained    int64 `json:"gained"`
}

// Total is the sum.
func (c *WhatIfCounts) Total() int64 {
	return c.Node + c.RBAC + c.Other + c.Breaks + c.Fruitless + c.Race + c.Unknown + c.Refused + c.Gained
}

// RemovedBinding is a binding that goes, or of which the subjects go that are nodes.
type RemovedBinding struct {
	Binding
	Role string `json:"role"`
	// Requests is how many of the log's requests it allowed and nothing else would, however they ended.
	Requests int64 `json:"requests"`
}

// WhatIfGroup are requests with the same fate that have these things in common.
type WhatIfGroup struct {
	Outcome string `json:"outcome"`
	// Client is the user agent without its version.
	Client string `json:"client"`
	// Node is the node's name; empty for an identity that is no node's, whose user name is User.
	Node        string `json:"node"`
	User        string `json:"user"`
	Verb        string `json:"verb"`
	APIGroup    string `json:"apiGroup"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	// Path is that of a request for no resource.
	Path string `json:"path"`
	// Relation is how the object stood to the node: own, another node's, no node's, all, unknown; or empty.
	Relation string `json:"relation"`
	// Binding allows the requests then, for the outcomes rbac and gained.
	Binding *Binding `json:"binding"`
	// Lost are the bindings that allowed them and go, at most eight.
	Lost  []Binding `json:"lost"`
	Count int64     `json:"count"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Objects and AuditIDs are examples, at most five each.
	Objects  []string `json:"objects"`
	AuditIDs []string `json:"auditIDs"`
}

type whatIfKey struct {
	outcome                                                  Outcome
	client, node, user, verb, group, resource, sub, relation string
	path                                                     string
	binding                                                  rbac.BindingRef
}

type whatIfGroup struct {
	count             int64
	first, last       time.Time
	objects, auditIDs []string
	lost              []rbac.BindingRef
}

// WhatIfBuilder gathers fates in bounded memory: of requests of more kinds than anybody would read the nodes are not kept apart, and of
// still more only the outcomes. Not safe for concurrent use.
type WhatIfBuilder struct {
	w         *WhatIf
	held      []whatIfRequest // that break but for lag
	later     []whatIfRequest // that break where the Node authorizer limits nodes in the end
	lost      []rbac.BindingRef
	counts    [outcomes]int64
	groups    map[whatIfKey]*whatIfGroup
	removed   map[rbac.BindingRef]*RemovedBinding
	uncertain int64
	from, to  time.Time
	most      int // groups
}

// whatIfRequest is a request in a group.
type whatIfRequest struct {
	key             whatIfKey
	at              time.Time
	auditID, object string
	lost            []rbac.BindingRef
}

// maxHeld bounds the requests that wait for Settle. Those beyond it break.
const maxHeld = 100_000

// NewWhatIfBuilder returns an empty one.
func NewWhatIfBuilder(w *WhatIf) *WhatIfBuilder {
	return &WhatIfBuilder{w: w, most: maxWhatIfGroups, groups: map[whatIfKey]*whatIfGroup{}, removed: map[rbac.BindingRef]*RemovedBinding{}}
}

// Add takes in a judged request, and returns its fate; ok is false for one that the change does not concern.
func (b *WhatIfBuilder) Add(j *pipeline.Judgement) (f Fate, ok bool) {
	if !b.w.Concerns(j) {
		return Fate{}, false
	}
	f = b.w.Of(j)
	b.counts[f.Outcome]++
	if f.Uncertain {
		b.uncertain++
	}
	if !j.Time.IsZero() {
		if b.from.IsZero() || j.Time.Before(b.from) {
			b.from = j.Time.UTC()
		}
		if j.Time.After(b.to) {
			b.to = j.Time.UTC()
		}
	}
	switch f.Outcome {
	case AllowedByNode:
		if later, changes := b.w.Later(j); changes && len(b.later) < maxHeld {
			x := b.request(j, later)
			x.own()
			b.later = append(b.later, x)
		}
		return f, true
	case AllowedByOther, Refused:
		return f, true // nothing changes for them
	}
	x := b.request(j, f)
	if f.Outcome == Breaks && b.asksNode() && !j.Answer.Static && j.Answer.Verdict == nodeauthz.Allow && !j.Answer.Race && j.Observed.NodeVerdict == nodeauthz.Deny && len(b.held) < maxHeld {
		x.own()
		b.held = append(b.held, x)
		return f, true
	}
	b.group(&x)
	return f, true
}

// own has the request alias nothing.
func (x *whatIfRequest) own() {
	x.key, x.auditID, x.object, x.lost = x.key.own(), strings.Clone(x.auditID), strings.Clone(x.object), slices.Clone(x.lost)
	for i, ref := range x.lost {
		x.lost[i] = ownBinding(ref)
	}
}

// asksNode reports whether the cluster will ask the Node authorizer.
func (b *WhatIfBuilder) asksNode() bool { return slices.Contains(b.w.Authorizers(), "Node") }

// Settle is called once after the last Add. A request that the graph allows and that the API server's Node authorizer refused is a race, and breaks nothing,
// where lagged says that the API server's graph was behind: it is asked for each by its audit ID and time. limited says that the API servers of the log's end limit
// nodes to their own Nodes and pods: then what they allowed before without that breaks, too.
func (b *WhatIfBuilder) Settle(lagged func(auditID string, at time.Time) bool, limited bool) {
	for i := range b.later {
		if limited {
			b.counts[AllowedByNode]--
			b.counts[Breaks]++
			b.group(&b.later[i])
		}
	}
	b.later = nil
	for i := range b.held {
		x := &b.held[i]
		if lagged(x.auditID, x.at) {
			b.counts[Breaks]--
			b.counts[Race]++
			x.key.outcome = Race
		}
		b.group(x)
	}
	b.held = nil
}

// request is what groups count of a request. It may alias the judgement's memory.
func (b *WhatIfBuilder) request(j *pipeline.Judgement, f Fate) whatIfRequest {
	a := j.Attrs
	k := whatIfKey{outcome: f.Outcome, client: rules.Product(j.Event.UserAgent), node: tally.Bounded(j.Node), verb: tally.Bounded(a.Verb)}
	if !j.IsNode {
		k.user = tally.Bounded(j.Event.Effective().Username)
	}
	if a.ResourceRequest {
		k.group, k.resource, k.sub = tally.Bounded(a.APIGroup), tally.Bounded(a.Resource), tally.Bounded(a.Subresource)
		k.relation = j.Relation().String()
	} else {
		k.path = tally.Bounded(a.Path)
	}
	if f.ByRBAC {
		k.binding = boundedBinding(f.Grant.Binding)
	}
	x := whatIfRequest{key: k, at: j.Time.UTC(), auditID: tally.Bounded(j.Event.AuditID), lost: b.lost[:0]}
	if a.ResourceRequest {
		x.object = tally.Bounded(joinName(a.Namespace, a.Name))
	}
	if f.Outcome != Gained && f.Outcome != AllowedByRBAC {
		b.w.lost(j, func(ref rbac.BindingRef) {
			if ref = boundedBinding(ref); len(x.lost) < maxWhatIfBindings && !slices.Contains(x.lost, ref) {
				x.lost = append(x.lost, ref)
			}
		})
		b.lost = x.lost
	}
	return x
}

// group counts a request in its group.
func (b *WhatIfBuilder) group(x *whatIfRequest) {
	k := x.key
	g := b.groups[k]
	if g == nil && len(b.groups) >= b.most {
		k.node, k.user = furtherNodes, "" // there are many nodes, and few kinds of request
		g = b.groups[k]
	}
	if g == nil && len(b.groups) >= b.most+b.most/5 {
		k = whatIfKey{outcome: k.outcome, client: furtherClients, node: furtherNodes}
		g = b.groups[k]
	}
	if g == nil {
		g = &whatIfGroup{}
		b.groups[k.own()] = g
	}
	g.count++
	if g.first.IsZero() || x.at.Before(g.first) {
		g.first = x.at
	}
	if x.at.After(g.last) {
		g.last = x.at
	}
	example(&g.auditIDs, x.auditID)
	example(&g.objects, x.object)
	for _, ref := range x.lost {
		if r := b.removedBinding(ref); r != nil {
			r.Requests++
		}
		if len(g.lost) < maxWhatIfBindings && !slices.Contains(g.lost, ref) {
			g.lost = append(g.lost, ownBinding(ref))
		}
	}
}

// removedBinding is where requests that a binding allowed are counted, nil when there are too many bindings.
func (b *WhatIfBuilder) removedBinding(ref rbac.BindingRef) *RemovedBinding {
	const most = 1000
	ref = boundedBinding(ref)
	r := b.removed[ref]
	if r == nil && len(b.removed) < most {
		ref = ownBinding(ref)
		r = &RemovedBinding{Binding: Binding{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}}
		b.removed[ref] = r
	}
	return r
}

func example(list *[]string, s string) {
	if s = tally.Bounded(s); s != "" && len(*list) < maxWhatIfExamples && !slices.Contains(*list, s) {
		*list = append(*list, strings.Clone(s))
	}
}

func boundedBinding(b rbac.BindingRef) rbac.BindingRef {
	return rbac.BindingRef{Kind: tally.Bounded(b.Kind), Namespace: tally.Bounded(b.Namespace), Name: tally.Bounded(b.Name)}
}

func ownBinding(b rbac.BindingRef) rbac.BindingRef {
	return rbac.BindingRef{Kind: strings.Clone(b.Kind), Namespace: strings.Clone(b.Namespace), Name: strings.Clone(b.Name)}
}

// own returns the key with memory of its own.
func (k whatIfKey) own() whatIfKey {
	for _, s := range []*string{&k.client, &k.node, &k.user, &k.verb, &k.group, &k.resource, &k.sub, &k.path} {
		*s = strings.Clone(*s)
	}
	k.binding = ownBinding(k.binding)
	return k
}

// Counts are the requests so far by outcome.
func (b *WhatIfBuilder) Counts() WhatIfCounts {
	c := &b.counts
	return WhatIfCounts{
		c[AllowedByNode], c[AllowedByRBAC], c[AllowedByOther], c[Breaks], c[Fruitless], c[Race], c[Undecided], c[Refused], c[Gained],
	}
}

// Report returns the report of all that was added. Of the facts it takes the cluster, the events, the state's warnings and the
// authorization.
func (b *WhatIfBuilder) Report(f Facts) *WhatIfReport {
	b.Settle(func(string, time.Time) bool { return false }, false) // what nobody has settled breaks
	r := &WhatIfReport{
		Cluster: f.Cluster, Authorization: f.Authorization, Then: strings.Join(b.w.Authorizers(), ","), Without: []string{}, With: []string{},
		Requests: b.Counts(), Groups: make([]WhatIfGroup, 0, len(b.groups)), Removed: []RemovedBinding{},
		Evidence: "sufficient", Warnings: []string{}, Doubts: []Hole{},
	}
	for i := range f.Gaps {
		r.Warn(f.Gaps[i], f.Words)
	}
	if !b.from.IsZero() {
		from, to := b.from, b.to
		r.Window = Window{From: &from, To: &to}
	}
	if r.Authorization.FeatureGates == nil {
		r.Authorization.FeatureGates = map[string]bool{}
	}
	b.bindings(r, f)
	for k, g := range b.groups {
		r.Groups = append(r.Groups, groupOf(k, g))
	}
	slices.SortFunc(r.Groups, compareGroups)
	b.judgeEvidence(r, f)
	return r
}

// bindings lists what goes: what the state held in the window, and what requests passed by.
func (b *WhatIfBuilder) bindings(r *WhatIfReport, f Facts) {
	roles := map[rbac.BindingRef]string{}
	for info := range b.w.RBAC.BindingsDuring(b.from, b.to) {
		gone, others := false, false
		var nodes []rbac.SubjectRef
		for _, s := range info.Subjects {
			removed := b.w.Change.Removes(rbac.Grant{Binding: info.Binding, Role: info.Role, Subject: s})
			gone = gone || removed
			others = others || removed && !s.ForNodes()
			if removed && checks.OfNodes(s) {
				nodes = append(nodes, s)
			}
		}
		if !gone {
			continue
		}
		ref := boundedBinding(info.Binding)
		if _, seen := roles[ref]; !seen {
			b.hidden(r, f, &info, others && !b.w.Everybody, nodes)
		}
		roles[ref] = info.Role.Name
		b.removedBinding(info.Binding)
	}
	for ref, x := range b.removed {
		x.Role = roles[ref]
	}
	for _, ref := range slices.SortedFunc(maps.Keys(b.removed), compareRefs) {
		r.Removed = append(r.Removed, *b.removed[ref])
	}
}

// hidden warns of what a binding gives to others, and of what it gives to subjects of nodes that no request shows and that they do not have without it.
func (b *WhatIfBuilder) hidden(r *WhatIfReport, f Facts, info *rbac.BindingInfo, others bool, nodes []rbac.SubjectRef) {
	name := bindingParams(Binding{Kind: info.Binding.Kind, Namespace: info.Binding.Namespace, Name: info.Binding.Name})
	if others {
		r.Warn(codes.Gap{Code: codes.BindsOthers, Params: name}, f.Words)
	}
	approves := false
	var rights []string
	for right, q := range checks.Unseen(info) {
		switch {
		case !slices.ContainsFunc(nodes, func(s rbac.SubjectRef) bool { return b.loses(s, q) }):
		case q.Resource == "certificatesigningrequests":
			approves = true
		default:
			rights = append(rights, right)
		}
	}
	if approves {
		r.Warn(codes.Gap{Code: codes.ApprovesCertificate, Params: append(slices.Clone(name), codes.Text(codes.ParamRole, info.Role.Name))}, f.Words)
	}
	if rights = slices.Compact(rights); len(rights) > 0 {
		p := append(slices.Clone(name), codes.Int(codes.ParamTotal, len(rights)))
		r.Warn(codes.Gap{Code: codes.RightUnseen, Params: append(p, codes.List(codes.ParamRequest, rights[:min(len(rights), listedKinds)])...)}, f.Words)
	}
}

// loses reports whether a subject of nodes has not the right to a request in the end, with the change.
func (b *WhatIfBuilder) loses(s rbac.SubjectRef, q authorizer.AttributesRecord) bool {
	who := &user.DefaultInfo{Name: s.Name, Groups: []string{user.NodesGroup, user.AllAuthenticated}}
	if s.Kind == rbacv1.GroupKind {
		who.Name, who.Groups[0] = "", s.Name
	}
	q.User = who
	return !b.w.RBAC.AuthorizeUnder(b.w.Change, &q, b.to).Allowed
}

// judgeEvidence says whether something that would break may be missing.
func (b *WhatIfBuilder) judgeEvidence(r *WhatIfReport, f Facts) {
	warn := func(kind codes.Kind, code codes.Code, p ...codes.Param) {
		r.Evidence = "insufficient"
		r.Warn(codes.Gap{Kind: kind, Code: code, Params: p}, f.Words)
	}
	n := r.Requests.Total()
	switch {
	case n == 0 && windowEmpty(&f):
		r.Evidence = "insufficient"
	case n == 0:
		warn(codes.Log, codes.LogWithoutNodes)
	case r.Requests.Unknown > 0:
		warn(codes.State, codes.OutcomeUnknown, codes.Int(codes.ParamCount, r.Requests.Unknown))
	}
	if b.w.Then == nil && r.Authorization.Inferred && r.Then == "RBAC,Node" {
		warn(codes.Mode, codes.ModeAmbiguous, codes.Text(codes.ParamWant, "--then-mode"))
	}
	if b.uncertain > 0 {
		warn(codes.State, codes.BindingsUnknown, codes.Int(codes.ParamCount, b.uncertain))
	}
	if m := f.Events.Malformed; m > 0 {
		warn(codes.Log, codes.LinesUnreadable, codes.Int(codes.ParamCount, m))
	}
	if len(r.Removed) == 0 {
		r.Warn(codes.Gap{Code: codes.NothingRemoved}, f.Words)
	}
}

func groupOf(k whatIfKey, g *whatIfGroup) WhatIfGroup {
	out := WhatIfGroup{
		Outcome: k.outcome.String(), Client: k.client, Node: k.node, User: k.user, Verb: k.verb, APIGroup: k.group, Resource: k.resource,
		Subresource: k.sub, Path: k.path, Relation: k.relation, Lost: []Binding{}, Count: g.count, First: g.first, Last: g.last,
		Objects: append([]string{}, g.objects...), AuditIDs: append([]string{}, g.auditIDs...),
	}
	if k.binding != (rbac.BindingRef{}) {
		out.Binding = &Binding{Kind: k.binding.Kind, Namespace: k.binding.Namespace, Name: k.binding.Name}
	}
	for _, l := range slices.SortedFunc(slices.Values(g.lost), compareRefs) {
		out.Lost = append(out.Lost, Binding{Kind: l.Kind, Namespace: l.Namespace, Name: l.Name})
	}
	return out
}

func compareRefs(a, b rbac.BindingRef) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// outcomeOrder is in which order outcomes are listed: what matters most first.
func outcomeOrder(outcome string) int {
	return slices.Index([]string{"breaks", "unknown", "fruitless", "race", "gained", "rbac"}, outcome)
}

func compareGroups(a, b WhatIfGroup) int {
	return cmp.Or(
		cmp.Compare(outcomeOrder(a.Outcome), outcomeOrder(b.Outcome)), cmp.Compare(a.Client, b.Client), cmp.Compare(b.Count, a.Count),
		cmp.Compare(a.APIGroup, b.APIGroup), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Subresource, b.Subresource),
		cmp.Compare(a.Path, b.Path), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Relation, b.Relation), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.User, b.User), compareBindings(a.Binding, b.Binding),
	)
}

// WriteJSON writes the report as indented JSON with a line end.
func (r *WhatIfReport) WriteJSON(w io.Writer) error {
	if err := wording.WriteJSON(w, r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
