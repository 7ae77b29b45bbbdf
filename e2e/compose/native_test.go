package compose

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
	"github.com/nodetrail/nodetrail/internal/test/tail"
)

// patience is how long a test waits for what does not come.
const patience = 4 * time.Minute

func waitABit(ctx context.Context) error {
	select {
	case <-time.After(50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// start starts nodetrail, and ends it with the test.
func start(t *testing.T, args ...string) *tail.Buffer {
	t.Helper()
	said := &tail.Buffer{}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdout, cmd.Stderr = said, said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = time.Minute
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // of what a signal ended
	}()
	t.Cleanup(func() {
		<-ended
		if t.Failed() {
			t.Logf("nodetrail %s:\n%.5000s", args[0], said)
		}
	})
	return said
}

// alertmanager collects the alerts that are posted to it.
type alertmanager struct {
	mu     sync.Mutex
	alerts map[string]map[string]string // the labels by alertname and node
}

func (a *alertmanager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.URL.Path != "/api/v2/alerts" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	var alerts []struct{ Labels map[string]string }
	if err := json.Unmarshal(body, &alerts); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, alert := range alerts {
		a.alerts[alert.Labels["alertname"]+" "+alert.Labels["node"]] = alert.Labels
	}
}

func (a *alertmanager) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, labels := range a.alerts {
		if labels["cluster"] == "demo" {
			names = append(names, labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestNative is the composition without docker: the player's command and nodetrail's configuration as they are, but for addresses and folders,
// with a real broker between them. What the capture is known to hold must come out at the other end.
func TestNative(t *testing.T) {
	brokers := kafkatest.Start(t, kafkatest.Options{}).Addresses()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	client := &kafkago.Client{Addr: kafkago.TCP(brokers...)}
	if _, err := client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: "audit", NumPartitions: 6, ReplicationFactor: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	alerts := &alertmanager{alerts: map[string]map[string]string{}}
	am := httptest.NewServer(alerts)
	defer am.Close()

	p := load(t)
	dir := t.TempDir()
	here := strings.NewReplacer("kafka:9092", brokers[0], "/var/lib/nodetrail", filepath.Join(dir, "data"), "/var/lib/play", dir,
		"/etc/nodetrail/", filepath.Join(root, "deploy/compose")+"/", "listen: :9876", "listen: 127.0.0.1:0", "http://alertmanager:9093", am.URL)
	text, err := os.ReadFile(filepath.Join(root, "deploy/compose/nodetrail.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "nodetrail.yaml")
	if err := os.WriteFile(config, []byte(here.Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}

	// All is due already: the player does not wait.
	play := append(slices.Clone(p.Services["player"].Command), "--rounds", "1", "--start", time.Now().Add(-2*time.Minute).Format(time.RFC3339))
	for i := range play {
		play[i] = here.Replace(play[i])
	}
	start(t, play...)
	check := p.Services["player"].HealthCheck.Test
	until(ctx, t, "the journal", func() bool { return exec.CommandContext(ctx, program, check[2], here.Replace(check[3])).Run() == nil })
	said := start(t, "run", "--config", config)
	listening := regexp.MustCompile(`"listen":"(127\.0\.0\.1:\d+)"`)
	until(ctx, t, "nodetrail", func() bool { return listening.MatchString(said.String()) })
	address := listening.FindStringSubmatch(said.String())[1]
	until(ctx, t, "readiness", func() bool {
		return exec.CommandContext(ctx, program, "health", "http://"+address+"/readyz").Run() == nil
	})

	var m metrics
	defer func() {
		if t.Failed() {
			t.Logf("the last scrape:\n%.20000s", strings.Join(m.lines, "\n"))
		}
	}()
	until(ctx, t, "the events", func() bool {
		m = scrape(ctx, t, address)
		// All at once over several partitions, a change and a request that belong together may come in either order: some more are races then.
		return m.sum("nodetrail_events_total", `outcome="read"`) >= 3881 && m.sum("nodetrail_agreement_total", "") >= 2247
	})
	if n := m.sum("nodetrail_agreement_total", `outcome="disagree",race="false"`); n != 0 {
		t.Errorf("%v verdicts disagree outside of races", n)
	}
	if n := m.sum("nodetrail_events_total", `outcome="malformed"`) + m.sum("nodetrail_deadletters_total", ""); n != 0 {
		t.Errorf("%v events could not be read", n)
	}
	want := []string{"CredentialIncident", "NodeIdentity"}
	until(ctx, t, "alerts", func() bool {
		names := alerts.names()
		return !slices.ContainsFunc(want, func(name string) bool { return !slices.Contains(names, name) })
	})
	t.Logf("alerts: %q", alerts.names())
	// What is there only where a cluster is watched, where API servers are scraped, where the webhook is served, with a certificate, or where something was
	// lost. Of all metrics ../dashboards asks.
	absent := regexp.MustCompile(`^nodetrail_(state_|apiserver_|webhook_|certificate_expiry_|coverage_gaps_total$)`)
	for _, name := range ruleMetrics(t) {
		if !m.families[name] && !absent.MatchString(name) {
			t.Errorf("a Prometheus rule asks for %s, which nodetrail does not have", name)
		}
	}
}

// metrics is one scrape.
type metrics struct {
	families map[string]bool
	lines    []string
}

func scrape(ctx context.Context, t *testing.T, address string) metrics {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/metrics", address), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	m := metrics{families: map[string]bool{}}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(name, " ")
			m.families[name] = true
			if kind == "histogram" {
				m.families[name+"_bucket"], m.families[name+"_sum"], m.families[name+"_count"] = true, true, true
			}
			continue
		}
		m.lines = append(m.lines, line)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return m
}

// sum adds up a metric's values where the labels hold a text.
func (m *metrics) sum(name, labels string) float64 {
	var sum float64
	for _, line := range m.lines {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") || !strings.Contains(line[:at], labels) {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err == nil {
			sum += v
		}
	}
	return sum
}

// ruleMetrics are the metrics of nodetrail that the rules ask for, without those that rules record.
func ruleMetrics(t *testing.T) []string {
	t.Helper()
	var names []string
	recorded := map[string]bool{}
	s, c := prometheus(t)
	for _, path := range ruleFiles(t, s, c) {
		groups, errs := rulefmt.ParseFile(path, false, model.UTF8Validation)
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, g := range groups.Groups {
			for _, r := range g.Rules {
				recorded[r.Record] = true
				expr, err := parser.ParseExpr(r.Expr)
				if err != nil {
					t.Fatal(err)
				}
				parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
					if v, ok := n.(*parser.VectorSelector); ok && strings.HasPrefix(v.Name, "nodetrail_") {
						names = append(names, v.Name)
					}
					return nil
				})
			}
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return recorded[name] })
}
