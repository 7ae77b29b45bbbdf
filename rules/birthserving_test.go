package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// claims is a world in which the Node worker-1 has addresses of its own, and others for a while. What it has had for ten minutes counts.
type claims struct {
	*world
	claimed  []string
	from, to int // in seconds
}

func (c claims) NodeAddresses(name string) []string {
	if name == "worker-1" {
		return slices.Concat(c.world.NodeAddresses(name), c.claimed)
	}
	return c.world.NodeAddresses(name)
}

func (c claims) NodeAddressSets(name string, t time.Time) [][]string {
	sets := slices.Clone(c.sets[name])
	by := at(c.to)
	if !t.IsZero() && t.Before(by) {
		by = t
	}
	if name == "worker-1" && (by.Sub(at(c.from)) >= 10*time.Minute || t.IsZero() && c.to > 1e6) {
		sets = append(sets, slices.Concat(sets[0], c.claimed))
	}
	return sets
}

// A name that the Node got a moment before is not its own: whoever holds its credential can write it there, ask for a certificate, and take it back.
func TestServingNamesOfAMoment(t *testing.T) {
	const forGood = 1e7
	serving := kubeletsAsk("worker-1")
	serving.user, serving.groups, serving.signer = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}, signerServing
	const said = ` asked for a serving certificate of node worker-1 with names that its Node does not have: `
	for _, c := range []struct {
		name           string
		claimed        []string
		from, to, asks int
		cert           string
		end            int
		want           string
		change         func(w *world)
	}{
		{name: "its own", asks: 300, cert: "new", end: 3000},
		{name: "a name for eight seconds", claimed: []string{"db.example.com"}, from: 298, to: 306, asks: 300, cert: "new", end: 3000, want: "high: db.example.com"},
		{name: "one that is there when it is judged first", claimed: []string{"db.example.com"}, from: 298, to: 500, asks: 300, cert: "new", end: 3000, want: "high: db.example.com"},
		{name: "one that is asked for before", claimed: []string{"db.example.com"}, from: 320, to: 500, asks: 300, cert: "new", end: 3000, want: "high: db.example.com"},
		{name: "one that is there when the log ends", claimed: []string{"db.example.com"}, from: 298, to: forGood, asks: 300, cert: "new", end: 500},
		{name: "one that is gone when the log ends", claimed: []string{"db.example.com"}, from: 298, to: 306, asks: 300, cert: "new", end: 500, want: "high: db.example.com"},
		{name: "not approved", claimed: []string{"db.example.com"}, from: 298, to: 306, asks: 300, end: 3000, want: "medium: db.example.com"},
		{name: "an address for eight seconds", claimed: []string{"10.0.0.77"}, from: 298, to: 306, asks: 300, cert: "new", end: 3000, want: "medium: 10.0.0.77"},
		{name: "a new address", claimed: []string{"10.0.0.77"}, from: 298, to: forGood, asks: 300, cert: "new", end: 3000},
		{name: "what a slow cloud controller writes", claimed: []string{"203.0.113.7", "ec2-1.example.com"}, from: 800, to: forGood, asks: 300, cert: "new", end: 3000},
		{name: "an address that it had for an hour", claimed: []string{"10.0.0.77"}, from: -3000, to: 500, asks: 300, cert: "new", end: 3000},
		{name: "of another node", claimed: []string{"10.0.0.2"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, want: "high: 10.0.0.2"},
		{name: "the host name of another node", claimed: []string{"WORKER-2"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, want: "high: WORKER-2"},
		{name: "the name of a Node", claimed: []string{"worker-2"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, want: "high: worker-2", change: func(w *world) {
			w.sets["worker-2"] = nil
		}},
		{name: "of a node that is gone", claimed: []string{"10.0.0.3", "worker-3"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000},
		{name: "of three nodes", claimed: []string{"172.17.0.1"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, change: func(w *world) {
			w.nodes = []string{"worker-2", "worker-1", "worker-3"} // worker-2 had it before
			for _, n := range w.nodes {
				w.sets[n][0] = append(w.sets[n][0], "172.17.0.1")
			}
		}},
		{name: "localhost", claimed: []string{"localhost", "127.0.0.1"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, change: func(w *world) {
			w.sets["worker-2"][0] = append(w.sets["worker-2"][0], "localhost", "127.0.0.1")
		}},
		{name: "the API server's service", claimed: []string{"kubernetes.default.svc"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, want: "high: kubernetes.default.svc"},
		{name: "where the state does not have the Node", claimed: []string{"api.shop.svc.cluster.local"}, from: -3000, to: forGood, asks: 300, cert: "new", end: 3000, want: "high: api.shop.svc.cluster.local",
			change: func(w *world) { w.sets = nil }},
		{name: "before the state begins", claimed: []string{"db.example.com"}, from: 298, to: 306, asks: 300, cert: "new", end: 3000, change: func(w *world) { w.blind = true }},
	} {
		w := cluster(3)
		w.sets = map[string][][]string{"worker-1": {{"10.0.0.1", "worker-1"}}, "worker-2": {{"10.0.0.2", "worker-2"}}, "worker-3": {{"10.0.0.3", "worker-3"}}}
		w.addresses = map[string][]string{}
		if c.change != nil {
			c.change(w)
		}
		s := State(claims{w, c.claimed, c.from, c.to})
		if w.sets == nil {
			s = w
		}
		a := serving
		a.names = append([]string{"worker-1", "10.0.0.1"}, c.claimed...)
		b := newBirths(t)
		b.lives("worker-1", 0, c.end, "X509SHA256=1", "10.0.0.1")
		b.lives("worker-2", 0, c.end, "X509SHA256=2", "10.0.0.2")
		b.ask(c.asks, a, c.cert, "10.0.0.1")
		var want []string
		if c.want != "" {
			severity, names, _ := strings.Cut(c.want, ": ")
			want = []string{fmt.Sprintf(`05:00 %s: user "system:node:worker-1"%s%s`, severity, said, names)}
		}
		if got := b.findings(s); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, want)
		}
		if got := b.run(t, bootstrapImpersonation(), s, nil, 1, true); !slices.Equal(got, want) {
			t.Errorf("%s, restarted:\n got %q\nwant %q", c.name, got, want)
		}
	}
}

// The names of services and of many names are no machine's.
func TestNamesOfServices(t *testing.T) {
	b := &birth{Node: "worker-1"}
	for name, want := range map[string]bool{
		"kubernetes": true, "kubernetes.default": true, "Kubernetes.Default.Svc.": true, "api.shop.svc": true, "api.shop.svc.cluster.local": true, "*.example.com": true,
		"worker-1": false, "kubernetes.example.com": false, "kubernetes-1": false, "node.svc.example.com": false, "10.0.0.1": false,
	} {
		if got := b.namesService(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if b.Node = "kubernetes"; b.namesService("kubernetes") {
		t.Error("a machine that is called so")
	}
}

// Whoever floods the API server with requests gets none of his forgotten whose names have to stay.
func TestDoubtOutlastsFlood(t *testing.T) {
	d := newBirthDetector(DetectorOptions{}).(*birthDetector)
	for i := range maxOpenBirths {
		b := &birth{Key: fmt.Sprint(i), At: at(i), Node: "worker-1", User: "system:node:worker-1", Judged: true, Waits: true, Doubt: i == 0, slot: d.slots.take()}
		d.open[b.Key] = b
	}
	d.makeRoom()
	if d.open["0"] == nil || len(d.open) == maxOpenBirths {
		t.Errorf("%d are left, with the first one: %t", len(d.open), d.open["0"] != nil)
	}
}
