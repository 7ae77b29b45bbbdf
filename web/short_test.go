package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
)

// manyNodes has two reads each of so many nodes, and as many identities.
func manyNodes(t testing.TB, nodes int) *site {
	s := newSite(t, time.Hour)
	var entries []tally.Entry
	for i := range 2 * nodes {
		entries = append(entries, excess(at0(time.Duration(i)*time.Millisecond), fmt.Sprintf("n%d", i%nodes), fmt.Sprintf("s-%d", i%3), "agent", "b1"))
	}
	s.commit(entries...)
	return s
}

// What pages keep of a store with very many nodes, findings and incidents is bounded, and so is the first page's JSON. All of it can still be had.
func TestManyNodes(t *testing.T) {
	nodes := effort.Of(20_000, 2_500)
	s := manyNodes(t, nodes)
	h := s.server()
	c := h.data.cache
	c.keep = 200
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	snap, err := c.get(t.Context(), 0)
	ok(t, err)
	kept := heap() - before
	t.Logf("%d bytes for each of %d findings", kept/int64(len(snap.all)), len(snap.all))
	if most := int64(4 << 10); kept > most*int64(len(snap.all)) {
		t.Errorf("%d bytes are kept for each of %d findings, at most %d are promised", kept/int64(len(snap.all)), len(snap.all), most)
	}
	if n := len(snap.report.Incidents); n != c.keep || snap.report.IncidentsMore[incidents.Open]+snap.report.IncidentsMore[incidents.Quiet] != nodes-n {
		t.Errorf("%d incidents and %v more of %d", n, snap.report.IncidentsMore, nodes)
	}
	w := do(h, request("/api/v1/overview"))
	if w.Code != http.StatusOK || w.Body.Len() > 1<<20 {
		t.Errorf("the overview answers %d with %d bytes", w.Code, w.Body.Len())
	}
	var o Overview
	ok(t, json.Unmarshal(w.Body.Bytes(), &o))
	full, err := h.data.overview(t.Context(), "")
	ok(t, err)
	for name, n := range map[string][2]int{
		"clients": {len(o.Readiness.Clients), len(full.Readiness.Clients)}, "blockers": {len(o.Readiness.Blockers), len(full.Readiness.Blockers)},
		"doubts": {len(o.Readiness.Doubts), len(full.Readiness.Doubts)}, "identities": {len(o.Readiness.Identities), len(full.Readiness.Identities)},
	} {
		if n[0]+o.More[name] != n[1] || n[0] > overviewAtMost {
			t.Errorf("%s: %d and %d more of %d", name, n[0], o.More[name], n[1])
		}
	}
	// An incident that is not kept can be looked at, by its ID and by its credential.
	listed := map[string]bool{}
	for i := range snap.report.Incidents {
		listed[snap.report.Incidents[i].ID] = true
	}
	all, _, err := s.o.Incidents(t.Context(), time.Time{}, nil, nodes)
	ok(t, err)
	for i := range all {
		if listed[all[i].ID] {
			continue
		}
		for _, path := range []string{"/incidents/" + all[i].ID, "/api/v1/incidents/" + all[i].ID} {
			if w := do(h, request(path)); w.Code != http.StatusOK {
				t.Errorf("%s answers %d", path, w.Code)
			}
		}
		page, err := h.data.incidents(t.Context(), all[i].Credential, "")
		if ok(t, err); len(page.Incidents) != 1 || page.Incidents[0].ID != all[i].ID || page.Incidents[0].Contain[0].Message == "" {
			t.Errorf("of the credential %s: %+v", all[i].Credential, page.Incidents)
		}
		break
	}
	// The whole report is what it would be in one piece.
	w = do(h, request("/api/v1/report"))
	var got report.Report
	ok(t, json.Unmarshal(w.Body.Bytes(), &got))
	if w.Code != http.StatusOK || len(got.Findings) != len(snap.report.Findings) || len(got.Incidents) != c.keep || got.Readiness.Verdict != snap.report.Readiness.Verdict {
		t.Errorf("the report answers %d with %d findings and %d incidents", w.Code, len(got.Findings), len(got.Incidents))
	}
	// Of windows with many findings one is kept.
	c.most = len(snap.all)
	for _, window := range []time.Duration{time.Hour, 24 * time.Hour, 0} {
		_, err := c.get(t.Context(), window)
		ok(t, err)
		c.mu.Lock()
		if n := len(c.windows); n != 1 {
			t.Errorf("%d windows are kept", n)
		}
		c.mu.Unlock()
	}
}
