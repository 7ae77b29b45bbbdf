package scenarios

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/report"
)

const systemNode = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/system:node"

// bindNodes gives the group of nodes what the role system:node has, or takes it away.
func (w *world) bindNodes(t *testing.T, bound bool) {
	t.Helper()
	subjects := []any{}
	if bound {
		subjects = append(subjects, group("system:nodes"))
	}
	w.admin(t, http.MethodPatch, systemNode, map[string]any{"subjects": subjects})
}

// minWindow is for how long everything must be proven in the migration.
const minWindow = 2 * time.Minute

// A cluster moves from RBAC only to the Node authorizer, as nodetrail is made to help with. With RBAC only it says what would break; with Node before
// RBAC and the binding still there it sees the same; when what would break is gone every check passes, without a waiver; a client that needs the
// binding takes that back, in the report, the metrics and the alert, within a minute; and when the binding is deleted nothing breaks.
//
// Seen to fail with an inferred order of authorizers that what was before weighs on indefinitely, as it once was.
func TestMigration(t *testing.T) {
	w := newWorld(t, "migration", plane.Options{Mode: "RBAC"}, fmt.Sprintf("readiness: {minWindow: %s}\nstore: {step: 1m}\n", minWindow))
	nodes := []string{"node-1", "node-2"}
	w.bindNodes(t, true)
	plane.Check(t, w.plane.StartKubelets(w.ctx, nodes...))
	w.namespace(t, "shop")
	w.create(t, secret("shop", "db"))
	w.archive(t)
	for _, n := range nodes {
		w.runs(t, "before-"+n, n)
	}
	workload := w.plane.Node("node-1").With("calico-node/v3.29.1")

	t.Log("RBAC only")
	w.lively(t, nodes)
	w.expect(t, w.plane.Node("node-1"), "/api/v1/namespaces/shop/secrets/db", http.StatusOK, "allow")
	a := w.expect(t, workload, archive, http.StatusOK, "deny", "node-credential-misuse", "rbac-excess-access")
	if o := a.verdict.Observed; o.NodeVerdict != "" || o.Binding == nil || o.Binding.Name != "system:node" {
		t.Errorf("with RBAC only the annotations say nothing of Node, and the binding is system:node: %+v", o)
	}
	w.readiness(t, "RBAC", "calico-node", "node-authorizer-on", "nothing-depends")

	t.Log("Node,RBAC with the binding")
	w.plane.StopAPIServer()
	w.plane.Options.Mode, w.order = "Node,RBAC", true
	plane.Check(t, w.plane.StartAPIServer(w.ctx))
	w.synced(t)
	w.lively(t, nodes)
	w.expect(t, w.plane.Node("node-1"), "/api/v1/namespaces/shop/secrets/db", http.StatusOK, "allow")
	w.expect(t, workload, archive, http.StatusOK, "deny", "node-credential-misuse", "rbac-excess-access")
	w.readiness(t, "Node,RBAC", "calico-node", "nothing-depends")

	t.Log("without the workload")
	w.later(2 * skew)
	clean := time.Now()
	plane.Check(t, w.plane.StartKubelets(w.ctx, "node-3")) // what kubelets do only when they start belongs to the proof
	nodes = append(nodes, "node-3")
	for _, n := range nodes {
		w.runs(t, "clean-"+n, n)
	}
	w.ready(t, clean)
	w.proven(t, 12*time.Minute)
	t.Logf("every check passed %s after the last request that needs the binding", time.Since(clean).Round(time.Second))

	prometheus := w.watchChecks(t)
	prometheus.ready(t)

	t.Log("the workload again")
	began := time.Now()
	w.expect(t, workload, archive, http.StatusOK, "deny", "node-credential-misuse", "rbac-excess-access")
	if took := w.lost(t); took > time.Minute {
		t.Errorf("the answer was taken back only after %s", took)
	}
	prometheus.firing(t)
	if took := time.Since(began); took > time.Minute {
		t.Errorf("the alert fired only after %s", took)
	}

	t.Log("without the binding")
	w.bindNodes(t, false)
	w.later(2 * skew)
	gone := time.Now()
	for _, n := range nodes {
		w.runs(t, "after-"+n, n)
	}
	w.expect(t, w.plane.Node("node-1"), "/api/v1/namespaces/shop/secrets/db", http.StatusOK, "allow")
	for _, n := range nodes {
		plane.Check(t, w.plane.Kubelets[n].Alive())
	}
	w.ready(t, gone)
	w.nothingBroke(t, gone)
}

// stored is the report of run on the time that is asked for.
func (w *world) stored() (*trail.Report, error) {
	return w.trail.Report(w.ctx, "--window", minWindow.String())
}

// proven waits until all checks of the report of run passed. Evidence is kept by the hour, so a kubelet that started in the hour before proves nothing of
// an hour that begins meanwhile: another kubelet starts then, and the wait begins again.
func (w *world) proven(t *testing.T, within time.Duration) {
	t.Helper()
	began, last := time.Now(), ""
	hour := evidence.HourOf(began)
	for {
		if now := time.Now(); evidence.HourOf(now) != hour {
			began, hour = now, evidence.HourOf(now)
			plane.Check(t, w.plane.StartKubelets(w.ctx, fmt.Sprintf("node-of-%d", hour)))
		}
		r, err := w.stored()
		plane.Check(t, err)
		now := open(r)
		if now != last {
			t.Logf("%s: %s %s", time.Since(began).Round(time.Second), r.Readiness.Verdict, now)
			last = now
		}
		if r.Readiness.Verdict == "ready" && now == "" && len(r.Waivers) == 0 {
			return
		}
		if time.Since(began) > within {
			t.Fatalf("after %s it says %s: %s", within, r.Readiness.Verdict, now)
		}
		w.later(2 * time.Second)
	}
}

// lost waits until the report of run says not ready, because something needs a binding that goes, and returns how long that took.
func (w *world) lost(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	w.eventually(t, "the report says not ready", func() error {
		r, err := w.stored()
		if err != nil {
			return err
		}
		if x := &r.Readiness; x.Verdict != "not ready" || !failed(r, "nothing-depends") {
			return fmt.Errorf("it says %s: %s", x.Verdict, open(r))
		}
		return nil
	})
	return time.Since(began)
}

func failed(r *trail.Report, name string) bool {
	return slices.ContainsFunc(r.Readiness.Checks, func(c report.Check) bool { return c.Name == name && c.State == "failed" })
}

// open are the checks of readiness that did not pass, with what is wrong.
func open(r *trail.Report) string {
	var out []string
	for _, c := range r.Readiness.Checks {
		if c.State == "passed" {
			continue
		}
		for _, i := range c.Evidence {
			if i.State != "passed" {
				out = append(out, fmt.Sprintf("%s %s: %s", c.Name, i.State, i.Message))
			}
		}
	}
	return strings.Join(out, "\n  ")
}

// lively lets nodes do in a moment what they do in an hour, so that the order of the authorizers shows: it is read from many requests.
func (w *world) lively(t *testing.T, nodes []string) {
	t.Helper()
	w.later(skew + skew/4)
	for i := range 700 {
		node := nodes[i%len(nodes)]
		path, body := "/api/v1/nodes/"+node+"/status", any(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"e2e": fmt.Sprint(i)}}})
		method := http.MethodPatch
		if i%4 != 0 {
			method, path, body = http.MethodGet, "/api/v1/namespaces/shop/secrets/db", nil
		}
		if r := plane.Must(w.plane.Node(node).Do(w.ctx, method, path, body))(t); r.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %.200s", method, path, r.Code, r.Body)
		}
	}
}

// runs makes a pod with a secret on a node and waits until its kubelet says that it runs.
func (w *world) runs(t *testing.T, name, node string) {
	t.Helper()
	w.create(t, pod("shop", name, node, "db"))
	w.eventually(t, "pod "+name+" runs", func() error {
		var p struct{ Status struct{ Phase string } }
		if err := w.plane.Admin().Get(w.ctx, "/api/v1/namespaces/shop/pods/"+name, &p); err != nil {
			return err
		}
		if p.Status.Phase != "Running" {
			return fmt.Errorf("it is %s", p.Status.Phase)
		}
		return nil
	})
}

// readiness waits until the report of run has this mode, is not ready by these checks, and names who would break.
func (w *world) readiness(t *testing.T, mode, client string, checks ...string) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("the report says %s, not ready by %q, %s", mode, checks, client), func() error {
		r, err := w.trail.Report(w.ctx)
		if err != nil {
			return err
		}
		named := slices.ContainsFunc(r.Readiness.Clients, func(c clientOf) bool { return c.UserAgent == client && c.Binding == "ClusterRoleBinding system:node" })
		by := !slices.ContainsFunc(checks, func(name string) bool { return !failed(r, name) })
		if r.Authorization.Mode != mode || r.Readiness.Verdict != "not ready" || !named || !by {
			return fmt.Errorf("it says %s, %s, %+v: %s", r.Authorization.Mode, r.Readiness.Verdict, r.Readiness.Clients, open(r))
		}
		return nil
	})
}

// ready holds analyze to it that nothing on the log since then needs a binding, with the state that run has learned: the checks of what the time is
// long enough for passed.
func (w *world) ready(t *testing.T, since time.Time) {
	t.Helper()
	of := []string{"policy-known", "every-event-judged", "version-known", "nothing-depends", "bindings-inventoried", "identities-conform", "races-decided", "agreement", "state-complete", "rules-on"}
	w.eventually(t, "analyze says that nothing depends on a binding", func() error {
		out, err := trail.Run(w.ctx, w.program, "analyze", "-o", "json", "--min-window", "0", "--since", since.UTC().Format(time.RFC3339Nano), "--audit-policy", w.plane.Options.Policy,
			"--state", filepath.Join(work.Dir, w.name+"-data", "state"), w.plane.AuditLogPath())
		if err != nil {
			return err
		}
		r, err := trail.ParseReport(out)
		if err != nil {
			return err
		}
		for _, c := range r.Readiness.Checks {
			if slices.Contains(of, c.Name) && c.State != "passed" {
				return fmt.Errorf("it says %s: %s", r.Readiness.Verdict, open(r))
			}
		}
		return nil
	})
}

// nothingBroke looks for refusals of kubelets in the audit log: those that nodetrail calls races are normal.
func (w *world) nothingBroke(t *testing.T, since time.Time) {
	t.Helper()
	plane.Check(t, w.plane.Log.Each(func(e *plane.Event) {
		if e.ResponseStatus.Code != http.StatusForbidden || e.RequestReceivedTimestamp.Before(since) || !strings.HasPrefix(e.User.Username, "system:node:") {
			return
		}
		if v, err := w.trail.Verdict(e.AuditID); err != nil || v == nil || !v.Race {
			t.Errorf("%s %s of %s was refused: %s (%v)", e.Verb, e.RequestURI, e.User.Username, e.Reason(), err)
		}
	}))
}
