package conformance

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestRegressions plays the kept scenarios: each shows a bug that once was, of ours, or one of the reference's that the comparison
// must continue recognising.
func TestRegressions(t *testing.T) {
	files, err := filepath.Glob("testdata/regressions/*.json")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no scenarios")
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			h, err := ParseHistory(data)
			if err != nil {
				t.Fatal(err)
			}
			v, err := WithGates(h.Gates)
			if err != nil {
				t.Fatal(err)
			}
			use(t, v, func() {
				c, f := Run(h, Options{Features: v.Features, Shuffle: rand.New(rand.NewPCG(1, 2)), Prune: len(h.Steps) / 2})
				if f != nil {
					t.Errorf("%s\n%v", h.Why, f)
				}
				if h.Bug != BugNone && Minor() >= h.From && c.Known[h.Bug] == 0 {
					t.Errorf("%s\nthe reference's bug %s did not show", h.Why, h.Bug)
				}
			})
		})
	}
}

// FuzzDifferential lets the fuzzer choose the history and the requests.
func FuzzDifferential(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(SeedSource(seed))
		data := make([]byte, 40<<(seed/2))
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
	features, err := Defaults()
	if err != nil {
		f.Fatal(err)
	}
	v := Variant{Name: "defaults", Features: features}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 4096 {
			return
		}
		h, _, fail := RunSeed(BytesSource(data), Options{Features: features, Shuffle: rand.New(rand.NewPCG(uint64(len(data)), 2)), Twice: true}, 30, 4)
		if fail != nil {
			report(t, v, 0, h, fail)
		}
	})
}
