package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// taken is one secret that a pod on the node uses.
func (p *tale) taken(second int, name, address string) {
	p.one(second, name, does("get secrets shop/db"), verdict(nodeauthz.Allow), comes(address))
}

// lives has a kubelet renew its Lease every ten seconds from an address.
func (p *tale) lives(name, address string, from, to int) {
	for s := from; s < to; s += 10 {
		p.one(s, name, lease(name), comes(address))
	}
}

// around has somebody renew the Lease as each of the minutes begins, amid it, and as it ends.
func (p *tale) around(name, address string, from, to int) {
	for m := from; m < to; m++ {
		for _, s := range []int{0, 30, 59} {
			p.one(m*minute+s, name, lease(name), comes(address))
		}
	}
}

// housed are nodes of which each has the address 10.0.0.N, for worker-N.
func housed(n int) *world {
	w := cluster(n)
	w.sets, w.addresses = map[string][][]string{}, map[string][]string{}
	for i := 1; i <= n; i++ {
		name, own := fmt.Sprintf("worker-%d", i), []string{fmt.Sprintf("10.0.0.%d", i)}
		w.sets[name], w.addresses[name] = [][]string{own}, own
	}
	return w
}

// worst is the severity of the worst finding of secret-taken about a node, and all that was found.
func worst(t *testing.T, p *tale, s State, node string) (severity, all string) {
	t.Helper()
	found := p.detects(t, nodeCredentialMisuse(), s)
	for _, severity := range []string{"critical", "high", "medium"} {
		for _, f := range found {
			if strings.Contains(f, " "+severity+": ") && strings.Contains(f, "of node "+node+" ") {
				return severity, strings.Join(found, "\n")
			}
		}
	}
	return "", strings.Join(found, "\n")
}

// What shows that nodes live at addresses of the other family are renewals of other nodes: those that succeeded, at the rate of a kubelet, from before.
func TestWhereNodesLive(t *testing.T) {
	const thief = "2001:db8::9"
	for _, c := range []struct {
		name string
		play func(p *tale)
		want string
	}{
		{"nobody", func(*tale) {}, "critical"},
		{"the thief renews", func(p *tale) { p.one(30*minute+5, "worker-1", lease("worker-1"), comes(thief)) }, "critical"},
		{"the thief renews for long", func(p *tale) { p.lives("worker-1", thief, 20*minute, 40*minute) }, "critical"},
		{"the thief renews, and is refused", func(p *tale) { p.one(20*minute, "worker-2", lease("worker-2"), comes(thief), code(409)) }, "critical"},
		{"another node renews once", func(p *tale) { p.one(20*minute, "worker-2", lease("worker-2"), comes("2001:db8::2")) }, "critical"},
		{"many at once", func(p *tale) {
			for i := range 60 {
				p.one(20*minute+i/10, "worker-2", lease("worker-2"), comes("2001:db8::2"))
			}
		}, "critical"},
		{"refused for long", func(p *tale) {
			for s := 10 * minute; s < 20*minute; s += 10 {
				p.one(s, "worker-9", lease("worker-9"), comes("2001:db8::2"), code(409))
			}
		}, "critical"},
		{"next to its kubelet", func(p *tale) { p.lives("worker-2", "2001:db8::2", 10*minute, 20*minute) }, "critical"},
		{"first and last in each minute of its kubelet", func(p *tale) { p.around("worker-2", "2001:db8::2", 10, 29) }, "critical"},
		{"the same, after four minutes alone", func(p *tale) {
			p.lives("worker-9", "10.0.0.9", 0, 14*minute)
			p.around("worker-9", "2001:db8::2", 14, 29)
			p.lives("worker-9", "10.0.0.9", 19*minute+5, hour)
		}, "critical"},
		{"from six addresses in turn", func(p *tale) {
			for s := range 180 {
				p.one(10*s, "worker-9", lease("worker-9"), comes(fmt.Sprintf("2001:db8::2:%d", s%6)))
			}
		}, "critical"},
		{"from afterwards", func(p *tale) { p.lives("worker-9", "2001:db8::2", 30*minute+1, 45*minute) }, "critical"},
		{"at a loopback address", func(p *tale) { p.lives("worker-9", "::1", 0, hour) }, "critical"},
		{"another node only reads its Lease from there", func(p *tale) {
			for s := 10 * minute; s < 40*minute; s += 10 {
				p.one(s, "worker-9", does("get leases.coordination.k8s.io kube-node-lease/worker-9"), comes("2001:db8::2"))
			}
		}, "critical"},
		{"another node lives there", func(p *tale) { p.lives("worker-9", "2001:db8::2", 0, hour) }, ""},
		{"another node lives there and at a loopback address", func(p *tale) {
			p.lives("worker-9", "2001:db8::2", 0, hour)
			p.lives("worker-9", "127.0.0.1", 3, hour)
		}, ""},
		{"another node lives there, but for a minute in which the renewals failed", func(p *tale) {
			p.lives("worker-9", "10.0.0.9", 0, 10*minute)
			p.lives("worker-9", "2001:db8::2", 10*minute, 27*minute)
			p.one(27*minute+30, "worker-9", lease("worker-9"), comes("2001:db8::2"), code(500))
			p.lives("worker-9", "2001:db8::2", 28*minute, 30*minute)
		}, ""},
		{"since a minute before", func(p *tale) { p.lives("worker-9", "2001:db8::2", 29*minute, hour) }, ""},
		{"to a minute before, for two", func(p *tale) { p.lives("worker-9", "2001:db8::2", 27*minute, 29*minute) }, "critical"},
	} {
		p := &tale{}
		p.kubelets(3, 0, hour, 10, nil, home)
		c.play(p)
		p.taken(30*minute, "worker-1", thief)
		if got, all := worst(t, p, housed(3), "worker-1"); got != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.name, got, c.want, all)
		}
	}
	// A log without Leases does not show where nodes live.
	unknown := &tale{}
	for s := 0; s < hour; s += 20 {
		for i := 1; i <= 3; i++ {
			unknown.one(s+i, fmt.Sprintf("worker-%d", i), home)
		}
	}
	unknown.taken(30*minute, "worker-1", thief)
	if got, all := worst(t, unknown, housed(3), "worker-1"); got != "" {
		t.Errorf("no Leases: %q\n%s", got, all)
	}
	// Who stops the kubelet first is found, too.
	p := &tale{}
	p.kubelets(3, 0, hour, 10, nodesWithin(20*minute, hour, 1), home)
	p.taken(30*minute, "worker-1", thief)
	if got, all := worst(t, p, housed(3), "worker-1"); got != "critical" {
		t.Errorf("silent: %q\n%s", got, all)
	}
}

// Somebody uses the credentials of three nodes from one address while the kubelet of one is silent. The address is a gateway's where that lives there.
func TestGatewayOfThree(t *testing.T) {
	const gateway = "203.0.113.9"
	for _, c := range []struct {
		name string
		play func(p *tale)
		want string
	}{
		{"no renewal", func(*tale) {}, "critical"},
		{"one in the same minute", func(p *tale) { p.one(30*minute+5, "worker-1", lease("worker-1"), comes(gateway)) }, "critical"},
		{"twelve in six seconds", func(p *tale) {
			for i := range 12 {
				p.one(30*minute+5+i/2, "worker-1", lease("worker-1"), comes(gateway))
			}
		}, "critical"},
		{"twelve an hour", func(p *tale) {
			for s := 0; s < hour; s += 5 * minute {
				p.one(30*minute+s, "worker-1", lease("worker-1"), comes(gateway))
			}
		}, "critical"},
		{"refused for long", func(p *tale) {
			for s := 30 * minute; s < 40*minute; s += 10 {
				p.one(s, "worker-1", lease("worker-1"), comes(gateway), code(409))
			}
		}, "critical"},
		{"a kubelet", func(p *tale) { p.lives("worker-1", gateway, 29*minute, hour) }, ""},
		{"a kubelet that just came", func(p *tale) { p.lives("worker-1", gateway, 30*minute+1, hour) }, ""},
	} {
		p := &tale{}
		p.kubelets(3, 0, hour, 10, nodesWithin(20*minute, hour, 1), home)
		p.one(30*minute-2, "worker-2", comes(gateway))
		p.one(30*minute-1, "worker-3", comes(gateway))
		c.play(p)
		p.taken(30*minute, "worker-1", gateway)
		got, all := worst(t, p, housed(3), "worker-1")
		if (got == "critical") != (c.want == "critical") {
			t.Errorf("%s: %q, want %q\n%s", c.name, got, c.want, all)
		}
	}
}

// Elsewhere is any other address of either family, but for loopback ones. Certificates are no addresses.
func TestElsewhere(t *testing.T) {
	habits := func(values ...string) (out []*habit) {
		for _, v := range values {
			out = append(out, &habit{Value: v})
		}
		return out
	}
	n := &credentials{used: [useKinds][]*habit{habits("10.0.0.1", "127.0.0.1", "10.0.0.2"), habits("::1", "2001:db8::1"), habits("X509SHA256=1")}}
	for _, h := range n.used[useV4] {
		var got []string
		if n.elsewhere(h, func(o *habit) bool {
			got = append(got, o.Value)
			return false
		}) {
			t.Error("found what f does not want")
		}
		want := slices.DeleteFunc([]string{"10.0.0.1", "10.0.0.2", "2001:db8::1"}, func(v string) bool { return v == h.Value })
		if !slices.Equal(got, want) {
			t.Errorf("of %s: %v, want %v", h.Value, got, want)
		}
		if !n.elsewhere(h, func(o *habit) bool { return o.Value == "2001:db8::1" }) {
			t.Errorf("of %s: the other family is left out", h.Value)
		}
	}
}

// The signs of life of a minute are the renewals that succeeded, in whatever order they come.
func TestRenewalsInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for round := range 200 {
		var all []*Request
		want := use{renews: int64(r.IntN(8))}
		for range want.renews {
			one := &Request{Time: at(r.IntN(60)), Allowed: true, Event: &audit.Event{Code: []int32{200, 409, 500}[r.IntN(3)]}}
			if all = append(all, one); one.Event.Code != 200 {
				continue
			}
			if want.slots == 0 {
				want.renewedFirst, want.renewedLast = one.Time, one.Time
			}
			if one.Time.Before(want.renewedFirst) {
				want.renewedFirst = one.Time
			}
			if one.Time.After(want.renewedLast) {
				want.renewedLast = one.Time
			}
			want.slots |= 1 << (one.Time.Second() / 10)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		var got use
		for _, one := range all {
			got.renew(one)
		}
		if got != want {
			t.Fatalf("round %d: got %+v, want %+v", round, got, want)
		}
	}
}
