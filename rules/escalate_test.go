package rules

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Points 5 and 7 of the specification of attacks.
func TestAttack05And07Escalation(t *testing.T) {
	finds := func(what, rule string, reason Reason, severity Severity, changes ...with) {
		t.Helper()
		r := request(changes...)
		for _, one := range All() {
			if one.Name != rule {
				continue
			}
			f, found := one.Find(r, nil, NewMemory())
			if found != (reason != "") || found && (f.Reason != reason || f.Severity != severity) {
				t.Errorf("%s: %t, %+v", what, found, f)
			}
		}
	}
	for _, what := range []string{
		"create pods/exec shop/web", "get pods/proxy shop/web", "get services/proxy shop/web", "get pods/attach shop/web", "get nodes/proxy worker-2", "create clusterrolebindings.rbac.authorization.k8s.io x",
		"update certificatesigningrequests/approval.certificates.k8s.io x", "impersonate users admin", "get secrets kube-system/bootstrap-token-abc",
	} {
		finds(what+" refused", CredentialMisuse, EscalationRefused, Medium, does(what))
		finds(what+" allowed", ExcessAccess, BindingNeeded, Critical, does(what), byRBAC(200))
	}
	for _, what := range []string{"get pods shop/web", "get secrets shop/db", "create certificatesigningrequests.certificates.k8s.io x"} {
		finds(what, CredentialMisuse, "", None, does(what))
	}
	for what, severity := range map[string]Severity{
		"create pods shop/web": Critical, "create pods/binding shop/web": Critical, "create bindings shop/web": Critical, "create daemonsets.apps shop/web": Critical,
		"patch deployments.apps shop/web": Critical, "update cronjobs.batch shop/web": Critical, "patch pods shop/web": High, "patch pods/status shop/web": High,
		"create pods/eviction shop/web": High, "delete daemonsets.apps shop/web": High, "get daemonsets.apps shop/web": High, "patch deployments.apps/status shop/web": High,
	} {
		finds(what+" allowed", ExcessAccess, BindingNeeded, severity, does(what), byRBAC(200))
	}
	for _, message := range []string{
		`users "admin" is forbidden: User "system:node:worker-1" cannot impersonate resource "users" in API group "" at the cluster scope`,
		`pods is forbidden: User "system:node:worker-1" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`, // since 1.36
	} {
		finds("impersonation refused", CredentialMisuse, EscalationRefused, Medium, func(r *Request) { r.Event.StatusMessage = message })
		finds("impersonation refused, of what the node may", CredentialMisuse, EscalationRefused, Medium, func(r *Request) {
			r.Event.StatusMessage, r.Answer.Verdict, r.Observed = message, nodeauthz.Allow, Observed{}
		})
	}
	finds("system:masters", NodeIdentity, Privileged, Critical, as("system:node:worker-1", "system:nodes", "system:masters"))
}
