package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/web"
)

// runner is one run of the command run, its parts put together.
type runner struct {
	std      streams
	log      zerolog.Logger
	level    *levelWriter
	reloader *config.Reloader
	horizon  time.Duration
	instance string

	state     *cluster.State
	live      *cluster.Live // nil without a cluster that is watched
	store     *store.Store
	judge     *pipeline.Judge
	detectors *rules.Detectors
	engine    *pipeline.Engine
	metrics   *metrics.Metrics
	ops       *ops.Server
	pages     *ops.Server // nil where they are at the address of operations, or nowhere
	site      *web.Server // what the pages are served by; nil without pages
	pagesAt   string      // what to open in a browser, "" without pages
	letters   *source.DeadLetter
	webhook   *webhook.Server   // nil without one
	scraper   *coverage.Scraper // nil without one
	sources   []*runningSource
	started   time.Time
	onRunning func() // called when everything was started; nil for nothing
	sinks     sinkSet
	features  nodeauthz.Features
	stopping  atomic.Bool

	mu     sync.Mutex
	window [2]time.Time // of the requests, for the state's warnings
	lanes  map[string]pageLane
}

// open makes every part, but starts none.
func (r *runner) open(ctx context.Context, c *config.Config) error {
	var err error
	r.horizon, r.started = c.State.Horizon.D(), time.Now()
	if r.instance = c.Instance; r.instance == "" {
		r.instance, err = os.Hostname()
	}
	if err != nil || r.instance == "" {
		r.instance = "nodetrail"
	}
	// The store first: it is where a second process on the same folder is noticed.
	if r.store, err = openStore(ctx, c, r.log, false); err != nil {
		return err
	}
	if err := r.openState(c); err != nil {
		return err
	}
	if r.letters, err = source.OpenDeadLetter(dataPath(c, "dead-letters.jsonl"), 64<<20); err != nil {
		return err
	}
	r.metrics = metrics.New(metrics.Options{
		MaxNodes: c.Metrics.MaxNodes, MaxBindings: c.Metrics.MaxBindings, Version: buildVersion(), GoVersion: runtime.Version(),
	})
	alerts := &alertStore{store: r.store, cluster: c.Cluster}
	r.sinks.recent, r.sinks.keeper = alerts.recent, alerts
	if err := r.sinks.replace(c, r.log); err != nil {
		return err
	}
	if err := r.openEngine(ctx, c); err != nil {
		return err
	}
	if err := r.openSources(c); err != nil {
		return err
	}
	if err := r.openCoverage(c); err != nil {
		return err
	}
	input := r.input()
	input.StoreBytes = storeBytes(c)
	r.metrics.Watch(input)
	r.ops, err = ops.New(ops.Options{
		Listen: c.Listen, Pprof: c.Pprof, Metrics: r.metrics.Handler(), Ready: r.notReady, Reload: r.reloader.Reload,
		ReloadToken: func() (string, error) { return reloadToken(c.Reload.TokenFile) }, Log: r.log,
	})
	if err != nil {
		return err
	}
	return r.openPages(c)
}

func detectorOptions(c *config.Config) rules.DetectorOptions {
	return rules.DetectorOptions{Kubelets: c.Rules.KubeletUserAgents, Lateness: c.Rules.Lateness.D()}
}

func reloadToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	s, err := config.ReadSecret(path)
	return s.Reveal(), err
}

// openState loads what is given of the state and what a former process has kept of it.
func (r *runner) openState(c *config.Config) error {
	r.state = cluster.NewState()
	if len(c.State.Files) > 0 {
		if err := r.state.Load(c.State.Files, nil); err != nil {
			return fmt.Errorf("cannot read the state: %w", err)
		}
		if err := ofUse(c.State.Files, r.state.Summary()); err != nil {
			return err
		}
	}
	if !c.State.Live.Enabled {
		return nil
	}
	rest, err := cluster.ClientConfig(c.State.Live.Kubeconfig, c.State.Live.Context)
	if err != nil {
		return err
	}
	r.live, err = cluster.NewLive(cluster.LiveConfig{
		Record: cluster.RecordConfig{Config: rest}, Dir: dataPath(c, "state"), Horizon: r.horizon, Settle: c.State.Settle.D(),
	}, r.state, r.log)
	return err
}

func (r *runner) openEngine(ctx context.Context, c *config.Config) error {
	var err error
	if r.features, err = c.Authorization.Features(r.askVersion(ctx, c)); err != nil {
		return err
	}
	mode, err := pipeline.ParseMode(c.Authorization.Mode)
	if err != nil {
		return fmt.Errorf("authorization.mode: %w", err)
	}
	auth := nodeauthz.NewAuthorizer(r.state.Graph, r.features, c.Skew.D())
	memory := rules.NewMemory()
	memory.Kubelets = c.Rules.KubeletUserAgents
	view := pipeline.NewView(r.state, auth)
	if r.live != nil {
		view = pipeline.NewLiveView(r.state, auth)
	}
	r.judge = &pipeline.Judge{
		Node: auth, RBAC: r.state.RBAC, State: view, Rules: enabledRules(c), Memory: memory, Mode: mode,
	}
	// Those of all rules: one that is enabled later has to know what was before.
	r.detectors = rules.NewDetectors(rules.All(), detectorOptions(c))
	opt := pipeline.EngineOptions{
		Judge: r.judge, Detectors: r.detectors, Store: r.store, Stored: r.stored, Line: r.sinks.line, Facts: r.facts, Instance: r.instance,
		Skew: c.Skew.D(), Settle: c.State.Settle.D(), WaitAtMost: c.State.WaitAtMost.D(), OpenFor: c.Pipeline.OpenFor.D(),
		CommitEvery: c.Pipeline.CommitEvery.D(), MaxBytes: int64(c.Pipeline.MaxBytes), MaxRequests: c.Pipeline.MaxRequests, Log: r.log,
	}
	if c.State.FromAudit {
		opt.State = r.state
	}
	if r.live != nil {
		opt.CaughtUp = r.live.CaughtUp
	}
	r.engine, err = pipeline.NewEngine(ctx, opt)
	return err
}

// askVersion asks the cluster that is watched for its version, where the configuration has none.
func (r *runner) askVersion(ctx context.Context, c *config.Config) string {
	if r.live == nil || c.Authorization.KubernetesVersion != "" {
		return ""
	}
	ctx, stop := context.WithTimeout(ctx, askVersionFor)
	defer stop()
	version, err := r.live.Version(ctx)
	if err == nil {
		_, err = nodeauthz.FeaturesFor(version)
	}
	if err != nil {
		version = c.Authorization.Newest()
		r.log.Warn().Err(err).Str("version", version).Msg("requests are judged as by the newest version that can be configured so: set authorization.kubernetesVersion")
		return version
	}
	r.log.Info().Str("version", version).Msg("requests are judged as by the apiserver's version")
	return version
}

// askVersionFor bounds how long an apiserver that does not answer delays the start.
const askVersionFor = 5 * time.Second

func enabledRules(c *config.Config) []*rules.Rule {
	return slices.DeleteFunc(rules.All(), func(r *rules.Rule) bool { return slices.Contains(c.Rules.Disable, r.Name) })
}

// openStore opens the store that the configuration names.
func openStore(ctx context.Context, c *config.Config, log zerolog.Logger, readOnly bool) (*store.Store, error) {
	o := store.Options{
		ReadOnly: readOnly, Retention: c.Store.Retention.D(), Step: c.Store.Step.D(), Hourly: c.Store.Hourly.D(), DedupeFor: c.Store.DedupeFor.D(), Log: log,
	}
	if p := c.Store.Postgres; p != nil {
		dsn := p.DSN.Reveal()
		if p.DSNFile != "" {
			s, err := config.ReadSecret(p.DSNFile)
			if err != nil {
				return nil, fmt.Errorf("store.postgres.dsnFile: %w", err)
			}
			dsn = s.Reveal()
		}
		o.Schema = p.Schema
		return store.OpenPostgres(ctx, dsn, o)
	}
	return store.OpenSQLite(ctx, sqlitePath(c), o)
}

// sqlitePath is where the embedded store is.
func sqlitePath(c *config.Config) string {
	if s := c.Store.SQLite; s != nil && s.Path != "" {
		return s.Path
	}
	return dataPath(c, "nodetrail.db")
}

// stored hands on what was stored.
func (r *runner) stored(s *pipeline.Stored) {
	c := metrics.Commit{Entries: s.Entries, Received: s.Received, At: s.At, Took: s.Took}
	r.mu.Lock()
	for i := range s.Entries {
		if t := s.Entries[i].Time; !t.IsZero() {
			if r.window[0].IsZero() || t.Before(r.window[0]) {
				r.window[0] = t
			}
			if t.After(r.window[1]) {
				r.window[1] = t
			}
		}
	}
	for i := range s.Lanes {
		l := &s.Lanes[i]
		r.lane(l.Lane, l.Events.Read, l.Latest)
		c.Lanes = append(c.Lanes, metrics.Lane{Lane: l.Lane, Events: l.Events, Envelopes: envelopesOf(&l.Counts)})
	}
	r.mu.Unlock()
	r.metrics.Stored(&c)
	r.sinks.add(s)
}

// pageLane is what the overview tells of a lane.
type pageLane struct {
	events int64
	latest time.Time
}

// lane counts a lane's events since the start; the caller holds mu.
func (r *runner) lane(name string, events int64, latest time.Time) {
	if r.lanes == nil {
		r.lanes = map[string]pageLane{}
	}
	l := r.lanes[name]
	if l.events += events; latest.After(l.latest) {
		l.latest = latest.UTC()
	}
	r.lanes[name] = l
}

// change takes over what can change at run time.
func (r *runner) change(old, fresh *config.Config) error {
	if r.engine == nil {
		return nil
	}
	if err := r.level.setLevel(fresh.Log); err != nil {
		return err
	}
	err := r.engine.Do(context.Background(), func() {
		r.judge.Rules = enabledRules(fresh)
		r.judge.Memory.Kubelets = fresh.Rules.KubeletUserAgents
		r.detectors.Configure(detectorOptions(fresh))
	})
	if err != nil {
		return err
	}
	// Sinks that stay as they are keep what waits in them.
	if slices.ContainsFunc(config.Changed(old, fresh), func(c config.Change) bool { return strings.HasPrefix(c.Field, "sinks") }) {
		return r.sinks.replace(fresh, r.log)
	}
	return nil
}

// reopen opens the files that are written anew: they may have been rotated.
func (r *runner) reopen() { r.sinks.reopen(r.log) }

// notReady says why the process is not ready.
func (r *runner) notReady() []string {
	var out []string
	if r.stopping.Load() {
		out = append(out, "stopping")
	}
	if r.live != nil && !r.live.Synced() {
		for _, k := range r.live.Status() {
			if k.Judged && !k.Synced && !k.Refused && !k.Absent {
				out = append(out, "the state is not synced: "+k.Kind)
			}
		}
		if len(out) == 0 {
			out = append(out, "the state is not synced")
		}
	}
	if since := r.engine.Stats().Failing; !since.IsZero() {
		out = append(out, fmt.Sprintf("the store has failed since %s", since.UTC().Format(time.RFC3339)))
	}
	return out
}

// storedFacts are what a report needs to know beside the counts, as they are stored.
type storedFacts struct {
	At            time.Time            `json:"at"`
	Cluster       string               `json:"cluster"`
	Version       string               `json:"version"`
	State         report.State         `json:"state"`
	Authorization report.Authorization `json:"authorization"`
	HasState      bool                 `json:"hasState"`
	Holes         []string             `json:"holes"`
	Disabled      []string             `json:"disabled"`
	Nodes         []string             `json:"nodes"`
	Bindings      []report.NodeBinding `json:"bindings"`
}

// facts runs in the engine's loop.
func (r *runner) facts() []byte {
	c := r.reloader.Current()
	sum := r.state.Summary()
	r.mu.Lock()
	from, to := r.window[0], r.window[1]
	r.mu.Unlock()
	f := storedFacts{
		At: time.Now().UTC(), Cluster: c.Cluster, Version: buildVersion(), HasState: r.live != nil || len(c.State.Files) > 0,
		State: report.State{Objects: sum.Objects, Warnings: r.state.Warnings(from, to)},
		Authorization: report.Authorization{
			Mode: r.judge.Mode.String(), Inferred: r.judge.Mode.Inferred(), KubernetesVersion: r.features.Version(),
			FeatureGates: r.features.NonDefault(),
		},
	}
	f.State.Warnings = append(f.State.Warnings, sum.Places...)
	f.Disabled = c.Rules.Disable
	f.Holes = append(r.state.Holes(from, to), sum.Places...)
	if r.live != nil {
		f.State.Warnings = append(f.State.Warnings, r.live.Warnings()...)
		f.Holes = append(f.Holes, r.live.Warnings()...)
	}
	if f.HasState && !to.IsZero() {
		f.Nodes, f.Bindings = r.state.Nodes.Names(to), forNodes(r.state.RBAC, to)
	}
	if !sum.From.IsZero() {
		f.State.From, f.State.To = &sum.From, &sum.To
	}
	b, err := json.Marshal(&f)
	if err != nil {
		r.log.Warn().Err(err).Msg("cannot store the facts of the report")
		return nil
	}
	return b
}

// closeAll closes what was opened.
func (r *runner) closeAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var errs []error
	if err := r.sinks.close(ctx); err != nil {
		r.log.Warn().Err(err).Msg("not all findings reached their sinks; the store has them")
	}
	for _, s := range []*ops.Server{r.ops, r.pages} {
		if s == nil {
			continue
		}
		if err := s.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
			r.log.Debug().Err(err).Msg("closing the server of metrics")
		}
	}
	if r.letters != nil {
		errs = append(errs, r.letters.Close())
	}
	if r.store != nil {
		errs = append(errs, r.store.Close())
	}
	return errors.Join(errs...)
}

var _ tally.Store = (*store.Store)(nil)
