package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// patched is an approval by a patch, or what somebody says is one.
func patched(body string) with {
	return func(r *Request) { r.Event.Verb, r.Attrs.Verb, r.Event.RequestObject = "patch", "patch", []byte(body) }
}

func withoutBody(r *Request) { r.Event.RequestObject, r.Event.Cut = nil, true }
func unlogged(r *Request)    { r.Event.RequestObject = nil }

// An approval is judged by what the object's other events show of the request: what its own event says of it is the approver's choice, and so is what it leaves out.
//
// Seen to fail where the content is what the approval says, where the signer's event is not looked at, where any user's is, and where what was cut counts as harmless.
func TestApprovalByObject(t *testing.T) {
	const yes = `{"status":{"conditions":[{"type":"Approved","status":"True"}]}}`
	const no = `{"status":{"conditions":[{"type":"Denied","status":"True"}]}}`
	node := kubeletsAsk("worker-2")
	node.user, node.groups, node.cert = "system:serviceaccount:tools:x", []string{"system:authenticated"}, "new"
	private := node
	private.signer, private.cn, private.orgs = "example.com/mesh", "mesh", nil
	odd := kubeletsAsk("worker-2")
	odd.signer = signerClient
	const unknown = `high: user "jane" approved a certificate for CN="system:node:worker-2", O="system:nodes" in place of the controller`
	const unclear = `high: user "jane" approved the certificate request "csr-1" in place of the controller; this event does not show what it is for`
	const isOdd = `critical: user "jane" approved a certificate for CN="system:node:worker-2", O="system:nodes", for which system:bootstrap:abcdef asked, and which is not a kubelet's: signer kubernetes.io/kube-apiserver-client`
	type step struct {
		second int
		what   with
	}
	ask := func(second int, a asking, changes ...with) step {
		return step{second, func(r *Request) {
			for _, c := range append([]with{signing(t, a, "", "csr-1"), code(201)}, changes...) {
				c(r)
			}
		}}
	}
	approves := func(second int, a asking, changes ...with) step {
		return step{second, func(r *Request) {
			for _, c := range append([]with{signing(t, a, "approval", "csr-1"), by("jane")}, changes...) {
				c(r)
			}
		}}
	}
	signs := func(second int, a asking, changes ...with) step {
		return step{second, func(r *Request) {
			for _, c := range append([]with{signing(t, a, "status", "csr-1")}, changes...) {
				c(r)
			}
		}}
	}
	f := func(name string, want []string, steps ...step) {
		t.Helper()
		b := newBirths(t)
		b.options.Bootstrap.Trusted = []string{"ops"}
		b.lives("worker-9", 0, 1200, "X509SHA256=9", "10.0.0.9") // the log advances
		for i, s := range steps {
			b.one(s.second, fmt.Sprint("r", i), s.what)
		}
		all := b.findings(&world{nodes: []string{"worker-9"}})
		for seed := range uint64(2) {
			again := b.run(t, bootstrapImpersonation(), &world{nodes: []string{"worker-9"}}, rand.New(rand.NewPCG(seed, 2)), 7, true)
			if slices.Sort(again); !slices.Equal(again, slices.Sorted(slices.Values(all))) {
				t.Errorf("%s: after a restart %q, want %q", name, again, all)
			}
		}
		var got []string
		for _, line := range all {
			for _, s := range []string{"high: ", "critical: ", "medium: ", "low: "} {
				if i := strings.Index(line, s); i >= 0 {
					line = line[i:]
				}
			}
			got = append(got, line)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	one := func(s string) []string { return []string{s} }
	patch := patched(yes)

	f("a patch, and the creation shows it", one(unknown), ask(300, node), approves(301, node, patch))
	f("a patch, and the signer shows it", one(unknown), approves(301, node, patch), signs(302, node))
	f("a patch, signed much later", one(unknown), approves(301, node, patch), signs(700, node))
	f("a patch of what is not a kubelet's", one(isOdd), ask(300, odd), approves(301, odd, patch))
	f("a patch by who is trusted", nil, ask(300, node), approves(301, node, patch, by("ops")))
	f("a patch of what is not a kubelet's, by who is trusted", one(strings.ReplaceAll(isOdd, "jane", "ops")), ask(300, odd), approves(301, odd, patch, by("ops")))
	f("a patch by an approver of a provider", nil, ask(300, node), approves(301, node, patch, by("system:gcp-controller-manager")))
	f("a patch by a node", nil, ask(300, node), approves(301, node, patch, as("system:node:worker-9", "system:nodes"))) // its own event is critical
	f("a patch that failed", nil, ask(300, node), approves(301, node, patch, code(409)))
	f("a patch that denies", nil, ask(300, node), approves(301, node, patched(no)))
	f("a patch with letters that are escaped", one(unknown), ask(300, node), approves(301, node, patched(strings.Replace(yes, "Approved", `\u0041pproved`, 1))))
	f("a patch that says two things", one(unknown), ask(300, node), approves(301, node, patched(strings.TrimSuffix(yes, "}")+`,"STATUS":{"conditions":[]}}`)))
	f("a patch of another signer's", nil, ask(300, private), approves(301, private, patch))
	f("a patch of which nothing else is in the log", nil, approves(301, private, patch))
	f("a creation without a name, of another signer's", nil, ask(300, private, func(r *Request) { r.Event.ObjectRef.Name = "" }), approves(301, private, patch))

	f("whole", nil, ask(300, node), approves(301, node), signs(302, node)) // its own event is high
	f("whole, and lies", one(unknown), ask(300, node), approves(301, private), signs(302, node))
	f("whole, and lies, and only the signer shows it", one(unknown), approves(301, private), signs(302, node))
	f("whole, says that it is a kubelet's, and it is odd", one(isOdd), ask(300, odd), approves(301, node))
	f("a patch with the whole, which lies", one(unknown), ask(300, node), approves(301, private, func(r *Request) { r.Event.Verb, r.Attrs.Verb = "patch", "patch" }))
	f("a status of somebody, which lies", nil, approves(301, private, patch), signs(302, node, by("jane")))
	f("a name that was used before", one(unknown), ask(200, private), ask(300, node), approves(301, node, patch))

	f("all cut", one(unclear), ask(300, node, withoutBody), approves(301, node, withoutBody), signs(302, node, withoutBody))
	f("all cut but the patch", one(unclear), ask(300, node, withoutBody), approves(301, node, patch), signs(302, node, withoutBody))
	f("cut, and approved by the controller", nil, ask(300, node, withoutBody), approves(301, node, withoutBody, by("system:kube-controller-manager")), signs(302, node, withoutBody))
	f("cut, and the signer shows it", one(unknown), ask(300, node, withoutBody), approves(301, node, patch), signs(302, node))
	f("the approval cut, of another signer's", nil, ask(300, private), approves(301, private, withoutBody))
	f("the approval cut", one(unknown), ask(300, node), approves(301, node, withoutBody))

	f("a log without bodies", nil, ask(300, node, unlogged), approves(301, node, unlogged), signs(302, node, unlogged))
	f("a log without bodies of approvals, which may deny", nil, ask(300, node), approves(301, node, unlogged))
	f("a log without bodies of approvals, and it is signed", one(unknown), ask(300, node), approves(301, node, unlogged), signs(302, node))
	f("a log without bodies of approvals, of another signer's", nil, ask(300, private), approves(301, private, unlogged), signs(302, private))
}

// A certificate that the signer's event hides was signed, as its name tells.
//
// Seen to fail where the signer's event counts only if it is whole.
func TestHiddenSigned(t *testing.T) {
	a := kubeletsAsk("worker-1")
	a.cert = "evil"
	b := newBirths(t)
	b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
	b.one(600, "csr-1", signing(t, a, "", "csr-1"), code(201), from("10.9.9.9"))
	b.one(601, "csr-1-s", signing(t, a, "status", "csr-1"), withoutBody)
	got := b.findings(nil)
	if len(got) != 1 || !strings.Contains(got[0], `critical: user "system:bootstrap:abcdef" got a certificate of node worker-1 while its kubelet was running`) {
		t.Errorf("%q", got)
	}
}

// Nobody's requests, however many they are, make those of others forgotten, and what is stored stays bounded.
func TestSigningObjectsBounded(t *testing.T) {
	m := newSigningObjects()
	a := kubeletsAsk("worker-2")
	see := func(name, user string, at time.Time) {
		r := request(signing(t, a, "", "csr-1"), code(201), by(user))
		s, whole := r.Signing()
		one := *s
		one.Name = name
		r.Time = at
		m.see(r, &one, whole, nil)
	}
	start := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	see("csr-of-jane", "jane", start)
	for i := range 2 * maxSigningObjects {
		see(fmt.Sprint("csr-", i), "flood", start.Add(time.Duration(i)*time.Second))
	}
	if m.of["csr-of-jane"] == nil || len(m.of) > maxSigningObjects || len(m.slots.used) != len(m.of) {
		t.Errorf("%d objects, %d slots, jane's %v", len(m.of), len(m.slots.used), m.of["csr-of-jane"])
	}
	stored := newSigningObjects()
	for _, r := range m.changes(nil) {
		if err := stored.restore(&r); err != nil {
			t.Fatal(err)
		}
	}
	if len(stored.of) != len(m.of) {
		t.Errorf("%d restored of %d", len(stored.of), len(m.of))
	}
	m.forget(start.Add(365 * 24 * time.Hour))
	if len(m.of) != 0 || len(m.slots.used) != 0 {
		t.Errorf("%d objects are left", len(m.of))
	}
}
