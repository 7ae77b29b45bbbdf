package report

import (
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// An update that makes its object needs create as well, which the log does not say: what-if sees that it goes, and suggest writes it into the client's role.
func TestUpdateThatCreates(t *testing.T) {
	s := someRBAC()
	for name, to := range map[string]struct {
		group string
		verbs []string
	}{"locks": {"monitoring", []string{"update"}}, "agents": {"system:nodes", []string{"create", "update"}}} {
		s.SetClusterRole(&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"endpoints"}, Verbs: to.verbs}},
		}, at(-1000))
		s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: name}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: to.group}},
		}, at(-1000))
	}
	w := &WhatIf{RBAC: s, Change: s.Change(rbac.Grant.ForNodes, nil)}
	for answer, want := range map[int]Outcome{200: AllowedByRBAC, 201: Breaks} {
		j := asked("worker-1 update endpoints shop/lock", byRBAC("locks"), notForNodes, code(int32(answer)))
		if f := w.Of(j); f.Outcome != want {
			t.Errorf("answered %d: %s, want %s", answer, f.Outcome, want)
		}
		suggester := &suggester{Suggester: NewSuggester(w, SuggestOptions{})}
		suggester.add("worker-1 update endpoints shop/lock", byRBAC("agents"), code(int32(answer)), agent("lock-agent/1"))
		creates := false
		out := suggester.Suggestion()
		for i := range out.Clients {
			creates = creates || slices.ContainsFunc(rulesOf(&out.Clients[i]), func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Verbs, "create") })
		}
		if creates != (want == Breaks) {
			t.Errorf("answered %d: the suggested role may create: %t", answer, creates)
		}
	}
}

// rulesOf are all the rules of a client's roles.
func rulesOf(c *SuggestedClient) (out []rbacv1.PolicyRule) {
	for i := range c.ClusterRoles {
		out = append(out, c.ClusterRoles[i].Rules...)
	}
	for i := range c.Roles {
		out = append(out, c.Roles[i].Rules...)
	}
	return out
}
