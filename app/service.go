package app

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/web"
)

// service is one Run, its parts put together. They are opened in the order of the fields, each with what it needs of those before, run in the
// stages of run, and are closed by close, whichever of them were opened.
type service struct {
	o        RunOptions
	level    *levelWriter
	reloader *config.Reloader
	log      zerolog.Logger

	store    *store.Store
	state    *stateFeed
	letters  *source.DeadLetter
	metrics  *metrics.Metrics
	sinks    sinkSet
	incident *incidentWatch
	ledger   *ledger
	proofs   *prover
	checks   *checkWatch
	summary  *summaryWatch // nil where the store is of one cluster alone
	court    *court
	sources  *sourceSet
	coverage *coverageWatch
	ops      *ops.Server
	pages    servedPages

	stopping atomic.Bool
}

// open makes every part, but starts none.
func (s *service) open(ctx context.Context, c *config.Config) error {
	instance := c.Instance
	if instance == "" {
		instance, _ = os.Hostname() // without a name it has the common one
	}
	instance = cmp.Or(instance, "nodetrail")
	var err error
	// The store first: it is where a second process on the same folder is noticed.
	if s.store, err = openStore(ctx, c, storeOptions(c, s.log)); err != nil {
		return err
	}
	if err := sameCluster(ctx, s.store, c); err != nil {
		return err
	}
	if s.state, err = openStateFeed(c, s.log); err != nil {
		return err
	}
	if s.letters, err = source.OpenDeadLetter(c.DataPath(config.DeadLetters), 64<<20); err != nil {
		return err
	}
	since, err := watchedSince(ctx, s.store, time.Now())
	if err != nil {
		return err
	}
	s.metrics = metrics.New(metrics.Options{
		Since: since, Cluster: c.Cluster, MaxNodes: c.Metrics.MaxNodes, MaxBindings: c.Metrics.MaxBindings, Version: s.o.Version, GoVersion: runtime.Version(),
	})
	s.metrics.Own(ownRules(c))
	s.proofs = newProver(s.store, s.reloader.Current)
	alerts := &alertStore{store: s.store, cluster: c.Cluster}
	s.sinks.recent, s.sinks.keeper, s.sinks.since = alerts.recent, alerts, since
	s.incident = &incidentWatch{store: s.store, turns: s.proofs.turns, sinks: s.sinks.ofIncidents, config: s.reloader.Current, clock: time.Now, log: s.log}
	s.sinks.announced = s.incident.delivered
	if err := s.sinks.replace(c, s.log); err != nil {
		return err
	}
	held, err := openHeld(ctx, s.store, instance)
	if err != nil {
		return err
	}
	if s.ledger, err = openLedger(ctx, s.store, s.metrics, &s.sinks, held); err != nil {
		return err
	}
	if c.Store.Postgres != nil {
		s.ledger.suffix = ownSuffix(instance)
	}
	if s.checks, err = openCheckWatch(ctx, s.proofs, s.log); err != nil {
		return err
	}
	if c.Store.Postgres != nil {
		s.summary = &summaryWatch{store: s.store, proofs: s.proofs, checks: s.checks, config: s.reloader.Current, log: s.log}
	}
	s.court, err = openCourt(ctx, c, &courtParts{
		state: s.state, store: s.store, sinks: &s.sinks, stored: s.ledger.stored, facts: s.facts, instance: instance, log: s.log,
		window: s.ledger.window, held: held, config: s.reloader.Current, passes: s.checks.remember,
	})
	if err != nil {
		return err
	}
	gaps := &gapTeller{engine: s.court, metrics: s.metrics, config: s.reloader.Current, log: s.log}
	s.sources = &sourceSet{letters: s.letters, gaps: gaps, log: s.log}
	if err := s.sources.open(c, s.court, instance); err != nil {
		return err
	}
	if s.coverage, err = openCoverage(c, s.state, gaps); err != nil {
		return err
	}
	s.metrics.Watch(s.input(c))
	s.ops, err = ops.New(ops.Options{
		Listen: c.Listen, Health: c.Health, Pprof: c.Pprof, Metrics: s.metrics.Handler(), Ready: s.notReady, Reload: s.reloader.Reload,
		ReloadToken: func() (string, error) { return reloadToken(c.Reload.TokenFile) }, Log: s.log,
	})
	if err != nil || !c.Pages.Enabled {
		return err
	}
	return s.openPages(c)
}

// openPages opens the pages over all the other parts.
func (s *service) openPages(c *config.Config) error {
	o, err := pagesOver(c, s.proofs, s.log)
	if err != nil {
		return err
	}
	o.Sources = func() []web.Source { return append(s.sources.pages(s.ledger), s.state.source()) }
	o.Disabled = func() []string { return s.reloader.Current().Rules.Disable }
	o.Own = func() []*rules.Rule { return ownRules(s.reloader.Current()) }
	o.Live = &liveState{state: s.state.State, node: s.court.authorizer, mode: s.court.mode, whole: s.state.given, now: s.state.live != nil}
	return s.pages.open(c, o, s.ops, s.log)
}

func reloadToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	s, err := config.ReadSecret(path)
	return s.Reveal(), err
}

// input is what the other parts tell the metrics.
func (s *service) input(c *config.Config) metrics.Input {
	return metrics.Input{
		Sources: s.sources.metrics,
		Engine: func() metrics.Engine {
			e := s.court.Stats()
			return metrics.Engine{
				Waiting: e.Waiting, Held: e.Held, MaxHeld: int64(s.reloader.Current().Pipeline.MaxBytes), Early: e.Early, Late: e.Late, Ahead: e.Ahead, CommitFailures: e.Failures,
			}
		},
		Webhook: func() *metrics.Webhook { return webhookMetrics(s.sources.webhook) },
		Pages: func() *metrics.Pages {
			if s.pages.site == nil {
				return nil
			}
			p := s.pages.site.Stats()
			return &metrics.Pages{Refused: p.Refused, Credentials: metrics.Credentials{Expires: p.CertificateExpires, ReloadFailures: p.ReloadFailures}}
		},
		DeadLetters: func() int64 { return s.letters.Stats().Written },
		State:       s.state.metrics,
		Apiservers:  s.coverage.metrics,
		Checks:      s.checks.metrics,
		Sinks:       s.sinks.stats,
		Alerts:      s.sinks.alertStats,
		Config: func() metrics.Config {
			r := s.reloader.Stats()
			return metrics.Config{Applied: r.Applied, Refused: r.Refused, NeedRestart: r.NeedRestart, LastSuccess: r.LastSuccess, OK: r.OK}
		},
		StoreBytes: storeBytes(c),
	}
}

// facts are what the report needs to know, to be stored. It runs in the engine's loop.
func (s *service) facts(j *court) []byte {
	c := s.reloader.Current()
	k := knowledge{
		cluster: c.Cluster, setup: j.setup, disabled: c.Rules.Disable, hasState: s.state.given, doubts: s.state.doubts(),
	}
	k.from, k.to, k.heard = s.ledger.window()
	j.versions.forget(k.to, max(c.Readiness.MinWindow.D(), 7*24*time.Hour)+24*time.Hour)
	f := k.facts()
	f.Authorization.Versions = j.versions.told(f.Authorization.Versions)
	held := j.held.with(f.Gaps, &k, k.to.Add(-c.Store.Retention.D()), k.to.Add(-c.State.Horizon.D()))
	b, err := toStore(&f, time.Now(), s.o.Version, &j.versions.versionFacts, held)
	if err != nil {
		s.log.Warn().Err(err).Msg("cannot store the facts of the report")
		return nil
	}
	return b
}

// change takes over what can change while the service runs.
func (s *service) change(old, fresh *config.Config) error {
	if s.court == nil {
		return nil
	}
	if err := s.level.setLevel(fresh.Log); err != nil {
		return err
	}
	s.metrics.Own(ownRules(fresh))
	if err := s.court.configure(fresh); err != nil {
		return err
	}
	if slices.ContainsFunc(config.Changed(old, fresh), func(c config.Change) bool { return strings.HasPrefix(c.Field, "sinks") || c.Field == "exceptions" }) {
		return s.sinks.replace(fresh, s.log)
	}
	return nil
}

// close closes what was opened.
func (s *service) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if err := s.sinks.close(ctx); err != nil {
		s.log.Warn().Err(err).Msg("not all findings reached their sinks; the store has them")
	}
	for _, server := range []*ops.Server{s.ops, s.pages.server} {
		if server == nil {
			continue
		}
		if err := server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			s.log.Debug().Err(err).Msg("closing the server of metrics")
		}
	}
	if s.letters != nil {
		errs = append(errs, s.letters.Close())
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	return errors.Join(errs...)
}
