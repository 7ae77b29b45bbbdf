package dashboards

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// stack is nodetrail, scraped by Prometheus.
type stack struct {
	log                   string // the file of audit events that nodetrail follows
	nodetrail, prometheus *plane.Process
	api                   string
	started               time.Time
}

func startStack(t *testing.T) *stack {
	t.Helper()
	prometheus := plane.MustFind(t, "prometheus")
	program, err := trail.Build(work.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &stack{log: write(t, filepath.Join(dir, "audit.log"), ""), started: time.Now()}
	listen, prom := plane.MustAddress(t), plane.MustAddress(t)
	capture, err := filepath.Abs(filepath.Join(root, "internal", "demo", "capture", "journal.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	webhook, err := trail.NewWebhook(dir) // nobody posts to it; its certificate has a metric
	if err != nil {
		t.Fatal(err)
	}
	config := write(t, filepath.Join(dir, "nodetrail.yaml"), fmt.Sprintf(`
cluster: test
data: %q
listen: %q
state: {files: [%q]}
coverage: {apiserverMetrics: {urls: ["http://%s/metrics"]}} # where nobody listens
sources:
  files: [{paths: [%q], poll: 100ms}]
  webhook: %s
sinks:
  jsonl: [{path: %q}]
  alertmanager: [{urls: ["http://%s"]}] # where nobody listens
`, filepath.Join(dir, "data"), listen, capture, plane.MustAddress(t), s.log, webhook.Config, filepath.Join(dir, "findings.jsonl"), plane.MustAddress(t)))
	s.nodetrail = work.MustStart(t, "nodetrail", program, "run", "--config", config)

	rules, err := filepath.Abs(filepath.Join(folder(t), "prometheus", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	scrape := write(t, filepath.Join(dir, "prometheus.yml"), fmt.Sprintf(`
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
scrape_configs:
  - job_name: nodetrail
    honor_labels: true
    static_configs: [{targets: [%q], labels: {cluster: test}}]
`, rules, listen))
	s.prometheus = work.MustStart(t, "prometheus", prometheus, "--config.file="+scrape, "--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+prom)
	s.api = "http://" + prom + "/api/v1/"
	return s
}

// get asks Prometheus, and fills out with the data of the answer.
func (s *stack) get(path string, params url.Values, out any) error {
	if err := errors.Join(s.nodetrail.Alive(), s.prometheus.Alive()); err != nil {
		return err
	}
	resp, err := http.Get(s.api + path + "?" + params.Encode())
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w: %s", resp.Status, err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", resp.Status, answer.Error)
	}
	return json.Unmarshal(answer.Data, out)
}

// sample is a time and a value.
type sample [2]any

func (v sample) number() float64 {
	text, _ := v[1].(string)
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// values evaluates a query as its panel does, and returns all numbers.
func (s *stack) values(expr string, isRange bool) ([]float64, error) {
	params, path := url.Values{"query": {expr}}, "query"
	if isRange {
		params.Set("start", strconv.FormatInt(s.started.Unix(), 10))
		params.Set("end", strconv.FormatInt(time.Now().Unix(), 10))
		params.Set("step", "1")
		path = "query_range"
	}
	var data struct {
		Result []struct {
			Value  sample
			Values []sample
		}
	}
	if err := s.get(path, params, &data); err != nil {
		return nil, err
	}
	var out []float64
	for _, r := range data.Result {
		for _, v := range append(r.Values, r.Value) {
			if f := v.number(); !math.IsNaN(f) {
				out = append(out, f)
			}
		}
	}
	return out, nil
}

// play appends the capture to the log in parts. Each is sent when Prometheus has seen the one before, so that its counters rise.
func (s *stack) play(t *testing.T) {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "internal", "demo", "capture", "audit.log.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n"))
	lines[len(lines)-1] = append(lines[len(lines)-1], '\n')
	const parts = 10
	out, err := os.OpenFile(s.log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for i := range parts {
		from, to := len(lines)*i/parts, len(lines)*(i+1)/parts
		if _, err := out.Write(bytes.Join(lines[from:to], nil)); err != nil {
			t.Fatal(err)
		}
		work.MustEventually(t, fmt.Sprintf("Prometheus sees %d events", to), func() error {
			got, err := s.values(`sum(nodetrail_events_total{outcome="read"})`, false)
			if err != nil {
				return err
			}
			if len(got) != 1 || got[0] != float64(to) {
				return fmt.Errorf("it sees %v", got)
			}
			return nil
		})
	}
}

// variables gives each variable a value as Grafana would: of those that Prometheus has the first, and where all may be chosen all.
func (s *stack) variables(t *testing.T, d *dashboard) map[string]string {
	t.Helper()
	out := d.examples()
	out["__rate_interval"], out["__range"], out["cluster"] = "10s", "5m", "test"
	for name, q := range d.variableQueries(t) {
		selector, err := fill(q[0], out)
		if err != nil {
			t.Fatal(err)
		}
		var values []string
		if err := s.get("label/"+q[1]+"/values", url.Values{"match[]": {selector}}, &values); err != nil || len(values) == 0 {
			t.Errorf("%s: the variable %s has no values: %v", d.UID, name, err)
			continue
		}
		if name == "node" {
			out[name] = "worker-1"
			if !slices.Contains(values, out[name]) {
				t.Errorf("the nodes are %v", values)
			}
		}
	}
	return out
}

// positive are panels that must show more than zero of this capture.
var positive = regexp.MustCompile(`^(nodetrail-migration: (Requests that need RBAC|Nodes left|Clients left|By )|nodetrail-detections: (Critical|High|Medium|Rules with|Alerts firing|Find|Nodes|Requests)|` +
	`nodetrail-node: (Requests|Denied)|nodetrail-self: (Processes|Agreement|Events|Sources up|Envelopes|From receipt|Commits|Objects|Findings sent|Memory, |CPU|Goroutines|Last|Versions))`)

func TestStack(t *testing.T) {
	s := startStack(t)
	work.MustEventually(t, "Prometheus scrapes nodetrail", func() error {
		got, err := s.values(`nodetrail_source_up{cluster="test"}`, false)
		if err == nil && len(got) == 0 {
			err = errors.New("nothing yet")
		}
		return err
	})
	s.play(t)
	var open []query
	for _, d := range loadDashboards(t) {
		values := s.variables(t, &d)
		for _, q := range d.queries() {
			expr, err := fill(q.expr, values)
			if err != nil {
				t.Fatalf("%s: %v", q.where, err)
			}
			q.expr = expr
			open = append(open, q)
		}
	}
	work.MustEventually(t, "every panel has data", func() error {
		var errs []error
		open = slices.DeleteFunc(open, func(q query) bool {
			err := s.shows(&q)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", q.where, q.expr, err))
			}
			return err == nil
		})
		return errors.Join(errs...)
	})
	s.rules(t)
	s.exports(t)
}

// notHere are metrics that a stack without a cluster, and with a log of before it was started, does not have.
var notHere = []string{"nodetrail_state_synced", "nodetrail_state_lag_seconds", "nodetrail_findings_last_timestamp_seconds"}

// exports checks that every metric that a query names is there: "or vector(0)" must not hide that it never is.
func (s *stack) exports(t *testing.T) {
	t.Helper()
	var queries []string
	for _, d := range loadDashboards(t) {
		for _, q := range d.queries() {
			queries = append(queries, q.expr)
		}
	}
	for _, r := range loadRules(t) {
		queries = append(queries, r.Expr)
	}
	names := map[string]bool{}
	for _, q := range queries {
		for _, name := range regexp.MustCompile(`[\w:]*\bnodetrail_[\w:]+|[\w:]+:nodetrail_[\w:]+`).FindAllString(q, -1) {
			names[name] = !slices.Contains(notHere, name)
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d metrics are named", len(names))
	}
	var there []string
	work.MustEventually(t, "every metric that is named is exported", func() error {
		if err := s.get("label/__name__/values", nil, &there); err != nil {
			return err
		}
		for name, want := range names {
			if want != slices.Contains(there, name) {
				return fmt.Errorf("%s is there: %t", name, !want)
			}
		}
		return nil
	})
}

// shows is an error when the panel of a query is without data, or shows only zeros where there is something to show.
func (s *stack) shows(q *query) error {
	got, err := s.values(q.expr, q.isRange)
	if err != nil {
		return err
	}
	if len(got) == 0 {
		return errors.New("no data")
	}
	if strings.HasSuffix(q.where, "query 1") && positive.MatchString(q.where) && slices.Max(got) <= 0 {
		return errors.New("only zeros")
	}
	return nil
}

// rules checks that Prometheus could evaluate every rule, and that findings make their alert fire.
func (s *stack) rules(t *testing.T) {
	t.Helper()
	want := len(loadRules(t))
	work.MustEventually(t, "the rules are evaluated", func() error {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
		if err := s.get("rules", nil, &data); err != nil {
			return err
		}
		n := 0
		for _, g := range data.Groups {
			for _, r := range g.Rules {
				n++
				if r.Health != "ok" {
					return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
				}
				if r.Name == "RbacExcessAccess" && r.State != "firing" {
					return fmt.Errorf("%s is %s", r.Name, r.State)
				}
			}
		}
		if n != want {
			return fmt.Errorf("%d rules, want %d", n, want)
		}
		return nil
	})
}
