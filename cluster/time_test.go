package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestPodTimes(t *testing.T) {
	// When is web-1 on a node? The instants are those asked about.
	f := func(name, journal string, instants, want []string) {
		t.Helper()
		s := load(t, journal)
		if d := cmp.Diff(want, timeline(t, s.Graph, "shop", "web-1", instants...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	pod := func(node, created, bound string) string { return podJSON(t, "web-1", "u1", node, created, bound, "") }

	f("initial list: bound when PodScheduled says, in whole seconds",
		event(t, "1h0.5s", "ADDED", pod("w1", "1m", "2m")),
		[]string{"1m59.9s", "2m1s", "2h"}, []string{"-", "w1", "w1"})
	f("initial list: made with its node",
		event(t, "1h0.5s", "ADDED", pod("w1", "1m", "")),
		[]string{"59.9s", "1m1s"}, []string{"-", "w1"})
	f("bound while it was watched: when it was seen",
		event(t, "1m0.2s", "ADDED", pod("", "1m", ""))+event(t, "1m0.7s", "MODIFIED", pod("w1", "1m", "1m")),
		[]string{"1m0.3s", "1m0.69s", "1m0.7s"}, []string{"-", "-", "w1"})
	f("seen late, but within the agreement",
		event(t, "0s", "ADDED", pod("", "0s", ""))+event(t, "1m2.5s", "MODIFIED", pod("w1", "0s", "1m")),
		[]string{"1m2.4s", "1m2.5s"}, []string{"-", "w1"})
	f("a watcher's clock that is wrong by far",
		event(t, "0s", "ADDED", pod("", "0s", ""))+event(t, "3m", "MODIFIED", pod("w1", "0s", "1m")),
		[]string{"59.9s", "1m1s"}, []string{"-", "w1"})
	f("after an outage the object's own time serves",
		event(t, "0s", "ADDED", pod("", "0s", ""))+strings.Replace(event(t, "1m2s", "MODIFIED", pod("w1", "0s", "1m")), `"type"`, `"notBefore":"`+at(t, "30s").Format(time.RFC3339)+`","type"`, 1),
		[]string{"59.9s", "1m1s"}, []string{"-", "w1"})
	f("deleted in an outage: gone for certain when it was seen to be, and not before it was asked for",
		event(t, "0s", "ADDED", pod("w1", "0s", "0s"))+strings.Replace(event(t, "1m30s", "DELETED", podJSON(t, "web-1", "u1", "w1", "0s", "0s",
			`,"deletionGracePeriodSeconds":0,"deletionTimestamp":"`+at(t, "1m").Format(time.RFC3339)+`"`)), `"type"`, `"notBefore":"`+at(t, "30s").Format(time.RFC3339)+`","type"`, 1),
		[]string{"59s", "1m31s"}, []string{"w1", "-"})
	f("deleted",
		event(t, "0s", "ADDED", pod("w1", "0s", "0s"))+event(t, "5.25s", "DELETED", pod("w1", "0s", "0s")),
		[]string{"3s", "5.2s", "5.3s"}, []string{"w1", "w1", "-"})
	f("a deletion alone tells of the life before it",
		event(t, "1m5.25s", "DELETED", pod("w1", "0s", "10s")),
		[]string{"9.9s", "12s", "1m5.2s", "1m5.3s"}, []string{"-", "w1", "w1", "-"})
	f("made again under its name, deletion not seen",
		event(t, "1m", "ADDED", pod("w1", "0s", "0s"))+event(t, "2m0.5s", "ADDED", podJSON(t, "web-1", "u2", "w2", "2m", "2m", "")),
		[]string{"1m", "2m2s", "1h"}, []string{"w1", "w2", "w2"})
	f("seen once more after its deletion",
		event(t, "0s", "ADDED", pod("w1", "0s", "0s"))+event(t, "5s", "DELETED", pod("w1", "0s", "0s"))+event(t, "5.1s", "MODIFIED", pod("w1", "0s", "0s")),
		[]string{"4s", "5.05s", "6s"}, []string{"w1", "-", "-"})

	// Without observedAt.
	f("kubectl -w: bound by PodScheduled, deleted by deletionTimestamp",
		event(t, "", "ADDED", podJSON(t, "other", "u0", "w1", "10s", "10s", ""))+event(t, "", "ADDED", pod("", "20s", ""))+
			event(t, "", "MODIFIED", pod("w1", "20s", "30s"))+
			event(t, "", "DELETED", podJSON(t, "web-1", "u1", "w1", "20s", "30s", `,"deletionTimestamp":"`+at(t, "1m").Format(time.RFC3339)+`"`)),
		[]string{"29s", "32s", "59s", "1m32s"}, []string{"-", "w1", "w1", "-"})
	f("kubectl -w: a deletion without a time is after what came before",
		event(t, "", "ADDED", pod("w1", "20s", "30s"))+event(t, "", "DELETED", pod("w1", "20s", "30s"))+
			event(t, "", "ADDED", podJSON(t, "other", "u0", "w1", "50s", "50s", "")),
		[]string{"29s", "32s", "52s"}, []string{"-", "w1", "-"})
}

func TestSnapshotThenSnapshot(t *testing.T) {
	one := `{"kind":"List","apiVersion":"v1","items":[` + podJSON(t, "web-1", "u1", "w1", "0s", "0s", "") + "," + podJSON(t, "web-2", "u2", "w1", "1m", "1m", "") + "]}"
	two := `{"kind":"List","apiVersion":"v1","items":[` + podJSON(t, "web-2", "u2", "w1", "1m", "1m", "") + "," + podJSON(t, "web-3", "u3", "w1", "1h", "1h", "") + "]}"
	for _, order := range [][]string{{one, two}, {two, one}} {
		s := load(t, order...)
		for name, want := range map[string][]string{"web-1": {"w1", "-"}, "web-2": {"w1", "w1"}, "web-3": {"-", "w1"}} {
			if d := cmp.Diff(want, timeline(t, s.Graph, "shop", name, "1m", "1h1s")); d != "" {
				t.Errorf("%s: %s", name, d)
			}
		}
		if from, _ := s.Graph.CoveredFrom(); !from.Equal(at(t, "1m")) {
			t.Errorf("covered from %v", from)
		}
	}
}

func TestJournalsInTurn(t *testing.T) {
	pod := func(name string) string { return podJSON(t, name, "u-"+name, "w1", "0s", "0s", "") }
	elsewhere := strings.Replace(podJSON(t, "far", "u-far", "w1", "0s", "0s", ""), `"shop"`, `"farm"`, 1)
	first := event(t, "1m", "ADDED", pod("web-1")) + event(t, "1m", "ADDED", pod("web-2")) + event(t, "1m", "ADDED", elsewhere) + event(t, "2m", "MODIFIED", pod("web-1"))
	end := `{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}`
	f := func(name, second string, web1, web2, far string) {
		t.Helper()
		s := load(t, second, first)
		got := []string{
			timeline(t, s.Graph, "shop", "web-1", "10m5s")[0], timeline(t, s.Graph, "shop", "web-2", "10m5s")[0], timeline(t, s.Graph, "farm", "far", "10m5s")[0],
		}
		if d := cmp.Diff([]string{web1, web2, far}, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	f("lists all of a namespace", event(t, "10m", "ADDED", pod("web-2")), "-", "w1", "w1")
	f("lists all of several namespaces", event(t, "10m", "ADDED", pod("web-2"))+event(t, "10m", "ADDED", elsewhere), "-", "w1", "w1")
	f("lists nothing, and says so", event(t, "10m", "BOOKMARK", end), "-", "-", "-")
	f("does not list", event(t, "10m", "MODIFIED", pod("web-2")), "w1", "w1", "w1")
	f("began before the first one ended", event(t, "1m30s", "ADDED", pod("web-2")), "w1", "w1", "w1")
}

// TestOverlap reads two records of the same time, one of them late: nothing comes back to life.
func TestOverlap(t *testing.T) {
	record := func(late time.Duration) string {
		ev := func(observed, verb string) string {
			return event(t, (late + at(t, observed).Sub(base)).String(), verb, podJSON(t, "web-1", "u1", "w1", "1s", "1s", ""))
		}
		return event(t, late.String(), "ADDED", podJSON(t, "old", "u0", "w1", "0s", "0s", "")) + ev("1.1s", "ADDED") + ev("4s", "MODIFIED") + ev("5s", "DELETED")
	}
	s := load(t, record(0), record(1500*time.Millisecond))
	if d := cmp.Diff([]string{"w1", "-", "-", "-"}, timeline(t, s.Graph, "shop", "web-1", "4.9s", "5.1s", "5.6s", "1h")); d != "" {
		t.Error(d)
	}
	if n := s.Summary().Objects["Pod"]; n != 2 {
		t.Errorf("%d pods", n)
	}
}

func TestCoverage(t *testing.T) {
	nodes := `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"w1","creationTimestamp":"2026-11-20T00:00:00Z"}}]}`
	pods := event(t, "1m", "ADDED", podJSON(t, "web-1", "u1", "w1", "0s", "0s", ""))
	s := load(t, nodes, pods)
	if from, ok := s.Graph.CoveredFrom(); !ok || !from.Equal(at(t, "1m")) {
		t.Errorf("the graph is covered from %v", from)
	}
	if s.RBAC.Covers(at(t, "24h")) {
		t.Error("roles are covered without roles")
	}
	if exists, covered := s.Nodes.Known("w2", base); exists || !covered {
		t.Errorf("w2: %v %v", exists, covered)
	}
}

func TestVolumeTimes(t *testing.T) {
	pv := func(claim, more string) string {
		return `{"kind":"PersistentVolume","apiVersion":"v1","metadata":{"name":"v","uid":"v1","creationTimestamp":"2026-11-21T06:00:00Z"},"spec":{` + claim + `},"status":{` + more + `}}`
	}
	claim := `"claimRef":{"namespace":"shop","name":"data"}`
	pod := strings.Replace(podJSON(t, "web-1", "u1", "w1", "0s", "0s", ""), `"spec":{`, `"spec":{"volumes":[{"persistentVolumeClaim":{"claimName":"data"}}],`, 1)
	reaches := func(s *State, when string) string {
		features, err := nodeauthz.FeaturesFor("1.36")
		if err != nil {
			t.Fatal(err)
		}
		return nodeauthz.NewAuthorizer(s.Graph, features, 0).Decide(authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:w1", Groups: []string{"system:nodes"}}, ResourceRequest: true, Verb: "get",
			APIVersion: "v1", Resource: "persistentvolumes", Name: "v",
		}, at(t, when)).Verdict.String()
	}
	f := func(name, journal string, instants, want []string) {
		t.Helper()
		s := load(t, event(t, "0s", "ADDED", pod)+journal)
		var got []string
		for _, i := range instants {
			got = append(got, reaches(s, i))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	f("bound while watched", event(t, "1s", "ADDED", pv("", ""))+event(t, "10.5s", "MODIFIED", pv(claim, `"lastPhaseTransitionTime":"2026-11-21T06:00:10Z"`)),
		[]string{"10.4s", "10.6s"}, []string{"deny", "allow"})
	f("bound before: never claimed earlier than known", event(t, "10m", "ADDED", pv(claim, `"lastPhaseTransitionTime":"2026-11-21T06:01:00Z"`)),
		[]string{"59s", "1m2s"}, []string{"deny", "allow"})
	f("deleted", event(t, "10m", "ADDED", pv(claim, ""))+event(t, "11m", "DELETED", pv(claim, "")), []string{"10m1s", "11m1s"}, []string{"allow", "deny"})
}

func TestRoleTimes(t *testing.T) {
	role := func(written, verb string) string {
		return `{"kind":"ClusterRole","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"r","uid":"r1","creationTimestamp":"2026-11-21T06:00:00Z","managedFields":[{"time":"` +
			at(t, written).Format(time.RFC3339) + `"}]},"rules":[{"verbs":["` + verb + `"],"apiGroups":[""],"resources":["secrets"]}]}`
	}
	binding := `{"kind":"ClusterRoleBinding","apiVersion":"rbac.authorization.k8s.io/v1","metadata":{"name":"b","uid":"b1","managedFields":[{"time":"2026-11-21T05:00:00Z"}]},` +
		`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},"subjects":[{"kind":"Group","apiGroup":"rbac.authorization.k8s.io","name":"g"}]}`
	s := load(t, event(t, "10m", "ADDED", binding)+event(t, "10m", "ADDED", role("5m", "get"))+event(t, "20m0.5s", "MODIFIED", role("20m", "list"))+event(t, "30m", "DELETED", role("20m", "list")))
	allowed := func(verb, when string) bool {
		for range s.RBAC.Grants(authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "u", Groups: []string{"g"}}, ResourceRequest: true, Verb: verb, APIVersion: "v1", Resource: "secrets", Namespace: "shop", Name: "x",
		}, at(t, when)) {
			return true
		}
		return false
	}
	for _, q := range []struct {
		verb, when string
		want       bool
	}{
		{"get", "10m0.1s", true}, {"list", "10m0.1s", false}, {"get", "20m0.4s", true}, {"get", "20m0.6s", false}, {"list", "20m0.6s", true}, {"list", "30m1s", false},
	} {
		if got := allowed(q.verb, q.when); got != q.want {
			t.Errorf("%s at %s: %v", q.verb, q.when, got)
		}
	}
}

// After the end of what was loaded nobody sees which addresses Nodes get, whatever bodies the log has. They may still tell which Nodes there are.
func TestAddressesEnd(t *testing.T) {
	s := load(t, event(t, "1m", "ADDED", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u1"}}`)+
		event(t, "3m", "BOOKMARK", `{"kind":"Node","apiVersion":"v1","metadata":{"resourceVersion":"9"}}`))
	f := func(when, want string) {
		t.Helper()
		var got []string
		for _, instant := range []string{"30s", "2m", "3m"} {
			_, known := s.Nodes.Known("w1", at(t, instant))
			got = append(got, fmt.Sprint(known, s.Nodes.AddressesKnown(at(t, instant))))
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("%s: %s, want %s", when, s, want)
		}
	}
	f("while inputs may follow", "false false, true true, true true")
	s.InputsEnd(true)
	f("after the end", "false false, true true, true false")
}

// After the end of what was loaded, what nobody saw is not absent: without bodies in the log never, with bodies from the first pod on whose creation has none.
func TestInputsEnd(t *testing.T) {
	journal := event(t, "1m", "ADDED", podJSON(t, "stays", "u1", "w1", "1m", "1m", "")) + event(t, "2m", "MODIFIED", podJSON(t, "stays", "u1", "w1", "1m", "1m", ""))
	created := func(instant string, body bool) *audit.Event {
		ev := request(t, instant, "create", "pods", "new", "", podJSON(t, "new", "u2", "w2", instant, instant, ""))
		if !body {
			ev.ResponseObject = nil
		}
		return ev
	}
	for _, c := range []struct {
		name   string
		bodies bool
		log    []*audit.Event
		want   string // of the pods stays and other at 6m, 8m and 31m
	}{
		{"without bodies", false, nil, "allow deny, unknown unknown, unknown unknown"},
		{"with bodies", true, []*audit.Event{created("30m", true)}, "allow deny, allow deny, allow deny"},
		{"one body is missing", true, []*audit.Event{created("30m", false)}, "allow deny, allow deny, unknown unknown"},
		{"one body is missing soon after", true, []*audit.Event{created("121s", false), created("150s", false)}, "unknown unknown, unknown unknown, unknown unknown"},
		{"one body is missing at the end", true, []*audit.Event{created("121s", false)}, "allow deny, allow deny, allow deny"},
		{"a body is missing of which the journal tells", true, []*audit.Event{created("90s", false)}, "allow deny, allow deny, allow deny"},
	} {
		s := load(t, journal)
		s.InputsEnd(c.bodies)
		for _, ev := range c.log {
			s.ApplyAudit(ev)
		}
		a, got := nodeauthz.NewAuthorizer(s.Graph, features(t), time.Second), []string(nil)
		for _, instant := range []string{"6m", "8m", "31m"} {
			var pair []string
			for _, name := range []string{"stays", "other"} {
				pair = append(pair, podVerdict(a, name, at(t, instant)))
			}
			got = append(got, strings.Join(pair, " "))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %s, want %s", c.name, s, c.want)
		}
	}
}

// What audit events showed a state that is gone is neither absent nor as it was before. What they tell from then on counts.
func TestForgot(t *testing.T) {
	journal := event(t, "1m", "ADDED", podJSON(t, "stays", "u1", "w1", "1m", "1m", "")) + event(t, "2m", "MODIFIED", podJSON(t, "stays", "u1", "w1", "1m", "1m", ""))
	for _, c := range []struct {
		learned string
		forgot  bool
		want    string // of the pods stays, other, and new, which comes at 20m, at 90s, 5m and 21m
		gaps    int
	}{
		{"90s", false, "allow deny deny, allow deny deny, allow deny allow", 0},
		{"2m", false, "allow deny deny, allow deny deny, allow deny allow", 0},
		{"10m", true, "allow deny deny, unknown unknown unknown, unknown unknown allow", 1},
		{"25m", true, "allow deny deny, unknown unknown unknown, unknown unknown unknown", 1},
	} {
		s := load(t, journal)
		if end, forgot := s.Forgot(at(t, c.learned)); forgot != c.forgot || forgot && !end.Equal(at(t, "2m")) {
			t.Errorf("learned until %s: forgot %v, from %s", c.learned, forgot, end)
		}
		s.ApplyAudit(request(t, "20m", "create", "pods", "new", "", podJSON(t, "new", "u2", "w1", "20m", "20m", "")))
		a, got := nodeauthz.NewAuthorizer(s.Graph, features(t), time.Second), []string(nil)
		for _, instant := range []string{"90s", "5m", "21m"} {
			var all []string
			for _, name := range []string{"stays", "other", "new"} {
				all = append(all, podVerdict(a, name, at(t, instant)))
			}
			got = append(got, strings.Join(all, " "))
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("learned until %s: %s, want %s", c.learned, s, c.want)
		}
		if got := s.Learned(); !got.Equal(at(t, "20m")) {
			t.Errorf("learned until %s, want 20m", got)
		}
		gaps := slices.DeleteFunc(s.Gaps(at(t, "1m"), at(t, "3m")), func(g codes.Gap) bool { return g.Code != codes.StateForgotten })
		if len(gaps) != c.gaps {
			t.Errorf("learned until %s: %+v", c.learned, gaps)
		}
	}
}

// What a journal has shown, what tells nothing, and what Nodes report of themselves is nothing to forget.
func TestLearned(t *testing.T) {
	pod := podJSON(t, "web", "u1", "w1", "1m", "1m", "")
	versioned := strings.Replace(pod, `"uid":"u1"`, `"uid":"u1","resourceVersion":"7"`, 1)
	if versioned == pod {
		t.Fatal(pod)
	}
	node := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"n1","resourceVersion":"9"}}`
	for _, c := range []struct {
		name    string
		ev      *audit.Event
		learned bool
	}{
		{"a version that the journal has", request(t, "5m", "patch", "pods/status", "web", "", versioned), false},
		{"a later version", request(t, "5m", "patch", "pods/status", "web", "", strings.Replace(versioned, `"7"`, `"8"`, 1)), true},
		{"without a body", request(t, "5m", "patch", "pods/status", "web", "", ""), false},
		{"a binding", request(t, "5m", "create", "pods/binding", "new", "", ""), true},
		{"a deletion", request(t, "5m", "delete", "pods", "web", "", ""), true},
		{"a Node's status", request(t, "5m", "patch", "nodes/status", "w1", "", node), false},
		{"a Node's creation", request(t, "5m", "create", "nodes", "w2", "", ""), true},
	} {
		s := load(t, event(t, "1m", "ADDED", versioned))
		s.ApplyAudit(c.ev)
		if at := s.Learned(); at.IsZero() == c.learned {
			t.Errorf("%s: learned at %v", c.name, at)
		}
	}
}
