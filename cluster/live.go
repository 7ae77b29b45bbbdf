package cluster

import (
	"context"
	"fmt"
	"hash/maphash"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// LiveConfig says how the state follows a cluster. Only Record.Config is needed.
type LiveConfig struct {
	// Record is as for Record, but that Now is taken for a clock that may be set back, that RetryRefused is 1 min if zero, and MaxBackoff 5 s:
	// as long as it waits after an API server is back, all is unknown.
	Record RecordConfig
	// Dir is the folder of the journal, which is made if need be and belongs to one process at a time; without one a restart knows nothing
	// of what was before. It can be given to State.Load.
	Dir string
	// Horizon is for how long the journal is kept, 24 h if zero.
	Horizon time.Duration
	// Settle is how long news of a change may take to arrive from the API server, 500 ms if zero.
	Settle time.Duration
	// MaxFile is how long a file of the journal may grow until the next is begun, in bytes, 64 MiB if zero. It may grow to twice what a
	// list of all objects takes, though.
	MaxFile int64
}

// Live keeps a State up to date with a cluster, and a journal of it on disk. Its methods may be called concurrently.
type Live struct {
	cfg   LiveConfig
	state *State
	log   zerolog.Logger
	kinds [numKinds]*liveKind
	clock *clock
	seed  maphash.Seed
	// tidy asks for the journal's closed files to be packed.
	tidy chan struct{}
}

// NewLive returns what will feed state. It loads the journal that a former process has kept in cfg.Dir; load other files before. Until Run has
// listed a kind, or taken up its watch where the journal ends, absence of its objects is unknown from there on.
//
// It does not talk to the cluster: an error says that the folder or the configuration cannot be used.
func NewLive(cfg LiveConfig, state *State, log zerolog.Logger) (*Live, error) {
	if cfg.Record.RetryRefused == 0 {
		cfg.Record.RetryRefused = time.Minute
	}
	if cfg.Record.MaxBackoff == 0 {
		cfg.Record.MaxBackoff = 5 * time.Second
	}
	cfg.Record = cfg.Record.withDefaults()
	if cfg.Horizon <= 0 {
		cfg.Horizon = 24 * time.Hour
	}
	if cfg.Settle <= 0 {
		cfg.Settle = 500 * time.Millisecond
	}
	if cfg.MaxFile <= 0 {
		cfg.MaxFile = 64 << 20
	}
	l := &Live{cfg: cfg, state: state, log: log, seed: maphash.MakeSeed(), tidy: make(chan struct{}, 1)}
	l.clock = &clock{now: cfg.Record.Now, back: l.setBack}
	l.cfg.Record.Now = l.clock.read
	client, err := newClient(cfg.Record.Config)
	if err != nil {
		return nil, err
	}
	for id := range kinds {
		l.kinds[id] = newLiveKind(l, kindID(id), client)
	}
	if cfg.Dir != "" {
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return nil, fmt.Errorf("making the folder of the state's journal: %w", err)
		}
		if err := l.restore(); err != nil {
			return nil, err
		}
	}
	state.mu.Lock()
	defer state.mu.Unlock()
	state.inputs++
	for _, k := range l.kinds {
		k.begin()
	}
	return l, nil
}

// restore loads the journal and finds out where its watches were.
func (l *Live) restore() error {
	if err := cleanJournals(l.cfg.Dir); err != nil {
		return err
	}
	files, err := listJournals(l.cfg.Dir)
	if err != nil {
		return err
	}
	now := l.clock.read()
	end := now
	for _, k := range l.kinds {
		if files[k.id], err = k.restore(files[k.id]); err != nil {
			return err
		}
		if good := k.rec.good; good.After(now) {
			end, k.rec.good = later(end, good), now
		}
	}
	if err := l.load(files); err != nil {
		return err
	}
	l.clock.mustFollow(end)
	recorders := make([]*kindRecorder, numKinds)
	for id, k := range l.kinds {
		recorders[id] = k.rec
	}
	callWitness(recorders)
	return nil
}

// callWitness lets cluster roles or nodes tell whether it is the same cluster: the first of them stays for as long as the cluster does.
func callWitness(all []*kindRecorder) {
	for _, id := range []kindID{kindClusterRole, kindNode} {
		r := all[id]
		if !r.listed || len(r.known) == 0 {
			continue
		}
		w := &witness{kind: id, version: r.version, uids: make(map[nodeauthz.NamespacedName]string, len(r.known))}
		for name, o := range r.known {
			w.uids[name] = o.uid
		}
		for _, k := range all {
			k.witness = w
		}
		return
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// load loads the files. One that is damaged is set aside with all that are older, since its content is not known.
func (l *Live) load(files [numKinds][]journalPath) error {
	for {
		var paths []string
		for _, of := range files {
			for _, f := range of {
				paths = append(paths, f.path)
			}
		}
		if len(paths) == 0 {
			return nil
		}
		err := l.state.Load(paths, nil)
		if err == nil {
			return nil
		}
		if !setAside(&files, err) {
			return fmt.Errorf("loading the journal of the state: %w", err)
		}
		l.log.Error().Err(err).Msg("a file of the state's journal is damaged: it and those before it are not used")
	}
}

// Run follows the cluster until ctx is done, through outages of any length, and returns when the journal is on disk.
func (l *Live) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, k := range l.kinds {
		running.Go(func() {
			k.rec.run(ctx)
			k.stopped()
		})
	}
	if l.cfg.Dir != "" {
		running.Go(func() { l.keepTidy(ctx) })
	}
	running.Wait()
}

// keepTidy packs the files that are closed and deletes those that are too old.
func (l *Live) keepTidy(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	for {
		current := map[string]bool{}
		for _, k := range l.kinds {
			current[k.currentFile()] = true
		}
		if err := tidyJournals(ctx, l.cfg.Dir, current, l.clock.read().Add(-l.cfg.Horizon)); err != nil && ctx.Err() == nil {
			l.log.Error().Err(err).Msg("the journal of the state cannot be tidied up")
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-l.tidy:
		}
	}
}

// setBack notes that the clock went from one time back to another: what was observed in between is dated wrongly.
func (l *Live) setBack(from, to time.Time) {
	l.log.Error().Time("from", from).Time("to", to).Msg("the clock was set back: what was not seen in between is unknown")
	l.state.mu.Lock()
	defer l.state.mu.Unlock()
	for id := range kinds {
		l.state.uncovered(kindID(id), to.UnixNano(), from.UnixNano())
	}
}

// clock is a clock that does not go back by little. Observations are put in order by it.
type clock struct {
	mu   sync.Mutex
	now  func() time.Time
	last time.Time
	// back is called when it was set back by more than tolerance. It may not read the clock.
	back func(from, to time.Time)
}

// tolerance is how far a clock may be set back without harm: it stands still until it is there again.
const tolerance = 5 * time.Second

func (c *clock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	switch was := c.last; {
	case now.After(was):
		c.last = now
	case was.Sub(now) > tolerance:
		c.last = now
		c.back(was, now)
	}
	return c.last
}

// mustFollow sets the time that the next one may not be before.
func (c *clock) mustFollow(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = t
}
