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

// MaxGroups bounds how many groups of findings a Builder tells apart; what comes beyond is counted by rule and node alone. A hostile
// client can make names without end.
const MaxGroups = 50_000

// Builder gathers judgements. Not safe for concurrent use.
type Builder struct {
	r       Report
	nodes   map[string]*Node
	groups  map[groupKey]*Finding
	highest rules.Severity
	unknown map[string]int64 // by what is missing, in words
	from    time.Time
	to      time.Time
}

// groupKey is by what findings are grouped.
type groupKey struct {
	rule, node, verb, group, resource, subresource, namespace, name, product, detail string
	binding                                                                          rbac.BindingRef
}

// NewBuilder returns an empty one.
func NewBuilder() *Builder {
	return &Builder{nodes: map[string]*Node{}, groups: map[groupKey]*Finding{}, unknown: map[string]int64{}}
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
	n := b.nodes[j.Node]
	if n == nil {
		name := strings.Clone(j.Node)
		if len(b.nodes) >= MaxGroups {
			name = "(others)"
		}
		if n = b.nodes[name]; n == nil {
			n = &Node{Name: name}
			b.nodes[name] = n
		}
	}
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
	}
	b.compare(j)
}

// compare holds the verdict against the apiserver's.
func (b *Builder) compare(j *pipeline.Judgement) {
	ours, theirs := j.Answer.Verdict, j.Observed.NodeVerdict
	if ours == nodeauthz.Unknown || theirs == nodeauthz.NotNode {
		return
	}
	a := &b.r.Agreement
	if ours == theirs && ours == nodeauthz.Deny && j.Observed.Decision == "forbid" {
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
		*s = strings.Clone(*s)
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

func (b *Builder) finding(j *pipeline.Judgement, f *pipeline.Finding) {
	a := j.Attrs
	k := groupKey{
		rule: f.Finding.Rule, node: f.Subject, verb: a.Verb, group: a.APIGroup, resource: a.Resource, subresource: a.Subresource,
		namespace: a.Namespace, name: a.Name, product: rules.Product(j.Event.UserAgent), binding: f.Binding,
	}
	if !a.ResourceRequest {
		k.name = a.Path
	}
	switch k.rule {
	case "node-identity", "node-credential-misuse":
		// What matters is who and by what, not each object that was asked for.
		k.verb, k.group, k.resource, k.subresource, k.namespace, k.name, k.detail = "", "", "", "", "", "", f.Detail
	case "rbac-excess-access":
		if j.IsNode {
			b.nodes[j.Node].Excess++
		}
	}
	b.highest = max(b.highest, f.Severity)
	g := b.groups[k]
	if g == nil {
		if len(b.groups) >= MaxGroups {
			k = groupKey{rule: k.rule, node: k.node}
			g = b.groups[k]
		}
		if g == nil {
			g = b.newGroup(&k, j, f)
		}
	}
	g.Count++
	g.Allowed = g.Allowed || f.Allowed
	if s, err := rules.ParseSeverity(g.Severity); err == nil && f.Severity > s {
		g.Severity, g.Message = f.Severity.String(), f.Message
	}
	if j.Time.Before(g.First) {
		g.First = j.Time
	}
	if j.Time.After(g.Last) {
		g.Last = j.Time
	}
	if len(g.AuditIDs) < MaxAuditIDs {
		g.AuditIDs = append(g.AuditIDs, strings.Clone(j.Event.AuditID))
	}
}

func (b *Builder) newGroup(k *groupKey, j *pipeline.Judgement, f *pipeline.Finding) *Finding {
	for _, s := range []*string{
		&k.node, &k.verb, &k.group, &k.resource, &k.subresource, &k.namespace, &k.name, &k.product,
		&k.binding.Kind, &k.binding.Namespace, &k.binding.Name,
	} {
		*s = strings.Clone(*s)
	}
	g := &Finding{
		Rule: k.rule, Severity: f.Severity.String(), Node: k.node, First: j.Time, Last: j.Time, Verb: k.verb, APIGroup: k.group,
		Resource: k.resource, Subresource: k.subresource, Namespace: k.namespace, Name: k.name, UserAgent: k.product,
		Message: f.Message, Runbook: f.Rule.Runbook(), Allowed: f.Allowed,
	}
	if k.binding != (rbac.BindingRef{}) {
		g.Binding = &Binding{Kind: k.binding.Kind, Namespace: k.binding.Namespace, Name: k.binding.Name}
	}
	b.groups[*k] = g
	return g
}

// Facts are what a run knows besides its judgements.
type Facts struct {
	Cluster       string
	Events        Events
	State         State
	Authorization Authorization
	// LogFrom and LogTo bound the events read.
	LogFrom, LogTo time.Time
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
	r.Readiness = readiness(&r, f)
	return &r
}

// Highest returns the severity of the worst finding.
func (b *Builder) Highest() rules.Severity { return b.highest }

// compareFindings puts the worst first, then the most frequent.
func compareFindings(a, b Finding) int {
	sa, _ := rules.ParseSeverity(a.Severity)
	sb, _ := rules.ParseSeverity(b.Severity)
	return cmp.Or(
		cmp.Compare(sb, sa), cmp.Compare(a.Rule, b.Rule), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.APIGroup, b.APIGroup),
		cmp.Compare(a.UserAgent, b.UserAgent), cmp.Compare(a.Message, b.Message),
	)
}
