package pipeline

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// counted is work that checks who does it.
type counted struct {
	t     *testing.T
	procs int
	did   []int          // by number; the team's promise is that nobody else has it in hand
	inUse []atomic.Int32 // by processor
	ended atomic.Bool
}

func (c *counted) do(proc, i int) {
	switch {
	case proc >= c.procs:
		c.t.Errorf("goroutine %d of %d", proc, c.procs)
	case c.inUse[proc].Add(1) != 1:
		c.t.Errorf("two goroutines have the number %d", proc)
	case c.ended.Load():
		c.t.Error("work continues after its end")
	}
	c.did[i]++
	for range i % 7 { // some take longer
		runtime.Gosched()
	}
	c.inUse[proc].Add(-1)
}

// All work is done once, by so many goroutines at the most, and is over when run returns, however long those who help stay, and whatever was before.
func TestTeam(t *testing.T) {
	for _, linger := range []int{0, 3, lingerFor} {
		team, r := &team{linger: linger}, rand.New(rand.NewPCG(11, uint64(linger)))
		for range effort.Of(20_000, 2_000) {
			n, share := r.IntN(200), 1+r.IntN(20)
			c := &counted{t: t, procs: 1 + r.IntN(5), did: make([]int, n), inUse: make([]atomic.Int32, 5)}
			team.run(c.procs, n, share, c)
			c.ended.Store(true)
			for i, times := range c.did {
				if times != 1 {
					t.Fatalf("%d of %d is done %d times", i, n, times)
				}
			}
			if t.Failed() {
				return
			}
		}
	}
}
