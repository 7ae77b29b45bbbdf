package report

import (
	"cmp"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// MaxGroups bounds how many groups of findings, and how many nodes, a Builder tells apart. Groups beyond it are counted by rule and
// node alone, beyond twice as many by rule alone; nodes beyond it together. A hostile client can make names without end.
const MaxGroups = 50_000

// maxText bounds the strings from the log that are kept, in bytes: names in Kubernetes have at most 253.
const maxText = 512

// others stands for the nodes beyond MaxGroups. No node can have that name.
const others = "(others)"

// Builder gathers judgements. Not safe for concurrent use.
type Builder struct {
	r         Report
	nodes     map[string]*Node
	groups    map[groupKey]*Finding
	ambient   map[ambientKey]*Ambient
	undecided int64 // requests of nodes whose verdict neither the state nor the apiserver tells
	from      time.Time
	to        time.Time
	max       int // MaxGroups, but in tests
}

// groupKey is by what findings are grouped.
type groupKey struct {
	rule, node, verb, group, resource, subresource, namespace, name, product, detail string
	binding                                                                          rbac.BindingRef
}

// NewBuilder returns an empty one.
func NewBuilder() *Builder {
	return &Builder{nodes: map[string]*Node{}, groups: map[groupKey]*Finding{}, ambient: map[ambientKey]*Ambient{}, max: MaxGroups}
}

// Add takes in one judgement.
func (b *Builder) Add(j *pipeline.Judgement) {
	if j.IsNode {
		b.request(j)
	}
	for i := range j.Findings {
		b.finding(j, &j.Findings[i])
	}
}

func (b *Builder) request(j *pipeline.Judgement) {
	if t := j.Time; !t.IsZero() {
		if b.from.IsZero() || t.Before(b.from) {
			b.from = t
		}
		if t.After(b.to) {
			b.to = t
		}
	}
	n := b.node(j.Node)
	n.Requests++
	v := &b.r.Verdicts
	switch j.Answer.Verdict {
	case nodeauthz.Allow:
		v.Allow++
		if j.Answer.Race {
			v.Races.Allow++
		}
	case nodeauthz.Deny:
		v.Deny++
		n.Deny++
		if j.Answer.Race {
			v.Races.Deny++
		}
	case nodeauthz.Unknown:
		v.Unknown++
		if j.Observed.NodeVerdict == nodeauthz.NotNode {
			b.undecided++
		}
	}
	b.addAmbient(j)
	b.compare(j)
}

// node returns what is counted of the node, or of the others where there are too many.
func (b *Builder) node(name string) *Node {
	name = bounded(name)
	n := b.nodes[name]
	if n != nil {
		return n
	}
	if len(b.nodes) >= b.max {
		if n = b.nodes[others]; n != nil {
			return n
		}
		name = others
	}
	n = &Node{Name: strings.Clone(name)}
	b.nodes[n.Name] = n
	return n
}

// bounded cuts what no real name is as long as.
func bounded(s string) string {
	if len(s) <= maxText {
		return s
	}
	return strings.ToValidUTF8(s[:maxText-3], "") + "..."
}

// compare holds the verdict against the apiserver's.
func (b *Builder) compare(j *pipeline.Judgement) {
	ours, theirs := j.Answer.Verdict, j.Observed.NodeVerdict
	if ours == nodeauthz.Unknown || theirs == nodeauthz.NotNode {
		return
	}
	a := &b.r.Agreement
	if ours == nodeauthz.Deny && theirs == nodeauthz.Deny && j.Observed.Decision == "forbid" {
		a.Reasons.Compared++
		if sameReason(j.Observed.Reason, j.Answer.Reason) {
			a.Reasons.Equal++
		}
	}
	if j.Answer.Race {
		a.Races.Compared++
		if ours == theirs {
			a.Races.Agree++
		}
		return
	}
	a.Compared++
	if ours == theirs {
		a.Agree++
		return
	}
	if len(a.Disagree) >= MaxDisagree {
		a.DisagreeMore++
		return
	}
	at := j.Attrs
	d := Disagreement{
		AuditID: j.Event.AuditID, Time: j.Time, Node: j.Node, Verb: at.Verb, APIGroup: at.APIGroup, Resource: at.Resource,
		Subresource: at.Subresource, Namespace: at.Namespace, Name: at.Name, Verdict: ours.String(), Observed: theirs.String(),
		Reason: j.Reason(),
	}
	for _, s := range []*string{
		&d.AuditID, &d.Node, &d.Verb, &d.APIGroup, &d.Resource, &d.Subresource, &d.Namespace, &d.Name, &d.Reason,
	} {
		*s = strings.Clone(bounded(*s))
	}
	a.Disagree = append(a.Disagree, d)
}

// sameReason compares Node's reason with a refusal's, in which RBAC's may follow or precede on a line of its own.
func sameReason(observed, node string) bool {
	if observed == node {
		return true
	}
	if node == "" {
		return strings.HasPrefix(observed, "RBAC:")
	}
	before, after, _ := strings.Cut(observed, node)
	return (before == "" || strings.HasSuffix(before, "\n")) && (after == "" || after[0] == '\n') && observed != before
}

// keyOf says to which group a finding belongs.
func keyOf(j *pipeline.Judgement, f *pipeline.Finding) groupKey {
	k := groupKey{rule: f.Finding.Rule, node: bounded(f.Subject), product: rules.Product(j.Event.UserAgent)}
	k.binding.Kind, k.binding.Namespace, k.binding.Name = bounded(f.Binding.Kind), bounded(f.Binding.Namespace), bounded(f.Binding.Name)
	switch k.rule {
	case "node-identity", "node-credential-misuse":
		// What matters is who and by what, not each object that was asked for.
		k.detail = bounded(f.Detail)
		return k
	}
	a := j.Attrs
	k.verb, k.group, k.resource, k.subresource = bounded(a.Verb), bounded(a.APIGroup), bounded(a.Resource), bounded(a.Subresource)
	k.namespace, k.name = bounded(a.Namespace), bounded(a.Name)
	if !a.ResourceRequest {
		k.name = bounded(a.Path)
	}
	return k
}

func (b *Builder) finding(j *pipeline.Judgement, f *pipeline.Finding) {
	k := keyOf(j, f)
	if k.rule == "rbac-excess-access" && j.IsNode {
		b.node(j.Node).Excess++
	}
	g := b.groups[k]
	if g == nil {
		g = b.newGroup(k, j, f)
	}
	g.Count++
	if f.Severity <= rules.Low {
		g.low++
	}
	g.Allowed = g.Allowed || f.Allowed
	if s, err := rules.ParseSeverity(g.Severity); err == nil && f.Severity > s {
		g.Severity = f.Severity.String()
		if !g.wide {
			g.Message = bounded(f.Message)
		}
	}
	if !j.Time.IsZero() {
		if g.First.IsZero() || j.Time.Before(g.First) {
			g.First = j.Time
		}
		if j.Time.After(g.Last) {
			g.Last = j.Time
		}
	}
	if len(g.AuditIDs) < MaxAuditIDs {
		g.AuditIDs = append(g.AuditIDs, strings.Clone(bounded(j.Event.AuditID)))
	}
}

// newGroup returns the group of a key that is not there yet. Where there are too many, that is a wider one.
func (b *Builder) newGroup(k groupKey, j *pipeline.Judgement, f *pipeline.Finding) *Finding {
	message, wide := bounded(f.Message), len(b.groups) >= b.max
	if wide {
		k = groupKey{rule: k.rule, node: k.node}
		if len(b.groups) >= 2*b.max {
			k.node = others
		}
		if g := b.groups[k]; g != nil {
			return g
		}
		message = "further findings of this rule, too many to be told apart"
	}
	for _, s := range []*string{
		&k.node, &k.verb, &k.group, &k.resource, &k.subresource, &k.namespace, &k.name, &k.product,
		&k.binding.Kind, &k.binding.Namespace, &k.binding.Name,
	} {
		*s = strings.Clone(*s)
	}
	g := &Finding{
		Rule: k.rule, Severity: f.Severity.String(), Node: k.node, First: j.Time, Last: j.Time, Verb: k.verb, APIGroup: k.group,
		Resource: k.resource, Subresource: k.subresource, Namespace: k.namespace, Name: k.name, UserAgent: k.product,
		Message: message, Runbook: f.Rule.Runbook(), Allowed: f.Allowed, detail: k.detail, wide: wide,
	}
	if k.binding != (rbac.BindingRef{}) {
		g.Binding = &Binding{Kind: k.binding.Kind, Namespace: k.binding.Namespace, Name: k.binding.Name}
	}
	b.groups[k] = g
	return g
}

// Facts are what a run knows besides its judgements.
type Facts struct {
	Cluster       string
	Events        Events
	State         State
	Authorization Authorization
	// HasState is whether complete state was given.
	HasState bool
}

// Report returns the report of all that was added.
func (b *Builder) Report(f Facts) *Report {
	r := b.r
	r.Cluster, r.Events, r.State, r.Authorization = f.Cluster, f.Events, f.State, f.Authorization
	if !b.from.IsZero() {
		from, to := b.from, b.to
		r.Window = Window{From: &from, To: &to}
	}
	r.Nodes = make([]Node, 0, len(b.nodes))
	for _, n := range b.nodes {
		r.Nodes = append(r.Nodes, *n)
	}
	sort.Slice(r.Nodes, func(i, j int) bool { return r.Nodes[i].Name < r.Nodes[j].Name })
	r.Ambient = b.listAmbient()
	r.Findings = make([]Finding, 0, len(b.groups))
	for _, g := range b.groups {
		r.Findings = append(r.Findings, *g)
	}
	slices.SortFunc(r.Findings, compareFindings)
	r.Agreement.Disagree = append([]Disagreement{}, b.r.Agreement.Disagree...)
	r.State.Warnings = append([]string{}, f.State.Warnings...)
	r.Events.MalformedAt = append([]Place{}, f.Events.MalformedAt...)
	if r.State.Objects == nil {
		r.State.Objects = map[string]int{}
	}
	if r.Authorization.FeatureGates == nil {
		r.Authorization.FeatureGates = map[string]bool{}
	}
	r.Readiness = readiness(&r, f, b.undecided)
	return &r
}

// compareFindings puts the worst first, then the most frequent.
func compareFindings(a, b Finding) int {
	sa, _ := rules.ParseSeverity(a.Severity)
	sb, _ := rules.ParseSeverity(b.Severity)
	return cmp.Or(
		cmp.Compare(sb, sa), cmp.Compare(a.Rule, b.Rule), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.APIGroup, b.APIGroup),
		cmp.Compare(a.UserAgent, b.UserAgent), compareBindings(a.Binding, b.Binding), cmp.Compare(a.detail, b.detail),
	)
}

func compareBindings(a, b *Binding) int {
	var x, y Binding
	if a != nil {
		x = *a
	}
	if b != nil {
		y = *b
	}
	return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.Name, y.Name))
}
