package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
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
		for _, a := range impersonates(&ev, request) {
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

// Who asks for many groups at once with constrained impersonation may have them if any is allowed, or each.
func TestImpersonationOfMany(t *testing.T) {
	const mode = "impersonate:user-info"
	for _, c := range []struct {
		name       string
		constraint string
		groups     []string
		extra      []audit.Extra
		all, spare [][]string // names, or subresources with their names, that RBAC allows, with and without the bindings of interest
		want       string
	}{
		{"any", mode, []string{"a", "b", "c", "d"}, nil, [][]string{{"groups", "*"}}, nil, "users jane, on, groups *"},
		{"three", mode, []string{"a", "b", "c"}, nil, [][]string{{"groups", "*"}}, nil, "users jane, groups a, groups b, groups c, on"},
		{"each without", mode, []string{"a", "b", "c", "d"}, nil, [][]string{{"groups"}}, [][]string{{"groups", "a", "b", "c", "d"}}, "users jane, groups a, groups b, groups c, groups d, on"},
		{"some without", mode, []string{"a", "b", "c", "d"}, nil, [][]string{{"groups"}}, [][]string{{"groups", "a", "b"}}, "users jane, on, groups *"},
		{"not any", mode, []string{"a", "b", "c", "d"}, nil, [][]string{{"groups", "a", "b", "c", "d"}}, nil, "users jane, groups a, groups b, groups c, groups d, on"},
		{"the old verb", "", []string{"a", "b", "c", "d"}, nil, [][]string{{"groups", "*"}}, nil, "users jane, groups a, groups b, groups c, groups d"},
		{"extra", mode, nil, []audit.Extra{{Key: "k", Value: "1"}, {Key: "k", Value: "2"}, {Key: "k", Value: "3"}, {Key: "k", Value: "4"}}, [][]string{{"userextras/*", "*"}}, nil, "users jane, on, userextras/* *"},
	} {
		ev := get("a", audit.StageResponseComplete, 0, "allow", "")
		ev.IsImpersonated, ev.Constraint = true, c.constraint
		ev.Impersonated = audit.User{Username: "jane", Groups: append(slices.Clone(c.groups), "system:authenticated"), Extra: c.extra}
		store := func(rights [][]string) *rbac.Store {
			s := rbac.NewStore()
			for i, r := range rights {
				name := fmt.Sprint(i)
				s.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{
					Verbs: []string{cmp.Or(c.constraint, "impersonate")}, APIGroups: []string{"*"}, Resources: r[:1], ResourceNames: r[1:],
				}}}, epoch.Add(-time.Hour))
				s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
					ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
					Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: ev.User.Username}},
				}, epoch.Add(-time.Hour))
			}
			return s
		}
		spare := store(c.spare)
		request := &authorizer.AttributesRecord{Verb: "get", APIVersion: "v1", Resource: "secrets", Namespace: "shop", Name: "db", ResourceRequest: true}
		var got []string
		for _, a := range Impersonation(store(c.all), &ev, request, epoch, func(a authorizer.Attributes) bool { return spare.Authorize(a, epoch).Allowed }) {
			switch {
			case strings.HasPrefix(a.Verb, "impersonate-on:"):
				got = append(got, "on")
			case a.Subresource != "":
				got = append(got, a.Resource+"/"+a.Subresource+" "+a.Name)
			default:
				got = append(got, a.Resource+" "+a.Name)
			}
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

// A group that the API server adds itself may have been asked for, unless the kind of impersonation does not let a client ask for groups.
func TestMayImpersonate(t *testing.T) {
	account := audit.User{Username: "system:serviceaccount:shop:agent", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", "system:authenticated"}}
	for _, c := range []struct {
		as         audit.User
		constraint string
		want       string
	}{
		{audit.User{Username: "jane", Groups: []string{"system:authenticated"}}, "", "impersonate groups system:authenticated"},
		{audit.User{Username: "jane", Groups: []string{"devs", "system:authenticated"}}, "", "impersonate groups system:authenticated"},
		{audit.User{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "", "impersonate groups system:unauthenticated"},
		{audit.User{Username: "jane", Groups: []string{"system:authenticated", "devs"}}, "", ""}, // it was asked for
		{account, "", "impersonate groups system:serviceaccounts, impersonate groups system:serviceaccounts:shop, impersonate groups system:authenticated"},
		{audit.User{Username: "system:node:n2", Groups: []string{"system:authenticated"}}, "", "impersonate groups system:authenticated"},
		{audit.User{Username: "jane", Groups: []string{"devs", "system:authenticated"}}, "impersonate:user-info", "impersonate:user-info groups.authentication.k8s.io system:authenticated"},
		{account, "impersonate:serviceaccount", ""},
		{audit.User{Username: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:arbitrary-node", ""},
	} {
		ev := get("a", audit.StageResponseComplete, 0, "allow", "")
		ev.IsImpersonated, ev.Impersonated, ev.Constraint = true, c.as, c.constraint
		var got []string
		for _, a := range MayImpersonate(&ev) {
			got = append(got, strings.TrimSuffix(a.Verb+" "+a.Resource+"."+a.APIGroup, ".")+" "+a.Name)
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s in %v, %q: %s, want %s", c.as.Username, c.as.Groups, c.constraint, text, c.want)
		}
	}
}

// The grant of an impersonation is one that is not kept, if one of what is asked for needs that, in whatever order it is asked.
func TestKeptImpersonation(t *testing.T) {
	store := rbac.NewStore()
	before := epoch.Add(-time.Hour)
	give := func(binding, resource string) {
		store.SetClusterRole(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: binding},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{resource}}},
		}, before)
		store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: binding}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: binding},
			Subjects: []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: "system:nodes"}},
		}, before)
	}
	give("a-user", "users")
	give("a-group", "groups")
	give("both", "users")
	ref := func(name string) rbac.BindingRef {
		return rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}
	}
	for _, c := range []struct {
		kept []rbac.BindingRef
		want string
	}{
		{nil, "a-user"},
		{[]rbac.BindingRef{ref("a-user")}, "a-group"},
		{[]rbac.BindingRef{ref("both")}, "a-group"},
		{[]rbac.BindingRef{ref("a-group")}, "a-user"},
		{[]rbac.BindingRef{ref("a-group"), ref("both")}, "a-group"},
	} {
		ev := get("a", audit.StageResponseComplete, 0, "allow", "")
		ev.IsImpersonated, ev.Impersonated = true, audit.User{Username: "jane", Groups: []string{"devs", "system:authenticated"}}
		out := &Judgement{Request: rules.Request{Event: &ev, Time: epoch, Attrs: new(audit.Attributes).Of(&ev, true), Allowed: true}}
		(&Judge{RBAC: store, Kept: c.kept}).impersonation(out)
		if out.Impersonator == "" || out.Spare || out.Grant.Binding != ref(c.want) {
			t.Errorf("kept %v: the grant is that of %q for %q, spare: %t, want %q", c.kept, out.Grant.Binding.Name, out.Impersonator, out.Spare, c.want)
		}
	}
}

// What system:node gives to all nodes is not kept, whatever the order of names; what it gives to others is.
func TestKeptGrant(t *testing.T) {
	store := rbac.NewStore()
	before := epoch.Add(-time.Hour)
	kept := []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "a-legacy"}, {Kind: rbac.KindClusterRoleBinding, Name: "b-canary"}}
	for role, bindings := range map[string]map[string]rbacv1.Subject{
		"system:node": {"a-legacy": {Kind: "Group", Name: "system:nodes"}, "b-canary": {Kind: "User", Name: "system:node:n1"}},
		"agent":       {"c-agent": {Kind: "Group", Name: "system:nodes"}},
	} {
		store.SetClusterRole(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: role}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
		}, before)
		for name, s := range bindings {
			s.APIGroup = rbacv1.GroupName
			store.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{s},
			}, before)
		}
	}
	ev := get("a", audit.StageResponseComplete, 0, "allow", "")
	a := new(audit.Attributes).Of(&ev, true)
	named := store.Authorize(a, epoch).Grant
	for _, c := range []struct {
		kept []rbac.BindingRef
		want string
	}{{nil, "a-legacy"}, {kept[:1], "a-legacy"}, {kept, "b-canary"}, {[]rbac.BindingRef{kept[0], {Kind: rbac.KindClusterRoleBinding, Name: "c-agent"}}, "c-agent"}} {
		if got := KeptGrant(store, c.kept, a, epoch, named).Binding.Name; got != c.want {
			t.Errorf("kept %v: %q, want %q", c.kept, got, c.want)
		}
	}
}
