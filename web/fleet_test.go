package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/report"
)

// fleetSite is a fleet of stores in memory of this test, which counts what is opened.
type fleetSite struct {
	t    testing.TB
	list report.Fleet
	of   map[string]*site

	mu           sync.Mutex
	open, opened int
	listErr      error
}

func newFleetSite(t testing.TB, names ...string) *fleetSite {
	f := &fleetSite{t: t, of: map[string]*site{}}
	for i, name := range names {
		now, schema := at(100), fmt.Sprintf("schema%d~%s", i, name)
		s := newSite(t, time.Hour)
		s.o.Cluster = name
		s.commit(excess(at(i), fmt.Sprintf("node-of-%d", i), "db", "calico-node", "legacy"))
		f.of[schema] = s
		f.list.Clusters = append(f.list.Clusters, report.FleetCluster{
			Name: name, Schema: schema, At: &now, Last: &now, Current: true, Nodes: i,
			Readiness: report.AnswerIn(checks.Ready, "ready", 0, 0, 0, true), Confinement: report.AnswerIn(checks.Confined, "not confined", 0, 2, 1, true),
		})
	}
	return f
}

func (f *fleetSite) server(access Access) *Server {
	f.t.Helper()
	s, err := NewFleet(FleetOptions{
		List: func(context.Context) (*report.Fleet, error) { return &f.list, f.listErr },
		Open: func(_ context.Context, schema string) (Options, func(), error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.open++
			f.opened++
			if f.open > maxOpen {
				f.t.Errorf("%d are open", f.open)
			}
			return f.of[schema].o, func() { f.mu.Lock(); defer f.mu.Unlock(); f.open-- }, nil
		},
		Access: access, Log: zerolog.New(zerolog.NewTestWriter(f.t)), Now: func() time.Time { return at(100) },
	})
	ok(f.t, err)
	f.t.Cleanup(s.Close)
	return s
}

// The page of fifty clusters lists them all, whatever their names hold, opens none, and is as every page.
func TestFleetPage(t *testing.T) {
	names := []string{"", "prod", hostile("x"), "..", "a/b c?d#e%2F"}
	for i := len(names); i < effort.Of(50, 8); i++ {
		names = append(names, fmt.Sprintf("cluster-%d", i))
	}
	f := newFleetSite(t, names...)
	f.list.Clusters[3].Trouble = "it is <broken>"
	f.list.Clusters[4].Current, f.list.Clusters[4].Readiness = false, report.AnswerIn(checks.Ready, "ready", 0, 0, 0, false)
	h := f.server(Access{})
	w := do(h, request("/", "Accept", "text/html"))
	body := w.Body.String()
	checkPage(t, "fleet", body)
	if w.Code != 200 || len(body) > maxPage || strings.Count(body, `data-label="Cluster"`) != len(names) {
		t.Errorf("status %d, %d bytes, %d rows", w.Code, len(body), strings.Count(body, `data-label="Cluster"`))
	}
	for _, want := range []string{">cluster-7</a>", "(no name, schema schema0~)", "it is &lt;broken&gt;", `no analyzer gave an answer since`, "2 failed checks", ">Not confined</strong>", ">Ready</strong>"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if f.opened > 0 {
		t.Errorf("%d clusters were opened for the list", f.opened)
	}
	var got, asked report.Fleet
	ok(t, json.Unmarshal(do(h, request("/api/v1/fleet")).Body.Bytes(), &got))
	ok(t, json.Unmarshal(do(h, request("/", "Accept", "application/json")).Body.Bytes(), &asked))
	if len(got.Clusters) != len(names) || len(asked.Clusters) != len(names) || got.Clusters[2].Name != strings.ToValidUTF8(names[2], "\ufffd") {
		t.Errorf("%d clusters as JSON, %q", len(got.Clusters), got.Clusters[2].Name)
	}
	c := newChecker(t, h)
	c.get(apiPrefix+"/fleet", nil, "", http.StatusOK)
	c.get(apiPrefix+"/fleet", nil, "x=1", http.StatusBadRequest)
	if document := c.get(apiPrefix+"/openapi.json", nil, "", http.StatusOK); string(document) != string(description) {
		t.Error("a server of several clusters describes another API")
	}
	if c := got.Clusters[4]; c.Readiness.Verdict != "not enough evidence" || c.Readiness.Said != "ready" || c.Current {
		t.Errorf("of an analyzer that is silent: %+v", c)
	}
	empty := newFleetSite(t)
	w = do(empty.server(Access{}), request("/", "Accept", "text/html"))
	checkPage(t, "no clusters", w.Body.String())
	f.listErr = errors.New("password=secret")
	for _, path := range []string{"/", "/api/v1/fleet", clusterURL("schema1~prod", "")} {
		if w := do(h, request(path, "Accept", "text/html")); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s of a database that is away: %d %s", path, w.Code, w.Body)
		}
	}
}

// Each cluster's pages are under its own path, whatever its schema is called. Few are open at a time. What is no cluster is not opened.
func TestFleetClusters(t *testing.T) {
	var names []string
	for i := range maxOpen + 4 {
		names = append(names, fmt.Sprint("c", i, `/"<x>%2F`))
	}
	f := newFleetSite(t, names...)
	h := f.server(Access{})
	for range 2 {
		for i, c := range f.list.Clusters {
			base := clusterURL(c.Schema, "")
			for path, want := range map[string]string{
				"": fmt.Sprintf("node-of-%d", i), "nodes": fmt.Sprintf("node-of-%d", i), "api/v1/overview": fmt.Sprintf(`"name":"node-of-%d"`, i), "findings.csv": fmt.Sprintf("node-of-%d,", i),
				fmt.Sprintf("nodes/node-of-%d", i): "Findings",
			} {
				w := do(h, request(base+path, "Accept", "text/html"))
				body := w.Body.String()
				if w.Code != 200 || !strings.Contains(body, want) || strings.Contains(strings.ReplaceAll(body, fmt.Sprintf("node-of-%d", i), ""), "node-of-") {
					t.Fatalf("%s: %d, want %q in %.2000s", base+path, w.Code, want, body)
				}
				if !strings.Contains(path, "api") && !strings.Contains(path, ".csv") {
					checkPage(t, base+path, body)
					if strings.Contains(body, `href="/nodes`) || !strings.Contains(body, `<a href="/">All clusters</a>`) {
						t.Errorf("%s leads out of the cluster", base+path)
					}
				}
			}
			if w := do(h, request(base+"objects?resource=secrets&namespace=shop&name=db")); w.Code != http.StatusSeeOther || !strings.HasPrefix(w.Header().Get("Location"), base+"objects/secrets/shop/db") {
				t.Errorf("an object: %d to %s", w.Code, w.Header().Get("Location"))
			}
			if w := do(h, request(base+"nodes", "Accept", "application/json")); !strings.HasPrefix(w.Body.String(), `{"window":`) {
				t.Errorf("a page as JSON: %s", w.Body)
			}
		}
	}
	before := f.opened
	for path, want := range map[string]int{
		"/clusters/pg_catalog/": 404, "/clusters/pg_catalog/api/v1/overview": 404, "/clusters/": 404, "/clusters": 404, "/findings": 404, "/api/v1/overview": 404, "/?x=1": 400, "/api/v1/fleet?x=1": 400,
	} {
		if w := do(h, request(path)); w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
	if f.opened != before {
		t.Error("what is no cluster was opened")
	}
}

// Whoever may not read the pages reads none of any cluster.
func TestFleetAccess(t *testing.T) {
	f := newFleetSite(t, "prod")
	h := f.server(Access{})
	for _, path := range []string{"/", "/api/v1/fleet", clusterURL(f.list.Clusters[0].Schema, ""), clusterURL(f.list.Clusters[0].Schema, "") + "api/v1/report"} {
		r := request(path)
		r.RemoteAddr = "10.0.0.7:5000"
		if w := do(h, r); w.Code != http.StatusForbidden {
			t.Errorf("%s from another machine: %d", path, w.Code)
		}
		r = request(path)
		r.Method = http.MethodPost
		if w := do(h, r); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, w.Code)
		}
	}
	if f.opened > 0 {
		t.Error("a cluster was opened for who may not read it")
	}
}

// At most maxOpen clusters are open while all of them are read at the same time.
func TestFleetTogether(t *testing.T) {
	var names []string
	for i := range 2 * maxOpen {
		names = append(names, fmt.Sprint("c", i))
	}
	f := newFleetSite(t, names...)
	h := f.server(Access{})
	var all sync.WaitGroup
	for i := range 4 * len(names) {
		all.Go(func() {
			n := i % len(names)
			w := do(h, request(clusterURL(f.list.Clusters[n].Schema, "")+"api/v1/nodes"))
			switch {
			case w.Code == http.StatusServiceUnavailable:
			case w.Code != 200 || !strings.Contains(w.Body.String(), fmt.Sprintf(`"node-of-%d"`, n)):
				t.Errorf("cluster %d: %d %s", n, w.Code, w.Body)
			}
		})
	}
	all.Wait()
}

// A cluster that is being read is not closed for another one, which is refused until there is room.
func TestFleetInUse(t *testing.T) {
	var names []string
	for i := range maxOpen + 1 {
		names = append(names, fmt.Sprint("c", i))
	}
	f := newFleetSite(t, names...)
	entered, leave := make(chan struct{}), make(chan struct{})
	for _, s := range f.of {
		facts := s.o.Facts
		s.o.Facts = func(ctx context.Context) (report.Facts, error) {
			entered <- struct{}{}
			<-leave
			return facts(ctx)
		}
	}
	h := f.server(Access{})
	get := func(i int) int { return do(h, request(clusterURL(f.list.Clusters[i].Schema, "")+"api/v1/nodes")).Code }
	var all sync.WaitGroup
	for i := range maxOpen {
		all.Go(func() {
			if code := get(i); code != http.StatusOK {
				t.Errorf("cluster %d: %d", i, code)
			}
		})
	}
	for range maxOpen {
		<-entered
	}
	if code := get(maxOpen); code != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", code)
	}
	if f.open != maxOpen {
		t.Errorf("%d are open, while %d are read", f.open, maxOpen)
	}
	close(leave)
	all.Wait()
	go func() { <-entered }()
	if code := get(maxOpen); code != http.StatusOK {
		t.Errorf("one more, later: %d", code)
	}
}
