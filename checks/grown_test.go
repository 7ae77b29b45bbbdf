package checks

import (
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// TestGrownBySpareRights has a binding that goes, for a subject, and another one that gave the same to a subject until two o'clock, and gives less since. What still gives that to all of
// them excuses it.
func TestGrownBySpareRights(t *testing.T) {
	user := func(name string) rbac.SubjectRef { return rbac.SubjectRef{Kind: rbacv1.UserKind, Name: name} }
	account := rbac.SubjectRef{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "agent"}
	unauthenticated := group("system:unauthenticated")
	reads := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
	nodes := rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}
	const no = "-" // no such binding
	type spare struct {
		namespace string
		of        rbac.SubjectRef
	}
	for _, c := range []struct {
		name         string
		in           string // a namespace of the binding that goes
		of           rbac.SubjectRef
		ended, lasts spare
		want         bool
	}{
		{"the same subject", "", group("system:nodes"), spare{"", group("system:nodes")}, spare{no, account}, true},
		{"nobody else", "", group("system:nodes"), spare{no, account}, spare{no, account}, false},
		{"another group", "", group("system:nodes"), spare{"", group("acme:people")}, spare{no, account}, false},
		{"everybody", "", group("system:nodes"), spare{"", authenticated}, spare{no, account}, true},
		{"in a namespace", "", group("system:nodes"), spare{"kube-system", authenticated}, spare{no, account}, true},
		{"in the same namespace", "kube-system", group("system:nodes"), spare{"kube-system", authenticated}, spare{no, account}, true},
		{"in all namespaces", "kube-system", group("system:nodes"), spare{"", authenticated}, spare{no, account}, true},
		{"in another namespace", "kube-system", group("system:nodes"), spare{"default", authenticated}, spare{no, account}, false},
		{"a single node", "", group("system:nodes"), spare{"", user("system:node:worker-1")}, spare{no, account}, true},
		{"all nodes", "", user("system:node:worker-1"), spare{"", group("system:nodes")}, spare{no, account}, true},
		{"an account by its user name", "", account, spare{"", user("system:serviceaccount:kube-system:agent")}, spare{no, account}, true},
		{"a user name of an account", "", user("system:serviceaccount:kube-system:agent"), spare{"", account}, spare{no, account}, true},
		{"another account", "", account, spare{"", user("system:serviceaccount:kube-system:agents")}, spare{no, account}, false},
		{"the accounts of a namespace", "", account, spare{"", group("system:serviceaccounts:kube-system")}, spare{no, account}, true},
		{"all accounts", "", group("system:serviceaccounts:kube-system"), spare{"", group("system:serviceaccounts")}, spare{no, account}, true},

		{"everybody, of whom those are none who do not say who they are", "", unauthenticated, spare{"", authenticated}, spare{no, account}, false},
		{"a user of those", "", user("system:anonymous"), spare{"", unauthenticated}, spare{no, account}, true},

		{"who does not say who he is still has it by his name alone", "", unauthenticated, spare{"", unauthenticated}, spare{"", user("system:anonymous")}, true},
		{"who does not say who he is still has it by his group", "", user("system:anonymous"), spare{"", user("system:anonymous")}, spare{"", unauthenticated}, false},
		{"who does not say who he is had it, and only others still have it", "", unauthenticated, spare{"", unauthenticated}, spare{"", authenticated}, true},
		{"the same by his name", "", user("system:anonymous"), spare{"", user("system:anonymous")}, spare{"", authenticated}, true},
		{"and everybody still has it", "", group("system:nodes"), spare{"", group("system:nodes")}, spare{"", authenticated}, false},
		{"in the namespace", "", group("system:nodes"), spare{"kube-system", authenticated}, spare{"kube-system", group("system:nodes")}, false},
		{"in another namespace than the one that ended", "", group("system:nodes"), spare{"kube-system", authenticated}, spare{"default", group("system:nodes")}, true},
		{"in one namespace of all", "", group("system:nodes"), spare{"", authenticated}, spare{"default", group("system:nodes")}, true},
		{"a single node still has it", "", group("system:nodes"), spare{"", group("system:nodes")}, spare{"", user("system:node:worker-1")}, true},
		{"the account still has it by its name", "", account, spare{"", account}, spare{"", user("system:serviceaccount:kube-system:agent")}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			right := func(name, namespace string, of rbac.SubjectRef, to time.Time) rbac.Right {
				ref := rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}
				if namespace != "" {
					ref = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: namespace, Name: name}
				}
				role := rbac.RoleRef{Kind: rbac.KindClusterRole, Name: "system:node"}
				rules := slices.Concat(reads, []rbacv1.PolicyRule{nodes})
				if name != "goes" {
					role.Name, rules = "reader", reads
				}
				b := rbac.BindingInfo{Binding: ref, Role: role, RoleExists: true, Rules: rules, Subjects: []rbac.SubjectRef{of}}
				return rbac.Right{BindingInfo: b, From: at(1, 0, 0), To: to}
			}
			rights := []rbac.Right{right("goes", c.in, c.of, time.Time{})}
			if c.ended.namespace != no {
				had, has := right("ended", c.ended.namespace, c.ended.of, at(14, 0, 0)), right("ended", c.ended.namespace, c.ended.of, time.Time{})
				has.From, has.Rules = at(14, 0, 0), []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"services"}}}
				rights = append(rights, had, has)
			}
			if c.lasts.namespace != no {
				rights = append(rights, right("lasts", c.lasts.namespace, c.lasts.of, time.Time{}))
			}
			// Bindings for nodes go as well, unless the owner keeps them.
			keep := []rbac.BindingRef{rights[len(rights)-1].Binding}
			if len(rights) > 1 {
				keep = append(keep, rights[1].Binding)
			}
			got := GrownDuring(rights, slices.Concat(reads, []rbacv1.PolicyRule{nodes}), keep, at(12, 0, 0), at(16, 0, 0))
			found := false
			for _, g := range got {
				found = found || g.Binding == rights[0].Binding && g.Group == "" && g.Since.Equal(at(14, 0, 0))
			}
			if found != c.want {
				t.Errorf("%+v, want it: %t", got, c.want)
			}
		})
	}
}

// What a subject lost may have spared it the binding that will be deleted: the right to give others more than one has, or what a kept binding gave whose role is gone.
func TestGrownByWhatEnded(t *testing.T) {
	nodes := group("system:nodes")
	secrets := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}}
	roles := func(verb, resource string, names ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{resource}, ResourceNames: names}}
	}
	for _, c := range []struct {
		name  string
		ended []rbacv1.PolicyRule
		kept  bool
		want  bool
	}{
		{"bind", roles("bind", "clusterroles"), true, true},
		{"bind one role", roles("bind", "roles", "reader"), true, true},
		{"escalate", roles("escalate", "roles"), true, true},
		{"all verbs", roles("*", "*"), true, true},
		{"another verb", roles("create", "roles"), true, false},
		{"another resource", roles("bind", "rolebindings"), true, false},
		{"the same, by a kept binding whose role is gone", secrets, true, true},
		{"the same, by a binding that is gone, too", secrets, false, false},
	} {
		rights := []rbac.Right{
			{BindingInfo: rbac.BindingInfo{
				Binding: rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: "goes"}, Role: rbac.RoleRef{Kind: rbac.KindClusterRole, Name: "system:node"},
				RoleExists: true, Rules: secrets, Subjects: []rbac.SubjectRef{nodes},
			}, From: at(1, 0, 0)},
			{BindingInfo: rbac.BindingInfo{
				Binding: rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: "shop", Name: "ended"}, Role: rbac.RoleRef{Kind: rbac.KindRole, Name: "r"},
				RoleExists: true, Rules: c.ended, Subjects: []rbac.SubjectRef{nodes},
			}, From: at(1, 0, 0), To: at(14, 0, 0)},
		}
		var keep []rbac.BindingRef
		if c.kept {
			keep = append(keep, rights[1].Binding)
		}
		got := GrownDuring(rights, slices.Concat(secrets, roles("get", "roles")), keep, at(12, 0, 0), at(16, 0, 0))
		if found := slices.ContainsFunc(got, func(g Grown) bool { return g.Binding == rights[0].Binding && g.Since.Equal(at(14, 0, 0)) }); found != c.want {
			t.Errorf("%s: %+v, want it: %t", c.name, got, c.want)
		}
	}
}
