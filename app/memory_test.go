package app

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	for _, c := range []struct{ live, scanned, most, want int64 }{
		{0, 0, math.MaxInt64, serviceMemory},
		{100 << 20, 100 << 20, math.MaxInt64, serviceMemory},
		{200 << 20, 200 << 20, math.MaxInt64, 250 << 20},
		{600 << 20, 100 << 20, math.MaxInt64, 664 << 20},
		{600 << 20, 400 << 20, math.MaxInt64, 700 << 20},
		{600 << 20, 900 << 20, math.MaxInt64, 750 << 20},
		{600 << 20, 400 << 20, 650 << 20, 650 << 20},
		{0, 0, 64 << 20, 64 << 20},
	} {
		if got := memoryLimit(c.live, c.scanned, serviceMemory, c.most); got != c.want {
			t.Errorf("%d bytes held, %d of them read, at most %d: %d, want %d", c.live, c.scanned, c.most, got, c.want)
		}
	}
}

// The limit is in force while the service runs, and afterwards the one before it is.
func TestHoldMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	const percent = 100
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(math.MaxInt64))
	defer debug.SetGCPercent(debug.SetGCPercent(percent))
	ctx, cancel := context.WithCancel(t.Context())
	ended := HoldMemory(ctx, serviceMemory, serviceGarbage)
	for debug.SetMemoryLimit(-1) == math.MaxInt64 && t.Context().Err() == nil {
		continue
	}
	if got := debug.SetMemoryLimit(-1); got < serviceMemory {
		t.Errorf("the limit is %d", got)
	}
	now := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for range 1000 { // it is set soon after a collection
		runtime.GC()
		if metrics.Read(now); now[0].Value.Uint64() == serviceGarbage {
			break
		}
	}
	if got := now[0].Value.Uint64(); got != serviceGarbage {
		t.Errorf("%d per cent may wait", got)
	}
	cancel()
	<-ended
	if got := debug.SetMemoryLimit(-1); got != math.MaxInt64 {
		t.Errorf("afterwards the limit is %d", got)
	}
	if got := debug.SetGCPercent(percent); got != percent {
		t.Errorf("afterwards %d per cent may wait", got)
	}
}
