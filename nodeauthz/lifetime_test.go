package nodeauthz

import (
	"testing"
	"time"
)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func authorizerOver(t testing.TB, g *Graph, skew time.Duration) *Authorizer {
	t.Helper()
	f, err := FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	return NewAuthorizer(g, f, skew)
}

func webPod(node string) *Pod {
	return &Pod{Namespace: "shop", Name: "web-1", UID: "00000000-0000-4000-8000-000000000001", NodeName: node,
		ServiceAccountName: "web", Secrets: []string{"db", "db", ""}, ConfigMaps: []string{"cfg"},
		PersistentVolumeClaims: []string{"data"}}
}

func TestLifetimes(t *testing.T) {
	g := NewGraph()
	g.CoverFrom(at(0))
	g.SetPod(webPod(""), watched(at(500)))
	g.SetPod(webPod("n1"), watched(at(1000)))
	g.SetPersistentVolume(&PersistentVolume{Name: "pv", UID: "x", Claim: &NamespacedName{"shop", "data"},
		Secrets: []NamespacedName{{"storage", "csi"}}}, watched(at(2000)))
	g.DeletePod("shop", "web-1", webPod("").UID, watched(at(5000)))
	second := webPod("n2")
	second.UID = "00000000-0000-4000-8000-000000000002"
	g.SetPod(second, watched(at(6000)))

	a := authorizerOver(t, g, 100*time.Millisecond)
	f := func(node, verb, resource, ns, name string, ms int, want Verdict, race bool) {
		t.Helper()
		got := a.Decide(request(node, verb, resource, ns, name), at(ms))
		if got.Verdict != want || got.Race != race {
			t.Errorf("%s %s %s/%s by %s at %dms: got %v race=%v, want %v race=%v", verb, resource, ns, name, node, ms,
				got.Verdict, got.Race, want, race)
		}
	}
	for _, c := range []struct{ resource, ns, name string }{
		{"secrets", "shop", "db"}, {"configmaps", "shop", "cfg"}, {"serviceaccounts", "shop", "web"}, {"pods", "shop", "web-1"},
		{"persistentvolumeclaims", "shop", "data"},
	} {
		f("n1", "get", c.resource, c.ns, c.name, -10, Unknown, false)
		f("n1", "get", c.resource, c.ns, c.name, 700, Deny, false)
		f("n1", "get", c.resource, c.ns, c.name, 950, Deny, true)
		f("n1", "get", c.resource, c.ns, c.name, 1000, Allow, true)
		f("n1", "get", c.resource, c.ns, c.name, 1101, Allow, false)
		f("n1", "get", c.resource, c.ns, c.name, 4950, Allow, true)
		f("n1", "get", c.resource, c.ns, c.name, 5050, Deny, true)
		f("n1", "get", c.resource, c.ns, c.name, 5101, Deny, false)
		f("n2", "get", c.resource, c.ns, c.name, 3000, Deny, false)
		f("n2", "get", c.resource, c.ns, c.name, 7000, Allow, false)
		f("n1", "get", c.resource, c.ns, c.name, 7000, Deny, false)
	}
	f("n1", "get", "secrets", "storage", "csi", 1500, Deny, false)
	f("n1", "get", "secrets", "storage", "csi", 3000, Allow, false)
	f("n2", "get", "persistentvolumes", "", "pv", 7000, Allow, false)

	ex := a.Explain(request("n1", "get", "secrets", "storage", "csi"), at(3000))
	if want := "secret storage/csi -> persistent volume pv -> persistent volume claim shop/data -> pod shop/web-1 -> node n1"; ex.Path.String() != want {
		t.Errorf("path %q, want %q", ex.Path, want)
	}
	if got, want := a.RaceDetail(request("n1", "get", "secrets", "shop", "db"), at(988)), "pod shop/web-1 was bound to n1 12ms later"; got != want {
		t.Errorf("detail %q, want %q", got, want)
	}
	ex = a.Explain(request("n1", "get", "secrets", "shop", "db"), at(7000))
	if len(ex.Leads) != 1 || ex.Leads[0].String() != "secret shop/db -> pod shop/web-1 -> node n2" || ex.Last == nil || !ex.Last.To.Equal(at(5000)) {
		t.Errorf("explanation of a deny: %+v", ex)
	}

	g.Prune(at(5500))
	f("n1", "get", "secrets", "shop", "db", 3000, Unknown, false)
	f("n1", "get", "secrets", "shop", "db", 7000, Deny, false)
	f("n2", "get", "secrets", "storage", "csi", 7000, Allow, false)
}
