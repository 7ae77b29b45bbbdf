package app

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// coreCounts are numbers of cores that must not show.
var coreCounts = []int{1, 2, 3, 8}

// allOf is all that comes of an analysis, as text.
func allOf(t *testing.T, o AnalyzeOptions) string {
	t.Helper()
	var out, counted bytes.Buffer
	each, sums := json.NewEncoder(&out), json.NewEncoder(&counted)
	put := func(to *json.Encoder, v any) error {
		if err := to.Encode(v); err != nil {
			return fmt.Errorf("%T: %w", v, err)
		}
		return nil
	}
	o.Each = func(j *pipeline.Judgement) error { v := VerdictLine(j); return put(each, &v) }
	o.Counted = func(e *tally.Entry) {
		if err := put(sums, e); err != nil {
			t.Error(err)
		}
	}
	a, err := Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{a.Report, a.Facts.Checks, a.Facts.Gaps, a.Counts, a.Log} {
		if err := put(each, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := (report.Text{}).Write(&out, a.Report); err != nil {
		t.Fatal(err)
	}
	err = a.Evidence.Records(func(k evidence.Key, value []byte) error { return put(each, []any{k, value}) })
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + counted.String()
}

// TestCores wants all that comes of a log to be the same byte for byte, whatever the number of cores: the report, the verdict lines, what is counted and
// the evidence, with state from a journal, from bodies, and from both, of logs in order and in disorder.
func TestCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	own := hundredRules(t)
	f := func(name string, log, journal []byte, change func(*AnalyzeOptions)) {
		t.Run(name, func(t *testing.T) {
			first, lines := "", bytes.Count(log, []byte("\n"))
			for _, procs := range effort.Of(coreCounts, []int{1, 3}) {
				runtime.GOMAXPROCS(procs)
				o := AnalyzeOptions{Authorization: Authorization{Skew: time.Second}, Input: Input{Logs: []string{"-"}, Stdin: bytes.NewReader(log)}, Now: time.Unix(1<<31, 0), Own: own}
				if journal != nil {
					o.State = []string{t.TempDir() + "/journal.jsonl"}
					if err := os.WriteFile(o.State[0], journal, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				change(&o)
				got := allOf(t, o)
				if first == "" {
					first = got
				}
				if got != first {
					at := 0
					for at < min(len(got), len(first)) && got[at] == first[at] {
						at++
					}
					t.Errorf("%d cores differ from %d (%d lines of log): ...%.300q, not %.300q", procs, coreCounts[0], lines, got[max(0, at-100):], first[max(0, at-100):])
				}
			}
		})
	}
	all := func(name string, log, journal []byte) {
		if effort.Of(true, false) {
			f(name+", journal", log, journal, func(o *AnalyzeOptions) { o.NoBodies = true })
			f(name+", bodies", log, nil, func(*AnalyzeOptions) {})
		}
		if effort.Of(true, name != "capture") {
			f(name+", both", log, journal, func(*AnalyzeOptions) {})
		}
		if effort.Of(true, name == "capture") {
			f(name+", disorder", disordered(log), journal, func(o *AnalyzeOptions) { o.AllRequests = true })
		}
	}
	for i, folder := range []string{"capture", "capture-1.37", "capture-rbac-only", "capture-writes"} {
		if i > effort.Of(3, 0) {
			continue
		}
		all(folder, gunzipped(t, "../internal/demo/"+folder+"/audit.log.gz"), gunzipped(t, "../internal/demo/"+folder+"/journal.jsonl.gz"))
	}
	for world := range effort.Of(uint64(3), 1) {
		clean, err := worldOf(world)
		if err != nil {
			t.Fatal(err)
		}
		day, _ := readyCase{world, 1}.apply(clean)
		if effort.Of(true, false) {
			all(fmt.Sprintf("world %d", world), day.Log(), day.Journal())
		}
		if day, _ = days.Attack(clean, world, 500); day != nil {
			all(fmt.Sprintf("attack %d", world), day.Log(), day.Journal())
		}
	}
}

// disordered is a log whose lines come up to a few hundred too early or too late.
func disordered(log []byte) []byte {
	lines := bytes.SplitAfter(log, []byte("\n"))
	r := rand.New(rand.NewPCG(1, uint64(len(log))))
	for some := range slices.Chunk(lines, 300) {
		r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	}
	return bytes.Join(lines, nil)
}

func gunzipped(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
