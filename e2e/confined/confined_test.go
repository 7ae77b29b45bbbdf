package confined

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/trail"
)

func TestConfined(t *testing.T) {
	c := newCluster(t)
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		c.join(t, node)
	}
	check(t, c.Plane.NodesReady(c.ctx, "node-1", "node-2", "node-3"))
	check(t, c.Plane.Apply(c.ctx, []byte("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}\n---\n{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: db}, stringData: {key: value}}")))
	c.eventually(t, "there is a service account", func() error {
		var o struct{}
		return c.Plane.Admin().Get(c.ctx, "/api/v1/namespaces/shop/serviceaccounts/default", &o)
	})
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		c.runs(t, "web-"+node, node)
	}
	c.confined(t)
}

// probed asks whether NodeRestriction is in force, which has to be known of each hour.
func (c *cluster) probed(t *testing.T) {
	t.Helper()
	if r := c.probe(t); r.Code != http.StatusForbidden || !strings.Contains(string(r.Body), `not allowed to modify node "probe"`) {
		t.Fatalf("the probe: %d %s", r.Code, r.Body)
	}
}

// confined waits until both answers of run's store are good, without a waiver, and holds analyze to the same.
func (c *cluster) confined(t *testing.T) {
	t.Helper()
	began, last, hour := time.Now(), "", -1
	var r *trail.Report
	for {
		if now := time.Now().UTC().Hour(); now != hour {
			c.probed(t)
			hour = now
		}
		var err error
		r, err = c.stored()
		check(t, err)
		now := open(r)
		if now != last {
			t.Logf("%s: %s, %s\n  %s", time.Since(began).Round(time.Second), r.Readiness.Verdict, r.Confinement.Verdict, now)
			last = now
		}
		if r.Confinement.Verdict == "confined" && r.Readiness.Verdict == "ready" && now == "" && len(r.Waivers) == 0 {
			break
		}
		if time.Since(began) > 6*time.Minute {
			t.Fatalf("it still says %s, %s:\n  %s", r.Readiness.Verdict, r.Confinement.Verdict, now)
		}
		c.later(2 * time.Second)
	}
	t.Logf("CONFINED after %s", time.Since(began).Round(time.Second))
	for i := range r.Findings {
		f := &r.Findings[i]
		t.Logf("finding %s %s %s %s %s", f.Rule, f.Reason, f.Severity, f.Node, f.Message)
	}
	until := time.Now()
	c.later(2 * time.Second)
	a, err := c.analyzed(until)
	check(t, err)
	if a.Confinement.Verdict != "confined" || a.Readiness.Verdict != "ready" {
		t.Errorf("analyze says %s, %s:\n  %s", a.Readiness.Verdict, a.Confinement.Verdict, open(a))
	}
	fmt.Println(failed(a))
}
