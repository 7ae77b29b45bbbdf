package pipeline

import (
	"bytes"
	"context"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/tally"
)

// processorTime is that of the process: the cores may be shared.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// besides runs f with and without a ledger in turns, and reports the processor time of each for an event and how much more it takes with one.
func besides(b *testing.B, events int, f func(l *evidence.Ledger)) {
	var took [2]time.Duration
	n := 0
	for b.Loop() {
		for i := range took {
			which := (i + n) % 2
			var l *evidence.Ledger
			if which == 1 {
				l = evidence.New()
			}
			began := processorTime(b)
			f(l)
			took[which] += processorTime(b) - began
		}
		n++
	}
	b.ReportMetric(float64(took[0])/float64(n*events), "without-ns/event")
	b.ReportMetric(float64(took[1])/float64(n*events), "with-ns/event")
	b.ReportMetric(100*(float64(took[1])/float64(took[0])-1), "%-more")
}

func rawCapture(b *testing.B) []byte {
	f, err := os.Open("../internal/demo/capture/audit.log.gz")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		b.Fatal(err)
	}
	log, err := io.ReadAll(z)
	if err != nil {
		b.Fatal(err)
	}
	return log
}

// BenchmarkLedgerOfStream decodes and judges a log, as analyze does.
func BenchmarkLedgerOfStream(b *testing.B) {
	log := rawCapture(b)
	state := loaded(b, captureJournal)
	judge := judgeOf(b, state, "Node,RBAC")
	besides(b, bytes.Count(log, []byte("\n")), func(l *evidence.Ledger) {
		s := NewStream(judge, nil, Options{Skew: 150 * time.Millisecond, Ledger: l}, func(*Judgement) error { return nil })
		var d audit.Decoder
		for rest := log; len(rest) > 0; {
			n := min(len(rest), 256<<10)
			if end := bytes.IndexByte(rest[n:], '\n'); end >= 0 {
				n += end + 1
			} else {
				n = len(rest)
			}
			var events []audit.Event
			d.Chunk(rest[:n], 1, func(ev *audit.Event) { events = append(events, *ev) }, func(m audit.Malformed) { b.Fatal(m) })
			rest = rest[n:]
			if err := s.Batch(&Batch{Events: events}); err != nil {
				b.Fatal(err)
			}
		}
		if err := s.Flush(); err != nil {
			b.Fatal(err)
		}
	})
}

// nowhere stores nothing.
type nowhere struct{}

func (nowhere) Acquire(context.Context, string, int64, int) (*tally.Lane, error) {
	return &tally.Lane{}, nil
}
func (nowhere) Commit(context.Context, *tally.Commit) error        { return nil }
func (nowhere) Memory(context.Context) ([]tally.Remembered, error) { return nil, nil }
func (nowhere) Announce(context.Context, []string) error           { return nil }
func (nowhere) Lease(context.Context, string, time.Time) (tally.Lease, error) {
	return tally.Lease{}, nil
}
func (nowhere) Resign(context.Context, string) error { return nil }
func (nowhere) Observations(context.Context, map[string]int64) (*tally.Observed, error) {
	return &tally.Observed{}, nil
}

// BenchmarkLedgerOfEngine decodes, judges and commits a log that is behind, as run does when it catches up, with commits as often as by default.
func BenchmarkLedgerOfEngine(b *testing.B) {
	log := rawCapture(b)
	state := loaded(b, captureJournal)
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	besides(b, len(lines), func(l *evidence.Ledger) {
		e, err := NewEngine(b.Context(), EngineOptions{
			Judge: judgeOf(b, state, "Node,RBAC"), Store: nowhere{}, Skew: 150 * time.Millisecond, Settle: time.Millisecond, CommitEvery: 10 * time.Millisecond,
			Ledger: l, Log: zerolog.Nop(),
		})
		if err != nil {
			b.Fatal(err)
		}
		ctx, stop := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- e.Run(ctx) }()
		if _, err := e.Open(ctx, "webhook:a", 0); err != nil {
			b.Fatal(err)
		}
		done := make(chan error, len(lines))
		n := 0
		for rest := lines; len(rest) > 0; n++ {
			k := min(len(rest), 250)
			batch := &source.Batch{Lane: "webhook:a", Received: time.Now(), Behind: len(rest) > k, Wait: true}
			var d audit.Decoder
			batch.Counts = d.Chunk(bytes.Join(rest[:k], []byte("\n")), 1, func(ev *audit.Event) { batch.Events = append(batch.Events, *ev) }, func(audit.Malformed) {})
			rest = rest[k:]
			if err := e.Take(ctx, batch, func(err error) { done <- err }); err != nil {
				b.Fatal(err)
			}
		}
		for ; n > 0; n-- {
			if err := <-done; err != nil {
				b.Fatal(err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			b.Fatal(err)
		}
	})
}
