package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

// settle is how long after the system has notified of a change a log is read, so that lines which are written at once come at once.
const settle = 20 * time.Millisecond

// lane is one log, being followed. All but what is marked so belongs to the goroutine that reads.
type lane struct {
	*decoders
	opt      *FollowOptions
	log      zerolog.Logger
	name     string
	identity string // of the path
	fam      *family
	wake     chan struct{} // anybody's
	late     bool          // the log was not there at the start
	in       source.Intake
	queue    chan *piece

	begun  bool
	stored string // where to begin
	end    string // where it was begun at the end, until that is stored
	cur    *tailed
	// done are the files that were read to their end, and pending those that are to be read after cur, in order.
	done    []mark
	pending []entry
	left    []left
	fresh   bool // pending was found out just now
	ticked  bool // a poll has come since the last step
	said    map[string]string
	passed  map[string]bool // unreadable files that were given up
	stuck   struct {        // what could not be read, how large it was then, and for how many polls
		path  string
		size  int64
		polls int
	}

	unread, inFlight atomic.Int64 // bytes

	mu         sync.Mutex // for all below, which is anybody's
	report     LaneStats
	storedThen int64 // as of report.Since
}

func newLane(r *running, path, id string, late bool) *lane {
	name := "file:" + path
	return &lane{decoders: r.decoders, opt: &r.Follow.opt, log: r.log.With().Str("partition", name).Logger(), name: name, identity: id, fam: newFamily(path, r.reach),
		wake: make(chan struct{}, 1), late: late, report: LaneStats{Lane: name}}
}

// run follows the log until ctx ends, and returns nil; or until the lane is another's or closed, and returns that.
func (l *lane) run(ctx context.Context, in source.Intake) error {
	l.in = in
	for ctx.Err() == nil {
		err := l.once(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, source.ErrFenced), errors.Is(err, source.ErrClosed):
			return fmt.Errorf("%s: %w", l.name, err)
		default:
			l.log.Error().Err(err).Msg("the log is read again from where it was stored")
			select {
			case <-time.After(l.opt.Poll):
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// once opens the lane and follows it until something fails.
func (l *lane) once(ctx context.Context) error {
	stored, err := l.in.Open(ctx, l.name, 0)
	if err != nil {
		return err
	}
	defer l.in.Close(l.name)
	if stored == "" {
		stored = l.end
	}
	l.begun, l.stored, l.cur, l.done, l.pending, l.fresh = false, stored, nil, nil, nil, false
	l.said, l.passed = map[string]string{}, map[string]bool{}
	l.unread.Store(0)
	l.inFlight.Store(0)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	l.queue = make(chan *piece, 2*l.opt.Workers)
	var giving sync.WaitGroup
	giving.Go(func() { l.give(ctx, l.queue, cancel) })
	l.follow(ctx)
	close(l.queue)
	l.cur.close()
	l.closeLeft()
	giving.Wait()
	return context.Cause(ctx)
}

// follow reads what is there, again and again, until ctx ends.
func (l *lane) follow(ctx context.Context) {
	tick := time.NewTicker(l.opt.Poll)
	defer tick.Stop()
	for ctx.Err() == nil {
		l.step(ctx)
		l.measure()
		select {
		case <-ctx.Done():
		case <-tick.C:
			l.ticked = true
			l.lookBack()
		case <-l.wake:
			select {
			case <-time.After(min(settle, l.opt.Poll)):
			case <-ctx.Done():
			}
		}
	}
}

// step reads all that is there.
func (l *lane) step(ctx context.Context) {
	if !l.begun && !l.begin(ctx) {
		return
	}
	grown := false
	for ctx.Err() == nil {
		if l.cur == nil && !l.advance() {
			return
		}
		t := l.cur
		if t.unbegun() && l.isLive() {
			// By the time it has a line it may have been truncated and be another, and what was there be in a copy.
			t.close()
			l.cur = nil
			return
		}
		grew, err := l.drain(ctx, false)
		grown = grown || grew
		switch {
		case errors.Is(err, errChanged):
			if !l.changed() {
				return
			}
			continue
		case err != nil:
			if ctx.Err() != nil || !l.damaged(err) {
				return
			}
			continue
		}
		l.fine("read")
		if l.isLive() {
			t.wasLive, t.succeeded, l.pending = true, false, nil
			return
		}
		if !l.rescan() || l.renamed() || len(l.pending) == 0 {
			return
		}
		if !t.succeeded && !t.final { // once more: what was written before the next file was begun
			t.succeeded = true
			continue
		}
		if l.lingers(grown) {
			return
		}
		if _, err := l.drain(ctx, true); err == nil && ctx.Err() == nil {
			l.leave()
		}
	}
}

// lingers is whether somebody may still write to the file that was rotated away.
func (l *lane) lingers(grown bool) bool {
	t := l.cur
	if t.final || !t.wasLive && !l.pending[0].live {
		return false
	}
	if grown {
		t.quiet = 0
	} else if l.ticked {
		t.quiet++
	}
	l.ticked = false
	return t.quiet < l.opt.Linger
}

// leave is done with the current file.
func (l *lane) leave() {
	l.done = append(l.done, l.cur.mark)
	l.leaves()
	l.cur, l.fresh = nil, true
}

// isLive is whether the current file is the one that is written under the log's name, as far as is known.
func (l *lane) isLive() bool {
	info, err := os.Stat(l.fam.live)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return os.SameFile(info, l.cur.info)
}

// advance begins the next file.
func (l *lane) advance() bool {
	if !l.fresh && !l.rescan() {
		return false
	}
	l.fresh = false
	l.pending = slices.DeleteFunc(l.pending, func(e entry) bool { return l.isDone(e.mark) })
	if len(l.pending) == 0 {
		return false
	}
	for path, e := range l.fam.seen {
		if e.err != nil && !e.live && !l.passed[path] {
			l.passed[path] = true
			l.gap(fmt.Sprintf("the rotated log cannot be read: %v", e.err))
		}
	}
	e := &l.pending[0]
	t, err := openTailed(e)
	if err == nil && e.cut { // it may hold something by now, but was not compared with what is done
		t.close()
		err = fmt.Errorf("%s: the compressed data is cut off or damaged", e.path)
	}
	if err != nil {
		l.say(e.path, err)
		if e.packed && l.again(e.path, e.info.Size()) && l.stuck.polls > patience {
			l.gap(err.Error())
			l.done = append(l.done, e.mark)
		}
		return false
	}
	l.cur = t
	l.pending = l.pending[1:]
	return true
}

// rescan finds out what is to be read after the current file; false if it cannot.
func (l *lane) rescan() bool {
	entries, err := l.fam.scan()
	if err != nil {
		l.say("folder", err)
		return false
	}
	l.fine("folder")
	for path := range l.passed {
		if _, there := l.fam.seen[path]; !there {
			delete(l.passed, path)
		}
	}
	for path := range l.said {
		if _, there := l.fam.seen[path]; !there && path != "folder" && path != "read" {
			delete(l.said, path)
		}
	}
	for _, e := range entries {
		if e.err != nil {
			l.say(e.path, e.err)
		}
	}
	for _, old := range l.pending {
		if len(old.head) > 0 && !l.isDone(old.mark) && !slices.ContainsFunc(entries, func(e entry) bool { return e.same(old.mark) || !tells(old.head) && e.sameFile(old.mark) }) {
			l.gap(fmt.Sprintf("%s was deleted or truncated before it was read", old.path))
		}
	}
	l.pending = unread(entries, l.isDone)
	if len(l.done) > 2*len(entries)+100 { // most of them are gone
		l.done = slices.DeleteFunc(l.done, func(m mark) bool {
			return !slices.ContainsFunc(entries, func(e entry) bool { return e.same(m) })
		})
	}
	return true
}

// isDone is whether a file is read already, or is the one that is.
func (l *lane) isDone(m mark) bool {
	return l.cur != nil && (l.cur.same(m) || l.cur.sameFile(m)) || slices.ContainsFunc(l.done, m.same)
}

// say logs what keeps the lane from continuing, once for as long as it is the same.
func (l *lane) say(about string, err error) {
	if errors.Is(err, errChanged) || errors.Is(err, fs.ErrNotExist) && about != "folder" {
		return // at the next poll it is something else
	}
	if text := err.Error(); l.said[about] != text {
		l.said[about] = text
		l.log.Warn().Err(err).Msg("following a log")
	}
}

func (l *lane) fine(about string) { delete(l.said, about) }

// gap tells of a loss.
func (l *lane) gap(cause string) {
	l.log.Error().Str("cause", cause).Msg("part of the log may be lost")
	l.mu.Lock()
	l.report.Gaps++
	l.mu.Unlock()
	l.opt.Gap(l.name, cause)
}

// measure notes how much is there that was not read.
func (l *lane) measure() {
	var n int64
	if t := l.cur; t != nil && t.plain == nil {
		n = max(0, t.size-t.offset)
	}
	for _, e := range l.pending {
		n += e.info.Size()
	}
	l.unread.Store(n)
	trouble := l.trouble()
	l.mu.Lock()
	l.report.File, l.report.Trouble = "", trouble
	if l.cur != nil {
		l.report.File = l.cur.path
	}
	l.mu.Unlock()
}

// trouble is why what is written under the log's name cannot be read, "" if it can.
func (l *lane) trouble() string {
	info, err := os.Stat(l.fam.live)
	switch {
	case err != nil:
	case !info.Mode().IsRegular(): // to open a pipe may take indefinitely
		err = errors.New("it is not a regular file")
	case l.cur == nil || !os.SameFile(info, l.cur.info):
		var f *os.File
		if f, err = l.fam.reach.open(l.fam.live); err == nil {
			err = f.Close()
		}
	}
	if err != nil {
		return unreadable(l.fam.live, err).Error()
	}
	return l.said["read"]
}

func (l *lane) stats() LaneStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.report
	if s.Behind = l.unread.Load() + l.inFlight.Load(); s.Behind == 0 || s.Stored != l.storedThen {
		s.Since, l.storedThen = time.Time{}, s.Stored
	}
	if s.Behind > 0 && s.Since.IsZero() {
		s.Since = time.Now()
	}
	return *s
}
