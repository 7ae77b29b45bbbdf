package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// From where a certificate came is known as long as it may be used, however long its node is gone.
func TestNodeMadeElsewhereMuchLater(t *testing.T) {
	const home, thief, old, hour = "10.0.0.1", "10.9.9.9", "X509SHA256=1", 60 * minute
	const again = 100 * hour
	found := func(from string) string {
		return fmt.Sprintf(`medium: Node worker-1 was made anew from %s with a certificate of the machine that came from %s before`, from, home)
	}
	renewed := kubeletsAsk("worker-1")
	renewed.user, renewed.groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
	makes := func(b *births, at int, cert, address string) {
		b.one(at, "worker-1", does("create nodes worker-1"), certificate(cert), from(address), code(201))
	}
	fresh := credentialOf("fresh")
	state := func(sets map[string][][]string) *remade {
		w := &remade{cluster(9), 910, again}
		w.sets = sets
		return w
	}
	v4, both := [][]string{{home}}, [][]string{{home, "fd00::1"}}
	for _, c := range []struct {
		name string
		s    State
		want []string
		play func(b *births)
	}{
		{"elsewhere", nil, []string{found(thief)}, func(b *births) { makes(b, again, old, thief) }},
		{"elsewhere, after renewals without a Node", state(nil), []string{found(thief)}, func(b *births) {
			b.lives("worker-1", again-300, again-10, old, thief)
			makes(b, again, old, thief)
		}},
		{"elsewhere, after it came and was gone again", state(nil), []string{found(thief)}, func(b *births) {
			b.one(again-60*hour, "worker-1", lease("worker-1"), certificate("X509SHA256=2"), from(thief))
			makes(b, again, old, thief)
		}},
		{"with a certificate that he asked for", state(nil), []string{found(thief)}, func(b *births) {
			b.ask(again-100, renewed, "fresh", thief)
			makes(b, again, fresh, thief)
		}},
		{"at home", nil, nil, func(b *births) { makes(b, again, old, home) }},
		{"another machine joins", nil, nil, func(b *births) {
			b.ask(again-100, kubeletsAsk("worker-1"), "fresh", thief)
			makes(b, again, fresh, thief)
		}},
		{"another machine joins, by who is trusted", nil, nil, func(b *births) {
			a := kubeletsAsk("worker-1")
			a.user = "ops"
			b.ask(again-100, a, "fresh", thief)
			makes(b, again, fresh, thief)
		}},
		{"the other family, of no node", state(map[string][][]string{"worker-1": v4, "worker-9": {{"10.0.0.9"}}}), []string{found("fd00::9")}, func(b *births) {
			makes(b, again, old, "fd00::9")
		}},
		{"the other family, of another Node", state(map[string][][]string{"worker-1": v4, "worker-9": {{"10.0.0.9", "fd00::9"}}}), nil, func(b *births) {
			makes(b, again, old, "fd00::1")
		}},
		{"the other family, of this Node", state(map[string][][]string{"worker-1": both}), nil, func(b *births) { makes(b, again, old, "fd00::1") }},
	} {
		b := newBirths(t)
		for k := 0; k < again+hour; k += 10 * minute { // the log advances
			b.lives("worker-9", k, k+1, "X509SHA256=9", "10.0.0.9")
		}
		b.lives("worker-1", 300, 900, old, home)
		c.play(b)
		var got []string
		all := b.findings(c.s)
		for _, said := range all {
			if _, what, _ := strings.Cut(said, " "); strings.Contains(what, "made anew") {
				got = append(got, what)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
		if over := b.run(t, bootstrapImpersonation(), c.s, nil, 1, true); !slices.Equal(over, all) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, over, all)
		}
	}
}

// Of nodes that are gone, those that have been so for longest make room. Then a certificate of which nothing is known is in doubt.
func TestGoneNodes(t *testing.T) {
	g := newGoneNodes()
	node := func(n, step int) *birthNode {
		id := certCredential + strconv.Itoa(n)
		return &birthNode{name: fmt.Sprint("worker-", n), holders: []*holder{{ID: id, dwelling: dwelling{Home: "10.0.0.1", Lived: livesFor}}, {ID: "JTI=1", dwelling: dwelling{Home: "10.0.0.2"}}, {ID: id + "0"}}}
	}
	leaves := func(n int) { g.leaves(node(n, n), int64(n)) }
	g.leaves(&birthNode{name: "silent", holders: []*holder{{ID: certCredential}}}, 0)
	for n := range maxGone {
		leaves(n)
	}
	if len(g.all) != maxGone || g.lost || g.home("worker-0", certCredential+"0").Home != "10.0.0.1" || len(g.all["worker-0"].Of) != 1 {
		t.Fatalf("%d, lost %t, %+v", len(g.all), g.lost, g.all["worker-0"])
	}
	stored := map[string]*Remembered{}
	store := func() {
		for _, r := range g.changes(nil) {
			stored[r.Key] = &r
		}
	}
	store()
	leaves(maxGone)
	leaves(0) // it comes back, and is gone
	store()
	if !g.lost || len(g.all) > maxGone || g.all["worker-1"] != nil || g.all["worker-0"] == nil || g.all[fmt.Sprint("worker-", maxGone-1)] == nil || len(g.slots.used) != len(g.all) {
		t.Errorf("%d, lost %t", len(g.all), g.lost)
	}
	again := newGoneNodes()
	for _, r := range stored {
		if err := again.restore(r); err != nil {
			t.Fatal(err)
		}
	}
	for name, x := range g.all {
		if o := again.all[name]; o == nil || o.Home != x.Home || o.slot != x.slot || len(o.Of) != len(x.Of) {
			t.Fatalf("%s: %+v, want %+v", name, o, x)
		}
	}
	for _, r := range []Remembered{{Key: "x", Value: []byte(`{"n":"a"}`)}, {Key: "1", Value: []byte(`{}`)}, {Key: strconv.Itoa(maxGone), Value: []byte(`{"n":"a"}`)}, {Key: "1", Value: []byte(`x`)}} {
		if again.restore(&r) == nil {
			t.Errorf("%s: %s is taken", r.Key, r.Value)
		}
	}

	g = newGoneNodes()
	for n := range 2 * maxGoneOf { // as many certificates as he wants, each used once
		x := node(1, 0)
		if n > 0 {
			x.holders[0] = &holder{ID: certCredential + fmt.Sprint("more", n), dwelling: dwelling{Home: "10.9.9.9"}}
		}
		g.leaves(x, int64(n))
	}
	if all := g.all["worker-1"].Of; len(all) != maxGoneOf || !g.lost || g.home("worker-1", certCredential+"1").Home != "10.0.0.1" {
		t.Errorf("%d are kept, lost %t", len(all), g.lost)
	}
}

// Where nodes that are gone were dropped, a Node that is made with a certificate of which nothing is known is in doubt, if others' are requested.
func TestNodeMadeUnknown(t *testing.T) {
	for _, c := range []struct {
		name           string
		lost, requests bool
		want           bool
	}{{"none was dropped", false, true, false}, {"some were", true, true, true}, {"no certificates are requested", true, false, false}} {
		d := newBirthDetector(DetectorOptions{}).(*birthDetector)
		d.gone.lost = c.lost
		if c.requests {
			d.proven = 1
		}
		if all := d.Changes(); len(all) > 0 { // over a restart
			d = newBirthDetector(DetectorOptions{}).(*birthDetector)
			for i := range all {
				if _, err := d.Restore(&all[i]); err != nil {
					t.Fatal(err)
				}
			}
		}
		n := &birthNode{name: "worker-1"}
		d.made = append(d.made, made{n, &holder{ID: certCredential + "1"}, "10.9.9.9", at(0), "1"})
		given := &holder{ID: certCredential + "2"}
		d.issued.add(given.ID, &issue{ID: given.ID, Node: n.name, At: at(0)})
		d.made = append(d.made, made{n, given, "10.9.9.9", at(0), "2"})
		var got []*Detection
		d.nodesMade(stepOf(at(600)), nil, func(f *Detection) { got = append(got, f) })
		if (len(got) == 1) != c.want || c.want && (got[0].Severity != Low || got[0].Reason != NodeMadeElsewhere || got[0].Apart != certCredential+"1") {
			t.Errorf("%s: %+v, want %t", c.name, got, c.want)
		}
	}
}

// A node that is gone again is stored in its place, and of two places with one node the later one counts.
func TestGoneNodesKeepTheirPlaces(t *testing.T) {
	g := newGoneNodes()
	leaves := func(name string, step int64) {
		g.leaves(&birthNode{name: name, dwelling: dwelling{Home: "10.0.0." + strconv.FormatInt(step, 10)}}, step)
	}
	leaves("a", 1)
	leaves("b", 2)
	g.changes(nil)
	leaves("b", 3)
	stored := g.changes(nil)
	if len(stored) != 1 || stored[0].Key != "1" || g.all["b"].Home != "10.0.0.3" {
		t.Fatalf("%+v", stored)
	}
	newer, older := stored[0], Remembered{Kind: rememberedGone, Key: "7", Value: []byte(`{"n":"b","g":2,"h":"10.0.0.2"}`)}
	for _, order := range [][]Remembered{{newer, older}, {older, newer}} {
		again := newGoneNodes()
		for i := range order {
			if err := again.restore(&order[i]); err != nil {
				t.Fatal(err)
			}
		}
		if b := again.all["b"]; b == nil || b.Home != "10.0.0.3" || b.slot != 1 || len(again.slots.used) != 1 {
			t.Errorf("%+v, %v", b, again.slots.used)
		}
	}
}

// A machine has addresses of both families if anything shows that it, or any machine, has both.
func TestOtherFamily(t *testing.T) {
	const home, other = "10.0.0.1", "fd00::1"
	for _, c := range []struct {
		name    string
		address string
		want    bool
		play    func(d *birthDetector, m *made)
	}{
		{"of no node", other, true, func(*birthDetector, *made) {}},
		{"the same family", "10.9.9.9", false, func(*birthDetector, *made) {}},
		{"the same family, written otherwise", "::ffff:10.9.9.9", false, func(*birthDetector, *made) {}},
		{"no address", "gateway", false, func(*birthDetector, *made) {}},
		{"a loopback address", "::1", false, func(*birthDetector, *made) {}},
		{"another node comes from one", other, false, func(d *birthDetector, _ *made) { d.nodes["b"] = &birthNode{dwelling: dwelling{Home: "fd00::2"}} }},
		{"another node came from one", other, false, func(d *birthDetector, _ *made) { d.nodes["b"] = &birthNode{dwelling: dwelling{Was: "fd00::2"}} }},
		{"another node comes from one of the first family", other, true, func(d *birthDetector, _ *made) { d.nodes["b"] = &birthNode{dwelling: dwelling{Home: "10.0.0.2"}} }},
		{"the node is there", other, false, func(_ *birthDetector, m *made) { m.node.Home = "fd00::3" }},
		{"the node was there", other, false, func(_ *birthDetector, m *made) { m.node.Was = "fd00::3" }},
		{"its certificate is there", other, false, func(_ *birthDetector, m *made) { m.h.Home = "fd00::3" }},
		{"its certificate was there", other, false, func(_ *birthDetector, m *made) { m.h.Was = "fd00::3" }},
		{"several nodes come from the address", other, false, func(d *birthDetector, _ *made) { d.owners.add(other, &addressOwner{name: "b", other: "c"}) }},
		{"several nodes come from home", other, false, func(d *birthDetector, _ *made) { d.owners.add(home, &addressOwner{name: "a", other: "c"}) }},
		{"several nodes came from home, later", other, true, func(d *birthDetector, _ *made) {
			d.owners.add(home, &addressOwner{name: "a", other: "c", later: stepOf(at(3600))})
		}},
	} {
		d := newBirthDetector(DetectorOptions{}).(*birthDetector)
		n := &birthNode{name: "a"}
		d.nodes["a"] = n
		m := &made{node: n, h: &holder{}, address: c.address, at: at(0)}
		c.play(d, m)
		if got := d.otherFamily(m, home, nil); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}
