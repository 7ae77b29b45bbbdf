package play

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/nodetrail/nodetrail/audit"
)

// Opener opens what is read, from its beginning.
type Opener func() (io.ReadCloser, error)

// LogStats says what was read of a log.
type LogStats struct {
	Events, Malformed, Bytes int64
}

// lists is how much longer than an event a line may be: it may hold a list of them.
const lists = 8

// each hands on the events of a log in its order, with the bytes that they were read from. Lines that are no events, and those longer than
// bound, are counted and left out.
func each(open Opener, bound int, out func(ev *audit.Event, raw []byte) error) (stats LogStats, err error) {
	src, err := open()
	if err != nil {
		return stats, err
	}
	defer func() { _ = src.Close() }()
	plain, done, err := unpack(src)
	if err != nil {
		return stats, err
	}
	defer done()
	r := bufio.NewReaderSize(plain, 256<<10)
	d := &audit.Decoder{MaxEventBytes: bound}
	var line []byte
	for {
		var tooLong bool
		line, tooLong, err = readLine(r, line[:0], lists*bound)
		stats.Bytes += int64(len(line))
		if tooLong {
			stats.Malformed++
		} else {
			var failed error
			counts := d.Split(line, func(ev *audit.Event, raw []byte) {
				if failed == nil {
					failed = out(ev, raw)
				}
			}, func(audit.Malformed, []byte) {})
			stats.Events += counts.Read
			stats.Malformed += counts.Malformed
			if failed != nil {
				return stats, failed
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return stats, nil
		case err != nil:
			return stats, fmt.Errorf("reading the log: %w", err)
		}
	}
}

// readLine reads a line without its end into buf. Of one longer than bound only the fact is returned.
func readLine(r *bufio.Reader, buf []byte, bound int) (line []byte, tooLong bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !tooLong {
			buf = append(buf, part...)
		}
		if len(buf) > bound+1 {
			buf, tooLong = buf[:0], true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(buf, []byte("\n")), tooLong, err
		}
	}
}

// unpack returns a reader of the plain bytes, by the content.
func unpack(r io.Reader) (io.Reader, func(), error) {
	b := bufio.NewReaderSize(r, 64<<10)
	head, _ := b.Peek(4)
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, nil, fmt.Errorf("the compressed data is damaged: %w", err)
		}
		return z, func() { _ = z.Close() }, nil
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(b, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, nil, fmt.Errorf("the compressed data is damaged: %w", err)
		}
		return z, z.Close, nil
	}
	return b, func() {}, nil
}

// logged is when an event was written to the log.
func logged(ev *audit.Event) time.Time {
	if ev.StageTime.IsZero() {
		return ev.RequestReceived
	}
	return ev.StageTime
}

// errEnough ends a reading that has found what it looked for.
var errEnough = errors.New("enough")

// firstLogged is the time of the log's first event.
func firstLogged(open Opener, bound int) (time.Time, error) {
	var first time.Time
	_, err := each(open, bound, func(ev *audit.Event, _ []byte) error {
		first = logged(ev)
		if first.IsZero() {
			return nil
		}
		return errEnough
	})
	switch {
	case errors.Is(err, errEnough):
		return first, nil
	case err != nil:
		return first, err
	}
	return first, errors.New("no audit event with a time in the log")
}

// lastLogged is the latest time of the log.
func lastLogged(open Opener, bound int) (time.Time, error) {
	var last time.Time
	_, err := each(open, bound, func(ev *audit.Event, _ []byte) error {
		if t := logged(ev); t.After(last) {
			last = t
		}
		return nil
	})
	return last, err
}
