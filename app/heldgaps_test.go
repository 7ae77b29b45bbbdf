package app

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/report"
)

// What analyze says of the state in which it judges a log is what a service says that was stopped, or killed, and started again in between. What made verdicts
// unknown is still said by one that begins with better state, as long as the report is of these requests.
//
// Seen to fail where nothing is held, where the requests before a kill belong to nobody, and where a gap is said twice for what it was before and since.
func TestARestartKeepsGapsOfTheState(t *testing.T) {
	journal := unpacked(t, filepath.Join(capture, "journal.jsonl.gz"))
	withoutPods := slices.DeleteFunc(bytes.SplitAfter(journal, []byte("\n")), func(line []byte) bool { return bytes.Contains(line, []byte(`"kind":"Pod"`)) })
	dir := t.TempDir()
	write := writesTo(t, dir)
	whole, poor := write("journal.jsonl", journal), write("poor.jsonl", bytes.Join(withoutPods, nil))
	lines := bytes.SplitAfter(unpacked(t, filepath.Join(capture, "audit.log.gz")), []byte("\n"))
	lines = lines[:len(lines)-1]
	// Two requests come before the state begins, and two after it ends.
	event := func(at string) []byte {
		return []byte(strings.ReplaceAll(strings.ReplaceAll(fitsNoOther, "06:05:03", at), "doubt-1", "at-"+at))
	}
	lines = slices.Concat([][]byte{event("05:00:00"), event("05:30:00")}, lines, [][]byte{event("07:20:00"), event("07:50:00")})
	write("whole.log", bytes.Join(lines, nil))
	said := func(r *report.Report) []string { return slices.Sorted(slices.Values(r.State.Warnings)) }
	analyzed := func(state string) []string {
		o := captureOptions("capture")
		o.State, o.Logs = []string{state}, []string{filepath.Join(dir, "whole.log")}
		a, err := Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return said(a.Report)
	}
	want, wantPoor := analyzed(whole), analyzed(poor)
	if len(want) != 2 || len(wantPoor) != 3 {
		t.Fatalf("analyze says %q, and without pods %q", want, wantPoor)
	}
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed %t", killed), func(t *testing.T) {
			t.Parallel()
			s := &restarted{t: t, from: StoreOptions{Data: filepath.Join(t.TempDir(), "data")}, state: []string{whole}, log: filepath.Join(t.TempDir(), "audit.log")}
			s.run(lines[:2], killed)
			s.run(lines[:len(lines)-1], killed)
			for _, when := range []string{"after the last requests", "later"} {
				if diff := cmp.Diff(want, said(s.run(lines, false))); diff != "" {
					t.Errorf("%s (-analyze +run):\n%s", when, diff)
				}
			}
		})
	}
	t.Run("with better state", func(t *testing.T) {
		t.Parallel()
		s := &restarted{t: t, from: StoreOptions{Data: filepath.Join(t.TempDir(), "data")}, state: []string{poor}, log: filepath.Join(t.TempDir(), "audit.log")}
		s.run(lines[:len(lines)-2], false)
		s.state = []string{whole}
		if diff := cmp.Diff(wantPoor, said(s.run(lines, false))); diff != "" {
			t.Errorf("(-analyze with the state of before +run):\n%s", diff)
		}
		for window, want := range map[time.Duration]bool{2 * time.Hour: true, 10 * time.Minute: false} {
			r, err := Report(t.Context(), ReportOptions{StoreOptions: s.from, Window: window})
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(r.State.Warnings, func(w string) bool { return strings.Contains(w, "Pod") }) != want {
				t.Errorf("of requests from %s on: %q", r.Window.From, r.State.Warnings)
			}
		}
	})
}

// Gaps are held once each, the longest, as long as there are requests that they are about, and not more than are read.
func TestHeldGaps(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	begins := func(by time.Duration) codes.Gap {
		return codes.Gap{Code: codes.StateBeginsLate, Params: codes.Params{codes.Duration(codes.ParamBy, by), codes.Time(codes.ParamAt, noon)}}
	}
	kind := func(name string) codes.Gap {
		return codes.Gap{Kind: codes.State, Code: codes.KindMissing, Params: codes.Params{codes.Text(codes.ParamKind, name)}}
	}
	unwatched := codes.Gap{Kind: codes.State, Code: codes.NotWatched, Params: codes.Params{codes.Duration(codes.ParamBy, time.Minute), codes.Time(codes.ParamAt, noon)}}
	at := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	var none *heldGaps
	of := func(h int) *knowledge { return &knowledge{to: at(h), heard: true, doubts: []codes.Gap{kind("Secret")}} }
	h := none.with([]codes.Gap{begins(time.Hour), kind("Pod"), unwatched, kind("Secret")}, of(1), at(-9), at(-9))
	h = h.with([]codes.Gap{begins(time.Minute), kind("Node")}, of(2), at(-9), at(0))
	want := &heldGaps{Until: at(2), Gaps: []report.PastGap{{Gap: begins(time.Hour), Until: at(2)}, {Gap: kind("Node"), Until: at(2)}, {Gap: kind("Pod"), Until: at(1)}, {Gap: unwatched, Until: at(1)}}}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	f := &report.Facts{Gaps: []codes.Gap{kind("Node")}, Past: h.Gaps}
	if diff := cmp.Diff([]codes.Gap{kind("Node"), begins(time.Hour), kind("Pod"), unwatched}, gapsSince(f, at(1))); diff != "" {
		t.Errorf("since one (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]codes.Gap{kind("Node"), begins(time.Hour)}, gapsSince(f, at(1).Add(1))); diff != "" {
		t.Errorf("since then (-want +got):\n%s", diff)
	}
	if got := h.with(nil, of(3), at(1), at(1).Add(1)); len(got.Gaps) != 3 || got.Gaps[2].Code != codes.KindMissing {
		t.Errorf("what nobody watched before the horizon is held: %+v", got)
	}
	if got := h.with(nil, of(3), at(2), at(2)); len(got.Gaps) != 2 {
		t.Errorf("gaps are held without requests: %+v", got)
	}
	if got := h.with([]codes.Gap{kind("ConfigMap")}, &knowledge{to: at(2)}, at(-9), at(-9)); cmp.Diff(h, got) != "" {
		t.Errorf("a gap is held by which nothing was judged: %+v", got)
	}
	for i := range 3 * mostHeld {
		h = h.with([]codes.Gap{kind(fmt.Sprint(i))}, of(3+i), at(-9), at(-9))
	}
	if len(h.Gaps) != mostHeld || !h.Gaps[0].Equal(new(kind(fmt.Sprint(3*mostHeld-1)))) {
		t.Errorf("%d gaps are held, first %+v", len(h.Gaps), h.Gaps[0])
	}
}
