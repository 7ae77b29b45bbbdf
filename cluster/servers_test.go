package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// lease is an API server's identity Lease; renewed is after the tests' beginning.
func lease(t *testing.T, name, uid, holder, renewed string) string {
	return fmt.Sprintf(`{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"name":%q,"namespace":"kube-system","uid":%q,"creationTimestamp":%q,`+
		`"labels":{"apiserver.kubernetes.io/identity":"kube-apiserver","kubernetes.io/hostname":"cp"}},"spec":{"holderIdentity":%q,"leaseDurationSeconds":3600,"renewTime":%q}}`,
		name, uid, at(t, "0s").Format(time.RFC3339), holder, at(t, renewed).Format("2006-01-02T15:04:05.000000Z07:00"))
}

func TestServers(t *testing.T) {
	other := strings.Replace(lease(t, "apiserver-x", "x", "x", "9s"), "apiserver.kubernetes.io/identity", "app", 1)
	elsewhere := strings.Replace(lease(t, "apiserver-y", "y", "y", "9s"), `"kube-system"`, `"kube-node-lease"`, 1)
	s := load(t, event(t, "5s", "ADDED", lease(t, "apiserver-a", "a", "a_1", "2s"))+event(t, "5s", "ADDED", lease(t, "apiserver-b", "b", "b_1", "4s"))+
		event(t, "6s", "ADDED", other)+event(t, "6s", "ADDED", elsewhere)+
		event(t, "600s", "MODIFIED", lease(t, "apiserver-a", "a", "a_2", "599s"))+event(t, "4000s", "DELETED", lease(t, "apiserver-b", "b", "b_1", "300s")))
	lives, covered := s.Servers.Lives(at(t, "10s"), at(t, "5000s"))
	want := []ServerLife{
		{Name: "apiserver-a", Holder: "a_2", From: at(t, "0s"), Renewed: at(t, "599s")},
		{Name: "apiserver-b", Holder: "b_1", From: at(t, "0s"), Renewed: at(t, "300s"), To: at(t, "4000s")},
	}
	if d := cmp.Diff(want, lives); d != "" || !covered {
		t.Errorf("covered %v (-want +got):\n%s", covered, d)
	}
	if lives, _ := s.Servers.Lives(at(t, "4100s"), at(t, "5000s")); len(lives) != 1 {
		t.Errorf("after the deletion: %v", lives)
	}
	if _, covered := s.Servers.Lives(at(t, "-10s"), at(t, "5000s")); covered {
		t.Error("covered before the journal begins")
	}
	if sum := s.Summary(); sum.Objects["Lease"] != 2 || sum.Skipped["Lease"] != 2 {
		t.Errorf("counted %v, skipped %v", sum.Objects, sum.Skipped)
	}
	s.Prune(at(t, "4500s"))
	if lives, _ := s.Servers.Lives(at(t, "10s"), at(t, "5000s")); len(lives) != 1 {
		t.Errorf("after pruning: %v", lives)
	}
	if _, covered := load(t, event(t, "5s", "ADDED", lease(t, "apiserver-a", "a", "a_1", "2s"))).Servers.Lives(at(t, "5s"), at(t, "6s")); !covered {
		t.Error("not covered by a list of one")
	}
	if _, covered := NewState().Servers.Lives(at(t, "5s"), at(t, "6s")); covered {
		t.Error("a state that knows nothing covers")
	}
}

// A server has ended if its Lease stays as it is while others are renewed, or was deleted while somebody watched.
func TestServersThatEnded(t *testing.T) {
	added := event(t, "5s", "ADDED", lease(t, "apiserver-a", "a", "a_1", "0s")) + event(t, "5s", "ADDED", lease(t, "apiserver-b", "b", "b_1", "0s"))
	renewed := func(name, at string) string {
		return event(t, at, "MODIFIED", lease(t, "apiserver-"+name, name, name+"_1", at))
	}
	gone := event(t, "4800s", "DELETED", lease(t, "apiserver-b", "b", "b_1", "600s"))
	list := `{"observedAt":"` + at(t, "5000s").Format(time.RFC3339) + `","notBefore":"` + at(t, "900s").Format(time.RFC3339) + `","type":"BOOKMARK","object":{"kind":"Lease",` +
		`"apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"1","annotations":{"k8s.io/initial-events-end":"true"}}}}` + "\n"
	some, none := Interval{at(t, "600s"), at(t, "1200s")}, Interval{}
	for name, c := range map[string]struct {
		journal string
		ended   bool
		in      Interval
	}{
		"both live":           {added + renewed("a", "600s") + renewed("b", "600s"), false, none},
		"not yet":             {added + renewed("a", "600s") + renewed("b", "600s") + renewed("a", "1200s"), false, none},
		"another is renewed":  {added + renewed("a", "600s") + renewed("b", "600s") + renewed("a", "1200s") + renewed("a", "1800s"), true, some},
		"deleted":             {added + renewed("a", "600s") + renewed("b", "600s") + gone, true, some},
		"its last renewal":    {added + renewed("a", "600s") + renewed("b", "600s") + event(t, "4800s", "DELETED", lease(t, "apiserver-b", "b", "b_1", "607s")), true, Interval{at(t, "607s"), at(t, "607s")}},
		"from a snapshot":     {added + event(t, "805s", "ADDED", lease(t, "apiserver-b", "b", "b_1", "804s")) + renewed("a", "1200s") + renewed("a", "1800s"), true, Interval{at(t, "804s"), at(t, "1404s")}},
		"deleted in a hole":   {added + renewed("a", "600s") + renewed("b", "600s") + gone + list, false, none},
		"it is the only one":  {event(t, "5s", "ADDED", lease(t, "apiserver-b", "b", "b_1", "600s")), false, none},
		"it comes back later": {added + renewed("b", "600s") + renewed("a", "1800s") + renewed("b", "1810s"), false, none},
	} {
		lives, _ := load(t, c.journal).Servers.Lives(at(t, "5s"), at(t, "6000s"))
		b := lives[len(lives)-1]
		in, ended := b.Ended(lives[0].Renewed)
		if ended != c.ended || in != c.in {
			t.Errorf("%s: ended %t, in %v; %+v", name, ended, in, b)
		}
	}
}

func TestNodeReadiness(t *testing.T) {
	node := func(status, since string) string {
		return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u","creationTimestamp":%q},"status":{"conditions":[`+
			`{"type":"MemoryPressure","status":"False","lastTransitionTime":%q},{"type":"Ready","status":%q,"lastHeartbeatTime":%q,"lastTransitionTime":%q}]}}`,
			at(t, "0s").Format(time.RFC3339), at(t, "1s").Format(time.RFC3339), status, at(t, "999s").Format(time.RFC3339), at(t, since).Format(time.RFC3339))
	}
	s := load(t, event(t, "0s", "ADDED", node("False", "0s"))+event(t, "30s", "MODIFIED", node("True", "29s"))+event(t, "31s", "MODIFIED", node("True", "29s"))+
		event(t, "100s", "MODIFIED", node("Unknown", "100s"))+event(t, "140s", "MODIFIED", node("False", "120s"))+event(t, "200s", "MODIFIED", node("True", "199s"))+
		event(t, "300s", "MODIFIED", node("Unknown", "299s")))
	want := []NodeLife{{Name: "w1", From: at(t, "0s"), NotReady: []Interval{
		{at(t, "0s"), at(t, "29s")}, {at(t, "100s"), at(t, "199s")}, {From: at(t, "299s")},
	}, Silent: []Interval{{at(t, "100s"), at(t, "140s")}, {From: at(t, "299s")}}}}
	if d := cmp.Diff(want, s.Nodes.Lives(at(t, "0s"), at(t, "400s"))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	plain := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w2","uid":"v"}}`
	if lives := load(t, event(t, "0s", "ADDED", plain)).Nodes.Lives(at(t, "0s"), at(t, "1s")); len(lives) != 1 || lives[0].NotReady != nil {
		t.Errorf("without conditions: %+v", lives)
	}
	l := &nodeLife{}
	for i := range int64(2 * maxReadiness) {
		l.see(readiness{since: (2*maxReadiness - i) * second, ready: i%2 == 0})
	}
	if len(l.ready) != maxReadiness || l.ready[0].since >= l.ready[1].since {
		t.Errorf("%d transitions are kept, from %v", len(l.ready), l.ready[0])
	}
}

// TestRecordLeases holds that a journal has the Leases of API servers, and not one entry for each renewal.
func TestRecordLeases(t *testing.T) {
	const path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
	object := func(holder, renewed string) map[string]any {
		var o map[string]any
		if err := json.Unmarshal([]byte(lease(t, "apiserver-a", "a", holder, renewed)), &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	c := newFakeCluster(t)
	c.put(path, object("a_1", "601s"))
	l := startLive(t, c, LiveConfig{})
	l.caughtUp()
	c.put(path, object("a_2", "2000s"))
	l.until("renewed", func() bool {
		lives, _ := l.state.Servers.Lives(at(t, "0s"), time.Now())
		return len(lives) == 1 && lives[0].Holder == "a_2" && lives[0].Renewed.Equal(at(t, "2000s").Truncate(RenewalStep))
	})
	c.remove(path, "kube-system/apiserver-a")
	l.until("gone", func() bool {
		lives, _ := l.state.Servers.Lives(time.Now(), time.Now())
		return len(lives) == 0
	})
	if lives, _ := l.state.Servers.Lives(at(t, "0s"), time.Now()); len(lives) != 1 || !lives[0].Renewed.Equal(at(t, "2000s")) {
		t.Errorf("the last renewal of what was deleted is not exact: %+v", lives)
	}
	if q := c.queried(path); !strings.Contains(q, "labelSelector=apiserver.kubernetes.io%2Fidentity%3Dkube-apiserver") {
		t.Errorf("asked for %s", q)
	}

	var out strings.Builder
	j := newJournalWriter(&out, func(error) {})
	was := stored{}
	for i, o := range []map[string]any{object("a_1", "601s"), object("a_1", "611s"), object("a_1", "1300s"), object("a_2", "1310s")} {
		trim(kindLease, o, &RecordConfig{})
		verb := "MODIFIED"
		if i == 0 {
			verb = "ADDED"
		}
		was = j.write(verb, o, at(t, "0s"), time.Time{}, was)
	}
	if err := j.flush(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); n != 3 {
		t.Errorf("%d entries:\n%s", n, out.String())
	}
}
