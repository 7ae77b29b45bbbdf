package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// TestSecretTaken is about secrets that the Node authorizer lets the node read, and that something else than its kubelet read.
func TestSecretTaken(t *testing.T) {
	const critical = "critical: get secrets shop/db succeeded with the credential of node worker-1 while its kubelet came from "
	takes := func(p *tale, second int, more ...with) {
		p.one(second, "worker-1", append([]with{does("get secrets shop/db"), verdict(nodeauthz.Allow)}, more...)...)
	}
	world := func(sets ...[]string) State {
		w := cluster(6)
		w.sets = map[string][][]string{"worker-1": sets}
		for _, all := range sets {
			w.addresses = map[string][]string{"worker-1": append(w.addresses["worker-1"], all...)}
		}
		return w
	}
	own := world([]string{"10.0.0.1", "worker-1"})
	network := cluster(6)
	network.sets = map[string][][]string{"worker-1": {{"10.0.0.1", "2001:db8::1"}}, "worker-2": {{"10.0.0.2", "2001:db8::2"}}}
	for _, c := range []struct {
		name string
		s    State
		play func(p *tale)
		want string // "": nothing of severity critical
	}{
		{"from elsewhere", nil, func(p *tale) { takes(p, 30*minute+15, comes("203.0.113.9")) }, critical + "10.0.0.1, from 203.0.113.9"},
		{"from another node's address", own, func(p *tale) { takes(p, 30*minute+15, comes("10.0.0.2")) }, critical + "10.0.0.1, from 10.0.0.2"},
		{"a token", own, func(p *tale) {
			p.one(30*minute+15, "worker-1", does("create serviceaccounts/token shop/web"), verdict(nodeauthz.Allow), comes("203.0.113.9"))
		}, "critical: create serviceaccounts/token shop/web succeeded with the credential of node worker-1 while its kubelet came from 10.0.0.1, from 203.0.113.9"},
		{"a certificate of a pod", own, func(p *tale) {
			p.one(30*minute+15, "worker-1", does("create podcertificaterequests.certificates.k8s.io shop/r"), verdict(nodeauthz.Allow), comes("203.0.113.9"))
		}, "critical: create podcertificaterequests.certificates.k8s.io shop/r succeeded with the credential of node worker-1 while its kubelet came from 10.0.0.1, from 203.0.113.9"},
		{"among many addresses", own, func(p *tale) {
			for i := range 60 {
				p.one(30*minute+i, "worker-1", comes("203.0.113."+string(rune('0'+i%10))))
			}
			takes(p, 30*minute+59, comes("198.51.100.7"))
		}, critical + "10.0.0.1, from 198.51.100.7"},
		{"from ever new addresses in the first minute", own, func(p *tale) {
			for i := range 8 {
				takes(p, 20+i, comes(fmt.Sprintf("203.0.113.%d", i)))
			}
		}, critical + "10.0.0.1, from 203.0.113.7"},
		{"twice in a second", own, func(p *tale) {
			takes(p, 30*minute+16, comes("203.0.113.9"))
			takes(p, 30*minute+15, comes("203.0.113.9"))
		}, "30:15 critical: "},
		{"from where the kubelet lives, with another's credential first", own, func(p *tale) {
			p.requests = slices.DeleteFunc(p.requests, func(r *Request) bool { return r.Node == "worker-1" })
			p.one(0, "worker-2", comes("10.0.0.1"))
			p.kubelets(1, minute, 20*minute, 10, nil, home)
			takes(p, 30*minute, comes("203.0.113.9"))
		}, critical + "10.0.0.1, from 203.0.113.9"},
		{"the thief comes first in the log", own, func(p *tale) {
			takes(p, 0, comes("203.0.113.9"))
			p.one(70, "worker-1", comes("203.0.113.9"))
			takes(p, 75, comes("203.0.113.9"))
		}, critical + "10.0.0.1, from 203.0.113.9"},
		{"by IPv6 where the Node has another network", world([]string{"10.0.0.1", "fd00::1"}), func(p *tale) { takes(p, 30*minute, comes("2001:db8::9")) }, critical + "10.0.0.1, from 2001:db8::9"},
		{"from an address that the Node had before", world([]string{"203.0.113.9"}, []string{"10.0.0.1"}), func(p *tale) { takes(p, 30*minute, comes("203.0.113.9")) }, critical + "10.0.0.1, from 203.0.113.9"},

		{"from an address that the Node had next to its own before", world([]string{"10.0.0.1", "192.0.2.1"}, []string{"10.0.0.1"}), func(p *tale) { takes(p, 30*minute, comes("192.0.2.1")) }, critical + "10.0.0.1, from 192.0.2.1"},

		{"by the kubelet", own, func(p *tale) { takes(p, 30*minute, home) }, ""},
		{"from a second address of the Node", world([]string{"10.0.0.1", "192.0.2.1"}), func(p *tale) { takes(p, 30*minute, comes("192.0.2.1")) }, ""},
		{"by the kubelet, while somebody is elsewhere", own, func(p *tale) {
			p.one(30*minute, "worker-1", comes("203.0.113.9"))
			takes(p, 30*minute+5, home)
		}, ""},
		{"by the kubelet, while somebody is elsewhere for long, and nobody knows the Node's addresses", nil, func(p *tale) {
			p.kubelets(1, 20*minute, 40*minute, 10, nil, comes("203.0.113.9"))
			takes(p, 30*minute+5, home)
		}, ""},
		{"by the kubelet with a new address, while somebody uses the former one", world([]string{"203.0.113.9"}, []string{"10.0.0.1"}), func(p *tale) {
			p.one(0, "worker-1", comes("203.0.113.9"))
			p.one(30*minute, "worker-1", comes("203.0.113.9"))
			takes(p, 30*minute+5, home)
		}, ""},
		{"by IPv6 where no node has any", own, func(p *tale) { takes(p, 30*minute, comes("2001:db8::9")) }, critical + "10.0.0.1, from 2001:db8::9"},
		{"by IPv6 in the Node's network", world([]string{"10.0.0.1", "2001:db8::1"}), func(p *tale) { takes(p, 30*minute, comes("2001:db8::9")) }, ""},
		{"by IPv6 of another Node in the same network", network, func(p *tale) { takes(p, 30*minute, comes("2001:db8::2")) }, critical + "10.0.0.1, from 2001:db8::2"},
		{"refused", own, func(p *tale) { takes(p, 30*minute, comes("203.0.113.9"), code(403)) }, ""},
		{"a ConfigMap", own, func(p *tale) { p.one(30*minute, "worker-1", does("get configmaps shop/db"), comes("203.0.113.9")) }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &tale{}
			p.kubelets(3, 0, hour, 10, nil, home)
			c.play(p)
			said := strings.Join(p.detects(t, nodeCredentialMisuse(), c.s), "\n")
			if c.want == "" && strings.Contains(said, "critical") || !strings.Contains(said, c.want) {
				t.Errorf("got %s\nwant %q", said, c.want)
			}
		})
	}
}

// Nothing shows the kubelet next to what was taken: the log begins or ends there, or the kubelet is silent.
func TestSecretTakenInSilence(t *testing.T) {
	for _, c := range []struct {
		name     string
		from, to int // of the kubelet, in seconds
		at       int
		address  string
		sets     [][]string
		want     bool
	}{
		{"in the first minute", 0, hour, 15, "203.0.113.9", nil, true},
		{"before all of the kubelet", 20, hour, 15, "203.0.113.9", nil, false},
		{"in the last minute", 0, 30*minute + 40, 30*minute + 15, "203.0.113.9", nil, true},
		{"after all of the kubelet", 0, 30*minute + 10, 30*minute + 15, "203.0.113.9", nil, false},
		{"after all of the kubelet, where the Node never had the address", 0, 30*minute + 10, 30*minute + 15, "203.0.113.9", [][]string{{"10.0.0.1"}}, true},
		{"while the kubelet is silent", 0, 20 * minute, 30 * minute, "203.0.113.9", [][]string{{"10.0.0.1"}}, true},
		{"before a kubelet that was silent", 30 * minute, hour, 25 * minute, "203.0.113.9", [][]string{{"10.0.0.1"}}, true},
		{"with an address that the Node had before", 0, 20 * minute, 30 * minute, "203.0.113.9", [][]string{{"203.0.113.9"}, {"10.0.0.1"}}, true},
		{"with an address that the Node has later", 0, 20 * minute, 30 * minute, "203.0.113.9", [][]string{{"10.0.0.1"}, {"203.0.113.9"}}, false},
		{"where the kubelet came by a gateway", 0, 20 * minute, 30 * minute, "203.0.113.9", [][]string{{"192.0.2.7"}}, true},
		{"before a kubelet that came by a gateway", 30 * minute, hour, 25 * minute, "203.0.113.9", [][]string{{"192.0.2.7"}}, false},
		{"where the kubelet came by a gateway for moments", 20*minute - 20, 20 * minute, 30 * minute, "203.0.113.9", [][]string{{"192.0.2.7"}}, false},
	} {
		w := cluster(6)
		w.sets = map[string][][]string{"worker-1": c.sets}
		p := &tale{}
		p.kubelets(1, c.from, c.to, 10, nil, home)
		if len(c.sets) > 1 {
			p.lives("worker-2", "10.0.0.2", 0, hour) // the log does not end too early to show where the kubelet lives
		}
		p.one(c.at, "worker-1", does("get secrets shop/db"), verdict(nodeauthz.Allow), comes(c.address))
		said := strings.Join(p.detects(t, nodeCredentialMisuse(), w), "\n")
		if got := strings.Contains(said, "critical: get secrets shop/db succeeded with the credential of node worker-1"); got != c.want {
			t.Errorf("%s: %t, %s", c.name, got, said)
		}
	}
}

// Whoever is in the log before the kubelet, from an address that says as much as the kubelet's, is not taken for the kubelet.
func TestThiefComesFirst(t *testing.T) {
	const thief = "203.0.113.9"
	network := func(r *Request) { from("192.168.7." + strings.TrimPrefix(r.Node, "worker-"))(r) } // which the Nodes do not have
	for _, c := range []struct {
		name  string
		s     State
		lives with
		home  string
	}{
		{"nothing tells of the Node", nil, home, "10.0.0.1"},
		{"the Node does not have the kubelet's address", housed(6), network, "192.168.7.1"},
		{"the kubelets come by a load balancer", housed(6), comes("192.0.2.7"), "192.0.2.7"},
	} {
		p := &tale{}
		p.taken(0, "worker-1", thief)
		p.kubelets(6, 4, hour, 10, nil, c.lives)
		for m := 10; m < 50; m += 5 {
			p.taken(m*minute+15, "worker-1", thief)
		}
		found := p.detects(t, nodeCredentialMisuse(), c.s)
		for _, want := range []string{
			"critical: get secrets shop/db succeeded with the credential of node worker-1 while its kubelet came from " + c.home + ", from " + thief,
			"high: the credential of node worker-1 is used from " + thief + " while it is in use from " + c.home,
		} {
			if !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, want) }) {
				t.Errorf("%s: no %q in\n%s", c.name, want, strings.Join(found, "\n"))
			}
		}
		for _, f := range found {
			if strings.Contains(f, "is used from "+c.home) || strings.Contains(f, "came from "+thief) {
				t.Errorf("%s: the kubelet is blamed: %s", c.name, f)
			}
		}
	}
}

// After the end of the state, the Node may have got an address that it does not have there. Who takes something next to the kubelet is found all the same.
func TestSecretTakenAfterTheState(t *testing.T) {
	for _, c := range []struct {
		name     string
		ended    int // the state, in seconds
		to       int // the kubelet
		severity string
	}{
		{"the state covers it", 35 * minute, 20 * minute, "critical"},
		{"the state ended before", 29 * minute, 20 * minute, "medium"},
		{"the state ended before, next to the kubelet", 29 * minute, hour, "critical"},
	} {
		w := cluster(6)
		w.sets, w.until = map[string][][]string{"worker-1": {{"10.0.0.1"}}}, c.ended
		p := &tale{}
		p.kubelets(1, 0, c.to, 10, nil, home)
		p.one(30*minute, "worker-1", does("get secrets shop/db"), verdict(nodeauthz.Allow), comes("203.0.113.9"))
		said := strings.Join(p.detects(t, nodeCredentialMisuse(), w), "\n")
		if !strings.Contains(said, c.severity+": get secrets shop/db succeeded with the credential of node worker-1") {
			t.Errorf("%s: %s", c.name, said)
		}
	}
}

// An address that the Node has in addition to the kubelet's is no second one.
func TestNodeWithTwoAddresses(t *testing.T) {
	w := cluster(3)
	w.sets = map[string][][]string{"worker-1": {{"10.0.0.1", "192.0.2.1"}}}
	p := &tale{}
	p.kubelets(3, 0, hour, 10, nil, home)
	p.kubelets(1, 5, hour, 10, nil, comes("192.0.2.1"))
	if got := p.detects(t, nodeCredentialMisuse(), w); len(got) > 0 {
		t.Errorf("%q", got)
	}
	if got := p.detects(t, nodeCredentialMisuse(), nil); len(got) == 0 {
		t.Error("without a state nothing is found")
	}
}

func TestSecretTakenByClient(t *testing.T) {
	s := newStory(t, nil)
	get := verdict(nodeauthz.Allow)
	s.f("another client", `critical: get secrets shop/db succeeded for "curl", which is no kubelet, with the credential of node worker-1`, get, agent("curl/8.5.0"), code(200))
	s.f("refused", `high: the credential of node worker-1 is used by "curl", which is no kubelet`, get, agent("curl/8.5.0"), code(403))
	s.f("what Node does not allow is in another rule", `high: the credential of node worker-1 is used by "curl", which is no kubelet`, agent("curl/8.5.0"), byRBAC(200))
	s.f("what Node should allow, and RBAC did", `critical: get secrets shop/db succeeded for "curl", which is no kubelet, with the credential of node worker-1`, get, agent("curl/8.5.0"), byRBAC(200))
	s.f("somebody else", `critical: get secrets shop/db succeeded for user "admin", who impersonates node worker-1 with client "kubectl"`, get, agent("kubectl/v1"), code(200), impersonated)
	s.f("the kubelet", "", get, code(200))
}

func TestSecretTakenWithoutGroup(t *testing.T) {
	w := cluster(3)
	w.pods = map[string]string{"shop/own": "worker-1"}
	s := newStory(t, w)
	nobody := as("system:node:worker-1", "system:authenticated")
	s.f("of a pod on the node", "", nobody, does("get secrets shop/own"), code(200))
	s.f("another one", `critical: get secrets shop/db succeeded for user "system:node:worker-1", who is not in the group of nodes, and no pod on this node uses it`, nobody, code(200))
	s.f("refused", "", nobody, code(403))
	s.f("a user", "", as("jane", "system:authenticated"), code(200))
}

// What one object is taken from, however many addresses, leaves room for what else is taken.
func TestTakingsLeaveRoom(t *testing.T) {
	d := newCredentialDetector(DetectorOptions{}).(*credentialDetector)
	n := d.known("worker-1")
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	take := func(i int, name string) {
		a := authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "shop", Name: name, ResourceRequest: true}
		d.wait(n, useKey{useV6, fmt.Sprintf("2001:db8::%x", i)}, "", 0, &Request{Event: &audit.Event{}, Attrs: &a, Time: at})
	}
	for i := range 2 * maxTakings {
		take(i, "dull")
	}
	names := []string{"dull", "db-1", "db-2"}
	for i, name := range names {
		take(i, name)
	}
	got := d.taken["worker-1"]
	for _, name := range names {
		if !slices.ContainsFunc(got, func(t taking) bool { return t.Object.Name == name }) {
			t.Errorf("nothing of %s waits", name)
		}
	}
	if len(got) != maxTakings || got[0].Value != "2001:db8::0" {
		t.Errorf("%d wait, the first from %s", len(got), got[0].Value)
	}
}

// What comes too late is of no use to tell where the kubelet is, but an address that the Node never had tells a theft. Who impersonates the node is not the node.
func TestSecretTakenThatComesLate(t *testing.T) {
	for _, c := range []struct {
		name, address string
		more          []with
		want          bool
	}{
		{"from elsewhere", "203.0.113.9", nil, true},
		{"by the kubelet", "10.0.0.1", nil, false},
		{"by somebody who impersonates the node", "203.0.113.9", []with{impersonated}, false},
		{"by another program, which is flagged by itself", "203.0.113.9", []with{agent("curl/8.5.0")}, false},
		{"refused", "203.0.113.9", []with{code(403)}, false},
	} {
		p, s, d := &tale{}, housed(3), NewDetectors([]*Rule{nodeCredentialMisuse()}, DetectorOptions{})
		p.kubelets(3, 0, 31*minute, 10, nil, home)
		p.one(20*minute, "worker-1", append([]with{does("get secrets shop/db"), verdict(nodeauthz.Allow), comes(c.address)}, c.more...)...)
		late := p.requests[len(p.requests)-1]
		p.requests = p.requests[:len(p.requests)-1]
		p.kubelets(3, 31*minute, hour, 10, nil, home)
		got := false
		found := func(f *Detection) {
			got = got || f.Reason == SecretTaken && f.Severity == Critical && f.Subject == "worker-1" && f.Time.Equal(late.Time)
		}
		for i, r := range p.requests {
			observeLent(d, r, s)
			d.Advance(time.Time{}, s, found)
			if i == len(p.requests)/2 {
				observeLent(d, late, s)
			}
		}
		if got != c.want || d.Late() != 1 {
			t.Errorf("%s: %t, %d late", c.name, got, d.Late())
		}
	}
}

// A watch whose beginning is not in the log is seen when it ends. From an address that the Node never had, that is a second one.
func TestWatchSeenAtItsEnd(t *testing.T) {
	const thief, nat = "203.0.113.9", "198.51.100.1"
	moved := housed(3)
	moved.sets["worker-1"] = [][]string{{"10.0.9.1"}, {"10.0.0.1"}}
	for _, c := range []struct {
		name, address, what string
		lasts               int
		nodes               with
		s                   *world
		want                Severity
	}{
		{"from elsewhere", thief, "watch pods", 9 * minute, home, housed(3), High},
		{"a ConfigMap", thief, "watch configmaps shop/web", 9 * minute, home, housed(3), High},
		{"a secret", thief, "watch secrets shop/db", 9 * minute, home, housed(3), Critical},
		{"for an hour", thief, "watch pods", hour, home, housed(3), High},
		{"of an API server whose clock is behind", thief, "watch pods", 10, home, housed(3), None},
		{"no watch", thief, "list services", 9 * minute, home, housed(3), None},
		{"by the kubelet", "10.0.0.1", "watch pods", 9 * minute, home, housed(3), None},
		{"by the kubelet, from where it was before", "10.0.9.1", "watch pods", 9 * minute, home, moved, None},
		{"through a gateway", nat, "watch pods", 9 * minute, comes(nat), housed(3), None},
		{"through a gateway, from elsewhere", thief, "watch pods", 9 * minute, comes(nat), housed(3), None}, // nothing tells that the gateway has no other address
	} {
		p, d := &tale{}, NewDetectors([]*Rule{nodeCredentialMisuse()}, DetectorOptions{})
		p.kubelets(3, 0, 2*hour, 10, nil, c.nodes)
		ends := 80 * minute
		const seen = 81 * minute
		if c.lasts < minute {
			ends -= 5 * minute
		}
		p.one(ends-c.lasts, "worker-1", does(c.what), verdict(nodeauthz.Allow), comes(c.address), func(r *Request) { r.Event.StageTime = r.Time.Add(time.Duration(c.lasts) * time.Second) })
		late := p.requests[len(p.requests)-1]
		p.requests = p.requests[:len(p.requests)-1]
		got := None
		found := func(f *Detection) {
			if f.Subject != "worker-1" || f.Apart != c.address {
				t.Errorf("%s: %+v", c.name, f)
			}
			if got = max(got, f.Severity); (f.Reason == SecretTaken) != (f.Severity == Critical) || f.Reason != SecretTaken && f.Reason != SecondAddress {
				t.Errorf("%s: %s, %s", c.name, f.Reason, f.Severity)
			}
		}
		told := false
		for _, r := range p.requests {
			observeLent(d, r, c.s)
			d.Advance(time.Time{}, c.s, found)
			if !told && !r.Time.Before(at(seen)) {
				told = true
				observeLent(d, late, c.s)
			}
		}
		d.Flush(c.s, found)
		if got != c.want || d.Late() != 1 {
			t.Errorf("%s: %s, want %s; %d late", c.name, got, c.want, d.Late())
		}
	}
}

// The watches of kubelets, of which each node ends some in a minute, do not wait.
func TestWatchOfTheKubeletDoesNotWait(t *testing.T) {
	for _, from := range []string{"10.0.0.1", "203.0.113.9"} {
		p, d, s := &tale{}, newCredentialDetector(DetectorOptions{}).(*credentialDetector), housed(1)
		p.kubelets(1, 0, 10*minute, 10, nil, home)
		for _, r := range p.requests {
			d.follow(r, &followed{name: r.Node}, stepOf(r.Time), s)
		}
		d.Advance(at(10*minute), s, func(*Detection) {})
		p.one(minute, "worker-1", does("watch pods"), verdict(nodeauthz.Allow), comes(from), func(r *Request) { r.Event.StageTime = at(10 * minute) })
		d.straggle(p.requests[len(p.requests)-1], stepOf(at(9*minute)))
		if waits := len(d.taken) > 0; waits != (from == "203.0.113.9") {
			t.Errorf("from %s: waits %t", from, waits)
		}
	}
}

// Who comes with the credential of a kubelet that has been silent for days is judged by where that lived, as long as its Node is there, whatever he did before.
func TestSecretTakenDaysAfterTheKubeletFellSilent(t *testing.T) {
	const thief = "203.0.113.9"
	for name, lead := range map[string]func(p *tale, at int){
		"at once":           func(*tale, int) {},
		"after renewals":    func(p *tale, at int) { p.lives("worker-1", thief, at, at+5*minute) },
		"after one request": func(p *tale, at int) { p.one(at, "worker-1", does("get nodes worker-1"), comes(thief)) },
	} {
		for _, silent := range []int{40, 50, 200} {
			p, at := &tale{}, (20+60*silent)*minute
			p.lives("worker-1", "10.0.0.1", 2, 20*minute)
			p.lives("worker-2", "10.0.0.2", 1, 30*minute)
			p.lives("worker-2", "10.0.0.2", at-hour, at+hour)
			lead(p, at)
			p.taken(at+5*minute, "worker-1", thief)
			p.sort()
			got := p.run(t, nodeCredentialMisuse(), housed(3), nil, 1, false)
			if !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "critical") && strings.Contains(s, thief) }) {
				t.Errorf("%s, %d hours later: %q", name, silent, got)
			}
		}
	}
}

// settling is a world in which the latest addresses of one node are ten minutes old before they count, as cluster.Nodes has it.
type settling struct {
	*world
	name  string
	since int // seconds
}

func (w *settling) NodeAddressSets(name string, t time.Time) [][]string {
	sets := w.sets[name]
	if last := len(sets) - 1; name == w.name && !t.IsZero() && t.Sub(at(w.since)) < 10*time.Minute {
		return sets[:last]
	}
	return sets
}

// A node that is rebuilt gets the address that another one had. Who only reports the address of another one has not got it.
func TestSecretTakenByARebuiltNode(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   func(p *tale, w *world, a, d string) // what becomes of the node that had the address
		a, b, d  string
		critical bool
	}{
		{"rebuilt, IPv6", rebuilt, "2001:db8::a", "2001:db8::b", "2001:db8::d", false},
		{"rebuilt, IPv4", rebuilt, "10.0.0.10", "10.0.0.11", "10.0.0.13", false},
		{"deleted, IPv6", deleted, "2001:db8::a", "2001:db8::b", "2001:db8::d", false},
		{"still there, IPv6", stays, "2001:db8::a", "2001:db8::b", "2001:db8::d", true},
	} {
		for _, wait := range []int{1, 3, 12} {
			p, w := &tale{}, &settling{world: cluster(3), since: 90 * minute, name: "worker-2"}
			w.sets = map[string][][]string{"worker-2": {{c.b}, {c.a}}, "worker-3": {{"2001:db8::3", "10.0.0.3"}}}
			p.lives("worker-3", "2001:db8::3", 1, 4*hour)
			c.before(p, w.world, c.a, c.d)
			p.lives("worker-2", c.b, 3, 80*minute)
			p.lives("worker-2", c.a, 90*minute, 4*hour)
			for s := 90*minute + wait*minute; s < 90*minute+wait*minute+3*minute; s += 20 {
				p.taken(s, "worker-2", c.a)
			}
			got := p.detects(t, nodeCredentialMisuse(), w)
			got = slices.DeleteFunc(got, func(s string) bool { return !strings.Contains(s, "critical") })
			if is := len(got) > 0; is != (c.critical && wait < 10) {
				t.Errorf("%s, %d minutes after: %q", c.name, wait, got)
			}
		}
	}
}

func rebuilt(p *tale, w *world, a, d string) {
	w.sets["worker-1"] = [][]string{{a}, {d}}
	p.lives("worker-1", a, 2, 30*minute)
	p.lives("worker-1", d, 35*minute, 4*hour)
}

func deleted(p *tale, w *world, a, _ string) {
	w.sets["worker-1"], w.gone = [][]string{{a}}, map[string]int{"worker-1": 30 * minute}
	p.lives("worker-1", a, 2, 30*minute)
}

func stays(p *tale, w *world, a, _ string) {
	w.sets["worker-1"] = [][]string{{a}}
	p.lives("worker-1", a, 2, 4*hour)
}
