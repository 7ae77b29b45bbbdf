package nodeauthz

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func audited(t time.Time) Stamp { return Stamp{Time: t, Source: SourceAudit} }

func ownStamp(t time.Time) Stamp { return Stamp{Time: t, Slop: time.Second, Source: SourceObject} }

// ask reads a request of the node: "VERB [GROUP:]RESOURCE[/SUBRESOURCE] [[NAMESPACE/]NAME [FIELD=VALUE]]". "-" is no name.
func ask(t testing.TB, node, text string) *authorizer.AttributesRecord {
	t.Helper()
	words := append(strings.Fields(text), "", "", "")
	group, resource, grouped := strings.Cut(words[1], ":")
	if !grouped {
		group, resource = "", words[1]
	}
	resource, subresource, _ := strings.Cut(resource, "/")
	ns, name, namespaced := strings.Cut(words[2], "/")
	if !namespaced {
		ns, name = "", words[2]
	}
	r := request(node, words[0], resource, ns, strings.TrimPrefix(name, "-"))
	r.APIGroup, r.Subresource = group, subresource
	if words[3] != "" {
		selector, err := fields.ParseSelector(words[3])
		if err != nil {
			t.Fatal(err)
		}
		r.FieldSelectorRequirements = selector.Requirements()
	}
	return r
}

// words prints an answer as "allow", "deny: REASON" or "deny", with a tilde behind a race's verdict.
func (a Answer) words() string {
	s := a.Verdict.String()
	if a.Race {
		s += "~"
	}
	if a.Reason != "" {
		s += ": " + a.Reason
	}
	return s
}

// timeline is what the node may do in the first ten seconds, by steps of 10ms: "allow 1000-5000, unknown 7000-". Denies are left out,
// and races have a tilde.
func timeline(t testing.TB, a *Authorizer, node, text string) string {
	t.Helper()
	r, last := ask(t, node, text), "deny"
	var out []string
	for ms := 0; ms < 10_000; ms += 10 {
		ans := a.Decide(r, at(ms))
		ans.Reason = ""
		now := ans.words()
		if now == last {
			continue
		}
		if last != "deny" {
			out[len(out)-1] += fmt.Sprint(ms)
		}
		if now != "deny" {
			out = append(out, fmt.Sprintf("%s %d-", now, ms))
		}
		last = now
	}
	return strings.Join(out, ", ")
}

func covered() *Graph {
	g := NewGraph()
	g.CoverFrom(at(-60_000))
	return g
}

// someOfEach is a graph in which something of each kind leads to n1 from the beginning, and n2 exists.
func someOfEach() *Graph {
	g, then := covered(), watched(at(-10_000))
	p := webPod("n1")
	p.ResourceClaims = []string{"gpu"}
	g.SetPod(p, then)
	other := webPod("n2")
	other.Name, other.UID, other.Secrets = "web-2", "other", []string{"theirs"}
	other.ConfigMaps, other.PersistentVolumeClaims = []string{"theirs"}, []string{"theirs"}
	other.ServiceAccountName = "theirs"
	g.SetPod(other, then)
	g.SetPersistentVolume(&PersistentVolume{Name: "pv", UID: "x", Claim: &NamespacedName{"shop", "data"},
		Secrets: []NamespacedName{{"storage", "csi"}}}, then)
	g.SetVolumeAttachment("va", "x", "n1", then)
	g.SetVolumeAttachment("va-2", "y", "n2", then)
	g.SetResourceSlice("slice", "x", "n1", then)
	g.SetResourceSlice("slice-2", "y", "n2", then)
	g.SetPodCertificateRequest("shop", "pcr", "x", "n1", then)
	g.SetPodCertificateRequest("shop", "pcr-2", "y", "n2", then)
	return g
}

func TestNodeIdentity(t *testing.T) {
	f := func(u user.Info, node string, isNode bool) {
		t.Helper()
		if n, ok := NodeIdentity(u); n != node || ok != isNode {
			t.Errorf("%v: %q %t, want %q %t", u, n, ok, node, isNode)
		}
	}
	f(nil, "", false)
	f(&user.DefaultInfo{}, "", false)
	f(&user.DefaultInfo{Name: "system:node:n1"}, "", false)
	f(&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:masters", "system:node", "System:Nodes"}}, "", false)
	f(&user.DefaultInfo{Name: "n1", Groups: []string{"system:nodes"}}, "", false)
	f(&user.DefaultInfo{Name: "system:nodes:n1", Groups: []string{"system:nodes"}}, "", false)
	f(&user.DefaultInfo{Name: "xsystem:node:n1", Groups: []string{"system:nodes"}}, "", false)
	f(&user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:authenticated", "system:nodes"}}, "n1", true)
	f(&user.DefaultInfo{Name: "system:node:", Groups: []string{"system:nodes"}}, "", true)
	f(&user.DefaultInfo{Name: "system:node:system:node:n1", Groups: []string{"system:nodes"}}, "system:node:n1", true)
}

func TestDecideWithoutANode(t *testing.T) {
	a := authorizerOver(t, someOfEach(), 0)
	f := func(u user.Info, want string) {
		t.Helper()
		r := request("", "get", "secrets", "shop", "db")
		r.User = u
		if got := a.Decide(r, at(0)).words(); got != want {
			t.Errorf("%v: %q, want %q", u, got, want)
		}
	}
	f(nil, "")
	f(&user.DefaultInfo{Name: "jane", Groups: []string{"system:nodes"}}, "")
	f(&user.DefaultInfo{Name: "system:node:n1"}, "")
	f(&user.DefaultInfo{Name: "system:node:", Groups: []string{"system:nodes"}}, `deny: node: unknown node for user "system:node:"`)
}

func TestUnknownNodesAndObjects(t *testing.T) {
	a := authorizerOver(t, someOfEach(), 0)
	f := func(node, text, want string) {
		t.Helper()
		if got := a.Decide(ask(t, node, text), at(0)).words(); got != want {
			t.Errorf("%s by %s: %q, want %q", text, node, got, want)
		}
	}
	f("n1", "get secrets shop/none", "deny: node: no relationship found between node 'n1' and this object")
	f("n1", "get secrets nowhere/none", "deny: node: no relationship found between node 'n1' and this object")
	f("new", "get secrets shop/db", "deny: node: no relationship found between node 'new' and this object")
	f("it's", "get pods shop/web-1", "deny: node: no relationship found between node 'it's' and this object")
	f("new", "get nodes new", "allow")
}

// An answer is static when the graph has no part in it: what is true of it then holds for any state.
func TestStaticAnswers(t *testing.T) {
	full, empty := authorizerOver(t, someOfEach(), 0), authorizerOver(t, NewGraph(), 0)
	f := func(text string, static bool) {
		t.Helper()
		r := ask(t, "n1", text)
		got, other := full.Decide(r, at(0)), empty.Decide(r, at(0))
		if got.Static != static || other.Static != static || (got == other) != static {
			t.Errorf("%s: %+v, over nothing %+v; want static %t", text, got, other, static)
		}
	}
	f("get secrets shop/db", false)
	f("get secrets shop/none", false)
	f("watch pods shop/web-1", false)
	f("watch pods - spec.nodeName=n1", true)
	f("delete secrets shop/db", true)
	f("list secrets shop/-", true)
	f("get nodes n1", true)
	f("get nodes n2", true)
	f("create events shop/-", true)
	f("get apps:deployments shop/x", true)
	r := request("", "get", "secrets", "shop", "db")
	if got := full.Decide(r, at(0)); !got.Static || got.Verdict != Deny {
		t.Errorf("a node without a name: %+v", got)
	}
}

func TestVerdictNames(t *testing.T) {
	for v, want := range map[Verdict]string{NotNode: "", Allow: "allow", Deny: "deny", Unknown: "unknown"} {
		if v.String() != want {
			t.Errorf("verdict %d is %q", v, v)
		}
	}
	for k, want := range map[Kind]string{KindNone: "", KindConfigMap: "configmap", KindPodCertificateRequest: "pod certificate request", 200: ""} {
		if k.String() != want {
			t.Errorf("kind %d is %q", k, k)
		}
	}
}

func TestAtIsAKubernetesAuthorizer(t *testing.T) {
	g := NewGraph()
	g.CoverFrom(at(500))
	g.SetPod(webPod("n1"), watched(at(1000)))
	g.DeletePod("shop", "web-1", "", watched(at(2000)))
	a := authorizerOver(t, g, 0)
	f := func(r authorizer.Attributes, ms int, want authorizer.Decision, reason string) {
		t.Helper()
		got, why, err := a.At(at(ms)).Authorize(context.Background(), r)
		if got != want || why != reason || err != nil {
			t.Errorf("at %dms: %v %q %v, want %v %q", ms, got, why, err, want, reason)
		}
	}
	const none = "node: no relationship found between node 'n1' and this object"
	r := ask(t, "n1", "get secrets shop/db")
	f(r, 0, authorizer.DecisionNoOpinion, none) // unknown
	f(r, 700, authorizer.DecisionNoOpinion, none)
	f(r, 1500, authorizer.DecisionAllow, "")
	f(r, 2500, authorizer.DecisionNoOpinion, none)
	f(&authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane"}, ResourceRequest: true}, 1500, authorizer.DecisionNoOpinion, "")
}

func TestNegativeSkewIsNone(t *testing.T) {
	g := covered()
	g.SetPod(webPod("n1"), watched(at(1000)))
	a := authorizerOver(t, g, -time.Second)
	if got := timeline(t, a, "n1", "get pods shop/web-1"); got != "allow 1000-" {
		t.Errorf("got %q", got)
	}
	if f := a.Features(); f.Minor != NewestMinor {
		t.Errorf("features %+v", f)
	}
}

// A plain answer must not allocate: an audit log holds millions of requests.
func TestPlainAnswersAllocateNothing(t *testing.T) {
	f, err := FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Set("PodCertificateRequest", true); err != nil {
		t.Fatal(err)
	}
	g := someOfEach()
	for i := range 3 * manyRefs { // a configmap of many pods is found in another way
		g.SetPod(&Pod{Namespace: "many", Name: fmt.Sprint("p", i), UID: fmt.Sprint("m", i), NodeName: fmt.Sprint("n", i%3),
			ConfigMaps: []string{"ca"}}, watched(at(-10_000)))
	}
	a := NewAuthorizer(g, f, time.Second)
	for text, want := range map[string]Verdict{
		"get secrets shop/db":                                             Allow,
		"watch configmaps shop/cfg":                                       Allow,
		"list configmaps many/ca":                                         Allow,
		"create serviceaccounts/token shop/web":                           Allow,
		"get persistentvolumeclaims shop/data":                            Allow,
		"get persistentvolumes pv":                                        Allow,
		"get secrets storage/csi":                                         Allow,
		"get resource.k8s.io:resourceclaims shop/gpu":                     Allow,
		"get pods shop/web-1":                                             Allow,
		"get storage.k8s.io:volumeattachments va":                         Allow,
		"update resource.k8s.io:resourceslices slice":                     Allow,
		"get certificates.k8s.io:podcertificaterequests shop/pcr":         Allow,
		"patch nodes/status n1":                                           Allow,
		"list pods - spec.nodeName=n1":                                    Allow,
		"update coordination.k8s.io:leases kube-node-lease/n1":            Allow,
		"get secrets shop/theirs":                                         Deny,
		"get secrets shop/none":                                           Deny,
		"get persistentvolumes none":                                      Deny,
		"list secrets shop/-":                                             Deny,
		"update storage.k8s.io:csinodes n2":                               Deny,
		"delete certificates.k8s.io:certificatesigningrequests elsewhere": Deny,
	} {
		r := ask(t, "n1", text)
		var got Answer
		n := testing.AllocsPerRun(100, func() { got = a.Decide(r, at(0)) })
		if n != 0 || got.Verdict != want || got.Race {
			t.Errorf("%s: %s with %v allocations, want %v with none", text, got.words(), n, want)
		}
	}
}
