package nodeauthz

import (
	"testing"
	"time"
)

// A node has had a pod of a namespace from the first one on, also when that is gone and forgotten, and by when it turns out to have been there.
func TestHadPodIn(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	g := NewGraph()
	watched := func(after time.Duration) Stamp { return Stamp{Time: from.Add(after), Source: SourceWatch} }
	g.SetPod(&Pod{Namespace: "shop", Name: "web", NodeName: "a", UID: "1"}, watched(time.Hour))
	g.SetPod(&Pod{Namespace: "shop", Name: "web-2", NodeName: "a", UID: "2"}, watched(2*time.Hour))
	g.SetPod(&Pod{Namespace: "vault", Name: "vault-0", NodeName: "b", UID: "3"}, watched(0))
	g.DeletePod("shop", "web", "1", watched(3*time.Hour))
	g.DeletePod("shop", "web-2", "2", watched(3*time.Hour))
	g.Prune(from.Add(9 * time.Hour))
	for _, c := range []struct {
		namespace, node string
		after           time.Duration
		want            bool
	}{
		{"shop", "a", 50 * time.Minute, false}, {"shop", "a", time.Hour, true}, {"shop", "a", 10 * time.Hour, true},
		{"vault", "a", 10 * time.Hour, false}, {"vault", "b", time.Hour, true}, {"shop", "b", 10 * time.Hour, false}, {"other", "a", time.Hour, false}, {"shop", "c", time.Hour, false},
	} {
		if got := g.HadPodIn(c.namespace, c.node, from.Add(c.after)); got != c.want {
			t.Errorf("%s on %s after %s: %t", c.namespace, c.node, c.after, got)
		}
	}
}
