package app

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5" //nolint:depguard // a database of the test's own

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/store"
	"github.com/nodetrail/nodetrail/web"
)

// fleetTest is a database with clusters that look alike but for the names of their nodes: the same requests, audit IDs, files and instances.
type fleetTest struct {
	t        testing.TB
	dir, dsn string
	clusters []fleetMember
}

// fleetMember is one cluster. Its nodes, and nothing of any other cluster, have the word in their names.
type fleetMember struct {
	name, word string
	log        []byte
}

func newDatabase(t testing.TB, name string) string {
	t.Helper()
	u, err := url.Parse(postgres.Shared(t).DSN())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

func unpacked(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hostileCluster is a name that an attacker would choose.
const hostileCluster = `</title><script>alert("x")</script>'; DROP SCHEMA public --/..`

func newFleetTest(t testing.TB, database string) *fleetTest {
	f := &fleetTest{t: t, dir: t.TempDir(), dsn: newDatabase(t, database)}
	log := unpacked(t, capture+"/audit.log.gz")
	for i, name := range []string{"alpha", "beta", hostileCluster} {
		part := log[:len(log)*(3-i)/3] // they differ in length, too
		f.clusters = append(f.clusters, fleetMember{name, fmt.Sprintf("wrkr%c-", 'a'+i), part[:bytes.LastIndexByte(part, '\n')+1]})
	}
	return f
}

func (f *fleetTest) write(name string, data []byte) string {
	f.t.Helper()
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// config is the configuration of a cluster, with the database of all, or a store of its own.
func (f *fleetTest) config(m *fleetMember, shared bool) string {
	dir := fmt.Sprintf("%s-%t", m.word, shared)
	journal := bytes.ReplaceAll(unpacked(f.t, capture+"/journal.jsonl.gz"), []byte("worker-"), []byte(m.word))
	text := fmt.Sprintf("cluster: %q\ninstance: one\ndata: %s/%s\nlisten: 127.0.0.1:0\npages: {enabled: false}\nreload: {watch: false}\nreadiness: {minWindow: 1m}\nstate: {files: [%s]}\n",
		strings.ReplaceAll(m.name, "$", "$$"), f.dir, dir, f.write(m.word+"journal.jsonl", journal))
	if shared {
		text += fmt.Sprintf("store: {postgres: {dsn: %q}}\n", f.dsn)
	}
	return f.write(dir+".yaml", []byte(text))
}

// run has the cluster's analyzer judge its whole log.
func (f *fleetTest) run(m *fleetMember, config string) error {
	log := f.write(m.word+"/audit.log", bytes.ReplaceAll(m.log, []byte("worker-"), []byte(m.word)))
	ctx, stop := context.WithCancel(f.t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- Run(ctx, RunOptions{StoreOptions: StoreOptions{Config: config}, Logs: []string{log}, Log: LogTo{W: io.Discard}})
	}()
	want := int64(bytes.Count(m.log, []byte("\n")))
	for {
		r, err := Report(f.t.Context(), ReportOptions{StoreOptions: StoreOptions{Config: config}})
		if err == nil && r.Events.Read >= want {
			if all, err := Fleet(f.t.Context(), StoreOptions{Config: config}); errors.Is(err, ErrNoFleet) || slices.ContainsFunc(all.Clusters, func(c report.FleetCluster) bool {
				return c.Name == m.name && c.Current && c.Readiness.Said == r.Readiness.Verdict && c.Nodes == len(r.Nodes)
			}) {
				break
			}
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%q ended: %w", m.name, err)
		case <-f.t.Context().Done():
			return fmt.Errorf("%q: %w", m.name, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
	stop()
	return <-ended
}

// judged runs all clusters, at the same time, and returns the configuration of each.
func (f *fleetTest) judged() (configs []string) {
	f.t.Helper()
	errs := make(chan error)
	for i := range f.clusters {
		configs = append(configs, f.config(&f.clusters[i], true))
		go func() { errs <- f.run(&f.clusters[i], configs[i]) }()
	}
	for range f.clusters {
		if err := <-errs; err != nil {
			f.t.Error(err)
		}
	}
	if f.t.Failed() {
		f.t.FailNow()
	}
	return configs
}

func asJSON(t testing.TB, o ReportOptions) string {
	t.Helper()
	r, err := Report(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := (report.Text{}).WriteAs(&b, "json", r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Clusters that share a database, and have the same requests of nodes with other names, have each the report of a store of its own, to the byte. No page and
// no path of the API of one has the name of another's node.
func TestFleet(t *testing.T) {
	f := newFleetTest(t, "fleet")
	configs := f.judged()
	for i := range f.clusters {
		m := &f.clusters[i]
		own := f.config(m, false)
		if err := f.run(m, own); err != nil {
			t.Fatal(err)
		}
		want := asJSON(t, ReportOptions{StoreOptions: StoreOptions{Config: own}})
		if strings.Count(want, m.word) < 20 {
			t.Fatalf("the report of %q has no nodes", m.name)
		}
		for _, by := range []StoreOptions{{Config: configs[i]}, {Config: configs[i], Cluster: m.name}, {Config: configs[(i+1)%3], Cluster: m.name}} {
			if diff := cmp.Diff(want, asJSON(t, ReportOptions{StoreOptions: by})); diff != "" {
				t.Errorf("%q by %+v (-own +shared):\n%s", m.name, by, diff)
			}
		}
	}
	// A schema in the configuration is that of its own cluster.
	fixed := f.write("fixed.yaml", fmt.Appendf(nil, "cluster: alpha\nreadiness: {minWindow: 1m}\nstore: {postgres: {dsn: %q, schema: nodetrail_alpha}}\n", f.dsn))
	if got := asJSON(t, ReportOptions{StoreOptions: StoreOptions{Config: fixed, Cluster: "beta"}}); got != asJSON(t, ReportOptions{StoreOptions: StoreOptions{Config: configs[1]}}) {
		t.Error("another cluster than that of the schema is read otherwise")
	}
	_, err := Report(t.Context(), ReportOptions{StoreOptions: StoreOptions{Config: configs[0], Cluster: "gamma"}})
	var unknown *store.UnknownClusterError
	if !errors.As(err, &unknown) || len(unknown.There) != 3 || !strings.Contains(err.Error(), `there is no cluster "gamma": there are `) {
		t.Errorf("an unknown cluster: %v", err)
	}
	all, err := Fleet(t.Context(), StoreOptions{Config: configs[1]})
	if err != nil || len(all.Clusters) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, c := range all.Clusters {
		if c.Trouble != "" || c.Last == nil || c.Nodes != 6 || c.Readiness.Verdict == "" || !c.Current {
			t.Errorf("%+v", c)
		}
	}
	pages, stop := f.pages(configs[1], func(schema string) string { return schema })
	defer stop()
	for _, bad := range f.crawl(pages, all, effort.Of(40, 6)) {
		t.Error(bad)
	}
	// Pages that open another cluster's store, which is what this test is there to find, are found.
	swapped, stop := f.pages(configs[1], func(schema string) string {
		at := slices.IndexFunc(all.Clusters, func(c report.FleetCluster) bool { return c.Schema == schema })
		return all.Clusters[(at+1)%3].Schema
	})
	defer stop()
	if found := f.crawl(swapped, all, effort.Of(15, 3)); len(found) < 50 {
		t.Errorf("of pages that show another cluster %d are found", len(found))
	}
	f.deployed(len(all.Clusters))
}

// pages serves the fleet. It opens opened(schema) for a schema.
func (f *fleetTest) pages(config string, opened func(schema string) string) (http.Handler, func()) {
	f.t.Helper()
	c, all, err := (&StoreOptions{Config: config}).openFleet(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	s, err := web.NewFleet(web.FleetOptions{
		List: func(ctx context.Context) (*report.Fleet, error) { return listFleet(ctx, all, time.Now()) },
		Open: func(ctx context.Context, schema string) (web.Options, func(), error) {
			return openOne(ctx, c, all, opened(schema), newTurns(), warnings(LogTo{W: io.Discard}))
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return s, func() { s.Close(); all.Close() }
}

var linked = regexp.MustCompile(`(?:href|action|src)="([^"]*)"`)

// crawl follows every link from the list of clusters, asks for each page as JSON, too, and for the API, and returns what is wrong: another cluster's word, a
// link out of the cluster, an answer that is none. It looks at about so many pages of each cluster.
func (f *fleetTest) crawl(h http.Handler, all *report.Fleet, most int) (bad []string) {
	words := map[string]string{}
	for _, c := range all.Clusters {
		for _, m := range f.clusters {
			if m.name == c.Name {
				words["/clusters/"+url.PathEscape(c.Schema)] = m.word
			}
		}
	}
	get := func(path, accept string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.RemoteAddr, r.Host = "127.0.0.1:5000", "localhost:9876"
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	todo, seen := []string{"/"}, map[string]bool{"/": true}
	for base := range words {
		for _, path := range []string{"/api/v1/overview", "/api/v1/incidents", "/api/v1/findings?limit=1000", "/api/v1/nodes", "/api/v1/bindings", "/api/v1/checks", "/api/v1/rules", "/api/v1/report", "/findings.csv", "/findings.json", "/api/v1/nowhere", "/nowhere"} {
			todo = append(todo, base+path)
		}
		for _, word := range words { // what is of another cluster is not there
			todo = append(todo, base+"/nodes/"+word+"1", base+"/api/v1/nodes/"+word+"1", base+"/findings?q="+word, base+"/api/v1/findings?node="+word+"1", base+"/incidents?credential="+word+"1")
		}
	}
	pages := map[string]int{}
	for len(todo) > 0 {
		path := todo[0]
		todo = todo[1:]
		base := ""
		for b := range words {
			if strings.HasPrefix(path, b+"/") {
				base = b
			}
		}
		for _, accept := range []string{"text/html", "application/json"} {
			code, body := get(path, accept)
			if code >= 500 || code == http.StatusBadRequest && accept == "text/html" { // the API knows no window of one finding
				bad = append(bad, fmt.Sprintf("%s as %s: status %d", path, accept, code))
			}
			if strings.Contains(body, "<script>alert") {
				bad = append(bad, path+": the name of a cluster is not escaped")
			}
			for b, word := range words {
				// A page may repeat what it was asked for.
				if b != base && base != "" && strings.Contains(body, word) && !strings.Contains(path, word) {
					bad = append(bad, fmt.Sprintf("%s as %s has %s of %s", path, accept, word, b))
				}
			}
			if accept == "application/json" || strings.Contains(path, "/api/") || strings.Contains(path, ".csv") || strings.Contains(path, ".json") {
				continue
			}
			pages[base]++
			for _, m := range linked.FindAllStringSubmatch(body, -1) {
				to := strings.ReplaceAll(m[1], "&amp;", "&")
				to, _, _ = strings.Cut(to, "#")
				switch {
				case to == "" || strings.HasPrefix(to, "/assets/") || to == "/logout" || to == "/" && base != "":
				case base != "" && !strings.HasPrefix(to, base+"/"):
					bad = append(bad, path+": a link leads out of the cluster: "+to)
				case !seen[to] && pages[base] < most:
					seen[to] = true
					todo = append(todo, to)
				}
			}
		}
	}
	for base := range words {
		if pages[base] < most {
			bad = append(bad, fmt.Sprintf("%s has %d pages", base, pages[base]))
		}
	}
	return bad
}

// What a cluster's analyzers said counts while it is fresh, by either clock. What is no answer, and what cannot be read, is never READY.
func TestFleetCluster(t *testing.T) {
	now := time.Date(2026, 11, 25, 6, 0, 0, 0, time.UTC)
	const good = `{"ready":{"answer":"ready with waivers","waivers":2},"confined":{"answer":"confined"},"incidents":3,"nodes":7}`
	for _, c := range []struct {
		summary         string
		age             time.Duration
		ready, confined string
		said            string
		current         bool
		trouble         string
	}{
		{good, time.Second, "ready with waivers", "confined", "ready with waivers", true, ""},
		{good, report.FleetCurrent - time.Second, "ready with waivers", "confined", "ready with waivers", true, ""},
		{good, -time.Minute, "ready with waivers", "confined", "ready with waivers", true, ""},
		{good, report.FleetCurrent, "not enough evidence", "not enough evidence", "ready with waivers", false, ""},
		{good, 72 * time.Hour, "not enough evidence", "not enough evidence", "ready with waivers", false, ""},
		{good, -72 * time.Hour, "not enough evidence", "not enough evidence", "ready with waivers", false, ""},
		{`{"ready":{"answer":"confined"},"confined":{"answer":"ready"}}`, 0, "not enough evidence", "not enough evidence", "", true, ""},
		{`{"ready":{"answer":"READY","waivers":-1},"nodes":-5,"incidents":-1}`, 0, "not enough evidence", "not enough evidence", "", true, ""},
		{`{}`, 0, "not enough evidence", "not enough evidence", "", true, ""},
		{``, 0, "not enough evidence", "not enough evidence", "", false, ""},
		{`{"ready":{"answer":"ready"}`, 0, "not enough evidence", "not enough evidence", "", false, "its summary cannot be read"},
		{`{"ready":{"answer":"ready"},"nodes":"many"}`, 0, "not enough evidence", "not enough evidence", "", false, "its summary cannot be read"},
	} {
		got := fleetCluster(&store.Cluster{Name: "a", Schema: "s", Summary: []byte(c.summary), At: now.Add(-c.age)}, now)
		if got.Readiness.Verdict != c.ready || got.Confinement.Verdict != c.confined || got.Readiness.Said != c.said || got.Current != c.current || got.Trouble != c.trouble ||
			got.Nodes < 0 || got.Incidents < 0 || got.Readiness.Waivers < 0 || got.Note() == "" && !c.current {
			t.Errorf("%s, %s old: %+v, %q", c.summary, c.age, got, got.Note())
		}
	}
	broken := fleetCluster(&store.Cluster{Schema: "s", Err: errors.New("why")}, now)
	if broken.Trouble != "why" || broken.Readiness.Verdict != "not enough evidence" || broken.Note() != "why" || broken.Title() != "(no name, schema s)" {
		t.Errorf("%+v", broken)
	}
}

// What a configuration says of its own cluster does not answer for another one.
func TestOfCluster(t *testing.T) {
	c := config.Default()
	c.Cluster, c.Waivers, c.Exceptions = "a", []config.Waiver{{Check: "one-holder"}}, make([]config.Exception, 1)
	c.Coverage.PolicyFile, c.Authorization.KubernetesVersion, c.Data = "policy.yaml", "1.33", "data"
	if ofCluster(c, "a") != c {
		t.Error("its own cluster is read in another way")
	}
	for _, name := range []string{"b", ""} {
		got := ofCluster(c, name)
		if got.Cluster != name || len(got.Waived())+len(got.Excepted()) > 0 || got.Coverage.PolicyFile != "" || got.Authorization.KubernetesVersion != "" || got.Data != "data" {
			t.Errorf("of %q: %+v", name, got)
		}
	}
	if c.Cluster != "a" || len(c.Waivers) != 1 {
		t.Error("the configuration itself was changed")
	}
}
