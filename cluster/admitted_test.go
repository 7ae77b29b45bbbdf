package cluster

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// What a journal holds of an object tells the admission plugin the same as the object itself, but for what may hold anything.
func TestTrimmedMeansTheSameToAdmission(t *testing.T) {
	for kind, raw := range map[kindID]string{
		kindPod: `{"metadata":{"name":"p","namespace":"a","uid":"u","labels":{"app":"x"},"annotations":{"kubernetes.io/config.mirror":"h","note":"secret"}},
			"spec":{"nodeName":"n1","serviceAccountName":"s","volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"spec":{"storageClassName":"fast"}}}},
			{"name":"c","csi":{"driver":"d","volumeAttributes":{"k":"v"}}},{"name":"t","projected":{"sources":[{"serviceAccountToken":{"audience":"vault","path":"p"}}]}}]},
			"status":{"phase":"Running","podIP":"10.0.0.1","nodeAllocatableResourceClaimStatuses":[{"resourceClaimName":"z"}],"resourceClaimStatuses":[{"name":"r","resourceClaimName":"q"}]}}`,
		kindNode: `{"metadata":{"name":"n1","uid":"u","labels":{"a":"b"},"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"v"}],"annotations":{"x":"y"}},
			"spec":{"taints":[{"key":"k","effect":"NoSchedule"}],"configSource":{"configMap":{"name":"c","namespace":"d","kubeletConfigKey":"k"}},"podCIDR":"10.0.0.0/24"},
			"status":{"images":[{"names":["i"]}]}}`,
		kindPersistentVolumeClaim: `{"metadata":{"name":"c","namespace":"a","uid":"u","labels":{"a":"b"},"managedFields":[{"manager":"m"}]},
			"spec":{"accessModes":["ReadWriteOnce"],"volumeName":"pv","resources":{"requests":{"storage":"1Gi"}}},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}`,
		kindPersistentVolume: `{"metadata":{"name":"pv","uid":"u"},"spec":{"csi":{"driver":"d","volumeHandle":"h","volumeAttributes":{"k":"v"}}}}`,
		kindCSIDriver:        `{"metadata":{"name":"d","uid":"u"},"spec":{"tokenRequests":[{"audience":"vault"}]}}`,
	} {
		whole, err := newDecoder().object(kind, []byte(raw))
		if err != nil {
			t.Fatal(kind, err)
		}
		var o map[string]any
		if err := json.Unmarshal([]byte(raw), &o); err != nil {
			t.Fatal(err)
		}
		trim(kind, o, &RecordConfig{})
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		trimmed, err := newDecoder().object(kind, data)
		if err != nil {
			t.Fatal(kind, err)
		}
		if d := cmp.Diff(whole.admitted, trimmed.admitted, cmp.AllowUnexported(admitted{})); d != "" {
			t.Errorf("%s (-whole +trimmed):\n%s", kind, d)
		}
	}
}

// A claim whose annotations were left out says so.
func TestTrimmedAnnotations(t *testing.T) {
	o := map[string]any{"metadata": map[string]any{"name": "c", "annotations": map[string]any{"note": "secret"}}}
	trim(kindPersistentVolumeClaim, o, &RecordConfig{})
	want := map[string]any{nodeadmission.TrimmedAnnotation: ""}
	if d := cmp.Diff(want, o["metadata"].(map[string]any)["annotations"]); d != "" {
		t.Error(d)
	}
}

// podSaid is what the plugin's store says of the pod shop/web-1: whether it is known what is there, and the node, UID and what is unknown of a pod.
func podSaid(t *testing.T, s *State, when string) string {
	t.Helper()
	p, sight := s.Admission.Pod("shop", "web-1", at(t, when))
	if p == nil {
		return fmt.Sprint("none ", sight.Known)
	}
	return fmt.Sprintf("%s %s spec %t status %t", p.Node, p.UID, !p.SpecUnknown, !p.StatusUnknown)
}

// Of what audit bodies alone tell only that holds which never changes, and nothing is known to be absent.
func TestAdmissionFromBodies(t *testing.T) {
	pod := func(node, more string) string { return podJSON(t, "web-1", "u1", node, "0s", "", more) }
	for _, c := range []struct {
		name   string
		events []*audit.Event
		want   string
	}{
		{"nothing", nil, "none false"},
		{"created without a node", []*audit.Event{request(t, "1s", "create", "pods", "web-1", "", pod("", ""))}, "none false"},
		{"created with its node", []*audit.Event{request(t, "1s", "create", "pods", "web-1", "", pod("w1", ""))}, "w1 u1 spec true status false"},
		{"asked for", []*audit.Event{request(t, "1s", "create", "pods", "web-1", pod("w1", ""), "")}, "w1 u1 spec false status false"},
		{"bound", []*audit.Event{
			request(t, "1s", "create", "pods", "web-1", "", pod("", "")), request(t, "2s", "create", "pods/binding", "web-1", binding2, success),
		}, "w2 u1 spec false status false"},
		{"gone", []*audit.Event{
			request(t, "1s", "create", "pods", "web-1", "", pod("w1", "")), request(t, "2s", "delete", "pods", "web-1", noGrace, ""),
		}, "none false"},
	} {
		s := NewState()
		for _, ev := range c.events {
			applyLent(s, ev)
		}
		if got := podSaid(t, s, "10s"); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}

	node := `{"kind":"Node","apiVersion":"v1","metadata":{"name":"web-1","uid":"n1","labels":{"a":"b"}},"spec":{"taints":[{"key":"k"}]}}`
	claim := `{"kind":"PersistentVolumeClaim","apiVersion":"v1","metadata":{"namespace":"shop","name":"web-1","uid":"c1"},"spec":{"volumeName":"pv"}}`
	s := NewState()
	applyLent(s, request(t, "1s", "patch", "nodes", "web-1", "", node))
	applyLent(s, request(t, "1s", "patch", "persistentvolumeclaims", "web-1", "", claim))
	if n, _ := s.Admission.Node("web-1", at(t, "2s")); n == nil || n.UID != "n1" || !n.MetaUnknown || n.Labels != nil {
		t.Errorf("a Node of which only bodies tell: %+v", n)
	}
	if v, _ := s.Admission.ClaimVolume("shop", "web-1", at(t, "2s")); v == nil || *v != "pv" {
		t.Errorf("the volume of a claim of which only bodies tell: %v", v)
	}
	if o, _ := s.Admission.Object("persistentvolumeclaims", "shop", "web-1", at(t, "2s")); o != nil {
		t.Errorf("a claim of which only bodies tell: %s", o)
	}
}

// While somebody watches, all is known. Before and after, nothing is.
func TestAdmissionFromJournal(t *testing.T) {
	s := load(t, event(t, "10s", "ADDED", podJSON(t, "web-1", "u1", "w1", "0s", "0s", ""))+
		event(t, "20s", "DELETED", podJSON(t, "web-1", "u1", "w1", "0s", "0s", ""))+
		event(t, "30s", "ADDED", podJSON(t, "web-1", "u2", "w2", "30s", "30s", ""))+
		event(t, "60s", "ADDED", podJSON(t, "other", "u3", "w2", "60s", "60s", "")))
	for when, want := range map[string]string{
		"9s": "none false", "15s": "w1 u1 spec true status true", "25s": "none true", "40s": "w2 u2 spec true status true", "61s": "none false",
	} {
		if got := podSaid(t, s, when); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	// The end of the object before is not the end of its successor.
	applyLent(s, request(t, "40s", "delete", "pods", "web-1", `{"gracePeriodSeconds":0,"preconditions":{"uid":"u1"}}`, ""))
	if got := podSaid(t, s, "41s"); got != "w2 u2 spec true status true" {
		t.Errorf("after another pod's end: %s", got)
	}
	applyLent(s, request(t, "42s", "delete", "pods", "web-1", `{"gracePeriodSeconds":0,"preconditions":{"uid":"u2"}}`, ""))
	if got := podSaid(t, s, "43s"); got != "none true" {
		t.Errorf("after its own end: %s", got)
	}
	// A body of a time that was watched is worth as much as the watch.
	s = load(t, event(t, "10s", "ADDED", podJSON(t, "other", "u3", "w2", "0s", "0s", ""))+event(t, "60s", "MODIFIED", podJSON(t, "other", "u3", "w2", "0s", "0s", "")))
	applyLent(s, request(t, "20s", "patch", "pods/status", "web-1", "", podJSON(t, "web-1", "u1", "w1", "15s", "15s", "")))
	if got := podSaid(t, s, "30s"); got != "w1 u1 spec true status true" {
		t.Errorf("from a body: %s", got)
	}
}
