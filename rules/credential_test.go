package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/effort"
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
		"kubelite/v1", "k0s/v1", "microshift/v0.0.0 (linux/amd64) kubernetes/$Format", "hyperkube/v1.18", "mykubelet/1", "rke2.exe/v1", "mykubelet.exe/1",
	} {
		s.f(ua, "", agent(ua))
	}
	for ua, product := range map[string]string{
		"calico-node/v3.20.0": "calico-node", "curl/8.5.0": "curl", "": "", "Kubelet/v1": "Kubelet", "kubelets/v1": "kubelets", "microshift-etcd/v1": "microshift-etcd",
		"Mozilla/5.0 (X11) kubelet/v1": "Mozilla", " kubelet/v1": "", "kubectl/v1.36 (linux) kubernetes/x": "kubectl", "go-http-client/2.0": "go-http-client",
	} {
		s.f(ua, fmt.Sprintf("high: the credential of node worker-1 is used by %q, which is no kubelet", product), agent(ua))
	}
	upgrading := agent("kubeadm/v1.36.4 (linux/amd64) kubernetes/abc")
	for _, of := range []string{"get configmaps kube-system/kubeadm-config", "get configmaps kube-system/kubelet-config", "get configmaps kube-system/kube-proxy", "get nodes worker-1", "patch nodes worker-1",
		"create selfsubjectreviews.authentication.k8s.io", "get /version", "get /healthz"} {
		s.f("an upgrade by kubeadm", "", upgrading, does(of))
		s.f("an upgrade by kubeadm on Windows", "", agent("kubeadm.exe/v1.36.4"), does(of))
	}
	for _, of := range []string{"get configmaps kube-system/coredns", "get nodes worker-2", "patch nodes worker-1/status", "list nodes", "create selfsubjectrulesreviews.authorization.k8s.io", "get /metrics", "post /version"} {
		s.f("no upgrade by kubeadm", `high: the credential of node worker-1 is used by "kubeadm", which is no kubelet`, upgrading, does(of))
	}
	s.f("not a node", "", as("calico", "system:nodes"), agent("calico-node/v3"))
	s.f("a node without a name", "", as("system:node:", "system:nodes"), agent("calico-node/v3"))
	s.f("without the group", "", as("system:node:worker-1"), agent("calico-node/v3"))
}

func TestImpersonation(t *testing.T) {
	s := newStory(t, nil)
	s.f("kubectl --as", `high: user "admin" impersonates node worker-1 with client "kubectl"`,
		certificate("X509SHA256=aa"), agent("kubectl/v1"), from("192.0.2.7"), impersonated)
	s.f("with a kubelet's user agent", `high: user "admin" impersonates node worker-2 with client "kubelet"`,
		node("worker-2"), certificate("X509SHA256=aa"), from("192.0.2.7"), impersonated)
	s.f("somebody else is impersonated", "", as("jane"), agent("kubectl/v1"), impersonated)

	const account = "system:serviceaccount:shop:agent"
	by := func(user, constraint string) with {
		return func(r *Request) {
			r.Event.Impersonated, r.Event.IsImpersonated, r.Event.Constraint = r.Event.User, true, constraint
			r.Event.User = audit.User{Username: user}
		}
	}
	s.f("its own node, by constrained impersonation", "", agent("agent/v1"), by(account, "impersonate:associated-node"))
	s.f("its own node, with a kubelet's user agent", "", by(account, "impersonate:associated-node"))
	s.f("by the old verb", `high: user "system:serviceaccount:shop:agent" impersonates node worker-1 with client "agent"`, agent("agent/v1"), by(account, ""))
	s.f("any node, by constrained impersonation", `high: user "system:serviceaccount:shop:agent" impersonates node worker-1 with client "agent"`, agent("agent/v1"), by(account, "impersonate:arbitrary-node"))
	s.f("by somebody who has no node", `high: user "jane" impersonates node worker-1 with client "agent"`, agent("agent/v1"), by("jane", "impersonate:associated-node"))

	refused := func(user, message string, code int32) with {
		return func(r *Request) {
			r.Event.User, r.Event.Code, r.Event.StatusMessage = audit.User{Username: user}, code, message
			r.Node, r.IsNode = "", false
		}
	}
	const old = `users "system:node:worker-2" is forbidden: User "` + account + `" cannot impersonate resource "users" in API group "" at the cluster scope`
	s.f("refused by the old verb", `medium: user "system:serviceaccount:shop:agent" tried to impersonate node worker-2 with client "agent" and was refused`, agent("agent/v1"), refused(account, old, 403))
	s.f("refused for any node", `medium: user "system:serviceaccount:shop:agent" tried to impersonate node worker-2 with client "kubelet" and was refused`, refused(account,
		`nodes.authentication.k8s.io "worker-2" is forbidden: User "`+account+`" cannot impersonate:arbitrary-node resource "nodes" in API group "authentication.k8s.io"`, 403))
	s.f("refused for its own node", `medium: user "system:serviceaccount:shop:agent" tried to impersonate a node with client "kubelet" and was refused`, refused(account,
		`nodes.authentication.k8s.io "*" is forbidden: User "`+account+`" cannot impersonate:associated-node resource "nodes" in API group "authentication.k8s.io"`, 403))
	s.f("refused before the node is looked at, as since 1.36", `medium: user "system:serviceaccount:shop:agent" tried to impersonate a node with client "agent" and was refused`,
		agent("agent/v1"), refused(account, `secrets "db" is forbidden: User "`+account+`" cannot impersonate-on:arbitrary-node:get resource "secrets" in API group "" in the namespace "shop"`, 403))
	s.f("refused to impersonate a user, as since 1.36", "", agent("kubectl/v1"), refused("jane",
		`secrets "db" is forbidden: User "jane" cannot impersonate-on:user-info:get resource "secrets" in API group "" in the namespace "shop"`, 403))
	s.f("a name that the message quotes", `medium: user "a\"<b>" tried to impersonate node worker-2 with client "kubelet" and was refused`, refused(`a"<b>`,
		`users "system:node:worker-2" is forbidden: User "a\"&lt;b&gt;" cannot impersonate resource "users" in API group "" at the cluster scope`, 403))
	s.f("another's message", "", as("jane"), agent("kubectl/v1"), refused("jane", old, 403))
	s.f("not refused", "", as("jane"), agent("kubectl/v1"), refused(account, old, 200))
	s.f("refused to impersonate a user", "", agent("kubectl/v1"), refused("jane",
		`users "joe" is forbidden: User "jane" cannot impersonate resource "users" in API group "" at the cluster scope`, 403))
}

// comes is a kubelet at an address.
func comes(address string) with { return from(address) }

// Each address of a swap is used by two nodes, as one of a gateway is.
func TestAttack09TwoNodesSwapAddresses(t *testing.T) {
	for _, nodes := range []int{2, 3, 20} {
		p := &tale{}
		p.kubelets(nodes, 0, hour, 10, nil, home)
		for s := 10 * minute; s < 50*minute; s += 7 {
			p.one(s, "worker-1", comes("10.0.0.2"))
			p.one(s, "worker-2", comes("10.0.0.1"))
		}
		found := strings.Join(p.detects(t, nodeCredentialMisuse(), nil), "\n")
		for _, want := range []string{"worker-1 is used from 10.0.0.2", "worker-2 is used from 10.0.0.1"} {
			if !strings.Contains(found, want) {
				t.Errorf("of %d nodes: no finding says %q: %.300s", nodes, want, found)
			}
		}
	}
}

func TestCredentialFires(t *testing.T) {
	const high, medium = "high: the credential of node worker-1 is used from ", "medium: the credential of node worker-1 is used in turn from "
	for _, c := range []struct {
		name string
		play func(p *tale)
		want []string
	}{
		{"one read from elsewhere", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			p.one(30*minute+15, "worker-1", comes("203.0.113.9"))
		}, []string{"32:00 " + high + "203.0.113.9 while it is in use from 10.0.0.1"}},
		{"one read an hour", func(p *tale) {
			p.kubelets(3, 0, 6*hour, 10, nil, home)
			for s := 10 * minute; s < 6*hour; s += hour {
				p.one(s, "worker-1", comes("203.0.113.9"))
			}
		}, slices.Repeat([]string{high + "203.0.113.9"}, 6)},
		{"ten minutes of reads", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			for s := 10*minute + 30; s < 20*minute; s += 7 {
				p.one(s, "worker-1", comes("203.0.113.9"))
			}
		}, slices.Repeat([]string{high + "203.0.113.9"}, 10)},
		{"from another node's address", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			p.one(30*minute+15, "worker-1", comes("10.0.0.2"))
		}, []string{high + "10.0.0.2 while it is in use from 10.0.0.1"}},
		{"by IPv6 next to IPv6", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, comes("fd00::1%eth0"))
			p.kubelets(3, 0, hour, 10, nil, home)
			p.requests = slices.DeleteFunc(p.requests, func(r *Request) bool { return r.Node != "worker-1" })
			p.one(30*minute, "worker-1", comes("2001:db8::9"))
		}, []string{high + "2001:db8::9 while it is in use from fd00::1"}},
		{"the intruder comes first in the log", func(p *tale) {
			p.one(0, "worker-1", comes("203.0.113.9"))
			p.one(70, "worker-1", comes("203.0.113.9"))
			p.kubelets(3, 1, hour, 10, nil, home)
		}, []string{high + "10.0.0.1 while it is in use from 203.0.113.9"}},
		{"after a move, from the old address", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, moved(30*minute))
			p.one(50*minute, "worker-1", comes("10.0.0.1"))
		}, []string{high + "10.0.1.1 while it is in use from 10.0.0.1"}},
		{"from ever new addresses", func(p *tale) {
			p.kubelets(3, 0, 20*minute, 10, nil, home)
			for s := 10 * minute; s < 12*minute; s++ {
				p.one(s, "worker-1", comes(fmt.Sprintf("203.0.113.%d", s%200)))
			}
		}, []string{high + "203.0.113.0", high + "203.0.113.1", high + "203.0.113.2"}},
		{"two nodes, from one place", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			p.one(30*minute, "worker-1", comes("203.0.113.9"))
			p.one(40*minute, "worker-2", comes("203.0.113.9"))
		}, []string{high + "203.0.113.9", "high: the credential of node worker-2 is used from 203.0.113.9"}},
		{"two nodes swap addresses", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			p.one(30*minute, "worker-1", comes("10.0.0.2"))
			p.one(30*minute, "worker-2", comes("10.0.0.1"))
			p.one(40*minute, "worker-1", comes("10.0.0.2"))
			p.one(40*minute, "worker-2", comes("10.0.0.1"))
		}, slices.Repeat([]string{high + "10.0.0.2", "high: the credential of node worker-2 is used from 10.0.0.1"}, 2)},
		{"a secret read by another program, from elsewhere", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			p.one(30*minute+15, "worker-1", comes("203.0.113.9"), agent("curl/8.5.0"), does("get secrets shop/db"))
			p.one(40*minute+15, "worker-1", comes("10.0.0.1"), agent("curl/8.5.0"), does("get secrets shop/db"))
		}, []string{high + "203.0.113.9 while it is in use from 10.0.0.1"}},
		{"a token made by nobody by name, from elsewhere", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nil, home)
			p.one(30*minute+15, "worker-1", comes("203.0.113.9"), agent(""), does("create serviceaccounts/token shop/web"))
		}, []string{high + "203.0.113.9 while it is in use from 10.0.0.1"}},
		{"in turn, where leases are not logged", func(p *tale) {
			for i := range 12 {
				p.one(i*5*minute, "worker-1", comes([]string{"10.0.0.1", "203.0.113.9"}[i%2]))
			}
		}, append([]string{medium + "10.0.0.1 and 203.0.113.9, 4 times in an hour"}, slices.Repeat([]string{medium}, 7)...)},
		{"a copy of the certificate from before its rotation", func(p *tale) {
			p.kubelets(3, 0, 2*hour, 10, nil, home, rotated(hour))
			p.one(90*minute, "worker-1", home, certificate("X509SHA256=old-worker-1"))
		}, []string{"high: two client certificates of node worker-1 are in use at once: the new one since 2026-11-21T07:00:07Z, the old one still at 2026-11-21T07:30:00Z; this is not a rotation"}},
		{"two certificates for an hour", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home, certificate("X509SHA256=a"))
			p.kubelets(1, 5, hour, 10, nil, home, certificate("X509SHA256=b"))
		}, append([]string{"high: two client certificates of node worker-1"}, slices.Repeat([]string{"high: two client certificates"}, 49)...)},
		{"a second certificate for nine minutes", func(p *tale) {
			p.kubelets(3, 0, 6*hour, 10, nil, home, certificate("X509SHA256=a"))
			p.requests = slices.DeleteFunc(p.requests, func(r *Request) bool { return r.Node != "worker-1" })
			for s := hour; s < hour+9*minute; s += minute {
				p.one(s, "worker-1", home, certificate("JTI=b"))
			}
		}, []string{"07:12:00 high: two client certificates of node worker-1"}},
		{"a second certificate for one request, twice", func(p *tale) {
			p.kubelets(1, 0, 3*hour, 10, nil, home, certificate("X509SHA256=a"))
			p.one(hour, "worker-1", home, certificate("X509SHA256=b"))
			p.one(2*hour, "worker-1", home, certificate("X509SHA256=b"))
		}, []string{"07:12:00 high: two client certificates of node worker-1", "08:02:00 high: two client certificates of node worker-1"}},
		{"one certificate for two nodes", func(p *tale) {
			p.kubelets(1, 0, 10*minute, 10, nil, certificate("X509SHA256=a"))
			p.one(5*minute, "worker-2", certificate("X509SHA256=a"))
		}, []string{"06:00 high: node worker-2 uses the client certificate that node worker-1 has used"}},
		{"the earlier one is the owner, whoever is seen first", func(p *tale) {
			p.one(31, "worker-1", certificate("X509SHA256=a"))
			p.one(30, "worker-2", certificate("X509SHA256=a"))
		}, []string{"01:00 high: node worker-1 uses the client certificate that node worker-2 has used"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &tale{}
			c.play(p)
			p.wants(t, nodeCredentialMisuse(), nil, c.want)
		})
	}
}

// TestCredentialMoves is about addresses that the state knows.
func TestCredentialMoves(t *testing.T) {
	const medium = "medium: the credential of node worker-1 is now used from 203.0.113.9, which its Node had not had for ten minutes, and no longer from 10.0.0.1"
	w := cluster(6)
	w.addresses = map[string][]string{"worker-1": {"10.0.0.1", "worker-1"}, "worker-2": {"10.0.0.2", "10.0.1.2"}, "worker-3": {"192.0.2.3"}}
	stolen := func(p *tale, from, to int) {
		for s := from; s < to; s += 20 {
			p.one(s, "worker-1", comes("203.0.113.9"))
		}
	}
	for _, c := range []struct {
		name string
		s    State
		play func(p *tale)
		want []string
	}{
		{"somebody continues where the kubelet ended", w, func(p *tale) {
			p.kubelets(2, 0, hour, 10, nodesWithin(20*minute, hour, 1), home)
			stolen(p, 25*minute, 37*minute)
		}, slices.Repeat([]string{medium}, 2)},
		{"for less than ten minutes", w, func(p *tale) {
			p.kubelets(2, 0, hour, 10, nodesWithin(20*minute, hour, 1), home)
			stolen(p, 25*minute, 35*minute)
		}, nil},
		{"without a state", nil, func(p *tale) {
			p.kubelets(2, 0, hour, 10, nodesWithin(20*minute, hour, 1), home)
			stolen(p, 25*minute, 37*minute)
		}, nil},
		{"a new address of the Node, and a kubelet behind a gateway that changes", w, func(p *tale) { p.kubelets(3, 0, hour, 10, within(0, 1), moved(30*minute)) }, []string{
			"medium: the credential of node worker-1 is now used from 10.0.1.1, which its Node had not had for ten minutes, and no longer from 10.0.0.1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &tale{}
			c.play(p)
			got := p.detects(t, nodeCredentialMisuse(), c.s)
			if len(got) < len(c.want) || len(c.want) == 0 && len(got) > 0 {
				t.Fatalf("%q", got)
			}
			for i := range got {
				if want := c.want[min(i, len(c.want)-1)]; !strings.Contains(got[i], want) {
					t.Errorf("%q, want %q", got[i], want)
				}
			}
		})
	}
}

// home is a node's own address: 10.0.0.N for worker-N.
func home(r *Request) { from("10.0.0." + strings.TrimPrefix(r.Node, "worker-"))(r) }

// moved is that until a second, then 10.0.1.N.
func moved(second int) with {
	return func(r *Request) {
		if home(r); !r.Time.Before(at(second)) {
			from("10.0.1." + strings.TrimPrefix(r.Node, "worker-"))(r)
		}
	}
}

// rotated is a certificate that is renewed.
func rotated(second int) with {
	return func(r *Request) {
		certificate("X509SHA256=old-" + r.Node)(r)
		if !r.Time.Before(at(second)) {
			certificate("X509SHA256=new-" + r.Node)(r)
		}
	}
}

func TestCredentialNearMisses(t *testing.T) {
	for i, c := range []struct {
		name string
		play func(p *tale)
	}{
		{"each node at its address", func(p *tale) { p.kubelets(6, 0, hour, 10, nil, home) }},
		{"IPv4 and IPv6 side by side", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home)
			p.kubelets(1, 3, hour, 10, nil, comes("fd00::1"))
		}},
		{"IPv4 in IPv6", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home)
			p.kubelets(1, 3, hour, 10, nil, comes("::ffff:10.0.0.1"))
		}},
		{"claims before the last address", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home)
			p.kubelets(1, 3, hour, 10, nil, from("203.0.113.9", "10.0.0.1"))
		}},
		{"what is no address", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home)
			p.kubelets(1, 3, hour, 10, nil, from("not an address"))
			p.kubelets(1, 6, hour, 10, nil, from())
		}},
		{"a new lease of DHCP", func(p *tale) { p.kubelets(6, 0, hour, 10, nil, moved(30*minute+25)) }},
		{"after a reboot of five minutes", func(p *tale) {
			p.kubelets(6, 0, hour, 10, within(30*minute, 35*minute), moved(35*minute))
		}},
		{"and back again an hour later", func(p *tale) {
			p.kubelets(1, 0, 3*hour, 10, nil, func(r *Request) {
				if home(r); !r.Time.Before(at(hour)) && r.Time.Before(at(2*hour)) {
					comes("10.0.1.1")(r)
				}
			})
		}},
		{"a gateway fails over for two minutes", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, func(r *Request) {
				if home(r); !r.Time.Before(at(30*minute)) && r.Time.Before(at(32*minute)) {
					comes("198.51.100.2")(r)
				}
			})
		}},
		{"one proxy for all", func(p *tale) { p.kubelets(6, 0, hour, 10, nil, comes("192.0.2.1")) }},
		{"a gateway with two addresses, in turn", func(p *tale) {
			p.kubelets(6, 0, hour, 10, nil, func(r *Request) { comes([]string{"198.51.100.1", "198.51.100.2"}[r.Time.Second()/10%2])(r) })
		}},
		{"a load balancer of four", func(p *tale) {
			p.kubelets(40, 0, 20*minute, 10, nil, func(r *Request) { from(fmt.Sprintf("192.0.2.%d", (r.Time.Second()*7+len(r.Node)*3)%4))(r) })
		}},
		{"a node made anew under its name", func(p *tale) {
			p.kubelets(3, 0, hour, 10, nodesWithin(20*minute, 22*minute, 1), func(r *Request) {
				if home(r); r.Node == "worker-1" && !r.Time.Before(at(22*minute)) {
					comes("10.0.9.9")(r)
					certificate("X509SHA256=new")(r)
				}
			})
		}},
		{"a certificate is renewed", func(p *tale) { p.kubelets(6, 0, 3*hour, 10, nil, home, rotated(hour)) }},
		{"a connection with the old one lives for five minutes", func(p *tale) {
			p.kubelets(1, 0, 2*hour, 10, nil, home, rotated(hour))
			p.kubelets(1, hour, hour+5*minute, 30, nil, home, certificate("X509SHA256=old-worker-1"))
		}},
		{"renewed, and given up five minutes later", func(p *tale) {
			p.kubelets(1, 0, 2*hour, 10, nil, home, func(r *Request) {
				if certificate("X509SHA256=a")(r); !r.Time.Before(at(hour+30)) && r.Time.Before(at(hour+5*minute+30)) {
					certificate("X509SHA256=b")(r)
				}
			})
		}},
		{"renewed every hour", func(p *tale) {
			p.kubelets(1, 0, 6*hour, 10, nil, home, func(r *Request) { certificate("X509SHA256=" + r.Time.Format("15"))(r) })
		}},
		{"another program with the node's credential, from elsewhere", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home)
			p.one(30*minute, "worker-1", comes("203.0.113.9"), agent("curl/8.5.0"), does("get nodes worker-1")) // its requests are flagged each
		}},
		{"an administrator impersonates the node", func(p *tale) {
			p.kubelets(1, 0, hour, 10, nil, home, certificate("X509SHA256=a"))
			p.one(30*minute, "worker-1", comes("203.0.113.9"), certificate("X509SHA256=b"), impersonated)
		}},
		{"two addresses three times in an hour, and no more", func(p *tale) {
			for i := range 12 {
				p.one(i*5*minute, "worker-1", comes([]string{"10.0.0.1", "10.0.1.1"}[i/3%2]))
			}
		}},
	} {
		if i%effort.Of(1, 6) != 0 {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			p := &tale{}
			c.play(p)
			p.wants(t, nodeCredentialMisuse(), nil, nil)
		})
	}
}

func TestCredentialAcrossRestarts(t *testing.T) {
	p := &tale{}
	p.kubelets(3, 0, 2*hour, 10, nil, home, rotated(20*minute))
	p.one(100*minute, "worker-2", comes("203.0.113.9"), certificate("X509SHA256=old-worker-2"))
	p.one(110*minute, "worker-3", home, certificate("X509SHA256=new-worker-2"))
	p.sort()
	want := p.run(t, nodeCredentialMisuse(), nil, nil, 10, false)
	if len(want) != 3 {
		t.Errorf("%q", want)
	}
	if diff := cmp.Diff(want, p.run(t, nodeCredentialMisuse(), nil, nil, 10, true)); diff != "" {
		t.Errorf("(-without +with a restart):\n%s", diff)
	}
	for _, kind := range []string{rememberedCredentials, rememberedOwner} {
		if own, err := newCredentialDetector(DetectorOptions{}).Restore(&Remembered{Kind: kind, Value: []byte("{")}); !own || err == nil {
			t.Errorf("%s: own %t, %v", kind, own, err)
		}
	}
}

// A hostile client makes up names, certificates and addresses without end; its strings are not kept.
func TestCredentialIsBounded(t *testing.T) {
	d := newCredentialDetector(DetectorOptions{}).(*credentialDetector)
	name, id := []byte("worker-1"), []byte("X509SHA256=aa")
	follow(d, request(func(r *Request) { r.Node, r.Event.User.CredentialID = alias(name), alias(id) }), nil)
	copy(name, "xxxxxxxx")
	copy(id, "xxxxxxxxxxxxx")
	r := request()
	for i := range 100_000 {
		r.Node, r.Event.User.CredentialID = fmt.Sprintf("ghost-%d", i), fmt.Sprintf("X509SHA256=%d", i)
		r.Event.SourceIPs = []string{fmt.Sprintf("fe80::%x:%x%%%s", i>>16, i&0xffff, strings.Repeat("z", i%1000))}
		r.Time = at(i / 100)
		follow(d, r, nil)
		if i%1000 == 0 {
			d.Advance(r.Time, nil, func(f *Detection) { t.Fatalf("%+v", f) })
			d.Changes()
		}
	}
	if n := len(d.nodes); n != MaxNodes {
		t.Errorf("%d nodes are remembered, want %d", n, MaxNodes)
	}
	if n := len(d.owners.young) + len(d.owners.old); n > 16*MaxNodes {
		t.Errorf("%d owners are remembered", n)
	}
	if d.nodes["worker-1"] == nil || d.owners.get("X509SHA256=aa") == nil {
		t.Error("worker-1 is not remembered")
	}
	d.Advance(at(72*hour), nil, func(f *Detection) { t.Fatalf("%+v", f) })
	if n := len(d.nodes); n != 0 {
		t.Errorf("%d nodes are remembered indefinitely", n)
	}
}

// The same in a log without the renewals of Leases, where requests are few. Two nodes behind a gateway with two addresses look alike, but for the addresses of the Nodes.
func TestTwoNodesSwapAddressesInTurn(t *testing.T) {
	for name, c := range map[string]struct {
		s    State
		want bool
	}{"with the Nodes' addresses": {housed(2), true}, "without": {nil, false}, "behind a gateway": {housed(2), false}} {
		p, addresses := &tale{}, []string{"10.0.0.1", "10.0.0.2"}
		if name == "behind a gateway" {
			addresses = []string{"203.0.113.1", "203.0.113.2"}
		}
		for s := 0; s < 2*hour; s += 150 {
			p.one(s, "worker-1", comes(addresses[s/150%2]))
			p.one(s, "worker-2", comes(addresses[1-s/150%2]))
		}
		found := strings.Join(p.detects(t, nodeCredentialMisuse(), c.s), "\n")
		for _, text := range []string{"worker-1 is used in turn from ", "worker-2 is used in turn from "} {
			if strings.Contains(found, text) != c.want || !c.want && found != "" {
				t.Errorf("%s: want %t of %q: %.300s", name, c.want, text, found)
			}
		}
	}
}
