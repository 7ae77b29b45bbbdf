package app

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

// figures are the series of the metrics of checks that are 1, as name, check and state or question.
func figures(t *testing.T, s *service) map[string]bool {
	t.Helper()
	families, err := s.metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, f := range families {
		if !slices.Contains([]string{"nodetrail_check", "nodetrail_check_lost", "nodetrail_answer"}, f.GetName()) {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetGauge().GetValue() == 1 {
				out[strings.TrimPrefix(f.GetName(), "nodetrail_")+" "+labels(m)] = true
			}
		}
	}
	return out
}

func labels(m *dto.Metric) string {
	var out []string
	for _, l := range m.GetLabel() {
		out = append(out, l.GetValue())
	}
	return strings.Join(out, " ")
}

// watched runs a service over a log until its metrics have all of want, and returns what they were then.
func watched(t *testing.T, dir string, d *days.Day, log []byte, want ...string) map[string]bool {
	t.Helper()
	write, config := serviceOf(t, dir, d)
	s, err := newService(RunOptions{StoreOptions: StoreOptions{Config: config}, Logs: []string{write("audit.log", log)}, Log: LogTo{W: io.Discard}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	if err := s.open(ctx, s.reloader.Current()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx) }()
	var got map[string]bool
	for {
		got = figures(t, s)
		if !slices.ContainsFunc(want, func(w string) bool { return !got[w] }) {
			break
		}
		select {
		case err := <-ended:
			t.Fatalf("it ended: %v", err)
		case <-t.Context().Done():
			t.Fatalf("want %q, got %v", want, got)
		case <-time.After(50 * time.Millisecond):
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// A breaking client that begins after a check has passed is reported as a loss, also if nodetrail was stopped between the two; one that was there from the
// beginning is not.
func TestMetricsTellThatAPassedCheckFails(t *testing.T) {
	clean := threeHours(t, 22, days.Options{Servers: 1})
	planted := func(name string) []byte {
		t.Helper()
		m, ok := days.Named(name, 5)
		if !ok {
			t.Fatalf("no mutation %s", name)
		}
		bad, applies := m.Apply(clean)
		if !applies {
			t.Fatalf("%s does not apply", name)
		}
		return bad.Log()
	}
	lost := func(all map[string]bool) (out []string) {
		for k := range all {
			if strings.HasPrefix(k, "check_lost ") {
				out = append(out, k)
			}
		}
		slices.Sort(out)
		return out
	}
	t.Run("afterwards", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		got := watched(t, dir, clean, clean.Log(), "check nothing-depends passed", "answer ready ready")
		if diff := cmp.Diff([]string(nil), lost(got)); diff != "" {
			t.Errorf("of a clean day (-want +got):\n%s", diff)
		}
		for _, c := range checks.All() {
			n := 0
			for _, state := range checks.States() {
				if got["check "+c.Name+" "+state.String()] {
					n++
				}
			}
			if n != 1 {
				t.Errorf("%s is in %d states", c.Name, n)
			}
		}
		got = watched(t, dir, clean, planted("plant-last"), "check nothing-depends failed", "answer not ready ready")
		// The same request is use of RBAC rights, which is about confinement.
		if diff := cmp.Diff([]string{"check_lost no-excess-use confined", "check_lost nothing-depends ready", "check_lost one-holder confined"}, lost(got)); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	})
	t.Run("from the beginning", func(t *testing.T) {
		t.Parallel()
		got := watched(t, t.TempDir(), clean, planted("plant-first"), "check nothing-depends failed", "check window-covered passed", "answer not ready ready")
		if diff := cmp.Diff([]string(nil), lost(got)); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	})
}

// What counts as lost, one look after the other.
func TestLost(t *testing.T) {
	type look struct {
		after time.Duration
		state checks.State
		part  bool // the log does not reach back far enough
		want  bool
	}
	f := func(name string, looks ...look) {
		t.Run(name, func(t *testing.T) {
			w := &checkWatch{passed: map[string]time.Time{}, stored: map[string]time.Time{}, lost: map[string]time.Time{}}
			now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
			for i, l := range looks {
				now = now.Add(l.after)
				all := []checks.Result{{Check: "agreement", State: l.state}, {Check: "one-holder", State: l.state}}
				for j := range all {
					all[j].Evidence = []checks.Item{{State: l.state}}
				}
				w.take(now, !l.part, checks.Conclude(checks.Ready, all, nil), checks.Conclude(checks.Confined, all, nil))
				for _, check := range []string{"agreement", "one-holder"} {
					if got := w.metrics().Lost(check); got != l.want {
						t.Errorf("look %d: %s is lost: %t", i, check, got)
					}
				}
			}
		})
	}
	const s = 5 * time.Second
	f("never passed", look{state: checks.Failed}, look{after: s, state: checks.Failed})
	f("never whole", look{state: checks.Passed, part: true}, look{after: s, state: checks.Failed})
	f("not proven any more", look{state: checks.Passed}, look{after: s, state: checks.Unproven})
	f("waived", look{state: checks.Waived}, look{after: s, state: checks.Failed})
	f("lost for long", look{state: checks.Passed}, look{after: 240 * time.Hour, state: checks.Failed, want: true}, look{after: 240 * time.Hour, state: checks.Failed, want: true})
	f("part of a log again", look{state: checks.Passed}, look{after: s, state: checks.Failed, part: true, want: true})
	f("by way of unproven", look{state: checks.Passed}, look{after: s, state: checks.Unproven}, look{after: s, state: checks.Failed, want: true})
	f("between two scrapes", look{state: checks.Passed}, look{after: s, state: checks.Failed, want: true},
		look{after: s, state: checks.Passed, want: true}, look{after: lostFor, state: checks.Passed})
}
