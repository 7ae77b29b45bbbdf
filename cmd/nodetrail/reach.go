package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

type reachFlags struct {
	app.ReachOptions
	logFlags
	at     string
	output string
}

func newReach(std streams) *cobra.Command {
	var f reachFlags
	cmd := &cobra.Command{
		Use:   "reach --node NODE [flags] [AUDIT_LOG...]",
		Short: "Say what the credential of a node could reach, what it read beyond that, and what to rotate",
		Long: `reach answers the first questions after the credential of a node was stolen, for one instant or a span of time. Which secrets, config maps,
volumes and tokens could the credential reach, and through which pods? What may the service accounts of these tokens do through RBAC? What
did the credential read beyond that, according to the audit logs that you give? What must you rotate?

Without --at, --since and --until the answer is about all the time that the state knows. With --at the logs are still looked at as a whole.

AUDIT_LOG is a file, a glob, a folder (not its subfolders), or - for standard input. Files may be compressed (.gz, .zst). Rotated files are read oldest first.

Exit status: 0 success; 1 error, or there is no such node.`,
		Example: `  nodetrail reach --node worker-3 --state journal.jsonl --at 2026-11-21T06:04:19Z
  nodetrail reach --node worker-3 --state journal.jsonl --since 2026-11-24T00:00:00Z --until 2026-11-25T00:00:00Z audit.log
  nodetrail reach --node worker-3 --state journal.jsonl -o dot | dot -Tpdf > reach.pdf`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.prepare(args, std); err != nil {
				return cli.Usage(cmd, err)
			}
			return f.run(cmd.Context(), std)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.Node, "node", "", "the node's name")
	fs.StringVar(&f.at, "at", "", "answer for this instant, RFC 3339")
	fs.StringVar(&f.since, "since", "", "the time that is asked about begins then: RFC 3339, or a duration before the log's end (without a log, the state's)")
	fs.StringVar(&f.until, "until", "", "the time that is asked about ends before then: RFC 3339, or a duration before the log's end (without a log, the state's)")
	f.state(fs, &f.Authorization, &f.Input)
	fs.StringVar(&f.AuthorizationMode, "authorization-mode", "auto", "the API server's --authorization-mode, or auto to infer it from the log")
	fs.IntVar(&f.MaxEventBytes, "max-event-bytes", audit.DefaultMaxEventBytes, maxEventUsage)
	fs.StringVarP(&f.output, "output", "o", "text", "form: text, json, or dot for Graphviz")
	cli.Complete(cmd, map[string][]string{"kubernetes-version": versions(), "output": {"text", "json", "dot"}, "authorization-mode": modes})
	return cmd
}

// prepare understands the flags.
func (f *reachFlags) prepare(args []string, std streams) (err error) {
	if err := cli.OneOf("output", f.output, "text", "json", "dot"); err != nil {
		return err
	}
	if f.Node == "" {
		return errors.New("--node is missing: the name of the node")
	}
	f.Node = strings.TrimPrefix(f.Node, nodeid.UserPrefix) // the user's name is what logs show
	if f.at != "" {
		if f.since != "" || f.until != "" {
			return errors.New("--at is for one instant: do not use --since or --until with it")
		}
		if f.At, err = app.ParseInstant(f.at); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	if len(f.State)+len(args) == 0 {
		return errors.New("--state is missing: a journal or a snapshot of the cluster's objects")
	}
	if err := f.read(&f.Authorization, &f.Input, std, args); err != nil {
		return err
	}
	if err := cli.AtLeast("max-event-bytes", 1024, f.MaxEventBytes); err != nil {
		return err
	}
	return flagged(f.Validate())
}

func (f *reachFlags) run(ctx context.Context, std streams) error {
	res, err := metered(std, &f.Input, func() (*app.ReachResult, error) { return app.Reach(ctx, f.ReachOptions) })
	if err != nil {
		return flagged(err)
	}
	switch f.output {
	case "json":
		err = res.Reach.WriteJSON(std.out)
	case "dot":
		err = res.Reach.WriteDOT(std.out)
	default:
		err = res.Reach.WriteText(std.out)
	}
	return errors.Join(err, res.Unread)
}
