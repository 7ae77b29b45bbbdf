package admission

import (
	"flag"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"k8s.io/klog/v2"
)

var (
	writes     = flag.Int("writes", 20_000, "random writes, each with every setting of the feature gates")
	seedFrom   = flag.Uint64("seed", 1, "seed of the first cluster")
	kubernetes = flag.String("kubernetes", "", "version of Kubernetes that this was built with; that of go.mod without")
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	debug.SetGCPercent(400) // what is live is little
	os.Exit(m.Run())
}

// TestDifferential plays random writes to both sides, for each setting of the gates.
func TestDifferential(t *testing.T) {
	version := *kubernetes
	if version == "" {
		var err error
		if version, err = Newest(); err != nil {
			t.Fatal(err)
		}
	}
	settings, err := Settings(version)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes %s, %d settings of the feature gates", version, len(settings))
	counts := play(t, settings, *seedFrom, *writes)
	var total Count
	for i := range settings {
		c := counts[i]
		t.Logf("%s: %+v", settings[i].Name, c)
		if c.Unknown*20 > c.Writes {
			t.Errorf("%d of %d are unknown though all is there", c.Unknown, c.Writes)
		}
		if c.Allowed*5 < c.Writes || c.Denied*5 < c.Writes {
			t.Errorf("the writes are not near the boundary: %+v", c)
		}
		total.Add(c)
	}
	t.Logf("in all: %+v", total)
}

// play spreads the seeds over the processors.
func play(t *testing.T, settings []Setting, seed uint64, n int) []Count {
	t.Helper()
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		total = make([]Count, len(settings))
	)
	workers := runtime.GOMAXPROCS(0)
	for i := range workers {
		wg.Go(func() {
			counts, err := Run(settings, seed+uint64(i)*1e9, (n+workers-1)/workers)
			mu.Lock()
			defer mu.Unlock()
			for i := range counts {
				total[i].Add(counts[i])
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return total
}
