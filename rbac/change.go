package rbac

import (
	"iter"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Objects are the four kinds of RBAC objects, as a manifest has them. The zero value is none.
type Objects struct {
	ClusterRoles        []rbacv1.ClusterRole
	Roles               []rbacv1.Role
	ClusterRoleBindings []rbacv1.ClusterRoleBinding
	RoleBindings        []rbacv1.RoleBinding
}

// Len is how many objects there are.
func (o *Objects) Len() int {
	return len(o.ClusterRoles) + len(o.Roles) + len(o.ClusterRoleBindings) + len(o.RoleBindings)
}

// Change is what would be different from what a store knows, at every instant alike: grants that go, and objects that come or
// replace those of their name. It is made by [Store.Change] and never changes; it may be used concurrently. It holds to the roles
// that the store had when it was made or got later, but not to those that Prune forgot and that were then made again.
type Change struct {
	without  func(Grant) bool
	roles    map[*role]*rules
	replaced map[BindingRef]bool
	index    index
}

// Change returns the change by which the grants go for which without is true (nil for none), and the given objects are there. A
// binding or role among them stands in the place of the store's own of that name; without is not asked about added bindings. Of two
// objects of one name the later counts. Of an aggregated cluster role the rules that it holds count, as in [Store].
func (s *Store) Change(without func(Grant) bool, with *Objects) *Change {
	c := &Change{without: without, roles: map[*role]*rules{}, replaced: map[BindingRef]bool{}, index: newIndex()}
	if with == nil {
		return c
	}
	s.writer.Lock()
	defer s.writer.Unlock()
	for i := range with.ClusterRoles {
		o := &with.ClusterRoles[i]
		c.roles[getRole(s.clusterRoles, o.Name)] = rulesOf(o.Rules)
	}
	for i := range with.Roles {
		o := &with.Roles[i]
		c.roles[getRole(s.roles, roleKey(o.Namespace, o.Name))] = rulesOf(o.Rules)
	}
	added := map[BindingRef]*bound{}
	bind := func(ref BindingRef, to rbacv1.RoleRef, subjects []rbacv1.Subject) {
		v := boundTo(ref.Namespace, to, subjects)
		switch to.Kind {
		case KindClusterRole:
			v.role = getRole(s.clusterRoles, to.Name)
		case KindRole:
			v.role = getRole(s.roles, roleKey(ref.Namespace, to.Name))
		}
		added[ref] = v
	}
	for i := range with.ClusterRoleBindings {
		o := &with.ClusterRoleBindings[i]
		bind(BindingRef{KindClusterRoleBinding, "", o.Name}, o.RoleRef, o.Subjects)
	}
	for i := range with.RoleBindings {
		o := &with.RoleBindings[i]
		bind(BindingRef{KindRoleBinding, o.Namespace, o.Name}, o.RoleRef, o.Subjects)
	}
	for ref, v := range added {
		b := &binding{ref: ref}
		b.set(earliest, v, (*bound).equal)
		for _, key := range v.keys {
			if key.kind != keyNobody {
				c.index.add(key, b)
			}
		}
		c.replaced[ref] = true
	}
	return c
}

// Removes reports whether the change takes this grant of the store's away: its binding is replaced, or without is true for it. What
// a replacement gives in its stead is another grant.
func (c *Change) Removes(g Grant) bool {
	return c.replaced[g.Binding] || c.without != nil && c.without(g)
}

// AuthorizeUnder decides the request as of t as it would be with the change.
func (s *Store) AuthorizeUnder(c *Change, attrs authorizer.Attributes, t time.Time) Decision {
	d := Decision{}
	at := instantOf(t)
	known := int64(at) >= s.covered.Load() && s.watched(at)
	s.visitUnder(c, attrs, at, &d.Missing, func(g Grant) bool {
		d.Allowed, d.Grant, d.Missing = true, g, nil
		return false
	})
	d.Known = d.Allowed || (known && int64(at) >= s.pruned.Load())
	return d
}

// GrantsUnder returns every way by which RBAC would allow the request as of t with the change: first those of the store that are
// left, in the order of [Store.Grants], then those of the added bindings.
func (s *Store) GrantsUnder(c *Change, attrs authorizer.Attributes, t time.Time) iter.Seq[Grant] {
	return func(yield func(Grant) bool) {
		s.visitUnder(c, attrs, instantOf(t), nil, yield)
	}
}

func (s *Store) visitUnder(c *Change, attrs authorizer.Attributes, at instant, missing *[]MissingRole, found func(Grant) bool) {
	done := false
	visitIn(&s.index, c.roles, attrs, at, missing, func(b *binding, v *bound, subject int) bool {
		g := Grant{Binding: b.ref, Role: v.ref, Subject: v.subjects[subject]}
		if c.Removes(g) {
			return true
		}
		done = !found(g)
		return !done
	})
	if done {
		return
	}
	visitIn(&c.index, c.roles, attrs, at, missing, func(b *binding, v *bound, subject int) bool {
		return found(Grant{Binding: b.ref, Role: v.ref, Subject: v.subjects[subject]})
	})
}
