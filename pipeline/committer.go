package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// committer stores what is judged, one commit at a time, and tries one that failed again until it is stored. Nothing is acknowledged before.
// One goroutine uses it; the store is called from another one, whose end that goroutine reads from results and gives to ended.
type committer struct {
	opt     *EngineOptions
	parts   *partitions
	witness *witness
	// memory is what has changed of what is remembered; all of it if last is set.
	memory func(now time.Time, last bool) []tally.Remembered
	// ctx is the commits': what was judged is still stored when the engine is asked to stop, for a while.
	ctx     context.Context
	results chan error

	under     *commit // under way, or to be tried again
	running   bool
	began     time.Time // the commit that is running
	next      time.Time // the earliest time of the next commit
	nextFacts time.Time
	retryAt   time.Time
	retries   int
	last      bool // the engine stops
	lastFacts bool // and the facts are to be stored once more
	closing   []closing
	spare     []byte // for the evidence of the next commit

	failures int64
	failing  time.Time // since when commits fail, zero if they do not
	givenUp  int64     // partitions that were closed before what failed of them could be stored
}

type closing struct {
	part *partition
	done chan struct{}
}

const (
	// factsEvery is how often the facts of a report are stored.
	factsEvery = 5 * time.Second
	// commitsWithin is how long a commit may take until the store counts as failing: the process is then not ready, and gets no more batches.
	commitsWithin = 10 * time.Second
	// lastCommit is how long the last commit may take when the engine stops.
	lastCommit = 15 * time.Second
)

// begin begins a commit if it is time and there is something to store, and returns when to call it again.
func (k *committer) begin(now time.Time) time.Time {
	switch {
	case k.running:
		return time.Time{}
	case k.under != nil:
		if now.Before(k.retryAt) {
			return k.retryAt
		}
	case now.Before(k.next):
		return k.next
	default:
		if k.under = k.gather(now); k.under == nil {
			if k.opt.Facts == nil {
				return time.Time{}
			}
			return k.nextFacts // also of a log that falls silent
		}
	}
	k.run()
	return time.Time{}
}

// gather makes a commit of what is to be stored, nil if there is nothing.
func (k *committer) gather(now time.Time) *commit {
	c := k.parts.gather(now)
	facts := k.opt.Facts != nil && (k.lastFacts || !now.Before(k.nextFacts))
	if len(c.parts) == 0 && !facts && !k.last {
		return nil
	}
	c.c.At = now
	c.c.Memory = k.memory(now, k.last)
	if facts {
		c.c.Facts, c.c.Instance = k.opt.Facts(), k.opt.Instance
		k.nextFacts, k.lastFacts = now.Add(factsEvery), false
	}
	if len(c.parts) == 0 && len(c.c.Memory) == 0 && !facts {
		return nil
	}
	// With the batches that it completes, or before: all their events were seen.
	c.c.Evidence = k.witness.changes(k.spare[:0], k.parts.latest(now))
	k.spare = nil
	return c
}

// run has the commit stored, apart from the caller's goroutine.
func (k *committer) run() {
	k.running, k.began = true, k.opt.Now()
	go func(ctx context.Context, c *commit, began time.Time) {
		err := k.opt.Store.Commit(ctx, &c.c)
		if err == nil && k.opt.Stored != nil {
			k.opt.Stored(c.report(began, k.opt.Now()))
		}
		k.results <- err
	}(k.ctx, k.under, k.began)
}

// ended is called with how the commit ended.
func (k *committer) ended(err error) {
	k.running = false
	now := k.opt.Now()
	if err != nil {
		for _, w := range k.closing {
			k.takeOut(w.part.name, source.ErrClosed)
		}
	}
	var fenced *tally.FencedError
	switch {
	case err == nil:
		if !k.failing.IsZero() {
			k.opt.Log.Info().Time("failedSince", k.failing).Msg("the store takes commits again")
		}
		c := k.under
		k.under, k.retries, k.next, k.failing = nil, 0, now.Add(k.opt.CommitEvery), time.Time{}
		k.spare = c.c.Evidence
		k.parts.stored(c)
	case errors.As(err, &fenced):
		for _, name := range fenced.Lanes {
			k.opt.Log.Info().Str("partition", name).Msg("another process has taken over")
			k.takeOut(name, source.ErrFenced)
		}
		k.retryAt = now
	default:
		k.retries++
		k.retryAt = now.Add(min(100*time.Millisecond<<min(k.retries, 7), 5*time.Second))
		k.failures++
		if k.failing.IsZero() {
			k.failing = now
		}
		k.opt.Log.Error().Err(err).Int("attempt", k.retries).Msg("commit failed; acknowledgements paused")
	}
	k.closed()
}

// takeOut takes the partition of that name out of the commit. The evidence stays even if nothing else does: it is also that of events whose batches
// come later, and is not handed out again.
func (k *committer) takeOut(name string, why error) {
	if k.under == nil {
		return
	}
	at := slices.IndexFunc(k.under.parts, func(l *partition) bool { return l.name == name })
	if at < 0 {
		return
	}
	if errors.Is(why, source.ErrClosed) { // what is left may well be stored, which is then no sign that this was
		k.givenUp++
	}
	if k.parts.takeOut(k.under, k.under.parts[at], why) {
		return
	}
	if k.opt.Forgone != nil {
		k.opt.Forgone(k.under.c.Memory)
	}
	k.under.c.Memory, k.under.c.Facts = nil, nil
	if len(k.under.c.Evidence) == 0 {
		k.under = nil
	}
}

// close gives a partition up; done is closed once no commit of it is under way.
func (k *committer) close(l *partition, done chan struct{}) {
	k.parts.drop(l, source.ErrClosed)
	if k.under.has(l) && !k.running {
		k.takeOut(l.name, source.ErrClosed)
	}
	k.closing = append(k.closing, closing{l, done})
	k.closed()
}

// closed tells who waits for it that no commit of a closed partition is under way.
func (k *committer) closed() {
	k.closing = slices.DeleteFunc(k.closing, func(w closing) bool {
		if k.under.has(w.part) {
			return false
		}
		close(w.done)
		return true
	})
}

// stop stores what was judged and gives the rest up.
func (k *committer) stop() error {
	k.last, k.lastFacts = true, true
	for tries := 0; tries < 3; tries++ {
		if !k.running {
			if k.under == nil {
				k.under = k.gather(k.opt.Now())
			}
			if k.under == nil {
				break
			}
			k.run()
		}
		k.ended(<-k.results)
	}
	for _, l := range k.parts.sorted() {
		k.parts.drop(l, source.ErrClosed)
	}
	if c := k.under; c != nil { // it failed: its sources will bring it again
		for _, b := range c.batches {
			k.parts.finish(b, source.ErrClosed)
		}
		k.under = nil
		k.closed()
		return errors.New("what was judged last could not be stored; its sources will bring it again")
	}
	return nil
}
