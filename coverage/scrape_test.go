package coverage

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/wording"
)

// apiserver answers with the metrics that it is given.
type apiserver struct {
	mu   sync.Mutex
	body string
	code int
}

func (a *apiserver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Header.Get("Authorization") != "Bearer token" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.WriteHeader(a.code)
	_, _ = w.Write([]byte(a.body)) // who asks may have gone
}

// metricsOf are those of an API server's process: when it began, in seconds after the first answer, and its counters.
func metricsOf(start int, events, failed, rejected, requests int) string {
	return fmt.Sprintf(`# HELP apiserver_audit_error_total [ALPHA] Counter of audit events that failed to be audited properly.
# TYPE apiserver_audit_error_total counter
apiserver_audit_error_total{plugin="buffered"} %d
apiserver_audit_error_total{plugin="webhook"} 1
# TYPE apiserver_audit_event_total counter
apiserver_audit_event_total %d
# TYPE apiserver_audit_requests_rejected_total counter
apiserver_audit_requests_rejected_total %d
# TYPE apiserver_request_duration_seconds histogram
apiserver_request_duration_seconds_bucket{verb="GET",le="+Inf"} 7
%s
# TYPE apiserver_request_total counter
apiserver_request_total{code="200",verb="GET"} %d
apiserver_request_total{code="201",verb="POST"} 5
# TYPE process_start_time_seconds gauge
process_start_time_seconds %g
`, failed, events, rejected, "other_metric{x=\""+strings.Repeat("x", 100_000)+"\"} 1", requests, float64(epoch.Unix()+int64(start)))
}

var epoch = time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)

type bench struct {
	t    *testing.T
	api  *apiserver
	s    *Scraper
	now  time.Time
	gaps []string
	log  strings.Builder
}

func newBench(t *testing.T, change func(*ScrapeOptions)) *bench {
	b := &bench{t: t, api: &apiserver{code: 200}, now: epoch}
	srv := httptest.NewServer(b.api)
	t.Cleanup(srv.Close)
	o := ScrapeOptions{
		URLs: []string{srv.URL + "/metrics?secret=1"}, Client: srv.Client(), Now: func() time.Time { return b.now },
		Gap: func(g codes.Gap) {
			line := string(g.Code) + " " + wording.English{}.Say(g.Code, g.Params)
			if !g.Decides() {
				line = "minor " + line
			}
			b.gaps = append(b.gaps, strings.ReplaceAll(line, g.Params.Text(codes.ParamWhere), "HOST"))
		},
		Authorize: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer token"); return nil },
	}
	if change != nil {
		change(&o)
	}
	var err error
	if b.s, err = NewScraper(o, zerolog.New(&b.log)); err != nil {
		t.Fatal(err)
	}
	return b
}

// scrape asks once, half a minute later, and compares the gaps.
func (b *bench) scrape(name, body string, want ...string) {
	b.t.Helper()
	b.api.mu.Lock()
	b.api.body = body
	b.api.mu.Unlock()
	b.gaps, b.now = nil, b.now.Add(30*time.Second)
	b.s.Scrape(context.Background())
	if diff := cmp.Diff(want, b.gaps); diff != "" {
		b.t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestScraper(t *testing.T) {
	dropped := func(n int) string {
		return fmt.Sprintf(`apiserver-dropped the API server at HOST could not write %d audit events, which are not in the log (apiserver_audit_error_total: %d by plugin "buffered")`, n, n)
	}
	b := newBench(t, nil)
	b.scrape("what was before is not known", metricsOf(-1000, 100, 50, 0, 100))
	b.scrape("nothing", metricsOf(-1000, 200, 50, 0, 200))
	b.scrape("seven", metricsOf(-1000, 300, 57, 0, 300), dropped(7))
	b.scrape("no more", metricsOf(-1000, 400, 57, 0, 400))
	b.scrape("a new process, two", metricsOf(130, 10, 2, 0, 10),
		`apiserver-dropped the API server at HOST could not write 3 audit events, which are not in the log (apiserver_audit_error_total: 2 by plugin "buffered", 1 by plugin "webhook")`)
	b.scrape("another one that was there before", metricsOf(-500, 900, 900, 0, 900))
	b.scrape("the first again, which lost three meanwhile", metricsOf(130, 20, 5, 0, 20), dropped(3))
	b.scrape("and the other", metricsOf(-500, 950, 901, 0, 950), dropped(1))
	b.scrape("a reset without a new start", metricsOf(-500, 1, 4, 0, 1), dropped(4))
	b.scrape("refused requests", metricsOf(-500, 10, 4, 9, 10), "minor apiserver-rejected the API server at HOST refused 9 requests because they could not be audited (apiserver_audit_requests_rejected_total)")
	b.scrape("few requests and no event", metricsOf(-500, 10, 4, 9, 100))
	b.scrape("many requests and no event", metricsOf(-500, 10, 4, 9, 1000), "apiserver-unaudited the API server at HOST served 900 requests and wrote no audit event: it has no audit policy, or one that hides everything")
	st := b.s.Stats()[0]
	if !st.Up || st.Failures != 0 || st.Lost != 18 || !st.LastSuccess.Equal(b.now) || strings.Contains(st.URL, "secret") {
		t.Errorf("%+v", st)
	}
}

func TestScraperFailures(t *testing.T) {
	b := newBench(t, func(o *ScrapeOptions) { o.MaxBytes = 1 << 20 })
	b.scrape("good", metricsOf(-1000, 100, 0, 0, 100))
	for name, body := range map[string]string{
		"empty": "", "another program's": "go_goroutines 7\n", "no number": "apiserver_audit_event_total x\n", "torn": "apiserver_audit_error_total{plugin=\"buf",
		"too long": strings.Repeat("x", 2<<20), "less than nothing": "apiserver_audit_event_total -1\n", "none": "apiserver_audit_event_total NaN\n",
	} {
		b.scrape(name, body)
		if b.s.Stats()[0].Up {
			t.Errorf("%s: it is taken for good", name)
		}
	}
	b.api.code = 403
	b.scrape("refused", metricsOf(-1000, 100, 0, 0, 100))
	b.api.code = 200
	b.scrape("what was lost meanwhile is reported", metricsOf(-1000, 900, 12, 0, 900),
		`apiserver-dropped the API server at HOST could not write 12 audit events, which are not in the log (apiserver_audit_error_total: 12 by plugin "buffered")`)
	if n := b.s.Stats()[0].Failures; n != 8 {
		t.Errorf("%d failures", n)
	}
	if n := strings.Count(b.log.String(), "cannot read the API server's metrics"); n != 1 || strings.Contains(b.log.String(), "secret") {
		t.Errorf("logged %d times: %s", n, &b.log)
	}
	b.s.o.Authorize = func(*http.Request) error { return errors.New("no token") }
	b.scrape("no credentials", "")
	for _, bad := range [][]string{nil, {"metrics"}, {"ftp://x/metrics"}, {"http://\x00"}} {
		if _, err := NewScraper(ScrapeOptions{URLs: bad}, zerolog.Nop()); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestScraperRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gaps := make(chan codes.Gap, 1)
	n := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		_, _ = w.Write([]byte(metricsOf(-1, n, n, 0, n)))
	}))
	defer srv.Close()
	s, err := NewScraper(ScrapeOptions{URLs: []string{srv.URL}, Every: time.Millisecond, Gap: func(g codes.Gap) {
		select {
		case gaps <- g:
		default:
		}
	}}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-gaps
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func FuzzParseTotals(f *testing.F) {
	f.Add([]byte(metricsOf(1, 2, 3, 4, 5)))
	f.Add([]byte("apiserver_audit_error_total{plugin=\"a\\nb\"} 1e3 1700000000000\napiserver_audit_error_total 7\n"))
	f.Add([]byte("# TYPE apiserver_audit_event_total histogram\napiserver_audit_event_total{le=\"1\"} 1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := parseTotals(strings.NewReader(string(b)), 1<<20)
		if err != nil {
			return
		}
		for _, v := range got.errors {
			if !(v >= 0) {
				t.Errorf("%v", got)
			}
		}
		if !(got.events >= 0 && got.rejected >= 0 && got.requests >= 0) {
			t.Errorf("%v", got)
		}
	})
}

func TestCredentials(t *testing.T) {
	srv := httptest.NewTLSServer(&apiserver{body: metricsOf(0, 1, 1, 0, 1), code: 200})
	defer srv.Close()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca := file("ca", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})))
	up := func(c Credentials) bool {
		t.Helper()
		client, err := c.Client()
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewScraper(ScrapeOptions{URLs: []string{srv.URL}, Client: client, Authorize: c.Authorize}, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		s.Scrape(context.Background())
		return s.Stats()[0].Up
	}
	token := file("token", " token\n")
	if !up(Credentials{CAFile: ca, BearerTokenFile: token}) {
		t.Error("with all that is needed")
	}
	for name, c := range map[string]Credentials{
		"no CA": {BearerTokenFile: token}, "no token": {CAFile: ca}, "another name": {CAFile: ca, BearerTokenFile: token, ServerName: "kubernetes"},
		"no such token": {CAFile: ca, BearerTokenFile: filepath.Join(dir, "none")}, "an empty token": {CAFile: ca, BearerTokenFile: file("empty", "\n")},
		"two tokens": {CAFile: ca, BearerTokenFile: file("two", "a\nb\n")},
	} {
		if up(c) {
			t.Errorf("%s: it is answered", name)
		}
	}
	for name, c := range map[string]Credentials{
		"no such CA": {CAFile: filepath.Join(dir, "none")}, "no CA in it": {CAFile: token}, "no certificate": {CertFile: token, KeyFile: token},
	} {
		if _, err := c.Client(); err == nil {
			t.Errorf("%s: there is a client", name)
		}
	}
}
