package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline/file"
)

// RunOptions are what Run is started with. Everything else is in the configuration file, which can be read again while it runs.
type RunOptions struct {
	// StoreOptions name the configuration and the folder of the store.
	StoreOptions
	// Listen is the address of /metrics, /readyz and the pages, in place of the configuration's listen; "" for that.
	Listen string
	// State is the cluster's, in addition to the configuration's state.files.
	State []string
	// Logs are followed in addition to the configuration's sources, with its defaults for files.
	Logs []string
	// Log is where the service logs.
	Log LogTo
	// Version is the program's, as metrics and logs tell it.
	Version string
	// Hangup has the configuration read again, and files that are written opened again; nil for never.
	Hangup <-chan os.Signal
	// Running is called when all parts have been started, with the address of the pages, "" without pages; nil for nothing.
	Running func(pages string)
}

// ErrNothingToRead is that neither Logs nor the configuration has a source.
var ErrNothingToRead = errors.New("nothing to read: no log is given, and the configuration has no source")

// adjust puts what the options say over the file's configuration.
func (o *RunOptions) adjust(c *config.Config) error {
	c.Data, c.Listen, c.Cluster = cmp.Or(o.Data, c.Data), cmp.Or(o.Listen, c.Listen), cmp.Or(o.Cluster, c.Cluster)
	if err := config.CheckCluster(c.Cluster); err != nil {
		return optionError("Cluster", "%w", err)
	}
	c.State.Files = append(c.State.Files, o.State...)
	if len(o.Logs) > 0 {
		var src config.FileSource
		src.SetDefaults()
		src.Paths = o.Logs
		c.Sources.Files = append(c.Sources.Files, src)
	}
	if !hasSource(c) {
		return ErrNothingToRead
	}
	if i, what := c.OverwrittenBySink(o.Config); what != "" {
		return fmt.Errorf("sinks.jsonl[%d].path: %s is %s, and would be overwritten", i, c.Sinks.JSONL[i].Path, what)
	}
	return useOwnRules(c)
}

func hasSource(c *config.Config) bool {
	return len(c.Sources.Files) > 0 || c.Sources.Webhook != nil || c.Sources.Kafka != nil
}

// Run judges audit events as they come, from the sources of the configuration, until ctx ends; then it stops after the batch in hand and
// returns nil. Verdicts and findings are counted in the store, served as metrics and pages, and sent to sinks. What was not stored when it ends
// comes again next time: sources may forget an event when it is in the store, and every event counts once.
//
// It reads the configuration, the environment variables that that names, the state, and what the sources bring. It writes into the
// configuration's data folder, which it makes, or to its PostgreSQL, and whatever its sinks write to.
//
// It returns an error if a part cannot be opened, if one ends by itself, and if the store fails when it stops; ErrNothingToRead before
// anything is opened. If the store does not answer when ctx ends, it returns after [stopWithin] and leaves what still runs: end the process. One process uses a folder at a time; analyzers that share a PostgreSQL may be many.
func Run(ctx context.Context, o RunOptions) error {
	s, err := newService(o)
	if err != nil {
		return err
	}
	if err = s.serve(ctx); err != nil {
		s.log.Error().Err(err).Msg(stopsBecause)
	}
	return err
}

// stopsBecause is what a service logs before it returns an error, which whoever reads its log would miss otherwise.
const stopsBecause = "nodetrail stops because of an error"

// serve is Run with the configuration that was read.
func (s *service) serve(ctx context.Context) error {
	c := s.reloader.Current()
	for _, src := range c.Sources.Files {
		for _, path := range src.Paths {
			if err := file.Followable(path); err != nil { // it would be followed without a word, and nothing would come of it
				return fmt.Errorf("cannot follow the audit log: %w", err)
			}
		}
	}
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	HoldMemory(ctx, serviceMemory, serviceGarbage)
	return endWithin(ctx, stopWithin, func() error { return errors.Join(s.openAndRun(ctx, c), s.close()) })
}

// stopWithin is how long Run takes at most once it is to stop: less than the grace period of the pods in deploy/.
const stopWithin = 45 * time.Second

// endWithin calls f, and leaves it when it has not ended so long after ctx.
func endWithin(ctx context.Context, most time.Duration, f func() error) error {
	ended, late := make(chan error, 1), make(chan struct{})
	go func() { ended <- f() }()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(most, func() { close(late) }) })
	defer stop()
	select {
	case err := <-ended:
		return err
	case <-late:
		return fmt.Errorf("not stopped after %s: the store does not answer; what is not stored, its sources will bring again", most)
	}
}

func (s *service) openAndRun(ctx context.Context, c *config.Config) error {
	err := s.open(ctx, c)
	if err == nil {
		return s.run(ctx)
	}
	if ctx.Err() != nil { // SQLite calls it otherwise than the rest
		s.log.Info().AnErr("cause", err).Msg("stopped while starting")
		err = nil
	}
	return err
}

// newService reads the configuration. Nothing is opened yet.
func newService(o RunOptions) (*service, error) {
	s := &service{o: o, level: &levelWriter{w: o.Log.W}}
	// What the file says of logging is known only after it was read.
	reloader, err := config.NewReloader(config.ReloaderOptions{
		Path: o.Config, Adjust: o.adjust, OnChange: s.change, Log: zerolog.New(s.level).With().Timestamp().Logger(),
	})
	if err != nil {
		return nil, err
	}
	s.reloader = reloader
	if err := s.level.set(reloader.Current().Log, o.Log); err != nil {
		return nil, err
	}
	s.log = s.level.logger()
	return s, nil
}

// run starts everything, waits, and stops it in the order in which nothing is lost.
func (s *service) run(ctx context.Context) error {
	// Each stage is stopped when those before it have ended: sources, then the engine, then the rest.
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := &failures{stop: stop}
	own := context.WithoutCancel(ctx)
	sources, engine, rest := newStage(own, failed), newStage(own, failed), newStage(own, failed)
	rest.start("serving metrics", s.ops.Serve)
	s.pages.start(rest)
	rest.start("watching the configuration", s.watch)
	if live := s.state.live; live != nil {
		rest.start("watching the cluster", func(ctx context.Context) error { live.Run(ctx); return nil })
	}
	rest.start("housekeeping", (&housekeeper{store: s.store, engine: s.court, state: s.state, sources: s.sources, gaps: s.sources.gaps, log: s.log}).run)
	rest.start("making the checks", s.checks.run)
	rest.start("telling of incidents", s.incident.run)
	if s.summary != nil {
		rest.start("storing the summary", s.summary.run)
	}
	engine.start("judging", s.court.Run)
	s.coverage.start(sources)
	s.sources.start(sources, s.court)
	s.log.Info().Str("version", s.o.Version).Str("listen", s.ops.Addr()).Str("pages", s.pages.url).Str("data", s.reloader.Current().Data).
		Strs("sources", s.sources.names()).Msg("running")
	if s.o.Running != nil {
		s.o.Running(s.pages.url)
	}
	<-ctx.Done()
	s.log.Info().Msg("stopping")
	s.stopping.Store(true)
	before := s.court.Stats()
	sources.end()
	engine.end()
	rest.end()
	s.log.Info().Msg("stopped")
	return errors.Join(failed.err(), s.court.notStored(&before))
}

// watch reads the configuration again when its file changes or a hangup says so.
func (s *service) watch(ctx context.Context) error {
	if s.reloader.Current().Reload.Watch {
		go s.reloader.Watch(ctx)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.o.Hangup:
			s.sinks.reopen(s.log)
			_ = s.reloader.Reload() // it logs what is wrong
		}
	}
}

// notReady says why the process is not ready.
func (s *service) notReady() []string {
	var out []string
	if s.stopping.Load() {
		out = append(out, "stopping")
	}
	out = append(out, s.state.notReady()...)
	out = append(out, s.sources.notReady()...)
	if since := s.court.Stats().Failing; !since.IsZero() {
		out = append(out, failingSince(since))
	}
	return out
}
