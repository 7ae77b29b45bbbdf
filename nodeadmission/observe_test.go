package nodeadmission_test

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeadmission"
)

func TestObserve(t *testing.T) {
	for _, c := range []struct {
		verb, sub string
		code      int32
		message   string
		want      nodeadmission.Observed
	}{
		{"patch", "", 200, "", nodeadmission.ObservedAllow},
		{"create", "", 409, `nodes "n1" already exists`, nodeadmission.ObservedAllow},
		{"patch", "", 422, `Node "n1" is invalid: metadata.labels: Invalid value: "?"`, nodeadmission.ObservedAllow},
		{"patch", "", 422, "the server rejected our request due to an error in our request", nodeadmission.ObservedNone},
		{"patch", "status", 422, "", nodeadmission.ObservedNone},
		{"update", "", 422, "the server rejected our request due to an error in our request", nodeadmission.ObservedAllow},
		{"update", "", 409, `Operation cannot be fulfilled on nodes "n2": the object has been modified; please apply your changes to the latest version and try again`, nodeadmission.ObservedAllow},
		{"patch", "", 409, `Operation cannot be fulfilled on nodes "n2": the object has been modified; please apply your changes to the latest version and try again`, nodeadmission.ObservedAllow},
		{"patch", "", 409, `Apply failed with 1 conflict: conflict with "kubelet": .metadata.labels.a`, nodeadmission.ObservedNone},
		{"update", "", 409, `Operation cannot be fulfilled on pods "p": Precondition failed: UID in precondition: a, UID in object meta: b`, nodeadmission.ObservedNone},
		{"delete", "", 409, `Operation cannot be fulfilled on Pod "p": the UID in the precondition (a) does not match the UID in record (b). The object might have been deleted and then recreated`, nodeadmission.ObservedNone},
		{"delete", "", 200, "", nodeadmission.ObservedAllow},
		{"create", "eviction", 429, "Cannot evict pod as it would violate the pod's disruption budget.", nodeadmission.ObservedAllow},
		{"create", "", 429, "too many requests", nodeadmission.ObservedOther},
		{"get", "", 403, `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`, nodeadmission.ObservedNone},
		{"patch", "", 403, `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`, nodeadmission.ObservedDeny},
		{"patch", "", 403, `nodes "n2" is forbidden: User "system:node:n1" cannot patch resource "nodes"`, nodeadmission.ObservedOther},
		{"patch", "", 403, `secrets "n2" is forbidden: may only update PVC status`, nodeadmission.ObservedOther},
		{"create", "", 403, `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, nodeadmission.ObservedOther},
		{"patch", "status", 403, `persistentvolumeclaims "c" is forbidden: node "n1" is not allowed to update fields other than status.quantity and status.conditions: @@ -1 +1 @@`, nodeadmission.ObservedDeny},
		{"create", "eviction", 404, `pod "p" not found`, nodeadmission.ObservedDeny},
		{"create", "eviction", 404, `pods "p" not found`, nodeadmission.ObservedOther},
		{"patch", "status", 404, `pods "p" not found`, nodeadmission.ObservedNone},
		{"create", "", 500, `PodCertificateRequest for pod "a/p" names node UID "x", inconsistent with the running node ("y")`, nodeadmission.ObservedDeny},
		{"create", "", 500, `failed calling webhook`, nodeadmission.ObservedOther},
		{"patch", "", 0, "", nodeadmission.ObservedNone},
	} {
		got := nodeadmission.Observe(&nodeadmission.Response{Verb: c.verb, Subresource: c.sub, Authorized: true, Code: c.code, Message: c.message})
		if got != c.want {
			t.Errorf("%s %d %q: %v, want %v", c.verb, c.code, c.message, got, c.want)
		}
	}
	refused := nodeadmission.Response{Verb: "patch", Code: 403, Message: `nodes "n2" is forbidden: node "n1" is not allowed to modify node "n2"`}
	if got := nodeadmission.Observe(&refused); got != nodeadmission.ObservedNone {
		t.Errorf("refused by authorization: %v", got)
	}
}

// The words of the plugin show what a kubelet is refused although it does what it should, and only where it creates something: a client chooses labels and names.
func TestKubeletGets(t *testing.T) {
	const pod, token = `pods "web-n1" is forbidden: `, `serviceaccounts "web" is forbidden: `
	const refers = `node "n1" can not create pods that reference configmaps`
	for _, c := range []struct {
		resource, sub, message string
		want                   bool
	}{
		{"pods", "", pod + refers, true},
		{"pods", "", pod + `error checking mirror pod for API references: unknown volume`, true},
		{"pods", "", pod + `node n1 UID mismatch: expected a got b`, true},
		{"serviceaccounts", "token", token + `the UID in the bound object reference (a) does not match the UID in record. The object might have been deleted and then recreated`, true},
		{"pods", "", pod + `node "n1" can only create pods with spec.nodeName set to itself`, false},
		{"pods", "", pod + `pod does not have "kubernetes.io/config.mirror" annotation, node "n1" can only create mirror pods`, false},
		{"pods", "eviction", pod + refers, false},
		{"nodes", "", `nodes "n1" is forbidden: node "n1" is not allowed to set the following labels: x can not create pods that reference y`, false},
		{"pods", "", `nodes "n1" is forbidden: ` + refers, false},
		{"serviceaccounts", "token", token + `node requested token bound to a pod scheduled on a different node`, false},
		{"serviceaccounts", "token", token + `node requested token not bound to a pod`, false},
		{"serviceaccounts", "", token + refers, false},
		{"pods", "", refers, false},
		{"pods", "", "", false},
	} {
		if got := nodeadmission.KubeletGets(c.resource, c.sub, c.message); got != c.want {
			t.Errorf("%s/%s %q: %t", c.resource, c.sub, c.message, got)
		}
	}
}
