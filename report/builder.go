package report

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Builder gathers judgements. Not safe for concurrent use.
type Builder struct {
	t       *tally.Tally
	entries pipeline.Entries
}

// NewBuilder returns an empty one.
func NewBuilder() *Builder { return &Builder{t: tally.New()} }

// Add takes in one judgement.
func (b *Builder) Add(j *pipeline.Judgement) { b.t.Add(b.entries.Of(j)) }

// AddEntry takes in an entry, such as that of a finding without a request.
func (b *Builder) AddEntry(e *tally.Entry) { b.t.Add(e) }

// Tally is the sum of all that was added. It is the Builder's own.
func (b *Builder) Tally() *tally.Tally { return b.t }

// Report returns the report of all that was added.
func (b *Builder) Report(f Facts) *Report { return Make(b.t, f) }

// Facts are what a run knows besides its judgements.
type Facts struct {
	Cluster       string
	Events        Events
	State         State
	Authorization Authorization
	// MinWindow is how long the requests must span at least for anything to be ready; 0 asks for nothing.
	MinWindow time.Duration
	// Begins is when the log begins, zero if that is not known: a request may have begun before it.
	Begins time.Time
	// HasState is whether complete state was given.
	HasState bool
	// Gaps are what is missing from the state, or doubtful about it.
	Gaps []codes.Gap
	// Past are gaps by which requests were judged, also before a restart.
	Past []PastGap
	// Lacks are gaps that the caller knows of, such as a log that was not read to its end.
	Lacks []codes.Gap
	// Disabled are the rules that were not checked.
	Disabled []string
	// Kubelets are further user agents that are a kubelet's, without version.
	Kubelets []string
	// Nodes are the names of the Node objects at the window's end: of each some request is expected. Nil where that is not known.
	Nodes []string
	// Bindings give nodes something or are deleted by the migration, at the window's end. Nil where that is not known.
	Bindings []NodeBinding
	// Audiences are the audiences of tokens that nodes may ask for, at the window's end. Nil where that is not known.
	Audiences *Audiences
	// Checks are the results of the checks of both questions, with Waivers applied: they alone answer. What has none is unproven.
	Checks []checks.Result
	// Waivers are those that were given, and what each covers.
	Waivers []checks.Applied
	// Lagged counts, by the key of a finding, the requests that a binding let through and that are not harmless by themselves, but for which Checks say that an API server had
	// just started and allowed the same later: they do not need the binding.
	Lagged map[tally.Key]int64
	// Only are the nodes that Checks are about, empty for all.
	Only []string
	// Aside are the keys of findings whose requests Checks leave out, since they are of other nodes: they are listed, and explain no answer.
	Aside map[tally.Key]bool
	// StoreVersion is the state of the store that the counts are of, where they are a store's; Outdated says that Checks are of one before it.
	StoreVersion string
	Outdated     bool
	// ApiserverLog is what the API server's own log says; nil if it was not given.
	ApiserverLog *ApiserverLog
	// Exceptions hide findings from alerts and --fail-on, as of Now.
	Exceptions *exceptions.Set
	Now        time.Time
	// Incidents are those of the window, as package incidents makes them.
	Incidents []incidents.Incident
	// IncidentsMore counts further ones, which are not among Incidents, by their state.
	IncidentsMore map[incidents.State]int
	// Words make the report's sentences, English if nil.
	Words wording.Words
}

// PastGap is a gap in the state by which requests were judged, and the time of the last of them.
type PastGap struct {
	codes.Gap
	Until time.Time `json:"until"`
}

// NodeBinding is a binding whose subjects are nodes, or one that the migration deletes.
type NodeBinding struct {
	Binding
	// Role is the name of the role that it gives.
	Role string `json:"role"`
	// Fate is the string of its [checks.Fate].
	Fate string `json:"fate"`
	// UID and ResourceVersion are those of the object that was looked at, empty where they are not known.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// NodeSubjects are those of its subjects that are nodes, in order, if only these are to be removed from it; none if all of it is deleted.
	NodeSubjects []NodeSubject `json:"nodeSubjects,omitempty"`
}

// NodeSubject is a subject of a binding by its place, from 0.
type NodeSubject struct {
	Place int    `json:"place"`
	Kind  string `json:"kind"`
	Name  string `json:"name"`
}

// Since is from when on the log has requests, the first of which is of that time: a watch that ended in the log may have begun before the log.
func (f *Facts) Since(first time.Time) time.Time {
	if f.Begins.After(first) {
		return f.Begins
	}
	return first
}

// Make returns the report of a tally, which stays as it is.
func Make(t *tally.Tally, f Facts) *Report {
	f.Words = wording.Or(f.Words)
	r := &Report{
		Cluster: f.Cluster, Events: f.Events, State: f.State, Authorization: f.Authorization, ApiserverLog: f.ApiserverLog,
		Verdicts:  Verdicts{t.Sums.Allow, t.Sums.Deny, t.Sums.Unknown, RaceCounts{t.Sums.RaceAllow, t.Sums.RaceDeny}},
		Agreement: agreement(t), Ambient: listAmbient(t), NodeRestriction: restrictionOf(t), TokenAudiences: Audiences{Holders: []AudienceHolder{}, Drivers: []AudienceDriver{}}, Findings: make([]Finding, 0, len(t.Groups)),
		Nodes: make([]Node, 0, len(t.Nodes)), Incidents: SayIncidents(f.Incidents, f.Words), IncidentsMore: f.IncidentsMore,
	}
	if f.Audiences != nil {
		r.TokenAudiences = *f.Audiences
	}
	if !t.From.IsZero() {
		from, to := f.Since(t.From), t.To
		if !from.Before(to) {
			from = t.From
		}
		r.Window = Window{From: &from, To: &to}
	}
	for name, n := range t.Nodes {
		r.Nodes = append(r.Nodes, Node{Name: name, Requests: n.Requests, Deny: n.Deny, Excess: n.Excess})
	}
	sort.Slice(r.Nodes, func(i, j int) bool { return r.Nodes[i].Name < r.Nodes[j].Name })
	stays := checks.Staying(f.Checks)
	for k, g := range t.Groups {
		of := findingOf(k, g, (&rules.Rule{Name: k.Rule}).Runbook(), f.Words)
		why := stays(k.Binding)
		of.lagged, of.aside = f.Lagged[k], f.Aside[k] || why == checks.WhyKeep || why == checks.WhyProvider
		r.Findings = append(r.Findings, of)
	}
	slices.SortFunc(r.Findings, compareFindings)
	r.State.Warnings = f.stateWarnings()
	r.Events.MalformedAt = append([]Place{}, f.Events.MalformedAt...)
	if r.State.Objects == nil {
		r.State.Objects = map[string]int{}
	}
	if r.Authorization.FeatureGates == nil {
		r.Authorization.FeatureGates = map[string]bool{}
	}
	var nodeOff, restricted bool
	r.Readiness, nodeOff, restricted = readiness(r, f, t.Sums.Undecided)
	r.Readiness.NoBindings = f.Bindings != nil && len(bindingsToGo(&r.Readiness, f.Bindings)) == 0
	r.prove(&f)
	r.except(f.Exceptions, f.Now) // nothing above depends on it
	if len(f.Only) == 0 {         // it is about all nodes
		r.Readiness.Plan = plan(&r.Readiness, &f, nodeOff, restricted)
	}
	return r
}

func agreement(t *tally.Tally) Agreement {
	s := &t.Sums
	return Agreement{
		Compared: s.Compared, Agree: s.Agree, Disagree: append([]Disagreement{}, t.Disagreements...), DisagreeMore: s.DisagreeMore,
		Races:   RaceAgreement{Compared: s.RacesCompared, Agree: s.RacesAgree},
		Reasons: ReasonAgreement{Compared: s.ReasonsCompared, Equal: s.ReasonsEqual},
	}
}

// stateWarnings are the gaps of the state in words.
func (f *Facts) stateWarnings() []string {
	out := make([]string, 0, len(f.Gaps))
	for i := range f.Gaps {
		out = append(out, f.Words.Say(f.Gaps[i].Code, f.Gaps[i].Params))
	}
	return out
}

func findingOf(k tally.Key, g *tally.Group, runbook string, w wording.Words) Finding {
	f := Finding{
		Rule: k.Rule, Reason: g.Reason, Params: paramsOf(g.Params), Severity: g.Severity.String(), Node: k.Node, Count: g.Count, First: g.First, Last: g.Last, Verb: k.Verb,
		APIGroup: k.APIGroup, Resource: k.Resource, Subresource: k.Subresource, Namespace: k.Namespace, Name: k.Name,
		UserAgent: k.Product, Message: w.Finding(&k, g), Runbook: runbook, Allowed: g.Succeeded, Authorized: g.Allowed, Origins: g.Origins.Filled(), AuditIDs: append([]string{}, g.AuditIDs...),
		Detail: k.Apart,
		key:    k, low: g.Low, wide: g.Wide, days: g.Days,
	}
	if k.Binding != (rbac.BindingRef{}) {
		f.Binding = &Binding{Kind: k.Binding.Kind, Namespace: k.Binding.Namespace, Name: k.Binding.Name}
	}
	return f
}

// paramsOf is never nil, as the report's lists.
func paramsOf(p codes.Params) codes.Params {
	if p == nil {
		return codes.Params{}
	}
	return p
}

// EventsOf are the counts of a tally in the report's form.
func EventsOf(e *tally.Events) Events {
	return Events{
		Read: e.Read, Node: e.Node, Judged: e.Judged, Duplicates: e.Duplicates, Malformed: e.Malformed, Skipped: e.Skipped,
		MalformedAt: e.MalformedAt,
	}
}

// listAmbient is the most frequent first.
func listAmbient(t *tally.Tally) []Ambient {
	out := make([]Ambient, 0, len(t.Ambient))
	for k, n := range t.Ambient {
		out = append(out, Ambient{
			Binding: Binding{Kind: k.Binding.Kind, Namespace: k.Binding.Namespace, Name: k.Binding.Name}, Verb: k.Verb, Resource: k.Resource,
			Count: n,
		})
	}
	slices.SortFunc(out, func(x, y Ambient) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Binding.Name, y.Binding.Name), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Verb, y.Verb), cmp.Compare(x.Binding.Namespace, y.Binding.Namespace), cmp.Compare(x.Binding.Kind, y.Binding.Kind))
	})
	return out
}

// compareFindings puts the worst first, then the most frequent.
func compareFindings(a, b Finding) int {
	sa, _ := rules.ParseSeverity(a.Severity)
	sb, _ := rules.ParseSeverity(b.Severity)
	return cmp.Or(
		cmp.Compare(sb, sa), cmp.Compare(a.Rule, b.Rule), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.APIGroup, b.APIGroup),
		cmp.Compare(a.UserAgent, b.UserAgent), compareBindings(a.Binding, b.Binding), cmp.Compare(a.key.Reason, b.key.Reason), cmp.Compare(a.key.Apart, b.key.Apart),
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
