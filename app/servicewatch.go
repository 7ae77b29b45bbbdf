package app

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/tally"
)

// checkWatch makes the checks of what is stored again and again, for the metrics. Safe for concurrent use.
type checkWatch struct {
	proofs *prover
	log    zerolog.Logger

	mu   sync.Mutex
	last *metrics.Checks // nil before the first
	// passed is when each check passed last, stored when that was handed out to be stored; lost is when each failed last that had passed.
	passed, stored, lost map[string]time.Time
}

const (
	// rememberedPasses is the kind of memory in which it is stored that a check has passed, by the check.
	rememberedPasses = "checks-passed"
	// passEvery is how often it is stored anew that a check passes: the store forgets first what was stored first.
	passEvery = time.Hour
	// lostFor is for how long a check stays lost after it has failed, so that who looks every few minutes sees it.
	lostFor = 5 * time.Minute
)

// How often a service does what takes a while. Tests make all of it shorter, so that none of them waits for the next time.
//
//nolint:gochecknoglobals // for tests, as source.Overwriting
var (
	// proveEvery is how often it makes the checks if the store has changed, looks for bindings that go, and stores what proves the state, each at most:
	// what takes long is done more rarely.
	proveEvery = 5 * time.Second
	// keepProofs bounds how often it makes the checks: that takes at most a twentieth of the time. They are good for freshProofs at least.
	keepProofs  = 20
	freshProofs = time.Second
	// stateShare bounds how often it stores what proves the state: that takes at most a hundredth of the time.
	stateShare = 100
)

// openCheckWatch begins with what had passed before.
func openCheckWatch(ctx context.Context, proofs *prover, log zerolog.Logger) (*checkWatch, error) {
	w := &checkWatch{proofs: proofs, log: log, passed: map[string]time.Time{}, stored: map[string]time.Time{}, lost: map[string]time.Time{}}
	all, err := proofs.store.RememberedOf(ctx, rememberedPasses)
	if err != nil {
		return nil, err
	}
	for i := range all {
		var at time.Time
		if err := at.UnmarshalText(all[i].Value); err != nil {
			return nil, fmt.Errorf("reading when the check %s passed: %w", all[i].Key, err)
		}
		w.passed[all[i].Key] = at
	}
	return w, nil
}

// run makes the checks until ctx ends. What goes wrong is logged once, and the checks of before stand with their time.
func (w *checkWatch) run(ctx context.Context) error {
	tick := time.NewTicker(proveEvery)
	defer tick.Stop()
	failing := false
	for {
		err := w.look(ctx, time.Now())
		if err != nil && !failing && ctx.Err() == nil {
			w.log.Warn().Err(err).Msg("cannot make the checks; their metrics stay as they are")
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look makes the checks.
func (w *checkWatch) look(ctx context.Context, now time.Time) error {
	f, err := w.proofs.facts(ctx)
	if err != nil {
		return err
	}
	if err := w.proofs.prove(ctx, nil, f.MinWindow, &f); err != nil {
		return err
	}
	whole, err := w.whole(ctx, now, f.MinWindow, f.Begins)
	if err != nil {
		return err
	}
	w.take(now, whole, checks.Conclude(checks.Ready, f.Checks, f.Waivers), checks.Conclude(checks.Confined, f.Checks, f.Waivers))
	return nil
}

// whole reports whether what is stored reaches back as far as everything must be proven. Before that a check passes for lack of what could fail it, while
// an old log is read for example.
func (w *checkWatch) whole(ctx context.Context, now time.Time, least time.Duration, begins time.Time) (bool, error) {
	from, _, err := w.proofs.store.Range(ctx)
	if err != nil || from.IsZero() {
		return false, err
	}
	newest, err := w.proofs.store.Newest(ctx, now)
	return !later(from, begins).After(newest.Add(-least)), err
}

// take takes the checks over. They count as passed only if whole.
func (w *checkWatch) take(now time.Time, whole bool, ready, confined checks.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, v := range []*checks.Verdict{&ready, &confined} {
		if whole {
			for _, name := range v.Passed {
				w.passed[name] = now
			}
		}
		for _, name := range v.Failed {
			if !w.passed[name].IsZero() {
				w.lost[name] = now
			}
		}
	}
	lost := maps.Clone(w.lost)
	w.last = &metrics.Checks{Ready: ready, Confined: confined, Made: now, Lost: func(check string) bool {
		at, was := lost[check]
		return was && now.Sub(at) < lostFor
	}}
}

// remember is what is to be stored now.
func (w *checkWatch) remember(now time.Time) []tally.Remembered {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []tally.Remembered
	for name, at := range w.passed {
		if now.Sub(w.stored[name]) < passEvery {
			continue
		}
		value, err := at.UTC().MarshalText()
		if err != nil {
			continue // a year of five digits
		}
		w.stored[name] = now
		out = append(out, tally.Remembered{Kind: rememberedPasses, Key: name, Value: value})
	}
	return out
}

// metrics are the checks that were made last, nil before that.
func (w *checkWatch) metrics() *metrics.Checks {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
