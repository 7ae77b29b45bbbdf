package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/internal/cli"
	"github.com/nodetrail/nodetrail/report"
)

type reportFlags struct {
	app.ReportOptions
	reportOutput
	answerFlags
	window string
	since  string
	pages  app.ServeOptions
}

func newReport(std streams) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Print the report of what run has stored",
		Long: `report prints the same report as analyze, from the store of 'nodetrail run'. It only reads the store, so you can use it while run is running.

Counts are kept by the hour, and by the day (UTC) after store.hourly, so a window begins with an hour or a day. It ends with the last request.

--serve shows the same as pages in a browser, with an API next to them, until it is interrupted; see docs/pages.md. The configuration's section
pages says who may read them; without it, only this machine may.

Exit status: 0 success; 1 error; 2 a condition of --fail-on is met.`,
		Example: `  nodetrail report
  nodetrail report --config nodetrail.yaml --window 7d -o json
  nodetrail report --config nodetrail.yaml --cluster production
  nodetrail report --serve 127.0.0.1:8080 --state journal.jsonl
  nodetrail report --config nodetrail.yaml --fleet --serve 127.0.0.1:8080`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.prepare(cmd); err != nil {
				return cli.Usage(cmd, err)
			}
			switch {
			case f.pages.Listen != "":
				return f.servePages(cmd.Context(), std)
			case f.pages.Fleet:
				all, err := app.Fleet(cmd.Context(), f.StoreOptions)
				if err != nil {
					return flagged(err)
				}
				return text(std.out).WriteFleet(std.out, f.output, all)
			}
			return f.print(cmd.Context(), std)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.Config, "config", "", "the configuration `FILE` of run (default: no file; each key has its default)")
	fs.StringVar(&f.Data, "data", "", "the `FOLDER` of the store, in place of the configuration's data (default nodetrail-data)")
	fs.StringVar(&f.Cluster, "cluster", "", "the `NAME` of the cluster to report on, where a PostgreSQL database has several")
	fs.BoolVar(&f.pages.Fleet, "fleet", false, "list the clusters of a PostgreSQL database with their answers, as text or json, in place of a report; with --serve as pages, with those of each cluster")
	fs.StringVar(&f.window, "window", "", "report only on so long a time before the last request, such as 24h or 7d (default: all that the store has)")
	fs.StringVar(&f.since, "since", "", "the same as --window: a duration, not a time as for analyze")
	f.reportOutput.flags(fs)
	fs.StringVar(&f.pages.Listen, "serve", "", "serve the report as pages at this `ADDRESS`, such as 127.0.0.1:8080, in place of printing it")
	fs.StringVar(&f.pages.Health, "health", "", "with --serve, answer /healthz and /readyz for probes at this further `ADDRESS`, such as 0.0.0.0:8081")
	fs.StringArrayVar(&f.pages.State, "state", nil, "cluster state that the pages explain requests by: a journal, a snapshot or a folder of such, as a `PATH`; may be repeated")
	fs.StringVar(&f.pages.EtcdPrefix, "etcd-prefix", "", etcdPrefixUsage)
	fs.StringSliceVar(&f.Nodes, "node", nil, onlyNodesUsage)
	f.answerFlags.flags(fs)
	cli.Complete(cmd, f.completions())
	return cmd
}

// prepare understands the flags.
func (f *reportFlags) prepare(cmd *cobra.Command) (err error) {
	if f.pages.Listen == "" && f.pages.Health != "" {
		return errors.New("--health is for the pages of --serve")
	}
	if f.pages.Fleet || f.pages.Listen != "" {
		return f.prepareOther(cmd)
	}
	own := f.OwnRuleNames()
	if err := f.reportOutput.prepare(own...); err != nil {
		return err
	}
	if f.since != "" && f.window != "" {
		return errors.New("--since and --window are the same: give one")
	}
	if _, err := report.ParseWindow(f.since); err != nil {
		return fmt.Errorf("--since: %w", err)
	}
	f.window = cmp.Or(f.window, f.since)
	if f.Window, err = report.ParseWindow(f.window); err != nil {
		return fmt.Errorf("--window: %w", err)
	}
	if f.Waivers, f.Exceptions, err = f.read(own...); err != nil {
		return err
	}
	return cmp.Or(flagged(f.CheckOutputs([]app.Output{{Option: "Out", Path: f.out}}, f.answerFlags.files()...)),
		cli.Refuse(cmd, "is for the pages of --serve: the report's counts were judged by run's own state", "state", "etcd-prefix"))
}

// prepareOther understands the flags where no report is printed.
func (f *reportFlags) prepareOther(cmd *cobra.Command) error {
	refused, why := []string{"fail-on", "accept-waivers", "incidents", "window", "since", "waive", "exceptions", "baseline", "node", "all", "out", "quiet", "no-color", "namespace", "client", "rule", "severity"}, "is for one cluster, and --fleet lists all of them"
	if f.pages.Fleet {
		refused = append(refused, "cluster", "state", "etcd-prefix")
	}
	if f.pages.Listen != "" {
		refused, why = append(refused, "output"), "is for a report that is printed, and --serve shows pages, which have windows of their own"
	}
	if err := cli.Refuse(cmd, why, refused...); err != nil || f.pages.Listen != "" {
		return cmp.Or(err, cli.Address("serve", f.pages.Listen), cli.Address("health", cmp.Or(f.pages.Health, f.pages.Listen)))
	}
	return cli.OneOf("output", f.output, "text", "json")
}

func (f *reportFlags) print(ctx context.Context, std streams) error {
	r, err := app.Report(ctx, f.ReportOptions)
	if err != nil {
		return flagged(err)
	}
	f.compare(r)
	if err := f.reportOutput.write(std.out, r); err != nil {
		return err
	}
	return f.check(r, func() string {
		_, worst := r.Failing(f.fail.Severity)
		return fmt.Sprintf("the worst is %s", worst)
	})
}

func (f *reportFlags) servePages(ctx context.Context, std streams) error {
	o := &f.pages
	o.StoreOptions, o.Stdin, o.Log, o.NoState = f.StoreOptions, std.in, std.logTo(), "no state of the cluster was given: --state names a journal or a snapshot"
	o.Running = func(pages string) error {
		_, err := fmt.Fprintf(std.out, "pages at %s\n", pages)
		return err
	}
	return flagged(app.Serve(ctx, *o))
}
