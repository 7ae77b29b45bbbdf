package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
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
	"github.com/nodetrail/nodetrail/e2e/receiver"
	"github.com/nodetrail/nodetrail/e2e/trail"
	"github.com/nodetrail/nodetrail/internal/test/pgtest"
)

// stack is all that is between the API server and whoever is called at night.
type stack struct {
	program    string
	dir        string
	brokers    *brokers
	store      *pgtest.Server
	alerts     *receiver.Receiver
	gateway    *trail.Instance
	analyzers  []*trail.Instance
	prometheus string // its address
	// started are the processes of nodetrail, by name; others have to run all the time.
	started map[string][]*plane.Process
	others  []*plane.Process
	webhook *trail.Webhook
}

// startStack starts all but the analyzers, which need the state.
func startStack(t *testing.T) *stack {
	t.Helper()
	s := &stack{dir: work.Dir, started: map[string][]*plane.Process{}}
	s.program = plane.Must(trail.Build(work.Context(), work))(t)
	s.brokers = startBrokers(t)
	s.store = plane.Must(pgtest.Start())(t)
	t.Cleanup(func() {
		if err := s.store.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.alerts = plane.Must(receiver.New(work.Context(), work, "pipeline"))(t)
	t.Cleanup(func() { _ = s.alerts.Close() }) // nobody is waiting for it
	s.webhook = plane.Must(trail.NewWebhook(s.dir))(t)
	s.gateway = plane.Must(trail.New(work, s.program, "gateway", fmt.Sprintf("gateway:\n  webhook: %s\n  kafka: {brokers: [%s], topic: %s}\n",
		s.webhook.Config, quoted(s.brokers.addresses), topic)))(t)
	for i := range 2 {
		s.analyzers = append(s.analyzers, plane.Must(trail.New(work, s.program, analyzer(i), fmt.Sprintf(`cluster: %s
instance: %s
authorization: {mode: "Node,RBAC"}
state: {files: [%q], fromAudit: false}
sources: {kafka: {brokers: [%s], topics: [%s], group: %s, sessionTimeout: 6s}}
store: {postgres: {dsn: %q}}
sinks: {alertmanager: [{urls: ["http://%s"], alerts: findings}]}
`, cluster, analyzer(i), s.state(), quoted(s.brokers.addresses), topic, group, s.store.DSN(), s.alerts.Manager)))(t))
	}
	s.startPrometheus(t)
	s.others = append(s.others, s.alerts.Process)
	s.start(t, s.gateway, "gateway")
	return s
}

// state is a folder with links to the files of the state, which are made last.
func (s *stack) state() string { return filepath.Join(s.dir, "state") }

func analyzer(i int) string { return fmt.Sprint("analyzer-", i+1) }

func quoted(all []string) string {
	q := make([]string, len(all))
	for i := range all {
		q[i] = strconv.Quote(all[i])
	}
	return strings.Join(q, ", ")
}

// startAnalyzers starts them with the state, and waits until both have their part of the topic.
func (s *stack) startAnalyzers(t *testing.T, state []string) {
	t.Helper()
	plane.Check(t, os.Mkdir(s.state(), 0o755))
	for _, path := range state {
		plane.Check(t, os.Symlink(path, filepath.Join(s.state(), filepath.Base(path))))
	}
	for i := range s.analyzers {
		s.start(t, s.analyzers[i], analyzer(i))
	}
	s.members(t, len(s.analyzers))
}

// start starts a nodetrail and waits until it is ready.
func (s *stack) start(t *testing.T, i *trail.Instance, name string) {
	t.Helper()
	command := "run"
	if i == s.gateway {
		command = "gateway"
	}
	plane.Check(t, i.Start(command))
	s.started[name] = append(s.started[name], i.Process)
	plane.Check(t, plane.Eventually(work.Context(), name+" is ready", i.Ready))
}

// members waits until the group is stable with so many.
func (s *stack) members(t *testing.T, n int) {
	t.Helper()
	plane.Check(t, plane.Eventually(work.Context(), fmt.Sprintf("%d analyzers share the partitions", n), func() error { return s.brokers.members(work.Context(), n) }))
}

// alive is an error if something has ended by itself.
func (s *stack) alive() error {
	var err error
	for _, p := range s.others {
		err = errors.Join(err, p.Alive())
	}
	return err
}

// startPrometheus lets Prometheus scrape all three, with the rules of dashboards/.
func (s *stack) startPrometheus(t *testing.T) {
	t.Helper()
	program := plane.MustFind(t, "prometheus")
	s.prometheus = plane.Must(plane.FreeAddress())(t)
	rules := filepath.Join(plane.Must(plane.Root())(t), "dashboards", "prometheus", "*.yaml")
	config := filepath.Join(s.dir, "prometheus.yaml")
	plane.Check(t, os.WriteFile(config, fmt.Appendf(nil, `
global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs:
- job_name: nodetrail
  honor_labels: true
  static_configs: [{targets: [%q, %q, %q], labels: {cluster: %s}}]
`, rules, s.alerts.Manager, s.analyzers[0].Listen, s.analyzers[1].Listen, s.gateway.Listen, cluster), 0o600))
	p := plane.Must(work.Start("prometheus", program, []string{"--config.file=" + config,
		"--storage.tsdb.path=" + filepath.Join(s.dir, "prometheus"), "--web.listen-address=" + s.prometheus}))(t)
	s.others = append(s.others, p)
	plane.Check(t, plane.Eventually(work.Context(), "Prometheus is ready", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return plane.OK("http://" + s.prometheus + "/-/ready")
	}))
}

// query evaluates PromQL and returns the sum of the values; ok is false where there are none.
func (s *stack) query(expr string) (sum float64, ok bool, err error) {
	var answer struct {
		Data struct {
			Result []struct {
				Value [2]any
			}
		}
	}
	if err := getJSON("http://"+s.prometheus+"/api/v1/query?"+url.Values{"query": {expr}}.Encode(), &answer); err != nil {
		return 0, false, err
	}
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, false, fmt.Errorf("the value of %s: %w", expr, err)
		}
		sum += v
	}
	return sum, len(answer.Data.Result) > 0, nil
}

// sees waits until a query has this sum.
func (s *stack) sees(t *testing.T, want float64, expr string) {
	t.Helper()
	plane.Check(t, plane.Eventually(work.Context(), fmt.Sprintf("Prometheus has %v for %s", want, expr), func() error {
		if err := s.alive(); err != nil {
			return plane.Fatal(err)
		}
		got, ok, err := s.query(expr)
		if err == nil && (!ok || got != want) {
			err = fmt.Errorf("it has %v (%v)", got, ok)
		}
		return err
	}))
}

func getJSON(address string, to any) error {
	resp, err := (&http.Client{Timeout: 10 * time.Second}).Get(address)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", address, resp.Status)
	}
	return json.NewDecoder(resp.Body).Decode(to)
}

// rules are the names of the alerts that came by Prometheus' rules, which have no node.
func (s *stack) rules() []string {
	var names []string
	all := s.alerts.All()
	for i := range all {
		if _, ours := all[i].Labels["node"]; !ours && all[i].Status == "firing" {
			names = append(names, all[i].Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// versions are those of what only the pipeline has.
func (s *stack) versions(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	pom := plane.Must(os.ReadFile(filepath.Join(filepath.Dir(s.brokers.script), "pom.xml")))(t)
	if m := regexp.MustCompile(`<kafka.version>([^<]*)<`).FindSubmatch(pom); m != nil {
		all["Kafka"] = string(m[1])
	}
	found := plane.Must(filepath.Glob(filepath.Join(s.dir, "pgtest*", "data", "PG_VERSION")))(t)
	if len(found) == 1 {
		all["PostgreSQL"] = strings.TrimSpace(string(plane.Must(os.ReadFile(found[0]))(t)))
	}
	return all
}
