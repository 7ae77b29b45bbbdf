package app

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/report"
)

// TestRestartForgetsNoPodSilently stops a service whose state learned from bodies, and starts it again: what it does not know any more is unknown. It is never taken for absent, in which case
// the API server would disagree.
func TestRestartForgetsNoPodSilently(t *testing.T) {
	lines := func(name string) [][]byte {
		return bytes.SplitAfter(unpacked(t, filepath.Join(capture, name)), []byte("\n"))
	}
	journal, log := lines("journal.jsonl.gz"), lines("audit.log.gz")
	dir := t.TempDir()
	write := func(name string, lines [][]byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	state := write("journal.jsonl", journal[:len(journal)*2/5])
	whole, err := Analyze(t.Context(), AnalyzeOptions{Authorization: Authorization{Skew: DefaultSkew}, Input: Input{State: []string{state}, Logs: []string{write("whole.log", log)}}})
	if err != nil {
		t.Fatal(err)
	}
	want := &whole.Report.Verdicts
	if len(whole.Report.Agreement.Disagree) > 0 {
		t.Fatalf("without a restart %+v, %+v", want, whole.Report.Agreement)
	}
	run := func(data string, lines int, until int64) (r *report.Report, said string) {
		t.Helper()
		path := write("audit.log", log[:lines])
		from := StoreOptions{Data: filepath.Join(dir, data)}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended, out := make(chan error, 1), new(bytes.Buffer)
		go func() {
			ended <- Run(ctx, RunOptions{StoreOptions: from, State: []string{state}, Listen: "127.0.0.1:0", Logs: []string{path}, Log: LogTo{W: zerolog.SyncWriter(out)}})
		}()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			if r, err = Report(t.Context(), ReportOptions{StoreOptions: from}); err == nil && r.Events.Read >= until {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("not all of %d lines were read: %+v, %v", lines, r, err)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if r, err = Report(t.Context(), ReportOptions{StoreOptions: from}); err != nil {
			t.Fatal(err)
		}
		return r, out.String()
	}
	for _, part := range []int{2, 3} { // of four
		data, lines := string(rune('a'+part)), len(log)*part/4
		_, said := run(data, lines, int64(lines))
		if bytes.Contains([]byte(said), []byte("is not known any more")) {
			t.Errorf("at the first start: %s", said)
		}
		r, said := run(data, len(log), whole.Report.Events.Read)
		got := &r.Verdicts
		if r.Events.Judged != whole.Report.Events.Judged || len(r.Agreement.Disagree) > 0 || got.Unknown <= want.Unknown || got.Allow > want.Allow || got.Deny > want.Deny {
			t.Errorf("stopped after %d lines: %+v and %d disagreements of %d requests; without %+v of %d", lines, got, len(r.Agreement.Disagree), r.Events.Judged, want, whole.Report.Events.Judged)
		}
		if !bytes.Contains([]byte(said), []byte("is not known any more")) || !slices.ContainsFunc(r.State.Warnings, func(w string) bool { return bytes.Contains([]byte(w), []byte("a restart forgot")) }) {
			t.Errorf("stopped after %d lines: nobody says that the state is forgotten: %q, %s", lines, r.State.Warnings, said)
		}
	}
}
