package web

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// What is put together of an old part and a new one is what is read at once, whatever was added, and when.
func TestPartsAreTheWhole(t *testing.T) {
	s := newSite(t, time.Hour)
	counting := &countingStore{Store: s.store}
	s.o.Store = counting
	parts := s.server()
	parts.data.cache.worth = 0
	rnd := rand.New(rand.NewPCG(1, 2))
	now := at0(0)
	for round := range effort.Of(40, 3) {
		var entries []tally.Entry
		for i := range 1 + rnd.IntN(20) {
			when := now.Add(-time.Duration(rnd.IntN(3600)) * time.Second)
			if rnd.IntN(8) == 0 { // late
				when = now.Add(-time.Duration(rnd.IntN(40)) * time.Hour)
			}
			e := excess(when, fmt.Sprintf("n%d", rnd.IntN(4)), fmt.Sprintf("s%d", rnd.IntN(9)), "kubelet", fmt.Sprintf("b%d", rnd.IntN(3)))
			e.ID = tally.IDOf(fmt.Sprint(round, i))
			e.Findings[0].AuditID = fmt.Sprint(round, i)
			if rnd.IntN(3) == 0 {
				e.IsNode = false // of no node
			}
			entries = append(entries, e)
		}
		s.commit(entries...)
		if rnd.IntN(3) == 0 {
			now = now.Add(time.Duration(rnd.IntN(150)) * time.Minute)
		}
		whole := s.server()
		for _, window := range []string{"", "30h", "3h", "1h"} {
			for _, path := range []string{"overview", "report", "findings", "bindings", "nodes", "bindings/clusterrolebinding/-/b1"} {
				get := func(h *Server) any {
					var v any
					ok(t, json.Unmarshal(do(h, request("/api/v1/"+path+"?window="+window)).Body.Bytes(), &v))
					return withoutIDs(v)
				}
				if d := cmp.Diff(get(whole), get(parts)); d != "" {
					t.Fatalf("round %d, %s of %q (-whole +parts):\n%s", round, path, window, d)
				}
			}
		}
	}
	kept := 0
	for _, w := range parts.data.cache.windows {
		if w.snap.old != nil {
			kept++
		}
	}
	if kept == 0 {
		t.Error("no part was kept")
	}
}

// withoutIDs leaves out which of many audit IDs are shown.
func withoutIDs(v any) any {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "auditIDs")
		for _, one := range v {
			withoutIDs(one)
		}
	case []any:
		for _, one := range v {
			withoutIDs(one)
		}
	}
	return v
}

// A request with a time that is still to come, of an API server whose clock is wrong, does not move the windows away from all others.
func TestWindowBeforeTheFuture(t *testing.T) {
	s := newSite(t, time.Hour)
	future := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, at := range []time.Time{time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC), future} {
		s.commit(tally.Entry{Time: at, IsNode: true, Node: "worker-1", Verdict: nodeauthz.Allow})
	}
	for _, path := range []string{"/api/v1/report?window=1h", "/api/v1/report", "/api/v1/overview?window=7d"} {
		var got struct {
			Verdicts struct{ Allow int }
			Window   report.Window
		}
		ok(t, json.Unmarshal(do(s.server(), request(path)).Body.Bytes(), &got))
		if got.Verdicts.Allow != 2 || !got.Window.To.Equal(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)) {
			t.Errorf("%s: %d requests up to %v, want both, and the end of those that are not in the future", path, got.Verdicts.Allow, got.Window.To)
		}
	}
}
