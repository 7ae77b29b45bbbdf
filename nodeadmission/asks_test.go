package nodeadmission

import (
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestReadsBody asks about each kind of request with bodies of all sorts and without: where ReadsBody says that none is read, the answer is the same.
func TestReadsBody(t *testing.T) {
	differ := 0
	for _, version := range []string{"1.28.15", "1.30.14", "1.33.0", "1.36.3", "1.37.1"} {
		v, err := VersionOf(version)
		if err != nil {
			t.Fatal(err)
		}
		for _, gate := range GateNames() {
			_ = v.SetGate(gate, true) // where the version has it
		}
		a := New(v, State{Pods: always{}, Nodes: always{}, Objects: always{}}, 0)
		for _, kind := range [][2]string{
			{"", "pods"}, {"", "nodes"}, {"", "persistentvolumeclaims"}, {"", "serviceaccounts"}, {"", "events"}, {"coordination.k8s.io", "leases"},
			{"storage.k8s.io", "csinodes"}, {"resource.k8s.io", "resourceslices"}, {"certificates.k8s.io", "certificatesigningrequests"},
			{"certificates.k8s.io", "podcertificaterequests"}, {"x.example", "pods"},
		} {
			for _, sub := range []string{"", "status", "eviction", "binding", "resize", "token", "approval", "exec"} {
				for _, verb := range []string{"get", "create", "update", "patch", "delete", "deletecollection"} {
					for _, name := range []string{"", "n1", "other"} {
						differ += readsBody(t, a, verb, kind[0], kind[1], sub, name)
					}
				}
			}
		}
	}
	if differ < 100 {
		t.Errorf("%d bodies made a difference: the bodies are not near the boundary", differ)
	}
}

func readsBody(t *testing.T, a *Admission, verb, group, resource, sub, name string) (differ int) {
	t.Helper()
	r := bodyRequest(verb, group, resource, sub, nil)
	r.Attributes.(*authorizer.AttributesRecord).Name, r.Name = name, name
	if verb == "create" {
		r.Attributes.(*authorizer.AttributesRecord).Name = ""
	}
	without := a.Decide(r, time.Unix(1_800_000_000, 0))
	for _, body := range tricky {
		r.Body = []byte(body)
		if a.Decide(r, time.Unix(1_800_000_000, 0)) == without {
			continue
		}
		if differ++; !ReadsBody(verb, group, resource, sub, name) {
			t.Errorf("%s %s.%s/%s %q: the answer depends on the body %s", verb, resource, group, sub, name, body)
		}
	}
	return differ
}
