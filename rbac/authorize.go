package rbac

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Decision is what RBAC says of a request at an instant.
type Decision struct {
	// Allowed is true when a grant was found. RBAC never denies: without a
	// grant it has no opinion.
	Allowed bool
	// Known is false when nothing that was seen allows the request and the
	// instant is one at which the store does not know all (see Covers).
	Known bool
	// Grant is what allows the request, the first by the reference's order;
	// empty if nothing does.
	Grant Grant
	// Missing are the bindings that apply to the user without effect, when
	// nothing allows the request. Their namespaces and order are the
	// reference's.
	Missing []MissingRole
}

// Reason returns the reference's reason, byte for byte: see FormatReason for an
// allow; otherwise it is empty, or lists the roles that are missing.
func (d *Decision) Reason() string {
	if d.Allowed {
		return FormatReason(d.Grant)
	}
	return missingReason(d.Missing)
}

// Authorize decides the request as of t. It does not allocate memory, unless
// roles are missing. A caller that asks often should pass the address of an
// authorizer.AttributesRecord, as the record itself is copied to the heap.
func (s *Store) Authorize(attrs authorizer.Attributes, t time.Time) Decision {
	return s.AuthorizeWithout(attrs, t, nil)
}

// AuthorizeWithout decides the request as of t as if the grants for which
// without is true were not there. It answers "what if this binding went", or,
// with only some grants of a binding, this subject of it.
func (s *Store) AuthorizeWithout(attrs authorizer.Attributes, t time.Time, without func(Grant) bool) Decision {
	d := Decision{}
	at := instantOf(t)
	known := int64(at) >= s.covered.Load() && s.watched(at) // before: what was set before CoverFrom counts
	s.visit(attrs, at, &d.Missing, func(b *binding, v *bound, subject int) bool {
		g := Grant{Binding: b.ref, Role: v.ref, Subject: v.subjects[subject]}
		if without != nil && without(g) {
			return true
		}
		d.Allowed, d.Grant, d.Missing = true, g, nil
		return false
	})
	// After: what is being forgotten meanwhile may be lacking.
	d.Known = d.Allowed || (known && int64(at) >= s.pruned.Load())
	return d
}

// Grants returns every way by which RBAC allows the request as of t, in the
// order in which the reference would find them, by binding and then by the
// place of the subject in it. The first is Authorize's.
func (s *Store) Grants(attrs authorizer.Attributes, t time.Time) iter.Seq[Grant] {
	return func(yield func(Grant) bool) {
		s.visit(attrs, instantOf(t), nil, func(b *binding, v *bound, subject int) bool {
			return yield(Grant{Binding: b.ref, Role: v.ref, Subject: v.subjects[subject]})
		})
	}
}

// inline is how many lists of bindings a request's user can have, by name and
// groups, without memory being allocated.
const inline = 8

// visit calls found with each way by which the request is allowed, until it
// returns false, and appends to missing, unless it is nil, the bindings without
// a role that were met. No lock is held in a call.
func (s *Store) visit(attrs authorizer.Attributes, t instant, missing *[]MissingRole, found func(b *binding, v *bound, subject int) bool) {
	visitIn(&s.index, nil, attrs, t, missing, found)
}

// visitIn is visit of the bindings in an index, with other rules in the place of some roles' own.
func visitIn(in *index, instead map[*role]*rules, attrs authorizer.Attributes, t instant, missing *[]MissingRole,
	found func(b *binding, v *bound, subject int) bool,
) {
	info := attrs.GetUser()
	if info == nil {
		return
	}
	u := identity{info.GetName(), info.GetGroups()}
	r := requestOf(attrs)
	var inCluster, inNamespace [inline][]*binding
	cluster, local := in.find(&u, attrs.GetNamespace(), inCluster[:0], inNamespace[:0])
	if visitLists(cluster, instead, &u, &r, t, missing, found) {
		visitLists(local, instead, &u, &r, t, missing, found)
	}
}

func visitLists(lists [][]*binding, instead map[*role]*rules, u *identity, r *request, t instant, missing *[]MissingRole, found func(b *binding, v *bound, subject int) bool) bool {
	for b := nextBinding(lists); b != nil; b = nextBinding(lists) {
		v := b.at(t)
		if v == nil {
			continue
		}
		i := v.firstSubject(u)
		if i < 0 {
			continue
		}
		rules := v.rules(t)
		if len(instead) > 0 && instead[v.role] != nil {
			rules = instead[v.role]
		}
		if rules == nil {
			if missing != nil {
				*missing = append(*missing, MissingRole{Binding: b.ref, Role: v.ref})
			}
			continue
		}
		if !rules.allow(r) {
			continue
		}
		for ; i >= 0; i = v.nextSubject(u, i+1) {
			if !found(b, v, i) {
				return false
			}
		}
	}
	return true
}

// Bindings returns all bindings that exist at t, cluster role bindings first,
// then by namespace and name.
func (s *Store) Bindings(t time.Time) iter.Seq[BindingInfo] {
	at := instantOf(t)
	return func(yield func(BindingInfo) bool) {
		for _, b := range s.sorted() {
			v := b.at(at)
			if v == nil {
				continue
			}
			info := BindingInfo{Binding: b.ref, Role: v.ref, Subjects: v.subjects}
			info.UID, info.ResourceVersion = b.identityAt(at)
			if rules := v.rules(at); rules != nil {
				info.RoleExists, info.Rules = true, rules.all
			}
			if !yield(info) {
				return
			}
		}
	}
}

// BindingsDuring returns every version of a binding that was there at some instant from `from` to `to`, both included, in the order of
// Bindings and then of time. The rules are the role's at the version's beginning, or at from if that is later.
func (s *Store) BindingsDuring(from, to time.Time) iter.Seq[BindingInfo] {
	lo, hi := instantOf(from), instantOf(to)
	return func(yield func(BindingInfo) bool) {
		for _, b := range s.sorted() {
			all := b.load()
			for i, v := range all {
				if v.value == nil || v.from > hi || i+1 < len(all) && all[i+1].from <= lo {
					continue
				}
				info := BindingInfo{Binding: b.ref, Role: v.value.ref, Subjects: v.value.subjects}
				if rules := v.value.rules(max(v.from, lo)); rules != nil {
					info.RoleExists, info.Rules = true, rules.all
				}
				if !yield(info) {
					return
				}
			}
		}
	}
}

// ClusterRoleRules returns the rules that the ClusterRole of that name has at t, bound or not; ok is false where there is none.
func (s *Store) ClusterRoleRules(name string, t time.Time) (all []rbacv1.PolicyRule, ok bool) {
	s.writer.Lock()
	r := s.clusterRoles[name]
	s.writer.Unlock()
	if r == nil {
		return nil, false
	}
	v := r.at(instantOf(t))
	if v == nil {
		return nil, false
	}
	return v.all, true
}

func (s *Store) sorted() []*binding {
	s.writer.Lock()
	all := make([]*binding, 0, len(s.bindings))
	for _, b := range s.bindings {
		all = append(all, b)
	}
	s.writer.Unlock()
	slices.SortFunc(all, func(a, b *binding) int {
		return cmp.Or(cmp.Compare(a.ref.Kind, b.ref.Kind), cmp.Compare(a.ref.Namespace, b.ref.Namespace), cmp.Compare(a.ref.Name, b.ref.Name))
	})
	return all
}

// At returns the store as an authorizer that decides as of t. It allows with
// the grant's reason or has no opinion, and never fails; what is unknown is no
// opinion too.
func (s *Store) At(t time.Time) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
		d := s.Authorize(attrs, t)
		if d.Allowed {
			return authorizer.DecisionAllow, d.Reason(), nil
		}
		return authorizer.DecisionNoOpinion, d.Reason(), nil
	})
}
