package rules

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// That somebody sets up a node again is open until the old credential can no longer come back. The kubelet's use of it shows that somebody else asked; silence, and the use by
// others, do not.
func TestOldCredentialComesBack(t *testing.T) {
	const (
		old, home, thief = "X509SHA256=1", "10.0.0.1", "10.9.9.9"
		again            = `low: user "system:bootstrap:abcdef" asked for a certificate of node worker-1, which exists, as when somebody sets it up again, from `
		live             = `critical: user "system:bootstrap:abcdef" got a certificate of node worker-1 while its kubelet was running with another credential, from 10.9.9.9`
		waits            = `high: user "system:bootstrap:abcdef" asked for a certificate of node worker-1 while its kubelet was running with another credential; it is not signed, from 10.9.9.9`
	)
	back := func(cert, at string) string {
		return `critical: user "system:bootstrap:abcdef" got a certificate of node worker-1, whose kubelet used its old credential ` + cert +
			` again after that, first within 10 seconds of 2026-11-21T` + at + `Z, from 10.9.9.9`
	}
	a := kubeletsAsk("worker-1")
	own := a
	own.user, own.groups = "system:node:worker-1", []string{"system:nodes", "system:authenticated"}
	installs := a
	installs.user = "ops"
	status := func(b *births, at int, changes ...with) {
		b.one(at, "worker-1", append([]with{does("patch nodes/status worker-1"), certificate(old), from(home)}, changes...)...)
	}
	signs := func(b *births, at int, name, cert string) {
		late := a
		late.cert = cert
		b.one(at, name+"-a", signing(t, late, "approval", name))
		b.one(at, name+"-s", signing(t, late, "status", name))
	}
	slow := func(b *births, from_, to int) {
		for s := from_; s < to; s += minute {
			b.one(s, "worker-1", lease("worker-1"), certificate(old), from(home))
		}
	}
	evil, fresh := credentialOf("evil"), credentialOf("fresh")
	for _, c := range []struct {
		name string
		end  int
		play func(b *births)
		want []string
	}{
		{"a reboot", 1800, func(b *births) {
			b.lives("worker-1", 0, 580, old, home)
			b.ask(605, a, "evil", thief)
			b.lives("worker-1", 672, 1800, old, home)
		}, []string{again + thief, back(old, "06:11:10")}},
		{"a reboot, and he uses the certificate", 1800, func(b *births) {
			b.lives("worker-1", 0, 580, old, home)
			b.ask(605, a, "evil", thief)
			b.lives("worker-1", 607, 1800, evil, thief)
			b.lives("worker-1", 700, 1800, old, home)
		}, []string{again + thief, back(old, "06:11:40"), "medium"}},
		{"a reboot, and he uses as many certificates as he wants", 2400, func(b *births) {
			b.lives("worker-1", 0, 580, old, home)
			b.ask(605, a, "evil", thief)
			b.lives("worker-1", 607, 1200, evil, thief)
			for i := range 2 * maxHolders {
				b.ask(700+i, own, fmt.Sprint("more", i), thief)
				b.lives("worker-1", 720+i%9, 2400, credentialOf(fmt.Sprint("more", i)), thief)
			}
			b.lives("worker-1", 1285, 2400, old, home)
		}, []string{again + thief, back(old, "06:21:20"), "medium"}},
		{"an API server's restart", 1800, func(b *births) {
			b.lives("worker-1", 0, 520, old, home)
			b.ask(600, a, "evil", thief)
			b.lives("worker-1", 612, 1800, old, home)
		}, []string{back(old, "06:10:20")}},
		{"a slow Lease", 1800, func(b *births) {
			slow(b, 20, 1800)
			b.ask(615, a, "evil", thief)
		}, []string{again + thief, back(old, "06:11:20")}},
		{"a slow Lease, just after the kubelet renewed its certificate", 1800, func(b *births) {
			slow(b, 5, 600)
			b.ask(590, own, "own", home)
			b.ask(597, a, "evil", thief)
			b.lives("worker-1", 599, 1800, credentialOf("own"), home)
		}, []string{back(credentialOf("own"), "06:10:10")}},
		{"the log has no Leases", 1800, func(b *births) {
			for s := 0; s < 1800; s += 300 {
				status(b, s+7)
			}
			b.ask(615, a, "evil", thief)
		}, []string{again + thief, back(old, "06:15:00")}},
		{"the old machine still runs", 1800, func(b *births) {
			b.lives("worker-1", 0, 500, old, home)
			b.ask(605, a, "fresh", thief)
			b.lives("worker-1", 607, 1800, fresh, thief)
			b.lives("worker-1", 1205, 1800, old, home)
		}, []string{again + thief, back(old, "06:20:00")}},
		{"signed while the node is silent", 1800, func(b *births) {
			b.lives("worker-1", 0, 800, old, home)
			b.ask(600, a, "", thief)
			signs(b, 850, "csr-1", "evil")
			b.lives("worker-1", 935, 1800, old, home)
		}, []string{waits, back(old, "06:15:30")}},
		{"a day later", 25 * hour, func(b *births) {
			b.lives("worker-1", 0, 500, old, home)
			b.ask(605, a, "evil", thief)
			b.lives("worker-1", 24*hour, 24*hour+200, old, home)
		}, []string{again + thief, back(old, "06:00:00")}},
		{"by two requests", 1800, func(b *births) {
			b.lives("worker-1", 0, 580, old, home)
			b.ask(605, a, "evil", thief)
			b.ask(615, a, "worse", thief)
			b.lives("worker-1", 700, 1800, old, home)
		}, []string{again + thief, again + thief, back(old, "06:11:40"), back(old, "06:11:40")}},

		{"set up again", 1800, func(b *births) {
			b.lives("worker-1", 0, 595, old, home)
			b.ask(605, a, "fresh", home)
			b.lives("worker-1", 607, 1800, fresh, home)
		}, []string{again + home}},
		{"set up again, and the certificate is renewed", 1800, func(b *births) {
			b.lives("worker-1", 0, 595, old, home)
			b.ask(605, a, "fresh", home)
			b.lives("worker-1", 607, 900, fresh, home)
			b.ask(900, own, "next", home)
			b.lives("worker-1", 905, 1800, credentialOf("next"), home)
		}, []string{again + home}},
		{"set up again twice", 1800, func(b *births) {
			b.lives("worker-1", 0, 595, old, home)
			b.ask(605, a, "fresh", home)
			b.lives("worker-1", 607, 900, fresh, home)
			b.ask(920, a, "next", home)
			b.lives("worker-1", 925, 1800, credentialOf("next"), home)
		}, []string{again + home, again + home}},
		{"the old process sends until it stops", 1800, func(b *births) {
			b.lives("worker-1", 0, 595, old, home)
			b.ask(605, a, "fresh", home)
			status(b, 609)
			b.lives("worker-1", 610, 1800, fresh, home)
		}, []string{again + home}},
		{"a service has the old certificate in memory", 1800, func(b *births) {
			b.lives("worker-1", 0, 595, old, home)
			b.ask(605, a, "fresh", home)
			b.lives("worker-1", 607, 1800, fresh, home)
			for s := 610; s < 1800; s += 30 {
				status(b, s, agent("node-problem-detector/v0.8"))
			}
		}, []string{again + home}},
		{"what the old credential is refused", 1800, func(b *births) {
			b.lives("worker-1", 0, 595, old, home)
			b.ask(605, a, "fresh", home)
			b.lives("worker-1", 607, 1800, fresh, home)
			status(b, 700, code(401))
			status(b, 800, code(403))
			status(b, 900, code(404))
		}, []string{again + home}},
		{"who is trusted", 1800, func(b *births) {
			b.lives("worker-1", 0, 580, old, home)
			b.ask(605, installs, "fresh", thief)
			b.lives("worker-1", 700, 1800, old, home)
		}, []string{strings.Replace(again, "system:bootstrap:abcdef", "ops", 1) + thief}},
		{"not signed", 1800, func(b *births) {
			b.lives("worker-1", 0, 580, old, home)
			b.ask(605, a, "", thief)
			b.lives("worker-1", 700, 1800, old, home)
		}, []string{again + thief}},
		{"signed after the old machine was turned off", 1800, func(b *births) {
			b.lives("worker-1", 0, 800, old, home)
			b.ask(600, a, "", thief)
			signs(b, 850, "csr-1", "fresh")
			b.lives("worker-1", 855, 1800, fresh, thief)
		}, []string{waits}},
		{"more than a day later", 27 * hour, func(b *births) {
			b.lives("worker-1", 0, 500, old, home)
			b.ask(605, a, "fresh", thief)
			b.lives("worker-1", 25*hour+620, 25*hour+900, old, home)
		}, []string{again + thief}},
		{"without credential IDs", 1800, func(b *births) {
			b.lives("worker-1", 0, 580, "", home)
			b.ask(605, a, "evil", thief)
			b.lives("worker-1", 700, 1800, "", home)
		}, []string{again + thief}},
		{"the node lives", 1800, func(b *births) {
			b.lives("worker-1", 0, 1800, old, home)
			b.ask(605, a, "evil", thief)
		}, []string{live}},
	} {
		b := newBirths(t)
		b.options.Bootstrap.Trusted = []string{"ops"}
		for s := 0; s < c.end; s += 10 + c.end/1500 { // the log advances
			b.one(s, "worker-9", lease("worker-9"), certificate("X509SHA256=9"), from("10.0.0.9"))
		}
		c.play(b)
		all := b.findings(nil)
		if again := b.run(t, bootstrapImpersonation(), nil, nil, 1, true); !slices.Equal(again, all) {
			t.Errorf("%s, over a restart: got %q, want %q", c.name, again, all)
		}
		for i := range all {
			_, all[i], _ = strings.Cut(all[i], " ")
		}
		want := slices.DeleteFunc(slices.Clone(c.want), func(s string) bool { return s == "medium" })
		all = slices.DeleteFunc(all, func(s string) bool { return len(want) < len(c.want) && strings.HasPrefix(s, "medium: ") })
		if c.name == "a day later" { // on the next day
			want[1] = strings.Replace(want[1], "-21T", "-22T", 1)
		}
		if !slices.Equal(all, want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, all, want)
		}
	}
}

// Whoever asks for many certificates does not get rid of the one that is open.
func TestRoomKeepsWhatIsOpen(t *testing.T) {
	d := newBirthDetector(DetectorOptions{}).(*birthDetector)
	d.nodes["worker-1"] = &birthNode{name: "worker-1"}
	open := &birth{Key: "open", User: "system:bootstrap:abcdef", Node: "worker-1", Judged: true, Signed: at(1), Old: []string{"X509SHA256=1"}, slot: d.slots.take()}
	d.open[open.Key] = open
	for i := range maxOpenBirths - 1 {
		key := fmt.Sprint("more-", i)
		d.open[key] = &birth{Key: key, User: open.User, Node: "worker-1", At: at(2), Signed: at(3), slot: d.slots.take()}
	}
	d.makeRoom()
	if d.open[open.Key] != open || len(d.open) >= maxOpenBirths {
		t.Errorf("it is not there any more, of %d", len(d.open))
	}
}

// Whoever uses many certificates of a node does not get its old credential forgotten as long as that is open, and no longer.
func TestNodeKeepsOldCredential(t *testing.T) {
	for _, c := range []struct {
		until int
		want  bool
	}{{2000, true}, {900, false}} {
		d := newBirthDetector(DetectorOptions{}).(*birthDetector)
		n := &birthNode{name: "worker-1"}
		for i := range maxHolders {
			n.holders = append(n.holders, &holder{ID: fmt.Sprint("more-", i), Last: stepOf(at(500 + i*10)), dwelling: dwelling{Lived: livesFor}})
		}
		old := &holder{ID: "old", Last: stepOf(at(100)), Kept: stepOf(at(c.until))}
		n.holders[0] = old
		d.holder(n, request(node("worker-1"), when(1000)), "another", "10.9.9.9")
		if slices.Contains(n.holders, old) != c.want || len(n.holders) != maxHolders {
			t.Errorf("kept until %d: %t, of %d", c.until, !c.want, len(n.holders))
		}
	}
}
