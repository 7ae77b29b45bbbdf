package jsonl

import (
	"context"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/sinks"
)

// AppendLine appends the verdict's line, with its end.
func (v *Verdict) AppendLine(b []byte) []byte { return append(v.appendTo(b), '\n') }

// Lines writes lines to a file from a goroutine of its own. What the file does not take for a while waits, up to a bound; then the
// oldest lines are dropped and counted. Safe for concurrent use.
type Lines struct {
	name string
	file *File
	most int64
	log  zerolog.Logger

	mu      sync.Mutex
	wake    chan struct{}
	waiting [][]byte
	stats   sinks.QueueStats
	ended   bool
	stop    chan struct{}
	done    chan struct{}
	once    sync.Once
}

// NewLines returns a running Lines, which closes the file with itself. maxBytes bounds what waits.
func NewLines(name string, file *File, maxBytes int64, log zerolog.Logger) *Lines {
	l := &Lines{name: name, file: file, most: maxBytes, log: log, wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Name is the sink's.
func (l *Lines) Name() string { return l.name }

// Stats returns the figures of now; a finding is a line here.
func (l *Lines) Stats() sinks.QueueStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stats
}

// Add puts whole lines at the end. It never waits for the file, and the lines are its own from then on.
func (l *Lines) Add(lines [][]byte) {
	l.mu.Lock()
	for _, line := range lines {
		if len(line) == 0 {
			continue
		}
		l.waiting = append(l.waiting, line)
		l.stats.Bytes += int64(len(line))
	}
	l.bound()
	if l.ended {
		l.giveUp()
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Bound sets how many bytes may wait.
func (l *Lines) Bound(maxBytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.most = maxBytes
	l.bound()
}

func (l *Lines) bound() {
	for l.stats.Bytes > l.most && len(l.waiting) > 0 {
		l.stats.Bytes -= int64(len(l.waiting[0]))
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.stats.Overflowed++
	}
	l.stats.Length = len(l.waiting)
}

// giveUp drops what waits.
func (l *Lines) giveUp() {
	l.stats.Abandoned += int64(len(l.waiting))
	l.stats.Length, l.stats.Bytes, l.waiting = 0, 0, nil
}

// Close writes what waits, until ctx ends, and closes the file.
func (l *Lines) Close(ctx context.Context) error {
	l.once.Do(func() { close(l.stop) })
	select {
	case <-l.done:
	case <-ctx.Done():
	}
	return l.file.Close()
}

func (l *Lines) run() {
	defer close(l.done)
	const retry = time.Second
	stopping := false
	for {
		failed := l.flush()
		switch {
		case stopping: // what a last try did not write is lost
			l.mu.Lock()
			l.ended = true
			l.giveUp()
			l.mu.Unlock()
			return
		case failed:
			select {
			case <-l.stop:
				stopping = true
			case <-time.After(retry):
			}
		default:
			select {
			case <-l.stop:
				stopping = true
			case <-l.wake:
			}
		}
	}
}

// flush writes what waits, and reports whether the file did not take it.
func (l *Lines) flush() (failed bool) {
	const piece = 256 << 10
	for {
		l.mu.Lock()
		var buf []byte
		n := 0
		for n < len(l.waiting) && (n == 0 || len(buf)+len(l.waiting[n]) <= piece) {
			buf = append(buf, l.waiting[n]...)
			n++
		}
		dropped := l.stats.Overflowed
		l.mu.Unlock()
		if n == 0 {
			return false
		}
		_, err := l.file.Write(buf)
		l.mu.Lock()
		if err != nil {
			l.stats.Failures++
			first := l.stats.FailingSince.IsZero()
			if first {
				l.stats.FailingSince = time.Now()
			}
			l.mu.Unlock()
			if first {
				l.log.Warn().Err(err).Str("sink", l.name).Msg("cannot write verdicts; they wait, up to a bound")
			}
			return true
		}
		// What overflowed meanwhile was the first of this, and is written all the same.
		dropped = min(l.stats.Overflowed-dropped, int64(n))
		l.stats.Overflowed -= dropped
		written := n - int(dropped)
		for _, line := range l.waiting[:written] {
			l.stats.Bytes -= int64(len(line))
		}
		clear(l.waiting[:written])
		l.waiting = l.waiting[written:]
		l.stats.Length, l.stats.LastSuccess, l.stats.FailingSince = len(l.waiting), time.Now(), time.Time{}
		l.stats.Sent += int64(n)
		l.mu.Unlock()
	}
}
