package pipeline

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
)

// What is asked for is what k8s.io/apiserver/pkg/endpoints/filters/impersonation asks for.
func TestImpersonates(t *testing.T) {
	account := "system:serviceaccount:shop:agent"
	accounts := []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}
	for name, c := range map[string]struct {
		as         audit.User
		constraint string
		want       string
	}{
		"a user":     {audit.User{Username: "jane", Groups: []string{"system:authenticated"}}, "", "impersonate users jane"},
		"nobody":     {audit.User{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "", "impersonate users system:anonymous"},
		"no account": {audit.User{Username: "system:serviceaccount:shop"}, "", "impersonate users system:serviceaccount:shop"},
		"an account": {audit.User{Username: account, Groups: accounts}, "", "impersonate serviceaccounts shop/agent"},
		"an account in a group": {
			audit.User{Username: account, Groups: []string{"devs", "system:authenticated"}}, "", "impersonate serviceaccounts shop/agent, impersonate groups devs",
		},
		"a user in groups": {
			audit.User{Username: "jane", Groups: []string{"system:masters", "devs", "system:authenticated"}}, "",
			"impersonate users jane, impersonate groups system:masters, impersonate groups devs",
		},
		"a node": {
			audit.User{Username: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}}, "",
			"impersonate users system:node:n2, impersonate groups system:nodes",
		},
		"with all that there is": {
			audit.User{Username: "jane", UID: "7", Extra: []audit.Extra{{Key: "scopes", Value: "view"}, {Key: "scopes", Value: "edit"}}}, "",
			"impersonate users jane, impersonate uids.authentication.k8s.io 7, impersonate userextras.authentication.k8s.io/scopes view, " +
				"impersonate userextras.authentication.k8s.io/scopes edit",
		},
		"any node, constrained": {
			audit.User{Username: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:arbitrary-node",
			"impersonate:arbitrary-node nodes.authentication.k8s.io n2, impersonate-on:arbitrary-node:get secrets shop/db",
		},
		"its own node, constrained": {
			audit.User{Username: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:associated-node",
			"impersonate:associated-node nodes.authentication.k8s.io *, impersonate-on:associated-node:get secrets shop/db",
		},
		"an account, constrained": {
			audit.User{Username: account, Groups: accounts}, "impersonate:serviceaccount",
			"impersonate:serviceaccount serviceaccounts.authentication.k8s.io shop/agent, impersonate-on:serviceaccount:get secrets shop/db",
		},
		"a user, constrained": {
			audit.User{Username: "jane", UID: "7", Groups: []string{"devs", "system:authenticated"}}, "impersonate:user-info",
			"impersonate:user-info users.authentication.k8s.io jane, impersonate:user-info groups.authentication.k8s.io devs, " +
				"impersonate:user-info uids.authentication.k8s.io 7, impersonate-on:user-info:get secrets shop/db",
		},
	} {
		ev := get("a", audit.StageResponseComplete, 0, "allow", "")
		ev.IsImpersonated, ev.Impersonated, ev.Constraint = true, c.as, c.constraint
		request := &authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: "shop", Name: "db", ResourceRequest: true}
		var got []string
		for _, a := range Impersonates(&ev, request) {
			resource := a.Resource
			if a.APIGroup != "" {
				resource += "." + a.APIGroup
			}
			if a.Subresource != "" {
				resource += "/" + a.Subresource
			}
			name := a.Name
			if a.Namespace != "" {
				name = a.Namespace + "/" + name
			}
			got = append(got, fmt.Sprint(a.Verb, " ", resource, " ", name))
			if a.User.GetName() != ev.User.Username || !a.ResourceRequest {
				t.Errorf("%s: asked for %q, a resource: %t", name, a.User.GetName(), a.ResourceRequest)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s:\n%s, want\n%s", name, text, c.want)
		}
	}
}
