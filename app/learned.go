package app

import (
	"context"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// rememberedLearned is the kind of memory in which each instance stores up to when its state learned from audit events. The state is in memory alone, so that a restart
// forgets what they show.
const rememberedLearned = "state-learned"

// learnedUntil stores that. The engine's loop alone uses it.
type learnedUntil struct {
	feed     *stateFeed // nil where the state does not learn from audit events, or continues in a journal of its own
	instance string
	stored   time.Time
}

// openLearned has the state know what a process before this one learned, and this one does not. Of several analyzers, each learns from what it reads.
func openLearned(ctx context.Context, s *store.Store, feed *stateFeed, fromAudit bool, instance string) (*learnedUntil, error) {
	l := &learnedUntil{instance: instance}
	if !fromAudit || feed.live != nil {
		return l, nil
	}
	l.feed = feed
	all, err := storedTimes(ctx, s, rememberedLearned)
	if err != nil || len(all) == 0 {
		return l, err
	}
	l.stored = slices.MaxFunc(all, time.Time.Compare)
	end, forgot := feed.Forgot(l.stored)
	if forgot || !feed.given {
		warning := feed.log.Warn().Time("to", l.stored)
		if forgot {
			warning = warning.Time("from", end)
		}
		warning.Msg("what bodies in the audit log showed before this start is not known any more: verdicts that depend on it are unknown; to keep it, watch the cluster (state.live)")
	}
	return l, nil
}

// changes is what is to be stored. The clock bounds it: a wrong time of one event must not make all that comes unknown.
func (l *learnedUntil) changes(now time.Time) []tally.Remembered {
	if l.feed == nil {
		return nil
	}
	at := l.feed.Learned()
	if at.After(now) {
		at = now
	}
	if !at.After(l.stored) {
		return nil
	}
	value, err := at.UTC().MarshalText()
	if err != nil {
		return nil // no clock has such a year
	}
	l.stored = at
	return []tally.Remembered{{Kind: rememberedLearned, Key: l.instance, Value: value}}
}
