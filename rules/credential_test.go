package rules

import (
	"fmt"
	"strings"
	"testing"
)

// story tells one Memory of requests in their order.
type story struct {
	t *testing.T
	s State
	m *Memory
}

func (s story) f(name, want string, changes ...with) {
	s.t.Helper()
	if got := check(s.t, nodeCredentialMisuse(), s.s, s.m, request(changes...)); got != want {
		s.t.Errorf("%s:\n got %q\nwant %q", name, got, want)
	}
}

func newStory(t *testing.T, s State) story { return story{t, s, NewMemory()} }

func node(name string) with { return as("system:node:"+name, "system:nodes") }

func TestClient(t *testing.T) {
	s := newStory(t, nil)
	s.m.Kubelets = []string{"mykubelet"}
	for _, ua := range []string{
		"kubelet/v1.36.3 (linux/amd64) kubernetes/0000000", "kubelet", "hollow-kubelet/v1.36", "k3s/v1.36.3+k3s1 (linux/amd64)", "rke2/v1",
		"kubelite/v1", "k0s/v1", "hyperkube/v1.18", "mykubelet/1",
	} {
		s.f(ua, "", agent(ua))
	}
	for ua, product := range map[string]string{
		"calico-node/v3.20.0": "calico-node", "curl/8.5.0": "curl", "": "", "Kubelet/v1": "Kubelet", "kubelets/v1": "kubelets",
		"Mozilla/5.0 (X11) kubelet/v1": "Mozilla", " kubelet/v1": "", "kubectl/v1.36 (linux) kubernetes/x": "kubectl", "go-http-client/2.0": "go-http-client",
	} {
		s.f(ua, fmt.Sprintf("high: the credential of node worker-1 is used by %q, which is no kubelet", product), agent(ua))
	}
	s.f("not a node", "", as("calico", "system:nodes"), agent("calico-node/v3"))
	s.f("a node without a name", "", as("system:node:", "system:nodes"), agent("calico-node/v3"))
	s.f("without the group", "", as("system:node:worker-1"), agent("calico-node/v3"))
}

func TestSecondAddress(t *testing.T) {
	const second = "high: the credential of node worker-1 is used from 10.0.0.2, before that from 10.0.0.1"

	s := newStory(t, nil)
	s.f("first", "", from("10.0.0.1"))
	s.f("again", "", from("10.0.0.1"), when(1))
	s.f("IPv6 beside it", "", from("2001:db8::1"), when(2))
	s.f("IPv4 in IPv6", "", from("::ffff:10.0.0.1"), when(3))
	s.f("second", second, from("10.0.0.2"), when(4))
	s.f("the first still counts", "", from("10.0.0.1"), when(5))
	s.f("second again", second, from("10.0.0.2"), when(6))
	s.f("second, IPv4 in IPv6", second, from("::ffff:10.0.0.2"), when(7))
	s.f("second of IPv6", "high: the credential of node worker-1 is used from 2001:db8::2, before that from 2001:db8::1", from("2001:db8::2"), when(8))
	s.f("the same in other words", "", from("2001:0DB8:0:0::1"), when(9))
	s.f("another node", "", node("worker-2"), from("10.0.0.2"))

	// The client's claims come first in the list, the connection's own address last.
	s.f("the last counts", "", from("192.0.2.1", "10.0.0.2", "10.0.0.1"), when(10))
	s.f("the last is another", second, from("10.0.0.1", "10.0.0.2"), when(11))
	s.f("none", "", from(), when(12))
	s.f("no address", "", from("not an address"), when(13))
	s.f("a claim is no address", "", from("\x1b[2J", "10.0.0.1"), when(14))
	s.f("a zone is text", "high: the credential of node worker-1 is used from fe80::1, before that from 2001:db8::1", from("fe80::1%\x1b[2J"), when(15))

	// What is another program's is not held against the kubelet's address.
	s = newStory(t, nil)
	s.f("a rider, elsewhere", `high: the credential of node worker-1 is used by "curl", which is no kubelet`, agent("curl/8"), from("10.0.0.9"))
	s.f("the kubelet", "", from("10.0.0.1"), when(1))
}

func TestRecreatedNode(t *testing.T) {
	s := newStory(t, &world{created: map[string]int{"worker-1": 100}})
	s.f("first", "", from("10.0.0.1"))
	s.f("another address before", "high: the credential of node worker-1 is used from 10.0.0.2, before that from 10.0.0.1", from("10.0.0.2"), when(50))
	s.f("still there", "", from("10.0.0.1"), when(60))
	s.f("created anew", "", from("10.0.0.2"), when(101))
	s.f("the new address", "", from("10.0.0.2"), when(102))
	s.f("an earlier request that the log has late", "", from("10.0.0.1"), when(61))
	s.f("the old address afterwards", "high: the credential of node worker-1 is used from 10.0.0.1, before that from 10.0.0.2", from("10.0.0.1"), when(103))
	s.f("which does not push the new one out", "", from("10.0.0.2"), when(104))
}

func TestSharedCertificate(t *testing.T) {
	s := newStory(t, nil)
	s.f("worker-1", "", certificate("X509SHA256=aa"))
	s.f("worker-1 again", "", certificate("X509SHA256=aa"))
	s.f("worker-2 with its own", "", node("worker-2"), certificate("X509SHA256=bb"))
	s.f("worker-1 after rotation", "", certificate("X509SHA256=cc"))
	s.f("none", "", node("worker-2"))
	s.f("worker-2 with the first's", "high: node worker-2 uses the client certificate that node worker-1 has used",
		node("worker-2"), certificate("X509SHA256=aa"))
	s.f("that comes before the client", "high: node worker-2 uses the client certificate that node worker-1 has used",
		node("worker-2"), certificate("X509SHA256=aa"), agent("curl/8"), from("10.0.0.9"))
}

func TestImpersonation(t *testing.T) {
	s := newStory(t, nil)
	s.f("kubectl --as", `high: user "admin" impersonates node worker-1 with client "kubectl"`,
		certificate("X509SHA256=aa"), agent("kubectl/v1"), from("192.0.2.7"), impersonated)
	s.f("with a kubelet's user agent", `high: user "admin" impersonates node worker-2 with client "kubelet"`,
		node("worker-2"), certificate("X509SHA256=aa"), from("192.0.2.7"), impersonated)
	s.f("nothing was learned of the address", "", from("10.0.0.1"))
	s.f("nor of the certificate", "", node("worker-3"), certificate("X509SHA256=admin"))
	s.f("somebody else is impersonated", "", as("jane"), agent("kubectl/v1"), impersonated)
}

// A hostile client makes up names and certificates without end.
func TestMemoryIsBounded(t *testing.T) {
	m, rule := NewMemory(), nodeCredentialMisuse()
	r := request()
	for i := range 300_000 {
		r.Node = fmt.Sprintf("ghost-%d", i)
		r.Event.User.CredentialID = fmt.Sprintf("X509SHA256=%d", i)
		if f, found := rule.Check(r, nil, m); found {
			t.Fatalf("request %d: %+v", i, f)
		}
	}
	if n := len(m.nodes.young) + len(m.nodes.old); n < MaxNodes || n > 2*MaxNodes {
		t.Errorf("%d nodes are remembered, want %d to %d", n, MaxNodes, 2*MaxNodes)
	}
	if n := len(m.certs.young) + len(m.certs.old); n < 4*MaxNodes || n > 8*MaxNodes {
		t.Errorf("%d certificates are remembered, want %d to %d", n, 4*MaxNodes, 8*MaxNodes)
	}
	for name, id := range map[string]string{strings.Repeat("x", 1<<20): "X509SHA256=x", "worker-1": strings.Repeat("y", 1<<20)} {
		r.Node, r.Event.User.CredentialID = name, id
		rule.Check(r, nil, m)
		if m.nodes.get(strings.Repeat("x", 1<<20)) != nil || m.certs.get(strings.Repeat("y", 1<<20)) != nil {
			t.Errorf("a name of a megabyte is remembered")
		}
	}
}

// Nodes that are in use are not forgotten for those that come and go.
func TestMemoryKeepsWhatIsUsed(t *testing.T) {
	m, rule := NewMemory(), nodeCredentialMisuse()
	stays := request(node("worker-1"), from("10.0.0.1"), certificate("X509SHA256=aa"))
	passes := request(from("10.0.0.3"))
	for i := range 5 * MaxNodes {
		if i%(MaxNodes/2) == 0 {
			rule.Check(stays, nil, m)
		}
		passes.Node = fmt.Sprintf("spot-%d", i)
		rule.Check(passes, nil, m)
	}
	if got := check(t, rule, nil, m, request(node("worker-1"), from("10.0.0.2"))); got == "" {
		t.Error("the first address of worker-1 was forgotten")
	}
}

// What is remembered must not alias the event, whose memory is used again.
func TestMemoryOwnsItsStrings(t *testing.T) {
	name, id := []byte("worker-1"), []byte("X509SHA256=aa")
	m, rule := NewMemory(), nodeCredentialMisuse()
	r := request(func(r *Request) { r.Node, r.Event.User.CredentialID = alias(name), alias(id) })
	rule.Check(r, nil, m)
	copy(name, "xxxxxxxx")
	copy(id, "xxxxxxxxxxxxx")
	got := check(t, rule, nil, m, request(node("worker-2"), certificate("X509SHA256=aa")))
	if want := "high: node worker-2 uses the client certificate that node worker-1 has used"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if m.nodes.get("worker-1") == nil {
		t.Error("worker-1 is not remembered")
	}
}
