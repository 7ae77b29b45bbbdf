package checks

import (
	"cmp"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"

	"github.com/nodetrail/nodetrail/rbac"
)

// Grown is a binding that goes and that some of its subjects need for more than they did before Since: it gives more since then, or another
// binding gave the same until then. What the log shows of the time before says nothing about that.
type Grown struct {
	Binding rbac.BindingRef
	Since   time.Time
	// Group is one that the other binding was for: it matters where nodes are in that group. Empty where it matters in any case.
	Group string `json:",omitempty"`
}

// GrownDuring returns those of a time, in the order of the rights, which are all that bindings gave in it. systemNode are the rules of the ClusterRole
// system:node in the end.
func GrownDuring(rights []rbac.Right, systemNode []rbacv1.PolicyRule, keep []rbac.BindingRef, from, to time.Time) []Grown {
	node := atomsOf(systemNode)
	latest := map[rbac.BindingRef]*rbac.Right{}
	for i := range rights {
		r := &rights[i]
		if was := latest[r.Binding]; was == nil || was.Ended(to) && (!r.Ended(to) || r.To.After(was.To)) {
			latest[r.Binding] = r
		}
	}
	stays := map[rbac.BindingRef]bool{} // in the end, whatever it gave before
	for ref, r := range latest {
		fate, _ := fateOf(&r.BindingInfo, node, keep)
		stays[ref] = fate == Stays
	}
	given := make([]givenRight, len(rights))
	for i := range rights {
		r := &rights[i]
		fate, _ := fateOf(&r.BindingInfo, node, nil)
		given[i] = givenRight{Right: r, goes: fate == Goes && !stays[r.Binding], lasts: !r.Ended(to)}
		given[i].changed = r.From.After(from) && !r.From.After(to) || !given[i].lasts
	}
	groups := endedGroups(given)
	var out []Grown
	for i := range given {
		g := &given[i]
		if !g.goes || !g.lasts {
			continue
		}
		always := from
		for _, group := range append([]string{""}, groups...) {
			since := from
			for _, s := range g.Subjects {
				since = later(since, g.needed(given, s, group, from, to))
			}
			if since.After(always) {
				out = append(out, Grown{g.Binding, since, group})
			}
			if group == "" {
				always = since
			}
		}
	}
	return out
}

// endedGroups are the groups that rights were for which ended, each once and in order. Whether nodes are in such a group only the log shows.
func endedGroups(all []givenRight) (out []string) {
	for i := range all {
		if all[i].goes || all[i].lasts {
			continue
		}
		for _, s := range all[i].Subjects {
			if s.Kind == rbacv1.GroupKind && s != authenticated && !s.ForNodes() && !strings.HasPrefix(s.Name, serviceaccount.AllServiceAccountsGroup) {
				out = append(out, s.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

type givenRight struct {
	*rbac.Right
	goes, lasts, changed bool
	atoms                map[atom]bool
}

// needed returns since when a subject needs all that it has by the binding from bindings that go, from if it does all the time. Nodes are in the group, if there
// is one.
func (g *givenRight) needed(all []givenRight, s rbac.SubjectRef, group string, from, to time.Time) time.Time {
	var own, elsewhere, ended []*givenRight
	changed := false
	for i := range all {
		q := &all[i]
		switch {
		case !q.reaches(g.Binding.Namespace) && g.Binding.Namespace != "":
		case q.goes && q.reaches(g.Binding.Namespace) && slices.Contains(q.Subjects, s):
			own = append(own, q)
			changed = changed || q.changed
		case !q.goes && q.lasts && q.covers(s, group):
			elsewhere = append(elsewhere, q)
		case !q.goes && !q.lasts && q.touches(s, group):
			ended = append(ended, q)
		}
	}
	since := from
	if !changed && len(ended) == 0 {
		return since
	}
	given := func(a atom, namespace string) bool {
		return slices.ContainsFunc(elsewhere, func(q *givenRight) bool { return q.reaches(namespace) && q.gives(a) })
	}
	spared := from // until then the subject had a right that spared it those which it gives to others
	for _, q := range ended {
		for b := range q.all() {
			if b.spares() && !given(b, cmp.Or(q.Binding.Namespace, g.Binding.Namespace)) {
				spared = later(spared, q.To)
			}
		}
	}
	for a := range g.all() {
		if given(a, g.Binding.Namespace) {
			continue
		}
		since = later(since, spared)
		for _, q := range ended {
			for b := range q.all() {
				if a.meets(b) && !given(b, cmp.Or(q.Binding.Namespace, g.Binding.Namespace)) {
					since = later(since, q.To)
				}
			}
		}
		var spans []Span
		for _, q := range own {
			if q.gives(a) {
				spans = append(spans, Span{q.From, q.To})
			}
		}
		for _, gap := range subtract(Span{from, to}, clip(spans, from, to)) {
			since = later(since, gap.To)
		}
	}
	return since
}

// spares reports whether it is the right to give others more than one has (pkg/registry/rbac): who loses it needs all that he gives them.
func (a atom) spares() bool {
	for _, verb := range []string{"bind", "escalate"} {
		for _, kind := range []string{"roles", "clusterroles"} {
			if a.gives(atom{verb: verb, group: rbacv1.GroupName, resource: kind, name: a.name}) {
				return true
			}
		}
	}
	return false
}

// reaches reports whether the right is for a whole namespace, or, if that is empty, for all of them.
func (g *givenRight) reaches(namespace string) bool {
	return g.Binding.Namespace == "" || g.Binding.Namespace == namespace
}

func (g *givenRight) all() map[atom]bool {
	if g.atoms == nil {
		g.atoms = atomsOf(g.Rules)
	}
	return g.atoms
}

func (g *givenRight) gives(a atom) bool {
	if g.all()[a] {
		return true
	}
	for b := range g.all() {
		if b.gives(a) {
			return true
		}
	}
	return false
}

// covers reports whether the right is for all who are the subject. Nodes are in the group, if there is one.
func (g *givenRight) covers(s rbac.SubjectRef, group string) bool {
	return slices.ContainsFunc(g.Subjects, func(o rbac.SubjectRef) bool { return contains(o, s) || ofGroup(o, s, group) })
}

// touches reports whether the right is for somebody who is the subject.
func (g *givenRight) touches(s rbac.SubjectRef, group string) bool {
	return slices.ContainsFunc(g.Subjects, func(o rbac.SubjectRef) bool { return contains(o, s) || contains(s, o) || ofGroup(o, s, group) })
}

func ofGroup(o, s rbac.SubjectRef, group string) bool {
	return group != "" && s.ForNodes() && o.Kind == rbacv1.GroupKind && o.Name == group
}

// contains reports whether all who are the inner subject are the outer one, too, as far as the API server puts them into groups itself.
func contains(outer, inner rbac.SubjectRef) bool {
	outer, inner = outer.Account(), inner.Account()
	switch {
	case outer == inner:
		return true
	case outer.Kind != rbacv1.GroupKind:
		return false
	case outer == authenticated:
		return !inner.Unauthenticated()
	case inner.Unauthenticated():
		return outer.Unauthenticated()
	case inner.Kind == rbacv1.UserKind:
		return inner.ForNodes() && outer.ForNodes()
	case inner.Kind == rbacv1.ServiceAccountKind:
		return slices.Contains(serviceaccount.MakeGroupNames(inner.Namespace), outer.Name)
	}
	return outer.Name == serviceaccount.AllServiceAccountsGroup && strings.HasPrefix(inner.Name, serviceaccount.ServiceAccountGroupPrefix)
}
