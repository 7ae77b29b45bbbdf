package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/kubernetes/pkg/features"
)

var (
	histories  = flag.Int("histories", 400, "random histories to play")
	twice      = flag.Bool("twice", true, "also give the observations twice")
	keep       = flag.String("keep", "", "folder to write a failing case to, shrunk, such as testdata/regressions")
	resultFile = flag.String("result", "", "file to write the figures to, for the page")
	perStep    = flag.Int("requests", 4, "random requests after each step")
	seedFrom   = flag.Uint64("seed", 1, "seed of the first history")
	reorder    = flag.String("reorder", "objects", "also give the observations in another order: none, objects (of one object in order), full")
)

var _ = features.DynamicResourceAllocation // the reference's gates are registered by this package

func TestMain(m *testing.M) {
	flag.Parse()
	Quiet()
	code := m.Run()
	if code == 0 && *resultFile != "" {
		if err := result.write(*resultFile); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// result is what the tests of one run did, for the page.
var result Result

// TestDifferential plays random histories to both sides, half of them with the gates at their defaults.
func TestDifferential(t *testing.T) {
	variants, err := Variants()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("Kubernetes 1.%d, %d settings of the feature gates", Minor(), len(variants))
	var total Count
	for i, v := range variants {
		n := *histories / 2
		if i > 0 {
			n = (*histories/2 + len(variants) - 2) / (len(variants) - 1)
		}
		c := playSeeds(t, v, *seedFrom+uint64(i)*1e9, n)
		total.Add(c)
		if t.Failed() {
			break
		}
	}
	t.Logf("%+v", total)
	result.FirstSeed, result.Settings = *seedFrom, len(variants)
	result.Histories, result.Steps, result.Requests, result.Later = total.Histories, total.Steps, total.Requests, total.Later
	result.Known = total.Known
}

// playSeeds plays n histories on all processors.
func playSeeds(t *testing.T, v Variant, first uint64, n int) (total Count) {
	t.Helper()
	restore, err := v.Use()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
	}()
	var (
		next atomic.Uint64
		mu   sync.Mutex
		wg   sync.WaitGroup
		stop atomic.Bool
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			var c Count
			defer func() { mu.Lock(); total.Add(c); mu.Unlock() }()
			for !stop.Load() {
				i := next.Add(1) - 1
				if i >= uint64(n) {
					return
				}
				seed := first + i
				o := Options{Features: v.Features, Any: *reorder == "full", Twice: *twice}
				if *reorder != "none" {
					o.Shuffle = rand.New(rand.NewPCG(seed, 2))
				}
				h, one, f := RunSeed(SeedSource(seed), o, 40, *perStep)
				c.Add(one)
				if f != nil {
					mu.Lock()
					if !stop.Swap(true) {
						report(t, v, seed, h, f)
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return total
}

func report(t *testing.T, v Variant, seed uint64, h *History, f *Failure) {
	t.Helper()
	h.Gates = v.Gates
	h = Shrink(h, v, f)
	b, err := json.MarshalIndent(h, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	_, f2 := runVariant(h, v, f)
	t.Errorf("seed %d, %s: %v\nshrunk: %v\n%s", seed, v.Name, f, f2, compact(h))
	if *keep != "" {
		file := filepath.Join(*keep, fmt.Sprintf("seed-%d.json", seed))
		if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("kept as %s: say in it why", file)
	}
}

func compact(h *History) string {
	s := ""
	for i := range h.Steps {
		s += fmt.Sprintf("%d %s\n", i, h.Steps[i].String())
	}
	return s
}
