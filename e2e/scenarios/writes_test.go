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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// write is one of node-1, and what NodeRestriction says of it. Missing is what nodetrail lacks for an answer; since is the minor
// that it came with.
type write struct {
	name, method, path string
	body               any
	refused            bool
	missing            string
	since              int
}

// What NodeRestriction decides, by kind of request: allowed and refused, of what a node needs no other rights for and of what it does.
//
// Seen to fail with a plugin of ours that lets a node add taints, and with one that words a refusal in another way.
func testWrites(t *testing.T, w *world) {
	w.namespace(t, "writes")
	mine := pod("writes", "mine", "node-1")
	if w.minor() >= 37 {
		mine["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "certificate", "projected": map[string]any{"sources": []any{
			map[string]any{"podCertificate": map[string]any{"signerName": meshSigner, "keyType": "ED25519", "credentialBundlePath": "bundle.pem"}},
		}}}}
	}
	w.create(t, mine)
	w.create(t, pod("writes", "other", "node-2"))
	w.create(t, clusterRole("writes", rule("", "pods", "update", "patch"), rule("", "pods/binding", "create"), rule("", "pods/ephemeralcontainers", "patch"),
		rule("", "pods/resize", "patch"), rule("", "persistentvolumeclaims", "create", "patch", "delete")))
	w.create(t, binding("writes", "writes", group("system:nodes")))
	w.disk(t)
	w.later(skew + skew/4)
	all := slices.DeleteFunc(w.writes(t), func(x write) bool { return x.since > w.minor() })
	replies := make([]*plane.Reply, len(all)) // they change nothing, so that all can be made before their verdicts are there
	for i := range all {
		replies[i] = plane.Must(w.plane.Node("node-1").Do(w.ctx, all[i].method, all[i].path+dryRun, all[i].body))(t)
	}
	for i := range all {
		x := &all[i]
		if !w.agrees(t, x, w.verdictOn(t, x.method+" "+x.path, replies[i])) {
			w.admitted(t, x, dryRun)
		}
	}
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/writes", nil)
}

const dryRun = "?dryRun=All"

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
	const certs = "/apis/certificates.k8s.io/v1/namespaces/writes/podcertificaterequests"
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
	curious := mirror("curious", "node-1") // a secret is refused by the plugin ServiceAccount before
	curious["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "settings", "configMap": map[string]any{"name": "settings"}}}
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
		{name: "a mirror pod with a ConfigMap", method: post, path: pods, body: curious, refused: true},
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
		{name: "its pod's certificate", method: post, path: certs, body: w.podCertificate(t, "mine", "node-1"), since: 37},
		{name: "another's pod's certificate", method: post, path: certs, body: w.podCertificate(t, "other", "node-2"), refused: true, since: 37},
		{name: "its pod's certificate, by another node's name", method: post, path: certs, body: w.podCertificate(t, "mine", "node-2"), refused: true, since: 37},
	}
}

const signings = "/apis/certificates.k8s.io/v1/certificatesigningrequests"

// signing is a request for a kubelet's client certificate.
func signing(t *testing.T, node string) map[string]any {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	plane.Check(t, err)
	id := plane.NodeIdentity(node)
	der := plane.Must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: id.User, Organization: id.Groups}}, key))(t)
	return with(object("certificates.k8s.io/v1", "CertificateSigningRequest", "", "writes-"+node), "spec", map[string]any{
		"request": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
		"usages": []string{"digital signature", "client auth"},
	})
}

// podCertificate is a request for a pod's certificate, which the pod asks for by a volume of its own.
func (w *world) podCertificate(t *testing.T, name, node string) map[string]any {
	t.Helper()
	if w.minor() < 37 {
		return nil
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	plane.Check(t, err)
	return with(object("certificates.k8s.io/v1", "PodCertificateRequest", "writes", name), "spec", map[string]any{
		"signerName": meshSigner, "maxExpirationSeconds": 3600, "podName": name, "podUID": w.uid(t, podPath("writes", name)),
		"serviceAccountName": "default", "serviceAccountUID": w.uid(t, "/api/v1/namespaces/writes/serviceaccounts/default"),
		"nodeName": node, "nodeUID": w.uid(t, "/api/v1/nodes/"+node),
		"stubPKCS10Request": plane.Must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key))(t),
	})
}

// admitted makes the write as node-1 until the answer is no race, and holds nodetrail's word against the API server's.
func (w *world) admitted(t *testing.T, x *write, query string) {
	t.Helper()
	for end := time.Now().Add(plane.Patience()); time.Now().Before(end); w.later(skew / 4) {
		if w.agrees(t, x, w.ask(t, w.plane.Node("node-1"), x.method, x.path+query, x.body)) {
			return
		}
	}
	t.Errorf("%s is still a race", x.name)
}

// agrees holds nodetrail's word on what NodeRestriction says against the API server's answer: the same code and, byte for byte, the same message. Of what is
// missing it has to say that it does not know. It is false for a race.
func (w *world) agrees(t *testing.T, x *write, a *answer) bool {
	t.Helper()
	v := a.verdict.Admission
	if v == nil {
		t.Errorf("%s: nodetrail says nothing of NodeRestriction: %d %.300s", x.name, a.Code, a.Body)
		return true
	}
	if a.verdict.Race || v.Race {
		return false
	}
	var status struct{ Message string }
	if a.Code >= http.StatusBadRequest {
		plane.Check(t, json.Unmarshal(a.Body, &status))
	}
	verdict, observed, code, message := "allow", "allow", 0, ""
	if x.refused {
		verdict, observed, code, message = "deny", "deny", a.Code, status.Message
	}
	if x.missing != "" {
		verdict, code, message = "unknown", 0, ""
	}
	if strings.Contains(message, "is not allowed to update fields other than") && strings.HasSuffix(v.Message, ":") {
		message = message[:min(len(message), len(v.Message))] // what follows is the difference, in words of another library
	}
	if x.refused != (a.Code >= http.StatusBadRequest && a.Code != http.StatusConflict) || v.Verdict != verdict || v.Observed != observed || v.Code != code ||
		v.Message != message || v.Missing != x.missing {
		t.Errorf("%s: %s %s: the API server says %d %q, nodetrail %+v", x.name, x.method, x.path, a.Code, cmp.Or(status.Message, "-"), *v)
	}
	return true
}

// The audiences of tokens that a node may ask for are those of its pods' volumes; others need RBAC. Up to 1.32 there is no such limit.
//
// Seen to fail with a plugin of ours that takes the API server's own audience for free.
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
	ask := func(name string, refused bool, body any) {
		t.Helper()
		w.admitted(t, &write{name: name, method: http.MethodPost, path: path, body: body, refused: refused}, "")
	}
	limited := w.minor() >= audiences
	ask("a token of a volume", false, token("web", "", "vault"))
	ask("a token of no pod", true, token("", "", "vault"))
	ask("a token of another node's pod", true, token("elsewhere", "", "vault"))
	ask("a token of a pod that was there before", true, token("web", "00000000-0000-0000-0000-000000000000", "vault"))
	ask("an audience of another pod", limited, token("twin", "", "vault"))
	ask("the API server's own audience", limited, token("web", "", "https://kubernetes.default.svc"))
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
	w.eventually(t, "the report names the exception", func() error {
		r, err := w.trail.Report(w.ctx)
		if err != nil {
			return err
		}
		for _, h := range r.TokenAudiences.Holders {
			if h.Binding.Name == "audience" && slices.Equal(h.Audiences, []string{"registry"}) {
				return nil
			}
		}
		return fmt.Errorf("it has %+v", r.TokenAudiences)
	})
	w.admin(t, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/audience", nil)
	w.later(skew + skew/4)
	ask("an audience by RBAC no more", true, token("web", "", "registry"))
}
