package evidence

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
)

// What one event changes is handed out, whatever the event is: who stores the changes after each event knows all that the ledger knows.
func TestEveryEventsChangeIsHandedOut(t *testing.T) {
	r := rand.New(rand.NewPCG(36, 1))
	verbs := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	objects := []struct{ group, resource, subresource, namespace, name string }{
		{leaseGroup, "leases", "", nodeLeases, "a"}, {leaseGroup, "leases", "", nodeLeases, "b"}, {"apps", "leases", "", nodeLeases, "a"},
		{leaseGroup, "leases", "status", nodeLeases, "a"}, {leaseGroup, "leases", "", serverLeases, "apiserver-0"},
		{"", "pods", "", "shop", "web"}, {"", "pods", "status", "shop", "web"}, {"", "pods", "", "", ""}, {"", "nodes", "", "", "a"},
		{"", "secrets", "", "shop", "db"}, {"", "services", "", "", ""}, {"storage.k8s.io", "csidrivers", "", "", ""},
	}
	of := func(second int) seen {
		o := objects[r.IntN(len(objects))]
		s := request("a", verbs[r.IntN(len(verbs))], o.group, o.resource, o.namespace, o.name, noon.Add(time.Duration(second)*time.Second))
		s.ev.ObjectRef.Subresource = o.subresource
		s.ev.Code = []int32{0, 200, 201, 403, 409, 500}[r.IntN(6)]
		s.ev.StageTime = s.ev.RequestReceived.Add(time.Duration(r.IntN(180)) * time.Minute)
		s.ev.Decision = []string{"", "allow", "forbid"}[r.IntN(3)]
		s.o.Kubelet = r.IntN(2) == 0
		if r.IntN(4) == 0 {
			s.o.Source = "10.0.0.7"
		}
		return s
	}
	for round := range 30 {
		l, stored := New(), New()
		for range 60 {
			s := of(r.IntN(7200))
			ledgerOf(l, s)
			exchange(t, l, stored, true)
			if diff := cmp.Diff(dump(t, l), dump(t, stored)); diff != "" {
				t.Fatalf("round %d: %s of %v (-known +stored):\n%s", round, s.ev.Verb, s.ev.ObjectRef, diff)
			}
		}
	}
}

// A request without a time, or one that only begins, says nothing; nor does a lease of another API group, or a part of one, renew anything.
func TestWhatSaysNothing(t *testing.T) {
	for name, s := range map[string]seen{
		"no time": renewal("a", time.Time{}),
		"a request that begins": renewal("a", minutes(1)).change(func(ev *audit.Event) {
			ev.Stage, ev.Code = audit.StageRequestReceived, 0
		}),
		"impersonation":              renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.IsImpersonated = true }),
		"a server's lease of a CRD":  serverRenewal("apiserver-0", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.APIGroup = "example.com" }),
		"a server's candidate":       serverRenewal("apiserver-0", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.Resource = "leasecandidates" }),
		"a part of a server's lease": serverRenewal("apiserver-0", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.Subresource = "status" }),
	} {
		if got := dump(t, ledgerOf(New(), s)); len(got) != 0 {
			t.Errorf("%s: got %v", name, got)
		}
	}
	own := ledgerOf(New(), renewal("a", minutes(1)).change(func(ev *audit.Event) { ev.ObjectRef.APIGroup = "example.com" }))
	if diff := cmp.Diff(dump(t, ledgerOf(New(), renewal("a", minutes(1)))), dump(t, own)); diff == "" {
		t.Error("an object of a CRD named leases counts as the node's Lease")
	}
}

// What fits exactly is kept, and nothing is said to be dropped; one more of a kind is said to be.
func TestBoundsAreReachedExactly(t *testing.T) {
	for name, c := range map[string]struct {
		of   func(i int) seen
		most int
		over Overflow
	}{
		"nodes":   {func(i int) seen { return renewal(fmt.Sprintf("n%d", i), minutes(1)) }, 3, OverNodes},
		"servers": {func(i int) seen { return serverRenewal(fmt.Sprintf("apiserver-%d", i), minutes(1)) }, 3, OverServers},
		"sources": {func(i int) seen { s := renewal("a", minutes(1)); s.o.Source = fmt.Sprintf("10.0.0.%d", i); return s }, 3, OverSources},
	} {
		l := New()
		l.max.nodes, l.max.servers, l.max.sources = c.most, c.most, c.most
		for i := range c.most {
			ledgerOf(l, c.of(i))
		}
		if got := l.Overflow(HourOf(noon)); got != 0 {
			t.Errorf("%d %s: overflow %b", c.most, name, got)
		}
		ledgerOf(l, c.of(c.most))
		if got := l.Overflow(HourOf(noon)); got != c.over {
			t.Errorf("%d %s: overflow %b, want %b", c.most+1, name, got, c.over)
		}
	}
	long := renewal("a", minutes(1))
	long.o.Source = strings.Repeat("a", MaxName+1)
	if got := ledgerOf(New(), long).Overflow(HourOf(noon)); got != OverSources {
		t.Errorf("a source's name that is too long: overflow %b", got)
	}
}

// Names that no Node and no Lease can have are in no entry and lose nothing, and neither does a record of a former release that says so.
func TestImpossibleNamesLoseNothing(t *testing.T) {
	for _, name := range []string{strings.Repeat("a", MaxName+1), "Worker", "a_b", "a..b", "a/b", "\xff"} {
		l := ledgerOf(New(), renewal(name, minutes(1)), serverRenewal("apiserver-"+name, minutes(1)))
		h := HourOf(noon)
		if got := l.Overflow(h); got != 0 || len(l.Nodes(h, h)) != 0 || len(l.Servers(h, h)) != 0 {
			t.Errorf("%q: overflow %b, nodes %q, servers %q", name, got, l.Nodes(h, h), l.Servers(h, h))
		}
	}
	l := New()
	if err := l.Put(Key{Kind: KindOverflow, Hour: HourOf(noon)}, []byte{codecVersion, byte(OverNodes | overNames)}); err != nil || l.Overflow(HourOf(noon)) != OverNodes {
		t.Errorf("a record of a former release: %v, overflow %b", err, l.Overflow(HourOf(noon)))
	}
}

// A refused request shows no API server, whatever its user is named.
func TestRefusedRequestsShowNoServer(t *testing.T) {
	for what, how := range map[string]func(*audit.Event){
		"forbidden":       func(ev *audit.Event) { ev.Code, ev.Decision = 403, "forbid" },
		"only a decision": func(ev *audit.Event) { ev.Code, ev.Decision = 0, "forbid" },
		"no decision":     func(ev *audit.Event) { ev.Code, ev.Decision = 403, "" },
		"unauthorized":    func(ev *audit.Event) { ev.Code, ev.Decision = 401, "" },
	} {
		for _, verb := range []string{"get", "create", "update"} {
			s := serverRenewal("apiserver-0", minutes(1)).change(how).change(func(ev *audit.Event) { ev.Verb = verb })
			if got := dump(t, ledgerOf(New(), s)); len(got) != 0 {
				t.Errorf("%s, %s: %v", what, verb, got)
			}
		}
	}
}
