package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/wording"
)

// changeFlags adds the flags of the commands that go through finished logs with another RBAC.
func changeFlags(cmd *cobra.Command, o *app.ChangeOptions, f *logFlags) *pflag.FlagSet {
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringArrayVar(&o.Without, "without", nil, "what is deleted: clusterrolebinding/`NAME`, rolebinding/NAMESPACE/NAME, group/NAME or user/NAME; may be repeated "+
		"(default: all that bindings give to system:nodes or to users named system:node:...)")
	fs.StringArrayVar(&o.With, "with", nil, "a manifest `FILE` of RBAC objects that are added, or replace those of their name; may be repeated")
	fs.StringVar(&o.ThenMode, "then-mode", "auto", "the authorizers that the cluster will run: Node,RBAC, RBAC,Node or RBAC; "+
		"auto: as the log shows, with Node before RBAC where Node is missing")
	f.state(fs, &o.Authorization, &o.Input)
	fs.StringVar(&o.AuthorizationMode, "authorization-mode", "auto", "the API server's --authorization-mode during the log, or auto to infer it")
	fs.StringVar(&f.since, "since", "", "look only at requests from then on: RFC 3339, or a duration before the log's end")
	fs.StringVar(&f.until, "until", "", "look only at requests before then: RFC 3339, or a duration before the log's end")
	fs.IntVar(&o.MaxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, maxEventUsage)
	fs.StringSliceVar(&o.KubeletUserAgents, "kubelet-user-agent", nil, kubeletUsage)
	cli.Complete(cmd, map[string][]string{"then-mode": thenModes, "authorization-mode": modes, "kubernetes-version": versions()})
	return fs
}

type whatIfFlags struct {
	app.WhatIfOptions
	logFlags
	output string
	failOn string
}

func newWhatIf(std streams) *cobra.Command {
	var f whatIfFlags
	cmd := &cobra.Command{
		Use:   "what-if [flags] AUDIT_LOG...",
		Short: "Say which requests of nodes would be refused without some bindings",
		Long: `what-if reads finished audit logs and predicts each request of a node if you delete some bindings and add others: Node allows it anyway, RBAC
still allows it by another binding, or it breaks. Each request is evaluated with the state of the cluster at the time of the request.
With --without it also looks at requests of service accounts and users that the deleted bindings let through.

AUDIT_LOG is a file, a glob, a folder (not its subfolders), or - for standard input. Files may be compressed (.gz, .zst). Rotated files are read oldest first.

Requests that failed anyway (403 by admission, or 404 to a kubelet) and races of a kubelet with the API server's graph are listed apart; they
do not count as breaking. A program that is not a kubelet may take 404 for an answer, and so the request counts.

Exit status: 0 success; 1 error, or --without names something that does not exist; 2 a condition of --fail-on is met.`,
		Example: `  nodetrail what-if --state journal.jsonl audit.log
  nodetrail what-if --state journal.jsonl --without clusterrolebinding/legacy:system:node --fail-on breaks audit.log
  nodetrail what-if --state journal.jsonl --with suggestion.yaml --then-mode Node,RBAC -o json audit.log`,
		Args: cli.NeedArgs(1, "AUDIT_LOG (a file, a glob, a folder, or - for standard input)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.prepare(args, std); err != nil {
				return cli.Usage(cmd, err)
			}
			return f.run(cmd.Context(), std)
		},
	}
	fs := changeFlags(cmd, &f.ChangeOptions, &f.logFlags)
	fs.StringVarP(&f.output, "output", "o", "text", "form of the report: text or json")
	fs.StringVar(&f.failOn, "fail-on", "", "exit 2 if anything breaks (breaks), or breaks or is unknown (unknown)")
	fs.StringVar(&f.Cluster, "cluster", "", "the cluster's name, for the report")
	cli.Complete(cmd, map[string][]string{"output": {"text", "json"}, "fail-on": {"breaks", "unknown"}})
	return cmd
}

// prepare understands the flags.
func (f *whatIfFlags) prepare(args []string, std streams) error {
	if err := cli.OneOf("output", f.output, "text", "json"); err != nil {
		return err
	}
	if f.failOn != "" {
		if err := cli.OneOf("fail-on", f.failOn, "breaks", "unknown"); err != nil {
			return err
		}
	}
	if err := f.read(&f.Authorization, &f.Input, std, args); err != nil {
		return err
	}
	if err := cli.AtLeast("max-event-bytes", 1024, f.MaxEventBytes); err != nil {
		return err
	}
	return flagged(f.Validate())
}

func (f *whatIfFlags) run(ctx context.Context, std streams) error {
	res, err := metered(std, &f.Input, func() (*app.WhatIfResult, error) { return app.WhatIf(ctx, f.WhatIfOptions) })
	if err != nil {
		return flagged(err)
	}
	r := res.Report
	if f.output == "json" {
		err = r.WriteJSON(std.out)
	} else {
		err = text(std.out).WriteWhatIf(std.out, r)
	}
	if err = errors.Join(res.Unread, err); err != nil {
		return err
	}
	n := r.Requests.Breaks
	if f.failOn == "unknown" {
		n += r.Requests.Unknown
	}
	if f.failOn != "" && n > 0 {
		return answerError(fmt.Sprintf("--fail-on %s: %s", f.failOn, wording.WouldBreak(n, f.failOn == "unknown")))
	}
	if f.failOn == "unknown" && r.Evidence != "sufficient" {
		return answerError("--fail-on unknown: the evidence has gaps")
	}
	return nil
}
