package app

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// AnalysisMemory is up to how much memory an analysis may use whatever it holds, in bytes.
	AnalysisMemory = 96 << 20
	// serviceMemory is the same of a service.
	serviceMemory = 176 << 20
	// maxUncollected is how much may wait for the garbage collector where much is held that it need not read, in bytes.
	maxUncollected = 64 << 20
	// firstGarbage is how much the process may use before the garbage collector runs for the first time, in bytes. By itself it would run several times while the
	// first megabytes of the state are read, of which nearly nothing is garbage.
	firstGarbage = 32 << 20
	// hugeHeap is how much of the heap is backed by huge pages, in bytes: more than an analysis uses of it, and most of what a service uses.
	hugeHeap = 128 << 20
	// leastGarbage is the size of the heap at which it would run for the first time by itself, at 100 per cent, in bytes.
	leastGarbage = 4 << 20
	// memoryEvery is how often it is looked at what is held. Of a large state each look finds a part.
	memoryEvery = time.Second
)

//nolint:gochecknoglobals // the limit and the heap are the process's
var (
	memoryHeld  atomic.Bool
	heapAdvised sync.Once
)

// Shares of what is held that may wait for the garbage collector, in per cent.
const (
	// AnalysisGarbage is that of an analysis, which is over soon.
	AnalysisGarbage = 100
	// serviceGarbage is that of a service. At the load of a large cluster the collector takes a few per cent of its processor time.
	serviceGarbage = 50
)

// HoldMemory has the heap backed by huge pages, and the garbage collector run for the first time when the process uses firstGarbage bytes. After that it bounds
// what is not collected yet, until ctx ends and the channel is closed: to percent of what the process holds, and to a quarter of that where the process would
// otherwise use more than atLeast bytes. What a service holds is most in an overload, in which nothing may be killed for its memory. It does nothing where GOGC
// is set, and leaves a limit of GOMEMLIMIT in force. The limits are the whole process's: of several calls at a time the first one keeps them.
func HoldMemory(ctx context.Context, atLeast int64, percent int) (ended <-chan struct{}) {
	end := make(chan struct{})
	if os.Getenv("GOGC") != "" || !memoryHeld.CompareAndSwap(false, true) { // somebody has decided that
		close(end)
		return end
	}
	before := debug.SetGCPercent(-1)
	heapAdvised.Do(func() { useHugePages(hugeHeap) })
	debug.SetGCPercent(max(percent, firstGarbage/leastGarbage*100))
	go func() {
		defer close(end)
		defer memoryHeld.Store(false)
		defer debug.SetGCPercent(before)
		holdMemory(ctx, atLeast, percent)
	}()
	return end
}

func holdMemory(ctx context.Context, atLeast int64, percent int) {
	collected := make(chan struct{})
	runtime.AddCleanup(&struct{ _ *int }{}, func(c chan struct{}) { close(c) }, collected)
	most := debug.SetMemoryLimit(-1) // of GOMEMLIMIT
	defer debug.SetMemoryLimit(most)
	held := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		metrics.Read(held)
		debug.SetMemoryLimit(memoryLimit(int64(held[0].Value.Uint64()), int64(held[1].Value.Uint64()), atLeast, most))
		select {
		case <-ctx.Done():
			return
		case <-collected:
			debug.SetGCPercent(percent)
			collected = nil
		case <-tick.C:
		}
	}
}

// memoryLimit is the limit for a process that holds so many bytes, of which the collector reads so many each time. It leaves a quarter as much for what is
// not collected yet: with less, the collector would take much of the processors' time. Beyond maxUncollected it leaves only a quarter of what the collector
// reads: most of a large state has nothing that it follows, and of a hundred thousand findings it follows nearly all. most is the limit that the user gave.
func memoryLimit(live, scanned, atLeast, most int64) int64 {
	return min(most, max(atLeast, live+min(live/4, max(scanned/4, maxUncollected))))
}
