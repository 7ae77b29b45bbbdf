package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// What admission refuses is a thief's attempt, or what a kubelet tries because of a static pod or an object that was made anew.
func TestRefusedByNodeRestriction(t *testing.T) {
	f := func(name string, want Severity, what, message string, changes ...with) {
		t.Helper()
		refused := func(r *Request) {
			r.Event.StatusMessage, r.Admission = message, Admission{Answer: nodeadmission.Answer{Verdict: nodeadmission.Deny}, Observed: nodeadmission.ObservedDeny}
		}
		all := append([]with{does(what), annotated("allow", nodeauthz.Allow), refused}, changes...)
		found, _ := nodeCredentialMisuse().Find(request(all...), nil, NewMemory())
		reason := map[Severity]Reason{Medium: RestrictionRefused, Low: AdmissionStopped}[want]
		if found.Severity != want || found.Reason != reason {
			t.Errorf("%s: %+v, want %s", name, found, want)
		}
	}
	const pod = `pods "web-worker-1" is forbidden: `
	f("a static pod that names a ConfigMap", Low, "create pods shop/", pod+`node "worker-1" can not create pods that reference configmaps`)
	f("a mirror pod for a Node that was made anew", Low, "create pods shop/", pod+"node worker-1 UID mismatch: expected a got b")
	f("a token for a pod that was made anew", Low, "create serviceaccounts/token shop/web",
		`serviceaccounts "web" is forbidden: the UID in the bound object reference (a) does not match the UID in record. The object might have been deleted and then recreated`)
	f("a pod for another node", Medium, "create pods shop/", pod+`node "worker-1" can only create pods with spec.nodeName set to itself`)
	f("a pod that is no mirror pod", Medium, "create pods shop/", pod+`pod does not have "kubernetes.io/config.mirror" annotation, node "worker-1" can only create mirror pods`)
	f("a token for a pod of another node", Medium, "create serviceaccounts/token shop/web", `serviceaccounts "web" is forbidden: node requested token bound to a pod scheduled on a different node`)
	f("a label, with other words in it", Medium, "patch nodes worker-1",
		`nodes "worker-1" is forbidden: node "worker-1" is not allowed to set the following labels: x can not create pods that reference configmaps`)
	f("of another group", Medium, "create pods.example.com shop/", pod+`node "worker-1" can not create pods that reference configmaps`)
	f("an update", Medium, "update pods shop/web", pod+`node "worker-1" can not create pods that reference configmaps`)
	f("within the skew", Low, "create pods shop/", pod+`node "worker-1" can only create pods with spec.nodeName set to itself`, func(r *Request) { r.Admission.Race = true })
}
