package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// begin decides where to begin; false to ask again later.
func (l *lane) begin(ctx context.Context) bool {
	entries, err := l.fam.scan()
	if err != nil {
		l.say("folder", err)
		return false
	}
	if len(entries) == 0 {
		l.say("folder", fmt.Errorf("waiting for the log %s, which is not there", l.fam.live))
		if l.stored != "" {
			return false // its disk may not be there yet
		}
	}
	var p position
	if l.stored != "" {
		if p, err = parsePosition(l.stored); err != nil {
			l.gap(err.Error() + ": all that is there is read again")
			l.stored = ""
		}
	}
	switch {
	case l.stored != "":
		return l.beginAt(entries, &p)
	case l.opt.From == End && !l.late:
		return l.beginAtEnd(ctx, entries)
	}
	l.begun = true
	return true
}

func (l *lane) beginAt(entries []entry, p *position) bool {
	i := p.find(entries)
	for _, e := range entries {
		if e.err != nil {
			l.say(e.path, e.err)
			if i < 0 && e.live {
				return false // it may be the one
			}
		}
	}
	if i < 0 {
		l.gap(fmt.Sprintf("the file that was read up to byte %d, %s then, is not next to the log any more: what was written to it later may be lost", p.Offset, p.Path))
		for _, e := range entries {
			if e.err == nil && !e.live && !e.first.After(p.First) {
				l.done = append(l.done, e.mark)
			}
		}
		l.begun = true
		return true
	}
	t, again, err := resume(&entries[i], p)
	if err != nil {
		l.say(entries[i].path, err)
		return false
	}
	if again {
		l.log.Warn().Str("path", t.path).Int64("offset", p.Offset).Msg("the log was rewritten; it is read again from its beginning")
	}
	for _, e := range entries[:i] {
		if e.err == nil {
			l.done = append(l.done, e.mark)
		}
	}
	l.cur, l.begun = t, true
	return true
}

// beginAtEnd passes over what is there. That is stored at once, so that what comes until the next start is not passed over too.
func (l *lane) beginAtEnd(ctx context.Context, entries []entry) bool {
	var t *tailed
	for i := range entries {
		e := &entries[i]
		switch {
		case e.err != nil && e.live:
			l.say(e.path, e.err)
			return false
		case e.err != nil:
		case e.live && !e.packed:
			var err error
			if t, err = openTailed(e); err == nil {
				err = t.toEnd(l.opt.MaxEventBytes)
			}
			if err != nil {
				t.close()
				l.say(e.path, err)
				return false
			}
		default:
			l.done = append(l.done, e.mark)
		}
	}
	l.cur, l.begun = t, true
	if t != nil { // an empty one too
		l.end = t.position().String()
		l.send(ctx, nil, &chunk{}, false)
	}
	return true
}

// toEnd moves behind the last whole line of a plain file.
func (t *tailed) toEnd(bound int) error {
	end := t.size
	buf := make([]byte, min(end, int64(bound)+1))
	n, err := t.f.ReadAt(buf, end-int64(len(buf)))
	if err != nil && !errors.Is(err, io.EOF) {
		return unreadable(t.path, err)
	}
	if nl := bytes.LastIndexByte(buf[:n], '\n'); nl >= 0 {
		end += int64(nl+1) - int64(len(buf))
	} else if end == int64(len(buf)) {
		end = 0
	}
	line := int64(0)
	if end == 0 {
		line = 1
	}
	_, err = t.goTo(end, line)
	return err
}

// room is a buffer for n bytes. Small ones are as large as they need to be: whoever takes the batch may hold many for long.
func (l *lane) room(n int) []byte {
	if n > chunkBytes/4 && n <= chunkBytes {
		return l.alloc()
	}
	return make([]byte, 0, n)
}

// drain hands on the whole lines of the current file that were not, and if it is to be its end, what is left of a line too. It is whether
// there were any. Its error is errChanged, ctx's, or why the file cannot be read.
func (l *lane) drain(ctx context.Context, end bool) (grew bool, err error) {
	t := l.cur
	var carry []byte
	var long chunk // what comes before the next chunk
	for {
		if err := ctx.Err(); err != nil {
			return grew, err
		}
		buf, atEnd, err := t.more(carry, l.room)
		if errors.Is(err, errChanged) {
			return grew, err
		}
		last := atEnd && (end || t.plain != nil)
		if t.long > 0 {
			rest, over := l.skip(buf, last, &long)
			if !over && !atEnd && err == nil {
				carry = nil
				continue
			}
			buf = rest
			grew = grew || over
		}
		n := bytes.LastIndexByte(buf, '\n') + 1
		if last {
			n = len(buf)
		} else if !atEnd { // NUL bytes part lines too, but those at the end of a file may not have been written yet
			n += bytes.LastIndexByte(buf[n:], 0) + 1
		}
		switch {
		case n > 0 || len(long.tooLong)+len(long.reduced) > 0:
			grew = true
			carry = slices.Clone(buf[n:])
			if !l.send(ctx, buf[:n], &long, !atEnd) {
				return grew, context.Cause(ctx)
			}
			long = chunk{}
		default:
			carry = buf
		}
		if t.long == 0 && len(carry) > l.opt.MaxEventBytes && n == 0 {
			t.pass(carry)
			t.reducer.Reset()
			t.reducer.Bound = int64(l.opt.MaxEventBytes)
			_, _ = t.reducer.Write(carry) // which never fails
			t.long, carry = int64(len(carry)), nil
		}
		if atEnd || err != nil {
			return grew, err
		}
	}
}

// skip steps over the rest of a line that is too long. It returns what follows, and whether the line is over.
func (l *lane) skip(buf []byte, last bool, long *chunk) (rest []byte, over bool) {
	t := l.cur
	end := bytes.IndexByte(buf, '\n')
	if end < 0 && !last {
		t.pass(buf)
		_, _ = t.reducer.Write(buf)
		t.long += int64(len(buf))
		return nil, false
	}
	next := len(buf)
	if end >= 0 {
		next = end + 1
	} else {
		end = next
	}
	_, _ = t.reducer.Write(buf[:end])
	long.addLong(int(t.line), &t.reducer, l.opt.MaxEventBytes)
	t.pass(buf[:next])
	t.offset += t.long + int64(next)
	t.long = 0
	if t.line > 0 {
		t.line++
	}
	return buf[next:], true
}

// piece is a job on its way to the intake.
type piece struct {
	*job
	position string
	lines    bool // their number is known
	behind   bool
	bytes    int64
}

// send hands a chunk on that begins at the current file's offset; false when ctx has ended.
func (l *lane) send(ctx context.Context, buf []byte, long *chunk, more bool) bool {
	t := l.cur
	if t.offset == 0 { // there may have been nothing when it was looked at
		if first := firstTimeIn(buf[:min(len(buf), headBytes)]); !first.IsZero() {
			t.first = first
		}
	}
	ch := chunk{buf: buf, path: t.path, firstLine: int(t.line), continues: t.nul, tooLong: long.tooLong, reduced: long.reduced}
	t.nul = bytes.HasSuffix(buf, []byte{0})
	t.pass(buf)
	t.offset += int64(len(buf))
	if t.line > 0 {
		t.line += int64(bytes.Count(buf, []byte{'\n'}))
	}
	p := &piece{lines: t.line > 0, position: t.position().String(), behind: more || len(l.pending) > 0, bytes: int64(len(buf))}
	if cap(buf) >= chunkBytes {
		p.job = l.job(ch)
	} else { // one of its own: a free one may hold room for thousands of events
		p.job = &job{chunk: ch, done: make(chan struct{})}
	}
	l.inFlight.Add(p.bytes)
	l.measure()
	select {
	case l.queue <- p:
	case <-ctx.Done():
		return false
	}
	return l.decode(ctx, p.job)
}

// give gives pieces to the intake, in order. What fails ends the lane.
func (l *lane) give(ctx context.Context, queue <-chan *piece, fail context.CancelCauseFunc) {
	for p := range queue {
		select {
		case <-p.done:
		case <-ctx.Done():
			return
		}
		b := l.batch(p)
		last := timeIn(p.chunk.buf[max(0, len(p.chunk.buf)-16<<10):], bytes.LastIndex)
		n := p.bytes
		done := func(err error) {
			if err != nil {
				fail(err)
				return
			}
			l.inFlight.Add(-n)
			l.mu.Lock()
			defer l.mu.Unlock()
			l.report.Stored += n
			if !last.IsZero() {
				l.report.LastEvent = last
			}
		}
		for {
			err := l.in.Take(ctx, b, done)
			if err == nil {
				break
			}
			if !errors.Is(err, source.ErrBusy) {
				fail(err)
				return
			}
			select {
			case <-time.After(l.opt.Poll):
			case <-ctx.Done():
				return
			}
		}
	}
}

func (l *lane) batch(p *piece) *source.Batch {
	j := p.job
	b := &source.Batch{Lane: l.name, Position: p.position, Events: j.events, Received: time.Now(), Behind: p.behind, Wait: true,
		Bytes: cap(j.chunk.buf), Counts: j.counts}
	if cap(j.chunk.buf) >= chunkBytes {
		b.Release = func() { l.recycle(j) }
	}
	b.Counts.Malformed += int64(len(j.chunk.tooLong))
	for _, list := range [][]audit.Malformed{j.chunk.tooLong, j.malformed} {
		for _, m := range list {
			if len(b.Places) == l.opt.MaxPlaces {
				return b
			}
			place := source.Place{Input: j.chunk.path, Cause: m.Cause, OfNoNode: m.OfNoNode}
			if p.lines {
				place.Line = int64(m.Line)
			}
			b.Places = append(b.Places, place)
		}
	}
	return b
}
