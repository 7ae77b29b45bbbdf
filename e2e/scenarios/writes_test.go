package scenarios

import (
	"cmp"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// write is one of node-1, and what NodeRestriction says of it. Missing is what nodetrail lacks for an answer; since and until are the minors that have it.
type write struct {
	name, method, path string
	body               any
	refused            bool
	missing            string
	since, until       int
}

// What NodeRestriction decides, by kind of request: allowed and refused, of what a node needs no other rights for and of what it does.
//
// Seen to fail with a plugin of ours that allows any label, and with one that words a refusal in another way.
func testWrites(t *testing.T, w *world) {
	w.namespace(t, "writes")
	w.create(t, pod("writes", "mine", "node-1"))
	w.create(t, pod("writes", "other", "node-2"))
	w.create(t, clusterRole("writes", rule("", "pods", "update", "patch"), rule("", "pods/binding", "create"), rule("", "pods/ephemeralcontainers", "patch"),
		rule("", "pods/resize", "patch"), rule("", "persistentvolumeclaims", "create", "patch", "delete")))
	w.create(t, binding("writes", "writes", group("system:nodes")))
	w.disk(t)
	for _, x := range w.writes(t) {
		if x.since > w.minor() || x.until != 0 && x.until < w.minor() {
			continue
		}
		w.restricted(t, &x)
	}
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/writes", nil)
}

// disk is a claim that a pod of node-1 uses.
func (w *world) disk(t *testing.T) {
	t.Helper()
	w.create(t, with(object("v1", "PersistentVolume", "", "written"), "spec", map[string]any{
		"capacity": map[string]any{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "persistentVolumeReclaimPolicy": "Retain",
		"csi": map[string]any{"driver": "csi.example", "volumeHandle": "written"}, "claimRef": map[string]any{"namespace": "writes", "name": "disk"},
	}))
	w.create(t, with(object("v1", "PersistentVolumeClaim", "writes", "disk"), "spec", map[string]any{
		"accessModes": []string{"ReadWriteOnce"}, "volumeName": "written", "storageClassName": "", "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	}))
	p := pod("writes", "db", "node-1")
	p["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "disk", "persistentVolumeClaim": map[string]any{"claimName": "disk"}}}
	w.create(t, p)
}

func (w *world) writes(t *testing.T) []write {
	const post, patch, del = http.MethodPost, http.MethodPatch, http.MethodDelete
	const nodes, pods, claims = "/api/v1/nodes", "/api/v1/namespaces/writes/pods", "/api/v1/namespaces/writes/persistentvolumeclaims"
	const leases, csi = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", "/apis/storage.k8s.io/v1/csinodes"
	meta := func(key string, value any) any { return map[string]any{"metadata": map[string]any{key: value}} }
	labels := func(name string) any { return meta("labels", map[string]string{name: "yes"}) }
	named := func(o map[string]any, key string, value any) map[string]any {
		o["metadata"].(map[string]any)[key] = value
		return o
	}
	mirror := func(name, node string) map[string]any {
		p := pod("writes", name, node)
		named(p, "annotations", map[string]string{"kubernetes.io/config.mirror": "hash", "kubernetes.io/config.source": "file"})
		return named(p, "ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "node-1", "uid": w.uid(t, nodes+"/node-1"), "controller": true}})
	}
	slice := func(node string) any {
		return with(object(devices(t), "ResourceSlice", "", "written-"+node), "spec", map[string]any{
			"driver": "gpu.example", "nodeName": node, "pool": map[string]any{"name": "written", "generation": 1, "resourceSliceCount": 1},
		})
	}
	evict := func(name string) any { return object("policy/v1", "Eviction", "writes", name) }
	lease := func(name string) any { return object("coordination.k8s.io/v1", "Lease", "kube-node-lease", name) }
	csiNode := func(name string) any {
		return with(object("storage.k8s.io/v1", "CSINode", "", name), "spec", map[string]any{"drivers": []any{}})
	}
	secretly := mirror("secretly", "node-1")
	secretly["spec"] = pod("writes", "secretly", "node-1", "db")["spec"]
	slices := "/apis/" + devices(t) + "/resourceslices"
	return []write{
		{name: "its own Node", method: patch, path: nodes + "/node-1/status", body: meta("annotations", map[string]string{"e2e": "writes"})},
		{name: "another Node", method: patch, path: nodes + "/node-2/status", body: meta("annotations", map[string]string{"e2e": "writes"}), refused: true},
		{name: "another Node, made", method: post, path: nodes, body: object("v1", "Node", "", "probe"), refused: true},
		{name: "its own Node, made", method: post, path: nodes, body: object("v1", "Node", "", "node-1")},
		{name: "its own Node, made with a label that is not for it", method: post, path: nodes, body: named(object("v1", "Node", "", "node-1"), "labels", map[string]string{"node-restriction.kubernetes.io/x": "y"}), refused: true},
		{name: "a label of its own", method: patch, path: nodes + "/node-1", body: labels("example.com/rack")},
		{name: "a label that is not for it", method: patch, path: nodes + "/node-1", body: labels("node-restriction.kubernetes.io/trusted"), refused: true},
		{name: "its taints", method: patch, path: nodes + "/node-1", body: map[string]any{"spec": map[string]any{"taints": []any{map[string]any{"key": "a", "effect": "NoSchedule"}}}}, refused: true},
		{name: "its owner", method: patch, path: nodes + "/node-1", body: meta("ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "1"}}), refused: true},
		{name: "another Lease, made", method: post, path: leases, body: lease("node-9"), refused: true},
		{name: "its own Lease, made", method: post, path: leases, body: lease("node-1")},
		{name: "another CSINode, made", method: post, path: csi, body: csiNode("node-9"), refused: true},
		{name: "its own CSINode, made", method: post, path: csi, body: csiNode("node-1")},

		{name: "a mirror pod", method: post, path: pods, body: mirror("static", "node-1")},
		{name: "a mirror pod of another node", method: post, path: pods, body: mirror("static", "node-2"), refused: true},
		{name: "a mirror pod with a secret", method: post, path: pods, body: secretly, refused: true},
		{name: "a pod", method: post, path: pods, body: pod("writes", "plain", "node-1"), refused: true},
		{name: "its pod, changed", method: patch, path: pods + "/mine", body: labels("a"), refused: true},
		{name: "its pod, bound", method: post, path: pods + "/mine/binding", body: with(object("v1", "Binding", "writes", "mine"), "target", map[string]any{"kind": "Node", "name": "node-1"}), refused: true},
		{name: "its pod, debugged", method: patch, path: pods + "/mine/ephemeralcontainers", body: map[string]any{"spec": map[string]any{"ephemeralContainers": []any{map[string]any{"name": "look", "image": "registry.example/look"}}}}, refused: true},
		{name: "its pod, resized", method: patch, path: pods + "/mine/resize", body: map[string]any{"spec": map[string]any{}}, refused: true, since: 33},
		{name: "its pod, deleted", method: del, path: pods + "/mine"},
		{name: "another's pod, deleted", method: del, path: pods + "/other", refused: true},
		{name: "its pod, evicted", method: post, path: pods + "/mine/eviction", body: evict("mine")},
		{name: "another's pod, evicted", method: post, path: pods + "/other/eviction", body: evict("other"), refused: true},
		{name: "no pod, evicted", method: post, path: pods + "/none/eviction", body: evict("none"), refused: true},
		{name: "its pod's status", method: patch, path: pods + "/mine/status", body: meta("annotations", map[string]string{"e2e": "writes"}), missing: "body"},
		{name: "its pod's labels", method: patch, path: pods + "/mine/status", body: labels("a"), refused: true, missing: "body"},
		{name: "another's pod's status", method: patch, path: pods + "/other/status", body: meta("annotations", map[string]string{"e2e": "writes"}), refused: true},

		{name: "a claim, made", method: post, path: claims, body: with(object("v1", "PersistentVolumeClaim", "writes", "more"), "spec", map[string]any{
			"accessModes": []string{"ReadWriteOnce"}, "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
		}), refused: true},
		{name: "a claim, changed", method: patch, path: claims + "/disk", body: labels("a"), refused: true},
		{name: "a claim, deleted", method: del, path: claims + "/disk", refused: true},
		{name: "a claim's capacity", method: patch, path: claims + "/disk/status", body: map[string]any{"status": map[string]any{"capacity": map[string]any{"storage": "2Gi"}}}},
		{name: "a claim's labels", method: patch, path: claims + "/disk/status", body: labels("a"), refused: true},

		{name: "its own slice, made", method: post, path: slices, body: slice("node-1"), since: 34},
		{name: "another's slice, made", method: post, path: slices, body: slice("node-2"), refused: true, since: 34},
		{name: "its own certificate", method: post, path: signings, body: signing(t, "node-1")},
		{name: "another's certificate", method: post, path: signings, body: signing(t, "node-2"), refused: true},
	}
}

const signings = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// signing is a request for a kubelet's client certificate.
func signing(t *testing.T, node string) map[string]any {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	id := plane.NodeIdentity(node)
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id.User, Organization: id.Groups}}, key))(t)
	return with(object("certificates.k8s.io/v1", "CertificateSigningRequest", "", "writes-"+node), "spec", map[string]any{
		"request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
		"usages": []string{"digital signature", "client auth"},
	})
}

// restricted makes the write as a dry run and holds nodetrail's word on it against the plugin's.
func (w *world) restricted(t *testing.T, x *write) *answer {
	t.Helper()
	return w.admitted(t, w.plane.Node("node-1"), x, "?dryRun=All")
}

// admitted waits until the answer is no race, and holds nodetrail's word on what NodeRestriction says against the apiserver's answer: the same code and,
// byte for byte, the same message. Of what is missing it has to say that it does not know.
func (w *world) admitted(t *testing.T, c *plane.Client, x *write, query string) *answer {
	t.Helper()
	for end := time.Now().Add(plane.Patience()); ; w.later(skew / 4) {
		a := w.ask(t, c, x.method, x.path+query, x.body)
		v := a.verdict.Admission
		if v == nil {
			t.Errorf("%s: nodetrail says nothing of NodeRestriction: %d %.300s", x.name, a.Code, a.Body)
			return a
		}
		if (a.verdict.Race || v.Race) && time.Now().Before(end) {
			continue
		}
		var status struct{ Message string }
		if a.Code >= http.StatusBadRequest {
			check(t, json.Unmarshal(a.Body, &status))
		}
		verdict, observed, code, message := "allow", "allow", 0, ""
		if x.refused {
			verdict, observed, code, message = "deny", "deny", a.Code, status.Message
		}
		if x.missing != "" {
			verdict, code, message = "unknown", 0, ""
		}
		got := v.Message
		if diff := "is not allowed to update fields other than"; strings.Contains(message, diff) { // what follows is the difference, in words of another library
			message, _, _ = strings.Cut(message, ": {")
			got, _, _ = strings.Cut(got, ": {")
		}
		if x.refused != (a.Code >= 400 && a.Code != http.StatusConflict) || v.Verdict != verdict || v.Observed != observed || v.Code != code || got != message || v.Missing != x.missing {
			t.Errorf("%s: %s %s: the apiserver says %d %q, nodetrail %+v", x.name, x.method, x.path, a.Code, cmp.Or(status.Message, "-"), *v)
		}
		return a
	}
}

// The audiences of tokens that a node may ask for are those of its pods' volumes; others need RBAC. Up to 1.32 there is no such limit.
//
// Seen to fail with a plugin of ours that takes the apiserver's own audience for free.
func testAudiences(t *testing.T, w *world) {
	w.namespace(t, "audiences")
	p := pod("audiences", "web", "node-1")
	p["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "vault", "projected": map[string]any{"sources": []any{
		map[string]any{"serviceAccountToken": map[string]any{"audience": "vault", "path": "token"}},
	}}}}
	w.create(t, p)
	w.create(t, pod("audiences", "elsewhere", "node-2"))
	w.create(t, pod("audiences", "twin", "node-1"))
	token := func(pod, uid string, audiences ...string) any {
		spec := map[string]any{"audiences": audiences}
		if pod != "" {
			spec["boundObjectRef"] = map[string]any{"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": cmp.Or(uid, w.uid(t, podPath("audiences", pod)))}
		}
		return map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
	}
	const path = "/api/v1/namespaces/audiences/serviceaccounts/default/token"
	ask := func(name string, refused bool, body any) *answer {
		return w.admitted(t, w.plane.Node("node-1"), &write{name: name, method: http.MethodPost, path: path, body: body, refused: refused}, "")
	}
	limited := w.minor() >= audiences
	ask("a token of a volume", false, token("web", "", "vault"))
	ask("a token of no pod", true, token("", "", "vault"))
	ask("a token of another node's pod", true, token("elsewhere", "", "vault"))
	ask("a token of a pod that was there before", true, token("web", "00000000-0000-0000-0000-000000000000", "vault"))
	ask("an audience of another pod", limited, token("twin", "", "vault"))
	ask("the apiserver's own audience", limited, token("web", "", "https://kubernetes.default.svc"))
	ask("an audience that nobody has", limited, token("web", "", "registry"))
	if !limited {
		return
	}
	w.create(t, clusterRole("audience", map[string]any{
		"apiGroups": []string{""}, "resources": []string{"registry"}, "resourceNames": []string{"default"}, "verbs": []string{"request-serviceaccounts-token-audience"},
	}))
	w.create(t, binding("audience", "audience", group("system:nodes")))
	w.later(skew + skew/4)
	ask("an audience by RBAC", false, token("web", "", "registry"))
	ask("an audience that RBAC does not have", true, token("web", "", "registry-2"))
	r := must(w.trail.Report(w.ctx))(t)
	if said := fmt.Sprintf("%+v", r.TokenAudiences); !strings.Contains(said, "registry") || !strings.Contains(said, "audience") {
		t.Errorf("the report does not name the exception: %s", said)
	}
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/audience", nil)
	w.later(skew + skew/4)
	ask("an audience by RBAC no more", true, token("web", "", "registry"))
}
