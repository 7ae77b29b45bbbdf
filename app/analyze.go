package app

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/ownrules"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// AnalyzeOptions say what Analyze reads and how it judges. Only Logs is needed.
type AnalyzeOptions struct {
	Authorization
	Input
	// Cluster is the cluster's name, for the report.
	Cluster string
	// ApiserverCount is how many API servers there are, 0 if nobody says: then identity Leases alone tell.
	ApiserverCount int
	// Keep are bindings for nodes that are to stay: clusterrolebinding/NAME or rolebinding/NAMESPACE/NAME.
	Keep []string
	// Disable names the rules that are not checked; package rules has them.
	Disable []string
	// Own are rules that the user wrote; nil for none. They change no verdict and no check.
	Own *ownrules.Set
	// KubeletUserAgents are further user agents that are a kubelet's, without version.
	KubeletUserAgents []string
	// Bootstrap says what is usual when nodes join.
	Bootstrap rules.Bootstrap
	// AllRequests has the requests of everybody judged: rules on tokens of service accounts need them.
	AllRequests bool
	// MinWindow is for how long before the newest request everything must be proven; 0 is the whole log.
	MinWindow time.Duration
	// Policy is the API servers' audit policy, of which what it keeps out of the log is among the findings; nil if it is not known.
	Policy *coverage.Policy
	// ApiserverLogs are the API server's own logs: files, globs, or "-" for Stdin. Their NODE DENY lines are matched with the requests.
	ApiserverLogs []string
	// Nodes are those that both questions are about, empty for all. What other kubelets ask for is left out of the checks and of what explains them.
	Nodes []string
	// Waivers say who answers for what the log cannot show, as of Now; the zero time is the time of the call.
	Waivers []checks.Waiver
	Now     time.Time
	// Exceptions hide findings from alerts and --fail-on, as of Now.
	Exceptions *exceptions.Set
	// Each is given every judgement, in the order in which the requests began, those of others than nodes included; it must not keep them.
	// Its error ends the analysis. Nil for nothing. It is called from one goroutine, in parallel with Counted.
	Each func(*pipeline.Judgement) error
	// Counted is given each entry that the report counts: those of judgements, what was found over time, and what the policy hides. It must not
	// keep them. Nil for nothing.
	Counted func(*tally.Entry)
}

// Validate says what is wrong with the options, before anything is read: an *OptionError, or ErrStdinTwice.
func (o *AnalyzeOptions) Validate() error {
	if err := o.Authorization.validate(); err != nil {
		return err
	}
	if err := o.Input.validate(); err != nil {
		return err
	}
	if err := oneStdin(o.State, o.Logs, o.ApiserverLogs); err != nil {
		return err
	}
	if err := o.validateSkew(&o.Authorization); err != nil {
		return err
	}
	if o.ApiserverCount < 0 {
		return optionError("ApiserverCount", "%d is less than 0", o.ApiserverCount)
	}
	if _, err := keptOf(o.Keep); err != nil {
		return err
	}
	_, err := enabledRules(o.Disable)
	return err
}

// keptOf reads which bindings are to stay.
func keptOf(all []string) (out []rbac.BindingRef, err error) {
	for _, text := range all {
		ref, err := rbac.ParseBindingRef(text)
		if err != nil {
			return nil, optionError("Keep", "%w", err)
		}
		out = append(out, ref)
	}
	return out, nil
}

// Analysis is what came of Analyze.
type Analysis struct {
	Report *report.Report
	// Facts are what the report was made of in addition to its counts.
	Facts report.Facts
	// Log says what was read. Its Errors are the files that could not be read to their end, which Report tells of too: what they held is
	// not known, and nothing is ready.
	Log *file.Result
	// Counts are of the requests.
	Counts pipeline.Counts
	// LeftOut counts requests of nodes that no rule compared with others, since they stand too late in the log.
	LeftOut int64
	// Clocks are about requests outside of races that a wrong clock explains.
	Clocks ClocksApart
	// Unkept names the bindings of Keep that cannot be kept, as clusterrolebinding/NAME.
	Unkept []string
	// Evidence is what the logs show by node, API server and hour, what lies outside of the window included.
	Evidence *evidence.Ledger
}

// Analyze judges the requests of nodes in finished audit logs, each as of its own time, and reports: what was found, and whether the bindings
// for nodes can go. The same logs and state give the same report.
//
// It returns an error, and no report, for options that Validate refuses, for logs that are not there or hold no audit event, for state that
// cannot be read or holds nothing of use, for the errors of Begin and Each, and when ctx ends; an *UnknownError for a node of Nodes or a binding of Keep that it does not find. It reads the logs and the state, and writes
// nothing.
func Analyze(ctx context.Context, o AnalyzeOptions) (*Analysis, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	p, err := o.Input.prepare(&o.Authorization)
	if err != nil {
		return nil, err
	}
	if p.judged.Rules, err = enabledRules(o.Disable); err != nil {
		return nil, err
	}
	if o.Own != nil {
		p.judged.Own = o.Own
	}
	if p.judged.Kept, err = keptOf(o.Keep); err != nil {
		return nil, err
	}
	p.judged.Kubelets, p.judged.Bootstrap, p.logs.All = o.KubeletUserAgents, o.Bootstrap, o.AllRequests
	p.logs.Ledger = evidence.New()
	denials, err := readDenials(ctx, o.ApiserverLogs, o.Stdin)
	if err != nil {
		return nil, err
	}
	b, hours := report.NewBuilder(), incidents.NewHours(tally.MaxGroups)
	var names, inHours *nameRooms // of each its own, since they run in parallel
	reported := func(e *tally.Entry) {
		b.AddEntry(e)
		if o.Counted != nil {
			o.Counted(e)
		}
	}
	count := func(e *tally.Entry) {
		reported(names.found(e))
		hours.Add(inHours.found(e))
	}
	var setup *judging.Setup
	var over *overTime
	var bound *bindingBook
	p.others = func(s *cluster.State) *audit.Subjects {
		bound = newBindingBook(s.RBAC, p.judged.Kept)
		p.logs.See = bound.see
		return bound.others()
	}
	races, lags, restricted, births := newRaceBook(""), newLagBook(o.KubeletUserAgents), newRestrictionBook(), newBirthBook()
	groups, held := newGroupBook(), newHolderBook()
	var clocks ClocksApart
	var written *writtenBook
	if o.Policy != nil { // which alone asks for it
		written = newWrittenBook()
	}
	each := o.Each
	if each == nil {
		each = func(*pipeline.Judgement) error { return nil }
	}
	res, counts, err := p.run(ctx, func(s *judging.Setup) {
		setup, s.Judge.Tallies = s, true
		names, inHours = newNameRooms(s.State.Nodes.Ever), newNameRooms(s.State.Nodes.Ever)
		over = &overTime{
			detectors: rules.NewDetectors(p.judged.Rules, rules.DetectorOptions{Kubelets: o.KubeletUserAgents, Bootstrap: o.Bootstrap, Finished: true}), state: s.Judge.State, count: count,
		}
		p.logs.Sliced = over.relieve
	}, func(j *pipeline.Judgement) error { // these run in parallel; the longest begins first
		reported(names.judged(j))
		return nil
	}, func(j *pipeline.Judgement) error {
		over.observe(j)
		return nil
	}, func(j *pipeline.Judgement) error {
		hours.Add(inHours.judged(j))
		return nil
	}, func(j *pipeline.Judgement) error {
		races.add(j, bound)
		bound.add(j)
		restricted.add(j)
		denials.add(j)
		births.add(j)
		groups.add(j)
		held.add(j)
		written.add(j)
		lags.add(j, j.Entry)
		clocks.add(j)
		return nil
	}, each)
	if err != nil {
		return nil, err
	}
	over.flush()
	o.addGaps(count, p.judged.Rules, res.Last)
	f := p.facts(setup, res, counts, o.Cluster, o.Disable)
	f.Lacks = append(f.Lacks, names.gaps()...)
	f.MinWindow, f.Begins, f.Kubelets = o.MinWindow, res.Begins, o.KubeletUserAgents
	denials.tell(&f, later(res.First, p.logs.Window.Since), p.end(res))
	proven := proof{
		minWindow: o.MinWindow, kept: p.judged.Kept, apiservers: o.ApiserverCount, only: o.Nodes, ledger: p.logs.Ledger, tally: b.Tally(), facts: &f, policy: o.Policy, kubelets: o.KubeletUserAgents,
		restricted: restricted, births: births, nodeGroups: groups, held: held, bound: bound, lags: lags, races: races.list(o.KubeletUserAgents), racesKnown: len(races.full) == 0, since: p.logs.Window.Since, begins: res.Begins, to: p.end(res),
		missed: over.missed, missedOfNodes: over.missedOfNodes,
	}
	if !proven.to.IsZero() {
		begin := proven.to.Add(-proven.span())
		proven.written = written.all(begin)
		if f.HasState {
			proven.state = newStateProof(setup, begin, proven.to)
		}
	}
	if err := unknown(p.judged.Kept, setup.State.RBAC); err != nil {
		return nil, err
	}
	if err := proven.only.check(proven.state, b.Tally()); err != nil {
		return nil, err
	}
	if o.Now.IsZero() {
		o.Now = time.Now()
	}
	in := proven.input()
	f.Checks, f.Waivers = checks.Apply(checks.Run(in), o.Waivers, o.Now)
	f.Lagged = proven.lagged
	f.Aside = proven.only.aside(proven.state, b.Tally())
	book := hours.Book(o.Cluster, excepted(o.Exceptions, o.Now))
	f.Only = o.Nodes
	f.Incidents, f.IncidentsMore = book.Report(res.Last, setup.State.Nodes.Ever)
	f.Exceptions, f.Now = o.Exceptions, o.Now
	return &Analysis{Report: b.Report(f), Facts: f, Log: res, Counts: counts, LeftOut: over.missedOfNodes.requests, Clocks: clocks, Unkept: unkeepable(in), Evidence: p.logs.Ledger}, nil
}

// addGaps adds what the audit policy keeps out of the log to the findings, as of the log's end.
func (o *AnalyzeOptions) addGaps(count func(*tally.Entry), enabled []*rules.Rule, end time.Time) {
	if o.Policy == nil || !slices.ContainsFunc(enabled, func(r *rules.Rule) bool { return r.Name == rules.CoverageGap }) {
		return
	}
	for _, g := range o.Policy.Gaps(coverage.PolicyOptions{StateFromAudit: !o.NoBodies && !o.hasState()}) {
		sum := sha256.Sum256([]byte(fmt.Sprint(g.Kind, "\x00", g.Code, "\x00", g.Params)))
		e := tally.Entry{Time: end.UTC(), Findings: []tally.Finding{coverageFinding(&g)}}
		copy(e.ID[:], sum[:])
		count(&e)
	}
}

// coverageFinding is what is stored of a gap.
func coverageFinding(g *codes.Gap) tally.Finding {
	reason := rules.Reason(g.Code)
	f := tally.Finding{
		Key:    tally.Key{Rule: rules.CoverageGap, Name: tally.Bounded(g.Params.Text(codes.ParamWhere)), Reason: reason},
		Reason: reason, Severity: rules.Medium, Params: g.Params,
	}
	if !g.Decides() {
		f.Severity, f.Key.Apart = rules.Low, rules.Minor
	}
	return f
}

// enabledRules are all rules but those that are disabled.
func enabledRules(disable []string) ([]*rules.Rule, error) {
	all := rules.All()
	for _, name := range disable {
		if !slices.ContainsFunc(all, func(r *rules.Rule) bool { return r.Name == name }) {
			return nil, &OptionError{"Disable", fmt.Errorf("there is no rule %q", name)}
		}
	}
	return slices.DeleteFunc(all, func(r *rules.Rule) bool { return slices.Contains(disable, r.Name) }), nil
}
