package app

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// anyName is a name that no policy has.
const anyName = coverage.AnyName

// hidden asks the audit policy for what it keeps out of the log: of the requests of nodes, those that its rules name and any other, with the groups that
// nodes have and that its rules name, and of those of everybody whom the state lets act as a node or who may be in their group, and of others to whom a binding that goes gives something. An API server evaluates its policy before it looks whom somebody acts as.
func (p *proof) hidden(in *checks.Input) {
	if p.policy == nil {
		return
	}
	in.Policy.Given, in.Policy.Contradicted = true, contradicted(p.policy, p.written)
	for act := range evidence.Acts {
		if verb, resource, _ := strings.Cut(act.String(), " "); !p.policy.LogsOfNodes(verb, resource) {
			in.Policy.Omits = append(in.Policy.Omits, act)
		}
	}
	in.Policy.OmitsReviews = !p.policy.LogsReviews()
	for c := range evidence.Comings {
		if verb, resource, _ := strings.Cut(c.String(), " "); !p.policy.LogsOfOthers(verb, resource) {
			in.Policy.OmitsOfOthers = append(in.Policy.OmitsOfOthers, c)
		}
	}
	note := func(h coverage.Hidden, as string) {
		for _, r := range h.Requests {
			x := checks.Hidden{Request: requestKind(r.Verb, r.APIGroup, r.Resource, r.Subresource, r.Path), User: as, Code: hiddenCode(r.Lost)}
			if r.Line > 0 {
				x.Line = fmt.Sprint(r.Line)
			}
			if !slices.Contains(in.Policy.Hidden, x) {
				in.Policy.Hidden = append(in.Policy.Hidden, x)
			}
		}
		if x := (checks.Hidden{User: as}); (h.More > 0 || h.TooMany) && !slices.Contains(in.Policy.Hidden, x) {
			in.Policy.Hidden = append(in.Policy.Hidden, x)
		}
	}
	// What a node asks for as somebody else, it may ask for by a binding alone.
	harmlessOf := p.harmless
	bindings := checks.Inventory(in.Bindings, in.SystemNode, in.Keep)
	if nodesAct(bindings) {
		harmlessOf = func(string) coverage.Harmless { return nothingHarmless() }
	}
	users, groups := p.policy.Subjects()
	for _, more := range append([][]string{nil}, p.nodeGroups.named(groups)...) {
		note(p.policy.Hides(nodeUser(anyName, more...), harmlessOf(anyName)), strings.Join(more, ", "))
		for _, name := range users {
			if node, is := strings.CutPrefix(name, nodeid.UserPrefix); is {
				note(p.policy.Hides(nodeUser(node, more...), harmlessOf(node)), name)
			}
		}
	}
	if p.nodeGroups != nil && p.nodeGroups.full {
		note(coverage.Hidden{TooMany: true}, "")
	}
	for _, who := range p.state.impersonators() {
		// Operators such as those of GitOps may do everything, and policies leave out much of what service accounts read. None of them needs to act as a node.
		if (who.Name != anyName || slices.Contains(who.Groups, serviceaccount.AllServiceAccountsGroup)) && mayAll(who, in.Bindings) {
			continue
		}
		for _, like := range p.like(who, in.Bindings) {
			note(p.policy.HidesAsNode(like, p.harmless(anyName)), subjectOf(like))
		}
	}
	for _, b := range bindings {
		if b.Fate != checks.Goes {
			continue
		}
		harmless := notGiven(b.Rules)
		if checks.GivesImpersonation(b.Rules) {
			harmless = nothingHarmless()
		}
		for _, s := range b.Subjects {
			if s.ForNodes() {
				for _, who := range p.members(s) {
					note(p.policy.HidesAsNode(who, p.harmless(anyName)), subjectOf(who))
				}
				continue
			}
			p.hiddenOf(s, harmless, note)
			for _, who := range p.state.actorsAs(s) {
				for _, like := range p.like(who, in.Bindings) {
					p.hiddenOfUser(like, subjectOf(like), harmless, note)
				}
			}
		}
	}
}

// like are those whom the policy may tell apart among those who may act as others. Of a group that may do everything it is one member: an administrator needs to
// act as nobody, and policies that leave out some user are many.
func (p *proof) like(who *user.DefaultInfo, all []rbac.BindingInfo) []*user.DefaultInfo {
	if who.Name == anyName && mayAll(who, all) {
		return []*user.DefaultInfo{who}
	}
	return p.policy.Like(who, false)
}

// mayAll reports whether somebody may do everything by a binding of his own or of his group.
func mayAll(who *user.DefaultInfo, all []rbac.BindingInfo) bool {
	return slices.ContainsFunc(all, func(b rbac.BindingInfo) bool {
		return b.Binding.Kind == rbac.KindClusterRoleBinding && checks.GivesEverything(b.Rules) && slices.ContainsFunc(b.Subjects, func(s rbac.SubjectRef) bool {
			is := somebody(s)
			return is.Name == who.Name && (who.Name != anyName || is.Groups[0] == who.Groups[0])
		})
	})
}

// hiddenCode says how a request is hidden of which the policy loses that.
func hiddenCode(lost codes.Code) checks.Code {
	switch lost {
	case codes.PolicyLacksStart, codes.PolicyLateDecision:
		return checks.CodePolicyNoStart
	case codes.PolicyLacksPanic:
		return checks.CodePolicyNoPanic
	}
	return ""
}

// hiddenOf asks the policy for what it hides of what is given to a subject of a binding that goes. A user can be in any group that the policy names, and of
// a group anybody can be a member.
func (p *proof) hiddenOf(s rbac.SubjectRef, harmless coverage.Harmless, note func(coverage.Hidden, string)) {
	for _, who := range p.policy.Like(somebody(s), true) {
		p.hiddenOfUser(who, s.Name, harmless, note)
	}
}

// hiddenOfUser asks the policy for what it hides of the requests that matter, if the user makes them, under the name as.
func (p *proof) hiddenOfUser(who *user.DefaultInfo, as string, harmless coverage.Harmless, note func(coverage.Hidden, string)) {
	if slices.Contains(who.Groups, user.SystemPrivilegedGroup) || slices.Contains(who.Groups, user.NodesGroup) || who.Name == user.APIServerUser {
		return
	}
	note(p.policy.Hides(who, harmless), as)
}

// members are users who have what is given to nodes, the group or a user named as one, and are no nodes, as far as the policy may tell them from nodes: by a name
// or by another group. Kubernetes' own users and groups are none of them: they have bindings of their own.
func (p *proof) members(s rbac.SubjectRef) []*user.DefaultInfo {
	who := somebody(s)
	if s.Kind != rbacv1.GroupKind {
		return []*user.DefaultInfo{who}
	}
	return p.policy.Like(who, false)[1:]
}

// nothingHarmless is of requests that need a binding, whatever they are for.
func nothingHarmless() coverage.Harmless {
	return coverage.Harmless{Key: "by impersonation", Is: func(authorizer.Attributes) bool { return false }}
}

// nodesAct reports whether a binding that goes lets nodes act as others.
func nodesAct(bindings []checks.Inventoried) bool {
	return slices.ContainsFunc(bindings, func(b checks.Inventoried) bool {
		return b.Fate == checks.Goes && checks.GivesImpersonation(b.Rules) && slices.ContainsFunc(b.Subjects, rbac.SubjectRef.ForNodes)
	})
}

// notGiven says which requests rules do not give.
func notGiven(given []rbacv1.PolicyRule) coverage.Harmless {
	touches := checks.Touches(given)
	return coverage.Harmless{Key: fmt.Sprintf("not given by %q", given), Is: func(a authorizer.Attributes) bool {
		return !touches(a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetName(), a.GetPath())
	}}
}

// harmless says which requests a node may make by the authorizer's static rules, now and in the newest version: they need no binding, whoever makes
// them as that node.
func (p *proof) harmless(node string) coverage.Harmless {
	if p.statics == nil {
		judged, _, _ := strings.Cut(p.facts.Authorization.KubernetesVersion, " ") // without what it emulates
		var err error
		if p.statics, err = staticAuthorizers(judged); err != nil {
			return coverage.Harmless{}
		}
	}
	return p.statics.allow(node)
}

// statics are authorizers of several versions that know no object: what they allow, they allow by their static rules.
type statics struct {
	version string // and the newest one
	all     []*nodeauthz.Authorizer
}

// staticAuthorizers are those of the version and of the newest one; of a version that is not supported, those of the two nearest and of the newest one.
func staticAuthorizers(version string) (*statics, error) {
	out := &statics{version: version}
	ask := []string{version, ""}
	if minor, err := nodeauthz.Minor(version); err == nil {
		if nearest, second := nodeauthz.NearestMinors(minor); nearest != minor {
			ask = append(ask[1:], fmt.Sprintf("1.%d", nearest), fmt.Sprintf("1.%d", second))
		}
	}
	for _, v := range ask {
		features, err := nodeauthz.FeaturesFor(v)
		if err != nil {
			return nil, err
		}
		out.all = append(out.all, nodeauthz.NewAuthorizer(nodeauthz.NewGraph(), features, 0))
	}
	return out, nil
}

// allow says which requests the node may make in each of the versions, whoever makes them as that node.
func (s *statics) allow(node string) coverage.Harmless {
	as := nodeUser(node)
	return coverage.Harmless{Key: fmt.Sprintf("allowed to %q in %q", node, s.version), Is: func(a authorizer.Attributes) bool {
		own, ok := a.(*authorizer.AttributesRecord)
		if !ok {
			return false
		}
		asked := *own
		asked.User = as
		return !slices.ContainsFunc(s.all, func(auth *nodeauthz.Authorizer) bool {
			answer := auth.Decide(&asked, time.Time{})
			return !answer.Static || answer.Verdict != nodeauthz.Allow
		})
	}}
}

// impersonators are those who may act as nodes, by the state.
func (p *stateProof) impersonators() []*user.DefaultInfo {
	if p == nil {
		return nil
	}
	return p.Impersonators
}

// actorsAs are those who may act as the subject of a binding that goes, by the state.
func (p *stateProof) actorsAs(s rbac.SubjectRef) []*user.DefaultInfo {
	if p == nil {
		return nil
	}
	for i := range p.Actors {
		if p.Actors[i].As == s {
			return p.Actors[i].Who
		}
	}
	return nil
}

// actors are those who may act as a subject.
type actors struct {
	As  rbac.SubjectRef
	Who []*user.DefaultInfo
}

// impersonatorsOf are those who may act as nodes, as users named so, or in the group of nodes under any name, by bindings that are not for nodes; of a group
// somebody. Who might do so at some time counts, too: rights are what bindings gave until then.
func impersonatorsOf(s *cluster.State, all []rbac.BindingInfo, rights []rbac.Right, to time.Time) []*user.DefaultInfo {
	at := func(all []rbac.BindingInfo, to time.Time) []*user.DefaultInfo {
		return whoActs(s, all, to, func(acts acting) bool {
			return acts.as(rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup}) || acts("associated-node", "nodes", "", "*") ||
				slices.ContainsFunc(actable(s, to), func(name string) bool {
					return acts.as(rbac.SubjectRef{Kind: rbacv1.UserKind, Name: name}) || acts("arbitrary-node", "nodes", "", strings.TrimPrefix(name, nodeid.UserPrefix))
				})
		})
	}
	out := at(all, to)
	for i := range rights {
		r := &rights[i]
		if !r.Ended(to) || !checks.GivesImpersonation(r.Rules) {
			continue
		}
		for _, who := range at([]rbac.BindingInfo{r.BindingInfo}, r.To.Add(-time.Nanosecond)) {
			if !slices.ContainsFunc(out, func(o *user.DefaultInfo) bool { return o.Name == who.Name && slices.Equal(o.Groups, who.Groups) }) {
				out = append(out, who)
			}
		}
	}
	return out
}

// actorsOf are those who may act as subjects, who are no nodes, of bindings that go.
func actorsOf(s *cluster.State, all []rbac.BindingInfo, systemNode []rbacv1.PolicyRule, to time.Time) (out []actors) {
	for _, b := range checks.Inventory(all, systemNode, nil) {
		for _, subject := range b.Subjects {
			if b.Fate != checks.Goes || subject.ForNodes() || slices.ContainsFunc(out, func(a actors) bool { return a.As == subject }) {
				continue
			}
			out = append(out, actors{subject, whoActs(s, all, to, func(acts acting) bool { return acts.as(subject) })})
		}
	}
	return out
}

// anyNamespace asks whether somebody may act as a service account of some namespace.
const anyNamespace = "*"

// acting says whether somebody may act as a user, a group, a service account or a node: by a mode of constrained impersonation, or by the verb impersonate if
// mode is empty.
type acting func(mode, resource, namespace, name string) bool

// as says whether somebody may act as the subject of a binding; as a group, under some name. Whoever acts as a service account is in its groups.
func (a acting) as(s rbac.SubjectRef) bool {
	account := func(namespace, name string) bool {
		return a("", "serviceaccounts", namespace, name) || a("serviceaccount", "serviceaccounts", namespace, name)
	}
	switch s = s.Account(); s.Kind {
	case rbacv1.ServiceAccountKind:
		return account(s.Namespace, s.Name)
	case rbacv1.GroupKind:
		namespace, one := strings.CutPrefix(s.Name, serviceaccount.ServiceAccountGroupPrefix)
		if s.Name == serviceaccount.AllServiceAccountsGroup {
			namespace, one = anyNamespace, true
		}
		return a("", "groups", "", s.Name) || a("user-info", "groups", "", s.Name) || one && account(namespace, anyName)
	}
	return a("", "users", "", s.Name) || a("user-info", "users", "", s.Name)
}

// whoActs are the subjects of bindings for whom may is true, which is given what RBAC lets them act as; nodes, and those who need no binding, are left out.
func whoActs(s *cluster.State, all []rbac.BindingInfo, to time.Time, may func(acting) bool) (out []*user.DefaultInfo) {
	seen, accounts := map[rbac.SubjectRef]bool{}, someAccounts(all)
	for i := range all {
		for _, subject := range all[i].Subjects {
			if seen[subject] || subject.ForNodes() || subject.Kind == rbacv1.GroupKind && subject.Name == user.SystemPrivilegedGroup {
				continue
			}
			seen[subject] = true
			who := somebody(subject)
			if may(func(mode, resource, namespace, name string) bool {
				verb, group := "impersonate", ""
				if mode != "" {
					verb, group = "impersonate:"+mode, "authentication.k8s.io"
				}
				asked := [][2]string{{namespace, name}}
				if resource == "serviceaccounts" && name == anyName {
					asked = accounts
				}
				return slices.ContainsFunc(asked, func(of [2]string) bool {
					return (namespace == anyNamespace || namespace == of[0]) && s.RBAC.Authorize(&authorizer.AttributesRecord{
						User: who, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Namespace: of[0], Name: of[1], ResourceRequest: true,
					}, to).Allowed
				})
			}) {
				out = append(out, who)
			}
		}
	}
	return out
}

// someAccounts are namespaces and names of service accounts that tell whether somebody may act as any: those that bindings and their rules name, the bindings' subjects that are
// groups of a namespace, and any other one.
func someAccounts(all []rbac.BindingInfo) (out [][2]string) {
	namespaces, names := map[string]bool{anyName: true}, map[string]bool{anyName: true}
	for i := range all {
		b := &all[i]
		for _, s := range b.Subjects {
			if in, is := strings.CutPrefix(s.Name, serviceaccount.ServiceAccountGroupPrefix); is && s.Kind == rbacv1.GroupKind {
				namespaces[in] = true
			}
		}
		if !checks.GivesImpersonation(b.Rules) {
			continue
		}
		if b.Binding.Namespace != "" {
			namespaces[b.Binding.Namespace] = true
		}
		for j := range b.Rules {
			for _, name := range b.Rules[j].ResourceNames {
				names[name] = true
			}
		}
	}
	for _, in := range slices.Sorted(maps.Keys(namespaces)) {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = append(out, [2]string{in, name})
		}
	}
	return out
}

// actable are the users that are nodes: all that there are, and any.
func actable(s *cluster.State, to time.Time) []string {
	out := []string{nodeid.UserPrefix + anyName}
	for _, name := range s.Nodes.Names(to) {
		out = append(out, nodeid.UserPrefix+name)
	}
	return out
}

// somebody is a user whom a binding's subject means.
func somebody(s rbac.SubjectRef) *user.DefaultInfo {
	if s.Unauthenticated() {
		return &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}
	}
	switch s = s.Account(); s.Kind {
	case rbacv1.ServiceAccountKind:
		return &user.DefaultInfo{
			Name: serviceaccount.MakeUsername(s.Namespace, s.Name), Groups: append(serviceaccount.MakeGroupNames(s.Namespace), user.AllAuthenticated),
		}
	case rbacv1.GroupKind:
		groups := []string{s.Name}
		if strings.HasPrefix(s.Name, serviceaccount.ServiceAccountGroupPrefix) { // whoever is in it is in this one, too
			groups = append(groups, serviceaccount.AllServiceAccountsGroup)
		}
		return &user.DefaultInfo{Name: anyName, Groups: append(groups, user.AllAuthenticated)}
	}
	return &user.DefaultInfo{Name: s.Name, Groups: []string{user.AllAuthenticated}}
}

// subjectOf names the subject that somebody stands for.
func subjectOf(who *user.DefaultInfo) string {
	if who.Name == anyName {
		return who.Groups[0]
	}
	return who.Name
}

// nodeUser is a node, which may be in more groups than every node is.
func nodeUser(node string, more ...string) user.Info {
	return &user.DefaultInfo{Name: nodeid.UserPrefix + node, Groups: append([]string{user.NodesGroup, user.AllAuthenticated}, more...)}
}
