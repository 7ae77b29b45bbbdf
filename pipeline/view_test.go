package pipeline

import (
	"fmt"
	"strings"
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

// A kubelet that joins asks before its Node is there. A state that is complete knows whether one came; a live one waits for it.
func TestNodeRegistered(t *testing.T) {
	journal := &strings.Builder{}
	entry := func(second int, verb, name string) {
		fmt.Fprintf(journal, `{"observedAt":"2026-11-21T06:00:%02dZ","type":%q,"object":{"kind":"Node","apiVersion":"v1","metadata":{%s"resourceVersion":"%d"}}}`+"\n",
			second, verb, name, second)
	}
	entry(0, "ADDED", `"name":"worker-1","uid":"u1",`)
	entry(1, "BOOKMARK", `"annotations":{"k8s.io/initial-events-end":"true"},`)
	state := cluster.NewState()
	if err := state.Load([]string{"-"}, strings.NewReader(journal.String())); err != nil {
		t.Fatal(err)
	}
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	auth := nodeauthz.NewAuthorizer(state.Graph, f, time.Second)
	whole, live := NewView(state, auth), NewLiveView(state, auth)
	begin := time.Date(2026, 11, 21, 6, 1, 0, 0, time.UTC)
	for _, c := range []struct {
		name                    string
		after                   time.Duration
		registered, known, soon bool // soon: as a live state says
	}{
		{"worker-1", 0, true, true, true},
		{"worker-2", 0, false, true, false},
		{"worker-2", joinsWithin - 1, false, true, false},
		{"worker-2", joinsWithin, false, true, true},
		{"worker-3", joinsWithin, false, true, false}, // each name has its time
		{"Worker-1", 0, false, true, true},            // no other Node is to be expected
		{"worker-2", -time.Hour, false, false, false}, // before the state begins
	} {
		at := begin.Add(c.after)
		if registered, known := whole.NodeRegistered(c.name, at); registered != c.registered || known != c.known {
			t.Errorf("%s after %s: %t, %t", c.name, c.after, registered, known)
		}
		if registered, known := live.NodeRegistered(c.name, at); registered != c.registered || known != c.soon {
			t.Errorf("%s after %s, live: %t, %t", c.name, c.after, registered, known)
		}
	}
	for i := range 3 * mostAsked {
		live.NodeRegistered(fmt.Sprint("ghost-", i), begin)
	}
	if n := len(live.asked); n > mostAsked {
		t.Errorf("%d names are remembered", n)
	}
}
