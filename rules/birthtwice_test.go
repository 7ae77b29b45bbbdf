package rules

import (
	"slices"
	"strings"
	"testing"
)

// Two machines that get a certificate of one node before there is a Node are two; one that is made again, or asks again, is one.
func TestBirthTwice(t *testing.T) {
	a := kubeletsAsk("worker-1")
	installs := a
	installs.user = "ops"
	joins := func(b *births, at int, cert, address string) {
		b.ask(at, a, cert, address)
		b.lives("worker-1", at+5, at+200, credentialOf(cert), address)
	}
	none := &world{nodes: []string{"worker-1"}, gone: map[string]int{"worker-1": 0}}
	const (
		late  = `medium: user "system:bootstrap:abcdef" got a certificate of node worker-1 from 10.9.9.9, and another one was issued to 10.0.0.1 before, without a Node in between`
		early = `medium: user "system:bootstrap:abcdef" got a certificate of node worker-1 from 10.0.0.1, and another one was issued to 10.9.9.9 before, without a Node in between`
	)
	for _, c := range []struct {
		name string
		s    State
		play func(b *births)
		want []string
	}{
		{"before the join", nil, func(b *births) { b.ask(300, a, "evil", "10.9.9.9"); joins(b, 900, "new", "10.0.0.1") }, []string{early}},
		{"before the join, with a state", none, func(b *births) { b.ask(300, a, "evil", "10.9.9.9"); joins(b, 900, "new", "10.0.0.1") }, []string{early}},
		{"before the join, and used", none, func(b *births) {
			b.ask(300, a, "evil", "10.9.9.9")
			b.one(400, "worker-1", certificate(credentialOf("evil")), from("10.9.9.9"))
			joins(b, 900, "new", "10.0.0.1")
		}, []string{early}},
		{"in the seconds of the join", nil, func(b *births) {
			b.ask(900, a, "new", "10.0.0.1")
			b.ask(902, a, "evil", "10.9.9.9")
			b.lives("worker-1", 915, 1200, credentialOf("new"), "10.0.0.1")
		}, []string{late}},
		{"not signed", nil, func(b *births) { b.ask(300, a, "", "10.9.9.9"); joins(b, 900, "new", "10.0.0.1") }, nil},
		{"by who is trusted, second", nil, func(b *births) {
			b.ask(600, a, "evil", "10.9.9.9")
			b.ask(900, installs, "new", "10.0.0.1")
			b.lives("worker-1", 905, 1100, credentialOf("new"), "10.0.0.1")
		}, nil},
		{"by who is trusted, both", nil, func(b *births) {
			b.ask(600, installs, "first", "10.9.9.9")
			b.ask(900, installs, "new", "10.0.0.1")
			b.lives("worker-1", 905, 1100, credentialOf("new"), "10.0.0.1")
		}, nil},
		{"a second attempt of the machine", nil, func(b *births) { b.ask(600, a, "first", "10.0.0.1"); joins(b, 900, "new", "10.0.0.1") }, nil},
		{"a second attempt by the other family", nil, func(b *births) { b.ask(600, a, "first", "fd00::1"); joins(b, 900, "new", "10.0.0.1") }, nil},
		{"the same certificate", nil, func(b *births) { b.ask(600, a, "new", "10.9.9.9"); joins(b, 900, "new", "10.0.0.1") }, nil},
		{"another node", nil, func(b *births) {
			b.ask(300, kubeletsAsk("worker-2"), "other", "10.9.9.9")
			joins(b, 900, "new", "10.0.0.1")
		}, nil},
		{"through a gateway", nil, func(b *births) {
			b.lives("worker-2", 0, 300, "X509SHA256=2", "10.9.9.9")
			b.lives("worker-3", 0, 300, "X509SHA256=3", "10.9.9.9")
			b.ask(600, a, "first", "10.9.9.9")
			joins(b, 900, "new", "10.0.0.1")
		}, nil},
		{"made again, after its Node was deleted", &world{nodes: []string{"worker-1"}, gone: map[string]int{"worker-1": 800}}, func(b *births) {
			joins(b, 300, "old", "10.9.9.9")
			joins(b, 900, "new", "10.0.0.1")
		}, []string{`low: user "system:bootstrap:abcdef" asked for a certificate of node worker-1, which exists, as when somebody sets it up again, from 10.9.9.9`}},
		{"made again, with a Node in between", &world{nodes: []string{"worker-1"}, gone: map[string]int{"worker-1": 0}, created: map[string]int{"worker-1": 500}}, func(b *births) {
			joins(b, 300, "old", "10.9.9.9")
			joins(b, 900, "new", "10.0.0.1")
		}, nil},
	} {
		b := newBirths(t)
		b.options.Bootstrap.Trusted = []string{"ops"}
		b.lives("worker-9", 0, 1400, "X509SHA256=9", "10.0.0.9") // the log advances
		c.play(b)
		got := b.detects(t, bootstrapImpersonation(), c.s)
		if again := b.run(t, bootstrapImpersonation(), c.s, nil, 1, true); !slices.Equal(again, got) {
			t.Errorf("%s, restarted: %q, not %q", c.name, again, got)
		}
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], " ")
		}
		if got = slices.DeleteFunc(got, func(s string) bool { return strings.HasPrefix(s, "medium: a certificate") }); !slices.Equal(got, c.want) {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
}
