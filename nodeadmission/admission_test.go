package nodeadmission_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

var epoch = time.Date(2026, 11, 22, 6, 0, 0, 0, time.UTC)

// span is an object from an instant to another; a zero time has no bound.
type span[T any] struct {
	from, to time.Time
	unsure   bool
	object   *T
}

// over looks an object up in spans that follow each other.
func over[T any](spans []span[T], at time.Time) (*T, nodeadmission.Sight) {
	for _, s := range spans {
		if (s.from.IsZero() || !at.Before(s.from)) && (s.to.IsZero() || at.Before(s.to)) {
			return s.object, nodeadmission.Sight{Known: true, From: nanoseconds(s.from), To: nanoseconds(s.to), Unsure: s.unsure}
		}
	}
	return nil, nodeadmission.Sight{}
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

type podSpans []span[nodeadmission.Pod]

func (p podSpans) Pod(_, _ string, at time.Time) (*nodeadmission.Pod, nodeadmission.Sight) {
	return over(p, at)
}

type nodeSpans []span[nodeadmission.Node]

func (n nodeSpans) Node(_ string, at time.Time) (*nodeadmission.Node, nodeadmission.Sight) {
	return over(n, at)
}

type authorizerAt func(at time.Time) bool

func (a authorizerAt) Authorize(_ authorizer.Attributes, at time.Time) (allowed, known bool, err error) {
	return a(at), true, nil
}

func write(verb, group, resource, subresource, namespace, name, body string) *nodeadmission.Request {
	r := &nodeadmission.Request{
		Attributes: &authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:n1", Groups: []string{"system:nodes"}}, Verb: verb, APIGroup: group, APIVersion: "v1",
			Resource: resource, Subresource: subresource, Namespace: namespace, Name: name, ResourceRequest: true,
		},
		Node: "n1", IsNode: true, Name: name,
	}
	if body != "" {
		r.Body = []byte(body)
	}
	return r
}

func plugin(t testing.TB, version string, state nodeadmission.State, skew time.Duration) *nodeadmission.Admission {
	t.Helper()
	v, err := nodeadmission.VersionOf(version)
	if err != nil {
		t.Fatal(err)
	}
	return nodeadmission.New(v, state, skew)
}

func TestNone(t *testing.T) {
	a := plugin(t, "1.36.3", nodeadmission.State{Pods: podSpans{{}}}, 0)
	foreign := func(change func(*nodeadmission.Request)) *nodeadmission.Request {
		r := write("patch", "", "nodes", "", "", "n2", "")
		change(r)
		return r
	}
	for name, r := range map[string]*nodeadmission.Request{
		"a read":                 write("get", "", "nodes", "", "", "n2", ""),
		"a watch":                write("watch", "", "pods", "", "a", "", ""),
		"exec":                   write("create", "", "pods", "exec", "a", "p", ""),
		"the proxy of a node":    write("create", "", "nodes", "proxy", "", "n2", ""),
		"no node identity":       foreign(func(r *nodeadmission.Request) { r.IsNode = false }),
		"refused":                foreign(func(r *nodeadmission.Request) { r.Refused = true }),
		"not there":              foreign(func(r *nodeadmission.Request) { r.NotFound = true }),
		"a pod that is not":      write("delete", "", "pods", "", "a", "p", ""),
		"the status of no pod":   write("patch", "", "pods", "status", "a", "p", "{}"),
		"a verb of its own kind": write("impersonate", "", "users", "", "", "x", ""),
	} {
		if got := a.Decide(r, epoch); got != (nodeadmission.Answer{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := a.Decide(foreign(func(*nodeadmission.Request) {}), epoch); got.Verdict != nodeadmission.Deny {
		t.Errorf("a foreign node: %+v", got)
	}
}

// TestCollections: a kubelet deletes the slices of its own name, by a selector that limits the collection to what the plugin lets it delete.
func TestCollections(t *testing.T) {
	a := plugin(t, "1.36.3", nodeadmission.State{}, 0)
	for selected, want := range map[string]nodeadmission.Verdict{"n1": nodeadmission.Allow, "n2": nodeadmission.Unknown, "": nodeadmission.Unknown} {
		r := write("deletecollection", "resource.k8s.io", "resourceslices", "", "", "", "")
		if selected != "" {
			r.Attributes.(*authorizer.AttributesRecord).FieldSelectorRequirements = fields.Requirements{
				{Field: "spec.nodeName", Operator: selection.Equals, Value: selected},
			}
		}
		if got := a.Decide(r, epoch); got.Verdict != want {
			t.Errorf("of %q: %+v", selected, got)
		}
	}
	for _, r := range []*nodeadmission.Request{
		write("deletecollection", "", "pods", "", "a", "", ""), write("deletecollection", "", "nodes", "", "", "", ""),
		write("deletecollection", "coordination.k8s.io", "leases", "", "kube-node-lease", "", ""), write("deletecollection", "", "persistentvolumeclaims", "", "a", "", ""),
	} {
		if got := a.Decide(r, epoch); got.Missing != nodeadmission.MissingCollection {
			t.Errorf("%s: %+v", r.Attributes.GetResource(), got)
		}
	}
}

// TestRace moves a request past a change: the answer is a race within the skew of it, and nowhere else.
func TestRace(t *testing.T) {
	const skew = 100 * time.Millisecond
	bound := epoch.Add(time.Minute)
	gone := bound.Add(time.Second)
	pods := podSpans{
		{to: bound, object: &nodeadmission.Pod{UID: "u"}},
		{from: bound, to: gone, object: &nodeadmission.Pod{UID: "u", Node: "n1"}},
		{from: gone},
	}
	a := plugin(t, "1.36.3", nodeadmission.State{Pods: pods}, skew)
	evict := write("create", "", "pods", "eviction", "a", "p", `{}`)
	for _, c := range []struct {
		at      time.Time
		verdict nodeadmission.Verdict
		code    int32
		race    bool
	}{
		{bound.Add(-skew - 1), nodeadmission.Deny, 403, false},
		{bound.Add(-skew), nodeadmission.Deny, 403, true},
		{bound.Add(-1), nodeadmission.Deny, 403, true},
		{bound, nodeadmission.Allow, 0, true},
		{bound.Add(skew - 1), nodeadmission.Allow, 0, true},
		{bound.Add(skew), nodeadmission.Allow, 0, false},
		{gone.Add(-skew - 1), nodeadmission.Allow, 0, false},
		{gone.Add(-skew), nodeadmission.Allow, 0, true},
		{gone, nodeadmission.Deny, 404, true},
		{gone.Add(skew), nodeadmission.Deny, 404, false},
	} {
		got := a.Decide(evict, c.at)
		if got.Verdict != c.verdict || got.Code != c.code || got.Race != c.race {
			t.Errorf("at %v: %+v, want %v %d race %t", c.at.Sub(bound), got, c.verdict, c.code, c.race)
		}
	}
}

// TestRaceBeyondTheNextChange finds a change that is not the first within the skew.
func TestRaceBeyondTheNextChange(t *testing.T) {
	same := &nodeadmission.Pod{UID: "u", Node: "n1"}
	pods := podSpans{
		{to: epoch.Add(10), object: same}, {from: epoch.Add(10), to: epoch.Add(20), object: &nodeadmission.Pod{UID: "v", Node: "n1"}},
		{from: epoch.Add(20), object: &nodeadmission.Pod{UID: "w", Node: "n2"}},
	}
	r := write("delete", "", "pods", "", "a", "p", "")
	if got := plugin(t, "1.36.3", nodeadmission.State{Pods: pods}, 20).Decide(r, epoch); !got.Race || got.Verdict != nodeadmission.Allow {
		t.Errorf("skew 20: %+v", got)
	}
	if got := plugin(t, "1.36.3", nodeadmission.State{Pods: pods}, 19).Decide(r, epoch); got.Race {
		t.Errorf("skew 19: %+v", got)
	}
}

// TestRaceWithinUncertainty is one without a skew: the change is known to a second only.
func TestRaceWithinUncertainty(t *testing.T) {
	from, to := epoch, epoch.Add(time.Second)
	pods := podSpans{
		{to: from, object: &nodeadmission.Pod{Node: "n2"}},
		{from: from, to: to, unsure: true, object: &nodeadmission.Pod{Node: "n2"}},
		{from: to, object: &nodeadmission.Pod{Node: "n1"}},
	}
	a := plugin(t, "1.36.3", nodeadmission.State{Pods: pods}, 0)
	r := write("delete", "", "pods", "", "a", "p", "")
	for at, race := range map[time.Time]bool{from.Add(-1): false, from: true, to.Add(-1): true, to: false} {
		if got := a.Decide(r, at); got.Race != race {
			t.Errorf("at %v: %+v", at.Sub(from), got)
		}
	}
}

// TestRaceOfAuthorizer samples the authorizer, which cannot tell for how long an answer holds.
func TestRaceOfAuthorizer(t *testing.T) {
	const skew = time.Second
	pods := podSpans{{object: &nodeadmission.Pod{UID: "u", Node: "n1"}}}
	a := plugin(t, "1.36.3", nodeadmission.State{Pods: pods, Authorizer: authorizerAt(func(at time.Time) bool { return !at.Before(epoch) })}, skew)
	r := write("create", "", "serviceaccounts", "token", "a", "sa",
		`{"spec":{"audiences":["x"],"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}}}`)
	for at, want := range map[time.Duration]nodeadmission.Answer{
		-skew - 1: {Verdict: nodeadmission.Deny, Code: 403,
			Message: `serviceaccounts "sa" is forbidden: audience "x" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this audience`},
		0:        {Verdict: nodeadmission.Allow, Race: true},
		skew + 1: {Verdict: nodeadmission.Allow},
	} {
		if diff := cmp.Diff(want, a.Decide(r, epoch.Add(at))); diff != "" {
			t.Errorf("at %v (-want +got):\n%s", at, diff)
		}
	}
}

// TestVersions holds the checks that came within a minor at the patches before and after. A vendor may have taken over a check before its patch.
func TestVersions(t *testing.T) {
	state := nodeadmission.State{Nodes: nodeSpans{{object: &nodeadmission.Node{UID: "n", Taints: []corev1.Taint{}, Owners: []metav1.OwnerReference{{UID: "o"}}}}}}
	owners := write("patch", "", "nodes", "", "", "n1", `{"metadata":{"ownerReferences":null}}`)
	claims := write("create", "", "pods", "", "a", "m", `{"metadata":{"name":"m","annotations":{"kubernetes.io/config.mirror":"x"},"ownerReferences":[
		{"apiVersion":"v1","kind":"Node","name":"n1","uid":"n","controller":true}]},"spec":{"nodeName":"n1","resourceClaims":[{"name":"c"}]}}`)
	for version, want := range map[string][2]nodeadmission.Verdict{
		"1.28.15": {nodeadmission.Allow, nodeadmission.Allow}, "1.30": {nodeadmission.Allow, nodeadmission.Allow},
		"1.31.11": {nodeadmission.Allow, nodeadmission.Allow}, "1.31.12": {nodeadmission.Deny, nodeadmission.Allow},
		"1.31": {nodeadmission.Unknown, nodeadmission.Allow}, "1.32": {nodeadmission.Unknown, nodeadmission.Unknown},
		"1.32.5": {nodeadmission.Allow, nodeadmission.Allow}, "1.32.6": {nodeadmission.Allow, nodeadmission.Deny},
		"1.32.7": {nodeadmission.Allow, nodeadmission.Deny}, "1.32.8": {nodeadmission.Deny, nodeadmission.Deny},
		"1.33.1": {nodeadmission.Allow, nodeadmission.Allow}, "v1.33.2": {nodeadmission.Allow, nodeadmission.Deny},
		"1.33.3-gke.1": {nodeadmission.Unknown, nodeadmission.Deny}, "1.33.4": {nodeadmission.Deny, nodeadmission.Deny},
		"1.33.4-eks-1a2b3c4": {nodeadmission.Deny, nodeadmission.Deny}, "1.30.14-eks-1a2b3c4": {nodeadmission.Unknown, nodeadmission.Allow},
		"1.33.3": {nodeadmission.Allow, nodeadmission.Deny},
		"1.34":   {nodeadmission.Deny, nodeadmission.Deny}, "1.37.1": {nodeadmission.Deny, nodeadmission.Deny},
	} {
		a := plugin(t, version, state, 0)
		for i, r := range []*nodeadmission.Request{owners, claims} {
			if got := a.Decide(r, epoch); got.Verdict != want[i] {
				t.Errorf("%s, request %d: %+v, want %v", version, i, got, want[i])
			}
		}
	}
}

func TestVersionOf(t *testing.T) {
	for _, text := range []string{"", "1", "2.36.1", "1.27.3", fmt.Sprintf("1.%d.0", nodeadmission.NewestMinor+1), "1.x", "1.99999999999"} {
		if v, err := nodeadmission.VersionOf(text); err == nil {
			t.Errorf("%q is read as %+v", text, v)
		}
	}
	v, err := nodeadmission.VersionOf("1.36")
	if err != nil || v.Patch != nodeadmission.AnyPatch || v.Minor != 36 {
		t.Errorf("%+v, %v", v, err)
	}
	for _, c := range []struct {
		version, gate string
		value, ok     bool
	}{
		{"1.36.3", "ServiceAccountNodeAudienceRestriction", false, true}, {"1.31.1", "ServiceAccountNodeAudienceRestriction", false, false},
		{"1.34.4", "RecoverVolumeExpansionFailure", false, false}, {"1.33.4", "RecoverVolumeExpansionFailure", false, true},
		{"1.30.0", "AllowInsecureKubeletCertificateSigningRequests", true, false}, {"1.33.0", "PodCertificateRequest", true, false},
		{"1.36.0", "NodeRestriction", true, false},
	} {
		v, err := nodeadmission.VersionOf(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.SetGate(c.gate, c.value); (err == nil) != c.ok {
			t.Errorf("%s: %s=%t: %v", c.version, c.gate, c.value, err)
		}
	}
	if !slices.IsSorted(nodeadmission.GateNames()) {
		t.Errorf("%v", nodeadmission.GateNames())
	}
}

// TestPatches names no type, as an audit event. Where the types differ the answer is unknown.
func TestPatches(t *testing.T) {
	state := nodeadmission.State{Nodes: nodeSpans{{object: &nodeadmission.Node{
		UID: "n", Labels: map[string]string{"app": "x"}, Owners: []metav1.OwnerReference{{APIVersion: "v1", Kind: "M", Name: "m", UID: "o"}},
	}}}}
	a := plugin(t, "1.36.3", state, 0)
	for body, want := range map[string]string{
		`{"status":{"conditions":[]}}`:                                                           "allow",
		`{"metadata":{"labels":{"app":"y"}}}`:                                                    "allow",
		`{"metadata":{"labels":{"kubernetes.io/x":"y"}}}`:                                        "is not allowed to modify labels: kubernetes.io/x",
		`{"metadata":{"l\u0061bels":{"kubernetes.io/x":"y"}}}`:                                   "is not allowed to modify labels: kubernetes.io/x",
		`{"metadata":{},"metadata":{"labels":{"kubernetes.io/x":"y"}}}`:                          "is not allowed to modify labels: kubernetes.io/x",
		`{"metadata":{"ownerReferences":[]}}`:                                                    "patch-type",
		`{"apiVersion":"v1","kind":"Node","metadata":{"labels":{"kubernetes.io/x":"y"}}}`:        "patch-type",
		`[{"op":"add","path":"/metadata/labels/kubernetes.io~1x","value":"y"}]`:                  "is not allowed to modify labels: kubernetes.io/x",
		`[{"op":"copy","from":"/metadata/annotations","path":"/metadata/labels"}]`:               "patch-type",
		`[{"op":"move","from":"/metadata/annotations","path":"/metadata/labels"}]`:               "old-object",
		`[{"op":"add","path":"/spec/taints","value":[{"key":"x","effect":"NoSchedule"}]}]`:       `node "n1" is not allowed to modify taints`,
		`[{"op":"add","path":"/status/phase","value":"x"}]`:                                      "allow",
		`{"spec":{"taints":[{"key":"x","effect":"NoSchedule"}]}}`:                                `node "n1" is not allowed to modify taints`,
		`{"spec":null,"metadata":null}`:                                                          `node "n1" is not allowed to modify ownerReferences`,
		`{"metadata":{"ownerReferences":[{"$patch":"delete","uid":"o"}]}}`:                       `node "n1" is not allowed to modify ownerReferences`,
		`{"metadata":{"ownerReferences":[{"uid":"o","name":"m","kind":"M","apiVersion":"v1"}]}}`: "allow",
		`[{"op":"test","path":"/metadata/labels/app"}]`:                                          "body", // json-patch 4.12 panics, 4.13 says that it is not so
		`{"a`: "body",
		`{"spec":{"$setElementOrder/taints":[{"key":"x"}],"taints":[{"key":"x","effect":"NoSchedule"}]}}`: `node "n1" is not allowed to modify taints`, // apimachinery panics
	} {
		got := a.Decide(write("patch", "", "nodes", "", "", "n1", body), epoch)
		said := got.Verdict.String()
		switch got.Verdict {
		case nodeadmission.Deny:
			_, said, _ = strings.Cut(got.Message, "is forbidden: ")
		case nodeadmission.Unknown:
			said = string(got.Missing)
		}
		if said != want {
			t.Errorf("%s: %s, want %s", body, said, want)
		}
	}
}

// TestClaimFieldsOfLaterMinors: an API server drops what it does not know before the plugin compares.
func TestClaimFieldsOfLaterMinors(t *testing.T) {
	s := nodeadmission.NewStore()
	s.SetClaim("a", "c", &nodeadmission.Claim{Object: []byte(`{"metadata":{"name":"c"},"spec":{"volumeName":"v"}}`)}, moment(0))
	for version, want := range map[string]nodeadmission.Verdict{"1.28.15": nodeadmission.Allow, "1.29.15": nodeadmission.Deny} {
		r := write("patch", "", "persistentvolumeclaims", "status", "a", "c", `{"spec":{"volumeAttributesClassName":"fast"}}`)
		if got := plugin(t, version, s.State(nil), 0).Decide(r, epoch.Add(1)); got.Verdict != want {
			t.Errorf("%s: %+v", version, got)
		}
	}
}

// TestAllowAllocatesNothing is for writes that need no body.
func TestAllowAllocatesNothing(t *testing.T) {
	state := nodeadmission.State{
		Pods:  podSpans{{object: &nodeadmission.Pod{Node: "n1"}}},
		Nodes: nodeSpans{{object: &nodeadmission.Node{UID: "n"}}},
	}
	a := plugin(t, "1.36.3", state, time.Second)
	for _, r := range []*nodeadmission.Request{
		write("update", "coordination.k8s.io", "leases", "", "kube-node-lease", "n1", ""), write("delete", "", "pods", "", "a", "p", ""),
		write("create", "", "events", "", "a", "", ""), write("create", "storage.k8s.io", "csinodes", "", "", "", ""),
		write("create", "", "pods", "eviction", "a", "p", ""), write("delete", "", "nodes", "", "", "n1", ""),
		write("patch", "", "nodes", "status", "", "n1", `{"status":{"conditions":[{"type":"Ready","message":"\"x\""}]}}`),
		write("patch", "", "pods", "status", "a", "p", `{"metadata":{"uid":"u"},"status":{"$setElementOrder/conditions":[],"phase":"Running"}}`),
	} {
		if r.Attributes.GetName() == "" {
			r.Name = "n1"
		}
		if got := a.Decide(r, epoch); got.Verdict != nodeadmission.Allow {
			t.Fatalf("%s %s: %+v", r.Attributes.GetVerb(), r.Attributes.GetResource(), got)
		}
		if n := testing.AllocsPerRun(100, func() { a.Decide(r, epoch) }); n != 0 {
			t.Errorf("%s %s: %v allocations", r.Attributes.GetVerb(), r.Attributes.GetResource(), n)
		}
	}
}

func Example() {
	version, err := nodeadmission.VersionOf("1.36.3")
	if err != nil {
		fmt.Println(err)
		return
	}
	plugin := nodeadmission.New(version, nodeadmission.State{}, time.Second)
	answer := plugin.Decide(&nodeadmission.Request{
		Attributes: &authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:worker-1", Groups: []string{"system:nodes"}},
			Verb: "patch", Resource: "nodes", APIVersion: "v1", Name: "worker-2", ResourceRequest: true,
		},
		Node: "worker-1", IsNode: true,
	}, time.Date(2026, 11, 22, 8, 0, 0, 0, time.UTC))
	fmt.Println(answer.Verdict, answer.Code, answer.Message)
	// Output: deny 403 nodes "worker-2" is forbidden: node "worker-1" is not allowed to modify node "worker-2"
}
