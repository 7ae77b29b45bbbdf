package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/version"
)

// fitsNoOther is an event that fits no version that the rest of the capture fits: the Node authorizer of 1.36 does not let a node read another one.
const fitsNoOther = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"doubt-1","stage":"ResponseComplete","requestURI":"/api/v1/nodes/worker-2","verb":"get",` +
	`"user":{"username":"system:node:worker-1","groups":["system:nodes","system:authenticated"]},"sourceIPs":["127.0.0.1"],"userAgent":"hollow-kubelet",` +
	`"objectRef":{"resource":"nodes","name":"worker-2","apiVersion":"v1"},"responseStatus":{"metadata":{},"code":200},"requestReceivedTimestamp":"2026-11-21T06:05:03.400000Z",` +
	`"stageTimestamp":"2026-11-21T06:05:03.401000Z","annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}` + "\n"

// writesTo writes files in a folder, and returns their paths.
func writesTo(t *testing.T, dir string) func(name string, b []byte) string {
	return func(name string, b []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
}

// What a service says of versions after it was stopped and started again is what it says without: a request that fits no version is found by those of before.
// So it is if it was killed after a commit, before it stored what a report needs to know.
//
// Seen to fail where no hour is put back, where the hours are not stored with each commit, and where what was found before counts once more.
func TestARestartForgetsNoVersion(t *testing.T) {
	lines := bytes.SplitAfter(unpacked(t, filepath.Join(capture, "audit.log.gz")), []byte("\n"))
	lines = append(lines[:len(lines)-1], []byte(fitsNoOther))
	o := captureOptions("capture")
	dir := t.TempDir()
	write := writesTo(t, dir)
	o.Logs = []string{write("whole.log", bytes.Join(lines, nil))}
	whole, err := Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	want := whole.Report.Authorization.Versions
	if len(want) != 1 || !want[0].Moved {
		t.Fatalf("analyze says %+v", want)
	}
	for name, parts := range map[string][]int{"before the last request": {len(lines) - 1}, "twice": {len(lines) / 3, len(lines) / 2}, "after all": {len(lines)}} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, killed %t", name, killed), func(t *testing.T) {
				t.Parallel()
				s := &restarted{t: t, from: StoreOptions{Data: filepath.Join(t.TempDir(), "data")}, state: o.State, log: filepath.Join(t.TempDir(), "audit.log")}
				for _, part := range append(parts, len(lines)) {
					s.run(lines[:part], killed)
				}
				r := s.run(lines, false)
				if diff := cmp.Diff(want, r.Authorization.Versions, cmpopts.IgnoreFields(codes.Version{}, "Said"), cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("versions (-analyze +store):\n%s", diff)
				}
			})
		}
	}
}

// restarted is a service that is stopped and started again.
type restarted struct {
	t     *testing.T
	from  StoreOptions
	state []string
	log   string
	// written is how many lines the log has.
	written int
}

// run has it judge these lines and stops it. Killed, it has not stored the facts but those with which it began.
func (s *restarted) run(lines [][]byte, killed bool) *report.Report {
	s.t.Helper()
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	ctx, stop := context.WithCancel(s.t.Context())
	defer stop()
	began, ended := time.Now(), make(chan error, 1)
	go func() {
		ended <- Run(ctx, RunOptions{StoreOptions: s.from, State: s.state, Listen: "127.0.0.1:0", Logs: []string{s.log}, Log: LogTo{W: io.Discard}})
	}()
	c, err := s.from.load()
	if err != nil {
		s.t.Fatal(err)
	}
	await := func(is func(*store.Store) bool) {
		s.t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
			if db, err := s.from.openToRead(s.t.Context(), c); err == nil {
				done := is(db)
				if err := db.Close(); err != nil {
					s.t.Fatal(err)
				}
				if done {
					return
				}
			}
			select {
			case err := <-ended:
				s.t.Fatalf("it ended: %v", err)
			default:
			}
			if time.Now().After(deadline) {
				s.t.Fatal("it does not store what is waited for")
			}
		}
	}
	first := map[string]json.RawMessage{}
	await(func(db *store.Store) bool {
		first, err = db.Facts(s.t.Context())
		if err != nil {
			return false
		}
		for _, raw := range first {
			var f storedFacts
			if json.Unmarshal(raw, &f) == nil && f.At.After(began) {
				return true
			}
		}
		return false
	})
	if _, err := log.Write(bytes.Join(lines[s.written:], nil)); err != nil {
		s.t.Fatal(err)
	}
	s.written = len(lines)
	await(func(*store.Store) bool {
		r, err := Report(s.t.Context(), ReportOptions{StoreOptions: s.from})
		return err == nil && r.Events.Read >= int64(len(lines))
	})
	stop()
	if err := <-ended; err != nil {
		s.t.Error(err)
	}
	if killed {
		db, err := openStore(s.t.Context(), c, storeOptions(c, zerolog.Nop()))
		if err != nil {
			s.t.Fatal(err)
		}
		for instance, raw := range first {
			if err := db.Commit(s.t.Context(), &tally.Commit{At: time.Now(), Facts: raw, Instance: instance}); err != nil {
				s.t.Error(err)
			}
		}
		if err := db.Close(); err != nil {
			s.t.Error(err)
		}
	}
	r, err := Report(s.t.Context(), ReportOptions{StoreOptions: s.from})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// versionAt is a version of some hours after noon.
func versionAt(from, to int, v codes.Version) codes.Version {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	v.From, v.To = noon.Add(time.Duration(from)*time.Hour), noon.Add(time.Duration(to)*time.Hour)
	if v.Name == "" {
		v.Name = "1.36"
	}
	if v.Basis == "" {
		v.Basis, v.Known = string(version.Decisions), true
	}
	return v
}

// Of several analyzers each reads a part of the log. What any of them found of versions is in the report, whoever stored last.
func TestVersionsOfSeveralInstances(t *testing.T) {
	a := []codes.Version{
		versionAt(0, 4, codes.Version{Requests: 10}), versionAt(4, 5, codes.Version{Requests: 1, Against: 3, Examples: []string{"a1", "a2"}}), versionAt(5, 6, codes.Version{Requests: 2, Moved: true}),
	}
	b := []codes.Version{
		versionAt(2, 3, codes.Version{Requests: 5, Doubts: 2, Examples: []string{"b1"}}), versionAt(3, 4, codes.Version{Requests: 20}),
		versionAt(4, 5, codes.Version{Requests: 1, Against: 4, Examples: []string{"b2"}}), versionAt(5, 6, codes.Version{Basis: string(version.Nothing)}),
		versionAt(6, 7, codes.Version{Basis: string(version.Preference), Requests: 1, Open: 1}), versionAt(7, 8, codes.Version{Basis: string(version.Nothing)}),
	}
	want := []codes.Version{
		versionAt(0, 4, codes.Version{Requests: 30}), versionAt(2, 3, codes.Version{Requests: 5, Doubts: 2, Examples: []string{"b1"}}),
		versionAt(4, 5, codes.Version{Requests: 2, Against: 7, Examples: []string{"a1", "a2", "b2"}}), versionAt(5, 6, codes.Version{Requests: 2, Moved: true}),
		versionAt(6, 7, codes.Version{Basis: string(version.Preference), Requests: 1, Open: 1}), versionAt(7, 8, codes.Version{Basis: string(version.Nothing)}),
	}
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	for _, last := range []string{"a", "b"} {
		all := map[string]json.RawMessage{}
		for name, versions := range map[string][]codes.Version{"a": a, "b": b} {
			f := report.Facts{Authorization: report.Authorization{Versions: versions, Mode: "Node,RBAC"}}
			if name == "b" {
				f.Authorization.Overruled, f.Authorization.Mode = true, "RBAC,Node"
			}
			stored := at
			if name == last {
				stored = at.Add(time.Second)
			}
			raw, err := toStore(&f, stored, "v", &versionFacts{Name: name, Oldest: at.Add(-24 * time.Hour)}, nil)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = raw
		}
		got, err := fromStore(all)
		if diff := cmp.Diff(want, got.Authorization.Versions); diff != "" || err != nil {
			t.Errorf("%s stored last: %v (-want +got):\n%s", last, err, diff)
		}
		if !got.Authorization.Overruled || got.Authorization.Mode != "RBAC,Node" {
			t.Errorf("%s stored last: %+v", last, got.Authorization)
		}
	}
	// A process that has its store alone has what those before it found, also under another name.
	raw, err := toStore(&report.Facts{Authorization: report.Authorization{Versions: a}}, at, "v", &versionFacts{Name: "a", Alone: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := toStore(&report.Facts{Authorization: report.Authorization{Versions: a}}, at.Add(-time.Hour), "v", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := fromStore(map[string]json.RawMessage{"a": raw, "before": old}); err != nil || cmp.Diff(a, got.Authorization.Versions) != "" {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(a, got.Authorization.Versions))
	}
	// The checks find in each hour what any found.
	p := &proof{to: at, ledger: evidence.New(), facts: &report.Facts{Authorization: report.Authorization{Versions: want}}}
	found := map[string]int{}
	for _, v := range p.versions(&checks.Input{Options: checks.Options{MinWindow: 8 * time.Hour}}) {
		for what, is := range map[string]bool{"moved": v.Moved, "doubts": v.Doubts > 0, "contradicted": v.Contradicted == 7, "unknown": v.Minor == ""} {
			if is {
				found[what]++
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"moved": 1, "doubts": 1, "contradicted": 1, "unknown": 2}, found); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

// United versions do not depend on their order, and lose nothing that defeats a check.
func TestUnitedVersions(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 14))
		var all []codes.Version
		for range 1 + r.IntN(8) {
			from := r.IntN(12)
			v := versionAt(from, from+1+r.IntN(6), codes.Version{Name: []string{"1.36", "1.35"}[r.IntN(2)], Requests: int64(r.IntN(3)), Moved: r.IntN(6) == 0, Doubts: int64(max(0, r.IntN(8)-5))})
			if v.Requests == 0 && r.IntN(2) == 0 {
				v.Basis, v.Known = string(version.Nothing), false
			}
			all = append(all, v)
		}
		got := united(all)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if diff := cmp.Diff(got, united(all)); diff != "" {
			t.Fatalf("seed %d, in another order:\n%s", seed, diff)
		}
		if diff := cmp.Diff(got, united(got)); diff != "" {
			t.Fatalf("seed %d, once more:\n%s", seed, diff)
		}
		var requests, doubts int64
		for i := range all {
			v := &all[i]
			requests, doubts = requests+v.Requests, doubts+v.Doubts
			for at := v.From; at.Before(v.To); at = at.Add(time.Hour) {
				if !slices.ContainsFunc(got, func(g codes.Version) bool {
					there := !g.From.After(at) && g.To.After(at)
					return there && (g.Name == v.Name && g.Moved == v.Moved && (g.Doubts > 0) == (v.Doubts > 0) || v.Basis == string(version.Nothing) && !v.Moved)
				}) {
					t.Fatalf("seed %d: %+v is lost at %s: %+v", seed, v, at, got)
				}
			}
		}
		for i := range got {
			requests, doubts = requests-got[i].Requests, doubts-got[i].Doubts
		}
		if requests != 0 || doubts != 0 {
			t.Fatalf("seed %d: %d requests and %d doubts are lost", seed, requests, doubts)
		}
	}
}

// An hour that cannot be read any more still has what it said, and settings by which hours count otherwise begin another book.
func TestDamagedVersionBook(t *testing.T) {
	lines := bytes.SplitAfter(unpacked(t, filepath.Join(capture, "audit.log.gz")), []byte("\n"))
	s := &restarted{t: t, from: StoreOptions{Data: filepath.Join(t.TempDir(), "data")}, state: captureOptions("capture").State, log: filepath.Join(t.TempDir(), "audit.log")}
	lines = append(lines[:len(lines)-1], []byte(fitsNoOther))
	want := s.run(lines, false).Authorization.Versions
	if len(want) != 1 || !want[0].Moved {
		t.Fatalf("at first %+v", want)
	}
	c, err := s.from.load()
	if err != nil {
		t.Fatal(err)
	}
	db, err := openStore(t.Context(), c, storeOptions(c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := db.RememberedOf(t.Context(), rememberedHours)
	if err != nil || len(rows) == 0 {
		t.Fatalf("%d hours are stored: %v", len(rows), err)
	}
	for i := range rows {
		rows[i].Value = []byte(strings.Replace(string(rows[i].Value), `"r":`, `"r":-`, 1))
	}
	if err := db.Commit(t.Context(), &tally.Commit{At: time.Now(), Memory: rows}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		got := s.run(lines, false).Authorization.Versions
		if len(got) != 1 || !got[0].Moved || !got[0].From.Equal(want[0].From) || !got[0].To.Equal(want[0].To) {
			t.Errorf("after its hours were damaged %+v, before %+v", got, want)
		}
	}
}

// hoursOf are hours of requests as they are saved: the i-th of n is i hours after the first.
func hoursOf(t *testing.T, start time.Time, n int) []version.Saved {
	t.Helper()
	a := version.NewAccumulator(version.Hypotheses())
	for i := range n {
		at := start.Add(time.Duration(i) * time.Hour)
		a.Observe(&version.Request{AuditID: fmt.Sprint(i), Time: at, Implied: nodeauthz.Allow}, func(int) nodeauthz.Answer { return nodeauthz.Answer{Verdict: nodeauthz.Allow} })
	}
	all := a.Changed()
	if len(all) != n {
		t.Fatalf("%d hours of %d", len(all), n)
	}
	return all
}

func requestsOf(all []codes.Version) (n int64) {
	for i := range all {
		n += all[i].Requests
	}
	return n
}

// A book keeps a month of hours. Of those before it keeps what they said, for as long as that is asked for; a process after it has the same.
//
// Seen to fail where hours that were forgotten are put back, and where what they said is not kept.
func TestOldHoursOfVersions(t *testing.T) {
	start := time.Date(2026, 10, 1, 0, 0, 0, 0, time.UTC)
	const n = 24 * 32
	features := featuresOf(t, "1.36", nil)
	mode, err := pipeline.ParseMode("Node,RBAC")
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Data = t.TempDir()
	db, err := openStore(t.Context(), c, storeOptions(c, zerolog.Nop()))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	now := start.Add(n * time.Hour)
	open := func(settings, instance string) *versionBook {
		t.Helper()
		setup := judging.New(cluster.NewState(), judging.Options{Features: features, Skew: time.Second, Mode: mode, Versions: &judging.Versions{}})
		b, err := openVersionBook(t.Context(), db, setup, versionFacts{Settings: settings, Alone: true}, instance, now)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	stored := func(b *versionBook, memory []tally.Remembered) {
		t.Helper()
		now = now.Add(time.Second)
		f := report.Facts{Authorization: report.Authorization{Versions: b.told(foundVersions(b.setup))}}
		raw, err := toStore(&f, now, "v", &b.versionFacts, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Commit(t.Context(), &tally.Commit{At: now, Memory: memory, Facts: raw, Instance: b.Name}); err != nil {
			t.Fatal(err)
		}
	}
	b := open("", "a")
	var memory []tally.Remembered
	for _, h := range hoursOf(t, start, n) {
		if !b.setup.Judge.Versions.RestoreHour(h.Hour, h.Value) {
			t.Fatalf("hour %d is not put back", h.Hour)
		}
		b.setup.Judge.Versions.Unsaved(h.Hour)
	}
	if memory = b.changes(); len(memory) != n || len(b.changes()) != 0 {
		t.Fatalf("%d hours are to be stored", len(memory))
	}
	if b.forgone(memory[:3]); len(b.changes()) != 3 {
		t.Error("hours that could not be stored are not stored again")
	}
	check := func(what string, b *versionBook, requests int64, hours int) {
		t.Helper()
		if all := b.told(foundVersions(b.setup)); requestsOf(all) != requests || len(b.setup.Judge.Versions.Conclusions()) != hours {
			t.Errorf("%s: %d requests, not %d, in the book %d hours, not %d", what, requestsOf(all), requests, len(b.setup.Judge.Versions.Conclusions()), hours)
		}
	}
	b.forget(start.Add(n*time.Hour), 90*24*time.Hour)
	check("at first", b, n, 24*31)
	stored(b, memory)
	b = open("", "another name")
	check("after a restart", b, n, 24*31)
	b.forget(start.Add((n+48)*time.Hour), 90*24*time.Hour)
	check("two days later", b, n, 24*29)
	stored(b, b.changes())
	check("under another version", open("1.36", "a"), n, 0)
	b = open("", "a")
	b.forget(start.Add(n*time.Hour), 8*24*time.Hour)
	check("with a window of a week", b, 24*8, 24*8)
	stored(b, nil)
	check("in the end", open("", "a"), 24*8, 24*8)
}

// The hours of a longer log, in which API servers are replaced and gates change, are found alike by a service that is stopped in between.
func TestRestartsInVersionHistories(t *testing.T) {
	const end = 24 * time.Hour
	f := func(name string) nodeauthz.Features { return featuresOf(t, name, nil) }
	off := featuresOf(t, "1.33", map[string]bool{"AuthorizeNodeWithSelectors": false})
	o, log := stretched(t)
	for name, h := range map[string]history{
		"a gate flipped that nobody says": {servers: []server{{0, 90 * time.Minute, off, ""}, {90 * time.Minute, end, f("1.33"), ""}}},
		"two upgrades": {servers: []server{
			{0, 70 * time.Minute, f("1.35"), "v1.35.4"}, {65 * time.Minute, 190 * time.Minute, f("1.36"), "v1.36.4"}, {180 * time.Minute, end, f("1.37"), "v1.37.1"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := bytes.SplitAfter(h.log(t, o, log), []byte("\n"))
			lines = lines[:len(lines)-1]
			o := o
			o.Logs, o.Stdin = []string{"-"}, bytes.NewReader(bytes.Join(lines, nil))
			a, err := Analyze(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			s := &restarted{t: t, from: StoreOptions{Data: filepath.Join(t.TempDir(), "data")}, state: o.State, log: filepath.Join(t.TempDir(), "audit.log")}
			for part := 1; part < 4; part++ {
				s.run(lines[:len(lines)*part/4], part%2 == 0)
			}
			said := func(all []codes.Version) (out []string) { // which request of a race is a doubt depends on which come in together
				for i := range all {
					out = append(out, fmt.Sprint(all[i].From.UTC(), all[i].To.UTC(), all[i].Requests, all[i].Open, saying(&all[i])))
				}
				return out
			}
			if diff := cmp.Diff(said(a.Report.Authorization.Versions), said(s.run(lines, false).Authorization.Versions)); diff != "" {
				t.Errorf("versions (-analyze +store):\n%s", diff)
			}
		})
	}
}
