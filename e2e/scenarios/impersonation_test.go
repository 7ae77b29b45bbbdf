package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/rules"
)

// A service account acts as the node that its pod runs on, by constrained impersonation, and that is no misuse: it has what the node has, and no more.
// Who acts as another node is found, with the old verb that allows it and without any. The audit policy has no reads of service accounts: so these are
// writes.
//
// Seen to fail with a rule that takes any impersonation for misuse, and with one that takes none for it.
func testImpersonation(t *testing.T, w *world) {
	w.namespace(t, "agents")
	for _, name := range []string{"agent", "robot", "copycat"} {
		w.create(t, object("v1", "ServiceAccount", "agents", name))
	}
	w.create(t, secret("agents", "mine"))
	run := func(name, node, account string, secrets ...string) {
		p := pod("agents", name, node, secrets...)
		p["spec"].(map[string]any)["serviceAccountName"] = account
		w.create(t, p)
	}
	run("agent", "node-1", "agent", "mine")
	run("robot", "node-2", "robot")
	w.create(t, clusterRole("agent", rule("authentication.k8s.io", "nodes", "impersonate:associated-node"),
		rule("", "secrets", "impersonate-on:associated-node:get"), rule("", "serviceaccounts/token", "impersonate-on:associated-node:create"),
		rule("", "nodes/status", "impersonate-on:associated-node:patch")))
	w.create(t, binding("agent", "agent", serviceAccount("agents", "agent")))
	one := plane.NodeIdentity("node-1").User
	bound := w.plane.As(plane.Identity{Token: w.podToken(t, "agents", "agent")}).With("agent/v1").Acting(one)
	unbound := w.plane.As(plane.Identity{Token: plane.Must(w.plane.ServiceAccountToken(w.ctx, "agents", "agent"))(t)}).With("agent/v1").Acting(one)

	body := map[string]any{"metadata": map[string]any{"annotations": map[string]string{"agent": "lives"}}}
	token := func(name string) any {
		return map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{
			"boundObjectRef": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": w.uid(t, podPath("agents", name))},
		}}
	}
	for _, x := range []struct {
		method, path string
		body         any
		code         int
		verdict      string
		findings     []string
	}{
		{http.MethodPatch, "/api/v1/nodes/node-1/status", body, http.StatusOK, "allow", nil},
		{http.MethodPost, "/api/v1/namespaces/agents/serviceaccounts/agent/token", token("agent"), http.StatusCreated, "allow", nil},
		{http.MethodPost, "/api/v1/namespaces/agents/serviceaccounts/robot/token", token("robot"), http.StatusForbidden, "deny", []string{"out-of-scope-secret-read"}},
	} {
		a := w.settled(t, bound, x.method, x.path, x.body)
		if a.Code != x.code || a.verdict.Verdict != x.verdict || !slices.Equal(a.verdict.Findings, x.findings) {
			t.Errorf("as its node, %s: %d, %s, %q; want %d, %s, %q; %s", x.path, a.Code, a.verdict.Verdict, a.verdict.Findings, x.code, x.verdict, x.findings, a.Body)
		}
	}
	// Its reads are not in the log; a refused one would be a NODE DENY line without an event.
	if r := plane.Must(bound.Do(w.ctx, http.MethodGet, "/api/v1/namespaces/agents/secrets/mine", nil))(t); r.Code != http.StatusOK {
		t.Errorf("as its node, its pod's secret: %d: %s", r.Code, r.Body)
	}

	const status = "/api/v1/nodes/node-2/status"
	two := plane.NodeIdentity("node-2").User
	for who, c := range map[string]*plane.Client{"another node": bound.Acting(two), "a token of no pod": unbound} {
		if r := plane.Must(c.Do(w.ctx, http.MethodPatch, status, body))(t); r.Code != http.StatusForbidden {
			t.Errorf("%s: %d", who, r.Code)
		}
	}
	w.credential(t, "system:serviceaccount:agents:agent", rules.RefusedToActAs)

	copycat := w.plane.As(plane.Identity{Token: plane.Must(w.plane.ServiceAccountToken(w.ctx, "agents", "copycat"))(t)}).With("copycat/v1").Acting(two, "system:nodes")
	w.create(t, clusterRole("copycat", rule("", "users", "impersonate"), rule("", "groups", "impersonate")))
	w.create(t, binding("copycat", "copycat", serviceAccount("agents", "copycat")))
	a := w.settled(t, copycat, http.MethodPatch, status, body)
	if a.Code != http.StatusOK || !slices.Equal(a.verdict.Findings, []string{"node-credential-misuse"}) {
		t.Errorf("by the old verb: %d, %q: %s", a.Code, a.verdict.Findings, a.Body)
	}
	w.credential(t, "system:serviceaccount:agents:copycat", rules.Impersonation)
	w.alerted(t, map[string]string{"alertname": "NodeCredentialMisuse", "node": "system:serviceaccount:agents:copycat"})
}

// credential waits until the report finds misuse of the node's credential, for the reason.
func (w *world) credential(t *testing.T, node string, reason rules.Reason) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("the report finds %s of %s", reason, node), func() error {
		r, err := w.trail.Report(w.ctx)
		if err != nil {
			return err
		}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Rule == "node-credential-misuse" && f.Node == node && f.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it has %d findings and not this one", len(r.Findings))
	})
}

// podToken is a token of a pod's service account that is bound to the pod, as the kubelet asks for.
func (w *world) podToken(t *testing.T, namespace, name string) string {
	t.Helper()
	var p struct {
		Spec struct{ ServiceAccountName string }
	}
	plane.Check(t, w.plane.Admin().Get(w.ctx, podPath(namespace, name), &p))
	var got struct{ Status struct{ Token string } }
	plane.Check(t, w.plane.Admin().Post(w.ctx, "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+p.Spec.ServiceAccountName+"/token", map[string]any{
		"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{
			"expirationSeconds": 3600, "boundObjectRef": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": w.uid(t, podPath(namespace, name))},
		},
	}, &got))
	return got.Status.Token
}
