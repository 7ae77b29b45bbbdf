package app

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// A log that ended long ago keeps state only while nothing tells of now, or while it is read.
func TestPruneFrom(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	hour := func(n int) time.Time { return now.Add(time.Duration(n) * time.Hour) }
	old := pipeline.LaneStats{Lane: "old", Latest: hour(-700)}
	older := pipeline.LaneStats{Lane: "older", Latest: hour(-900)}
	fresh := pipeline.LaneStats{Lane: "fresh", Latest: hour(-1)}
	none := pipeline.LaneStats{Lane: "none"}
	read, held := old, old
	read.Behind, held.Batches = true, 1
	f := func(name string, want time.Time, live bool, lanes ...pipeline.LaneStats) {
		t.Helper()
		used := map[string]time.Time{"gone": now}
		for _, l := range lanes {
			used[l.Lane] = now.Add(-time.Hour)
		}
		if got := pruneFrom(lanes, now, 24*time.Hour, live, used); !got.Equal(want) {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if len(used) != len(lanes) {
			t.Errorf("%s: %v is kept", name, used)
		}
	}
	f("nothing", now, false)
	f("nothing came yet", now, false, none)
	f("now", hour(-1), false, fresh)
	f("only old logs", hour(-900), false, old, older)
	f("an old log and nothing else yet", hour(-700), false, old, none)
	f("an old log and a live one", hour(-1), false, old, fresh)
	f("an old log and the cluster", now, true, old)
	f("it is read", hour(-700), false, read, fresh)
	f("some of it is in hand", hour(-700), true, held)

	used := map[string]time.Time{}
	if got := pruneFrom([]pipeline.LaneStats{old, fresh}, now, 24*time.Hour, false, used); !got.Equal(hour(-700)) {
		t.Errorf("just begun: %s", got)
	}
	if got := pruneFrom([]pipeline.LaneStats{old, fresh}, now.Add(idleAfter+time.Minute), 24*time.Hour, false, used); !got.Equal(hour(-1)) {
		t.Errorf("idle since: %s", got)
	}
}

// keeper keeps house with a store and an engine of its own, and logs into a buffer.
func keeper(t *testing.T, opt store.Options) (*housekeeper, *bytes.Buffer) {
	t.Helper()
	db, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "nodetrail.db"), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	log := &bytes.Buffer{}
	e := &court{Engine: startEngine(t, db, 1<<20)}
	gaps := &gapTeller{engine: e, metrics: metrics.New(metrics.Options{}), config: config.Default, log: zerolog.New(log)}
	return &housekeeper{store: db, engine: e, gaps: gaps, used: map[string]time.Time{}}, log
}

// saidOf returns the finding that something of a lane was lost, nil if there is none, and checks how often the metric counts it.
func (h *housekeeper) saidOf(t *testing.T, reason rules.Reason, lane string, times int) *tally.Group {
	t.Helper()
	h.engine.Close("notes") // when it is stored
	all, err := h.store.Tally(t.Context(), time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	answer := httptest.NewRecorder()
	h.gaps.metrics.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if want := fmt.Sprintf("nodetrail_coverage_gaps_total{cause=%q} %d", reason, times); !strings.Contains(answer.Body.String(), want) {
		t.Errorf("no %s", want)
	}
	return all.Groups[tally.Key{Rule: rules.CoverageGap, Name: lane, Reason: reason}]
}

// What the bound of the store costs is in the log, in a metric, and a finding.
func TestAttack02AFullStoreIsTold(t *testing.T) {
	h, log := keeper(t, store.Options{MaxBytes: 1, Log: zerolog.Nop()})
	h.shrink(t.Context())
	g := h.saidOf(t, rules.StoreFull, "store", 1)
	if g == nil || g.Count != 1 || !strings.Contains(log.String(), "the store reached its bound") {
		t.Errorf("%+v, %s", g, log.String())
	}
}

// That the state forgets more than it was asked to is in the log, in a metric, and a finding, once an hour.
func TestAFullStateIsTold(t *testing.T) {
	h, log := keeper(t, store.Options{Log: zerolog.Nop()})
	f := &stateFeed{State: cluster.NewState(), horizon: 24 * time.Hour, maxEnded: 10}
	h.state = f
	now := time.Now()
	end := func(n int, at time.Time) {
		for i := range n {
			uid := at.String() + strconv.Itoa(i)
			stamp := nodeauthz.Stamp{Time: at, Source: nodeauthz.SourceWatch}
			f.Graph.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "web", UID: uid, NodeName: "n1"}, stamp)
			f.Graph.DeletePod("shop", "web", uid, nodeauthz.Stamp{Time: at.Add(time.Second), Source: nodeauthz.SourceWatch})
		}
	}
	end(10, now.Add(-2*time.Hour))
	h.prune(t.Context(), now)
	if log.Len() > 0 || !f.forgotten.IsZero() {
		t.Fatalf("as many as there may be: %s", log.String())
	}
	for hour := range 2 {
		at := now.Add(time.Duration(hour) * time.Hour)
		for minute := range 3 {
			end(10, at.Add(time.Duration(minute-60)*time.Minute))
			h.prune(t.Context(), at.Add(time.Duration(minute)*time.Minute))
		}
	}
	if n := strings.Count(log.String(), "more than 10 objects have ended"); n != 2 {
		t.Errorf("said %d times in two hours: %s", n, log.String())
	}
	if h.saidOf(t, rules.StateFull, "state", 2) == nil {
		t.Error("no finding")
	}
}
