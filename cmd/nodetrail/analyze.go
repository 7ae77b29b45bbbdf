package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

type analyzeFlags struct {
	authzFlags
	state         []string
	fromAudit     bool
	mode          string
	since, until  string
	verdicts      string
	output        string
	failOn        string
	strict        bool
	maxEventBytes int
	disabled      []string
	kubelets      []string
	cluster       string
	auditPolicy   string
	minWindow     string
}

func newAnalyze(std streams) *cobra.Command {
	var f analyzeFlags
	cmd := &cobra.Command{
		Use:   "analyze [flags] AUDIT_LOG...",
		Short: "Judge finished audit logs and print a report",
		Long: `analyze judges the requests of nodes in finished audit logs and prints a report: whether the bindings for nodes can go, what stands
against it, and what to do.

AUDIT_LOG is a file, a glob, a folder, or - for standard input; .gz and .zst are read as they are, rotated files in the order of time.

Exit status: 0 done; 1 could not do it; 2 findings, by --fail-on.`,
		Example: `  nodetrail analyze --state journal.jsonl audit.log
  nodetrail analyze --state pods.yaml --state rbac.json --verdicts verdicts.jsonl '/var/log/kubernetes/audit/*.log'
  nodetrail analyze --state journal/ --since 24h -o json --fail-on high audit.log.gz`,
		Args: needArgs(1, "AUDIT_LOG (a file, a glob, a folder, or - for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := f.prepare(args, std)
			if err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			if err := a.find(args); err != nil {
				return err
			}
			return a.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.state, "state", nil, "cluster state: a journal (nodetrail record, kubectl get -w), a snapshot (kubectl get -o json|yaml), a folder of such, or -; may be repeated")
	fs.BoolVar(&f.fromAudit, "state-from-audit", true, "learn state from the bodies of audit events too")
	f.register(fs)
	fs.StringVar(&f.mode, "authorization-mode", "auto", "the apiserver's --authorization-mode, or auto to infer it from the log")
	fs.StringVar(&f.since, "since", "", "judge only requests from then on: RFC 3339, or a duration before the log's end")
	fs.StringVar(&f.until, "until", "", "judge only requests before then: RFC 3339, or a duration before the log's end")
	fs.StringVar(&f.minWindow, "min-window", "24h", "how long the requests must span at least for the report to say ready; 0 asks for nothing")
	fs.StringVar(&f.verdicts, "verdicts", "", "write a JSON line for each judged request to `FILE`; - for standard output (the report then goes to standard error)")
	fs.StringVarP(&f.output, "output", "o", "text", "form of the report: text, json, markdown or html")
	fs.StringVar(&f.failOn, "fail-on", "", "exit 2 if a finding is at least low, medium, high or critical")
	fs.BoolVar(&f.strict, "strict", false, "exit 1 if a line of the log is malformed")
	fs.IntVar(&f.maxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, "events longer than this are malformed")
	fs.StringSliceVar(&f.disabled, "disable", nil, "rules not to check: "+strings.Join(ruleNames(), ", "))
	fs.StringSliceVar(&f.kubelets, "kubelet-user-agent", nil, "further user-agent products that are a kubelet's")
	fs.StringVar(&f.auditPolicy, "audit-policy", "", "the apiservers' audit policy `FILE`: what it keeps out of the log is among the findings")
	fs.StringVar(&f.cluster, "cluster", "", "the cluster's name, for the report")
	complete := func(values ...string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
	}
	for name, values := range map[string][]string{
		"output": {"text", "json", "markdown", "html"}, "fail-on": {"low", "medium", "high", "critical"}, "disable": ruleNames(),
		"authorization-mode": {"auto", "Node,RBAC", "RBAC,Node", "RBAC", "Node"}, "kubernetes-version": {"1.33", "1.34", "1.35", "1.36"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, complete(values...)) // fails only for a flag that is not there
	}
	return cmd
}

func ruleNames() []string {
	var names []string
	for _, r := range rules.All() {
		names = append(names, r.Name)
	}
	return names
}

// analysis is one run of analyze, its flags understood.
type analysis struct {
	analyzeFlags
	std      streams
	inputs   []file.Input
	features nodeauthz.Features
	am       *pipeline.Mode
	failAt   rules.Severity
	atLeast  time.Duration // that the requests must span to be ready
	rules    []*rules.Rule
	window   pipeline.Window
	gaps     []coverage.Gap // of the audit policy

	sinceAt, untilAt limit
}

func (f *analyzeFlags) prepare(args []string, std streams) (*analysis, error) {
	a := &analysis{analyzeFlags: *f, std: std}
	var err error
	if a.features, err = f.features(); err != nil {
		return nil, err
	}
	if a.am, err = pipeline.ParseMode(f.mode); err != nil {
		return nil, fmt.Errorf("--authorization-mode: %w", err)
	}
	if err := knownForm(f.output); err != nil {
		return nil, err
	}
	if f.failOn != "" {
		if a.failAt, err = rules.ParseSeverity(f.failOn); err != nil {
			return nil, fmt.Errorf("--fail-on: %w", err)
		}
	}
	if f.maxEventBytes < 1024 {
		return nil, fmt.Errorf("--max-event-bytes: %d is less than 1024", f.maxEventBytes)
	}
	if err := oneStdin(append(slices.Clone(f.state), args...)); err != nil {
		return nil, err
	}
	for _, name := range f.disabled {
		if !slices.Contains(ruleNames(), name) {
			return nil, fmt.Errorf("--disable: there is no rule %q: %s", name, meant(name, ruleNames(), "the rules are "+strings.Join(ruleNames(), ", ")))
		}
	}
	for _, r := range rules.All() {
		if !slices.Contains(f.disabled, r.Name) {
			a.rules = append(a.rules, r)
		}
	}
	if f.minWindow != "0" {
		if a.atLeast, err = report.ParseWindow(f.minWindow); err != nil {
			return nil, fmt.Errorf("--min-window: %w", err)
		}
	}
	if err := a.readPolicy(); err != nil {
		return nil, err
	}
	if a.sinceAt, err = parseLimit("--since", f.since); err != nil {
		return nil, err
	}
	a.untilAt, err = parseLimit("--until", f.until)
	return a, err
}

// find looks for the logs.
func (a *analysis) find(args []string) (err error) {
	if a.inputs, err = file.Expand(args, a.std.in); err != nil {
		return err
	}
	if err := a.spareInputs(); err != nil {
		return err
	}
	a.window, err = windowOf(a.sinceAt, a.untilAt, a.inputs)
	return err
}

// read gives the logs to the stream that begin makes once the state, which is loaded meanwhile, is there. A log in which there was nothing to read
// is an error; those of single files are in the result.
func (a *analysis) read(ctx context.Context, begin func(*cluster.State) *pipeline.Stream) (*file.Result, pipeline.Counts, error) {
	loading := startLoading(a.state, a.std.in)
	var stream *pipeline.Stream
	start := func() error {
		state, err := loading.wait(ctx)
		if err == nil {
			stream = begin(state)
		}
		return err
	}
	meter := newProgress(a.std.err)
	res, err := file.Read(ctx, a.inputs, file.Options{
		Want: audit.Want{State: a.fromAudit}, MaxEventBytes: a.maxEventBytes, MaxPlaces: tally.MaxMalformed, Progress: meter.add,
	}, func(in file.Batch) error {
		if stream == nil {
			if err := start(); err != nil {
				return err
			}
		}
		return stream.Batch(&pipeline.Batch{Events: in.Events, Release: in.Release})
	})
	meter.done()
	if err == nil && stream == nil {
		err = start()
	}
	if err == nil {
		err = stream.Flush()
	}
	if err == nil {
		err = a.nothingRead(res)
	}
	if err != nil {
		return nil, pipeline.Counts{}, err
	}
	return res, stream.Counts(), nil
}

func (a *analysis) run(ctx context.Context) (err error) {
	reportTo := a.std.out
	sink, err := a.openVerdicts(&reportTo)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := sink.close(); cerr != nil && (err == nil || errors.Is(err, errFindings)) {
			err = cerr // what was not written weighs more than what was found
		}
	}()
	b := report.NewBuilder()
	var state *cluster.State
	var over *overTime
	res, counts, err := a.read(ctx, func(s *cluster.State) (stream *pipeline.Stream) {
		state = s
		stream, over = a.stream(state, b, func(j *pipeline.Judgement) error {
			b.Add(j)
			return sink.write(j)
		})
		return stream
	})
	if err != nil {
		return err
	}
	over.flush()
	a.addGaps(b, res.Last)
	r := b.Report(a.facts(res, state, counts))
	if err := a.write(reportTo, r); err != nil {
		return err
	}
	if counts.Judged == 0 && counts.OutOfWindow > 0 {
		stderr := a.std.err
		fmt.Fprintf(stderr, "nodetrail: no request of a node lies in the window that --since and --until leave; the log goes from %s to %s\n",
			res.First.UTC().Format(time.RFC3339), res.Last.UTC().Format(time.RFC3339))
	}
	return a.verdictOf(r, res)
}

// verdictOf turns what was found and what went wrong into the command's error.
func (a *analysis) verdictOf(r *report.Report, res *file.Result) error {
	if err := errors.Join(res.Errors...); err != nil {
		return err
	}
	if n := res.Counts.Malformed; a.strict && n > 0 {
		return fmt.Errorf("--strict: malformed lines: %d, the first at %s", n, placeOf(res))
	}
	if a.failAt == rules.None || r.Worst() < a.failAt {
		return nil
	}
	n := 0
	for i := range r.Findings {
		if s, err := rules.ParseSeverity(r.Findings[i].Severity); err == nil && s >= a.failAt {
			n++
		}
	}
	return fmt.Errorf("%w %s: %d, the worst %s", errFindings, a.failAt, n, r.Worst())
}

// nothingRead is the error of a log without a single event.
func (a *analysis) nothingRead(res *file.Result) error {
	if res.Counts.Read > 0 {
		return nil
	}
	if err := errors.Join(res.Errors...); err != nil {
		return err
	}
	var names []string
	for i := range a.inputs {
		names = append(names, a.inputs[i].String())
	}
	what := strings.Join(names, ", ")
	if len(names) > 3 {
		what = fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), len(names)-3)
	}
	switch {
	case res.Counts.Malformed > 0:
		return fmt.Errorf("%s: no audit event in it; the first of its malformed lines (%d) is %s", what, res.Counts.Malformed, placeOf(res))
	case res.Bytes == 0:
		return fmt.Errorf("%s: the log is empty", what)
	}
	return fmt.Errorf("%s: no audit event in it", what)
}

func placeOf(res *file.Result) string {
	if len(res.Malformed) == 0 {
		return "not known"
	}
	p := res.Malformed[0]
	return fmt.Sprintf("%s:%d: %s", p.Path, p.Line, p.Cause)
}

func (a *analysis) stream(state *cluster.State, b *report.Builder, out func(*pipeline.Judgement) error) (*pipeline.Stream, *overTime) {
	auth := nodeauthz.NewAuthorizer(state.Graph, a.features, a.skew)
	memory := rules.NewMemory()
	memory.Kubelets = a.kubelets
	j := &pipeline.Judge{
		Node: auth, RBAC: state.RBAC, State: pipeline.NewView(state, auth), Rules: a.rules, Memory: memory, Mode: a.am,
	}
	var sink pipeline.StateSink
	if a.fromAudit {
		sink = state
	}
	over := &overTime{
		detectors: rules.NewDetectors(a.rules, rules.DetectorOptions{Kubelets: a.kubelets}), state: j.State, report: b,
	}
	return pipeline.NewStream(j, sink, pipeline.Options{Skew: a.skew, Window: a.window}, func(j *pipeline.Judgement) error {
		over.observe(j)
		return out(j)
	}), over
}

func (a *analysis) facts(res *file.Result, state *cluster.State, counts pipeline.Counts) report.Facts {
	sum := state.Summary()
	// What is doubtful about the state at other times than those of the report is no matter of it.
	begin, end := res.First, res.Last
	if since := a.window.Since; since.After(begin) {
		begin = since
	}
	if until := a.window.Until; !until.IsZero() && until.Before(end) {
		end = until
	}
	f := report.Facts{
		Cluster: a.cluster,
		Events: report.Events{
			Read: res.Counts.Read, Node: counts.Node, Judged: counts.Judged, Duplicates: counts.Duplicates,
			Malformed: res.Counts.Malformed, Skipped: res.Counts.Skipped + counts.OutOfWindow,
		},
		State: report.State{Objects: sum.Objects, Warnings: state.Warnings(begin, end)},
		Authorization: report.Authorization{
			Mode: a.am.String(), Inferred: a.am.Inferred(), KubernetesVersion: a.features.Version(), FeatureGates: a.features.NonDefault(),
		},
		HasState: len(a.state) > 0, Disabled: a.disabled, MinWindow: a.atLeast,
	}
	for _, p := range res.Malformed {
		f.Events.MalformedAt = append(f.Events.MalformedAt, report.Place{File: p.Path, Line: p.Line, Cause: p.Cause})
	}
	f.State.Warnings = append(f.State.Warnings, sum.Places...)
	for _, err := range res.Errors {
		say := "the log was not read to its end: " + err.Error() // what was not read may hold what stands against it
		f.State.Warnings, f.Lacks = append(f.State.Warnings, say), append(f.Lacks, report.Hole{Kind: report.HoleLog, Message: say})
	}
	if !sum.From.IsZero() {
		f.State.From, f.State.To = &sum.From, &sum.To
	}
	f.Holes = append(state.Holes(begin, end), sum.Places...)
	if f.HasState {
		f.Nodes, f.Bindings = state.Nodes.Names(end), forNodes(state.RBAC, end)
	}
	return f
}

// forNodes are the bindings that give nodes something at t; nil where the state holds no bindings at all.
func forNodes(s *rbac.Store, t time.Time) []report.NodeBinding {
	var out []report.NodeBinding
	for b := range s.Bindings(t) {
		if out == nil {
			out = []report.NodeBinding{}
		}
		if b.ForNodes() && b.RoleExists {
			out = append(out, report.NodeBinding{
				Binding: report.Binding{Kind: b.Binding.Kind, Namespace: b.Binding.Namespace, Name: b.Binding.Name}, Role: b.Role.Name,
			})
		}
	}
	return out
}

func (a *analysis) write(w io.Writer, r *report.Report) error { return writeReport(w, r, a.output) }
