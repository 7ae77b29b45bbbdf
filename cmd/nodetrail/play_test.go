package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sinceFirst replaces each time in a text by how long after t it is, and each incident's ID, which its beginning tells, by its place, so that two plays
// of one log read the same.
func sinceFirst(t *testing.T, text string, first time.Time) string {
	t.Helper()
	// The days of a trend, which have no time.
	text = regexp.MustCompile(`"day": "(\d{4}-\d\d-\d\d)"`).ReplaceAllString(text, `"day": "${1}T00:00:00Z"`)
	places := map[string]int{}
	text = regexp.MustCompile(`"id": "[0-9a-f]{32}"`).ReplaceAllStringFunc(text, func(s string) string {
		if _, seen := places[s]; !seen {
			places[s] = len(places)
		}
		return fmt.Sprintf(`"id": "incident %d"`, places[s])
	})
	return regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`).ReplaceAllStringFunc(text, func(s string) string {
		at, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.Sub(first).String()
	})
}

func analyzed(t *testing.T, log, journal string) (report, verdicts string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "verdicts.jsonl")
	code, out, errs := invoke(t, "", "analyze", "-o", "json", "--state", journal, "--verdicts", file, log)
	if code != 0 || errs != "" {
		t.Fatalf("exit status %d, standard error %q", code, errs)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return out, string(b)
}

// TestPlayKeepsVerdicts: over the moved state the moved log is judged as the original is over its own, time for time. It moves by whole days:
// detectors count by the clock's minutes and hours.
func TestPlayKeepsVerdicts(t *testing.T) {
	for _, dir := range []string{capture, rbacOnly} {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			log, journal := filepath.Join(dir, "audit.log.gz"), filepath.Join(dir, "journal.jsonl.gz")
			first := firstStage(t, log)
			start := first.AddDate(5, 0, 0)
			tmp := t.TempDir()
			playedLog, playedJournal := filepath.Join(tmp, "audit.log"), filepath.Join(tmp, "journal.jsonl.gz")
			code, out, errs := invoke(t, "", "play", "--no-wait", "--start", start.Format(time.RFC3339), "--state", journal,
				"--journal", playedJournal, "--out", playedLog, log)
			if code != 0 || out != "" {
				t.Fatalf("exit status %d, standard output %q, error %q", code, out, errs)
			}
			if got := firstStage(t, playedLog); !got.Equal(start) {
				t.Errorf("the first event is at %s, want %s", got, start)
			}
			wantReport, wantVerdicts := analyzed(t, log, journal)
			gotReport, gotVerdicts := analyzed(t, playedLog, playedJournal)
			if diff := cmp.Diff(sinceFirst(t, wantReport, first), sinceFirst(t, gotReport, start)); diff != "" {
				t.Errorf("reports differ (-original +played):\n%.5000s", diff)
			}
			want, got := sinceFirst(t, wantVerdicts, first), sinceFirst(t, gotVerdicts, start)
			if want != got {
				t.Errorf("verdict lines differ (-original +played):\n%.5000s", cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
			}
		})
	}
}

// firstStage is the time of a log's first event.
func firstStage(t *testing.T, log string) time.Time {
	t.Helper()
	lines, err := plainLines(log)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`"stageTimestamp":"([^"]+)"`).FindSubmatch(lines[0])
	at, err := time.Parse(time.RFC3339Nano, string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestPlayRounds: each round is judged as the first, and no request of one is taken for that of another.
func TestPlayRounds(t *testing.T) {
	dir := t.TempDir()
	log, journal := filepath.Join(dir, "audit.log"), filepath.Join(dir, "journal.jsonl")
	code, _, errs := invoke(t, "", "play", "--no-wait", "--rounds", "3", "--journal", journal, "--out", log)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, errs)
	}
	one, _ := judge(t, "--state", capture+"/journal.jsonl.gz", capture+"/audit.log.gz")
	three, _ := judge(t, "--state", journal, log)
	if three.Events.Judged != 3*one.Events.Judged || three.Events.Duplicates != 3*one.Events.Duplicates {
		t.Errorf("events %+v of three rounds, %+v of one", three.Events, one.Events)
	}
	got, want := three.Verdicts, one.Verdicts
	want.Allow, want.Deny, want.Unknown = 3*want.Allow, 3*want.Deny, 3*want.Unknown
	want.Races.Allow, want.Races.Deny = 3*want.Races.Allow, 3*want.Races.Deny
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-three times one round +three rounds):\n%s", diff)
	}
	if a := three.Agreement; a.Compared != 3*one.Agreement.Compared || a.Agree != a.Compared {
		t.Errorf("agreement of three rounds: %d of %d, of one: %d", a.Agree, a.Compared, one.Agreement.Compared)
	}
}

// TestPlayReplacesTheJournal: while the new one is not complete there is none, and a failure leaves nothing behind.
func TestPlayReplacesTheJournal(t *testing.T) {
	dir := t.TempDir()
	journal, bad := filepath.Join(dir, "journal.jsonl"), filepath.Join(dir, "bad.jsonl")
	for path, text := range map[string]string{journal: "that of an earlier run", bad: `{"type":"ADDED","object":{}}` + "\n{"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, _, errs := invoke(t, "", "play", "--no-wait", "--state", bad, "--journal", journal, "--out", filepath.Join(dir, "log"), capture+"/audit.log.gz")
	if code != 1 || !strings.Contains(errs, "bad.jsonl, its value 2") {
		t.Errorf("exit status %d: %s", code, errs)
	}
	left, err := filepath.Glob(filepath.Join(dir, ".*journal*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
	if b, err := os.ReadFile(journal); !os.IsNotExist(err) || bytes.Contains(b, []byte("earlier")) {
		t.Errorf("the earlier journal is still there: %v", err)
	}
}
