package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

type explainFlags struct {
	app.ExplainOptions
	logFlags
	node     string
	at       string
	selector string
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
		Short: "Say why a node may or may not do something, who else can, and what breaks without the binding",
		Long: `explain says why a node may or may not make a request at a given time. It prints the path through the graph, in words and as a drawing. If
there is no path, it prints which nodes can reach the object, and when this node last could. It also prints what changed around that time,
what RBAC decides, who else can make the request, and whether the request breaks without the bindings.

It explains a request that you name, the request of an event in audit logs (--audit-id), or the latest request of a finding that run has
stored (--finding: the ID that sinks, alerts and pages give it). For a finding, explain uses the journal that run
keeps, unless you give --state. With --audit-log, it finds the event itself in the log.

RESOURCE is RESOURCE[.GROUP][/SUBRESOURCE], as in secrets, serviceaccounts/token or leases.coordination.k8s.io; short names and kinds
of the common ones are understood. A path such as /healthz stands for itself. NAMESPACE/ is the whole namespace, for list and watch.`,
		Example: `  nodetrail explain --state journal.jsonl --node worker-1 get secret shop/db
  nodetrail explain --state journal.jsonl --node worker-1 --at 2026-11-21T06:04:19.448Z watch configmap shop/settings
  nodetrail explain --state journal.jsonl --node worker-1 --field-selector spec.nodeName=worker-1 list pods
  nodetrail explain --audit-id 7dcc4b2e-5f2e-4c3b-9b6d-0a3a1f2b7c55 --state journal.jsonl -o svg audit.log > why.svg
  nodetrail explain --finding 3f0c6a58d2e14b7f9a41c0d7be5523aa --data /var/lib/nodetrail`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.prepare(cmd, std, args); err != nil {
				return cli.Usage(cmd, err)
			}
			ex, err := app.Explain(cmd.Context(), f.ExplainOptions)
			if err != nil {
				return flagged(err)
			}
			return f.write(std.out, ex)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	stateFiles(fs, &f.Input)
	fs.StringArrayVar(&f.Logs, "audit-log", nil, "learn state from the bodies in this audit log too, and look for events in it; may be repeated")
	fs.StringVar(&f.node, "node", "", "the node's name")
	fs.StringVar(&f.at, "at", "", "the instant, RFC 3339 (default: the state's last observation)")
	fs.StringVar(&f.selector, "field-selector", "", "the request's field selector, for list, watch and deletecollection")
	fs.StringVar(&f.AuditID, "audit-id", "", "explain the request of the audit event with this `ID`")
	fs.StringVar(&f.Finding, "finding", "", "explain the latest request of the stored finding with this `ID`")
	fs.StringVar(&f.Store.Config, "config", "", "the configuration `FILE` of run, for --finding (default: no file; each key has its default)")
	fs.StringVar(&f.Store.Data, "data", "", "the `FOLDER` of run's store, for --finding (default: the configuration's data, or nodetrail-data)")
	fs.DurationVar(&f.Window, "window", explain.DefaultWindow, "how far before and after the request changes are shown")
	fs.StringVar(&f.AuthorizationMode, "authorization-mode", "auto", "the API server's --authorization-mode, or auto to infer it from the log (Node,RBAC without one)")
	fs.StringVar(&f.ThenMode, "then-mode", "auto", "the authorizers once the binding is deleted: Node,RBAC, RBAC,Node or RBAC; auto: those of today, with Node before RBAC where Node is missing")
	fs.StringSliceVar(&f.KubeletUserAgents, "kubelet-user-agent", nil, kubeletUsage)
	fs.StringVarP(&f.output, "output", "o", "text", "form: text, json, svg, or dot for Graphviz")
	f.fromAudit = true
	f.authorization(fs, &f.Authorization)
	cli.Complete(cmd, map[string][]string{"kubernetes-version": versions(), "output": explainForms, "authorization-mode": modes, "then-mode": thenModes})
	return cmd
}

// prepare understands the flags, and the arguments, which are logs or name the request.
func (f *explainFlags) prepare(cmd *cobra.Command, std streams, args []string) error {
	if err := cli.OneOf("output", f.output, explainForms...); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	for _, name := range []string{"audit-id", "finding"} {
		if changed(name) && cmd.Flag(name).Value.String() == "" {
			return fmt.Errorf("--%s is empty", name)
		}
	}
	if f.Finding == "" && (f.Store.Config != "" || f.Store.Data != "") {
		return errors.New("--config and --data go with --finding: they say where its store is")
	}
	logs := f.Logs
	var err error
	switch {
	case f.AuditID != "":
		logs = slices.Concat(f.Logs, args)
		err = f.only("--audit-id", logs)
	case f.Finding != "":
		if err = f.only("--finding", logs); err == nil && len(args) > 0 {
			err = fmt.Errorf("--finding takes no arguments: %q is too much; an audit log is given by --audit-log", args[0])
		}
		// What no flag says is run's.
		if !changed("authorization-mode") {
			f.AuthorizationMode = ""
		}
		if !changed("skew") {
			f.Skew = -1
		}
	default:
		err = f.asked(args)
	}
	if err != nil {
		return err
	}
	if err := f.read(&f.Authorization, &f.Input, std, logs); err != nil {
		return err
	}
	return flagged(f.Validate())
}

// only refuses flags that say what the request is together with one that does.
func (f *explainFlags) only(flag string, logs []string) error {
	switch {
	case f.AuditID != "" && f.Finding != "":
		return errors.New("--audit-id and --finding: only one can be explained at a time")
	case f.node != "" || f.at != "" || f.selector != "":
		return fmt.Errorf("%s already says what the request is: leave out --node, --at and --field-selector", flag)
	case f.AuditID != "" && len(logs) == 0:
		return errors.New("--audit-id needs the AUDIT_LOG that the event is in")
	}
	return nil
}

// asked reads what the arguments ask.
func (f *explainFlags) asked(args []string) (err error) {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("VERB RESOURCE [[NAMESPACE/]NAME] is needed, as in: get secret shop/db")
	}
	if f.node == "" {
		return errors.New("--node is missing: the name of the node")
	}
	if len(f.State)+len(f.Logs) == 0 {
		return errors.New("--state is missing: a journal or a snapshot of the cluster's objects")
	}
	// The name of the identity is what logs show, and as good as the node's.
	if f.Request, err = explain.ParseRequest(strings.TrimPrefix(f.node, nodeid.UserPrefix), f.selector, args); err != nil {
		return err
	}
	if f.at != "" {
		if f.At, err = app.ParseInstant(f.at); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	return nil
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
