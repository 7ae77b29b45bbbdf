package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// court is the engine of a service with its judge. It is opened once the state, the store and the sinks are there, runs until the sources
// have ended, and there is nothing to close.
type court struct {
	*pipeline.Engine
	setup     *judging.Setup
	detectors *rules.Detectors
	bound     *boundBook
	versions  *versionBook
	held      *heldGaps
}

// courtParts are what a court works with.
type courtParts struct {
	state    *stateFeed
	store    *store.Store
	sinks    *sinkSet
	stored   func(*pipeline.Stored)
	facts    func(*court) []byte
	window   func() (from, to time.Time, heard bool)
	held     *heldGaps
	passes   func(now time.Time) []tally.Remembered
	config   func() *config.Config
	instance string
	log      zerolog.Logger
}

func openCourt(ctx context.Context, c *config.Config, p *courtParts) (*court, error) {
	asked := p.state.askVersion(ctx, c)
	features, err := c.Authorization.Features(cmp.Or(asked, c.Authorization.Newest()))
	if err != nil {
		return nil, err
	}
	versions := (&Authorization{KubernetesVersion: c.Authorization.KubernetesVersion, FeatureGates: c.Authorization.FeatureGates}).versions()
	versions.Asked, _ = nodeauthz.Minor(asked)
	if assumed := assumedOf(c); assumed != "" {
		p.log.Warn().Msg("authorization.kubernetesVersion: " + assumed)
	}
	mode, err := pipeline.ParseMode(c.Authorization.Mode)
	if err != nil {
		return nil, fmt.Errorf("authorization.mode: %w", err)
	}
	enabled, err := enabledRules(c.Rules.Disable)
	if err != nil {
		return nil, err
	}
	kept, err := keptOf(c.Readiness.Keep)
	if err != nil {
		return nil, err
	}
	out := &court{
		setup: judging.New(p.state.State, judging.Options{
			Features: features, Admission: admissionOf(&features, cmp.Or(c.Authorization.KubernetesVersion, asked), c.Authorization.FeatureGates),
			Versions: versions, Skew: c.Skew.D(), Mode: mode, Rules: enabled, Own: c.Own(), Kubelets: c.Rules.KubeletUserAgents, Kept: kept, Bootstrap: bootstrapOf(c), Live: p.state.live != nil,
		}),
		// Those of all rules: one that is enabled later has to know what was before.
		detectors: rules.NewDetectors(rules.All(), detectorOptions(c)), held: p.held,
	}
	w, err := openWitnessed(ctx, p.store, witnessed{config: p.config, state: p.state, setup: out.setup, instance: p.instance, window: p.window})
	if err != nil {
		return nil, err
	}
	out.bound = w.bound
	begins, err := openLogBegins(ctx, p.store, p.instance)
	if err != nil {
		return nil, err
	}
	learned, err := openLearned(ctx, p.store, p.state, c.State.FromAudit, p.instance)
	if err != nil {
		return nil, err
	}
	out.versions, err = openVersionBook(ctx, p.store, out.setup, versionFacts{
		Settings: fmt.Sprint(c.Authorization.KubernetesVersion, c.Authorization.FeatureGates), Alone: c.Store.Postgres == nil,
	}, p.instance, time.Now())
	if err != nil {
		return nil, err
	}
	opt := pipeline.EngineOptions{
		Judge: out.setup.Judge, Detectors: out.detectors, Store: p.store, Stored: p.stored, Line: p.sinks.line, Ledger: evidence.New(),
		Facts: func() []byte { return p.facts(out) }, Instance: p.instance, Judged: w.judged, Begins: &begins.at,
		Remember: func(now time.Time, last bool) []tally.Remembered {
			return slices.Concat(w.remember(now, last), begins.changes(), learned.changes(now), p.passes(now), out.versions.changes())
		},
		Forgone: out.versions.forgone,
		Skew:    c.Skew.D(), Settle: c.State.Settle.D(), WaitAtMost: c.State.WaitAtMost.D(), OpenFor: c.Pipeline.OpenFor.D(),
		CommitEvery: c.Pipeline.CommitEvery.D(), MaxBytes: int64(c.Pipeline.MaxBytes), MaxRequests: c.Pipeline.MaxRequests, Log: p.log,
	}
	if c.State.FromAudit {
		opt.State = p.state.State
	}
	if p.state.live != nil {
		opt.CaughtUp = p.state.live.CaughtUp
	}
	out.Engine, err = pipeline.NewEngine(ctx, opt)
	return out, err
}

func detectorOptions(c *config.Config) rules.DetectorOptions {
	return rules.DetectorOptions{Kubelets: c.Rules.KubeletUserAgents, Lateness: c.Rules.Lateness.D(), Bootstrap: bootstrapOf(c)}
}

func bootstrapOf(c *config.Config) rules.Bootstrap {
	return rules.Bootstrap{Trusted: c.Bootstrap.Trusted, SingleUse: c.Bootstrap.SingleUse, MaxNodes: c.Bootstrap.MaxNodes}
}

// configure takes over what can change of the rules while the engine runs.
func (j *court) configure(c *config.Config) error {
	enabled, err := enabledRules(c.Rules.Disable)
	if err != nil {
		return err
	}
	kept, err := keptOf(c.Readiness.Keep)
	if err != nil {
		return err
	}
	return j.Do(context.Background(), func() {
		j.setup.Judge.Rules, j.setup.Judge.Own, j.setup.Judge.Kept = enabled, c.Own(), kept
		j.bound.keep(kept)
		j.setup.Judge.Memory.Kubelets, j.setup.Judge.Memory.Bootstrap = c.Rules.KubeletUserAgents, bootstrapOf(c)
		j.detectors.Configure(detectorOptions(c))
	})
}

// mode is the order of the API server's authorizers, as far as it is known.
func (j *court) mode(ctx context.Context) (string, error) {
	mode := ""
	err := j.Do(ctx, func() { mode = j.setup.Judge.Mode.String() })
	return mode, err
}

// authorizer is the one that is in force, with the admission plugin of its version.
func (j *court) authorizer(ctx context.Context) (a *nodeauthz.Authorizer, p *nodeadmission.Admission, err error) {
	err = j.Do(ctx, func() { a, p = j.setup.Auth, j.setup.Judge.Admission })
	return a, p, err
}

// notStored is an error if something could not be stored as the process stopped, before which the figures were these. What failed before and was
// overcome is none. The last commit may succeed after the sources have taken away what failed of it.
func (j *court) notStored(before *pipeline.EngineStats) error {
	now := j.Stats()
	if now.GivenUp == before.GivenUp && now.Failing.IsZero() {
		return nil
	}
	since := cmp.Or(now.Failing, before.Failing)
	if since.IsZero() {
		return errors.New("the store failed while the process stopped: what came in last is not stored, and its sources will bring it again")
	}
	return errors.New(failingSince(since))
}

// failingSince says since when nothing is stored.
func failingSince(t time.Time) string {
	return "the store has failed since " + t.UTC().Format(time.RFC3339) + ": what came in since then is not stored, and its sources will bring it again"
}

// ledger is what was stored since the start. Safe for concurrent use.
type ledger struct {
	metrics *metrics.Metrics
	sinks   *sinkSet
	// suffix is what the engine calls a lane in addition to what its source does.
	suffix string

	mu       sync.Mutex
	from, to time.Time // of the requests
	heard    bool      // whether there was any that the facts of before do not speak of
	lanes    map[string]laneSum
}

// openLedger begins where the store ends, or with the first request that the facts of before do not speak of, since the process was killed before it stored
// them. What the state shows about the requests before that is held.
func openLedger(ctx context.Context, s *store.Store, m *metrics.Metrics, sinks *sinkSet, held *heldGaps) (*ledger, error) {
	newest, err := s.Newest(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	l := &ledger{metrics: m, sinks: sinks, lanes: map[string]laneSum{}, from: newest, to: newest}
	if held == nil || !held.Until.Before(newest) {
		return l, nil
	}
	if l.from, l.heard = held.Until, true; l.from.IsZero() {
		l.from, _, err = s.Range(ctx)
	}
	return l, err
}

// laneSum is what the overview tells of a lane.
type laneSum struct {
	events int64
	latest time.Time
}

// stored takes a commit down, and hands it on.
func (l *ledger) stored(s *pipeline.Stored) {
	c := metrics.Commit{Entries: s.Entries, Received: s.Received, At: s.At, Took: s.Took}
	l.mu.Lock()
	for i := range s.Entries {
		// What is noted in addition to the log has the clock's time. One request of a wrong clock must not move the end of all.
		if t := s.Entries[i].Time; !t.IsZero() && s.Entries[i].IsNode && !t.After(s.At.Add(pipeline.AheadAtMost)) {
			l.heard = true
			if l.from.IsZero() || t.Before(l.from) {
				l.from = t
			}
			if t.After(l.to) {
				l.to = t
			}
		}
	}
	for i := range s.Lanes {
		lane := &s.Lanes[i]
		if lane.Lane == tally.OverTimeLane {
			continue // no source of events
		}
		name := strings.TrimSuffix(lane.Lane, l.suffix)
		sum := l.lanes[name]
		if sum.events += lane.Events.Read; lane.Latest.After(sum.latest) {
			sum.latest = lane.Latest.UTC()
		}
		l.lanes[name] = sum
		one := metrics.Lane{Lane: name, Events: lane.Events, Envelopes: envelopesOf(&lane.Counts)}
		if lane.Events.Read > 0 { // else it may be how far a lane is that has no events
			one.Latest = lane.Latest
		}
		c.Lanes = append(c.Lanes, one)
	}
	l.mu.Unlock()
	l.metrics.Stored(&c)
	l.sinks.add(s)
}

// window bounds the requests that were stored since the start, with those before it that no facts speak of, and says whether there are any. Until then both
// are the newest of before.
func (l *ledger) window() (from, to time.Time, heard bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.from, l.to, l.heard
}

// lane is the sum of a lane.
func (l *ledger) lane(name string) laneSum {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lanes[name]
}
