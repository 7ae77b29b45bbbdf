package app

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
)

// A kind that the API server does not serve, as pod certificate requests by default, is nothing to be alerted of; one that may not be read is.
func TestKindMetrics(t *testing.T) {
	got := kindMetrics([]cluster.KindStatus{
		{Kind: "Pod", Synced: true, Objects: 3, Judged: true},
		{Kind: "PodCertificateRequest", Absent: true, Judged: true},
		{Kind: "Node", Refused: true, Judged: true},
		{Kind: "Role", Judged: true},
	})
	if diff := cmp.Diff([]metrics.Kind{
		{Name: "Pod", Objects: 3, Synced: true}, {Name: "PodCertificateRequest", Synced: true}, {Name: "Node"}, {Name: "Role"},
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// However many objects come and go, so many are kept that have ended, and all of the last minutes.
func TestEndedObjectsAreBounded(t *testing.T) {
	const most = 100
	for name, c := range map[string]struct {
		every         time.Duration // one ends
		least, atMost int           // are kept
		early         bool
	}{
		"few":               {time.Hour, 24, 25, false},
		"just as many":      {15 * time.Minute, 96, 97, false},
		"a little too many": {14 * time.Minute, most, most, true},
		"many":              {time.Minute, most, most, true},
		"in no time":        {time.Second, int(atLeastKept / time.Second), int(atLeastKept/time.Second) + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &stateFeed{State: cluster.NewState(), horizon: 24 * time.Hour, maxEnded: most}
			now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
			stamp := func() nodeauthz.Stamp { return nodeauthz.Stamp{Time: now, Source: nodeauthz.SourceWatch} }
			var early time.Time
			for i := range 2000 {
				uid := strconv.Itoa(i)
				f.Graph.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "web", UID: uid, NodeName: "n1", Secrets: []string{"db"}}, stamp())
				now = now.Add(c.every)
				f.Graph.DeletePod("shop", "web", uid, stamp())
				early = f.prune(now)
			}
			n := f.Graph.Stats().Tenures
			if n < c.least || n > c.atMost || early.IsZero() == c.early || !f.forgotten.Equal(early) {
				t.Errorf("%d are kept; of %s, what ended by %s is forgotten early (%s)", n, now, early, f.forgotten)
			}
		})
	}
}

// What the state forgot within the window is not proved by it.
func TestForgottenStateProvesNothing(t *testing.T) {
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	now := time.Now().UTC()
	features, err := nodeauthz.FeaturesFor("1.36")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		forgotten time.Time
		known     bool
	}{
		"nothing": {time.Time{}, true}, "before the window": {now.Add(-25 * time.Hour), true}, "in the window": {now.Add(-time.Hour), false},
	} {
		f := &stateFeed{State: cluster.NewState(), horizon: 48 * time.Hour, given: true, forgotten: c.forgotten}
		var journal strings.Builder
		for i, at := range []time.Time{now.Add(-72 * time.Hour), now.Add(time.Minute)} {
			fmt.Fprintf(&journal, `{"type":"%s","observedAt":"%s","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1","uid":"1","resourceVersion":"%d"}}}`+"\n",
				[]string{"ADDED", "MODIFIED"}[i], at.Format(time.RFC3339Nano), i+1)
		}
		if err := f.Load([]string{"-"}, strings.NewReader(journal.String())); err != nil {
			t.Fatal(err)
		}
		w, err := openWitnessed(t.Context(), db, witnessed{
			config: func() *config.Config {
				o := config.Default()
				o.State.Horizon, o.Readiness.MinWindow = config.Duration(f.horizon), config.Duration(24*time.Hour)
				return o
			},
			state: f, setup: judging.New(f.State, judging.Options{Features: features, Mode: &pipeline.Mode{}}), instance: "i",
			window: func() (from, to time.Time, heard bool) { return now.Add(-24 * time.Hour), now, true },
		})
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for _, m := range w.remember(now, true) {
			if m.Kind != rememberedState {
				continue
			}
			var p stateProof
			if err := json.Unmarshal(m.Value, &p); err != nil {
				t.Fatal(err)
			}
			if found = true; p.NodesKnown != c.known || !c.known && (p.NeedsKnown || p.Servers.Known) {
				t.Errorf("%s is forgotten: %+v", name, p)
			}
		}
		if !found {
			t.Errorf("%s: no proof", name)
		}
	}
}

// With a horizon as long as the window that readiness asks for, which is the default, the state covers what is asked for until a request a while after the last pruning.
func TestTheHorizonCoversTheWindow(t *testing.T) {
	c := config.Default()
	if c.State.Horizon != c.Readiness.MinWindow {
		t.Fatalf("the horizon is %s, the window %s", c.State.Horizon, c.Readiness.MinWindow)
	}
	f := &stateFeed{State: cluster.NewState(), horizon: c.State.Horizon.D(), maxEnded: c.State.MaxEnded, given: true}
	latest := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
	f.RBAC.CoverFrom(latest.Add(-72 * time.Hour))
	for pause := range 5 { // of several logs, one is behind by minutes
		f.prune(latest)
		to := latest.Add(-time.Duration(pause) * time.Minute)
		if from := to.Add(-c.Readiness.MinWindow.D() - moreThanAsked); !f.RBAC.CoversAll(from, to) {
			t.Errorf("with the latest stored request %d minutes before the latest in the log, bindings are not known from %s on", pause, from)
		}
	}
}
