package app

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// serverLogs are the logs of the API servers of a day, each in the order of time.
func serverLogs(d *days.Day) (all [][]byte) {
	for i := range d.Options.Servers {
		all = append(all, d.ServerLog(i))
	}
	return all
}

// asInput has the analysis read a log from standard input.
func asInput(log []byte) func(*AnalyzeOptions) {
	return func(o *AnalyzeOptions) { o.Stdin = bytes.NewReader(log) }
}

// If the logs of several API servers are given one after the other, a notice says so, and a credential that somebody else used is not said to have one user.
// Each log as a file of its own shows the other user.
func TestLogsOneAfterTheOther(t *testing.T) {
	clean := threeHours(t, 47, days.Options{Minor: 36, Servers: 2, Features: days.KubeadmJoin | days.Rotation})
	leftOut := 0
	for seed := range effort.Of(uint64(12), 4) {
		thief, _ := days.Named([]string{"holder-elsewhere", "holder-moves"}[seed%2], seed)
		bad, ok := thief.Apply(clean)
		if !ok {
			t.Fatalf("%s does not apply", thief.Name)
		}
		logs := serverLogs(bad)
		var paths []string
		for i, log := range logs {
			paths = append(paths, filepath.Join(t.TempDir(), string(rune('a'+i))+".log"))
			if err := os.WriteFile(paths[i], log, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		apart := analyzedDay(t, bad, func(o *AnalyzeOptions) { o.Logs, o.Stdin = paths, nil })
		if s, codes := codesOf(apart.Facts.Checks, "one-holder"); s != checks.Failed || apart.LeftOut > 0 || len(apart.Notices()) > 0 {
			t.Errorf("%s, a file for each server: %s, %q, %d left out, %q", bad.Applied[0].What, s, codes, apart.LeftOut, apart.Notices())
		}
		for range logs {
			slices.Reverse(logs)
			a := analyzedDay(t, bad, asInput(slices.Concat(logs...)))
			s, codes := codesOf(a.Facts.Checks, "one-holder")
			said := strings.Join(a.Notices(), "\n")
			if s == checks.Passed || !slices.Contains(codes, string(checks.CodeLeftOut)) || !strings.Contains(said, "<stdin>: the log goes back in time, from 20") || !strings.Contains(said, "a file of its own") {
				t.Errorf("%s, one after the other: %s, %q, %q", bad.Applied[0].What, s, codes, said)
			}
			if s, codes := codesOf(a.Facts.Checks, "birth-guarded"); s != checks.Unproven || !slices.Contains(codes, string(checks.CodeLeftOut)) {
				t.Errorf("one after the other: birth-guarded %s, %q", s, codes)
			}
			if s != checks.Failed {
				leftOut++
			}
		}
	}
	if leftOut == 0 {
		t.Error("no theft was among what was left out")
	}
}

// One API server whose clock is far behind the other's writes into the same log, or a shipper brings a part of a log late: the report does not say that all was seen.
func TestPartOfALogIsLate(t *testing.T) {
	clean := threeHours(t, 48, days.Options{Minor: 36, Servers: 2})
	from, to := clean.From.Add(100*time.Minute), clean.From.Add(110*time.Minute)
	var before, late, after []*days.Event
	for _, e := range clean.Events {
		switch {
		case e.Server == 0 && e.IsNode() && e.Received.After(from) && e.Received.Before(to):
			late = append(late, e)
		case e.Staged.Before(to.Add(30 * time.Minute)):
			before = append(before, e)
		default:
			after = append(after, e)
		}
	}
	shipped := *clean
	shipped.Events = slices.Concat(before, late, after)
	a := analyzedDay(t, &shipped)
	if s, codes := codesOf(a.Facts.Checks, "one-holder"); s != checks.Unproven || !slices.Equal(codes, []string{string(checks.CodeLeftOut)}) || a.LeftOut == 0 || a.LeftOut > int64(len(late)) {
		t.Errorf("%s, %q, %d of %d left out", s, codes, a.LeftOut, len(late))
	}
	// A window that begins after that is not concerned.
	a = analyzedDay(t, &shipped, func(o *AnalyzeOptions) { o.MinWindow = time.Hour })
	if s, codes := codesOf(a.Facts.Checks, "one-holder"); s != checks.Passed {
		t.Errorf("an hour: %s, %q", s, codes)
	}
}

// An ordinary log is in order, whatever happens on its day: watches that began before it, API servers that restart, and logs of several servers that are merged.
// What is up to a minute late, or a short log, is judged whatever its order.
func TestOrdinaryLogsLeaveNothingOut(t *testing.T) {
	for i, features := range []days.Features{
		days.ServerRestart | days.GraphLag, days.Join | days.KubeadmJoin | days.Rotation, days.Upgrade, days.Autoscaling | days.Spot | days.NotReady,
		days.DHCP | days.DualStack | days.ControlPlane | days.Windows, days.Drains | days.Deployments | days.VirtualNodes,
	} {
		if i%effort.Of(1, 3) != 0 {
			continue
		}
		day := threeHours(t, uint64(150+i), days.Options{Minor: 35, Servers: 1 + i%3, Features: features})
		for _, omit := range [][]string{{days.StageReceived}, {}, {days.StageStarted}, {days.StageReceived, days.StageStarted}} {
			d, err := days.OmitStages(day, omit, false)
			if err != nil {
				t.Fatal(err)
			}
			if len(omit) == 0 { // API servers that end do not answer
				n := 0
				d.Events = slices.DeleteFunc(d.Events, func(e *days.Event) bool {
					n++
					return n%40 == 0 && e.IsNode() && e.Stage == days.StageComplete && e.Verb != "watch"
				})
			}
			if a := analyzedDay(t, d); a.LeftOut > 0 || len(a.Notices()) > 0 {
				t.Errorf("%v without %v: %d left out, %q", features.Names(), omit, a.LeftOut, a.Notices())
			}
		}
	}
	d := threeHours(t, 160, days.Options{Minor: 36, Servers: 2})
	shuffled := *d
	shuffled.Events = slices.Clone(d.Events)
	slices.SortStableFunc(shuffled.Events, func(a, b *days.Event) int {
		return a.Staged.Add(time.Duration(a.Server) * time.Minute).Compare(b.Staged.Add(time.Duration(b.Server) * time.Minute))
	})
	if a := analyzedDay(t, &shuffled); a.LeftOut > 0 || len(a.Notices()) > 0 {
		t.Errorf("a minute late: %d left out, %q", a.LeftOut, a.Notices())
	}
}
