package main

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/nodetrail/nodetrail/app"
)

// progress tells a terminal how much was read. On anything else it is silent.
type progress struct {
	w     io.Writer // the terminal; what it does not take has nowhere else to go
	bytes atomic.Int64
	stop  chan struct{}
	ended chan struct{}
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w, stop: make(chan struct{}), ended: make(chan struct{})}
	if !isTerminal(w) {
		close(p.ended)
		return p
	}
	go p.show()
	return p
}

func (p *progress) add(n int) { p.bytes.Add(int64(n)) }

func (p *progress) show() {
	defer close(p.ended)
	stderr, begin := p.w, time.Now()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			mb := float64(p.bytes.Load()) / 1e6
			fmt.Fprintf(stderr, "\r\x1b[K%.0f MB read, %.0f MB/s", mb, mb/time.Since(begin).Seconds())
		case <-p.stop:
			fmt.Fprint(stderr, "\r\x1b[K")
			return
		}
	}
}

func (p *progress) done() {
	close(p.stop)
	<-p.ended
}

// metered reads logs by f and tells meanwhile how much was read.
func metered[T any](std streams, in *app.Input, f func() (T, error)) (T, error) {
	meter := newProgress(std.err)
	defer meter.done()
	in.Progress = meter.add
	return f()
}
