package app

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/store"
)

// housekeeper forgets what is too old, and tells what is late. It runs with the other parts, and there is nothing to close.
type housekeeper struct {
	store   *store.Store
	engine  *court
	state   *stateFeed
	sources *sourceSet
	gaps    *gapTeller
	log     zerolog.Logger
	used    map[string]time.Time // when each lane had something in hand
	told    time.Time            // when that of a full state was last
}

// run keeps house once a minute.
func (h *housekeeper) run(ctx context.Context) error {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	h.used = map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			if err := h.store.Prune(ctx, now); err != nil && ctx.Err() == nil {
				h.log.Warn().Err(err).Msg("cannot forget what is too old in the store")
			}
			h.shrink(ctx)
			h.prune(ctx, now)
			h.sources.tellLate()
		}
	}
}

// shrink holds the store to its bound, and tells what that cost.
func (h *housekeeper) shrink(ctx context.Context) {
	s, err := h.store.Shrink(ctx)
	if err != nil && ctx.Err() == nil {
		h.log.Warn().Err(err).Msg("cannot hold the store to store.maxBytes")
	}
	if s.Groups > 0 || s.Over {
		h.gaps.lost(rules.StoreFull, "store", codes.Int(rules.ParamCount, s.Groups), codes.Int(rules.ParamAllowed, s.Allowed), codes.Int(rules.ParamBytes, s.Before))
	}
}

// prune forgets what of the state was over before the horizon, counted from the requests that come in: a log from last month is
// judged by last month's state. Where more has ended than is to be kept, it forgets what ended first before that.
func (h *housekeeper) prune(ctx context.Context, now time.Time) {
	oldest := pruneFrom(h.engine.Stats().Lanes, now, h.state.horizon, h.state.live != nil, h.used)
	var early time.Time
	if err := h.engine.Do(ctx, func() { early = h.state.prune(oldest) }); err != nil {
		return // the engine has stopped
	}
	if !early.IsZero() && now.Sub(h.told) >= time.Hour {
		h.told = now
		h.gaps.lost(rules.StateFull, "state", codes.Int(rules.ParamCount, int64(h.state.maxEnded)), codes.Time(rules.ParamUntil, early))
	}
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
