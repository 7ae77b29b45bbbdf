package rbac_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/rbac"
)

// reasonOf puts what is decided in one line: "+" is an allow.
func reasonOf(d rbac.Decision) string {
	if d.Allowed {
		return "+ " + d.Reason()
	}
	return "- " + d.Reason()
}

func TestAuthorize(t *testing.T) {
	get := rule("get pods")
	sa := func(namespace, name string) string { return "system:serviceaccount:" + namespace + ":" + name }
	many := []string{"Group/g9"}
	for i := range 40 {
		many = append(many, fmt.Sprintf("User/system:node:n%d", i))
	}
	many = append(many, "Group/g", "ServiceAccount/ns/a")
	for _, c := range []struct {
		name    string
		objects []any
		user    string
		groups  []string
		request string
		want    string
	}{
		{"nothing", nil, "u", nil, "get pods ns/a", "- "},
		{"user", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "User/u")},
			"u", nil, "get pods ns/a", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "u"`},
		{"user is no group", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "User/u")},
			"v", []string{"u"}, "get pods ns/a", "- "},
		{"group is no user", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "Group/u")},
			"u", []string{"v"}, "get pods ns/a", "- "},
		{"group", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "Group/g")},
			"u", []string{"f", "g"}, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g"`},
		{"no name and no groups", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "Group/", "User/v")},
			"", nil, "get pods", "- "},
		{"empty name", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "User/")},
			"", nil, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User ""`},
		{"unknown kind of subject", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "Robot/u", "/u", "user/u")},
			"u", []string{"u"}, "get pods", "- "},
		{"unknown kind of subject does not hide the next", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "Robot/u", "User/u")},
			"u", nil, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "u"`},
		{"no subjects", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r")}, "u", nil, "get pods", "- "},
		{"the role does not allow it", []any{clusterRole("r", rule("list pods")), clusterBinding("b", "ClusterRole/r", "User/u")},
			"u", nil, "get pods", "- "},
		{"the role is empty", []any{clusterRole("r"), clusterBinding("b", "ClusterRole/r", "User/u")}, "u", nil, "get pods", "- "},
		{"the first subject in the binding's order is named", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "Group/x", "Group/g2", "User/u", "Group/g1")},
			"u", []string{"g1", "g2"}, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g2"`},
		{"many subjects", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", many...)},
			"system:node:n17", []string{"f", "g"}, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "system:node:n17"`},
		{"many subjects, first by a group", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", many...)},
			"system:node:n17", []string{"g", "g9"}, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g9"`},
		{"many subjects, by an account", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", many...)},
			sa("ns", "a"), nil, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "a/ns"`},

		{"account", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "ServiceAccount/ns/a")},
			sa("ns", "a"), nil, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to ServiceAccount "a/ns"`},
		{"account of another namespace", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "ServiceAccount/ns/a")},
			sa("ns2", "a"), nil, "get pods", "- "},
		{"account without a namespace is nobody in a cluster role binding", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "ServiceAccount//a")},
			sa("ns", "a"), nil, "get pods ns/", "- "},
		{"account by its user name", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "User/"+sa("ns", "a"), "ServiceAccount/ns/a")},
			sa("ns", "a"), nil, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "system:serviceaccount:ns:a"`},
		{"account of the binding's namespace", []any{role("ns", "r", get), roleBinding("ns", "b", "Role/r", "ServiceAccount//a")},
			sa("ns", "a"), nil, "get pods ns/x", `+ RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "a/ns"`},
		{"account of another namespace than the binding's", []any{role("ns", "r", get), roleBinding("ns", "b", "Role/r", "ServiceAccount/n2/a")},
			sa("n2", "a"), nil, "get pods ns/x", `+ RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "a/n2"`},

		{"role binding in its namespace", []any{role("ns", "r", get), roleBinding("ns", "b", "Role/r", "User/u")},
			"u", nil, "get pods ns/x", `+ RBAC: allowed by RoleBinding "b/ns" of Role "r" to User "u"`},
		{"role binding elsewhere", []any{role("ns", "r", get), roleBinding("ns", "b", "Role/r", "User/u")}, "u", nil, "get pods ms/x", "- "},
		{"role binding, all namespaces", []any{role("ns", "r", get), roleBinding("ns", "b", "Role/r", "User/u")}, "u", nil, "get pods", "- "},
		{"role binding without a namespace", []any{role("", "r", get), roleBinding("", "b", "Role/r", "User/u")}, "u", nil, "get pods", "- "},
		{"role binding of a cluster role", []any{clusterRole("r", get), roleBinding("ns", "b", "ClusterRole/r", "User/u")},
			"u", nil, "get pods ns/x", `+ RBAC: allowed by RoleBinding "b/ns" of ClusterRole "r" to User "u"`},
		{"role of another namespace", []any{role("ms", "r", get), roleBinding("ns", "b", "Role/r", "User/u")},
			"u", nil, "get pods ns/x", `- RBAC: role.rbac.authorization.k8s.io "r" not found`},

		{"cluster role bindings come first", []any{role("ns", "r", get), roleBinding("ns", "a", "Role/r", "User/u"),
			clusterRole("r", get), clusterBinding("z", "ClusterRole/r", "Group/g")},
			"u", []string{"g"}, "get pods ns/x", `+ RBAC: allowed by ClusterRoleBinding "z" of ClusterRole "r" to Group "g"`},
		{"bindings come by name", []any{clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "User/u"), clusterBinding("c", "ClusterRole/r", "User/u"),
			clusterBinding("a", "ClusterRole/r", "Group/g")},
			"u", []string{"g"}, "get pods", `+ RBAC: allowed by ClusterRoleBinding "a" of ClusterRole "r" to Group "g"`},

		{"role missing", []any{clusterBinding("b", "ClusterRole/r", "User/u")},
			"u", nil, "get pods", `- RBAC: clusterrole.rbac.authorization.k8s.io "r" not found`},
		{"role missing for others only", []any{clusterBinding("b", "ClusterRole/r", "User/v")}, "u", nil, "get pods", `- `},
		{"one role missing, another allows", []any{clusterBinding("a", "ClusterRole/x", "User/u"), clusterRole("r", get), clusterBinding("b", "ClusterRole/r", "User/u")},
			"u", nil, "get pods", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to User "u"`},
		{"roles missing", []any{clusterBinding("b", "ClusterRole/y", "User/u"), clusterBinding("a", "ClusterRole/x", "User/u"), roleBinding("ns", "a", "Role/x", "User/u")},
			"u", nil, "get pods ns/", `- RBAC: [clusterrole.rbac.authorization.k8s.io "x" not found, clusterrole.rbac.authorization.k8s.io "y" not found, role.rbac.authorization.k8s.io "x" not found]`},
		{"the same role missing twice", []any{clusterBinding("b", "ClusterRole/x", "User/u"), clusterBinding("a", "ClusterRole/x", "User/u")},
			"u", nil, "get pods", `- RBAC: clusterrole.rbac.authorization.k8s.io "x" not found`},
		{"unknown kind of role", []any{clusterBinding("b", "Rolle/x", "User/u"), clusterBinding("c", "ClusterRole/x", "User/u")},
			"u", nil, "get pods", `- RBAC: [unsupported role reference kind: "Rolle", clusterrole.rbac.authorization.k8s.io "x" not found]`},
		{"a cluster role binding finds no role", []any{role("ns", "r", get), clusterBinding("b", "Role/r", "User/u")},
			"u", nil, "get pods ns/a", `- RBAC: role.rbac.authorization.k8s.io "r" not found`},

		{"path", []any{clusterRole("r", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/livez/*"}}), clusterBinding("b", "ClusterRole/r", "Group/g")},
			"u", []string{"g"}, "get /livez/etcd", `+ RBAC: allowed by ClusterRoleBinding "b" of ClusterRole "r" to Group "g"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := func(objects []any) {
				t.Helper()
				s := rbac.NewStore()
				put(s, at(0), objects...)
				s.CoverFrom(at(0))
				a := request(c.user, c.groups, c.request)
				d := s.Authorize(a, at(0))
				if got := reasonOf(d); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				if !d.Known {
					t.Error("not known, although covered")
				}
				if d.Allowed && d.Missing != nil {
					t.Error("allowed, but for missing roles")
				}
				decision, reason, err := s.At(at(1)).Authorize(context.Background(), a)
				if (decision == authorizer.DecisionAllow) != d.Allowed || decision == authorizer.DecisionDeny || reason != d.Reason() || err != nil {
					t.Errorf("At: %v %q %v", decision, reason, err)
				}
			}
			f(c.objects)
			backwards := slices.Clone(c.objects)
			slices.Reverse(backwards)
			f(backwards)
		})
	}
}

func TestAuthorizeWithoutUser(t *testing.T) {
	s := rbac.NewStore()
	put(s, at(0), clusterRole("r", rule("* *")), clusterBinding("b", "ClusterRole/r", "User/"))
	a := request("", nil, "get pods")
	a.User = nil
	if d := s.Authorize(a, at(0)); d.Allowed {
		t.Error("a request of nobody is allowed")
	}
}

// grants is every way, in short.
func grants(s *rbac.Store, a authorizer.Attributes, seconds int) (out []string) {
	for g := range s.Grants(a, at(seconds)) {
		name := g.Binding.Name
		if g.Binding.Namespace != "" {
			name = g.Binding.Namespace + "/" + name
		}
		out = append(out, fmt.Sprintf("%s %s %s", name, g.Role.Name, g.Subject.Name))
	}
	return out
}

func TestGrantsAndWithout(t *testing.T) {
	s := rbac.NewStore()
	put(s, at(0),
		clusterRole("r", rule("get secrets")), clusterRole("no", rule("get pods")), role("ns", "l", rule("* secrets")),
		clusterBinding("legacy", "ClusterRole/r", "User/system:node:w1", "Group/system:nodes", "Group/system:nodes"),
		clusterBinding("everybody", "ClusterRole/r", "Group/system:authenticated"),
		clusterBinding("other", "ClusterRole/no", "Group/system:nodes"),
		clusterBinding("gone", "ClusterRole/gone", "Group/system:nodes"),
		roleBinding("ns", "local", "Role/l", "Group/system:nodes"),
		roleBinding("ms", "local", "ClusterRole/r", "Group/system:nodes"),
	)
	s.CoverFrom(at(0))
	a := node("w1", "get secrets ns/x")
	want := []string{"everybody r system:authenticated", "legacy r system:node:w1", "legacy r system:nodes", "ns/local l system:nodes"}
	if diff := cmp.Diff(want, grants(s, a, 0)); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	for range s.Grants(a, at(0)) {
		break // must not continue
	}

	f := func(name string, without func(rbac.Grant) bool, want string) {
		t.Helper()
		if got := reasonOf(s.AuthorizeWithout(a, at(0), without)); got != want {
			t.Errorf("without %s:\ngot  %s\nwant %s", name, got, want)
		}
	}
	f("nothing", func(rbac.Grant) bool { return false }, `+ RBAC: allowed by ClusterRoleBinding "everybody" of ClusterRole "r" to Group "system:authenticated"`)
	f("everybody", rbac.Grant.Ambient, `+ RBAC: allowed by ClusterRoleBinding "legacy" of ClusterRole "r" to User "system:node:w1"`)
	f("for any authenticated user and the node's own", func(g rbac.Grant) bool { return g.Ambient() || g.Subject.Kind == rbacv1.UserKind },
		`+ RBAC: allowed by ClusterRoleBinding "legacy" of ClusterRole "r" to Group "system:nodes"`)
	f("cluster role bindings", func(g rbac.Grant) bool { return g.Binding.Kind == rbac.KindClusterRoleBinding },
		`+ RBAC: allowed by RoleBinding "local/ns" of Role "l" to Group "system:nodes"`)
	f("all", func(rbac.Grant) bool { return true }, `- RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`)

	d := s.AuthorizeWithout(a, at(0), func(rbac.Grant) bool { return true })
	missing := []rbac.MissingRole{{Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "gone"}, Role: rbac.RoleRef{Kind: "ClusterRole", Name: "gone"}}}
	if diff := cmp.Diff(rbac.Decision{Known: true, Missing: missing}, d); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestGrantIsFor(t *testing.T) {
	for _, c := range []struct {
		kind, name     string
		ambient, nodes bool
	}{
		{"Group", "system:authenticated", true, false},
		{"Group", "system:unauthenticated", true, false},
		{"User", "system:authenticated", false, false},
		{"Group", "system:nodes", false, true},
		{"User", "system:nodes", false, false},
		{"User", "system:node:worker-1", false, true},
		{"User", "system:node:", false, true},
		{"Group", "system:node:worker-1", false, false},
		{"User", "kubelet", false, false},
		{"ServiceAccount", "system:node:worker-1", false, false},
	} {
		g := rbac.Grant{Subject: rbac.SubjectRef{Kind: c.kind, Name: c.name}}
		if g.Ambient() != c.ambient || g.ForNodes() != c.nodes {
			t.Errorf("%s %s: for any authenticated user %v, for nodes %v", c.kind, c.name, g.Ambient(), g.ForNodes())
		}
	}
}

func TestBindings(t *testing.T) {
	s := rbac.NewStore()
	r := clusterRole("r", rule("get pods"))
	put(s, at(0), r,
		roleBinding("ns", "b", "Role/x", "ServiceAccount//a", "Robot/r"),
		roleBinding("ms", "c", "ClusterRole/r", "User/system:node:w1"),
		clusterBinding("z", "ClusterRole/r", "Group/system:nodes"),
		clusterBinding("a", "ClusterRole/r"))
	put(s, at(10), clusterBinding("late", "ClusterRole/r"))
	drop(s, at(5), clusterBinding("a", ""))
	var got []rbac.BindingInfo
	for b := range s.Bindings(at(7)) {
		got = append(got, b)
	}
	cr := rbac.RoleRef{Kind: "ClusterRole", Name: "r"}
	want := []rbac.BindingInfo{
		{Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "z"}, Role: cr, RoleExists: true, Rules: r.Rules,
			Subjects: []rbac.SubjectRef{{Kind: "Group", Name: "system:nodes"}}},
		{Binding: rbac.BindingRef{Kind: "RoleBinding", Namespace: "ms", Name: "c"}, Role: cr, RoleExists: true, Rules: r.Rules,
			Subjects: []rbac.SubjectRef{{Kind: "User", Name: "system:node:w1"}}},
		{Binding: rbac.BindingRef{Kind: "RoleBinding", Namespace: "ns", Name: "b"}, Role: rbac.RoleRef{Kind: "Role", Name: "x"},
			Subjects: []rbac.SubjectRef{{Kind: "ServiceAccount", Namespace: "ns", Name: "a"}, {Kind: "Robot", Name: "r"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bindings (-want +got):\n%s", diff)
	}
	if !got[0].ForNodes() || !got[1].ForNodes() || got[2].ForNodes() {
		t.Error("the bindings for nodes are not distinguished")
	}
	for range s.Bindings(at(7)) {
		break // must not continue
	}
}
