package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

type reportFlags struct {
	config string
	data   string
	window string
	output string
	failOn string
	serve  string
	state  []string
}

func newReport(std streams) *cobra.Command {
	var f reportFlags
	cmd := &cobra.Command{
		Use:   "report [flags]",
		Short: "Print the report of what run has stored",
		Long: `report prints the same report as analyze, from the store of 'nodetrail run'. It reads and changes nothing, and works while run is running.

Counts are kept by the hour, so a window begins and ends with an hour.

--serve shows the same as pages in a browser, with an API beside them, until it is interrupted; see docs/pages.md. Who may read them is said in
the configuration's section pages; without it, only this machine may.

Exit status: 0 done; 1 could not do it; 2 findings, by --fail-on.`,
		Example: `  nodetrail report
  nodetrail report --config nodetrail.yaml --window 7d -o json
  nodetrail report --serve 127.0.0.1:8080 --state journal.jsonl`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := knownForm(f.output); err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			failAt := rules.None
			if f.failOn != "" {
				var err error
				if failAt, err = rules.ParseSeverity(f.failOn); err != nil {
					return usageError{cmd.CommandPath(), fmt.Errorf("--fail-on: %w", err)}
				}
			}
			window, err := report.ParseWindow(f.window)
			if err != nil {
				return usageError{cmd.CommandPath(), fmt.Errorf("--window: %w", err)}
			}
			if err := f.checkServe(cmd); err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			return f.run(cmd.Context(), std, window, failAt)
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.config, "config", "", "the configuration `FILE` of run")
	fs.StringVar(&f.data, "data", "", "the `FOLDER` of the store, in place of the configuration's data")
	fs.StringVar(&f.window, "window", "", "only the time that ends with the last request and is so long, such as 24h or 7d")
	fs.StringVarP(&f.output, "output", "o", "text", "form of the report: text, json, markdown or html")
	fs.StringVar(&f.serve, "serve", "", "serve the report as pages at this `ADDRESS`, such as 127.0.0.1:8080, in place of printing it")
	fs.StringArrayVar(&f.state, "state", nil, "cluster state that the pages explain requests by: a journal, a snapshot or a folder of such, as a `PATH`; may be repeated")
	fs.StringVar(&f.failOn, "fail-on", "", "exit 2 if a finding is at least low, medium, high or critical")
	return cmd
}

func (f *reportFlags) run(ctx context.Context, std streams, window time.Duration, failAt rules.Severity) error {
	c := config.Default()
	if f.config != "" {
		var err error
		if c, err = config.Load(f.config, os.LookupEnv); err != nil {
			return err
		}
	}
	if f.data != "" {
		c.Data = f.data
	}
	s, err := openStore(ctx, c, zerolog.Nop(), true)
	if errors.Is(err, fs.ErrNotExist) && c.Store.Postgres == nil {
		return noStore(c, f.config)
	}
	if err != nil {
		return err
	}
	defer s.Close()
	if f.serve != "" {
		return f.servePages(ctx, std, c, s)
	}
	facts, err := s.Facts(ctx)
	if err != nil {
		return err
	}
	var from, newest time.Time
	if window > 0 {
		if newest, err = s.Newest(ctx, time.Now()); err != nil {
			return err
		}
		if !newest.IsZero() {
			from = newest.Add(-window)
		}
	}
	t, err := s.Tally(ctx, from, time.Time{})
	if err != nil {
		return err
	}
	t.Events.Judged = t.Sums.Allow + t.Sums.Deny + t.Sums.Unknown
	rf, err := factsOf(facts)
	if err != nil {
		return err
	}
	rf.Lacks = append(rf.Lacks, report.Uncovered(t.From, newest, window)...)
	rf.Events, rf.MinWindow = report.EventsOf(&t.Events), c.Readiness.MinWindow.D()
	r := report.Make(t, rf)
	err = writeReport(std.out, r, f.output)
	if err != nil || failAt == rules.None || r.Worst() < failAt {
		return err
	}
	return fmt.Errorf("%w %s: the worst is %s", errFindings, failAt, r.Worst())
}

// noStore says that there is nothing to report, and where else there may be.
func noStore(c *config.Config, file string) error {
	path, give := sqlitePath(c), "give run's --data, or its --config"
	if file != "" {
		give = "give run's --data if it had one, or the configuration that it has"
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return fmt.Errorf("no 'nodetrail run' has stored anything in %s: %s", path, give)
}

// factsOf puts together what the instances that share a store know: of what all should know alike the latest, and every warning.
func factsOf(all map[string]json.RawMessage) (report.Facts, error) {
	var out report.Facts
	var latest time.Time
	warnings, holes := map[string]bool{}, map[string]bool{}
	for instance, raw := range all {
		var f storedFacts
		if err := json.Unmarshal(raw, &f); err != nil {
			return out, fmt.Errorf("reading what %s stored for the report: %w", instance, err)
		}
		for _, w := range f.State.Warnings {
			warnings[w] = true
		}
		for _, w := range f.Holes {
			holes[w] = true
		}
		if f.At.After(latest) {
			latest = f.At
			out.Cluster, out.State, out.Authorization, out.HasState = f.Cluster, f.State, f.Authorization, f.HasState
			out.Nodes, out.Bindings, out.Disabled = f.Nodes, f.Bindings, f.Disabled
		}
	}
	out.State.Warnings = nil
	for w := range warnings {
		out.State.Warnings = append(out.State.Warnings, w)
	}
	slices.Sort(out.State.Warnings)
	out.Holes = slices.Sorted(maps.Keys(holes))
	return out, nil
}
