package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

const (
	nodes   = 6
	secrets = 8
)

// Requests of nodes go through all of it while a broker, an analyzer and the gateway are killed in turn. Nothing is lost and nothing counts twice:
// the sums are those of analyze on the apiserver's own log file. An alert comes from nodetrail itself, and one from Prometheus.
//
// Seen to fail with a gateway that acknowledges before the brokers have.
func TestPipeline(t *testing.T) {
	c := newChain(t)
	setUp(t, c)
	r := result.Pipeline{Kills: map[string]int{}}
	r.Alerts = c.latency(t)

	load, stop := context.WithCancel(c.ctx)
	done := make(chan error, 1)
	go func() { done <- c.load(load) }()
	for range 2 {
		c.later(5 * time.Second)
		r.Kills["broker"]++
		c.brokers.Kill(0)
		c.later(3 * time.Second)
		c.brokers.Restart(0)

		c.later(5 * time.Second)
		r.Kills["analyzer"]++
		c.analyzers[0].Process.Kill()
		c.later(10 * time.Second) // the other one takes its partitions over
		check(t, c.analyzers[0].StartReady(c.ctx))

		c.later(5 * time.Second)
		r.Kills["gateway"]++
		c.gateway.Process.Kill()
		c.later(3 * time.Second)
		c.startGateway(t)
	}
	c.later(5 * time.Second)
	stop()
	check(t, <-done)

	if _, err := c.alerts.Await(c.ctx, map[string]string{"alertname": "OutOfScopeSecretRead", "component": "nodetrail", "cluster": "e2e"}); err != nil {
		t.Errorf("from Prometheus: %v", err)
	}
	want := c.analyze(t)
	var got *trail.Report
	check(t, plane.Eventually(c.ctx, "the store has all of the log", func() (err error) {
		if got, err = c.analyzers[1].Report(c.ctx); err == nil && got.Events.Judged < want.Events.Judged {
			err = fmt.Errorf("%d of %d judged", got.Events.Judged, want.Events.Judged)
		}
		return err
	}))
	// What was told of each request has to be the same, but for how often it was read on its way.
	if diff := cmp.Diff(sums(want), sums(got)); diff != "" {
		t.Errorf("analyze on the log and the store differ (-analyze +store):\n%s", diff)
	}
	if got.Agreement.Agree != got.Agreement.Compared || got.Verdicts.Unknown != 0 {
		t.Errorf("%+v, %+v", got.Verdicts, got.Agreement)
	}
	r.Events, r.Judged = want.Events.Read, got.Events.Judged
	for i := range got.Findings {
		r.Findings += got.Findings[i].Count
	}
	r.Usage = c.usage()
	t.Logf("%d events, %d judged, %d findings, killed %v; from request to alert %+v", r.Events, r.Judged, r.Findings, r.Kills, r.Alerts)
	check(t, result.Write("pipeline", r))
}

// setUp makes nodes, and pods that use some of the secrets.
func setUp(t *testing.T, c *chain) {
	t.Helper()
	check(t, c.plane.Apply(c.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n")))
	for n := range nodes {
		node := fmt.Sprint("node-", n)
		check(t, c.plane.Apply(c.ctx, fmt.Appendf(nil, `{apiVersion: v1, kind: Node, metadata: {name: %s}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: on-%s}, spec: {nodeName: %s, containers: [{name: main, image: registry.example/main}],
  volumes: [{name: a, secret: {secretName: secret-%d}}, {name: b, secret: {secretName: secret-%d}}]}}
`, node, node, node, n, (n+1)%secrets)))
	}
	// Races are another test's matter.
	c.later(3 * time.Second)
}

// latency is how long an alert takes while nothing is down: a read of each secret that is none of the node's, in a namespace of its own.
func (c *chain) latency(t *testing.T) result.Latency {
	t.Helper()
	sent := map[string]time.Time{}
	for i := range 50 {
		ns := fmt.Sprintf("probe-%03d", i)
		r, err := c.plane.Node("node-0").Do(c.ctx, http.MethodGet, "/api/v1/namespaces/"+ns+"/secrets/token", nil)
		check(t, err)
		sent[ns] = r.Sent
		c.later(200 * time.Millisecond)
	}
	var took []time.Duration
	for ns, at := range sent {
		a, err := c.alerts.Await(c.ctx, map[string]string{"alertname": "OutOfScopeSecretRead", "node": "node-0", "namespace": ns})
		check(t, err)
		took = append(took, a.At.Sub(at))
	}
	return result.LatencyOf(took)
}

// load lets nodes ask for secrets and for much that every node may have, some forty times a second.
func (c *chain) load(ctx context.Context) error {
	rnd := rand.New(rand.NewPCG(3, 4))
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		node := fmt.Sprint("node-", rnd.IntN(nodes))
		path := fmt.Sprint("/api/v1/namespaces/shop/secrets/secret-", rnd.IntN(secrets))
		switch rnd.IntN(4) {
		case 0:
			path = "/api/v1/nodes/" + node
		case 1:
			path = "/api/v1/pods?fieldSelector=spec.nodeName%3D" + node
		}
		// Without the parent's end: a request that is cut off is logged without an answer.
		if _, err := c.plane.Node(node).Do(c.ctx, http.MethodGet, path, nil); err != nil {
			return err
		}
	}
}

// analyze judges the apiserver's own log file with the state that an analyzer has learned.
func (c *chain) analyze(t *testing.T) *trail.Report {
	t.Helper()
	out, err := trail.Run(c.ctx, c.program, "analyze", "-o", "json", "--state", filepath.Join(work.Dir, "analyzer-2-data", "state"), c.plane.AuditLogPath())
	check(t, err)
	r, err := trail.ParseReport(out)
	check(t, err)
	return r
}

// sums are what may not depend on the way that events came.
func sums(r *trail.Report) map[string]any {
	findings := map[string]int64{}
	for i := range r.Findings {
		f := &r.Findings[i]
		switch f.Rule {
		case "out-of-scope-secret-read", "rbac-excess-access", "node-identity", "node-credential-misuse", "foreign-node-write", "authorizer-lag":
			findings[strings.Join([]string{f.Rule, f.Node, f.Verb, f.Resource, f.Namespace, f.Name, f.UserAgent, fmt.Sprint(f.Allowed)}, " ")] += f.Count
		}
	}
	nodes := slices.Clone(r.Nodes)
	out := map[string]any{}
	for name, v := range map[string]any{
		"judged": r.Events.Judged, "verdicts": r.Verdicts, "compared": r.Agreement.Compared, "agree": r.Agreement.Agree, "reasons": r.Agreement.Reasons,
		"nodes": nodes, "findings": findings,
	} {
		b, err := json.Marshal(v)
		if err != nil {
			b = []byte(err.Error())
		}
		out[name] = string(b)
	}
	return out
}

func (c *chain) usage() map[string]result.Usage {
	out := map[string]result.Usage{}
	for name, p := range map[string]*plane.Process{"analyzer": c.analyzers[1].Process, "gateway": c.gateway.Process, "kube-apiserver": c.plane.APIServer()} {
		cpu, peak := p.Used()
		out[name] = result.Usage{Processes: 1, CPU: cpu, Peak: peak}
	}
	return out
}

// later lets time go by, with the load going on.
func (c *chain) later(d time.Duration) {
	select {
	case <-c.ctx.Done():
	case <-time.After(d):
	}
}
