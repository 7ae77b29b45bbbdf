package scenarios

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// world is a control plane with nodetrail and Alertmanager beside it.
type world struct {
	ctx     context.Context
	name    string
	program string
	plane   *plane.Plane
	trail   *trail.Instance
	alerts  *receiver
	// order is whether Node is asked before RBAC now, so that annotations tell what it said.
	order bool
}

// skew is nodetrail's default.
const skew = time.Second

// newWorld starts one in this --authorization-mode. Each has its own nodetrail, which reads the audit log and is posted to as well.
func newWorld(t *testing.T, name, mode string, nodes ...string) *world {
	t.Helper()
	ctx := t.Context()
	root := must(plane.Root())(t)
	w := &world{ctx: ctx, name: name, program: must(trail.Build(ctx, work))(t), order: strings.HasPrefix(mode, "Node")}
	webhook := must(plane.FreeAddress())(t)
	dir := filepath.Join(work.Dir, name)
	check(t, os.Mkdir(dir, 0o755))
	authority := must(plane.NewAuthority("nodetrail"))(t)
	check(t, os.WriteFile(filepath.Join(dir, "webhook-ca.crt"), authority.PEM, 0o600))
	server := must(authority.Server("nodetrail"))(t)
	cert, key, err := server.Write(dir, "webhook")
	check(t, err)
	check(t, plane.WebhookKubeconfig(filepath.Join(dir, "audit-webhook.kubeconfig"), "https://"+webhook+"/audit",
		filepath.Join(dir, "webhook-ca.crt"), must(authority.Client("kube-apiserver"))(t)))
	policy := filepath.Join(root, "deploy", "audit-policy.yaml")
	w.plane = must(plane.New(ctx, work, plane.Options{
		Policy: policy, Flags: filepath.Join(root, "deploy", "kube-apiserver.flags"),
		AuditWebhook: filepath.Join(dir, "audit-webhook.kubeconfig"), Mode: mode,
	}))(t)
	check(t, w.plane.StartAPIServer(ctx))
	w.alerts = newReceiver(t, name)

	// nodetrail has the rights that it prints, and the token of its service account.
	w.create(t, object("v1", "Namespace", "", "nodetrail"))
	check(t, w.plane.Apply(ctx, must(trail.Run(ctx, w.program, "record", "--print-rbac", "--rbac-service-account", "nodetrail"))(t)))
	w.create(t, with(object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "metrics-reader"),
		"rules", []any{map[string]any{"nonResourceURLs": []string{"/metrics"}, "verbs": []string{"get"}}}))
	w.create(t, binding("metrics-reader", "metrics-reader", serviceAccount("nodetrail", "nodetrail")))
	token := must(w.plane.ServiceAccountToken(ctx, "nodetrail", "nodetrail"))(t)
	kubeconfig := must(w.plane.TokenKubeconfig("nodetrail", token))(t)
	check(t, os.WriteFile(filepath.Join(dir, "token"), []byte(token), 0o600))
	w.trail = must(trail.New(work, w.program, "nodetrail-"+name, fmt.Sprintf(`cluster: e2e
log: {level: debug}
state: {live: {enabled: true, kubeconfig: %q}}
coverage:
  policyFile: %q
  apiserverMetrics: {urls: ["https://%s/metrics"], every: 5s, bearerTokenFile: %q, tls: {enabled: true, caFile: %q}}
sources:
  files: [{paths: [%q]}]
  webhook: {listen: %q, tls: {certFile: %q, keyFile: %q, clientCAFile: %q, clientNames: [kube-apiserver]}}
sinks:
  jsonl: [{path: %q, verdicts: true}]
  alertmanager: [{urls: ["http://%s"]}]
`, kubeconfig, policy, w.plane.Address, filepath.Join(dir, "token"), filepath.Join(w.plane.Dir, "ca.crt"), w.plane.AuditLogPath(), webhook, cert, key,
		filepath.Join(dir, "webhook-ca.crt"), trail.VerdictsPath(work, "nodetrail-"+name), w.alerts.manager)))(t)
	check(t, w.trail.StartReady(ctx))
	check(t, w.plane.StartControllers(ctx))
	check(t, w.plane.StartKubelets(ctx, nodes...))
	return w
}

// answer is what came of a request: the apiserver's answer, its audit event, and nodetrail's verdict on it.
type answer struct {
	*plane.Reply
	event   *plane.Event
	verdict *trail.Verdict
}

// ask sends a request of a node and waits for nodetrail's verdict on it, which is held against the apiserver's word.
func (w *world) ask(t *testing.T, c *plane.Client, method, path string, body any) *answer {
	t.Helper()
	r, err := c.Do(w.ctx, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	a := &answer{Reply: r}
	what := method + " " + path
	w.eventually(t, "the audit log has "+what, func() (err error) {
		a.event, err = w.plane.Log.Find(r.AuditID)
		if err == nil && a.event == nil {
			err = fmt.Errorf("no event %s", r.AuditID)
		}
		return err
	})
	w.eventually(t, "a verdict on "+what, func() (err error) {
		a.verdict, err = w.trail.Verdict(r.AuditID)
		if err == nil && a.verdict == nil {
			err = fmt.Errorf("no line of %s", r.AuditID)
		}
		return err
	})
	w.compare(t, what, a)
	return a
}

// compare holds a verdict against the apiserver's annotations and its NODE DENY lines.
func (w *world) compare(t *testing.T, what string, a *answer) {
	t.Helper()
	v, e := a.verdict, a.event
	if v.Code != a.Code || v.Observed.Decision != e.Decision() || v.Observed.Reason != e.Reason() {
		t.Errorf("%s: answered %d, decision %q for %q; nodetrail read %d, %q for %q", what, a.Code, e.Decision(), e.Reason(), v.Code, v.Observed.Decision, v.Observed.Reason)
	}
	if !w.order || v.Race {
		return
	}
	want := "deny"
	if e.NodeAllowed() {
		want = "allow"
	}
	if v.Verdict != want || v.Observed.NodeVerdict != want {
		t.Errorf("%s: the Node authorizer's word was %s (%q); nodetrail says %s (%q, %q) and read %q", what, want, e.Reason(), v.Verdict, v.Reason, v.Detail, v.Observed.NodeVerdict)
	}
	if want == "allow" {
		return
	}
	denials, err := w.plane.NodeDenials()
	if err != nil {
		t.Fatal(err)
	}
	if v.Reason != "" && !slices.Contains(denials, v.Reason) {
		t.Errorf("%s: the apiserver has logged no NODE DENY %q", what, v.Reason)
	}
	if first, _, _ := strings.Cut(e.Reason(), "\n"); e.Decision() == "forbid" && first != v.Reason {
		t.Errorf("%s: the apiserver's reason is %q, nodetrail's %q", what, first, v.Reason)
	}
}

// settled asks until the answer is no race, beginning when what happened before is far enough away.
func (w *world) settled(t *testing.T, c *plane.Client, method, path string, body any) *answer {
	t.Helper()
	for end := time.Now().Add(plane.Patience); ; {
		w.later(skew + skew/4)
		if a := w.ask(t, c, method, path, body); !a.verdict.Race {
			return a
		} else if time.Now().After(end) {
			t.Fatalf("%s %s is still a race: %s", method, path, a.verdict.Detail)
		}
	}
}

// later lets time go by: what is less than skew from a change is a race.
func (w *world) later(d time.Duration) {
	select {
	case <-w.ctx.Done():
	case <-time.After(d):
	}
}

// expect is settled for a get, which has to be answered and judged like this, with these findings.
func (w *world) expect(t *testing.T, c *plane.Client, path string, code int, verdict string, findings ...string) *answer {
	t.Helper()
	a := w.settled(t, c, "GET", path, nil)
	slices.Sort(findings)
	got := slices.Sorted(slices.Values(a.verdict.Findings))
	if a.Code != code || a.verdict.Verdict != verdict || !slices.Equal(got, findings) {
		t.Errorf("GET %s: %d, %s, findings %q; want %d, %s, %q; reason %q, apiserver %q", path, a.Code, a.verdict.Verdict, got, code, verdict, findings,
			a.verdict.Reason, a.event.Reason())
	}
	return a
}

func (w *world) eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := plane.Eventually(w.ctx, what, func() error {
		if err := w.trail.Process.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return ok()
	}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) create(t *testing.T, o map[string]any) {
	t.Helper()
	check(t, w.plane.Create(w.ctx, o))
}

func (w *world) admin(t *testing.T, method, path string, body any) *plane.Reply {
	t.Helper()
	return must(w.plane.Admin().Must(w.ctx, method, path, body))(t)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns the value, or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		check(t, err)
		return v
	}
}
