package file

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/nodetrail/nodetrail/audit"
)

// chunkBytes is how much is decoded at a time: large enough that handing it over costs nothing, small enough for the caches.
const chunkBytes = 256 << 10

// maxDocumentBytes bounds a log that is one JSON document over many lines: it is held in memory as a whole.
const maxDocumentBytes = 1 << 30

// chunk is a run of whole lines of one file; the last one of a file may end in a torn line.
type chunk struct {
	buf       []byte
	path      string
	firstLine int
	continues bool // a line of the chunk before, which ended with NUL bytes
	document  bool
	tooLong   []audit.Malformed
	reduced   []reducedLine // come before buf
	err       error         // why the file could not be read further
}

// reducedLine is an event whose line was too long to keep, as it was reduced.
type reducedLine struct {
	line  int
	event []byte
}

// addLong takes in a line that was too long to keep: what the reducer made of it, or that it was too long.
func (ch *chunk) addLong(line int, r *audit.Reducer, bound int) {
	if event, ok := r.Event(); ok {
		ch.reduced = append(ch.reduced, reducedLine{line, slices.Clone(event)})
		return
	}
	ch.tooLong = append(ch.tooLong, audit.TooLong(line, 0, r.Size(), bound))
}

// chunker cuts one file into chunks.
type chunker struct {
	in    Input
	bound int           // bytes of an event
	alloc func() []byte // a buffer of no length and at least chunkBytes of room
	// progress is called with the bytes that were read, as they are in the input; nil for nothing.
	progress func(bytes int)
	// eat takes the next chunk; false ends the reading.
	eat func(chunk) bool

	long audit.Reducer
}

func (c *chunker) run(ctx context.Context) bool {
	fail := func(err error) bool { return c.eat(chunk{path: c.in.String(), firstLine: 1, err: err}) }
	src, closeSource, err := open(ctx, &c.in)
	if err != nil {
		return fail(unreadable(c.in.String(), err))
	}
	defer closeSource()
	if c.progress != nil {
		src = counted{src, c.progress}
	}
	r, closeReader, err := decompress(src)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", c.in.String(), err))
	}
	defer closeReader()
	if c.in.pipe { // Expand could not look into it
		b := bufio.NewReaderSize(r, recodeHead)
		head, _ := b.Peek(recodeHead)
		c.in.kind = kindOf(head)
		if err := c.in.misplaced(); err != nil {
			return c.eat(chunk{path: c.in.String(), firstLine: 1, err: err})
		}
		r = b
	}
	all, recoded := recode(r, c.bound)
	if recoded {
		return c.document(all, nil, nil)
	}
	return c.read(all)
}

// counted says how much is read.
type counted struct {
	r   io.Reader
	add func(bytes int)
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.add(n)
	return n, err
}

// fill reads into the room that buf has left.
func fill(r io.Reader, buf []byte) ([]byte, error) {
	for len(buf) < cap(buf) {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if err != nil {
			return buf, err
		}
	}
	return buf, nil
}

func (c *chunker) read(r io.Reader) bool {
	line, first, nul := 1, true, false
	buf := c.alloc()
	var long chunk // what came before buf
	for {
		var err error
		buf, err = fill(r, buf)
		if first && audit.IsDocument(buf) {
			return c.document(r, buf, err)
		}
		first = false
		end := bytes.LastIndexByte(buf, '\n') + 1
		if end == 0 { // the decoder takes what NUL bytes part as pieces of their own, and a run of them may be longer than any line
			end = bytes.LastIndexByte(buf, 0) + 1
		}
		if err == nil && end == 0 {
			if len(buf) <= c.bound {
				buf = append(make([]byte, 0, 2*cap(buf)), buf...)
				continue
			}
			c.long.Bound = int64(c.bound)
			buf, err = reduceLine(r, buf, &c.long)
			long.addLong(line, &c.long, c.bound)
			if err == nil {
				line++
				continue
			}
			end, buf = 0, buf[:0]
		}
		out := chunk{buf: buf, path: c.in.String(), firstLine: line, continues: nul, tooLong: long.tooLong, reduced: long.reduced}
		long = chunk{}
		if err != nil { // the end; an unfinished line is handed on too, and judged for what it is
			if !errors.Is(err, io.EOF) {
				out.err = fmt.Errorf("%s:%d: reading stopped: %w", c.in.String(), line+bytes.Count(buf, []byte{'\n'}), err)
			}
			return c.eat(out)
		}
		tail := buf[end:]
		next := c.alloc()
		if len(tail)*2 > cap(next) {
			next = make([]byte, 0, 4*len(tail))
		}
		next = append(next, tail...)
		out.buf = buf[:end]
		nul = out.buf[end-1] == 0
		line += bytes.Count(out.buf, []byte{'\n'})
		if !c.eat(out) {
			return false
		}
		buf = next
	}
}

// reduceLine reads on to the end of a line that is too long to keep, gives it to the reducer, and returns what follows it.
func reduceLine(r io.Reader, buf []byte, into *audit.Reducer) ([]byte, error) {
	into.Reset()
	_, _ = into.Write(buf) // which never fails
	for {
		got, err := fill(r, buf[:0])
		if i := bytes.IndexByte(got, '\n'); i >= 0 {
			_, _ = into.Write(got[:i])
			return append(make([]byte, 0, cap(buf)), got[i+1:]...), nil
		}
		_, _ = into.Write(got)
		if err != nil {
			return nil, err
		}
	}
}

// document reads the rest of a log that is one JSON text over several lines.
func (c *chunker) document(r io.Reader, head []byte, err error) bool {
	out := chunk{path: c.in.String(), firstLine: 1, document: true}
	if err == nil {
		var rest []byte
		if rest, err = io.ReadAll(io.LimitReader(r, maxDocumentBytes-int64(len(head))+1)); err == nil {
			err = io.EOF
		}
		head = append(head, rest...)
	}
	switch {
	case len(head) > maxDocumentBytes:
		out.err = fmt.Errorf("%s: a log that is one JSON document may have %d MiB at most: give it with an event on each line (jq -c '.items[]'), or in parts",
			c.in.String(), maxDocumentBytes>>20)
		return c.eat(out)
	case !errors.Is(err, io.EOF):
		out.err = fmt.Errorf("%s:%d: reading stopped: %w", c.in.String(), 1+bytes.Count(head, []byte{'\n'}), err)
	}
	out.buf = head
	return c.eat(out)
}
