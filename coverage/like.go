package coverage

import (
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// AnyName is a name that no policy has.
const AnyName = "nodetrail-example"

// Like returns those whom the policy may tell apart among all who are like the user: who have the name, or any name if it is AnyName, and are in the groups. It
// begins with the user. Of the users and groups that rules name, those of Kubernetes count only if own is set; service accounts count in the groups that they
// always have, a group of service accounts has no other members, and the group of all of them has those of each namespace. Who does not say who he is has one name and one group.
//
// Nobody is missing: who matches a rule has one of its users and one of its groups, and the fewer other groups somebody has, the fewer rules before it match.
func (p *Policy) Like(who *user.DefaultInfo, own bool) []*user.DefaultInfo {
	out := []*user.DefaultInfo{who}
	if who.Name == user.Anonymous {
		return out
	}
	add := func(name string, groups ...string) {
		x := &user.DefaultInfo{Name: name, Groups: slices.Clone(who.Groups)}
		if namespace, _, err := serviceaccount.SplitUsername(name); err == nil {
			groups = append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated)
		}
		for _, g := range groups {
			if !slices.Contains(x.Groups, g) {
				x.Groups = append(x.Groups, g)
			}
		}
		if !slices.ContainsFunc(out, func(o *user.DefaultInfo) bool { return o.Name == x.Name && slices.Equal(o.Groups, x.Groups) }) {
			out = append(out, x)
		}
	}
	ofOne := func(group string) bool { return strings.HasPrefix(group, serviceaccount.ServiceAccountGroupPrefix) }
	everybody := who.Name == AnyName && !slices.ContainsFunc(who.Groups, func(g string) bool { return g != user.AllAuthenticated })
	counts := func(name string) bool {
		return (own || !strings.HasPrefix(name, "system:")) && (everybody || !ofAccounts(name) && name != user.AllUnauthenticated)
	}
	if slices.ContainsFunc(who.Groups, ofAccounts) {
		all := !slices.ContainsFunc(who.Groups, ofOne)
		counts = func(name string) bool { return all && ofOne(name) }
	}
	for i := range p.rules {
		users := []string{who.Name}
		if len(p.rules[i].Users) > 0 {
			users = slices.DeleteFunc(slices.Clone(p.rules[i].Users), func(name string) bool {
				return name != who.Name && (who.Name != AnyName || !counts(name) && !accountIn(name, who.Groups))
			})
		}
		for _, name := range users {
			add(name)
			for _, g := range p.rules[i].UserGroups {
				if counts(g) {
					add(name, g)
				}
			}
		}
	}
	return out
}

func ofAccounts(group string) bool {
	return group == serviceaccount.AllServiceAccountsGroup || strings.HasPrefix(group, serviceaccount.ServiceAccountGroupPrefix)
}

// accountIn reports whether the name is that of a service account that is always in all of the groups.
func accountIn(name string, groups []string) bool {
	namespace, _, err := serviceaccount.SplitUsername(name)
	return err == nil && !slices.ContainsFunc(groups, func(g string) bool {
		return g != user.AllAuthenticated && !slices.Contains(serviceaccount.MakeGroupNames(namespace), g)
	})
}
