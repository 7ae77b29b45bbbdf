package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

// An alert's link leads to its finding, summed up over the hours.
func TestFindingPage(t *testing.T) {
	ctx := t.Context()
	st, err := store.OpenSQLite(ctx, filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Acquire(ctx, "lane", 0, 0); err != nil {
		t.Fatal(err)
	}
	key := tally.Key{Rule: "secret-enumeration", Node: "<script>alert(1)</script>"}
	now := time.Now().UTC().Truncate(time.Second)
	var entries []tally.Entry
	for i, at := range []time.Time{now.Add(-2 * time.Hour), now} {
		entries = append(entries, tally.Entry{
			ID: tally.ID{byte(i)}, Time: at, Findings: []tally.Finding{{Key: key, Severity: rules.Critical, Message: "m", AuditID: "a"}},
		})
	}
	if err := st.Commit(ctx, &tally.Commit{At: now, Lanes: []tally.LaneCommit{{Lane: "lane", Latest: now, Entries: entries}}}); err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /findings/{id}", (&runner{store: st}).findingPage("prod"))
	get := func(id string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/findings/"+id, nil))
		return w
	}
	id := sinks.FromGroup("prod", &key, &tally.Group{}).ID
	w := get(id)
	var got sinks.Finding
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %v: %s", w.Code, w.Header(), err, w.Body)
	}
	if got.ID != id || got.Count != 2 || got.Node != key.Node || !got.First.Equal(now.Add(-2*time.Hour)) || !got.Last.Equal(now) {
		t.Errorf("%+v", got)
	}
	if w := get("0000"); w.Code != http.StatusNotFound {
		t.Errorf("of an unknown finding: %d", w.Code)
	}
}
