package rules

import (
	"slices"
	"strings"
	"testing"
)

// A certificate that makes a Node anew comes from where it came from before, unless it was copied.
func TestNodeMadeElsewhere(t *testing.T) {
	const found = `medium: Node worker-1 was made anew from 10.9.9.9 with the certificate that was used from 10.0.0.1 before`
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
		{"by the other family", func(b *births) { makes(b, 900, old, "fd00::9", 201) }, nil},
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
