package pipeline

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A secret is fresh to a node if nothing but the pod led the node to it when the pod came.
func TestFreshSecret(t *testing.T) {
	state := cluster.NewState()
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	v := NewView(state, nodeauthz.NewAuthorizer(state.Graph, f, time.Second))
	at := func(minute int) time.Time { return time.Date(2026, 11, 21, 6, minute, 0, 0, time.UTC) }
	pod := func(name, node string, minute int, secrets ...string) {
		state.Graph.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: name, UID: name, NodeName: node, Secrets: secrets},
			nodeauthz.Stamp{Time: at(minute), Source: nodeauthz.SourceWatch})
	}
	state.Graph.CoverFrom(at(0))
	pod("old", "worker-1", 5, "db")
	pod("web", "worker-1", 10, "db")
	pod("more", "worker-1", 15, "db", "cert")
	pod("web-2", "worker-2", 10, "db")
	pod("none", "worker-2", 10)
	for _, c := range []struct {
		pod, node string
		minute    int
		secret    string
		bound     int
	}{
		{"old", "worker-1", 6, "shop/db", 5},
		{"web", "worker-1", 11, "", 0},
		{"more", "worker-1", 16, "shop/cert", 15},
		{"web-2", "worker-2", 11, "shop/db", 10},
		{"web-2", "worker-1", 11, "", 0},
		{"none", "worker-2", 11, "", 0},
		{"old", "worker-1", 4, "", 0},
	} {
		secret, bound, ok := v.FreshSecret("shop", c.pod, c.node, at(c.minute))
		if secret != c.secret || ok != (c.secret != "") || ok && !bound.Equal(at(c.bound)) {
			t.Errorf("pod %s on %s at minute %d: %q bound at %s", c.pod, c.node, c.minute, secret, bound)
		}
	}
}
