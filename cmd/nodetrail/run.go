package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
)

type runFlags struct {
	config string
	data   string
	listen string
	state  []string
}

func newRun(std streams) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [flags] [AUDIT_LOG...]",
		Short: "Judge audit events as they come, for ever",
		Long: `run takes in audit events as they come, from log files that are still written, from the apiserver's audit webhook, or from Kafka, and
judges each request of a node as of its own time. Verdicts and findings are counted in a store, served as metrics, and sent to sinks;
'nodetrail report' prints the report from the store, also while run is running.

The configuration is one YAML file (see 'nodetrail config print-defaults'). Without one, run follows the AUDIT_LOGs with their rotated
predecessors and keeps its store in the folder nodetrail-data.

SIGHUP reads the configuration again, SIGINT and SIGTERM stop after the batch in hand; what was not stored comes again next time.`,
		Example: `  nodetrail run /var/log/kubernetes/audit/audit.log
  nodetrail run --config nodetrail.yaml
  nodetrail run --state journal.jsonl --data /var/lib/nodetrail '/var/log/kubernetes/audit/*.log'`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(args); err != nil {
				return usageError{cmd.CommandPath(), err}
			}
			r, err := f.prepare(args, std)
			if err != nil {
				return usageIfFlags(cmd, err)
			}
			return r.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.SortFlags = false
	fs.StringVar(&f.config, "config", "", "the configuration `FILE`")
	fs.StringVar(&f.data, "data", "", "the `FOLDER` of the store, in place of the configuration's data")
	fs.StringVar(&f.listen, "listen", "", "the `ADDRESS` of /metrics and /readyz, in place of the configuration's listen")
	fs.StringArrayVar(&f.state, "state", nil, "cluster state, beside the configuration's state.files: a journal, a snapshot or a folder of such, as a `PATH`; may be repeated")
	return cmd
}

// usageIfFlags marks an error that the flags or arguments are to blame for.
func usageIfFlags(cmd *cobra.Command, err error) error {
	if errors.Is(err, errNothingToRead) {
		return usageError{cmd.CommandPath(), err}
	}
	return err
}

var errNothingToRead = errors.New("nothing to read: name an AUDIT_LOG, or a source in the configuration (--config)")

// check refuses what could only wait for ever, or would be blamed on something else later.
func (f *runFlags) check(args []string) error {
	if f.listen != "" {
		if err := checkAddress(f.listen); err != nil {
			return fmt.Errorf("--listen: %w", err)
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

// checkAddress refuses what is not HOST:PORT.
func checkAddress(s string) error {
	_, port, err := net.SplitHostPort(s)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q is not an address such as 127.0.0.1:9876 or :9876", s)
	}
	return nil
}

// adjust puts what the command line says over the file's configuration.
func (f *runFlags) adjust(args []string) func(*config.Config) error {
	return func(c *config.Config) error {
		if f.data != "" {
			c.Data = f.data
		}
		if f.listen != "" {
			c.Listen = f.listen
		}
		c.State.Files = append(c.State.Files, f.state...)
		if len(args) > 0 {
			var src config.FileSource
			src.SetDefaults()
			src.Paths = args
			c.Sources.Files = append(c.Sources.Files, src)
		}
		if len(c.Sources.Files) == 0 && c.Sources.Webhook == nil && c.Sources.Kafka == nil {
			return errNothingToRead
		}
		return nil
	}
}

// prepare reads the configuration. Nothing is opened yet.
func (f *runFlags) prepare(args []string, std streams) (*runner, error) {
	r := &runner{std: std, level: &levelWriter{}}
	r.level.w = std.err
	// What the file says of logging is known only after it was read.
	reloader, err := config.NewReloader(config.ReloaderOptions{
		Path: f.config, Adjust: f.adjust(args), OnChange: r.change, Log: zerolog.New(r.level).With().Timestamp().Logger(),
	})
	if err != nil {
		return nil, err
	}
	r.reloader = reloader
	c := reloader.Current()
	if err := r.level.set(c.Log, std.err); err != nil {
		return nil, err
	}
	r.log = zerolog.New(r.level).With().Timestamp().Logger()
	return r, nil
}

// levelWriter writes the log lines of a level and above, which can change at run time.
type levelWriter struct {
	w     io.Writer
	level atomicLevel
}

func (w *levelWriter) Write(p []byte) (int, error) { return w.w.Write(p) }

// WriteLevel implements zerolog.LevelWriter.
func (w *levelWriter) WriteLevel(l zerolog.Level, p []byte) (int, error) {
	if l < w.level.get() {
		return len(p), nil
	}
	return w.w.Write(p)
}

// setLevel says how much to log.
func (w *levelWriter) setLevel(c config.Log) error {
	level, err := zerolog.ParseLevel(c.Level)
	if err != nil {
		return fmt.Errorf("log.level: %w", err)
	}
	w.level.set(level)
	return nil
}

// set says how and how much to log, before anybody does.
func (w *levelWriter) set(c config.Log, stderr io.Writer) error {
	if err := w.setLevel(c); err != nil {
		return err
	}
	if terminal := isTerminal(stderr); c.Format == "console" || c.Format == "auto" && terminal {
		w.w = zerolog.ConsoleWriter{Out: stderr, NoColor: !terminal, TimeFormat: time.RFC3339}
	}
	return nil
}

// run starts everything, waits, and stops it in the order in which nothing is lost.
func (r *runner) run(ctx context.Context) (err error) {
	c := r.reloader.Current()
	// From the first moment to the last: a SIGHUP that nobody has asked for would end the process.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	defer func() { err = errors.Join(err, r.closeAll()) }()
	if err := r.open(ctx, c); err != nil {
		if ctx.Err() != nil { // SQLite calls it otherwise than the rest
			r.log.Info().AnErr("cause", err).Msg("stopped while starting")
			return nil
		}
		return err
	}

	// Each stage is stopped when those before it have ended: sources, then the engine, then the rest.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := &failures{stop: stop}
	sources, engine, rest := newStage(ctx, failed), newStage(context.WithoutCancel(ctx), failed), newStage(context.WithoutCancel(ctx), failed)
	rest.start("serving metrics", func(ctx context.Context) error { return r.ops.Serve(ctx) })
	if r.pages != nil {
		rest.start("serving pages", func(ctx context.Context) error { return r.pages.Serve(ctx) })
	}
	if r.site != nil {
		rest.start("reading for the pages", func(ctx context.Context) error { r.site.Warm(ctx); <-ctx.Done(); return nil })
	}
	rest.start("watching the configuration", func(ctx context.Context) error { r.watch(ctx, hup); return nil })
	if r.live != nil {
		rest.start("watching the cluster", func(ctx context.Context) error { r.live.Run(ctx); return nil })
	}
	rest.start("housekeeping", func(ctx context.Context) error { r.housekeep(ctx); return nil })
	engine.start("judging", r.engine.Run)
	r.startCoverage(sources)
	for _, s := range r.sources {
		sources.start("reading "+s.name, func(ctx context.Context) error { return s.run(ctx, r.engine) })
	}
	r.log.Info().Str("version", buildVersion()).Str("listen", r.ops.Addr()).Str("pages", r.pagesAt).Str("data", c.Data).Strs("sources", r.sourceNames()).Msg("running")
	if r.onRunning != nil {
		r.onRunning()
	}
	<-ctx.Done()
	r.log.Info().Msg("stopping")
	r.stopping.Store(true)
	sources.wait()
	engine.end()
	rest.end()
	r.log.Info().Msg("stopped")
	return errors.Join(failed.err(), r.notStored())
}

// notStored is an error if the store fails as the process stops. What failed before and was overcome is none.
func (r *runner) notStored() error {
	since := r.engine.Stats().Failing
	if since.IsZero() {
		return nil
	}
	return fmt.Errorf("the store has failed since %s: what came in since then is not stored, and its sources will bring it again",
		since.UTC().Format(time.RFC3339))
}

// watch reads the configuration again when its file changes or SIGHUP says so.
func (r *runner) watch(ctx context.Context, hup <-chan os.Signal) {
	if r.reloader.Current().Reload.Watch {
		go r.reloader.Watch(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			r.reopen()
			_ = r.reloader.Reload() // it logs what is wrong
		}
	}
}

// housekeep forgets what is too old, once a minute.
func (r *runner) housekeep(ctx context.Context) {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	used := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			if err := r.store.Prune(ctx, now); err != nil && ctx.Err() == nil {
				r.log.Warn().Err(err).Msg("cannot forget what is too old in the store")
			}
			r.prune(ctx, now, used)
			r.tellLate()
		}
	}
}

// prune forgets what of the state was over before the horizon, counted from the requests that come in: a log from last month is
// judged by last month's state.
func (r *runner) prune(ctx context.Context, now time.Time, used map[string]time.Time) {
	before := pruneFrom(r.engine.Stats().Lanes, now, r.horizon, r.live != nil, used).Add(-r.horizon)
	_ = r.engine.Do(ctx, func() { r.state.Prune(before) }) // its only error is that the engine has stopped
}

// idleAfter is after how long without anything in hand an old log is taken to be at its end.
const idleAfter = 10 * time.Minute

// pruneFrom is the time of the oldest requests that may come in still. A log that has ended long ago does not keep the state of all the
// time since, if other requests, or the cluster, tell of now. used keeps when each lane had something in hand.
func pruneFrom(lanes []pipeline.LaneStats, now time.Time, horizon time.Duration, live bool, used map[string]time.Time) time.Time {
	var ended []time.Time
	oldest, current := now, live
	for _, l := range lanes {
		if l.Behind || l.Batches > 0 || used[l.Lane].IsZero() {
			used[l.Lane] = now
		}
		switch {
		case l.Latest.IsZero():
		case now.Sub(l.Latest) > horizon && now.Sub(used[l.Lane]) > idleAfter:
			ended = append(ended, l.Latest)
		default:
			current = true
			if l.Latest.Before(oldest) {
				oldest = l.Latest
			}
		}
	}
	maps.DeleteFunc(used, func(lane string, _ time.Time) bool {
		return !slices.ContainsFunc(lanes, func(l pipeline.LaneStats) bool { return l.Lane == lane })
	})
	if current || len(ended) == 0 {
		return oldest
	}
	return slices.MinFunc(ended, time.Time.Compare)
}

func dataPath(c *config.Config, name string) string { return filepath.Join(c.Data, name) }
