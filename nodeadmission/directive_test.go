package nodeadmission_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

// A directive of a strategic merge patch takes away what the patch does not name. The type of a patch is not in the log: the Node just before and after it tells.
//
// Seen to fail where only what a patch names counts.
func TestDirectivesOnWhatTaintsAndLabelsAreIn(t *testing.T) {
	const skew = time.Second
	const label = "node-restriction.kubernetes.io/a"
	before := &nodeadmission.Node{UID: "n", Labels: map[string]string{"app": "x", label: "b"}, Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}
	untainted := &nodeadmission.Node{UID: "n", Labels: before.Labels}
	unlabelled := &nodeadmission.Node{UID: "n", Labels: map[string]string{"app": "x"}, Taints: before.Taints}
	bare := &nodeadmission.Node{UID: "n"}
	for _, c := range []struct {
		patch string
		after *nodeadmission.Node
		want  bool
	}{
		{`{"spec":{"$patch":"replace","podCIDR":"10.244.0.0/24"}}`, untainted, true},
		{`{"spec":{"$patch":"delete"}}`, untainted, true},
		{`{"spec":{"$retainKeys":["podCIDR"],"podCIDR":"10.244.0.0/24"}}`, untainted, true},
		{`{"spec":{"taints":{"$patch":"delete"}}}`, untainted, true},
		{`{"spec":{"taints":[{"$patch":"replace"}]}}`, untainted, true},
		{`{"spec":null}`, untainted, true},
		{`{"$retainKeys":["metadata"],"metadata":{"name":"n1"}}`, untainted, true},
		{`{"$patch":"replace","metadata":{"name":"n1"}}`, bare, true},
		{`{"metadata":{"$patch":"replace","name":"n1","labels":{"app":"x"}}}`, unlabelled, true},
		{`{"metadata":{"$retainKeys":["name"],"name":"n1"}}`, &nodeadmission.Node{UID: "n", Taints: before.Taints}, true},
		{`{"metadata":{"labels":{"$patch":"replace","app":"x"}}}`, unlabelled, true},
		{`{"metadata":{"labels":{"$retainKeys":["app"],"app":"x"}}}`, unlabelled, true},
		{`{"metadata":{"labels":{"$patch":"delete"}}}`, &nodeadmission.Node{UID: "n", Taints: before.Taints}, true},

		// What somebody else changed in the same moment.
		{`{"spec":{"$patch":"merge","podCIDR":"10.244.0.0/24"}}`, untainted, false},
		{`{"metadata":{"$retainKeys":["name","labels","annotations"],"labels":{"app":"x"}}}`, untainted, false},
		{`{"spec":{"$patch":"replace","podCIDR":"10.244.0.0/24"}}`, unlabelled, false},
		{`{"status":{"$patch":"replace"}}`, untainted, false},
		{`{"spec":{"$patch":"replace"}}`, before, false},
	} {
		for _, delay := range []time.Duration{-20 * time.Millisecond, 20 * time.Millisecond} {
			at := epoch.Add(time.Minute)
			then := at.Add(delay)
			r := write("patch", "", "nodes", "", "", "n1", c.patch)
			r.Done = true
			got := plugin(t, "1.37.1", nodeadmission.State{Nodes: nodeSpans{{to: then, object: before}, {from: then, object: c.after}}}, skew).Decide(r, at)
			if is := got.Verdict == nodeadmission.Deny && !got.Race; is != c.want {
				t.Errorf("%s, after %v: %+v, want a refusal %t", c.patch, delay, got, c.want)
			}
		}
	}
}
