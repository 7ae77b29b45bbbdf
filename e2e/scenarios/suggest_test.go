package scenarios

import (
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// A program lives on the kubelet's credential: some of what it does the Node authorizer allows, some a binding for nodes. It continues with what
// nodetrail suggest writes for it, applied as it is, in a pod of its own and without the binding: what the Node authorizer allowed it does as the node
// of that pod, within that node's scope, and nodetrail finds nothing wrong with it. Without that header, or as another node, it is refused.
//
// Seen to fail with a suggestion that lacks the verb impersonate:associated-node.
func testSuggestedImpersonation(t *testing.T, w *world) {
	w.namespace(t, "moved")
	w.create(t, object("v1", "ServiceAccount", "moved", "robot"))
	for name, node := range map[string]string{"here": "node-1", "there": "node-2"} {
		account := "default"
		if name == "there" {
			account = "robot"
		}
		p := pod("moved", name, node)
		p["spec"].(map[string]any)["serviceAccountName"] = account
		w.create(t, p)
	}
	w.create(t, clusterRole("moved", rule("", "persistentvolumes", "get")))
	w.create(t, binding("moved", "moved", group("system:nodes")))
	const agent = "mover/v1.2 (linux/amd64)"
	const own, foreign = "/api/v1/namespaces/moved/serviceaccounts/default/token", "/api/v1/namespaces/moved/serviceaccounts/robot/token"
	const status, otherStatus = "/api/v1/nodes/node-1/status", "/api/v1/nodes/node-2/status"
	patch := map[string]any{"metadata": map[string]any{"annotations": map[string]string{"mover": "lives"}}}
	token := func(pod string) any {
		return map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{
			"boundObjectRef": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": w.uid(t, podPath("moved", pod))},
		}}
	}
	before := w.plane.Node("node-1").With(agent)
	for _, x := range []struct {
		method, path string
		body         any
		code         int
		verdict      string
	}{
		{http.MethodPatch, status, patch, http.StatusOK, "allow"},
		{http.MethodPost, own, token("here"), http.StatusCreated, "allow"},
		{http.MethodGet, archive, nil, http.StatusOK, "deny"},
	} {
		if a := w.settled(t, before, x.method, x.path, x.body); a.Code != x.code || a.verdict.Verdict != x.verdict {
			t.Errorf("with the node's credential, %s %s: %d, %s", x.method, x.path, a.Code, a.verdict.Verdict)
		}
	}

	yaml := plane.Must(trail.Run(w.ctx, w.program, "suggest", "--verify", "--namespace", "moved", "--without", "clusterrolebinding/moved",
		"--state", filepath.Join(work.Dir, w.name+"-data", "state"), w.plane.AuditLogPath()))(t)
	if !strings.Contains(string(yaml), "impersonate-on:associated-node:") {
		t.Fatalf("no impersonation is suggested:\n%s", yaml)
	}
	plane.Check(t, w.plane.Apply(w.ctx, yaml))
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/moved", nil)
	p := pod("moved", "mover", "node-1")
	p["spec"].(map[string]any)["serviceAccountName"] = "nodetrail-mover"
	w.create(t, p)
	account := w.plane.As(plane.Identity{Token: w.podToken(t, "moved", "mover")}).With(agent)
	node := account.Acting(plane.NodeIdentity("node-1").User)
	w.eventually(t, "the API server knows the roles", func() error {
		_, err := node.Must(w.ctx, http.MethodPatch, status, patch)
		return err
	})
	for _, x := range []struct {
		what, method, path string
		client             *plane.Client
		body               any
		code               int
		verdict            string // of requests that nodetrail judges
		findings           []string
	}{
		{"as its node", http.MethodPatch, status, node, patch, http.StatusOK, "allow", nil},
		{"as its node", http.MethodPost, own, node, token("here"), http.StatusCreated, "allow", nil},
		{"as its node, a token of another node's", http.MethodPost, foreign, node, token("there"), http.StatusForbidden, "deny", []string{"out-of-scope-secret-read"}},
		{"as another node", http.MethodPatch, otherStatus, account.Acting(plane.NodeIdentity("node-2").User), patch, http.StatusForbidden, "", nil},
		{"as itself, what the node may", http.MethodPatch, status, account, patch, http.StatusForbidden, "", nil},
		{"as itself, what the node may", http.MethodPost, own, account, token("here"), http.StatusForbidden, "", nil},
		{"as itself, by its role", http.MethodGet, archive, account, nil, http.StatusOK, "", nil},
	} {
		if x.verdict == "" {
			if r := plane.Must(x.client.Do(w.ctx, x.method, x.path, x.body))(t); r.Code != x.code {
				t.Errorf("%s, %s %s: %d, want %d: %s", x.what, x.method, x.path, r.Code, x.code, r.Body)
			}
			continue
		}
		if a := w.settled(t, x.client, x.method, x.path, x.body); a.Code != x.code || a.verdict.Verdict != x.verdict || !slices.Equal(a.verdict.Findings, x.findings) {
			t.Errorf("%s, %s %s: %d, %s, %q; want %d, %s, %q: %s", x.what, x.method, x.path, a.Code, a.verdict.Verdict, a.verdict.Findings, x.code, x.verdict, x.findings, a.Body)
		}
	}
}
