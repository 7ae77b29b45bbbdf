package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
)

func newRun(std streams) *cobra.Command {
	var o app.RunOptions
	cmd := &cobra.Command{
		Use:   "run [flags] [AUDIT_LOG...]",
		Short: "Judge audit events as they come; runs continuously",
		Long: `run receives audit events continuously: from log files that grow, from the API server's audit webhook, or from Kafka. It evaluates each request
of a node with the state of the cluster at the time of the request. It keeps counts and findings in a store, serves metrics and pages, and
sends findings to sinks. 'nodetrail report' prints the report from the store, also while run is running.

The configuration is one YAML file (see 'nodetrail config print-defaults'). Without one, run follows the AUDIT_LOGs with their rotated
predecessors and keeps its store in the folder nodetrail-data.

SIGHUP reads the configuration again, SIGINT and SIGTERM finish the current batch and stop. Events that are not stored yet are read
again after a restart.`,
		Example: `  nodetrail run /var/log/kubernetes/audit/audit.log
  nodetrail run --config nodetrail.yaml
  nodetrail run --state journal.jsonl --data /var/lib/nodetrail '/var/log/kubernetes/audit/*.log'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkRun(o.Listen, args); err != nil {
				return cli.Usage(cmd, err)
			}
			hup, stop := hangups()
			defer stop()
			o.Logs, o.Log, o.Version, o.Hangup = args, std.logTo(), buildVersion(), hup
			err := app.Run(cmd.Context(), o)
			if errors.Is(err, app.ErrNothingToRead) {
				return cli.Usage(cmd, errors.New("nothing to read: name an AUDIT_LOG, or a source in the configuration (--config)"))
			}
			return flagged(err)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&o.Config, "config", "", "the configuration `FILE` (default: no file; each key has its default)")
	fs.StringVar(&o.Data, "data", "", "the `FOLDER` of the store, in place of the configuration's data (default nodetrail-data)")
	fs.StringVar(&o.Cluster, "cluster", "", "the cluster's `NAME`, in place of the configuration's cluster")
	fs.StringVar(&o.Listen, "listen", "", "the `ADDRESS` of /metrics and /readyz, in place of the configuration's listen (default 127.0.0.1:9876)")
	fs.StringArrayVar(&o.State, "state", nil, "cluster state, in addition to the configuration's state.files: a journal, a snapshot or a folder of such, as a `PATH`; may be repeated")
	return cmd
}

// hangups are the SIGHUPs from now on, which would end the process if nobody asked for them.
func hangups() (<-chan os.Signal, func()) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	return hup, func() { signal.Stop(hup) }
}

// checkRun refuses what could only wait without end, or would be blamed on something else later.
func checkRun(listen string, args []string) error {
	if listen != "" {
		if err := cli.Address("listen", listen); err != nil {
			return err
		}
	}
	for _, arg := range args {
		switch info, err := os.Stat(arg); {
		case arg == "":
			return errors.New("an AUDIT_LOG is empty")
		case arg == "-":
			return errors.New("run follows files and cannot follow standard input: 'nodetrail analyze -' reads that")
		case err == nil && info.IsDir():
			return fmt.Errorf("%s is a folder: name the log in it that is written to, such as %s", arg, filepath.Join(arg, "audit.log"))
		}
	}
	return nil
}
