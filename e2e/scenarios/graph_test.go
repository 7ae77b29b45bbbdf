package scenarios

import (
	"net/http"
	"testing"
)

// A pod's secret is its node's, and no other's. What a pod of that name led to is gone with it.
//
// Seen to fail with a graph in which pods never end.
func testNameReused(t *testing.T, w *world) {
	w.namespace(t, "reuse")
	w.create(t, secret("reuse", "db"))
	one, two := w.plane.Node("node-1"), w.plane.Node("node-2")
	const db = "/api/v1/namespaces/reuse/secrets/db"
	w.expect(t, one, db, http.StatusForbidden, "deny", "out-of-scope-secret-read")

	w.create(t, pod("reuse", "web", "node-1", "db"))
	w.expect(t, one, db, http.StatusOK, "allow")
	w.expect(t, two, db, http.StatusForbidden, "deny", "out-of-scope-secret-read")

	w.deletePod(t, "reuse", "web")
	w.expect(t, one, db, http.StatusForbidden, "deny", "out-of-scope-secret-read")
	w.create(t, pod("reuse", "web", "node-2", "db"))
	w.expect(t, one, db, http.StatusForbidden, "deny", "out-of-scope-secret-read")
	w.expect(t, two, db, http.StatusOK, "allow")
}

// A secret that an ephemeral container names is the node's from then on, since 1.33.
//
// Seen to fail with a decoder that does not count ephemeral containers.
func testEphemeral(t *testing.T, w *world) {
	w.namespace(t, "debug")
	w.create(t, secret("debug", "first"))
	w.create(t, secret("debug", "second"))
	w.create(t, pod("debug", "web", "node-1", "first"))
	one := w.plane.Node("node-1")
	const second = "/api/v1/namespaces/debug/secrets/second"
	w.expect(t, one, "/api/v1/namespaces/debug/secrets/first", http.StatusOK, "allow")
	w.expect(t, one, second, http.StatusForbidden, "deny", "out-of-scope-secret-read")

	w.admin(t, http.MethodPatch, "/api/v1/namespaces/debug/pods/web/ephemeralcontainers", map[string]any{"spec": map[string]any{
		"ephemeralContainers": []any{map[string]any{
			"name": "look", "image": "registry.example/look",
			"env": []any{map[string]any{"name": "PASSWORD", "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": "second", "key": "key"}}}},
		}},
	}})
	if w.minor() < ephemeral {
		w.expect(t, one, second, http.StatusForbidden, "deny", "out-of-scope-secret-read")
		return
	}
	w.expect(t, one, second, http.StatusOK, "allow")
}

// A volume attachment is the business of its node.
//
// Seen to fail with a graph in which attachments never end.
func testVolumeAttachment(t *testing.T, w *world) {
	w.create(t, with(object("storage.k8s.io/v1", "VolumeAttachment", "", "disk"), "spec", map[string]any{
		"attacher": "csi.example", "nodeName": "node-1", "source": map[string]any{"persistentVolumeName": "disk"},
	}))
	const path = "/apis/storage.k8s.io/v1/volumeattachments"
	w.expect(t, w.plane.Node("node-1"), path+"/disk", http.StatusOK, "allow")
	w.expect(t, w.plane.Node("node-2"), path+"/disk", http.StatusForbidden, "deny")
	w.expect(t, w.plane.Node("node-1"), path, http.StatusForbidden, "deny", "node-credential-misuse")
	w.admin(t, http.MethodDelete, path+"/disk", nil)
	w.expect(t, w.plane.Node("node-1"), path+"/disk", http.StatusForbidden, "deny")
}

// A persistent volume and its claim are the node's on which a pod uses the claim; so is the secret that the volume names.
//
// Seen to fail with a decoder that does not know nodePublishSecretRef.
func testVolumeClaim(t *testing.T, w *world) {
	w.namespace(t, "disks")
	w.create(t, secret("disks", "key"))
	w.create(t, with(object("v1", "PersistentVolume", "", "data"), "spec", map[string]any{
		"capacity": map[string]any{"storage": "1Gi"}, "accessModes": []string{"ReadWriteOnce"}, "persistentVolumeReclaimPolicy": "Retain",
		"csi":      map[string]any{"driver": "csi.example", "volumeHandle": "data", "nodePublishSecretRef": map[string]any{"namespace": "disks", "name": "key"}},
		"claimRef": map[string]any{"namespace": "disks", "name": "data"},
	}))
	w.create(t, with(object("v1", "PersistentVolumeClaim", "disks", "data"), "spec", map[string]any{
		"accessModes": []string{"ReadWriteOnce"}, "volumeName": "data", "storageClassName": "", "resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}},
	}))
	p := pod("disks", "db", "node-1")
	p["spec"].(map[string]any)["volumes"] = []any{map[string]any{"name": "data", "persistentVolumeClaim": map[string]any{"claimName": "data"}}}
	w.create(t, p)
	one, two := w.plane.Node("node-1"), w.plane.Node("node-2")
	w.expect(t, one, "/api/v1/namespaces/disks/persistentvolumeclaims/data", http.StatusOK, "allow")
	w.expect(t, one, "/api/v1/persistentvolumes/data", http.StatusOK, "allow")
	w.expect(t, one, "/api/v1/namespaces/disks/secrets/key", http.StatusOK, "allow")
	w.expect(t, two, "/api/v1/persistentvolumes/data", http.StatusForbidden, "deny")
	w.expect(t, two, "/api/v1/namespaces/disks/secrets/key", http.StatusForbidden, "deny", "out-of-scope-secret-read")
	w.deletePod(t, "disks", "db")
	w.expect(t, one, "/api/v1/namespaces/disks/secrets/key", http.StatusForbidden, "deny", "out-of-scope-secret-read")
}

// Resource slices are asked for by the node's name, claims are those of the node's pods.
//
// Seen to fail with an authorizer that does not look at the field selector.
func testResources(t *testing.T, w *world) {
	w.namespace(t, "devices")
	group := "/apis/" + devices(t)
	slice := func(name, node string) map[string]any {
		return with(object(devices(t), "ResourceSlice", "", name), "spec", map[string]any{
			"driver": "gpu.example", "nodeName": node, "pool": map[string]any{"name": node, "generation": 1, "resourceSliceCount": 1},
		})
	}
	w.create(t, slice("slice-1", "node-1"))
	w.create(t, slice("slice-2", "node-2"))
	claim := func(name string) map[string]any {
		return with(object(devices(t), "ResourceClaim", "devices", name), "spec", map[string]any{"devices": map[string]any{
			"requests": []any{map[string]any{"name": "gpu", "exactly": map[string]any{"deviceClassName": "gpu"}}},
		}})
	}
	w.create(t, claim("mine"))
	w.create(t, claim("other"))
	p := pod("devices", "train", "node-1")
	p["spec"].(map[string]any)["resourceClaims"] = []any{map[string]any{"name": "gpu", "resourceClaimName": "mine"}}
	w.create(t, p)
	one, two := w.plane.Node("node-1"), w.plane.Node("node-2")
	w.expect(t, one, group+"/resourceslices?fieldSelector=spec.nodeName%3Dnode-1", http.StatusOK, "allow")
	w.expect(t, one, group+"/resourceslices?fieldSelector=spec.nodeName%3Dnode-2", http.StatusForbidden, "deny", "node-credential-misuse")
	w.expect(t, one, group+"/resourceslices/slice-1", http.StatusOK, "allow")
	w.expect(t, one, group+"/resourceslices/slice-2", http.StatusForbidden, "deny", "node-credential-misuse")
	if a := w.settled(t, two, http.MethodDelete, group+"/resourceslices/slice-1", nil); a.Code != http.StatusForbidden || a.verdict.Verdict != "deny" {
		t.Errorf("another node's slice: %d, %s", a.Code, a.verdict.Verdict)
	}
	w.expect(t, one, group+"/namespaces/devices/resourceclaims/mine", http.StatusOK, "allow")
	w.expect(t, one, group+"/namespaces/devices/resourceclaims/other", http.StatusForbidden, "deny")
	w.expect(t, two, group+"/namespaces/devices/resourceclaims/mine", http.StatusForbidden, "deny")
}

// A node may make tokens of service accounts that its own pods run as, and read those accounts.
//
// Seen to fail with a graph without the edges of service accounts.
func testTokens(t *testing.T, w *world) {
	w.namespace(t, "accounts")
	w.create(t, object("v1", "ServiceAccount", "accounts", "robot"))
	p := pod("accounts", "runner", "node-1")
	p["spec"].(map[string]any)["serviceAccountName"] = "robot"
	w.create(t, p)
	token := map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": map[string]any{
		"boundObjectRef": map[string]any{"apiVersion": "v1", "kind": "Pod", "name": "runner", "uid": w.uid(t, podPath("accounts", "runner"))},
	}}
	const path = "/api/v1/namespaces/accounts/serviceaccounts/robot/token"
	if a := w.settled(t, w.plane.Node("node-1"), http.MethodPost, path, token); a.Code != http.StatusCreated || a.verdict.Verdict != "allow" || len(a.verdict.Findings) != 0 {
		t.Errorf("the pod's own node: %d, %s, %q", a.Code, a.verdict.Verdict, a.verdict.Findings)
	}
	a := w.settled(t, w.plane.Node("node-2"), http.MethodPost, path, token)
	if a.Code != http.StatusForbidden || a.verdict.Verdict != "deny" || len(a.verdict.Findings) != 1 || a.verdict.Findings[0] != "out-of-scope-secret-read" {
		t.Errorf("another node: %d, %s, %q", a.Code, a.verdict.Verdict, a.verdict.Findings)
	}
	// The account itself is for the node to read from 1.34 on, for the kubelet's credential providers.
	const account = "/api/v1/namespaces/accounts/serviceaccounts/robot"
	if w.minor() < accounts {
		w.expect(t, w.plane.Node("node-1"), account, http.StatusForbidden, "deny")
	} else {
		w.expect(t, w.plane.Node("node-1"), account, http.StatusOK, "allow")
	}
	w.expect(t, w.plane.Node("node-2"), account, http.StatusForbidden, "deny")
}
