package nodeadmission_test

import (
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// TestPodCreatedWithoutBody is about pods that a node makes, where the log has no body: the state may tell that the plugin refuses them.
func TestPodCreatedWithoutBody(t *testing.T) {
	ordinary, mirror := &nodeadmission.Pod{UID: "1", Node: "n1"}, &nodeadmission.Pod{UID: "1", Node: "n1", Mirror: true}
	for _, c := range []struct {
		name string
		pod  *nodeadmission.Pod
		at   time.Duration // after the request
		done bool
		want nodeadmission.Verdict
	}{
		{"an ordinary pod", ordinary, 20 * time.Millisecond, true, nodeadmission.Deny},
		{"an ordinary pod, seen late", ordinary, 900 * time.Millisecond, true, nodeadmission.Deny},
		{"an ordinary pod, of before", ordinary, -time.Minute, true, nodeadmission.Unknown},
		{"an ordinary pod, by a clock that is ahead", ordinary, -time.Second, true, nodeadmission.Deny},
		{"an ordinary pod, long after", ordinary, time.Minute, true, nodeadmission.Unknown},
		{"a request that failed", ordinary, 20 * time.Millisecond, false, nodeadmission.Unknown},
		{"a mirror pod", mirror, 20 * time.Millisecond, true, nodeadmission.Unknown},
		{"a pod of which little is known", &nodeadmission.Pod{UID: "1", Node: "n1", SpecUnknown: true}, 0, true, nodeadmission.Unknown},
		{"no pod", nil, 0, true, nodeadmission.Unknown},
	} {
		s := nodeadmission.NewStore()
		s.CoverFrom(nodeadmission.KindPod, epoch.Add(-time.Hour))
		if c.pod != nil {
			s.SetPod("a", "p", c.pod, nodeadmission.Moment{Time: epoch.Add(c.at)})
		}
		a := plugin(t, "1.36.3", s.State(nil), time.Second)
		got := a.Decide(&nodeadmission.Request{
			Attributes: &authorizer.AttributesRecord{Verb: "create", APIVersion: "v1", Namespace: "a", Resource: "pods", ResourceRequest: true},
			Node:       "n1", IsNode: true, Name: "p", Done: c.done,
		}, epoch)
		if got.Verdict != c.want {
			t.Errorf("%s: %+v, want %v", c.name, got, c.want)
		}
	}
}
