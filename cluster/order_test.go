package cluster

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// captureLines are the lines of the capture's journal.
func captureLines(t *testing.T) []string {
	t.Helper()
	packed, err := os.ReadFile("testdata/capture.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
}

// answers asks where each pod is, four times a second.
func answers(t *testing.T, lines []string) map[string]string {
	t.Helper()
	s := NewState()
	if err := s.Load([]string{"-"}, strings.NewReader(strings.Join(lines, "\n"))); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	from := time.Date(2026, 11, 21, 6, 4, 12, 0, time.UTC)
	for _, ns := range []string{"shop", "batch", "search", "payments"} {
		for i := range 140 {
			name := fmt.Sprintf("pod-%d", i)
			for q := range 220 {
				if node, ok := s.Graph.PodNode(ns, name, from.Add(time.Duration(q)*250*time.Millisecond)); ok {
					out[fmt.Sprintf("%s/%s %d", ns, name, q)] = node
				}
			}
		}
	}
	return out
}

// TestOrder gives the same events in any order, some of them twice: pods are at the same places at the same times.
func TestOrder(t *testing.T) {
	lines := captureLines(t)
	want := answers(t, lines)
	if len(want) < 1000 {
		t.Fatalf("only %d answers", len(want))
	}
	for seed := range effort.Of(uint64(5), 1) {
		r := rand.New(rand.NewPCG(seed, 0))
		mixed := append([]string(nil), lines...)
		for range 100 {
			mixed = append(mixed, lines[r.IntN(len(lines))])
		}
		r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		if d := cmp.Diff(want, answers(t, mixed)); d != "" {
			t.Errorf("seed %d (-in order +mixed):\n%.2000s", seed, d)
		}
	}
}
