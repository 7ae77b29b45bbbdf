package rules_test

import (
	"fmt"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// A request that the Node authorizer denies and RBAC let through is what rbac-excess-access is about. Package pipeline makes such requests of
// audit events, and runs the rules over them.
func Example() {
	request := &rules.Request{
		Event: &audit.Event{AuditID: "a1", Verb: "get", Code: 200, UserAgent: "kubelet/v1.36.3"},
		Attrs: &authorizer.AttributesRecord{Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", ResourceRequest: true},
		Node:  "worker-1", IsNode: true,
		Answer:  nodeauthz.Answer{Verdict: nodeauthz.Deny, Reason: "no relationship found between node 'worker-1' and this object"},
		Allowed: true, HasGrant: true,
		Grant: rbac.Grant{
			Binding: rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: "nodes"}, Role: rbac.RoleRef{Kind: "ClusterRole", Name: "system:node"},
			Subject: rbac.SubjectRef{Kind: "Group", Name: "system:nodes"},
		},
	}
	memory := rules.NewMemory()
	for _, rule := range rules.All() {
		if rule.Name != "rbac-excess-access" {
			continue
		}
		if found, ok := rule.Find(request, nil, memory); ok {
			fmt.Println(found.Rule, found.Severity)
		}
	}
	// Output:
	// rbac-excess-access critical
}
