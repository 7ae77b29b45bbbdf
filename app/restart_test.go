package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/report"
)

// A restart changes no answer, also where no request comes after it.
func TestARestartChangesNoAnswer(t *testing.T) {
	const span = 3 * time.Hour
	day, err := days.Clean(3, days.Options{Span: span, Minor: 36, From: time.Now().Add(-span - 10*time.Minute).UTC().Truncate(time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "nodetrail.yaml")
	text := fmt.Sprintf("data: %[1]s/data\nlisten: 127.0.0.1:0\nstate: {files: [%[1]s/journal.jsonl]}\nreadiness: {minWindow: %[2]s}\ncoverage: {policyFile: %[1]s/policy.yaml}\n", dir, span-2*time.Minute)
	for name, b := range map[string][]byte{"nodetrail.yaml": []byte(text), "journal.jsonl": day.Journal(), "policy.yaml": []byte(day.Policy), "audit.log": day.Log()} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	from := StoreOptions{Config: path}
	// run runs until the store has so many requests of nodes, and returns what it has then, with the answer.
	run := func(until int64) (requests int64, answer string) {
		t.Helper()
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		started, ended := make(chan string, 1), make(chan error, 1)
		go func() {
			ended <- Run(ctx, RunOptions{
				StoreOptions: from, Logs: []string{filepath.Join(dir, "audit.log")}, Log: LogTo{W: new(bytes.Buffer)}, Running: func(pages string) { started <- pages },
			})
		}()
		select {
		case <-started:
		case err := <-ended:
			t.Fatal(err)
		}
		begun := time.Now()
		for deadline := begun.Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			r, err := Report(t.Context(), ReportOptions{StoreOptions: from})
			if err != nil {
				t.Fatal(err)
			}
			if r.Events.Judged >= until && stored(t, from).After(begun) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d requests are judged of %d", r.Events.Judged, until)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		r, err := Report(t.Context(), ReportOptions{StoreOptions: from})
		if err != nil {
			t.Fatal(err)
		}
		return r.Events.Judged, r.Readiness.Verdict
	}
	whole := analyzedDay(t, day).Report.Events.Judged
	for _, when := range []string{"at first", "after a restart"} {
		if n, answer := run(whole); answer != report.VerdictReady || n != whole {
			t.Fatalf("%s: %d requests of %d: %s", when, n, whole, answer)
		}
	}
}

// stored is when the facts of the only instance were stored.
func stored(t *testing.T, from StoreOptions) time.Time {
	t.Helper()
	c, err := from.load()
	if err != nil {
		t.Fatal(err)
	}
	s, err := from.openToRead(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all, err := s.Facts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var f storedFacts
	for _, raw := range all {
		if err := json.Unmarshal(raw, &f); err != nil {
			t.Fatal(err)
		}
	}
	return f.At
}
