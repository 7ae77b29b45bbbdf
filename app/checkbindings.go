package app

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// bindingBook finds what needs a binding that goes and is no finding of a rule: requests of bootstrap groups, service accounts and users to whom
// system:node, or a copy of it, is bound; and what nodes have by such a binding as members of another group.
type bindingBook struct {
	store *rbac.Store
	// kept are to stay: a request that one of them allows, too, does not need those that go.
	kept []rbac.BindingRef
	// goes are all bindings of the state that would go if none were kept, at whatever time they were there; subjects are those of their subjects that are no nodes.
	goes     map[rbac.BindingRef]bool
	subjects map[rbac.SubjectRef]bool
	// last are those that go as the state has them in the end.
	last map[rbac.BindingRef]bool
	// went are the times in which those that would go gave anything and would have gone.
	went map[rbac.BindingRef][]checks.Span
	// rights are what those that go ever gave, each as a request.
	rights   []authorizer.AttributesRecord
	uses     map[bindingUse]*checks.Use
	unjudged int64
	// unreasoned is the latest request that an authorizer allowed which gives no reasons.
	unreasoned checks.Unreasoned
	// reasons are the latest ones of RBAC that the log gives; named are the bindings in them that the state did not have, each with what it gave to whom.
	reasons map[string]bool
	named   map[rbac.BindingRef]rbac.Grant
	ever    map[rbac.BindingRef]bool // all bindings that the state has, or had
	members memberBook
	silent  silentBook
}

type bindingUse struct {
	binding                       rbac.BindingRef
	user, client, request, object string
	went, impersonation           bool
	unlimited, justGone           bool
	given, ended, perhaps         bool
	outcome                       checks.Outcome
}

const (
	maxReasons     = 10_000
	maxBindingUses = 20_000
	maxUseID       = 5
)

// endOfTime is later than all of a state.
func endOfTime() time.Time { return time.Unix(1<<32, 0) }

func newBindingBook(s *rbac.Store, kept []rbac.BindingRef) *bindingBook {
	b := &bindingBook{
		store: s, kept: kept, goes: map[rbac.BindingRef]bool{}, subjects: map[rbac.SubjectRef]bool{}, went: map[rbac.BindingRef][]checks.Span{}, uses: map[bindingUse]*checks.Use{},
		reasons: map[string]bool{}, named: map[rbac.BindingRef]rbac.Grant{}, ever: map[rbac.BindingRef]bool{}, last: map[rbac.BindingRef]bool{},
		members: memberBook{groups: map[string]*memberGroups{}, uses: map[memberUse]*memberRequest{}},
	}
	all := slices.Collect(s.BindingsDuring(time.Unix(0, 0), endOfTime()))
	earlier := len(all)
	all = slices.AppendSeq(all, s.Bindings(endOfTime()))
	for i := range all {
		b.ever[all[i].Binding] = true
	}
	systemNode, _ := s.ClusterRoleRules(nodeRole, endOfTime())
	fate, fateAtLast := checks.Fates(systemNode, nil), checks.Fates(systemNode, kept)
	for i := range all {
		x := &all[i]
		if fate(x) != checks.Goes {
			continue
		}
		b.goes[x.Binding] = true
		if i >= earlier && fateAtLast(x) == checks.Goes {
			b.last[x.Binding] = true
		}
		for _, s := range x.Subjects {
			if !s.ForNodes() {
				b.subjects[s] = true
			}
		}
	}
	var rights []rbacv1.PolicyRule
	for r := range s.RightsDuring(time.Time{}, time.Time{}) {
		if fate(&r.BindingInfo) == checks.Goes {
			b.went[r.Binding] = append(b.went[r.Binding], checks.Span{From: r.From, To: r.To})
			rights = append(rights, r.Rules...)
		}
	}
	b.rights = slices.Collect(checks.Rights(rights))
	b.silent = newSilentBook(b.subjects)
	return b
}

const nodeRole = "system:node"

// unknown is an *UnknownError for a binding that is to stay and was never there, as far as the state knows by now; nil if there is none.
func unknown(kept []rbac.BindingRef, s *rbac.Store) error {
	if len(kept) == 0 {
		return nil
	}
	known := map[string]bool{}
	for x := range s.BindingsDuring(time.Unix(0, 0), endOfTime()) {
		known[x.Binding.String()] = true
	}
	for _, ref := range kept {
		if name := ref.String(); !known[name] {
			return &UnknownError{What: "binding", Name: name, Where: "the state", Known: slices.Sorted(maps.Keys(known))}
		}
	}
	return nil
}

// unkeepable are the bindings that are to stay and will be deleted all the same, in order.
func unkeepable(in *checks.Input) (out []string) {
	for _, b := range checks.Inventory(in.Bindings, in.SystemNode, in.Keep) {
		if b.Fate == checks.Goes && slices.Contains(in.Keep, b.Binding) {
			out = append(out, b.Binding.String())
		}
	}
	return out
}

// others are those whose requests have to be read in addition to those of nodes; nil for nobody.
func (b *bindingBook) others() *audit.Subjects {
	var out *audit.Subjects
	for s := range b.subjects {
		if out == nil {
			out = &audit.Subjects{}
		}
		switch s.Kind {
		case rbacv1.UserKind:
			out.Wants([]string{s.Name}, nil)
		case rbacv1.ServiceAccountKind:
			out.Wants([]string{serviceaccount.MakeUsername(s.Namespace, s.Name)}, nil)
		case rbacv1.GroupKind:
			out.Wants(nil, []string{s.Name})
		}
	}
	return out
}

// see takes in any event, for the binding that it names, and for who makes it.
func (b *bindingBook) see(ev *audit.Event) {
	b.silent.see(ev)
	if !strings.HasPrefix(ev.Reason, "RBAC:") || ev.Decision != "allow" || b.reasons[ev.Reason] || !b.store.Covers(ev.RequestReceived) {
		return
	}
	reason := strings.Clone(ev.Reason)
	if len(b.reasons) >= maxReasons {
		clear(b.reasons) // which only saves reading them again
	}
	b.reasons[reason] = true
	g, ok := rbac.ParseReason(reason)
	if _, known := b.named[g.Binding]; !ok || known || b.ever[g.Binding] {
		return
	}
	if len(b.named) >= maxNamed {
		b.unjudged++
		return
	}
	b.named[g.Binding] = g
}

// notInState are the bindings that the log names, that the state never had and that would go, or may, in order. Of a role that the state does not have
// either nobody knows whether it is a copy of system:node, unless it is one of the API server's own.
func (b *bindingBook) notInState() []rbac.BindingRef {
	if b == nil || len(b.named) == 0 {
		return nil
	}
	for x := range b.store.BindingsDuring(time.Unix(0, 0), endOfTime()) {
		delete(b.named, x.Binding)
	}
	systemNode, _ := b.store.ClusterRoleRules(nodeRole, endOfTime())
	var out []rbac.BindingRef
	for ref, g := range b.named {
		x := rbac.BindingInfo{Binding: ref, Role: g.Role, Subjects: []rbac.SubjectRef{g.Subject}}
		if g.Role.Kind == rbac.KindClusterRole {
			x.Rules, x.RoleExists = b.store.ClusterRoleRules(g.Role.Name, endOfTime())
		}
		all := checks.Inventory([]rbac.BindingInfo{x}, systemNode, nil)
		goes := len(all) > 0 && all[0].Fate == checks.Goes
		if goes || len(all) == 0 && g.Role.Kind == rbac.KindClusterRole && !x.RoleExists && !strings.HasPrefix(g.Role.Name, "system:") {
			out = append(out, ref)
		}
	}
	slices.SortFunc(out, func(x, y rbac.BindingRef) int {
		return cmp.Or(strings.Compare(x.Kind, y.Kind), strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name))
	})
	return out
}

// holdsBindings reports whether the state holds bindings at all, as far as is known: API servers make the roles and bindings of these names, and make
// them again when they start. A state that has some of the roles and none of their bindings lacks bindings,
// and so does one that has many of these ClusterRoleBindings and no RoleBinding, or several RoleBindings of theirs and none of the Roles that they name.
func holdsBindings(s *rbac.Store, all []rbac.BindingInfo, t time.Time) bool {
	const many = 20
	const several = 3
	made, local, toRoles, roleless := 0, false, 0, true
	for i := range all {
		ref := &all[i].Binding
		local = local || ref.Kind != rbac.KindClusterRoleBinding
		if ref.Kind == rbac.KindClusterRoleBinding && strings.HasPrefix(ref.Name, "system:") {
			made++
		}
		if all[i].Role.Kind == rbac.KindRole && strings.HasPrefix(ref.Name, "system:") {
			toRoles++
			roleless = roleless && !all[i].RoleExists
		}
	}
	if made >= many && !local || toRoles >= several && roleless {
		return false
	}
	roles := 0
	for _, name := range []string{
		"cluster-admin", "system:basic-user", "system:discovery", "system:kube-controller-manager", "system:kube-dns", "system:kube-scheduler", "system:monitoring",
		"system:node-proxier", "system:public-info-viewer", "system:service-account-issuer-discovery", "system:volume-scheduler",
	} {
		if slices.ContainsFunc(all, func(b rbac.BindingInfo) bool {
			return b.Binding == rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}
		}) {
			return true
		}
		if _, there := s.ClusterRoleRules(name, t); there {
			roles++
		}
	}
	return roles < 2
}

// covers reports whether the requests of all subjects of bindings that go were judged.
func (b *bindingBook) covers(all []checks.Inventoried) bool {
	for i := range all {
		x := &all[i]
		if x.Fate != checks.Goes {
			continue
		}
		if b == nil || !b.goes[x.Binding] || slices.ContainsFunc(x.Subjects, func(s rbac.SubjectRef) bool { return !s.ForNodes() && !b.subjects[s] }) {
			return false
		}
	}
	return true
}

// add takes in a judgement.
func (b *bindingBook) add(j *pipeline.Judgement) {
	if b == nil {
		return
	}
	b.reasonless(j)
	if len(b.goes) == 0 {
		return
	}
	b.members.see(j.Event, j.Time)
	privileged := func(u *audit.User) bool { return slices.Contains(u.Groups, user.SystemPrivilegedGroup) } // and so needs no binding
	excess := slices.ContainsFunc(j.Findings, func(f pipeline.Finding) bool { return f.Rule.Name == rules.ExcessAccess })
	kept := j.HasGrant && slices.Contains(b.kept, j.Grant.Binding)
	if ev := j.Event; ev.IsImpersonated && (j.Impersonator == "" || !excess || kept) && !privileged(&ev.User) {
		b.impersonates(j)
	}
	if privileged(j.Event.Effective()) || !j.Allowed && !j.Open && !j.Unasked() {
		return
	}
	if also := j.AlsoAsked(); also != nil && j.Allowed && !j.NodeAllows(also) {
		b.ask(j, also, j.Event.Effective(), false, "", rbac.BindingRef{})
	}
	if j.IsNode && excess {
		if j.HasGrant {
			b.askLast(j, j.Attrs, j.Event.Effective(), false, j.Grant.Binding)
		}
		if kept {
			b.gives(j)
		}
		return
	}
	b.gives(j)
	if j.IsNode && !j.NodeDenies() {
		if is, _ := j.Unlimited(); is {
			b.ask(j, j.Attrs, j.Event.Effective(), false, "", rbac.BindingRef{})
		}
		return
	}
	o := &j.Observed
	decision := o.Decision
	switch {
	case decision == "" || o.HasGrant:
	case o.Authorizer == rules.ByRBAC:
		decision = "" // its reason was cut: the state says by which binding
	default:
		return // another authorizer
	}
	b.ask(j, j.Attrs, j.Event.Effective(), false, decision, o.Grant.Binding)
}

// impersonates asks about what a request to act as somebody needs, and about groups that the client may have asked for.
func (b *bindingBook) impersonates(j *pipeline.Judgement) {
	ev := j.Event
	for _, a := range pipeline.Impersonation(b.store, ev, j.Attrs, j.Time, func(a authorizer.Attributes) bool { return b.without(a, j.Time) }) {
		b.ask(j, a, &ev.User, true, "", rbac.BindingRef{})
	}
	for _, a := range pipeline.MayImpersonate(ev) {
		for _, at := range []struct {
			time time.Time
			but  map[rbac.BindingRef]bool
		}{{j.Time, b.goes}, {endOfTime(), b.last}} {
			if by, needed := b.needed(a, at.time, at.but); needed {
				b.note(j, a, &ev.User, bindingUse{binding: by, impersonation: true, perhaps: true})
				break
			}
		}
	}
}

// reasonless notes a request of which nobody knows which authorizer allowed it: one without a reason of a node that the Node authorizer never allows, or of a
// service account, to which RBAC would have given one; or one that RBAC allows, with a reason that is not RBAC's.
func (b *bindingBook) reasonless(j *pipeline.Judgement) {
	if !j.Time.After(b.unreasoned.At) || !rules.Reasonless(&j.Request) && !audit.WithoutReason(j.Event) && !b.overtaken(j) {
		return
	}
	a := j.Attrs
	b.unreasoned = checks.Unreasoned{
		At: j.Time, User: strings.Clone(j.Event.Effective().Username), AuditID: strings.Clone(j.Event.AuditID),
		Request: strings.Clone(requestKind(a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Path)),
	}
}

// overtaken reports whether another authorizer than Node and RBAC is said to have allowed what RBAC allows, and has for as long as an API server may take to
// follow.
func (b *bindingBook) overtaken(j *pipeline.Judgement) bool {
	o := &j.Observed
	return o.Decision == "allow" && o.Reason != "" && o.Authorizer == rules.ByOther && !j.Event.Derived &&
		!slices.Contains(j.Event.Effective().Groups, user.SystemPrivilegedGroup) &&
		b.store.Authorize(j.Attrs, j.Time).Allowed && b.store.Authorize(j.Attrs, j.Time.Add(-bindingLag)).Allowed
}

// ask notes a request that RBAC does not allow without the bindings that go. by is the one that the API server named, if it gave a decision.
func (b *bindingBook) ask(j *pipeline.Judgement, a authorizer.Attributes, who *audit.User, impersonation bool, decision string, by rbac.BindingRef) {
	if decision != "" && !b.goes[by] || b.without(a, j.Time) {
		b.askLast(j, a, who, impersonation, rbac.BindingRef{})
		return
	}
	if decision == "" {
		with := b.store.Authorize(a, j.Time)
		switch {
		case with.Allowed:
			by = with.Grant.Binding
		case !with.Known:
			b.unjudged++
			return
		default:
			return // another authorizer
		}
	}
	by = pipeline.KeptGrant(b.store, b.kept, a, j.Time, rbac.Grant{Binding: by}).Binding
	b.note(j, a, who, bindingUse{binding: by, impersonation: impersonation})
	b.askLast(j, a, who, impersonation, by)
}

// askLast notes a request for which the client did not need the binding that goes which alone allows it in the end, for what allowed it has ended since, or gives
// less. by is the one that it needed instead: one that goes in the end says the same.
func (b *bindingBook) askLast(j *pipeline.Judgement, a authorizer.Attributes, who *audit.User, impersonation bool, by rbac.BindingRef) {
	if b.last[by] {
		return
	}
	if d := b.decide(a, endOfTime(), b.last); d.Allowed {
		b.member(j, a, who, impersonation, &d.Grant.Subject)
		return
	}
	if d := b.store.Authorize(a, endOfTime()); d.Allowed {
		b.note(j, a, who, bindingUse{binding: d.Grant.Binding, impersonation: impersonation, ended: true})
	}
}

// needed reports whether RBAC allows it by those bindings alone, and by which.
func (b *bindingBook) needed(a authorizer.Attributes, t time.Time, of map[rbac.BindingRef]bool) (by rbac.BindingRef, needed bool) {
	if b.allows(a, t, of) {
		return by, false
	}
	d := b.store.Authorize(a, t)
	return pipeline.KeptGrant(b.store, b.kept, a, t, d.Grant).Binding, d.Allowed
}

// without reports whether RBAC allows it without the bindings that go.
func (b *bindingBook) without(a authorizer.Attributes, t time.Time) bool {
	return b.allows(a, t, b.goes)
}

// allows reports whether RBAC allows it by others than those bindings.
func (b *bindingBook) allows(a authorizer.Attributes, t time.Time, but map[rbac.BindingRef]bool) bool {
	return b.decide(a, t, but).Allowed
}

func (b *bindingBook) decide(a authorizer.Attributes, t time.Time, but map[rbac.BindingRef]bool) rbac.Decision {
	return b.store.AuthorizeWithout(a, t, func(g rbac.Grant) bool { return but[g.Binding] })
}

// note counts a request under its key, of which the binding and what it was needed for are given.
func (b *bindingBook) note(j *pipeline.Judgement, a authorizer.Attributes, who *audit.User, k bindingUse) {
	k = b.key(j, a, who, k)
	u := b.uses[k]
	if u == nil {
		if len(b.uses) >= maxBindingUses {
			b.unjudged++
			return
		}
		k.clone()
		u = k.use(j, a)
		b.uses[k] = u
	}
	addUse(u, j)
}

// key completes the key of a request.
func (b *bindingBook) key(j *pipeline.Judgement, a authorizer.Attributes, who *audit.User, k bindingUse) bindingUse {
	k.went = slices.ContainsFunc(b.went[k.binding], func(s checks.Span) bool { return s.Holds(j.Time) })
	k.user, k.client, k.outcome = who.Username, rules.Product(j.Event.UserAgent), report.AnswerOf(j)
	k.request, k.object = requestKind(a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetPath()), objectOf(a.GetNamespace(), a.GetName())
	if a == authorizer.Attributes(j.Attrs) && !k.given {
		k.unlimited, k.justGone = j.Unlimited()
		k.justGone = k.justGone || j.JustGone
	}
	return k
}

// clone lets the key outlive the event.
func (k *bindingUse) clone() {
	for _, s := range []*string{&k.user, &k.client, &k.request, &k.object, &k.binding.Kind, &k.binding.Namespace, &k.binding.Name} {
		*s = strings.Clone(*s)
	}
}

// use is one of the key, without a request so far.
func (k *bindingUse) use(j *pipeline.Judgement, a authorizer.Attributes) *checks.Use {
	u := &checks.Use{
		Binding: k.binding, Went: k.went, User: k.user, Client: k.client, Request: k.request, Object: k.object, Impersonation: k.impersonation, Outcome: k.outcome,
		Proxy: a.GetSubresource() == "proxy", First: j.Time, Unlimited: k.unlimited, JustGone: k.justGone, Given: k.given, Ended: k.ended, Perhaps: k.perhaps,
	}
	if j.IsNode && !k.impersonation {
		u.Node = strings.Clone(j.Node)
	}
	return u
}

func addUse(u *checks.Use, j *pipeline.Judgement) {
	u.Count++
	if j.Time.Before(u.First) {
		u.First = j.Time
	}
	if j.Time.After(u.Last) {
		u.Last = j.Time
	}
	if len(u.AuditIDs) < maxUseID {
		u.AuditIDs = append(u.AuditIDs, strings.Clone(j.Event.AuditID))
	}
}

// list is all of them in a fixed order.
func (b *bindingBook) list() []checks.Use {
	if b == nil {
		return nil
	}
	out := make([]checks.Use, 0, len(b.uses))
	for _, u := range b.uses {
		out = append(out, *u)
	}
	return ordered(b.left(out))
}

// ordered puts uses in a fixed order.
func ordered(all []checks.Use) []checks.Use {
	slices.SortFunc(all, func(x, y checks.Use) int {
		return cmp.Or(strings.Compare(x.Binding.Kind, y.Binding.Kind), strings.Compare(x.Binding.Namespace, y.Binding.Namespace),
			strings.Compare(x.Binding.Name, y.Binding.Name), strings.Compare(x.User, y.User), strings.Compare(x.Client, y.Client),
			strings.Compare(x.Request, y.Request), strings.Compare(x.Object, y.Object), cmp.Compare(x.Outcome, y.Outcome), x.First.Compare(y.First))
	})
	return all
}
