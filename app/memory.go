package app

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryAtLeast is up to how much memory a service may use whatever it holds, in bytes.
	memoryAtLeast = 176 << 20
	// memoryEvery is how often it is looked at what the service holds. Of a large state each look finds a part.
	memoryEvery = time.Second
)

// holdMemory keeps what the garbage collector has not collected yet in proportion to what the service holds, until ctx ends. Without it a service uses
// twice what it holds; and what it holds is most in an overload, in which nothing may be killed for its memory.
func holdMemory(ctx context.Context) {
	if os.Getenv("GOGC") != "" { // somebody has decided that
		return
	}
	most := debug.SetMemoryLimit(-1) // of GOMEMLIMIT
	defer debug.SetMemoryLimit(most)
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	for {
		metrics.Read(live)
		debug.SetMemoryLimit(memoryLimit(int64(live[0].Value.Uint64()), most))
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// memoryLimit is the limit for a service that holds so many bytes. It leaves a quarter as much for what is not collected yet: with less, the collector
// would take much of the processors' time. most is the limit that the user gave.
func memoryLimit(live, most int64) int64 { return min(most, max(memoryAtLeast, live+live/4)) }
