// Package meter shows on a terminal how far the reading of files is.
package meter

import (
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
)

// Meter shows how much was read, of how much where that is known, and how long the rest takes. Add may be called by several goroutines.
type Meter struct {
	w     io.Writer // the terminal; what it does not take has nowhere else to go
	bytes atomic.Int64
	total atomic.Int64 // 0 if it is not known
	stop  chan struct{}
	ended chan struct{}
}

// Start shows a line on w twice a second until Done, if w is a terminal. Otherwise nothing is shown.
func Start(w io.Writer, terminal bool) *Meter {
	p := &Meter{w: w, stop: make(chan struct{}), ended: make(chan struct{})}
	if !terminal {
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

// Add says that n more bytes were read.
func (p *Meter) Add(n int) { p.bytes.Add(int64(n)) }

// Expect takes in the files that are read. Of standard input and of pipes the size is not known.
func (p *Meter) Expect(paths []string) {
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
func (p *Meter) show(begin time.Time, ticks <-chan time.Time) {
	defer close(p.ended)
	for {
		select {
		case now := <-ticks:
			fmt.Fprintf(p.w, "\r\x1b[K%s", line(p.bytes.Load(), p.total.Load(), now.Sub(begin)))
		case <-p.stop:
			fmt.Fprint(p.w, "\r\x1b[K")
			return
		}
	}
}

// line says how far a reading is. More than there should be is read where a file grows, or where all is read a second time.
func line(read, total int64, elapsed time.Duration) string {
	const mb = 1e6
	perSecond := 0.0
	if elapsed > 0 {
		perSecond = float64(read) / elapsed.Seconds()
	}
	if total <= 0 || read > total {
		return fmt.Sprintf("%.0f MB read, %.0f MB/s", float64(read)/mb, perSecond/mb)
	}
	s := fmt.Sprintf("%d %%, %.0f of %.0f MB, %.0f MB/s", read*100/total, float64(read)/mb, float64(total)/mb, perSecond/mb)
	const most = 1000 * time.Hour
	if left := float64(total-read) / perSecond * float64(time.Second); perSecond > 0 && left < float64(most) {
		s += fmt.Sprintf(", %s left", time.Duration(left).Round(time.Second))
	}
	return s
}

// Done takes the line away.
func (p *Meter) Done() {
	close(p.stop)
	<-p.ended
}
