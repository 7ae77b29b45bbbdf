package pipeline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/receiver"
	"github.com/nodetrail/nodetrail/e2e/trail"
	"github.com/nodetrail/nodetrail/internal/kafkatest"
	"github.com/nodetrail/nodetrail/internal/pgtest"
)

// work holds all that the test starts, but for Kafka and PostgreSQL, which end by themselves.
var work *plane.Work

func TestMain(m *testing.M) {
	os.Exit(plane.Main(m, func(w *plane.Work) { work = w }))
}

// chain is the whole pipeline.
type chain struct {
	ctx       context.Context
	program   string
	plane     *plane.Plane
	gateway   *trail.Instance
	analyzers [2]*trail.Instance
	brokers   *kafkatest.Cluster
	postgres  *pgtest.Server
	alerts    *receiver.Receiver
}

const (
	topic      = "kube-audit"
	partitions = 4
)

func newChain(t *testing.T) *chain {
	t.Helper()
	ctx := work.Context()
	c := &chain{ctx: ctx}
	var err error
	c.program, err = trail.Build(ctx, work)
	check(t, err)
	c.brokers = kafkatest.Start(t, kafkatest.Options{})
	client := &kafka.Client{Addr: kafka.TCP(c.brokers.Addresses()...)}
	made, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}}})
	check(t, err)
	check(t, made.Errors[topic])
	c.postgres, err = pgtest.Start()
	check(t, err)
	t.Cleanup(func() { check(t, c.postgres.Stop()) })
	c.alerts, err = receiver.New(ctx, work, "pipeline")
	check(t, err)
	t.Cleanup(func() { check(t, c.alerts.Close()) })

	dir := filepath.Join(work.Dir, "pipeline")
	check(t, os.Mkdir(dir, 0o755))
	webhook, err := trail.NewWebhook(dir)
	check(t, err)
	c.gateway, err = trail.New(work, c.program, "gateway", fmt.Sprintf("gateway: {webhook: %s, kafka: {brokers: [%q], topic: %s}}\n", webhook.Config, c.brokers.Addresses()[0], topic))
	check(t, err)
	c.startGateway(t)
	root, err := plane.Root()
	check(t, err)
	c.plane, err = plane.New(ctx, work, plane.Options{
		Policy: filepath.Join(root, "deploy", "audit-policy.yaml"), Flags: filepath.Join(root, "deploy", "kube-apiserver.flags"),
		AuditWebhook: webhook.Kubeconfig, Mode: "Node,RBAC",
		// There are no controllers that would make service accounts.
		APIServer: []string{"--disable-admission-plugins=ServiceAccount"},
	})
	check(t, err)
	check(t, c.plane.StartAPIServer(ctx))
	_, kubeconfig, err := trail.Rights(ctx, c.plane, c.program, dir)
	check(t, err)
	for i := range c.analyzers {
		c.analyzers[i], err = trail.New(work, c.program, analyzer(i), fmt.Sprintf(`cluster: e2e
instance: %s
state: {live: {enabled: true, kubeconfig: %q}}
sources: {kafka: {brokers: [%q], topics: [%s], group: nodetrail, sessionTimeout: 6s}}
store: {postgres: {dsn: %q}}
sinks: {alertmanager: [{urls: ["http://%s"]}]}
`, analyzer(i), kubeconfig, c.brokers.Addresses()[0], topic, c.postgres.DSN(), c.alerts.Manager))
		check(t, err)
		check(t, c.analyzers[i].StartReady(ctx))
	}
	c.startPrometheus(t, root)
	return c
}

func analyzer(i int) string { return fmt.Sprint("analyzer-", i+1) }

func (c *chain) startGateway(t *testing.T) {
	t.Helper()
	check(t, c.gateway.Start("gateway"))
	check(t, plane.Eventually(c.ctx, "the gateway is ready", c.gateway.Ready))
}

// startPrometheus lets Prometheus scrape gateway and analyzers, with the rules of dashboards/.
func (c *chain) startPrometheus(t *testing.T, root string) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Fatalf("%v: run e2e/install.sh", err)
	}
	address, err := plane.FreeAddress()
	check(t, err)
	config := filepath.Join(work.Dir, "prometheus.yaml")
	check(t, os.WriteFile(config, fmt.Appendf(nil, `global: {scrape_interval: 1s, evaluation_interval: 1s}
rule_files: [%q]
alerting: {alertmanagers: [{static_configs: [{targets: [%q]}]}]}
scrape_configs: [{job_name: nodetrail, static_configs: [{targets: [%q, %q, %q], labels: {cluster: e2e}}]}]
`, filepath.Join(root, "dashboards", "prometheus", "*.yaml"), c.alerts.Manager, c.gateway.Listen, c.analyzers[0].Listen, c.analyzers[1].Listen), 0o600))
	p, err := work.Start("prometheus", program, []string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(work.Dir, "prometheus"), "--web.listen-address=" + address})
	check(t, err)
	check(t, plane.Eventually(c.ctx, "Prometheus is ready", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return plane.OK("http://" + address + "/-/ready")
	}))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
