package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// A certificate that makes a Node anew comes from where it came from before, unless it was copied.
func TestNodeMadeElsewhere(t *testing.T) {
	const found = `medium: Node worker-1 was made anew from 10.9.9.9 with a certificate of the machine that came from 10.0.0.1 before`
	makes := func(b *births, at int, cert, address string, answer int32) {
		b.one(at, "worker-1", does("create nodes worker-1"), certificate(cert), from(address), code(answer))
	}
	const old = "X509SHA256=1"
	for _, c := range []struct {
		name string
		play func(b *births)
		want []string
	}{
		{"elsewhere", func(b *births) { makes(b, 900, old, "10.9.9.9", 201); b.lives("worker-1", 905, 1200, old, "10.9.9.9") }, []string{found}},
		{"elsewhere, and nothing more", func(b *births) { makes(b, 900, old, "10.9.9.9", 201) }, []string{found}},
		{"elsewhere, while the kubelet comes back", func(b *births) {
			makes(b, 900, old, "10.9.9.9", 201)
			b.lives("worker-1", 905, 1200, old, "10.0.0.1")
		}, []string{found}},
		{"at home", func(b *births) { makes(b, 900, old, "10.0.0.1", 201); b.lives("worker-1", 905, 1200, old, "10.0.0.1") }, nil},
		{"the Node is there", func(b *births) { makes(b, 900, old, "10.9.9.9", 409) }, nil},
		{"by another certificate", func(b *births) { makes(b, 900, "X509SHA256=2", "10.9.9.9", 201) }, nil},
		{"by the other family, of no node", func(b *births) { makes(b, 900, old, "fd00::9", 201) }, []string{strings.Replace(found, "10.9.9.9", "fd00::9", 1)}},
		{"by the other family, of another node", func(b *births) {
			b.lives("worker-2", 0, 500, "X509SHA256=2", "fd00::2")
			makes(b, 900, old, "fd00::9", 201)
		}, nil},
		{"by the other family, through a loopback address", func(b *births) { makes(b, 900, old, "::1", 201) }, nil},
		{"after it has moved", func(b *births) {
			b.lives("worker-1", 600, 800, old, "10.9.9.9")
			makes(b, 900, old, "10.9.9.9", 201)
		}, nil},
		{"through a gateway", func(b *births) {
			b.lives("worker-2", 0, 900, "X509SHA256=2", "10.9.9.9")
			b.lives("worker-3", 0, 900, "X509SHA256=3", "10.9.9.9")
			makes(b, 900, old, "10.9.9.9", 201)
		}, nil},
	} {
		b := newBirths(t)
		b.lives("worker-9", 0, 1200, "X509SHA256=9", "10.0.0.9") // the log advances
		b.lives("worker-1", 0, 500, old, "10.0.0.1")
		c.play(b)
		got := b.findings(nil)
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], " ")
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}

// remade is a world in which the Node worker-1 is not there from a second to another.
type remade struct {
	*world
	from, to int
}

func (w *remade) NodeExists(name string, t time.Time) (exists, known bool) {
	return name != "worker-1" || t.Before(at(w.from)) || !t.Before(at(w.to)), true
}

// Whoever has the certificate of a node that is gone does not make his address the node's by what no kubelet does: by some renewals of the Lease, by those
// without a Node, or by another certificate that he asks for with the one that he has.
func TestNodeMadeElsewhereAfterALead(t *testing.T) {
	const home, thief, old = "10.0.0.1", "10.9.9.9", "X509SHA256=1"
	found := fmt.Sprintf(`medium: Node worker-1 was made anew from %s with a certificate of the machine that came from %s before`, thief, home)
	renewed := kubeletsAsk("worker-1")
	renewed.user, renewed.groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
	makes := func(b *births, cert, address string) {
		b.one(1800, "worker-1", does("create nodes worker-1"), certificate(cert), from(address), code(201))
		b.lives("worker-1", 1805, 2400, cert, address)
	}
	once := func(b *births, at int, cert string) {
		b.one(at, "worker-1", lease("worker-1"), certificate(cert), from(thief))
	}
	fresh := credentialOf("fresh")
	absent := &remade{cluster(9), 1200, 1800}
	for _, c := range []struct {
		name string
		s    State
		want bool
		play func(b *births)
	}{
		{"by a renewal before it", absent, true, func(b *births) { once(b, 1780, old); makes(b, old, thief) }},
		{"by a renewal before it, without a state", nil, true, func(b *births) { once(b, 1780, old); makes(b, old, thief) }},
		{"by a renewal while the Node is there", absent, true, func(b *births) { once(b, 1190, old); makes(b, old, thief) }},
		{"by many renewals while the Node is not there", absent, true, func(b *births) { b.lives("worker-1", 1260, 1790, old, thief); makes(b, old, thief) }},
		{"by many renewals next to the kubelet's", absent, true, func(b *births) { b.lives("worker-1", 303, 1060, old, thief); makes(b, old, thief) }},
		{"by many renewals in turns with the kubelet", nil, true, func(b *births) {
			for k := range 5 {
				b.lives("worker-1", 900+120*k, 960+120*k, old, thief)
				b.lives("worker-1", 960+120*k, 1020+120*k, old, home)
			}
			b.one(2100, "worker-1", does("create nodes worker-1"), certificate(old), from(thief), code(201))
		}},
		{"by a certificate that he asked for, and many renewals next to the kubelet's", absent, true, func(b *births) {
			b.ask(600, renewed, "fresh", thief)
			b.lives("worker-1", 613, 1060, fresh, thief)
			makes(b, fresh, thief)
		}},
		{"by many renewals among those from more addresses than are followed", nil, true, func(b *births) {
			for k := 900; k < 1740; k += minute {
				b.lives("worker-1", k, k+minute, old, thief)
				for i := range 2 * maxRenewals {
					b.one(k+1+i%9, "worker-1", lease("worker-1"), certificate(old), from(fmt.Sprintf("10.9.1.%d", i)))
				}
				b.lives("worker-1", k+15, k+minute, old, home)
			}
			makes(b, old, thief)
		}},
		{"by renewals of three minutes", nil, true, func(b *births) { b.lives("worker-1", 1260, 1435, old, thief); makes(b, old, thief) }},
		{"by renewals of three minutes with two certificates", nil, true, func(b *births) {
			b.ask(1250, renewed, "fresh", thief)
			b.lives("worker-1", 1260, 1435, old, thief)
			b.lives("worker-1", 1265, 1435, fresh, thief)
			makes(b, fresh, thief)
		}},
		{"by renewals at once", nil, true, func(b *births) {
			for s := range 9 {
				for i := range 9 {
					once(b, 1260+60*s+i, old)
				}
			}
			makes(b, old, thief)
		}},
		{"by a certificate that he asked for", absent, true, func(b *births) { b.ask(1700, renewed, "fresh", thief); makes(b, fresh, thief) }},
		{"by a certificate that he asked for long before", absent, true, func(b *births) { b.ask(600, renewed, "fresh", thief); makes(b, fresh, thief) }},
		{"by a certificate that he asked for, and a renewal", absent, true, func(b *births) {
			b.ask(600, renewed, "fresh", thief)
			once(b, 700, fresh)
			makes(b, fresh, thief)
		}},
		{"by a certificate that he asked for, without a state", nil, true, func(b *births) { b.ask(1700, renewed, "fresh", thief); once(b, 1750, fresh); makes(b, fresh, thief) }},
		{"after many certificates that he asked for", absent, true, func(b *births) {
			for i := range 2 * maxHolders {
				b.ask(1300+10*i, renewed, fmt.Sprint("fresh", i), thief)
				once(b, 1500+10*i, credentialOf(fmt.Sprint("fresh", i)))
			}
			makes(b, old, thief)
		}},
		{"after renewals from many addresses", absent, true, func(b *births) {
			for i := range 300 {
				b.one(610+i, "worker-1", lease("worker-1"), certificate(old), from(fmt.Sprintf("10.9.%d.%d", i%7, i%50)))
			}
			b.lives("worker-1", 613, 1060, old, thief)
			makes(b, old, thief)
		}},

		{"of a machine that moved before", absent, false, func(b *births) { b.lives("worker-1", 910, 1195, old, thief); makes(b, old, thief) }},
		{"of a machine that moved before, without a state", nil, false, func(b *births) { b.lives("worker-1", 1260, 1500, old, thief); makes(b, old, thief) }},
		{"of a machine that moved before, with a certificate that it asked for", absent, false, func(b *births) {
			b.lives("worker-1", 910, 1195, old, thief)
			b.ask(1180, renewed, "fresh", thief)
			makes(b, fresh, thief)
		}},
		{"at home with a certificate that it asked for", absent, false, func(b *births) { b.ask(1700, renewed, "fresh", home); makes(b, fresh, home) }},
		{"of another machine that joins", absent, false, func(b *births) { b.ask(1700, kubeletsAsk("worker-1"), "fresh", thief); makes(b, fresh, thief) }},
		{"of another machine, of whose certificate the log has nothing", absent, false, func(b *births) { makes(b, fresh, thief) }},
	} {
		b := newBirths(t)
		b.lives("worker-9", 0, 3600, "X509SHA256=9", "10.0.0.9") // the log advances, and the restart is minutes after all else
		b.lives("worker-1", 300, 900, old, home)
		c.play(b)
		all := b.findings(c.s)
		n := 0
		for _, said := range all {
			if strings.HasSuffix(said, found) {
				n++
			}
		}
		if n > 1 || (n == 1) != c.want {
			t.Errorf("%s: found %d times, want %t: %q", c.name, n, c.want, all)
		}
		if again := b.run(t, bootstrapImpersonation(), c.s, nil, 1, true); !slices.Equal(again, all) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, again, all)
		}
	}
}

// In a minute with renewals by more certificates than are followed, the kubelet's may be among those that are left out: nothing moves.
func TestCrowdMovesNoHome(t *testing.T) {
	n, h := &birthNode{name: "worker-1", dwelling: dwelling{Home: "10.0.0.1"}}, &holder{}
	for m := 1; m < 9; m++ {
		renew := func(h *holder, second int, address string) {
			n.address = address
			n.renew(h, at(m*minute+second))
		}
		for range maxRenewals {
			by := &holder{} // as many certificates as he wants
			renew(by, 0, "10.9.9.9")
			renew(by, 10, "10.9.9.9")
		}
		renew(h, 12, "10.0.0.1")
		n.dwell(minuteAt(at((m+1)*minute)), nil)
	}
	if n.Home != "10.0.0.1" || len(n.open) > 0 {
		t.Errorf("got %+v, %d open", n.dwelling, len(n.open))
	}
}

// What was stored of the credentials alone says where the node is, too.
func TestHomesOfBefore(t *testing.T) {
	d := newBirthDetector(DetectorOptions{}).(*birthDetector)
	value := `{"n":{"worker-1":[{"i":"X509SHA256=1","a":"10.0.0.1","f":"2026-11-21T06:00:00Z","u":"1","l":1,"r":1,"s":1,"h":"10.0.0.1","hs":"2026-11-21T06:00:00Z","w":"10.0.0.3"},
		{"i":"X509SHA256=2","a":"10.0.0.2","f":"2026-11-21T07:00:00Z","u":"1","l":1,"r":1,"s":1,"h":"10.0.0.2","hs":"2026-11-21T07:00:00Z"}]}}`
	if own, err := d.Restore(&Remembered{Kind: rememberedBirthNow, Value: []byte(value)}); !own || err != nil {
		t.Fatal(own, err)
	}
	n := d.nodes["worker-1"]
	if n == nil || n.Home != "10.0.0.2" || n.holders[0].Home != "10.0.0.1" || n.holders[0].Was != "10.0.0.3" {
		t.Errorf("got %+v", n)
	}
}

// Two nodes that come from an address make no gateway of it: others live behind one.
func TestNodeMadeFromSharedAddress(t *testing.T) {
	const home, thief, old, third = "10.0.0.1", "10.9.9.9", "X509SHA256=1", "X509SHA256=3"
	makes := func(b *births, at int, name, cert, address string) {
		b.one(at, name, does("create nodes "+name), certificate(cert), from(address), code(201))
	}
	lives := func(b *births, n int, address string) {
		b.lives(fmt.Sprint("worker-", n), 0, 1200, fmt.Sprint("X509SHA256=", n), address)
	}
	for _, c := range []struct {
		name string
		want string // the nodes that are found
		play func(b *births, w *world)
	}{
		{"from another node's machine", "worker-1", func(b *births, w *world) { lives(b, 2, "10.0.0.2"); makes(b, 900, "worker-1", old, "10.0.0.2") }},
		{"from another node's machine, whose address a third one had", "worker-1", func(b *births, w *world) {
			b.lives("worker-5", 0, 280, "X509SHA256=5", "10.0.0.2")
			w.sets["worker-5"] = [][]string{{"10.0.0.2"}}
			b.lives("worker-2", 300, 1200, "X509SHA256=2", "10.0.0.2")
			makes(b, 900, "worker-1", old, "10.0.0.2")
		}},
		{"two nodes from one place", "worker-1 worker-3", func(b *births, w *world) {
			b.lives("worker-3", 0, 500, third, "10.0.0.3")
			makes(b, 900, "worker-1", old, thief)
			makes(b, 910, "worker-3", third, thief)
		}},
		{"after another one has been there for a moment", "worker-1", func(b *births, w *world) {
			lives(b, 2, "10.0.0.2")
			b.one(890, "worker-2", does("list services"), certificate("X509SHA256=2"), from(thief))
			b.one(891, "worker-9", does("list services"), certificate("X509SHA256=9"), from(thief))
			makes(b, 900, "worker-1", old, thief)
		}},
		{"its address is given to another node", "worker-1", func(b *births, w *world) {
			b.lives("worker-4", 600, 1200, "X509SHA256=4", home)
			makes(b, 900, "worker-1", old, thief)
		}},
		{"through a gateway", "", func(b *births, w *world) {
			lives(b, 2, thief)
			lives(b, 3, thief)
			makes(b, 900, "worker-1", old, thief)
		}},
		{"through a gateway to one other node", "", func(b *births, w *world) { lives(b, 2, thief); makes(b, 900, "worker-1", old, thief) }},
		{"through a gateway whose address nodes report", "", func(b *births, w *world) {
			for _, n := range []int{2, 3} {
				lives(b, n, thief)
				w.sets[fmt.Sprint("worker-", n)] = [][]string{{thief}}
			}
			makes(b, 900, "worker-1", old, thief)
		}},
		{"through another node", "", func(b *births, w *world) {
			lives(b, 2, "10.0.0.2")
			lives(b, 3, "10.0.0.2")
			makes(b, 900, "worker-1", old, "10.0.0.2")
		}},
	} {
		b := newBirths(t)
		lives(b, 9, "10.0.0.9") // the log advances
		b.lives("worker-1", 0, 500, old, home)
		w := housed(9)
		c.play(b, w)
		w.sets["worker-4"] = append(w.sets["worker-4"], []string{home})
		got := map[string]bool{}
		all := b.findings(&remade{w, 510, 900})
		for _, f := range all {
			if _, of, is := strings.Cut(f, " Node "); is && strings.Contains(f, "was made anew from") {
				name, _, _ := strings.Cut(of, " ")
				got[name] = true
			}
		}
		if text := strings.Join(slices.Sorted(maps.Keys(got)), " "); text != c.want {
			t.Errorf("%s: %q, want %q\n%s", c.name, text, c.want, strings.Join(all, "\n"))
		}
	}
}
