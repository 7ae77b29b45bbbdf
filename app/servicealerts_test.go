package app

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/alertmanager"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/tally"
)

func TestAlertStore(t *testing.T) {
	ctx := context.Background()
	st, err := store.OpenSQLite(ctx, filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	a := &alertStore{store: st, cluster: "prod"}
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	want := []alertmanager.Kept{{
		Key: "alertmanager \x00\xff", First: at, Last: at.Add(time.Minute), Learnt: at, Taken: at.Add(time.Hour),
		Finding: sinks.Finding{ID: "1", Rule: "r", First: at, Last: at, Count: 3, AuditIDs: []string{"a"}},
	}}
	other := alertmanager.Kept{Key: "other", Learnt: at}
	if err := a.Keep(ctx, append(want, other), nil); err != nil {
		t.Fatal(err)
	}
	got, err := a.Kept(ctx, "alertmanager ")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := a.Keep(ctx, nil, []string{want[0].Key}); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Kept(ctx, "alertmanager "); len(got) != 0 || err != nil {
		t.Errorf("%v, %v", got, err)
	}
}

// What the configuration says reaches Alertmanager, for what is stored as for what was.
func TestAlertSink(t *testing.T) {
	type alert struct {
		Labels       map[string]string
		Annotations  map[string]string
		GeneratorURL string
	}
	got := make(chan alert, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var all []alert
		user, password, _ := r.BasicAuth()
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil || user != "u" || password != "p" || r.URL.Path != "/prefix/api/v2/alerts" {
			t.Errorf("%v, %s:%s, %s", err, user, password, r.URL.Path)
		}
		for _, a := range all {
			got <- a
		}
	}))
	defer srv.Close()
	ctx := context.Background()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "password"), []byte("p\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	st, err := store.OpenSQLite(ctx, filepath.Join(dir, "nodetrail.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c, err := config.Parse("c", []byte(`
cluster: prod
sinks: {alertmanager: [{urls: ["`+srv.URL+`/prefix/"], username: u, passwordFile: `+filepath.Join(dir, "password")+`, minSeverity: high, labels: {team: a}, runbooks: "https://r"}]}
exceptions:
- {rule: node-identity, match: 'finding.node.startsWith("excepted")', owner: a, reason: b, expires: 9999-12-31}
`), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	entry := func(rule, name string, severity rules.Severity) tally.Entry {
		return tally.Entry{ID: tally.IDOf(name), Time: time.Now(), IsNode: true, Node: "n", Findings: []tally.Finding{{
			Key: tally.Key{Rule: rule, Node: name}, Severity: severity, Params: codes.Params{codes.Text(codes.ParamMessage, "m")}, AuditID: "1",
		}}}
	}
	if _, err := st.Acquire(ctx, "lane", 0, 0); err != nil {
		t.Fatal(err)
	}
	before := []tally.Entry{entry("node-identity", "before", rules.Critical), entry("node-identity", "excepted-before", rules.Critical)}
	if err := st.Commit(ctx, &tally.Commit{At: time.Now(), Lanes: []tally.LaneCommit{{Lane: "lane", Entries: before}}}); err != nil {
		t.Fatal(err)
	}
	alerts := &alertStore{store: st, cluster: "prod"}
	set := &sinkSet{recent: alerts.recent, keeper: alerts}
	if err := set.replace(c, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	set.add(&pipeline.Stored{Entries: []tally.Entry{entry("node-identity", "now", rules.High), entry("no-vault-reads", "own", rules.High), entry("node-identity", "excepted", rules.Critical), entry("node-identity", "low", rules.Low)}})
	all := map[string]alert{}
	for len(all) < 3 {
		a := <-got
		all[a.Labels["node"]] = a
	}
	for node, x := range map[string]struct{ alert, rule, severity, level, runbook string }{
		"before": {"NodeIdentity", "node-identity", "critical", "critical", "docs/rules/node-identity.md"},
		"now":    {"NodeIdentity", "node-identity", "high", "warning", "docs/rules/node-identity.md"},
		"own":    {"NoVaultReads", "no-vault-reads", "high", "warning", "docs/own-rules.md"}, // a rule that the user wrote
	} {
		a := all[node]
		want := map[string]string{"alertname": x.alert, "cluster": "prod", "severity": x.severity, "level": x.level, "rule": x.rule, "node": node, "team": "a"}
		if diff := cmp.Diff(want, a.Labels); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if a.Annotations["runbook_url"] != "https://r/"+x.runbook || len(a.GeneratorURL) != len("http://127.0.0.1:9876/findings/")+32 {
			t.Errorf("%+v", a)
		}
	}
	if s := set.alertStats(); len(s) != 1 || s[0].Firing != 3 || s[0].Name != "alertmanager" {
		t.Errorf("%+v", s)
	}
	if s := set.stats(); len(s) != 1 || s[0].Name != "alertmanager:"+srv.Listener.Addr().String() {
		t.Errorf("%+v", s)
	}
	if err := set.close(ctx); err != nil {
		t.Error(err)
	}
}

// laneStore is a store with one lane, and what commits a request of a node at a time to it.
func laneStore(t *testing.T) (st *store.Store, commit func(at, of time.Time)) {
	t.Helper()
	st, err := store.OpenSQLite(t.Context(), filepath.Join(t.TempDir(), "nodetrail.db"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	if _, err := st.Acquire(t.Context(), "lane", 0, 0); err != nil {
		t.Fatal(err)
	}
	return st, func(at, of time.Time) {
		t.Helper()
		e := tally.Entry{ID: tally.IDOf(at.String()), Time: of, IsNode: true, Node: "n"}
		if err := st.Commit(t.Context(), &tally.Commit{At: at, Lanes: []tally.LaneCommit{{Lane: "lane", Entries: []tally.Entry{e}}}}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWatchedSince: history is what a store is first given to read, also if that is interrupted, and not what came while nobody watched.
func TestWatchedSince(t *testing.T) {
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	hour := func(n float64) time.Time { return day.Add(time.Duration(n * float64(time.Hour))) }
	for name, starts := range map[string][]struct {
		now, want float64
		reads     float64 // up to this, by the log's time
	}{
		"an empty store, and a restart after days of downtime": {{0, 0, 1}, {100, 0, 100}, {200, 0, 200}},
		"a first reading that is interrupted":                  {{0, 0, -600}, {1, 0, -500}, {2, 0, 2}, {50, 0, 50}},
		"a first reading of this morning's log, interrupted":   {{0, 0, -10}, {0.5, 0, -5}, {1, 0, 1}},
		"two analyzers that start together, one reads at once": {{0, 0, -10}, {0.001, 0, -9}},
		"a clock that was ahead at the first start":            {{9000, 9000, -1}, {1, -1, 1}},
		"requests of an API server whose clock is ahead":       {{0, 0, 9000}, {1, 0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			st, commit := laneStore(t)
			for i, start := range starts {
				got, err := watchedSince(t.Context(), st, hour(start.now))
				if err != nil || !got.Equal(hour(start.want)) {
					t.Errorf("start %d: %s, %v, want %s", i, got, err, hour(start.want))
				}
				commit(hour(start.now), hour(start.reads))
			}
		})
	}
	// A store of before that was noted.
	st, commit := laneStore(t)
	commit(day, hour(-600))
	for range 2 {
		if got, err := watchedSince(t.Context(), st, hour(0)); err != nil || !got.Equal(hour(-600)) {
			t.Errorf("%s, %v", got, err)
		}
	}
}

// TestLedgerLanes: a source has the name by which it is configured, also where several processes have one of that name, and what is no source has none.
func TestLedgerLanes(t *testing.T) {
	m := metrics.New(metrics.Options{})
	l := &ledger{metrics: m, sinks: &sinkSet{}, suffix: ownSuffix("a"), lanes: map[string]laneSum{}}
	at := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	l.stored(&pipeline.Stored{Lanes: []pipeline.StoredLane{
		{Lane: "file:audit@a", Events: tally.Events{Read: 3}, Latest: at},
		{Lane: "kafka:audit/0", Latest: at.Add(time.Hour)}, // how far it is, without an event
		{Lane: tally.OverTimeLane},
	}})
	l.stored(&pipeline.Stored{Lanes: []pipeline.StoredLane{{Lane: "file:audit@a", Events: tally.Events{Read: 2}, Latest: at.Add(-time.Hour)}}})
	if got := l.lane("file:audit"); got.events != 5 || !got.latest.Equal(at) {
		t.Errorf("%+v", got)
	}
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, f := range families {
		for _, s := range f.GetMetric() {
			for _, label := range s.GetLabel() {
				if label.GetName() == "source" && !slices.Contains(got[f.GetName()], label.GetValue()) {
					got[f.GetName()] = append(got[f.GetName()], label.GetValue())
				}
			}
		}
	}
	want := map[string][]string{
		"nodetrail_events_total":                        {"file:audit", "kafka:audit"},
		"nodetrail_source_last_event_timestamp_seconds": {"file:audit"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The window is from the first to the last request, whatever their order, and a request of a clock that is far ahead does not move its end.
func TestLedgerWindow(t *testing.T) {
	l := &ledger{metrics: metrics.New(metrics.Options{}), sinks: &sinkSet{}, lanes: map[string]laneSum{}}
	now := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what     string
		entry    tally.Entry
		from, to time.Duration // as from now
	}{
		{"the first request", tally.Entry{IsNode: true, Time: now.Add(-time.Hour)}, -time.Hour, -time.Hour},
		{"an older one", tally.Entry{IsNode: true, Time: now.Add(-3 * time.Hour)}, -3 * time.Hour, -time.Hour},
		{"one between them", tally.Entry{IsNode: true, Time: now.Add(-2 * time.Hour)}, -3 * time.Hour, -time.Hour},
		{"no request of a node", tally.Entry{Time: now}, -3 * time.Hour, -time.Hour},
		{"one without a time", tally.Entry{IsNode: true}, -3 * time.Hour, -time.Hour},
		{"one that is too far ahead", tally.Entry{IsNode: true, Time: now.Add(pipeline.AheadAtMost + 1)}, -3 * time.Hour, -time.Hour},
		{"one that is ahead", tally.Entry{IsNode: true, Time: now.Add(pipeline.AheadAtMost)}, -3 * time.Hour, pipeline.AheadAtMost},
	} {
		l.stored(&pipeline.Stored{At: now, Entries: []tally.Entry{c.entry}})
		if from, to, _ := l.window(); !from.Equal(now.Add(c.from)) || !to.Equal(now.Add(c.to)) {
			t.Errorf("after %s: from %s to %s", c.what, from, to)
		}
	}
}

func TestExternalURL(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for listen, want := range map[string]string{
		"127.0.0.1:9876": "http://127.0.0.1:9876", ":9876": "http://" + host + ":9876", "0.0.0.0:80": "http://" + host + ":80", "[::]:80": "http://" + host + ":80",
		"[::1]:80": "http://[::1]:80", "a:80": "http://a:80",
	} {
		if got := externalURL(listen); got != want {
			t.Errorf("%s: %s, want %s", listen, got, want)
		}
	}
}
