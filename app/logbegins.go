package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// rememberedBegins is the kind of memory in which each instance stores when the log begins, as far as it has read it: see [file.Result].Begins.
const rememberedBegins = "log-begins"

// logBegins stores when the log begins that a service reads. The engine's loop alone uses it.
type logBegins struct {
	instance string
	at       time.Time // as the engine finds it
	stored   time.Time // the earliest that the store has
	unknown  bool      // the store has requests of a release that did not store it
}

// openLogBegins continues what is stored.
func openLogBegins(ctx context.Context, s *store.Store, instance string) (*logBegins, error) {
	b := &logBegins{instance: instance}
	var err error
	if b.stored, err = storedBegins(ctx, s); err != nil {
		return nil, err
	}
	_, to, err := s.Range(ctx)
	b.unknown = b.stored.IsZero() && !to.IsZero()
	return b, err
}

// changes is what is to be stored.
func (b *logBegins) changes() []tally.Remembered {
	if b.unknown || b.at.IsZero() || !b.stored.IsZero() && !b.at.Before(b.stored) {
		return nil
	}
	value, err := b.at.UTC().MarshalText()
	if err != nil {
		return nil // no log has such a year
	}
	b.stored = b.at
	return []tally.Remembered{{Kind: rememberedBegins, Key: b.instance, Value: value}}
}

// storedBegins is when the log begins that is stored, zero if that is not known.
func storedBegins(ctx context.Context, s *store.Store) (begins time.Time, err error) {
	all, err := storedTimes(ctx, s, rememberedBegins)
	if err != nil || len(all) == 0 {
		return time.Time{}, err
	}
	return slices.MinFunc(all, time.Time.Compare), nil
}

// storedTimes are the times of a kind of memory that holds one for each instance.
func storedTimes(ctx context.Context, s *store.Store, kind string) ([]time.Time, error) {
	all, err := s.RememberedOf(ctx, kind)
	if err != nil {
		return nil, err
	}
	out := make([]time.Time, len(all))
	for i := range all {
		if err := out[i].UnmarshalText(all[i].Value); err != nil {
			return nil, fmt.Errorf("reading the time of %s: %w", kind, err)
		}
	}
	return out, nil
}
