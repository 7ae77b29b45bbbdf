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
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
)

type explainFlags struct {
	authzFlags
	state    []string
	logs     []string
	node     string
	at       string
	selector string
	auditID  string
	finding  string
	config   string
	data     string
	mode     string
	then     string
	window   time.Duration
	output   string
}

// explainForms are what -o can be.
var explainForms = []string{"text", "json", "svg", "dot"}

func newExplain(std streams) *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use: `explain --state PATH --node NODE [flags] VERB RESOURCE [[NAMESPACE/]NAME]
  nodetrail explain --audit-id ID [--state PATH] [flags] AUDIT_LOG...
  nodetrail explain --finding ID [--config FILE | --data FOLDER] [flags]`,
		Short: "Say why a node may or may not do something, who else can, and what if the binding goes",
		Long: `explain says why a node may or may not do something as of an instant: the path through the graph, in words and as a drawing, or who
does lead to the object and when this node last did; what changed around that time; what RBAC says of it; who else can do the same; and
what becomes of the request if the bindings go.

It explains a request that you name, the request of an event in audit logs (--audit-id), or the latest request of a finding that run has
stored (--finding: the ID that sinks, alerts and pages give it). A finding is explained by the journal that run keeps, unless --state names
another; with --audit-log, by the event itself.

RESOURCE is RESOURCE[.GROUP][/SUBRESOURCE], as in secrets, serviceaccounts/token or leases.coordination.k8s.io; short names and kinds
of the common ones are understood. A path such as /healthz stands for itself. NAMESPACE/ is the whole namespace, for list and watch.`,
		Example: `  nodetrail explain --state journal.jsonl --node worker-1 get secret shop/db
  nodetrail explain --state journal.jsonl --node worker-1 --at 2026-11-21T06:04:19.448Z watch configmap shop/settings
  nodetrail explain --state journal.jsonl --node worker-1 --field-selector spec.nodeName=worker-1 list pods
  nodetrail explain --audit-id 7dcc4b2e-5f2e-4c3b-9b6d-0a3a1f2b7c55 --state journal.jsonl -o svg audit.log > why.svg
  nodetrail explain --finding 3f0c6a58d2e14b7f9a41c0d7be5523aa --data /var/lib/nodetrail`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			ex, err := f.run(cmd, std, args)
			if err != nil {
				return err
			}
			return f.write(std.out, ex)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&f.state, "state", nil, "cluster state: a journal, a snapshot, a folder of such, or -; may be repeated")
	fs.StringArrayVar(&f.logs, "audit-log", nil, "learn state from the bodies in this audit log too, and look for events in it; may be repeated")
	fs.StringVar(&f.node, "node", "", "the node's name")
	fs.StringVar(&f.at, "at", "", "the instant, RFC 3339 (default: the state's last observation)")
	fs.StringVar(&f.selector, "field-selector", "", "the request's field selector, for list, watch and deletecollection")
	fs.StringVar(&f.auditID, "audit-id", "", "explain the request of the audit event with this `ID`")
	fs.StringVar(&f.finding, "finding", "", "explain the latest request of the stored finding with this `ID`")
	fs.StringVar(&f.config, "config", "", "the configuration `FILE` of run, for --finding")
	fs.StringVar(&f.data, "data", "", "the `FOLDER` of run's store, for --finding")
	fs.DurationVar(&f.window, "window", explain.DefaultWindow, "how far before and after the request changes are told")
	fs.StringVar(&f.mode, "authorization-mode", "auto", "the apiserver's --authorization-mode, or auto to infer it from the log (Node,RBAC without one)")
	fs.StringVar(&f.then, "then-mode", "auto", "the authorizers once the binding is gone: Node,RBAC or RBAC,Node or RBAC")
	fs.StringVarP(&f.output, "output", "o", "text", "form: text, json, svg, or dot for Graphviz")
	f.register(fs)
	for name, values := range map[string][]string{
		"kubernetes-version": {"1.33", "1.34", "1.35", "1.36"}, "output": explainForms,
		"authorization-mode": {"auto", "Node,RBAC", "RBAC,Node", "RBAC", "Node"}, "then-mode": {"auto", "Node,RBAC", "RBAC,Node", "RBAC"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
	}
	return cmd
}

// explaining is what the flags say, understood.
type explaining struct {
	*explainFlags
	std      streams
	features nodeauthz.Features
	am       *pipeline.Mode
	thenMode []string
	changed  func(flag string) bool
	unread   error // why a log was not read to its end
}

func (f *explainFlags) run(cmd *cobra.Command, std streams, args []string) (*explain.Explanation, error) {
	usage := func(err error) error { return usageError{cmd.CommandPath(), err} }
	x, err := f.prepare(cmd, std)
	if err != nil {
		return nil, usage(err)
	}
	switch {
	case f.auditID != "":
		if err := f.only("--audit-id", args); err != nil {
			return nil, usage(err)
		}
		return x.event(cmd.Context(), append(slices.Clone(f.logs), args...))
	case f.finding != "":
		if err := f.only("--finding", nil); err != nil {
			return nil, usage(err)
		}
		if len(args) > 0 {
			return nil, usage(fmt.Errorf("--finding takes no arguments: %q is too much; an audit log is given by --audit-log", args[0]))
		}
		return x.storedFinding(cmd.Context())
	}
	attrs, at, err := f.asked(args)
	if err != nil {
		return nil, usage(err)
	}
	return x.request(cmd.Context(), attrs, at)
}

func (f *explainFlags) prepare(cmd *cobra.Command, std streams) (*explaining, error) {
	x := &explaining{explainFlags: f, std: std, changed: func(name string) bool { return cmd.Flags().Changed(name) }}
	if !slices.Contains(explainForms, f.output) {
		return nil, fmt.Errorf("--output: %q is none of %s", f.output, strings.Join(explainForms, ", "))
	}
	for _, name := range []string{"audit-id", "finding"} {
		if cmd.Flags().Changed(name) && cmd.Flag(name).Value.String() == "" {
			return nil, fmt.Errorf("--%s is empty", name)
		}
	}
	var err error
	if x.features, err = f.features(); err != nil {
		return nil, err
	}
	if x.am, err = pipeline.ParseMode(f.mode); err != nil {
		return nil, fmt.Errorf("--authorization-mode: %w", err)
	}
	var ok bool
	if x.thenMode, ok = report.ParseThen(f.then); !ok {
		return nil, fmt.Errorf("--then-mode: %q is none of auto, Node,RBAC, RBAC,Node, RBAC", f.then)
	}
	if f.window < 0 || f.window > 10*365*24*time.Hour {
		return nil, fmt.Errorf("--window: %s is no span of time such as 10m", f.window)
	}
	if f.finding == "" && (f.config != "" || f.data != "") {
		return nil, errors.New("--config and --data go with --finding: they say where its store is")
	}
	return x, nil
}

// only refuses flags that say what the request is beside one that does.
func (f *explainFlags) only(flag string, logs []string) error {
	switch {
	case f.auditID != "" && f.finding != "":
		return errors.New("--audit-id and --finding: only one can be explained at a time")
	case f.node != "" || f.at != "" || f.selector != "":
		return fmt.Errorf("%s says what the request is: --node, --at and --field-selector do not go with it", flag)
	case f.auditID != "" && len(f.logs)+len(logs) == 0:
		return errors.New("--audit-id needs the AUDIT_LOG that the event is in")
	}
	return oneStdin(slices.Concat(f.state, f.logs, logs))
}

// asked reads what the arguments ask.
func (f *explainFlags) asked(args []string) (attrs *authorizer.AttributesRecord, at time.Time, err error) {
	if len(args) < 2 || len(args) > 3 {
		return nil, at, errors.New("VERB RESOURCE [[NAMESPACE/]NAME] is needed, as in: get secret shop/db")
	}
	if f.node == "" {
		return nil, at, errors.New("--node is missing: the name of the node")
	}
	if len(f.state)+len(f.logs) == 0 {
		return nil, at, errors.New("--state is missing: a journal or a snapshot of the cluster's objects")
	}
	if err := oneStdin(append(slices.Clone(f.state), f.logs...)); err != nil {
		return nil, at, err
	}
	// The name of the identity is what logs show, and as good as the node's.
	if attrs, err = requestOf(strings.TrimPrefix(f.node, "system:node:"), f.selector, args); err != nil {
		return nil, at, err
	}
	if f.at != "" {
		if at, err = time.Parse(time.RFC3339Nano, f.at); err != nil {
			return nil, at, fmt.Errorf("--at: %q is not a time such as 2026-11-21T06:04:19.448Z", f.at)
		}
	}
	return attrs, at, nil
}

// request explains one that the arguments name.
func (x *explaining) request(ctx context.Context, attrs *authorizer.AttributesRecord, at time.Time) (*explain.Explanation, error) {
	state, err := startLoading(x.state, x.std.in).wait(ctx)
	if err != nil {
		return nil, err
	}
	last, err := x.learn(ctx, state)
	if err != nil {
		return nil, err
	}
	if at.IsZero() {
		at = state.Summary().To
		if last.After(at) {
			at = last
		}
		if at.IsZero() {
			at = time.Now()
		}
	}
	return x.explainer(state).Request(attrs, at), nil
}

// explainer explains by a state.
func (x *explaining) explainer(state *cluster.State) *explain.Explainer {
	o := explain.Options{
		Node: nodeauthz.NewAuthorizer(state.Graph, x.features, x.skew), Graph: state.Graph, RBAC: state.RBAC, Then: x.thenMode, Window: x.window,
	}
	if order := x.am.String(); order != "" {
		o.Authorizers = strings.Split(order, ",")
	}
	return explain.New(o)
}

// learn takes state from audit logs and returns the time of their last event.
func (x *explaining) learn(ctx context.Context, state *cluster.State) (time.Time, error) {
	if len(x.logs) == 0 {
		return time.Time{}, nil
	}
	inputs, err := file.Expand(x.logs, x.std.in)
	if err != nil {
		return time.Time{}, err
	}
	res, err := file.Read(ctx, inputs, file.Options{Want: audit.Want{State: true}}, func(b file.Batch) error {
		for i := range b.Events {
			if audit.ChangesState(&b.Events[i]) {
				state.ApplyAudit(&b.Events[i])
			}
		}
		b.Release()
		return nil
	})
	if err != nil {
		return time.Time{}, err
	}
	if err := errors.Join(res.Errors...); err != nil {
		return time.Time{}, err
	}
	if res.Counts.Read == 0 {
		return time.Time{}, fmt.Errorf("--audit-log: no audit event in %s", strings.Join(x.logs, ", "))
	}
	return res.Last, nil
}

func (f *explainFlags) write(w io.Writer, ex *explain.Explanation) error {
	switch f.output {
	case "json":
		return ex.WriteJSON(w)
	case "svg":
		return ex.WriteSVG(w)
	case "dot":
		return ex.WriteDOT(w)
	}
	return ex.WriteText(w)
}
