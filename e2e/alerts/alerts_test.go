package alerts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

const alertmanagerYAML = `
route: {receiver: nobody, group_by: [alertname, cluster], group_wait: 1s, group_interval: 1s}
receivers: [{name: nobody}]
`

const stateYAML = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: worker-1, uid: n1, resourceVersion: "1", creationTimestamp: "2026-01-01T00:00:00Z"}}
- {apiVersion: v1, kind: Node, metadata: {name: worker-2, uid: n2, resourceVersion: "2", creationTimestamp: "2026-01-01T00:00:00Z"}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: shop, uid: p1, resourceVersion: "3", creationTimestamp: "2026-01-01T00:00:00Z"}
  spec:
    nodeName: worker-2
    containers: [{name: web, image: web}]
    volumes: [{name: db, secret: {secretName: db}}]
`

// shown is an alert as Alertmanager's API shows it.
type shown struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL"`
	Status       struct {
		State string `json:"state"`
	} `json:"status"`
}

// firing are the alerts that an Alertmanager shows as active.
func firing(address string) ([]shown, error) {
	var all []shown
	err := get(address, "/api/v2/alerts?active=true", &all)
	return all, err
}

// fires waits until an Alertmanager shows the alerts of these nodes, and no others.
func fires(t *testing.T, address string, nodes ...string) []shown {
	t.Helper()
	var all []shown
	work.MustEventually(t, fmt.Sprintf("%s shows alerts of %q", address, nodes), func() (err error) {
		all, err = firing(address)
		var got []string
		for _, a := range all {
			got = append(got, a.Labels["node"])
		}
		slices.Sort(got)
		if err == nil && !slices.Equal(got, nodes) {
			err = fmt.Errorf("it shows %q", got)
		}
		return err
	})
	return all
}

// read posts the audit event of a node that reads a secret.
func read(t *testing.T, webhook, node, name string) {
	t.Helper()
	now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
	event := map[string]any{
		"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "audit-" + node + "-" + name, "stage": "ResponseComplete",
		"requestURI": "/api/v1/namespaces/shop/secrets/" + name, "verb": "get",
		"user":      map[string]any{"username": "system:node:" + node, "groups": []string{"system:nodes", "system:authenticated"}},
		"sourceIPs": []string{"10.0.0.1"}, "userAgent": "curl/8.5.0",
		"objectRef":                map[string]any{"resource": "secrets", "namespace": "shop", "name": name, "apiVersion": "v1"},
		"responseStatus":           map[string]any{"metadata": map[string]any{}, "code": 200},
		"requestReceivedTimestamp": now, "stageTimestamp": now,
		"annotations": map[string]string{"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": `RBAC: allowed by ClusterRoleBinding "old:nodes" of ClusterRole "reader" to Group "system:nodes"`},
	}
	body, err := json.Marshal(map[string]any{"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": map[string]any{}, "items": []any{event}})
	if err != nil {
		t.Fatal(err)
	}
	work.MustEventually(t, "the event is taken", func() error {
		resp, err := client().Post("http://"+webhook+"/audit", "application/json", bytes.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		said, _ := io.ReadAll(resp.Body) // only for the message
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%d %s", resp.StatusCode, said)
		}
		return nil
	})
}

// Events in, the alert fires in two real Alertmanagers with the right labels, through the deaths of each and of nodetrail, and is resolved in
// the end. Prometheus scrapes nodetrail meanwhile.
func TestAlerts(t *testing.T) {
	manager, prometheus := plane.MustFind(t, "prometheus-alertmanager"), plane.MustFind(t, "prometheus")
	program, err := trail.Build(work.Context(), work)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	managerConfig, state := write(t, dir, "alertmanager.yaml", alertmanagerYAML), write(t, dir, "state.yaml", stateYAML)
	addresses := []string{plane.MustAddress(t), plane.MustAddress(t)}
	alertmanager := func(i int) *plane.Process {
		t.Helper()
		p := work.MustStart(t, "alertmanager", manager, "--config.file="+managerConfig, "--storage.path="+filepath.Join(dir, fmt.Sprint("am", i)),
			"--web.listen-address="+addresses[i], "--cluster.listen-address=")
		ready(t, p, addresses[i], "/-/ready")
		return p
	}
	managers := []*plane.Process{alertmanager(0), alertmanager(1)}

	listen, webhook, prom := plane.MustAddress(t), plane.MustAddress(t), plane.MustAddress(t)
	config := write(t, dir, "nodetrail.yaml", fmt.Sprintf(`
cluster: prod
data: %q
listen: %q
authorization: {kubernetesVersion: "1.36", mode: "Node,RBAC"}
state: {files: [%q]}
sources: {webhook: {listen: %q}}
rules: {disable: [rbac-excess-access, node-identity, node-credential-misuse, audit-coverage-gap]}
sinks:
  alertmanager:
  - urls: ["http://%s", "http://%s"]
    alerts: findings
    resolveAfter: 90s
    externalURL: https://nodetrail.example
    labels: {team: platform}
`, filepath.Join(dir, "data"), listen, state, webhook, addresses[0], addresses[1]))
	nodetrail := func() *plane.Process {
		t.Helper()
		p := work.MustStart(t, "nodetrail", program, "run", "--config", config)
		ready(t, p, listen, "/readyz")
		return p
	}
	analyzer := nodetrail()
	promConfig := write(t, dir, "prometheus.yaml", fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: nodetrail, static_configs: [{targets: [%q]}]}]\n", listen))
	p := work.MustStart(t, "prometheus", prometheus, "--config.file="+promConfig, "--storage.tsdb.path="+filepath.Join(dir, "prom"), "--web.listen-address="+prom)
	ready(t, p, prom, "/-/ready")

	// It fires in both, with the right labels.
	before := time.Now().Add(-time.Second)
	read(t, webhook, "worker-1", "db")
	for _, a := range addresses {
		one := fires(t, a, "worker-1")[0]
		for name, want := range map[string]string{
			"alertname": "OutOfScopeSecretRead", "cluster": "prod", "severity": "critical", "level": "critical", "rule": "out-of-scope-secret-read", "node": "worker-1",
			"namespace": "shop", "resource": "secrets", "team": "platform",
		} {
			if got := one.Labels[name]; got != want {
				t.Errorf("label %s is %q, want %q", name, got, want)
			}
		}
		if len(one.Labels) != 9 || one.Annotations["objects"] != "shop/db" || one.Annotations["auditIDs"] != "audit-worker-1-db" ||
			one.Annotations["client"] != "curl" || one.Annotations["runbook_url"] == "" || one.Annotations["summary"] == "" {
			t.Errorf("%+v", one)
		}
		if one.StartsAt.Before(before) || one.EndsAt.Sub(one.StartsAt) < 4*time.Minute {
			t.Errorf("from %s to %s", one.StartsAt, one.EndsAt)
		}
		if len(one.GeneratorURL) != len("https://nodetrail.example/findings/")+32 {
			t.Errorf("generatorURL %s", one.GeneratorURL)
		}
	}
	work.MustEventually(t, "Prometheus sees it", func() error {
		var answer struct {
			Data struct {
				Result []struct {
					Value [2]any `json:"value"`
				} `json:"result"`
			} `json:"data"`
		}
		err := get(prom, "/api/v1/query?query=nodetrail_alerts%7Bstate%3D%22firing%22%7D", &answer)
		if err == nil && (len(answer.Data.Result) != 1 || answer.Data.Result[0].Value[1] != "1") {
			err = fmt.Errorf("it has %v", answer.Data.Result)
		}
		return err
	})

	// One peer dies: the other gets what is new. The first is back, without memory: it gets both.
	managers[0].Kill()
	read(t, webhook, "worker-9", "db")
	fires(t, addresses[1], "worker-1", "worker-9")
	managers[0] = alertmanager(0)
	fires(t, addresses[0], "worker-1", "worker-9")

	// All peers are dead, and nodetrail is killed meanwhile: nothing is lost.
	managers[0].Kill()
	managers[1].Kill()
	read(t, webhook, "worker-1", "other")
	read(t, webhook, "worker-8", "db")
	analyzer.Kill()
	nodetrail()
	managers[0], managers[1] = alertmanager(0), alertmanager(1)
	for _, a := range addresses {
		all := fires(t, a, "worker-1", "worker-8", "worker-9")
		for _, one := range all {
			if one.Labels["node"] == "worker-1" && one.Annotations["objects"] != "shop/other, shop/db" {
				t.Errorf("objects: %s", one.Annotations["objects"])
			}
		}
	}

	// Nobody reads any more: all are resolved, by word of nodetrail and not by their ends, which are minutes ahead.
	for _, a := range addresses {
		fires(t, a)
	}
}
