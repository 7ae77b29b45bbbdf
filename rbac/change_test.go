package rbac_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// reasons are the ways by which the request is allowed with the change, as the reference would give them.
func reasons(s *rbac.Store, c *rbac.Change, who, request string, t time.Time) []string {
	out := []string{}
	for g := range s.GrantsUnder(c, node(who, request), t) {
		out = append(out, g.Binding.Name+" "+g.Role.Name)
	}
	return out
}

func TestChange(t *testing.T) {
	s := rbac.NewStore()
	s.CoverFrom(at(0))
	put(s, at(0),
		clusterRole("system:node", rule("get secrets,pods")), clusterRole("pods", rule("get pods")),
		clusterBinding("legacy", "ClusterRole/system:node", "Group/system:nodes", "User/system:node:worker-1"),
		clusterBinding("one", "ClusterRole/pods", "User/system:node:worker-1"),
		clusterBinding("all", "ClusterRole/pods", "Group/system:authenticated"),
		roleBinding("shop", "local", "Role/late", "Group/system:nodes"),
	)
	put(s, at(10), role("shop", "late", rule("get secrets")))
	legacy := func(g rbac.Grant) bool { return g.Binding.Name == "legacy" }
	with := &rbac.Objects{
		ClusterRoles:        []rbacv1.ClusterRole{*clusterRole("pods", rule("list pods"))},
		ClusterRoleBindings: []rbacv1.ClusterRoleBinding{*clusterBinding("one", "ClusterRole/system:node", "Group/system:nodes")},
		Roles:               []rbacv1.Role{*role("shop", "new", rule("get secrets"))},
		RoleBindings: []rbacv1.RoleBinding{
			*roleBinding("shop", "added", "Role/new", "User/system:node:worker-1"),
			*roleBinding("shop", "to-late", "Role/late", "Group/system:nodes"),
			*roleBinding("shop", "to-nothing", "Role/nothing", "Group/system:nodes"),
		},
	}
	for _, c := range []struct {
		name, request string
		without       func(rbac.Grant) bool
		with          *rbac.Objects
		at            int
		want          []string
	}{
		{"nothing changes", "get pods shop/x", nil, nil, 5, []string{"all pods", "legacy system:node", "legacy system:node", "one pods"}},
		{"without a binding", "get pods shop/x", legacy, nil, 5, []string{"all pods", "one pods"}},
		{"without all grants of nodes", "get pods shop/x", rbac.Grant.ForNodes, nil, 5, []string{"all pods"}},
		{"the last way", "get secrets shop/x", legacy, nil, 5, []string{}},
		{"a way that comes later", "get secrets shop/x", legacy, nil, 15, []string{"local late"}},
		{"roles and bindings replaced", "get pods shop/x", legacy, with, 5, []string{"one system:node"}},
		{"a replaced role gives what it now says", "list pods shop/x", nil, with, 5, []string{"all pods"}},
		{"added in a namespace", "get secrets shop/x", rbac.Grant.ForNodes, with, 5, []string{"one system:node", "added new"}},
		{"added to a role of the store", "get secrets shop/x", rbac.Grant.ForNodes, with, 15, []string{"one system:node", "added new", "to-late late"}},
		{"nothing in another namespace", "get secrets bank/x", func(rbac.Grant) bool { return true }, &rbac.Objects{Roles: with.Roles, RoleBindings: with.RoleBindings}, 15, []string{}},
	} {
		change := s.Change(c.without, c.with)
		got := reasons(s, change, "worker-1", c.request, at(c.at))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		d := s.AuthorizeUnder(change, node("worker-1", c.request), at(c.at))
		if d.Allowed != (len(got) > 0) || !d.Known || d.Allowed && d.Grant.Binding.Name+" "+d.Grant.Role.Name != got[0] {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	if d := s.AuthorizeUnder(s.Change(nil, with), node("worker-1", "get secrets shop/x"), at(-5)); !d.Allowed || !d.Known {
		t.Errorf("what is added holds at every instant: %+v", d)
	}
	if d := s.AuthorizeUnder(s.Change(legacy, nil), node("worker-1", "get secrets bank/x"), at(-5)); d.Allowed || d.Known {
		t.Errorf("before the store: %+v", d)
	}
}

// TestChangeCaptured holds the change to its definition on a real cluster's RBAC: what is left are the store's grants without those that
// go, and a manifest of a binding of the store, unchanged, changes nothing.
func TestChangeCaptured(t *testing.T) {
	s, first, _ := capturedStore(t)
	legacy := first.Add(20 * time.Second)
	var with rbac.Objects
	for b := range s.Bindings(legacy) {
		if b.Binding.Name != "legacy:system:node" {
			continue
		}
		c := clusterBinding(b.Binding.Name, b.Role.Kind+"/"+b.Role.Name)
		for _, sub := range b.Subjects {
			c.Subjects = append(c.Subjects, rbacv1.Subject{Kind: sub.Kind, Name: sub.Name})
		}
		with.ClusterRoleBindings = append(with.ClusterRoleBindings, *c)
	}
	if with.Len() != 1 {
		t.Fatalf("%d bindings, want the one of nodes", with.Len())
	}
	for _, r := range []string{"get pods ns/x", "get secrets ns/x", "delete deployments.apps ns/x", "get /healthz", "create pods/binding ns/x"} {
		a := node("worker-1", r)
		all := slices.Collect(s.Grants(a, legacy))
		left := slices.DeleteFunc(slices.Clone(all), rbac.Grant.ForNodes)
		if diff := cmp.Diff(left, slices.Collect(s.GrantsUnder(s.Change(rbac.Grant.ForNodes, nil), a, legacy)), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", r, diff)
		}
		again := slices.Collect(s.GrantsUnder(s.Change(nil, &with), a, legacy))
		if len(again) != len(all) {
			t.Errorf("%s: %v, want %v", r, again, all)
		}
	}
}

func TestChangeNoAllocation(t *testing.T) {
	s, first, _ := capturedStore(t)
	legacy := first.Add(20 * time.Second)
	c := s.Change(rbac.Grant.ForNodes, nil)
	a := node("worker-1", "get secrets ns/x")
	if n := testing.AllocsPerRun(100, func() { s.AuthorizeUnder(c, a, legacy) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestBindingsDuring(t *testing.T) {
	s := rbac.NewStore()
	put(s, at(0), clusterRole("r", rule("get pods")), clusterBinding("always", "ClusterRole/r", "User/a"))
	put(s, at(10), clusterBinding("sometimes", "ClusterRole/r", "User/a"))
	put(s, at(20), clusterBinding("sometimes", "ClusterRole/missing", "User/b"))
	s.DeleteClusterRoleBinding("sometimes", at(30))
	f := func(from, to int, want ...string) {
		t.Helper()
		got := []string{}
		for b := range s.BindingsDuring(at(from), at(to)) {
			got = append(got, b.Binding.Name+" "+b.Role.Name)
			if b.RoleExists != (b.Role.Name == "r") {
				t.Errorf("%+v", b)
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("from %d to %d (-want +got):\n%s", from, to, diff)
		}
	}
	f(-10, -5)
	f(0, 9, "always r")
	f(0, 10, "always r", "sometimes r")
	f(15, 40, "always r", "sometimes r", "sometimes missing")
	f(20, 29, "always r", "sometimes missing")
	f(30, 40, "always r")
}

// TestChangeIsAnotherStore holds a change to what it stands for: a store in which the objects really were so, all the time.
func TestChangeIsAnotherStore(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[r.IntN(len(list))] }
	subject := func() string {
		return pick("Group/system:nodes", "Group/system:authenticated", "User/system:node:worker-1", "ServiceAccount/shop/a", "Group/nobody")
	}
	someRule := func() rbacv1.PolicyRule {
		return rule(pick("get", "get,list", "*") + " " + pick("pods", "secrets", "pods,secrets", "*"))
	}
	allowed, changed := 0, 0
	for range 2000 {
		was, is := rbac.NewStore(), rbac.NewStore()
		was.CoverFrom(at(0))
		is.CoverFrom(at(0))
		with := &rbac.Objects{}
		gone := "b" + pick("0", "1", "2", "3")
		// Names are few, so that much is replaced.
		for _, name := range []string{"0", "1", "2"} {
			for _, kind := range []string{"cr", "r"} {
				before, added := r.IntN(3) > 0, r.IntN(3) == 0
				old, now := someRule(), someRule()
				switch {
				case kind == "cr" && before:
					put(was, at(0), clusterRole(kind+name, old))
					put(is, at(0), clusterRole(kind+name, old))
				case before:
					put(was, at(0), role("shop", kind+name, old))
					put(is, at(0), role("shop", kind+name, old))
				}
				switch {
				case kind == "cr" && added:
					with.ClusterRoles = append(with.ClusterRoles, *clusterRole(kind+name, now))
					put(is, at(0), clusterRole(kind+name, now))
				case added:
					with.Roles = append(with.Roles, *role("shop", kind+name, now))
					put(is, at(0), role("shop", kind+name, now))
				}
			}
		}
		for _, name := range []string{"b0", "b1", "b2", "b3"} {
			for _, local := range []bool{false, true} {
				to := pick("ClusterRole/cr0", "ClusterRole/cr1", "ClusterRole/cr2")
				if local && r.IntN(2) == 0 {
					to = pick("Role/r0", "Role/r1", "Role/r2")
				}
				before, added := r.IntN(3) > 0, r.IntN(3) == 0
				old, now := []string{subject(), subject()}, []string{subject()}
				switch {
				case local && before:
					put(was, at(0), roleBinding("shop", name, to, old...))
				case before:
					put(was, at(0), clusterBinding(name, to, old...))
				}
				switch {
				case local && added:
					with.RoleBindings = append(with.RoleBindings, *roleBinding("shop", name, to, now...))
					put(is, at(0), roleBinding("shop", name, to, now...))
				case added:
					with.ClusterRoleBindings = append(with.ClusterRoleBindings, *clusterBinding(name, to, now...))
					put(is, at(0), clusterBinding(name, to, now...))
				case name == gone || !before:
				case local:
					put(is, at(0), roleBinding("shop", name, to, old...))
				default:
					put(is, at(0), clusterBinding(name, to, old...))
				}
			}
		}
		c := was.Change(func(g rbac.Grant) bool { return g.Binding.Name == gone }, with)
		for _, request := range []string{"get pods shop/x", "list secrets shop/x", "delete secrets shop/x", "get pods bank/x"} {
			a := node("worker-1", request)
			want := map[rbac.Grant]bool{}
			for g := range is.Grants(a, at(1)) {
				want[g] = true
			}
			got := map[rbac.Grant]bool{}
			for g := range was.GrantsUnder(c, a, at(1)) {
				got[g] = true
			}
			d := was.AuthorizeUnder(c, a, at(1))
			if diff := cmp.Diff(want, got); diff != "" || d.Allowed != (len(want) > 0) || !d.Known {
				t.Fatalf("%s, %+v (-want +got):\n%s", request, d, diff)
			}
			if d.Allowed {
				allowed++
			}
			if was.Authorize(a, at(1)).Allowed != d.Allowed {
				changed++
			}
		}
	}
	if allowed < 1000 || changed < 500 {
		t.Errorf("%d allowed, %d changed: too few to mean much", allowed, changed)
	}
}
