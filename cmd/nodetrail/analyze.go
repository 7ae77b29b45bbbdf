package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

type analyzeFlags struct {
	app.AnalyzeOptions
	logFlags
	reportOutput
	answerFlags
	verdicts    string
	strict      bool
	auditPolicy string
	minWindow   string
	ownRules    []string
}

func newAnalyze(std streams) *cobra.Command {
	var f analyzeFlags
	cmd := &cobra.Command{
		Use:   "analyze [flags] AUDIT_LOG...",
		Short: "Judge finished audit logs and print a report",
		Long: `analyze judges the requests of nodes in finished audit logs and prints a report: whether you can delete the bindings for nodes, what
blocks that, and what to do.

AUDIT_LOG is a file, a glob, a folder (not its subfolders), or - for standard input. Files may be compressed (.gz, .zst). Rotated files are read oldest first.

Exit status: 0 success; 1 error; 2 a condition of --fail-on is met.`,
		Example: `  nodetrail analyze --state journal.jsonl audit.log
  nodetrail analyze --state pods.yaml --state rbac.json --verdicts verdicts.jsonl '/var/log/kubernetes/audit/*.log'
  nodetrail analyze --state journal/ --since 24h -o json --fail-on high audit.log.gz`,
		Args: cli.NeedArgs(1, "AUDIT_LOG (a file, a glob, a folder, or - for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.prepare(args, std); err != nil {
				return cli.Usage(cmd, err)
			}
			app.HoldMemory(cmd.Context(), app.AnalysisMemory, app.AnalysisGarbage)
			return f.run(cmd.Context(), std)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	f.state(fs, &f.Authorization, &f.Input)
	fs.StringVar(&f.AuthorizationMode, "authorization-mode", "auto", "the API server's --authorization-mode, or auto to infer it from the log")
	fs.StringVar(&f.since, "since", "", "judge only requests from then on: RFC 3339, or a duration before the log's end")
	fs.StringVar(&f.until, "until", "", "judge only requests before then: RFC 3339, or a duration before the log's end")
	fs.StringVar(&f.minWindow, "min-window", "24h", "how much of the log, up to its newest request, the evidence must cover; 0 is the whole log")
	fs.StringSliceVar(&f.Keep, "keep", nil, "bindings for nodes that stay: clusterrolebinding/`NAME`, rolebinding/NAMESPACE/NAME")
	fs.IntVar(&f.ApiserverCount, "apiserver-count", 0, "how many API servers there are; 0 relies on their identity Leases alone")
	fs.StringVar(&f.verdicts, "verdicts", "", "write a JSON line for each judged request to `FILE`; - for standard output (the report then goes to standard error)")
	f.reportOutput.flags(fs)
	f.answerFlags.flags(fs)
	fs.BoolVar(&f.strict, "strict", false, "exit 1 if a line of the log is malformed")
	fs.IntVar(&f.MaxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, maxEventUsage)
	fs.StringSliceVar(&f.Disable, "disable", nil, "rules not to check: "+strings.Join(rules.Names(), ", "))
	fs.StringSliceVar(&f.Bootstrap.Trusted, "bootstrap-trusted", nil, "users that may approve certificate requests, ask for certificates of nodes and make bootstrap tokens")
	fs.BoolVar(&f.Bootstrap.SingleUse, "bootstrap-single-use", false, "each bootstrap token is for one node")
	fs.BoolVar(&f.AllRequests, "all-requests", false, "judge the requests of everybody, and so find tokens of service accounts that are used from another node (slower)")
	fs.StringSliceVar(&f.KubeletUserAgents, "kubelet-user-agent", nil, kubeletUsage)
	fs.StringVar(&f.auditPolicy, "audit-policy", "", "the API servers' audit policy `FILE`: what it keeps out of the log is among the findings")
	fs.StringArrayVar(&f.ApiserverLogs, "apiserver-log", nil, "the API server's own log (klog text or JSON, --v=2 or more): a `FILE`, a glob, or -; its NODE DENY lines "+
		"are matched with the requests; may be repeated")
	fs.StringSliceVar(&f.Nodes, "node", nil, onlyNodesUsage)
	fs.StringArrayVar(&f.ownRules, "rules", nil, rulesUsage)
	fs.StringVar(&f.Cluster, "cluster", "", "the cluster's name, for the report")
	cli.Complete(cmd, f.completions())
	cli.Complete(cmd, map[string][]string{
		"fail-on": report.FailOnWords(), "disable": rules.Names(), "authorization-mode": modes, "kubernetes-version": versions(),
	})
	return cmd
}

const onlyNodesUsage = "answer both questions for these nodes alone, such as worker-1,worker-2: what other kubelets ask for is left out; may be repeated"

// prepare understands the flags.
func (f *analyzeFlags) prepare(args []string, std streams) (err error) {
	if err := f.logFlags.read(&f.Authorization, &f.Input, std, args); err != nil {
		return err
	}
	if f.Own, err = app.OwnRules(f.ownRules); err != nil {
		return fmt.Errorf("--rules: %w", err)
	}
	if err := f.reportOutput.prepare(f.Own.Names()...); err != nil {
		return err
	}
	if err := cli.AtLeast("max-event-bytes", 1024, f.MaxEventBytes); err != nil {
		return err
	}
	for _, name := range f.Disable {
		if !slices.Contains(rules.Names(), name) {
			return cli.NoRule("disable", name, rules.Names())
		}
	}
	if f.minWindow != "0" {
		if f.MinWindow, err = report.ParseWindow(f.minWindow); err != nil {
			return fmt.Errorf("--min-window: %w", err)
		}
	}
	var excepted []exceptions.Exception
	if f.Waivers, excepted, err = f.answerFlags.read(f.Own.Names()...); err != nil {
		return err
	}
	if f.Exceptions, err = exceptions.New(excepted, f.Own.Names()...); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return flagged(err)
	}
	return f.readPolicy(std.err)
}

// readPolicy reads the audit policy that a flag names.
func (f *analyzeFlags) readPolicy(stderr io.Writer) (err error) {
	if f.Policy, err = app.ReadAuditPolicy(f.auditPolicy); err != nil {
		return fmt.Errorf("--audit-policy: %w", err)
	}
	if f.Policy == nil {
		return nil
	}
	for _, w := range f.Policy.Warnings {
		fmt.Fprintf(stderr, "nodetrail: %s: the API server would warn of this policy: %s\n", f.auditPolicy, wording.Visible(w))
	}
	return nil
}

func (f *analyzeFlags) run(ctx context.Context, std streams) (err error) {
	reportTo, verdicts := std.out, &app.Verdicts{}
	defer func() {
		if cerr := verdicts.Close(); cerr != nil && (err == nil || errors.Is(err, errFindings)) {
			err = cerr // what was not written weighs more than what was found
		}
	}()
	f.Begin = func(logs []string) error {
		if f.verdicts == "-" {
			reportTo = std.err // verdicts take standard output
		}
		inputs := slices.Concat(cluster.StateFiles(f.State), logs, f.ApiserverLogs, f.ownRules, []string{f.auditPolicy}, f.answerFlags.files())
		if err := app.CheckOutputs([]app.Output{{Option: "Out", Path: f.out}, {Option: "Verdicts", Path: f.verdicts}}, inputs...); err != nil {
			return err
		}
		return verdicts.Open(f.verdicts, std.out)
	}
	f.Each = verdicts.Write
	meter := std
	if f.quiet {
		meter.err = io.Discard
	}
	a, err := metered(meter, &f.Input, func() (*app.Analysis, error) { return app.Analyze(ctx, f.AnalyzeOptions) })
	if err != nil {
		return flagged(err)
	}
	f.compare(a.Report)
	if err := f.reportOutput.write(reportTo, a.Report); err != nil {
		return err
	}
	for _, notice := range a.Notices() {
		fmt.Fprintf(std.err, "nodetrail: %s\n", notice)
	}
	return f.verdict(a)
}

// verdict turns what was found and what went wrong into the command's error.
func (f *analyzeFlags) verdict(a *app.Analysis) error {
	if err := errors.Join(a.Log.Errors...); err != nil {
		return err
	}
	if n := a.Log.Counts.Malformed; f.strict && n > 0 {
		return fmt.Errorf("--strict: malformed lines: %d, the first at %s", n, app.FirstMalformed(a.Log))
	}
	err := f.check(a.Report, func() string {
		n, worst := a.Report.Failing(f.fail.Severity)
		return fmt.Sprintf("%d, the worst %s", n, worst)
	})
	if err == nil && f.fail.Severity != rules.None && a.LeftOut > 0 {
		err = fmt.Errorf("--fail-on %s: not known, because requests were left out", f.fail.Severity)
	}
	return err
}
