package main

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/app"
)

// progress shows on a terminal how much was read, of how much where that is known, and how long the rest takes. On anything else it is silent.
type progress struct {
	w     io.Writer // the terminal; what it does not take has nowhere else to go
	bytes atomic.Int64
	total atomic.Int64 // 0 if it is not known
	stop  chan struct{}
	ended chan struct{}
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, stop: make(chan struct{}), ended: make(chan struct{})}
	if !isTerminal(w) {
		close(p.ended)
		return p
	}
	tick := time.NewTicker(500 * time.Millisecond)
	go func() {
		defer tick.Stop()
		p.show(time.Now(), tick.C)
	}()
	return p
}

func (p *progress) add(n int) { p.bytes.Add(int64(n)) }

// expect takes in the files that are read. Of standard input and of pipes the size is not known.
func (p *progress) expect(paths []string) {
	var total int64
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == "-" || err != nil || !info.Mode().IsRegular() {
			return
		}
		total += info.Size()
	}
	p.total.Store(total)
}

// show writes a line at each tick since begin.
func (p *progress) show(begin time.Time, ticks <-chan time.Time) {
	defer close(p.ended)
	for {
		select {
		case now := <-ticks:
			fmt.Fprintf(p.w, "\r\x1b[K%s", progressLine(p.bytes.Load(), p.total.Load(), now.Sub(begin)))
		case <-p.stop:
			fmt.Fprint(p.w, "\r\x1b[K")
			return
		}
	}
}

// progressLine says how far a reading is. More than there should be is read where a file grows, or where all is read a second time.
func progressLine(read, total int64, elapsed time.Duration) string {
	const mb = 1e6
	perSecond := 0.0
	if elapsed > 0 {
		perSecond = float64(read) / elapsed.Seconds()
	}
	if total <= 0 || read > total {
		return fmt.Sprintf("%.0f MB read, %.0f MB/s", float64(read)/mb, perSecond/mb)
	}
	line := fmt.Sprintf("%d %%, %.0f of %.0f MB, %.0f MB/s", read*100/total, float64(read)/mb, float64(total)/mb, perSecond/mb)
	const most = 1000 * time.Hour
	if left := float64(total-read) / perSecond * float64(time.Second); perSecond > 0 && left < float64(most) {
		line += fmt.Sprintf(", %s left", time.Duration(left).Round(time.Second))
	}
	return line
}

func (p *progress) done() {
	close(p.stop)
	<-p.ended
}

// metered reads logs by f and shows meanwhile how much was read.
func metered[T any](std streams, in *app.Input, f func() (T, error)) (T, error) {
	meter := newProgress(std.err)
	defer meter.done()
	in.Progress = meter.add
	begin := in.Begin
	in.Begin = func(logs []string) error {
		meter.expect(logs)
		if begin == nil {
			return nil
		}
		return begin(logs)
	}
	return f()
}
