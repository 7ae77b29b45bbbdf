package file

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// From says where a log is begun that no position is stored of.
type From uint8

const (
	// Beginning reads all that is there, rotated files included, from the oldest.
	Beginning From = iota
	// End reads what is written after the start. It is meant for the logs that are there at the start; those that come later are read from
	// their beginning.
	End
)

// FollowOptions say what to follow, and how. The zero value of each but Paths means its default.
type FollowOptions struct {
	// Paths are the logs: files, which need not be there yet, and globs. Rotated files need not be named; where a glob matches them too, they
	// count as what they are.
	Paths []string
	// Want is what to decode in addition to the requests of nodes.
	Want audit.Want
	// From is where to begin a log that has no position yet.
	From From
	// MaxEventBytes bounds an event, 4 MiB by default.
	MaxEventBytes int
	// MaxPlaces bounds the places of malformed lines in a batch, 20 by default.
	MaxPlaces int
	// Workers is how many chunks are decoded at a time, by default one for each processor.
	Workers int
	// MaxLogs bounds how many logs are followed at a time, 1000 by default.
	MaxLogs int
	// Poll is how often the files are looked at, whether the system tells of changes or not: 1 second by default. Network file systems do
	// not tell.
	Poll time.Duration
	// PollOnly never asks the system to tell.
	PollOnly bool
	// Linger is for how many polls a file that was rotated away must not have grown before the next is begun. By default it is 1, and a
	// negative one is none. Even then a file is left only when the next has content.
	Linger int
	// FollowLinks has symbolic links below the folders of Paths lead anywhere. Without it they lead only to files of their own owner below these folders:
	// whoever may write into such a folder cannot have other files read.
	FollowLinks bool
	// Gap is called when part of a log may never be read, with a clause that says why. Several goroutines may call it at once.
	Gap func(lane, cause string)
}

// Follow is a source of batches: logs that are still written, each with its rotated predecessors. Each log is a lane, "file:" and the
// absolute path that it is written under.
//
// A file is known by what it begins with, and by device and inode; so it is found again when it was renamed, copied or compressed, and what
// has taken its name or inode is not mistaken for it. Where a log is truncated in place and a copy of it was made (logrotate's
// copytruncate), what was not read before is read from the copy. What was written between the copying and the truncation is lost if it was
// not read in time, and is unknown to be.
type Follow struct {
	opt FollowOptions
	log zerolog.Logger

	mu    sync.Mutex
	lanes map[string]*lane // by path
}

// NewFollow returns a source that follows logs.
func NewFollow(opt FollowOptions, log zerolog.Logger) *Follow {
	if opt.MaxEventBytes <= 0 {
		opt.MaxEventBytes = audit.DefaultMaxEventBytes
	}
	if opt.MaxPlaces == 0 {
		opt.MaxPlaces = 20
	}
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	if opt.MaxLogs <= 0 {
		opt.MaxLogs = 1000
	}
	if opt.Poll <= 0 {
		opt.Poll = time.Second
	}
	if opt.Linger == 0 {
		opt.Linger = 1
	}
	if opt.Gap == nil {
		opt.Gap = func(string, string) {}
	}
	return &Follow{opt: opt, log: log, lanes: map[string]*lane{}}
}

// LaneStats says how far a log was read.
type LaneStats struct {
	Lane string
	// File is the file that is being read, "" if there is none yet.
	File string
	// Trouble is why the log itself cannot be read now, "" if it can: it is not there, or may not be read. Its predecessors may be read all the same.
	Trouble string
	// Behind is how many bytes are there that are not stored: of compressed files as they are, of others plain.
	Behind int64
	// Since is when Stats noticed that there are such bytes, and nothing was stored after that; zero if there are none.
	Since time.Time
	// Stored is how many plain bytes were, since the start.
	Stored int64
	// LastEvent is the time of the last event among those, zero if there was none.
	LastEvent time.Time
	// Gaps is how often part of the log may have been lost.
	Gaps int64
}

// Stats returns how far each log was read, in the order of the lanes' names. It may be called at any time.
func (f *Follow) Stats() []LaneStats {
	f.mu.Lock()
	lanes := make([]*lane, 0, len(f.lanes))
	for _, l := range f.lanes {
		lanes = append(lanes, l)
	}
	f.mu.Unlock()
	out := make([]LaneStats, len(lanes))
	for i, l := range lanes {
		out[i] = l.stats()
	}
	slices.SortFunc(out, func(a, b LaneStats) int { return strings.Compare(a.Lane, b.Lane) })
	return out
}

// Run follows the logs until ctx ends, and returns its error, or until in has refused all lanes, and returns why. It is called once.
// A lane whose log or folder cannot be read is tried again at each poll, and so is one that in has failed for another reason than
// that it is closed or another's.
func (f *Follow) Run(ctx context.Context, in source.Intake) error {
	if len(f.opt.Paths) == 0 {
		return errors.New("no logs to follow were named")
	}
	paths := make([]string, len(f.opt.Paths))
	for i, p := range f.opt.Paths {
		abs, err := filepath.Abs(p)
		if err != nil {
			return fmt.Errorf("the log %s: %w", p, err)
		}
		if _, err := filepath.Match(abs, ""); err != nil {
			return fmt.Errorf("%s: not a pattern: %w", p, err)
		}
		paths[i] = abs
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	r := &running{Follow: f, paths: paths, reach: newReach(paths, f.opt.FollowLinks), in: in, wg: &wg, ended: make(chan error), said: map[string]string{}, ctx: ctx,
		decoders: newDecoders(Options{Want: f.opt.Want, MaxEventBytes: f.opt.MaxEventBytes, MaxPlaces: f.opt.MaxPlaces})}
	for range f.opt.Workers {
		wg.Go(func() { r.work(ctx) })
	}
	if !f.opt.PollOnly {
		w, err := fsnotify.NewWatcher()
		if err != nil {
			f.log.Warn().Err(err).Stringer("poll", f.opt.Poll).Msg("the system does not tell of changes to files; they are polled")
		} else {
			defer w.Close()
			r.watcher = w
		}
	}
	return r.run()
}

// running is what Run needs while it runs.
type running struct {
	*Follow
	*decoders
	ctx     context.Context
	paths   []string
	reach   *reach
	in      source.Intake
	wg      *sync.WaitGroup
	watcher *fsnotify.Watcher
	ended   chan error
	lost    int // lanes that ended
	said    map[string]string
	started bool
	full    bool
}

func (r *running) run() error {
	tick := time.NewTicker(r.Follow.opt.Poll)
	defer tick.Stop()
	var events chan fsnotify.Event
	var failures chan error
	if r.watcher != nil {
		events, failures = r.watcher.Events, r.watcher.Errors
	}
	r.look()
	for {
		select {
		case <-r.ctx.Done():
			return r.ctx.Err()
		case ev, open := <-events:
			if !open {
				events = nil
				continue
			}
			if ev.Has(fsnotify.Create) || ev.Has(fsnotify.Rename) {
				r.look()
			}
			r.wake(ev.Name)
		case err, open := <-failures:
			if !open {
				failures = nil
				continue
			}
			r.say("watch", fmt.Errorf("watching the folders of the logs: %w", err))
			r.wake("")
		case <-tick.C:
			r.look()
		case err := <-r.ended:
			if r.lost++; r.lost == len(r.lanes) {
				return fmt.Errorf("no log is followed any more: %w", err)
			}
			r.log.Error().Err(err).Msg("a log is not followed any more")
		}
	}
}

// wake tells the lanes that the path may belong to, all if it is "".
func (r *running) wake(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lanes {
		if path == "" || l.fam.owns(path) {
			select {
			case l.wake <- struct{}{}:
			default:
			}
		}
	}
}

// look starts a lane for each log that has none yet, and watches its folders.
func (r *running) look() {
	folders := map[string]bool{}
	for _, path := range r.logs() {
		l := r.lanes[path]
		if l == nil {
			if l = r.begin(path); l == nil {
				continue
			}
		}
		for _, folder := range l.fam.folders {
			folders[folder.dir] = true
		}
	}
	for _, p := range r.paths {
		if dir := filepath.Dir(p); !magic(dir) {
			folders[dir] = true
		}
	}
	r.started = true
	if r.watcher == nil {
		return
	}
	watched, anew := map[string]bool{}, false
	for _, dir := range r.watcher.WatchList() {
		watched[dir] = true
	}
	for dir := range folders { // again each time: a folder may have been removed and made anew
		err := r.watcher.Add(dir)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			r.say(dir, fmt.Errorf("watching the folder %s, which is polled: %w", dir, err))
		}
		anew = anew || err == nil && !watched[dir]
	}
	if anew { // a lane may have looked before the folder was watched, and something may have come in between
		r.wake("")
	}
}

// begin starts a lane; nil if there are too many, or the log is followed under another name.
func (r *running) begin(path string) *lane {
	id := identity(path)
	for _, l := range r.lanes {
		if l.identity == id {
			return nil
		}
	}
	if len(r.lanes) >= r.Follow.opt.MaxLogs {
		if !r.full {
			r.full = true
			r.log.Error().Str("path", path).Int("logs", len(r.lanes)).Msg("more logs than are followed at a time: the rest is not read")
			r.Follow.opt.Gap("file:"+path, fmt.Sprintf("more than %d logs: this and all others beyond are not read", len(r.lanes)))
		}
		return nil
	}
	l := newLane(r, path, id, r.started)
	r.mu.Lock()
	r.lanes[path] = l
	r.mu.Unlock()
	r.wg.Go(func() {
		if err := l.run(r.ctx, r.in); err != nil {
			select {
			case r.ended <- err:
			case <-r.ctx.Done():
			}
		}
	})
	return l
}

// say logs an error, once for as long as it is the same.
func (r *running) say(about string, err error) {
	if text := err.Error(); r.said[about] != text {
		r.said[about] = text
		r.log.Warn().Err(err).Msg("following logs")
	}
}

func magic(path string) bool { return strings.ContainsAny(path, `*?[`) }

// logs are the paths that logs are written under, of what is configured. A rotated file counts for its log where that is configured too.
func (r *running) logs() []string {
	var all []string
	plain := map[string]bool{}
	for _, p := range r.paths {
		if _, err := os.Lstat(p); err == nil || !magic(p) { // a name that looks like a pattern is a file first
			plain[p] = true
			all = append(all, p)
			continue
		}
		matches, _ := filepath.Glob(p)
		for _, m := range matches {
			if info, err := os.Stat(m); err == nil && info.Mode().IsRegular() {
				all = append(all, m)
			}
		}
	}
	configured := func(path string) bool {
		return plain[path] || slices.ContainsFunc(r.paths, func(p string) bool {
			ok, _ := filepath.Match(p, path)
			return ok && magic(p)
		})
	}
	var out []string
	for _, p := range all {
		dir, base := filepath.Split(p)
		for _, name := range liveNames(base) {
			if live := filepath.Join(dir, name); configured(live) {
				p = live
				break
			}
		}
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}
