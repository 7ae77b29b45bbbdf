package app

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/tally"
)

// rememberedMembers is the kind of memory of what clients do not need a binding for while they are in a group, and of the groups of these clients.
const rememberedMembers = "binding-members"

// storedMember is a use that counts once its user is in none of the groups, or, without a use, what the user's groups are by its request of Last.
type storedMember struct {
	Use    *checks.Use `json:",omitempty"`
	User   string
	Groups []string
	Last   time.Time
}

// learn takes over whose groups matter, as it was stored.
func (b *memberBook) learn(stored []tally.Remembered) error {
	latest, _, err := membersOf(stored)
	for name, m := range latest {
		b.groups[name] = &memberGroups{groups: m.Groups, at: m.Last, told: m.Last}
	}
	return err
}

// membersOf returns the latest groups of each user, and the uses.
func membersOf(stored []tally.Remembered) (latest map[string]storedMember, uses []storedMember, err error) {
	latest = map[string]storedMember{}
	for i := range stored {
		var m storedMember
		if err := json.Unmarshal(stored[i].Value, &m); err != nil {
			return latest, uses, fmt.Errorf("reading what groups of nodes spare, as it was stored: %w", err)
		}
		if m.Use != nil {
			uses = append(uses, m)
		} else if was, ok := latest[m.User]; !ok || m.Last.After(was.Last) {
			latest[m.User] = m
		}
	}
	return latest, uses, nil
}

// memberChanges are what has changed since it was called last.
func (b *boundBook) memberChanges() (out []tally.Remembered) {
	put := func(name string, m *storedMember) {
		if v, err := json.Marshal(m); err == nil { // of strings, numbers and times
			out = append(out, tally.Remembered{Kind: rememberedMembers, Key: b.book + "\x00" + name, Value: v})
		}
	}
	for name, g := range b.members.groups {
		if g.changed || g.at.Sub(g.told) >= groupsEvery {
			g.changed, g.told = false, g.at
			put(name, &storedMember{User: name, Groups: g.groups, Last: g.at.UTC()})
		}
	}
	for k, m := range b.members.uses {
		if m.told == m.use.Count {
			continue
		}
		m.told = m.use.Count
		if by, groups, ok := b.spare(m, k.user); ok {
			u := *m.use
			u.Binding = by
			put(fmt.Sprintf("%+v", k), &storedMember{Use: &u, User: k.user, Groups: groups, Last: u.Last.UTC()})
		}
	}
	return out
}

// spare returns the binding that goes which a user needs for a request once it is in none of the groups, each of which was enough for it.
func (b *boundBook) spare(m *memberRequest, name string) (by rbac.BindingRef, groups []string, ok bool) {
	a, all := m.attrs, m.groups
	a.User = &user.DefaultInfo{Name: name, Groups: all}
	d := b.store.AuthorizeWithout(&a, endOfTime(), func(g rbac.Grant) bool { return !b.goes[g.Binding] })
	if !d.Allowed {
		return by, nil, false
	}
	by = pipeline.KeptGrant(b.store, b.kept, &a, endOfTime(), d.Grant).Binding
	leaves := func(group string) bool { return mayLeave(&rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: group}) }
	base := slices.DeleteFunc(slices.Clone(all), leaves)
	allowed := func(groups []string) bool {
		a.User = &user.DefaultInfo{Name: name, Groups: groups}
		return b.allows(&a, endOfTime(), b.goes)
	}
	if allowed(base) {
		return by, nil, false
	}
	for _, g := range all {
		if leaves(g) && allowed(append(base[:len(base):len(base)], g)) {
			groups = append(groups, g)
		}
	}
	return by, groups, len(groups) > 0
}

// readMembers adds the uses of users that are in none of the groups any more, as far as they reach into the time from begin on.
func (p *proof) readMembers(stored []tally.Remembered, begin time.Time) error {
	latest, uses, err := membersOf(stored)
	for i := range uses {
		m := &uses[i]
		in := func(group string) bool { return slices.Contains(latest[m.User].Groups, group) }
		if !m.Last.Before(begin) && !slices.ContainsFunc(m.Groups, in) {
			p.uses = append(p.uses, *m.Use)
		}
	}
	p.uses = ordered(p.uses)
	return err
}
