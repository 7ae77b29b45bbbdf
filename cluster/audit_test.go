package cluster

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/lent"
)

// request is an audit event of a request that succeeded; path is "resource/subresource name".
func request(t *testing.T, when, verb, path, name, request, response string) *audit.Event {
	t.Helper()
	resource, sub, _ := strings.Cut(path, "/")
	ev := &audit.Event{
		Stage: audit.StageResponseComplete, Verb: verb, Code: 200, HasObjectRef: true, StageTime: at(t, when), RequestReceived: at(t, when).Add(-time.Millisecond),
		RequestURI: "/api/v1/namespaces/shop/" + resource + "/" + name,
		ObjectRef:  audit.ObjectRef{Resource: resource, Subresource: sub, Namespace: "shop", Name: name, APIVersion: "v1"},
	}
	if request != "" {
		ev.RequestObject = []byte(request)
	}
	if response != "" {
		ev.ResponseObject = []byte(response)
	}
	return ev
}

const (
	noGrace = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0}`
	// dryRunBody is what kubectl delete --force --dry-run=server sends.
	dryRunBody = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":0,"dryRun":["All"]}`

	grace    = `{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":30}`
	success  = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","uid":"u1"}}`
	binding2 = `{"kind":"Binding","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"u1"},"target":{"kind":"Node","name":"w2"}}`
)

func TestAuditPods(t *testing.T) {
	pod := func(node, bound, more string) string { return podJSON(t, "web-1", "u1", node, "0s", bound, more) }
	dying := func(seconds, finalizers string) string {
		return pod("w1", "0s", `,"deletionTimestamp":"`+at(t, "10s").Format(time.RFC3339)+`","deletionGracePeriodSeconds":`+seconds+`,"finalizers":[`+finalizers+`]`)
	}
	create := request(t, "0.5s", "create", "pods", "web-1", "", pod("w1", "", ""))
	f := func(name string, instants, want []string, events ...*audit.Event) {
		t.Helper()
		s := NewState()
		for _, ev := range events {
			applyLent(s, ev)
		}
		if d := cmp.Diff(want, timeline(t, s.Graph, "shop", "web-1", instants...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	with := func(ev *audit.Event, change func(*audit.Event)) *audit.Event { change(ev); return ev }

	f("created with its node", []string{"0.4s", "0.6s"}, []string{"-", "w1"}, create)
	f("bound", []string{"2.4s", "2.6s"}, []string{"-", "w2"},
		request(t, "0.5s", "create", "pods", "web-1", "", pod("", "", "")), request(t, "2.5s", "create", "pods/binding", "web-1", binding2, success))
	f("a status tells when it was bound", []string{"4.9s", "6.1s"}, []string{"-", "w1"}, request(t, "5m", "patch", "pods/status", "web-1", "", pod("w1", "5s", "")))
	f("request body alone", []string{"0.4s", "0.6s"}, []string{"-", "w1"}, request(t, "0.5s", "create", "pods", "web-1", pod("w1", "", ""), ""))
	f("a patch alone says nothing", []string{"0.6s"}, []string{"-"}, request(t, "0.5s", "patch", "pods", "web-1", pod("w1", "", ""), ""))

	f("dry run", []string{"0.6s"}, []string{"-"}, with(request(t, "0.5s", "create", "pods", "web-1", "", pod("w1", "", "")), func(ev *audit.Event) { ev.RequestURI += "?dryRun=All" }))
	f("dry run, escaped", []string{"0.6s"}, []string{"-"}, with(request(t, "0.5s", "create", "pods", "web-1", "", pod("w1", "", "")), func(ev *audit.Event) { ev.RequestURI += "?dry%52un=All" }))
	f("refused", []string{"0.6s"}, []string{"-"}, with(request(t, "0.5s", "create", "pods", "web-1", pod("w1", "", ""), success), func(ev *audit.Event) { ev.Code = 403 }))
	f("another stage", []string{"0.6s"}, []string{"-"}, with(request(t, "0.5s", "create", "pods", "web-1", "", pod("w1", "", "")), func(ev *audit.Event) { ev.Stage = audit.StagePanic }))

	after := []string{"9.9s", "10.1s"}
	f("deleted without grace", after, []string{"w1", "-"}, create, request(t, "10s", "delete", "pods", "web-1", noGrace, dying("0", "")))
	f("deleted without grace, no response", after, []string{"w1", "-"}, create, request(t, "10s", "delete", "pods", "web-1", noGrace, ""))
	f("deleted with grace", after, []string{"w1", "w1"}, create, request(t, "10s", "delete", "pods", "web-1", grace, dying("30", "")))
	f("deleted with a finalizer", after, []string{"w1", "w1"}, create, request(t, "10s", "delete", "pods", "web-1", noGrace, dying("0", `"x/y"`)))
	f("its last finalizer goes", []string{"9.9s", "10.1s", "20.1s"}, []string{"w1", "w1", "-"}, create,
		request(t, "10s", "delete", "pods", "web-1", noGrace, dying("0", `"x/y"`)), request(t, "20s", "patch", "pods", "web-1", "", dying("0", "")))
	f("deleted, nothing known", after, []string{"w1", "w1"}, create, request(t, "10s", "delete", "pods", "web-1", "", ""))
	inURI := func(ev *audit.Event) { ev.RequestURI += "?dryRun=All" }
	all := `{"kind":"PodList","apiVersion":"v1","items":[` + pod("w1", "0s", "") + `]}`
	f("dry run by the body", after, []string{"w1", "w1"}, create, request(t, "10s", "delete", "pods", "web-1", dryRunBody, dying("0", "")))
	f("dry run by the body, its key escaped", after, []string{"w1", "w1"}, create,
		request(t, "10s", "delete", "pods", "web-1", strings.Replace(dryRunBody, "dryRun", `dry\u0052un`, 1), dying("0", "")))
	f("dry run by the body, no response", after, []string{"w1", "w1"}, create, request(t, "10s", "delete", "pods", "web-1", dryRunBody, ""))
	f("dry run of all by the body", after, []string{"w1", "w1"}, create, request(t, "10s", "deletecollection", "pods", "", dryRunBody, all))
	f("dry run by the URI", after, []string{"w1", "w1"}, create, with(request(t, "10s", "delete", "pods", "web-1", "", dying("0", "")), inURI))
	f("a body without a dry run, which the URI asks for", after, []string{"w1", "-"}, create, with(request(t, "10s", "delete", "pods", "web-1", noGrace, dying("0", "")), inURI))
	f("the same for all", after, []string{"w1", "-"}, create, with(request(t, "10s", "deletecollection", "pods", "", noGrace, all), inURI))
	f("dry run of an update, whose options are in the URI", after, []string{"w1", "w1"}, create,
		with(request(t, "10s", "update", "pods", "web-1", dying("0", ""), strings.Replace(dying("0", ""), `"nodeName":"w1"`, `"nodeName":"w2"`, 1)), inURI))
	f("deleted with others", after, []string{"w1", "-"}, create,
		request(t, "10s", "deletecollection", "pods", "", noGrace, `{"kind":"PodList","apiVersion":"v1","items":[`+pod("w1", "0s", "")+`]}`))
	f("deleted with others and with grace", after, []string{"w1", "w1"}, create,
		request(t, "10s", "deletecollection", "pods", "", "", `{"kind":"PodList","apiVersion":"v1","items":[`+pod("w1", "0s", "")+`]}`))
}

// TestAuditRefines has a journal without a clock, so that only the audit events tell the fraction of the second.
func TestAuditRefines(t *testing.T) {
	s := load(t, event(t, "", "ADDED", podJSON(t, "web-1", "u1", "", "0s", "", ""))+event(t, "", "MODIFIED", podJSON(t, "web-1", "u1", "w1", "0s", "5s", ""))+
		event(t, "", "DELETED", podJSON(t, "web-1", "u1", "w1", "0s", "5s", `,"deletionTimestamp":"`+at(t, "10s").Format(time.RFC3339)+`"`)))
	applyLent(s, request(t, "5.4s", "create", "pods/binding", "web-1", "", ""))
	applyLent(s, request(t, "10.4s", "delete", "pods", "web-1", "", ""))
	applyLent(s, request(t, "7s", "delete", "pods", "web-1", "", "")) // of which nothing came
	if d := cmp.Diff([]string{"-", "w1", "w1", "w1", "-"}, timeline(t, s.Graph, "shop", "web-1", "5.3s", "5.5s", "8s", "10.3s", "10.5s")); d != "" {
		t.Error(d)
	}
}

// Whoever watches all pods sees whether a finalizer keeps one that is deleted without grace. The request alone does not show it.
func TestAuditWatchedPodsEndWhereTheWatchShowsIt(t *testing.T) {
	pod := podJSON(t, "web-1", "u1", "w1", "0s", "0s", `,"finalizers":["x/y"]`)
	other := strings.NewReplacer(`"shop"`, `"bank"`, `"u1"`, `"u2"`).Replace(pod)
	begins := event(t, "1s", "ADDED", pod) + event(t, "1s", "ADDED", other)
	for name, c := range map[string]struct {
		journal string
		want    []string // 10 s and 40 s after the request
	}{
		"the finalizer stays":             {begins + event(t, "200s", "MODIFIED", other), []string{"w1", "w1"}},
		"the finalizer goes after 30 s":   {begins + event(t, "40s", "DELETED", pod) + event(t, "200s", "MODIFIED", other), []string{"w1", "-"}},
		"the watch has ended before that": {begins, []string{"-", "-"}},
		"one namespace is watched":        {event(t, "1s", "ADDED", pod), []string{"-", "-"}},
	} {
		s := load(t, c.journal)
		applyLent(s, request(t, "10s", "delete", "pods", "web-1", noGrace, ""))
		if d := cmp.Diff(c.want, timeline(t, s.Graph, "shop", "web-1", "20s", "50s")); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestAuditOtherKinds(t *testing.T) {
	s := NewState()
	role := func(when, verb, body string) *audit.Event {
		ev := request(t, when, verb, "clusterrolebindings", "b", "", body)
		ev.ObjectRef.APIGroup, ev.ObjectRef.Namespace = rbacGroup, ""
		return ev
	}
	applyLent(s, role("1s", "create", `{"kind":"ClusterRoleBinding","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"b","uid":"u1"},"roleRef":{"kind":"ClusterRole","name":"r"},"subjects":[{"kind":"Group","name":"g"}]}`))
	applyLent(s, role("9s", "delete", success))
	n := func(when string) (n int) {
		for range s.RBAC.Bindings(at(t, when)) {
			n++
		}
		return n
	}
	if d := cmp.Diff([]int{0, 1, 0}, []int{n("0.9s"), n("8s"), n("9.1s")}); d != "" {
		t.Error(d)
	}
	applyLent(s, request(t, "3s", "create", "nodes", "w9", "", ""))
	if exists, covered := s.Nodes.Known("w9", at(t, "4s")); !exists || covered {
		t.Errorf("w9: %v %v", exists, covered)
	}
	if d := cmp.Diff(map[string]int{"ClusterRoleBinding": 2}, s.Summary().FromAudit); d != "" {
		t.Error(d)
	}
}

// FuzzAuditBody gives anything at all as a body.
func FuzzAuditBody(f *testing.F) {
	f.Add(uint8(0), []byte(binding2), []byte(success))
	f.Add(uint8(1), []byte(noGrace), []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","deletionTimestamp":"2026-11-21T06:00:00Z","deletionGracePeriodSeconds":0}}`))
	f.Add(uint8(2), []byte(nil), []byte(`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"p"}},null]}`))
	f.Add(uint8(3), []byte(`{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","rules":[{"verbs":["get"]}]}`), []byte(nil))
	f.Add(uint8(4), []byte(nil), []byte(`{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"v"},"spec":{"claimRef":{"name":"c"}}}`))
	shapes := []struct{ verb, resource, sub, group string }{
		{"create", "pods", "binding", ""}, {"delete", "pods", "", ""}, {"deletecollection", "pods", "", ""}, {"update", "clusterroles", "", rbacGroup},
		{"patch", "persistentvolumes", "status", ""}, {"create", "resourceslices", "", "resource.k8s.io"}, {"delete", "nodes", "", ""}, {"create", "pods", "", ""},
	}
	f.Fuzz(func(t *testing.T, shape uint8, body, answer []byte) {
		s := NewState()
		of := shapes[int(shape)%len(shapes)]
		ev := request(t, "1s", of.verb, of.resource+"/"+of.sub, "x", string(body), string(answer))
		ev.ObjectRef.APIGroup = of.group
		applyLent(s, ev)
		ahead := NewState()
		ahead.ApplyRead(ev, ahead.ReadAudit(ev))
		if d := cmp.Diff(known(t, s), known(t, ahead)); d != "" {
			t.Errorf("what was read ahead of its turn tells something else (-want +got):\n%s", d)
		}
	})
}

// known is what a state knows, as far as tests of bodies can tell.
func known(t *testing.T, s *State) any {
	t.Helper()
	var nodes []string
	for _, when := range []string{"0s", "0.5s", "1s", "2s", "10s", "60s"} {
		for _, pod := range []string{"x", "p", "web-1"} {
			node, ok := s.Graph.PodNode("shop", pod, at(t, when))
			nodes = append(nodes, fmt.Sprint(when, pod, node, ok))
		}
		for b := range s.RBAC.Bindings(at(t, when)) {
			nodes = append(nodes, fmt.Sprint(when, b))
		}
	}
	return []any{nodes, s.Graph.Stats(), s.Summary(), s.Nodes.Names(at(t, "2s")), s.versions.n, len(s.tracked[kindPod])}
}

// TestReadAhead reads the bodies of a whole log ahead of their turns, in any order, with versions that are given twice.
func TestReadAhead(t *testing.T) {
	events := []*audit.Event{}
	for i := range 40 {
		name := fmt.Sprint("web-", i%7)
		pod := podJSON(t, name, "u"+name, "w1", "0s", "0s", fmt.Sprintf(`,"resourceVersion":"%d"`, i/2))
		dying := podJSON(t, name, "u"+name, "w1", "0s", "0s", `,"deletionTimestamp":"`+at(t, "10s").Format(time.RFC3339)+`","deletionGracePeriodSeconds":0`)
		when := fmt.Sprintf("%d.5s", i)
		switch i % 5 {
		case 0:
			events = append(events, request(t, when, "create", "pods", name, "", pod))
		case 1, 2:
			events = append(events, request(t, when, "patch", "pods/status", name, "", pod))
		case 3:
			events = append(events, request(t, when, "create", "pods/binding", name, binding2, success))
		default:
			events = append(events, request(t, when, "delete", "pods", name, noGrace, dying))
		}
	}
	want, got := NewState(), NewState()
	read, onLoan, takeBack := make([]*Read, len(events)), make([]*audit.Event, len(events)), make([]func(), len(events))
	for i := len(events) - 1; i >= 0; i-- {
		onLoan[i], takeBack[i] = lent.Copy(events[i])
		read[i] = got.ReadAudit(onLoan[i])
	}
	n := 0
	for i, ev := range events {
		applyLent(want, ev)
		got.ApplyRead(onLoan[i], read[i])
		takeBack[i]()
		if read[i] != nil {
			n++
		}
		if d := cmp.Diff(known(t, want), known(t, got)); d != "" {
			t.Fatalf("after event %d (-want +got):\n%s", i, d)
		}
		for j := range 7 {
			name := fmt.Sprint("web-", j)
			if d := cmp.Diff(timeline(t, want.Graph, "shop", name, "0.4s", "5s", "20s", "39s"), timeline(t, got.Graph, "shop", name, "0.4s", "5s", "20s", "39s")); d != "" {
				t.Fatalf("after event %d, %s (-want +got):\n%s", i, name, d)
			}
		}
	}
	if n < len(events)/2 {
		t.Errorf("%d of %d bodies were read", n, len(events))
	}
}

func BenchmarkApplyAudit(b *testing.B) {
	body := []byte(strings.Repeat(" ", 10))
	ev := &audit.Event{
		Stage: audit.StageResponseComplete, Verb: "patch", Code: 200, HasObjectRef: true, StageTime: base, ObjectRef: audit.ObjectRef{Resource: "pods", Subresource: "status", Namespace: "shop", Name: "web-1"},
		ResponseObject: append(body, []byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"web-1","namespace":"shop","uid":"c021b6b9-e6fc-4cad-a748-3bc5c9919103","managedFields":[`+strings.Repeat(`{"manager":"kubelet","fieldsV1":{"f:status":{"f:conditions":{"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:status":{}}}}}},`, 20)+`{}]},"spec":{"nodeName":"w1","containers":[{"name":"c","env":[{"name":"e","valueFrom":{"secretKeyRef":{"name":"s"}}}]}]},"status":{"phase":"Running"}}`)...),
	}
	s := NewState()
	b.SetBytes(int64(len(ev.ResponseObject)))
	b.ReportAllocs()
	for b.Loop() {
		s.ApplyAudit(ev)
	}
}

// After an outage the log is ahead of the watch: a kubelet's request that ended a pod is known before the watch tells that it ended.
func TestAuditRefinesWhatComesLater(t *testing.T) {
	gone := strings.Replace(event(t, "1m30s", "DELETED", podJSON(t, "web-1", "u1", "w1", "0s", "0s",
		`,"deletionGracePeriodSeconds":0,"deletionTimestamp":"`+at(t, "1m").Format(time.RFC3339)+`"`)), `"type"`, `"notBefore":"`+at(t, "30s").Format(time.RFC3339)+`","type"`, 1)
	f := func(want []string, early ...*audit.Event) {
		t.Helper()
		s := load(t, event(t, "0s", "ADDED", podJSON(t, "web-1", "u1", "w1", "0s", "0s", "")))
		for _, ev := range early {
			applyLent(s, ev)
		}
		if err := s.Load([]string{"-"}, strings.NewReader(gone)); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, timeline(t, s.Graph, "shop", "web-1", "59s", "1m1s", "1m2.4s", "1m2.6s", "1m31s")); d != "" {
			t.Error(d)
		}
	}
	asks, ends := request(t, "1m0.1s", "delete", "pods", "web-1", "", ""), request(t, "1m2.5s", "delete", "pods", "web-1", "", "")
	ends.User.Username, ends.User.Groups = "system:node:w1", []string{"system:nodes"}
	f([]string{"w1", "w1", "w1", "-", "-"}, asks, ends)
	f([]string{"w1", "w1", "w1", "w1", "-"}) // as late as it may have been
}
