package nodeauthz

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
)

func TestSteps(t *testing.T) {
	for want, s := range map[string]Step{
		"node n1":              {Name: "n1"},
		"node ":                {},
		"secret shop/db":       {KindSecret, "shop", "db"},
		"persistent volume pv": {KindPersistentVolume, "", "pv"},
		"volume attachment va": {KindVolumeAttachment, "", "va"},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v is %q, want %q", s, got, want)
		}
	}
	if got := (Path{}).String(); got != "" {
		t.Errorf("no path is %q", got)
	}
}

func TestExplainAllow(t *testing.T) {
	a := NewAuthorizer(someOfEach(), featuresWith(t, "1.36", map[string]bool{"PodCertificateRequest": true}), 0)
	const end = " -> pod shop/web-1 -> node n1"
	for text, want := range map[string]string{
		"get secrets shop/db":                                     "secret shop/db" + end,
		"watch configmaps shop/cfg":                               "configmap shop/cfg" + end,
		"create serviceaccounts/token shop/web":                   "service account shop/web" + end,
		"get persistentvolumeclaims shop/data":                    "persistent volume claim shop/data" + end,
		"get persistentvolumes pv":                                "persistent volume pv -> persistent volume claim shop/data" + end,
		"get secrets storage/csi":                                 "secret storage/csi -> persistent volume pv -> persistent volume claim shop/data" + end,
		"get resource.k8s.io:resourceclaims shop/gpu":             "resource claim shop/gpu" + end,
		"get pods shop/web-1":                                     "pod shop/web-1 -> node n1",
		"get storage.k8s.io:volumeattachments va":                 "volume attachment va -> node n1",
		"get resource.k8s.io:resourceslices slice":                "resource slice slice -> node n1",
		"get certificates.k8s.io:podcertificaterequests shop/pcr": "pod certificate request shop/pcr -> node n1",
	} {
		ex := a.Explain(ask(t, "n1", text), at(0))
		switch {
		case ex.Path == nil || ex.Object == nil:
			t.Errorf("%s: %+v", text, ex)
		case ex.Path.String() != want || *ex.Object != ex.Path.Steps[0] || ex.Detail != "" || ex.Last != nil || ex.Next != nil || len(ex.Leads) > 0:
			t.Errorf("%s: %s of %+v", text, ex.Path, ex)
		case !ex.Path.From.Equal(at(-10_000)) || !ex.Path.To.IsZero():
			t.Errorf("%s: from %s to %s", text, ex.Path.From, ex.Path.To)
		}
	}
}

func TestExplainWithoutTheGraph(t *testing.T) {
	a := authorizerOver(t, someOfEach(), 0)
	f := func(node, text string) {
		t.Helper()
		r := ask(t, node, text)
		if diff := cmp.Diff(Explanation{Answer: a.Decide(r, at(0))}, a.Explain(r, at(0)), cmp.AllowUnexported(Path{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if got := a.RaceDetail(r, at(0)); got != "" {
			t.Errorf("%s: %q", text, got)
		}
	}
	f("n1", "list pods - spec.nodeName=n1")
	f("n1", "list secrets shop/-")
	f("", "get secrets shop/db")
	r := ask(t, "n1", "get secrets shop/db")
	r.User = &user.DefaultInfo{Name: "jane"}
	if ex := a.Explain(r, at(0)); ex.Verdict != NotNode || ex.Object != nil {
		t.Errorf("another user: %+v", ex)
	}
}

// texts are an explanation's evidence in words, each path with the time in which it was there.
func texts(ex Explanation) map[string]string {
	out := map[string]string{}
	when := func(p *Path) string {
		ms := func(t time.Time) string {
			if t.IsZero() {
				return ""
			}
			return fmt.Sprint(t.Sub(epoch).Milliseconds())
		}
		return p.String() + " " + ms(p.From) + "-" + ms(p.To)
	}
	for name, p := range map[string]*Path{"path": ex.Path, "last": ex.Last, "next": ex.Next} {
		if p != nil {
			out[name] = when(p)
		}
	}
	for i := range ex.Leads {
		out[fmt.Sprint("lead ", i)] = when(&ex.Leads[i])
	}
	if ex.Others > 0 {
		out["others"] = fmt.Sprint(ex.Others)
	}
	if ex.Detail != "" {
		out["detail"] = ex.Detail
	}
	return out
}

func TestExplainOverTime(t *testing.T) {
	g := covered()
	one := func(name, uid, node string, from, to int) {
		g.SetPod(&Pod{Namespace: "shop", Name: name, UID: uid, NodeName: node, Secrets: []string{"db"}}, watched(at(from)))
		if to > 0 {
			g.DeletePod("shop", name, uid, watched(at(to)))
		}
	}
	one("a", "1", "n1", 1000, 2000)
	one("b", "2", "n1", 1500, 3000)
	one("c", "3", "n1", 7000, 8000)
	one("d", "4", "n1", 7500, 0)
	one("e", "5", "n2", 0, 5000)
	one("f", "6", "n3", 4000, 0)
	g.DeletePod("shop", "g", "7", watched(at(5000))) // only its end is known
	g.BindPod("shop", "h", "8", "n9", audited(at(0)))
	a := authorizerOver(t, g, 0)
	f := func(text string, ms int, want map[string]string) {
		t.Helper()
		if diff := cmp.Diff(want, texts(a.Explain(ask(t, "n1", text), at(ms)))); diff != "" {
			t.Errorf("%s at %d (-want +got):\n%s", text, ms, diff)
		}
	}
	lead := func(pod, node, when string) string {
		return "secret shop/db -> pod shop/" + pod + " -> node " + node + " " + when
	}
	// Of several paths, that which lasts; the nearest before and after.
	f("get secrets shop/db", 500, map[string]string{"next": lead("a", "n1", "1000-2000"), "lead 0": lead("e", "n2", "0-5000")})
	f("get secrets shop/db", 1700, map[string]string{"path": lead("b", "n1", "1500-3000"), "lead 0": lead("e", "n2", "0-5000"),
		"next": lead("c", "n1", "7000-8000")})
	f("get secrets shop/db", 4500, map[string]string{"last": lead("b", "n1", "1500-3000"), "next": lead("c", "n1", "7000-8000"),
		"lead 0": lead("e", "n2", "0-5000"), "lead 1": lead("f", "n3", "4000-")})
	f("get secrets shop/db", 9000, map[string]string{"path": lead("d", "n1", "7500-"), "last": lead("c", "n1", "7000-8000"),
		"lead 0": lead("f", "n3", "4000-")})
	f("get secrets shop/none", 9000, map[string]string{})
	f("get pods shop/g", 9000, map[string]string{})
	f("get pods shop/h", 9000, map[string]string{"lead 0": "pod shop/h -> node n9 0-"})
}

func TestLeadsAreBounded(t *testing.T) {
	g := covered()
	const pods = manyRefs + MaxLeads
	for i := range pods {
		g.SetPod(&Pod{Namespace: "shop", Name: fmt.Sprint("p", i), UID: fmt.Sprint(i), NodeName: fmt.Sprint("m", i), ConfigMaps: []string{"ca"}},
			watched(at(i)))
	}
	g.SetPod(&Pod{Namespace: "shop", Name: "x", UID: "x", NodeName: "n1"}, watched(at(0)))
	ex := authorizerOver(t, g, 0).Explain(ask(t, "n1", "get configmaps shop/ca"), at(1000))
	if len(ex.Leads) != MaxLeads || ex.Others != pods-MaxLeads || ex.Verdict != Deny {
		t.Fatalf("%d leads, %d others, %v", len(ex.Leads), ex.Others, ex.Verdict)
	}
	for i, p := range ex.Leads {
		if want := fmt.Sprintf("configmap shop/ca -> pod shop/p%d -> node m%d", i, i); p.String() != want {
			t.Errorf("lead %d is %s, want %s", i, p, want)
		}
	}
}

// The detail names the edge that makes the answer a race, and the time between, before and after it and for allow and deny.
func TestRaceDetails(t *testing.T) {
	g := covered()
	p := webPod("n1")
	g.SetPod(p, watched(at(1000)))
	g.SetPod(with(p, func(p *Pod) { p.EphemeralContainers = 1; p.Secrets = []string{"debug"} }), watched(at(2000)))
	g.SetPersistentVolume(volume("u", "data", "csi"), watched(at(3000)))
	g.SetPersistentVolume(volume("u", "", "csi"), watched(at(4000)))
	g.DeletePod("shop", "web-1", p.UID, watched(at(5000)))
	g.SetVolumeAttachment("va", "u", "n1", watched(at(6000)))
	g.DeleteVolumeAttachment("va", "u", watched(at(7000)))
	a := authorizerOver(t, g, 100*time.Millisecond)
	f := func(text string, t1 time.Time, want Verdict, detail string) {
		t.Helper()
		r := ask(t, "n1", text)
		if ans := a.Decide(r, t1); ans.Verdict != want || ans.Race != (detail != "") {
			t.Errorf("%s at %s: %s", text, t1.Sub(epoch), ans.words())
		}
		if got := a.RaceDetail(r, t1); got != detail {
			t.Errorf("%s at %s: %q, want %q", text, t1.Sub(epoch), got, detail)
		}
	}
	const db, debug, pv, csi, va = "get secrets shop/db", "get secrets shop/debug", "get persistentvolumes pv", "get secrets storage/csi",
		"get storage.k8s.io:volumeattachments va"
	f(db, at(880), Deny, "")
	f(db, at(925), Deny, "pod shop/web-1 was bound to n1 75ms later")
	f(db, at(1025), Allow, "pod shop/web-1 was bound to n1 25ms earlier")
	f(db, at(1000), Allow, "pod shop/web-1 was bound to n1 0s earlier")
	f(db, at(1000).Add(-1234567*time.Nanosecond), Deny, "pod shop/web-1 was bound to n1 1.23ms later")
	f(db, at(1150), Allow, "")
	f(db, at(1950), Allow, "secret shop/db ceased to lead to n1 50ms later")
	f(db, at(2050), Deny, "secret shop/db ceased to lead to n1 50ms earlier")
	f(debug, at(1950), Deny, "secret shop/debug began to lead to n1 50ms later")
	f(debug, at(2050), Allow, "secret shop/debug began to lead to n1 50ms earlier")
	for _, text := range []string{pv, csi} {
		f(text, at(2950), Deny, "persistent volume pv began to lead to n1 50ms later")
		f(text, at(3050), Allow, "persistent volume pv began to lead to n1 50ms earlier")
		f(text, at(3950), Allow, "persistent volume pv ceased to lead to n1 50ms later")
		f(text, at(4050), Deny, "persistent volume pv ceased to lead to n1 50ms earlier")
	}
	f(debug, at(4950), Allow, "pod shop/web-1 on n1 was deleted 50ms later")
	f("get pods shop/web-1", at(4999), Allow, "pod shop/web-1 on n1 was deleted 1ms later")
	f(debug, at(5050), Deny, "pod shop/web-1 on n1 was deleted 50ms earlier")
	f(va, at(5950), Deny, "volume attachment va was bound to n1 50ms later")
	f(va, at(6950), Allow, "volume attachment va on n1 was deleted 50ms later")
	f("get nodes n1", at(1000), Allow, "")

	wide := NewAuthorizer(g, a.Features(), time.Hour)
	if got, want := wide.RaceDetail(ask(t, "n1", db), at(-95_400)), "pod shop/web-1 was bound to n1 1m36s later"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMissing(t *testing.T) {
	g := NewGraph()
	a := authorizerOver(t, g, 0)
	f := func(ms int, want string) {
		t.Helper()
		if got := a.Missing(at(ms)); got != want {
			t.Errorf("at %d: %q, want %q", ms, got, want)
		}
		ex := a.Explain(ask(t, "n1", "get secrets shop/db"), at(ms))
		if ex.Verdict != Unknown || ex.Detail != want {
			t.Errorf("at %d: %+v, want the detail %q", ms, ex, want)
		}
	}
	f(1000, "no complete state was given")
	g.CoverFrom(at(2000))
	f(500, "the state begins 1.5s later")
	f(-88_000, "the state begins 1m30s later")
	f(1995, "the state begins 5ms later")
	g.Prune(at(4000))
	f(3000, "the state of then was forgotten (it is kept for what is less than 1s older)")
	f(500, "the state begins 1.5s later")
	g.BindPod("shop", "web", "1", "n1", audited(at(5000)))
	f(6000, "a pod was bound to the node whose spec was never seen")
}
