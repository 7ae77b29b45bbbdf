package nodeadmission

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// always has the same objects at all times.
type always struct{}

var aPod = Pod{
	UID: "u", Node: "n1", ServiceAccount: "sa", Labels: map[string]string{"app": "x"}, ClaimStatuses: []byte(`{"resourceClaimStatuses":[{"name":"c"}]}`),
}

func (always) Pod(_, name string, _ time.Time) (*Pod, Sight) {
	if name == "none" {
		return nil, Sight{Known: true}
	}
	return &aPod, Sight{Known: true}
}

func (always) Node(string, time.Time) (*Node, Sight) {
	return &Node{
		UID: "n", Labels: map[string]string{"kubernetes.io/x": "1", "app": "x"}, Taints: []corev1.Taint{{Key: "t", Effect: "NoSchedule"}},
		Owners: []metav1.OwnerReference{{APIVersion: "v1", Kind: "M", Name: "m", UID: "o"}}, ConfigSource: &corev1.NodeConfigSource{},
	}, Sight{Known: true}
}

func (always) Object(resource, _, _ string, _ time.Time) ([]byte, Sight) {
	if resource == "csinodes" {
		return []byte(`{"spec":{"drivers":[{"name":"d"}]}}`), Sight{Known: true}
	}
	return []byte(`{"metadata":{"name":"c","labels":{"a":"b"}},"spec":{"volumeName":"v"},"status":{"phase":"Bound"}}`), Sight{Known: true}
}

func bodyRequest(verb, group, resource, subresource string, body []byte) *Request {
	return &Request{
		Attributes: &authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:n1"}, Verb: verb, APIGroup: group, Resource: resource, Subresource: subresource, Namespace: "a",
			Name: "n1", ResourceRequest: true,
		},
		Node: "n1", IsNode: true, Body: body,
	}
}

var tricky = []string{
	`{}`, `{"status":{}}`, `{"metadata":{"labels":null}}`, `{"metadata":null}`, `{"spec":null}`, `{"status":null}`, `{"$patch":"delete"}`,
	`{"metadata":{"$patch":"replace"}}`, `{"spec":{"$retainKeys":["taints"]}}`, `{"met\u0061data":{"labels":{"kubernetes.io/x":"2"}}}`,
	`{"metadata":{},"metadata":{"labels":{"kubernetes.io/x":null}}}`, `{"spec":{"$setElementOrder/taints":[{"key":"t"}],"taints":[{"key":"t"}]}}`,
	`{"status":{"conditions":[{"message":"}\",\"metadata\":{"}]}}`, ` {"status" : { } , "spec":{"taints":[]}}`, `{"a":[1,{"b":"\\"}],"spec":{"taints":[]}}`,
	`[{"op":"remove","path":"/spec/taints"}]`, `[{"op":"add","path":"","value":{}}]`, `[{"op":"copy","from":"/metadata/labels","path":"/metadata/labels/x"}]`,
	`[{"op":"add","path":"/metadata/labels/a~1b","value":"c"}]`, `[{"op":"move","from":"/spec/taints","path":"/status/x"}]`, `[{"op":"add","path":"/spec/taints/-1","value":1}]`,
	`{"metadata":{"annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n","controller":true}]},"spec":{"nodeName":"n1","volumes":[{"name":"v","projected":{"sources":[{}]}},{"csi":null}]}}`,
	`{"spec":{"audiences":["x"],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}}}`,
	`{"spec":{"signerName":"kubernetes.io/kubelet-serving","request":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K"}}`,
}

// FuzzLeaves holds the quick look at a patch against the slow one: what leaves an object as it is, in every type of a patch, is allowed.
func FuzzLeaves(f *testing.F) {
	for _, s := range tricky {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { leavesAsSaid(t, body) })
}

// TestLeaves is FuzzLeaves over patches made of what could mislead a look at the text.
func TestLeaves(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 1))
	left, all := 0, effort.Of(60_000, 6_000)
	for range all {
		left += leavesAsSaid(t, patchText(r, nil, 3))
	}
	if left*10 < all || left*10 > all*9 {
		t.Errorf("%d of %d patches leave all as it was: too few or too many to tell", left, all)
	}
}

// patchText appends a random object. Members come twice, and the names of those that count are in texts as well.
func patchText(r *rand.Rand, out []byte, depth int) []byte {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	white := func() string { return pick("", "", "", "", " ", "\n") }
	out = append(out, '{')
	for i := range r.IntN(4) {
		if i > 0 {
			out = append(out, ","...)
		}
		key := pick("metadata", "spec", "status", "metadata", "status", "x", "kind", "apiVersion")
		if depth < 3 {
			key = pick("labels", "taints", "ownerReferences", "configSource", "resourceClaimStatuses", "extendedResourceClaimStatus", "conditions", "status", "uid", "a", "b", "c")
		}
		switch r.IntN(20) {
		case 0:
			key = pick("$patch", "$retainKeys", "$setElementOrder/taints", "$setElementOrder/resourceClaimStatuses")
		case 1, 2:
			key = pick("$setElementOrder/conditions", "$deleteFromPrimitiveList/finalizers", "$setElementOrder/")
		case 3:
			key = pick(`met\u0061data`, `l\u0061bels`, `\u0024patch`, "kind", "statu", "xstatus", "Labels")
		}
		out = append(out, white()+`"`+key+`"`+white()+":"+white()...)
		switch {
		case key == "$patch":
			out = append(out, pick(`"replace"`, `"delete"`, `"merge"`)...)
		case depth > 0 && r.IntN(3) > 0:
			out = patchText(r, out, depth-1)
		default:
			out = append(out, pick("null", "{}", "[]", "5", `"null"`, `"labels"`, `"} ,"`, `"\"\\"`, `[{"type":"a"}]`, `[null,"metadata"]`, `[{"key":"u"},{"key":"t"}]`, `[{"name":"c"}]`, `"a:null"`)...)
		}
		out = append(out, white()...)
	}
	return append(out, '}')
}

// leavesAsSaid returns 1 if the quick look says that a patch leaves all as it was, for one kind of object at least.
func leavesAsSaid(t *testing.T, body []byte) (left int) {
	t.Helper()
	v, err := VersionOf("1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	a := New(v, State{Pods: always{}, Nodes: always{}}, 0)
	for _, c := range []struct {
		parts *objectParts
		req   *Request
	}{{&nodeParts, bodyRequest("patch", "", "nodes", "", body)}, {&podParts, bodyRequest("patch", "", "pods", "status", body)}} {
		if !c.parts.leaves(body) {
			continue
		}
		var doc document
		if !decode(body, &doc) {
			continue // the API server refuses it as well
		}
		left = 1
		e := eval{a: a, req: c.req, verb: "patch", op: opUpdate, name: "n1"}
		old := document{"metadata": document{"labels": document{"kubernetes.io/x": "1"}}, "spec": document{"taints": []any{document{"key": "t"}, document{"key": "u"}}},
			"status": document{"resourceClaimStatuses": []any{document{"name": "c"}}}}
		before := c.parts.of(old)
		ans := e.mergePatched(c.parts, copied(before), func(doc document) Answer {
			for _, top := range doc { // no kind has such members
				maps.DeleteFunc(top.(document), func(key string, _ any) bool { return key[0] == '$' })
			}
			if !sameDocument(before, doc) {
				return fail("%v", doc)
			}
			return allowed()
		})
		if ans.Verdict != Allow && ans.Missing != MissingBody { // without one it is refused before the plugin is asked
			t.Errorf("%s leaves all as it was by the quick look, but: %+v", body, ans)
		}
	}
	return left
}

// FuzzLabels holds the quick look at a patch of labels against applying it.
func FuzzLabels(f *testing.F) {
	for _, s := range tricky {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { labelsAsApplied(t, body) })
}

// TestLabels is FuzzLabels over patches that look like those of kubelets.
func TestLabels(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 8))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	text := func() string {
		return pick(`"1"`, `"2"`, `"1"`, `""`, "null", "null", `"replace"`, `"delete"`, `"\u0031"`, `"}"`, `"\""`, "1", "{}", `["1"]`, "\"\u00e9\"")
	}
	labels := func() string {
		out := "{"
		for i := range r.IntN(4) {
			if i > 0 {
				out += ","
			}
			out += `"` + pick("app", "kubernetes.io/x", "kubernetes.io/y", "kubernetes.io/os", "node.kubernetes.io/a", "node-restriction.kubernetes.io/a", "a.k8s.io/b",
				"kubernetes.io/x", "app", "", "a\xff", "$patch", "$a", `\u0061pp`, "labels") + `":` + pick("", "", " ") + text()
		}
		return out + "}"
	}
	var seen [2]int
	for range effort.Of(60_000, 6_000) {
		metadata := `"labels":` + pick(labels(), labels(), labels(), labels(), "null", "[]")
		if r.IntN(3) == 0 {
			metadata += pick(`,"uid":"n"`, `,"annotations":{"a":"}"}`, `,"labels":`+labels(), `,"ownerReferences":[]`, `,"$setElementOrder/finalizers":[]`, `,"$patch":"replace"`,
				`,"$deleteFromPrimitiveList/ownerReferences":[]`)
		}
		body := `{"metadata":{` + metadata + "}"
		if r.IntN(3) == 0 {
			body += pick(`,"status":{"a":{"labels":{}}}`, `,"status":null`, `,"spec":{"taints":[]}`, `,"spec":{}`, `,"metadata":{}`, `,"metadata":{"labels":{"kubernetes.io/x":"2"}}`,
				`,"kind":"Node","apiVersion":"v1"`, `,"x":1`, `,"metadata":null`)
		}
		if labelsAsApplied(t, []byte(body+"}"+pick("", "", "\n"))) {
			seen[1]++
		} else {
			seen[0]++
		}
	}
	if least := effort.Of(5000, 500); seen[0] < least || seen[1] < least {
		t.Errorf("%v of the patches are allowed at a quick look: too few or too many to tell", seen)
	}
}

// labelsAsApplied holds the quick look against applying the patch, in every type that it can be, and reports whether the quick look allows it.
func labelsAsApplied(t *testing.T, body []byte) bool {
	t.Helper()
	v, err := VersionOf("1.37.1")
	if err != nil {
		t.Fatal(err)
	}
	node, _ := always{}.Node("n1", time.Time{})
	if !json.Valid(body) || !mayLabel(body, node.Labels) {
		return false
	}
	var old nodeBody
	old.Metadata.Labels, old.Metadata.OwnerReferences, old.Spec.Taints = node.Labels, node.Owners, node.Taints
	req := bodyRequest("patch", "", "nodes", "", body)
	req.Done = true
	e := eval{a: New(v, State{Nodes: always{}}, 0), req: req, verb: "patch", op: opUpdate, name: "n1"}
	ans := e.nodeChanged(&old)
	switch made := labelled(&old, body); {
	case ans.Missing == MissingBody: // refused before the plugin is asked
	case ans.Verdict != Allow:
		t.Errorf("%s is allowed at a quick look, but: %+v", body, ans)
	default:
		for _, m := range e.makes {
			if !equality.Semantic.DeepEqual(m, made) {
				t.Errorf("%s makes %+v at a quick look, but: %+v", body, made, m)
			}
		}
	}
	return true
}

// sameDocument compares what is there; an empty member is as good as none.
func sameDocument(a, b document) bool {
	for _, top := range []string{"metadata", "spec", "status"} {
		x, _ := a[top].(document)
		y, _ := b[top].(document)
		if len(x)+len(y) > 0 && !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}

// FuzzToken holds the quick reading of a TokenRequest against decoding it.
func FuzzToken(f *testing.F) {
	for _, s := range tricky {
		f.Add([]byte(s))
	}
	for _, s := range []string{
		`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"creationTimestamp":null},"spec":{"audiences":["a","b"],"expirationSeconds":3607,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"u"}},"status":{"token":"","expirationTimestamp":null}}`,
		`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{"name":"a}","x":"}"},"spec":{"audiences":["a"],"expirationSeconds":1,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"u"}},"status":{"token":"","expirationTimestamp":null}}`,
		`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{},"spec":{"audiences":[],"expirationSeconds":1,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"u"}},"status":{"token":"","expirationTimestamp":null}}`,
		`{"spec":{"audiences":[],"boundObjectRef":null}}`, `{"spec":{"audiences":["\u0061"]}}`, `{"spec":{"boundObjectRef":{"name":"a","name":"b"}}}`, `{"spec":{},"spec":{"audiences":["x"]}}`,
		`{"Spec":{"audiences":["x"]},"spec":{"Audiences":["y"],"boundObjectRef":{"Name":"z"}}}`, `{"spec":{"audiences":[null]}} `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) { readAsDecoded(t, body) })
}

// TestTokenText is FuzzToken over texts that look like those of kubelets.
func TestTokenText(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 7))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	quick, other := 0, 0
	for range effort.Of(60_000, 6_000) {
		text := func() string {
			return pick("", "p", "web-7c9fd6b5d8-x2x4z", "8f2c7137-968f-4f7c-9148-d2e926fac1a3", `}`, `},`, `{`, `\"`, `\"},\"spec\":{`, `\\`, `a\u0061`, "\u00e9", "\x7f", `"},"spec":{"audiences":["x"`)
		}
		spec := func() string {
			return `"spec":{"audiences":` + pick(`["a"]`, `["a"]`, `["`+text()+`"]`, `["a","b"]`, `[ "a" ]`, `[]`, `null`, `["`+text()+`","`+text()+`"]`) +
				`,"expirationSeconds":` + pick("3607", "3607", "null", "-1", `3,"audiences":["z"]`) + `,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"` + text() + `","uid":"` + text() + `"` +
				pick("", "", "", `,"name":"x"`, `,"kind":"Node"`) + `}}`
		}
		const status = `"status":{"token":"","expirationTimestamp":null}`
		metadata := pick("", "", `"creationTimestamp":null`, `"name":"`+text()+`"`, `"labels":{"a":"`+text()+`"}`, `"a":[{}]`, `"a":{},`+spec()+","+status, `"a":{`, `"a":{},`+spec())
		body := []byte(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","metadata":{` + metadata + `},` + spec() + pick("", "", "", "", ","+spec()) + "," + status + pick("", "", "", `,"spec":null`) + "}")
		if !json.Valid(body) {
			continue
		}
		if reader := (tokenReader{body: body}); reader.usual() {
			quick++
		} else {
			other++
		}
		readAsDecoded(t, body)
	}
	if least := effort.Of(500, 50); quick < least || other < least {
		t.Errorf("%d texts as kubelets write them, and %d others: too few to tell", quick, other)
	}
}

// readAsDecoded holds the reading of a TokenRequest against decoding it.
func readAsDecoded(t *testing.T, body []byte) {
	t.Helper()
	if !json.Valid(body) {
		return // the API server refuses it
	}
	got, ok := readToken(body)
	var o struct {
		Spec struct {
			Audiences      []string   `json:"audiences"`
			BoundObjectRef *objectRef `json:"boundObjectRef"`
		} `json:"spec"`
	}
	if wantOK := decode(body, &o); ok != wantOK || !ok {
		if ok != wantOK {
			t.Errorf("%s: read is %t, decoded %t", body, ok, wantOK)
		}
		return
	}
	want := tokenRequest{audiences: len(o.Spec.Audiences), bound: o.Spec.BoundObjectRef != nil}
	if want.audiences > 0 {
		want.audience = o.Spec.Audiences[0]
	}
	if want.bound {
		want.ref = *o.Spec.BoundObjectRef
	}
	if got != want {
		t.Errorf("%s: %+v, want %+v", body, got, want)
	}
}

// FuzzBodies gives the plugin bodies that a client chose: it answers, and says what is missing when it cannot.
func FuzzBodies(f *testing.F) {
	for _, s := range tricky {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, text := range []string{"1.28.15", "1.33", "1.37.1"} {
			v, err := VersionOf(text)
			if err != nil {
				t.Fatal(err)
			}
			v.gates = gateSet{nodeAudience: true, podCertificates: true, volumeHealth: true}
			a := New(v, State{Pods: always{}, Nodes: always{}, Objects: always{}}, time.Second)
			for _, r := range []*Request{
				bodyRequest("create", "", "pods", "", body), bodyRequest("create", "", "nodes", "", body), bodyRequest("update", "", "nodes", "", body),
				bodyRequest("patch", "", "nodes", "status", body), bodyRequest("patch", "", "pods", "status", body), bodyRequest("update", "", "pods", "status", body),
				bodyRequest("patch", "", "persistentvolumeclaims", "status", body), bodyRequest("update", "", "persistentvolumeclaims", "status", body),
				bodyRequest("create", "", "serviceaccounts", "token", body), bodyRequest("patch", "storage.k8s.io", "csinodes", "status", body),
				bodyRequest("create", "resource.k8s.io", "resourceslices", "", body), bodyRequest("create", "certificates.k8s.io", "certificatesigningrequests", "", body),
				bodyRequest("create", "certificates.k8s.io", "podcertificaterequests", "", body),
			} {
				ans := a.Decide(r, time.Unix(0, 0))
				if (ans.Verdict == Unknown) != (ans.Missing != MissingNothing) || (ans.Verdict == Deny) != (ans.Message != "") || ans.Race {
					t.Errorf("%s %s: %+v", r.Attributes.GetVerb(), r.Attributes.GetResource(), ans)
				}
			}
		}
		_ = Observe(&Response{Verb: "create", Authorized: true, Code: 403, Message: string(body)})
	})
}

// TestPlain holds the look at eight bytes at a time against one at each byte.
func TestPlain(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 6))
	seen := map[bool]int{}
	for range 20_000 {
		text := make([]byte, r.IntN(40))
		want := true
		for i := range text {
			if text[i] = byte(' ' + r.IntN(0x7f-' ')); text[i] == '\\' {
				text[i] = ' '
			}
		}
		for range r.IntN(3) {
			if len(text) > 0 {
				text[r.IntN(len(text))] = []byte{0, 0x1f, ' ', '[', '\\', ']', '~', 0x7f, 0x80, 0xff}[r.IntN(10)]
			}
		}
		for _, c := range text {
			want = want && c >= ' ' && c < 0x7f && c != '\\'
		}
		if got := plain(text); got != want {
			t.Fatalf("%q is plain: %t, want %t", text, got, want)
		}
		seen[want]++
	}
	if seen[true] < 1000 || seen[false] < 1000 {
		t.Errorf("%v", seen)
	}
}
