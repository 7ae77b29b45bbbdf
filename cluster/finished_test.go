package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestFinishedPods(t *testing.T) {
	pod := func(name, uid, phase string) string {
		return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":%q,"uid":%q},"spec":{"nodeName":"w"},"status":{"phase":%q}}`, name, uid, phase)
	}
	s := load(t, event(t, "1s", "ADDED", pod("job", "1", "Pending"))+event(t, "2s", "MODIFIED", pod("job", "1", "Running"))+event(t, "3s", "MODIFIED", pod("job", "1", "Succeeded"))+
		event(t, "4s", "MODIFIED", pod("job", "1", "Succeeded"))+event(t, "5s", "DELETED", pod("job", "1", "Succeeded"))+
		event(t, "6s", "ADDED", pod("web", "2", "Running"))+
		event(t, "7s", "ADDED", pod("set", "3", "Failed"))+event(t, "8s", "MODIFIED", pod("set", "4", "Running"))+
		event(t, "9s", "ADDED", pod("late", "5", "Failed")))
	name := func(s string) nodeauthz.NamespacedName { return nodeauthz.NamespacedName{Namespace: "a", Name: s} }
	want := map[nodeauthz.NamespacedName][]Finished{
		name("job"): {{From: at(t, "3s"), To: at(t, "5s")}}, name("set"): {{From: at(t, "7s"), To: at(t, "8s")}}, name("late"): {{From: at(t, "9s")}},
	}
	about := cmpopts.EquateApproxTime(time.Second / 2) // the end of a pod is an interval
	if diff := cmp.Diff(want, s.FinishedPods(), about, cmpopts.IgnoreUnexported(Finished{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	s.Prune(at(t, "7.5s"))
	delete(want, name("job"))
	if diff := cmp.Diff(want, s.FinishedPods(), about, cmpopts.IgnoreUnexported(Finished{})); diff != "" {
		t.Errorf("pruned, -want +got:\n%s", diff)
	}
}
