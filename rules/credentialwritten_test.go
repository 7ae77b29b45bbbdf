package rules

import (
	"testing"
)

// What the Node authorizer and NodeRestriction allow, and no kubelet of any supported version writes, is a finding where the body or the namespace shows it.
// Evictions and the deletion of the Lease of its Node are such writes, too.
//
// Seen to fail where k0s may not evict, where an eviction of another node's pod is found here, too, and where any write of a Lease is one.
func TestOddWritesCarriedOut(t *testing.T) {
	w := &world{
		nodes: []string{"worker-1", "worker-2"}, ended: map[string]int{},
		pods: map[string]string{"shop/own": "worker-1", "default/worker-2": "worker-1", "vault/vault-0": "worker-2"},
	}
	f := func(name string, want Reason, what string, changes ...with) {
		t.Helper()
		misused(t, w, name, want, what, append([]with{code(200)}, changes...)...)
	}
	body := func(b string) with { return func(r *Request) { r.Event.RequestObject = []byte(b) } }
	named := func(name string) with { return func(r *Request) { r.Event.ObjectRef.Name = name } }
	unnamed := func(r *Request) { r.Unnamed = true }
	dry := func(r *Request) { r.Event.RequestURI = "/api/v1/x?dryRun=All" }

	f("of another's pod", OddWrite, "patch events vault/vault-0.18a1b2c3d4e5f607")
	f("of another's pod, created", OddWrite, "create events vault/", named("vault-0.18a1b2c3d4e5f607"), code(201))
	f("of another's pod, in the other group", OddWrite, "patch events.events.k8s.io vault/vault-0.18a1b2c3d4e5f607")
	f("of another group", "", "patch events.example.com vault/vault-0.18a1b2c3d4e5f607")
	f("of no name", "", "create events vault/", code(201))
	f("of a long name", "", "patch events vault/0b6a3c1e-5f0d-4f3e-9d8c-1f2e3d4c5b6a")
	f("of another's pod, refused", "", "patch events vault/vault-0.18a1b2c3d4e5f607", code(404))
	f("of another's pod, a trial", "", "patch events vault/vault-0.18a1b2c3d4e5f607", dry)
	f("of a log without user agents", "", "patch events vault/vault-0.18a1b2c3d4e5f607", unnamed)
	f("of its pod", "", "create events shop/", named("own.18a1b2c3d4e5f607"), code(201))
	f("of a claim next to its pod", "", "create events shop/", named("data.18a1b2c3d4e5f607"), code(201))
	f("of its Node", "", "patch events default/worker-1.18a1b2c3d4e5f607")
	f("of another Node", OddWrite, "patch events default/worker-2.18a1b2c3d4e5f607", func(*Request) { delete(w.pods, "default/worker-2") })
	w.pods["default/worker-2"] = "worker-1"
	f("of its pod with another Node's name", "", "patch events default/worker-2.18a1b2c3d4e5f607")
	f("of a pod that the state does not have", "", "patch events default/gone.18a1b2c3d4e5f607")
	w.nodes = w.nodes[1:]
	f("by a kubelet whose Node has another name", "", "patch events vault/vault-0.18a1b2c3d4e5f607")
	w.nodes = []string{"worker-1", "worker-2"}

	for _, b := range []string{
		`{"spec":{"unschedulable":null}}`, `{"spec":{"unschedulable":false}}`, `{"spec":{"taints":[]}}`, `[{"op":"remove","path":"/spec/unschedulable"}]`, ` [{"op":"replace","path":"/spec","value":{}}]`,
		`{"metadata":{"annotations":{"a":"b"}},"spec":{"taints":null}}`,
	} {
		f(b, OddWrite, "patch nodes worker-1", body(b))
		f("kubeadm: "+b, OddWrite, "patch nodes worker-1", body(b), agent("kubeadm/v1.36"))
		f("k0s: "+b, "", "patch nodes worker-1", body(b), agent("k0s/v1.36"))
		f("of a log without user agents: "+b, "", "patch nodes worker-1", body(b), unnamed)
		f("status: "+b, "", "patch nodes/status worker-1", body(b))
	}
	for _, b := range []string{
		``, `null`, `{}`, `{"spec":{}}`, `{"spec":null}`, `{"metadata":{"labels":{"spec":"x"}}}`, `{"status":{"phase":"Running"}}`, `[{"op":"add","path":"/metadata/annotations/spec","value":"x"}]`,
		`[{"op":"test","path":"/spec/unschedulable","value":true}]`, `[{"op":"add","path":"/specification"}]`, `{"spec":`, `[1]`,
	} {
		f("of nothing in the spec: "+b, "", "patch nodes worker-1", body(b), agent("k3s/v1.36"))
		f("by a kubelet, which patches the status: "+b, OddWrite, "patch nodes worker-1", body(b))
		f("of the status: "+b, "", "patch nodes/status worker-1", body(b))
	}
	f("by a kubelet, of a log without bodies", OddWrite, "patch nodes worker-1")
	for b, want := range map[string]Reason{
		`{"metadata":{"labels":{"disk":"ssd"}}}`: OddWrite, `[{"op":"add","path":"/metadata/labels/disk","value":"ssd"}]`: OddWrite, `[{"op":"add","path":"/metadata","value":{}}]`: OddWrite,
		`{"metadata":{"annotations":{"kubeadm.alpha.kubernetes.io/cri-socket":"unix:///run/x"}}}`: "", `[{"op":"add","path":"/metadata/labelled","value":{}}]`: "", `{"metadata":[]}`: "",
	} {
		f("kubeadm: "+b, want, "patch nodes worker-1", body(b), agent("kubeadm/v1.36"))
	}
	f("whole", OddWrite, "update nodes worker-1")
	f("whole, by k3s", "", "update nodes worker-1", agent("k3s/v1.36"))
	f("at creation", "", "create nodes worker-1", body(`{"spec":{"unschedulable":true}}`), code(201))

	pod := func(spec string) with {
		return body(`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"}},"spec":` + spec + `}`)
	}
	for spec, want := range map[string]Reason{
		`{"volumes":[{"name":"d","ephemeral":{"volumeClaimTemplate":{}}}]}`:                        OddWrite,
		`{"volumes":[{"name":"d","projected":{"sources":[{"serviceAccountToken":{}}]}}]}`:          OddWrite,
		`{"volumes":[{"name":"d","projected":{"sources":[{"podCertificate":{}}]}}]}`:               OddWrite,
		`{"resourceClaims":[{"name":"gpu"}]}`:                                                      OddWrite,
		`{"volumes":[{"name":"d","hostPath":{"path":"/etc"}},{"name":"e","emptyDir":{}}]}`:         "",
		`{"volumes":[{"name":"d","csi":{"driver":"x"}}]}`:                                          "",
		`{"volumes":[{"name":"d","projected":{"sources":[{"downwardAPI":{}}]}},{"name":"other"}]}`: "",
		`{"containers":[{"name":"c"}]}`:                                                            "",
	} {
		f(spec, want, "create pods shop/", pod(spec), code(201))
		f("refused: "+spec, "", "create pods shop/", pod(spec), code(409))
	}
	f("without a body", "", "create pods shop/", code(201))
	f("deleted", "", "delete pods shop/own", pod(`{"resourceClaims":[{}]}`))

	f("an eviction", OddWrite, "create pods/eviction shop/own", code(201))
	f("an eviction of a pod that is gone", OddWrite, "create pods/eviction shop/gone", code(201))
	f("an eviction by k3s", OddWrite, "create pods/eviction shop/own", code(201), agent("k3s/v1.36"))
	f("an eviction by k0s", "", "create pods/eviction shop/own", code(201), agent("k0s/v1.36"))
	f("an eviction of another's pod", "", "create pods/eviction vault/vault-0", code(201))
	f("an eviction that a budget delays", "", "create pods/eviction shop/own", code(429))
	f("a trial of an eviction", "", "create pods/eviction shop/own", code(201), dry)
	f("an eviction in a log without user agents", "", "create pods/eviction shop/own", code(201), unnamed)
	f("the status of a pod", "", "patch pods/status shop/own")

	f("its Lease", OddWrite, "delete leases.coordination.k8s.io kube-node-lease/worker-1")
	f("another's Lease", "", "delete leases.coordination.k8s.io kube-node-lease/worker-2")
	f("a renewal", "", "update leases.coordination.k8s.io kube-node-lease/worker-1")
	f("a patch of its Lease", "", "patch leases.coordination.k8s.io kube-node-lease/worker-1")
	f("its Lease, which is gone", "", "delete leases.coordination.k8s.io kube-node-lease/worker-1", code(404))
	f("a Lease of another group", "", "delete leases.example.com kube-node-lease/worker-1")
}
