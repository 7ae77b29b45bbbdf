package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The logs that are timed must be what the table says: no duplicates, and one event in twenty a node's where it says sparse.
func TestLogs(t *testing.T) {
	lines, err := readLines(filepath.Join("..", "..", "demo", "capture", "audit.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sparse := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "log")
		if err := write(path, lines, 12_000_000, sparse); err != nil {
			t.Fatal(err)
		}
		log, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		ids, nodes, all := map[string]bool{}, 0, 0
		for line := range bytes.Lines(log) {
			all++
			i := bytes.Index(line, auditIDKey) + len(auditIDKey)
			ids[string(line[i:i+36])] = true
			if line[i+36] != '"' {
				t.Fatalf("the audit ID of %.200s has not 36 characters", line)
			}
			if bytes.Contains(line, []byte(`"username":"system:node:`)) {
				nodes++
			}
		}
		if len(ids) != all {
			t.Errorf("sparse %t: %d events have %d audit IDs", sparse, all, len(ids))
		}
		if share := float64(nodes) / float64(all); sparse && (share < 0.049 || share > 0.052) {
			t.Errorf("%.3f of the events are nodes'", share)
		}
	}
}

func TestMedian(t *testing.T) {
	if m := median([]float64{3, 1, 2}, func(f float64) float64 { return f }); m != 2 {
		t.Errorf("the median is %v", m)
	}
}

func TestAmdahl(t *testing.T) {
	for share, want := range map[float64]float64{0: 16, 1: 1, 0.2: 4} {
		if got := amdahl(share, 16); got != want {
			t.Errorf("a share of %v: %v times, want %v", share, got, want)
		}
	}
}
