package checks

import (
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/rbac"
)

// Fate is what happens to a binding in the migration.
type Fate uint8

// The fates.
const (
	// Unrelated bindings are not about nodes.
	Unrelated Fate = iota
	// Goes says that the migration deletes the binding.
	Goes
	// Stays says that it is on the list of those that nodes need.
	Stays
	// Empty says that it has no subjects, so that it gives nobody anything. The API server makes that of system:node again.
	Empty
)

// String returns the fate in lower case.
func (f Fate) String() string {
	return [...]string{"unrelated", "goes", "stays", "empty", "unknown"}[min(f, Empty+1)]
}

// Why a binding has its fate.
const (
	WhyRole       Code = "role-system-node"
	WhyCopy       Code = "copy-of-system-node"
	WhySubject    Code = "subject-is-a-node"
	WhyBootstrap  Code = "subject-is-a-bootstrap-group"
	WhyNoSubjects Code = "no-subjects"
	WhyKubeadm    Code = "kubeadm"
	WhyK0s        Code = "k0s"
	WhyProvider   Code = "provider"
	WhyDocumented Code = "documented"
	WhyAudience   Code = "token-audience" // an image credential provider needs it
	// WhyBootstrapRole is of a binding of a ClusterRole that the API server makes for TLS bootstrapping.
	WhyBootstrapRole Code = "bootstrap-role"
	WhyKeep          Code = "keep"
	WhyRulesChanged  Code = "rules-changed" // it would stay, but its role gives more than is documented
)

// Inventoried is a binding and its fate.
type Inventoried struct {
	rbac.BindingInfo
	Fate Fate
	Why  Code
}

const (
	nodeRole        = "system:node"
	bootstrapGroup  = "system:bootstrappers"
	bootstrapPrefix = "system:bootstrappers:"
)

// Inventory says which bindings go, in their order; those that are not about nodes are left out. systemNode are the rules of the ClusterRole
// system:node; where they are nil, copies of it are not recognised.
func Inventory(all []rbac.BindingInfo, systemNode []rbacv1.PolicyRule, keep []rbac.BindingRef) []Inventoried {
	var out []Inventoried
	node := atomsOf(systemNode)
	for i := range all {
		if fate, why := fateOf(&all[i], node, keep); fate != Unrelated {
			out = append(out, Inventoried{all[i], fate, why})
		}
	}
	return out
}

// Fates returns what says the fate of bindings, as Inventory does.
func Fates(systemNode []rbacv1.PolicyRule, keep []rbac.BindingRef) func(*rbac.BindingInfo) Fate {
	node := atomsOf(systemNode)
	return func(b *rbac.BindingInfo) Fate {
		fate, _ := fateOf(b, node, keep)
		return fate
	}
}

// systemNodeRules are the rules of system:node as given, or as a binding of it has them.
func systemNodeRules(in *Input) []rbacv1.PolicyRule {
	if in.SystemNode != nil {
		return in.SystemNode
	}
	for i := range in.Bindings {
		if b := &in.Bindings[i]; b.Role == (rbac.RoleRef{Kind: rbac.KindClusterRole, Name: nodeRole}) && b.RoleExists {
			return b.Rules
		}
	}
	return nil
}

func fateOf(b *rbac.BindingInfo, node map[atom]bool, keep []rbac.BindingRef) (Fate, Code) {
	var why Code
	switch {
	case b.Role.Kind == rbac.KindClusterRole && b.Role.Name == nodeRole:
		why = WhyRole
	case b.RoleExists && len(node) > 0 && give(b.Rules, node):
		why = WhyCopy
	case slices.ContainsFunc(b.Subjects, rbac.SubjectRef.ForNodes):
		why = WhySubject
	case slices.ContainsFunc(b.Subjects, bootstraps):
		why = WhyBootstrap
	default:
		return Unrelated, ""
	}
	if len(b.Subjects) == 0 {
		return Empty, WhyNoSubjects
	}
	whole := why == WhyRole || why == WhyCopy
	if slices.Contains(keep, b.Binding) && !(whole && slices.Contains(b.Subjects, rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup})) {
		return Stays, WhyKeep
	}
	if whole {
		return Goes, why
	}
	if b.RoleExists && givesAudiencesOnly(atomsOf(b.Rules)) {
		return Stays, WhyAudience
	}
	s := stayingAs(b)
	switch {
	case s == nil:
		return Goes, why
	case b.RoleExists && !s.allows(b.Rules):
		return Goes, WhyRulesChanged
	}
	return Stays, s.why
}

// OfNodes reports whether the subject is a node, the group of nodes, or a group of machines that are about to become nodes.
func OfNodes(s rbac.SubjectRef) bool { return s.ForNodes() || bootstraps(s) }

// bootstraps reports whether the subject is a group of machines that are about to become nodes.
func bootstraps(s rbac.SubjectRef) bool {
	return s.Kind == rbacv1.GroupKind && (s.Name == bootstrapGroup || strings.HasPrefix(s.Name, bootstrapPrefix))
}

// NameOf names a binding as items do, such as "RoleBinding shop/readers".
func NameOf(b rbac.BindingRef) string {
	if b.Namespace != "" {
		return b.Kind + " " + b.Namespace + "/" + b.Name
	}
	return b.Kind + " " + b.Name
}

// Staying returns what says, by the results of the checks, why a binding stays; empty for one that does not, or is not known to.
func Staying(all []Result) func(rbac.BindingRef) Code {
	stays := map[string]Code{}
	for i := range all {
		if all[i].Check != nameInventoried {
			continue
		}
		for _, item := range all[i].Evidence {
			if item.Code == CodeBindingStays {
				stays[item.Object] = Code(item.Value)
			}
		}
	}
	return func(ref rbac.BindingRef) Code { return stays[NameOf(ref)] }
}

const nameInventoried = "bindings-inventoried"

func bindingsInventoried(in *Input) Result {
	p := proof{}
	systemNode := systemNodeRules(in)
	if !in.BindingsKnown {
		p.unproven(Item{Code: CodeBindingsUnknown})
		for _, b := range Inventory(in.Bindings, systemNode, in.Keep) {
			if b.Why == WhyKeep { // which the report asks for
				p.list(Item{Code: CodeBindingStays, Object: NameOf(b.Binding), Value: string(b.Why)})
			}
		}
		return p.done(NextGiveBindings)
	}
	if len(systemNode) == 0 {
		p.unproven(Item{Code: CodeRoleUnknown})
	}
	known := map[rbac.BindingRef]bool{}
	for i := range in.Bindings {
		known[in.Bindings[i].Binding] = true
	}
	p.count(int64(len(in.Bindings)), int64(len(in.Bindings)))
	fate, w := fates(in), windowOf(in)
	asked := askedOf(in, &w, systemNode)
	codes := map[Fate]Code{Goes: CodeBindingGoes, Stays: CodeBindingStays, Empty: CodeBindingEmpty}
	for _, b := range Inventory(in.Bindings, systemNode, in.Keep) {
		p.list(Item{Code: codes[b.Fate], Object: NameOf(b.Binding), Value: string(b.Why)})
		if b.Fate == Goes && !in.OthersJudged && slices.ContainsFunc(b.Subjects, func(s rbac.SubjectRef) bool { return !s.ForNodes() }) {
			p.unproven(Item{Code: CodeUsesUnjudged, Object: NameOf(b.Binding)})
		}
		for _, s := range b.Subjects {
			if b.Fate == Goes && slices.Contains(in.Silent, s) {
				p.unproven(Item{Code: CodeAccountSilent, Object: NameOf(b.Binding), Value: strings.TrimPrefix(s.Namespace+"/"+s.Name, "/")})
			}
		}
		if right := asideOnly(in.Bindings, fate, &b, asked); right != "" {
			p.unproven(Item{Code: CodeRightUnseen, Object: NameOf(b.Binding), Value: right})
		}
		if forJoining(in.Bindings, fate, &b) && !w.joined(in) {
			p.unproven(Item{Code: CodeNobodyJoined, Object: NameOf(b.Binding)})
		}
	}
	for _, g := range in.Grown {
		matters := g.Group == "" || !in.NodeGroupsKnown || slices.Contains(in.NodeGroups, g.Group)
		if f, _ := fate(g.Binding); f == Goes && matters && g.Since.After(w.from) {
			p.unproven(Item{Code: CodeBindingGrown, Object: NameOf(g.Binding), From: w.from, To: g.Since})
		}
	}
	told := map[rbac.BindingRef]bool{}
	for i := range in.Uses {
		if ref := in.Uses[i].Binding; ref != (rbac.BindingRef{}) && !known[ref] && !told[ref] {
			told[ref] = true
			p.count(1, 0)
			p.unproven(Item{Code: CodeBindingNotInState, Object: NameOf(ref), AuditIDs: in.Uses[i].AuditIDs})
		}
	}
	for _, ref := range in.NotInState {
		if !told[ref] {
			p.count(1, 0)
			p.unproven(Item{Code: CodeBindingNotInState, Object: NameOf(ref)})
		}
	}
	if in.UnjudgedUses > 0 {
		p.unproven(Item{Code: CodeUsesUnjudged, Count: in.UnjudgedUses})
	}
	return p.done(NextGiveBindings)
}

// asideOnly returns a right of a binding that goes which the log does not show in use, and which no binding that is there afterwards gives to all subjects.
// It is empty if there is none.
func asideOnly(all []rbac.BindingInfo, fate func(rbac.BindingRef) (Fate, bool), b *Inventoried, asked func(*rbac.BindingInfo) askedRights) string {
	if b.Fate != Goes {
		return ""
	}
	given, ask := asides(&b.BindingInfo), asked(&b.BindingInfo)
	if b.Why != WhyRole && b.Why != WhyCopy {
		maps.Copy(given, ask.ofAll)
	}
	lost := lostWith(all, fate, b, given)
	others := *b
	others.Subjects = slices.DeleteFunc(slices.Clone(b.Subjects), OfNodes)
	if len(others.Subjects) > 0 {
		maps.Copy(lost, lostWith(all, fate, &others, ask.ofOthers))
	}
	least := ""
	for a := range lost {
		if right := a.String(); least == "" || right < least {
			least = right
		}
	}
	return least
}

// askedRights are rights of a binding about which somebody may have asked in a review of access. Nodes have some of them by system:node as well, so that only
// other subjects lose these.
type askedRights struct{ ofAll, ofOthers map[atom]bool }

// askedOf returns what says which rights of a binding somebody may have asked about in a review of access. That may be any right: kube-rbac-proxy asks about what
// its configuration says. For nodes, what they have by system:node is not among them: with a copy of that, it is what the whole question is about.
func askedOf(in *Input, w *window, systemNode []rbacv1.PolicyRule) func(*rbac.BindingInfo) askedRights {
	node := atomsOf(systemNode)
	reviewed := in.Policy.OmitsReviews || in.Ledger != nil && !w.to.IsZero() && in.Ledger.Reviewed(w.from, w.to)
	return func(b *rbac.BindingInfo) (out askedRights) {
		if !reviewed {
			return out
		}
		given := atomsOf(b.Rules)
		if b.Binding.Kind != rbac.KindClusterRoleBinding { // a review may ask with a namespace about what is in none
			maps.DeleteFunc(given, func(a atom, _ bool) bool { return a.url != "" || a.askedWithout() })
		}
		out = askedRights{map[atom]bool{}, map[atom]bool{}}
		for a := range given {
			if beyond(map[atom]bool{a: true}, node) {
				out.ofAll[a] = true
			} else {
				out.ofOthers[a] = true
			}
		}
		return out
	}
}

// lostWith leaves of the rights, which it changes, only those that no binding which is there after this one gives to all of its subjects.
func lostWith(all []rbac.BindingInfo, fate func(rbac.BindingRef) (Fate, bool), b *Inventoried, given map[atom]bool) map[atom]bool {
	for i := range all {
		o := &all[i]
		if f, _ := fate(o.Binding); len(given) == 0 || f == Goes || o.Binding.Kind != rbac.KindClusterRoleBinding {
			continue
		}
		has := func(s rbac.SubjectRef) bool {
			return slices.ContainsFunc(o.Subjects, func(x rbac.SubjectRef) bool { return contains(x, s) })
		}
		if !slices.ContainsFunc(b.Subjects, func(s rbac.SubjectRef) bool { return !has(s) }) {
			left := atomsOf(o.Rules)
			maps.DeleteFunc(given, func(a atom, _ bool) bool { return !beyond(map[atom]bool{a: true}, left) })
		}
	}
	return given
}

// forJoining reports whether a binding that goes gives machines that join what no other binding does. Only a machine that joins shows who needs it.
func forJoining(all []rbac.BindingInfo, fate func(rbac.BindingRef) (Fate, bool), b *Inventoried) bool {
	return b.Fate == Goes && slices.ContainsFunc(b.Subjects, bootstraps) && len(lostWith(all, fate, b, atomsOf(b.Rules))) > 0
}

// joined reports whether a node joined in the window.
func (w *window) joined(in *Input) bool {
	if in.Ledger == nil {
		return false
	}
	for i := range in.Nodes {
		for h := w.first; h <= w.last; h++ {
			if x := in.Ledger.Node(in.Nodes[i].Name, h); x != nil && x.Joined != 0 {
				return true
			}
		}
	}
	return false
}

// anyOf tells the hours of the versions that let each node have what is no matter of its own.
func (p *proof) anyOf(in *Input, code Code, of func(*Version) bool) {
	var run *Item
	for i := range in.Versions {
		switch v := &in.Versions[i]; {
		case !of(v):
		case run != nil && !v.Hour.Start().After(run.To):
			run.To = v.Hour.End()
		default:
			if run != nil {
				p.unproven(*run)
			}
			run = &Item{Code: code, Value: v.Features, From: v.Hour.Start(), To: v.Hour.End()}
		}
	}
	if run != nil {
		p.unproven(*run)
	}
}

func noExcessRights(in *Input) Result {
	p := proof{}
	if !in.BindingsKnown {
		p.unproven(Item{Code: CodeBindingsUnknown}) // what those that are known give is given all the same
	}
	if !in.NodeGroupsKnown {
		p.unproven(Item{Code: CodeNotLookedAt})
	}
	if slices.Contains(in.NodeGroups, user.SystemPrivilegedGroup) {
		p.fail(Item{Code: CodeDangerousGroup, Object: user.SystemPrivilegedGroup})
	}
	p.anyOf(in, CodeAnyPod, func(v *Version) bool { return v.AnyPod })
	p.anyOf(in, CodeAnyAudience, func(v *Version) bool { return v.AnyAudience })
	for _, m := range in.Modes {
		item := Item{Code: CodeOtherAuthorizer, Server: m.Server, Value: m.Order}
		switch all := m.authorizers(); {
		case slices.Contains(all, "AlwaysAllow"):
			p.fail(item)
		case slices.ContainsFunc(all, unknown):
			p.unproven(item)
		}
	}
	everybody := map[atom]bool{}
	for i := range in.Bindings {
		if b := &in.Bindings[i]; b.RoleExists && b.Binding.Kind == rbac.KindClusterRoleBinding && slices.Contains(b.Subjects, authenticated) {
			for a := range atomsOf(b.Rules) {
				everybody[a] = true
			}
		}
	}
	p.count(int64(len(in.Bindings)), int64(len(in.Bindings)))
	systemNode := atomsOf(systemNodeRules(in))
	for i := range in.Bindings {
		b := &in.Bindings[i]
		nodes, all := holds(in, b)
		if !nodes && !all {
			continue
		}
		excess := atomsOf(b.Rules)
		maps.DeleteFunc(excess, func(a atom, _ bool) bool { return a.audience() })
		item := Item{Object: NameOf(b.Binding), Value: b.Role.Name}
		fate, why := fateOf(b, systemNode, in.Keep)
		// Who gives everybody something in one namespace publishes that namespace, as kube-public is.
		everywhere := b.Binding.Kind == rbac.KindClusterRoleBinding
		switch {
		case dangerous(b), all && PowersOf(b).Right != "", all && everywhere && in.ofAnother(b), why == WhyKeep && in.beyondKept(b):
			item.Code = CodeDangerousRight
			p.fail(item)
		case nodes && (fate != Stays || why != WhyKeep && staysInExcess(b)) && beyond(excess, everybody):
			item.Code = CodeExcessRight
			p.fail(item)
		case fate == Stays:
			item.Code = CodeBindingStays
			p.list(item)
		}
	}
	for i := range in.Ended {
		e := &in.Ended[i]
		if nodes, _ := holds(in, &e.BindingInfo); nodes {
			p.fail(Item{Code: CodeEndedRight, Object: NameOf(e.Binding), Value: e.Right, From: e.From, To: e.To})
		}
	}
	next := NextTakeRights
	switch {
	case stateOf(p.r.Evidence) == Unproven && !in.BindingsKnown:
		next = NextGiveBindings
	case p.onlyOpen(CodeOtherAuthorizer):
		next = NextLookAtOthers
	}
	return p.done(next)
}

var authenticated = rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.AllAuthenticated}

// holds reports whether nodes have what the binding gives, as nodes or by another group of theirs, and whether they have it as everybody does.
func holds(in *Input, b *rbac.BindingInfo) (nodes, all bool) {
	for _, s := range b.Subjects {
		switch {
		case s.Ambient():
			all = true
		case s.ForNodes(), s.Kind == rbacv1.GroupKind && slices.Contains(in.NodeGroups, s.Name):
			nodes = true
		}
	}
	return nodes, all
}
