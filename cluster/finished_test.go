package cluster

import (
	"fmt"
	"slices"
	"strings"
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

// A pod that had time to end in waits for its kubelet, whatever its last state says. Where no watch saw the pod before and its end, it may have had.
func TestEndedAtOnce(t *testing.T) {
	const ending, ended = `,"deletionTimestamp":"2026-11-21T06:04:19Z","deletionGracePeriodSeconds":30`, `,"deletionTimestamp":"2026-11-21T06:04:19Z","deletionGracePeriodSeconds":0`
	pod := func(more string) string {
		return `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":"p","uid":"1"` + more + `},"spec":{"nodeName":"w"},"status":{"phase":"Running"}}`
	}
	other := strings.Replace(pod(""), `"uid":"1"`, `"uid":"2"`, 1)
	for _, c := range []struct {
		name, journal string
		want          []string
	}{
		{"by force", event(t, "1s", "ADDED", pod("")) + event(t, "9s", "DELETED", pod("")), []string{"9s"}},
		{"by force, with a state between", event(t, "1s", "ADDED", pod("")) + event(t, "9s", "MODIFIED", pod(ended)) + event(t, "9s", "DELETED", pod(ended)), []string{"9s"}},
		{"by its kubelet", event(t, "1s", "ADDED", pod("")) + event(t, "5s", "MODIFIED", pod(ending)) + event(t, "9s", "MODIFIED", pod(ended)) + event(t, "9s", "DELETED", pod(ended)), nil},
		{"by its kubelet, seen late", event(t, "5s", "ADDED", pod(ending)) + event(t, "9s", "DELETED", pod(ended)), nil},
		{"by its kubelet, with its time in the last state", event(t, "1s", "ADDED", pod("")) + event(t, "9s", "DELETED", pod(ending)), nil},
		{"seen in the end alone", event(t, "9s", "DELETED", pod(ended)), nil},
		{"while nobody watched", event(t, "1s", "ADDED", pod("")) + strings.Replace(event(t, "9s", "DELETED", pod(ended)), `"type"`, `"notBefore":"`+at(t, "2s").Format(time.RFC3339)+`","type"`, 1), nil},
		{
			"the next of its name by force", event(t, "1s", "ADDED", pod(ending)) + event(t, "4s", "DELETED", pod(ended)) + event(t, "5s", "ADDED", other) +
				event(t, "9s", "DELETED", other), []string{"9s"},
		},
	} {
		s := load(t, c.journal)
		var want []time.Time
		for _, w := range c.want {
			want = append(want, at(t, w))
		}
		if got := s.EndedAtOnce()[nodeauthz.NamespacedName{Namespace: "a", Name: "p"}]; !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("%s: %v, want %v", c.name, got, want)
		}
		s.Prune(at(t, "20s"))
		if len(s.atOnce)+len(s.ending) > 0 {
			t.Errorf("%s: %v and %v are left", c.name, s.atOnce, s.ending)
		}
	}
}
