package cluster

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
)

// roleScratch is what is read of a role or a binding, as the API's own types have it.
type roleScratch struct {
	rules    []rbacv1.PolicyRule
	ref      rbacv1.RoleRef
	subjects []rbacv1.Subject
}

// roleMember reads a member of a role or a binding, and is false, and reads nothing, if the key is another one.
func (d *decoder) roleMember(key string) bool {
	r := &d.role
	switch key {
	case "rules":
		r.rules = list(d, func(rule *rbacv1.PolicyRule) {
			d.members(func(key string) {
				switch key {
				case "verbs":
					rule.Verbs = d.texts()
				case "apiGroups":
					rule.APIGroups = d.texts()
				case "resources":
					rule.Resources = d.texts()
				case "resourceNames":
					rule.ResourceNames = d.texts()
				case "nonResourceURLs":
					rule.NonResourceURLs = d.texts()
				default:
					d.s.Skip()
				}
			})
		})
	case "roleRef":
		d.members(func(key string) {
			switch key {
			case "apiGroup":
				r.ref.APIGroup = d.copied()
			case "kind":
				r.ref.Kind = d.copied()
			case "name":
				r.ref.Name = d.copied()
			default:
				d.s.Skip()
			}
		})
	case "subjects":
		r.subjects = list(d, func(subject *rbacv1.Subject) {
			d.members(func(key string) {
				switch key {
				case "kind":
					subject.Kind = d.copied()
				case "apiGroup":
					subject.APIGroup = d.copied()
				case "name":
					subject.Name = d.copied()
				case "namespace":
					subject.Namespace = d.copied()
				default:
					d.s.Skip()
				}
			})
		})
	default:
		return false
	}
	return true
}

// texts reads a list of strings.
func (d *decoder) texts() []string {
	return list(d, func(s *string) { *s = d.copied() })
}

// list reads a list, nil for a null.
func list[T any](d *decoder, read func(*T)) []T {
	s := &d.s
	if s.Null() {
		return nil
	}
	out := []T{}
	for s.Array(); s.More(); {
		var one T
		read(&one)
		out = append(out, one)
	}
	return out
}

// roleOf makes the object of what was read. What grants nothing was never changed to grant something.
func (d *decoder) roleOf(o *object) {
	r := &d.role
	var grants int
	switch o.kind {
	case kindClusterRole:
		role := &rbacv1.ClusterRole{Rules: r.rules}
		role.UID, role.ResourceVersion = types.UID(o.uid), o.version
		o.role, grants = role, len(r.rules)
	case kindRole:
		role := &rbacv1.Role{Rules: r.rules}
		role.UID, role.ResourceVersion = types.UID(o.uid), o.version
		o.role, grants = role, len(r.rules)
	case kindClusterRoleBinding:
		binding := &rbacv1.ClusterRoleBinding{RoleRef: r.ref, Subjects: r.subjects}
		binding.UID, binding.ResourceVersion = types.UID(o.uid), o.version
		o.role, grants = binding, len(r.subjects)
	case kindRoleBinding:
		binding := &rbacv1.RoleBinding{RoleRef: r.ref, Subjects: r.subjects}
		binding.UID, binding.ResourceVersion = types.UID(o.uid), o.version
		o.role, grants = binding, len(r.subjects)
	default:
		return
	}
	if grants == 0 {
		o.changed = 0
	}
	nameRole(o.role, o.ref)
	d.role = roleScratch{}
}
