package coverage

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
)

// AnyOther stands in a [HiddenRequest] for everything that no rule of the policy names.
const AnyOther = "*"

// HiddenRequest is a kind of request that a policy keeps out of the log, or of which it keeps the decision out.
type HiddenRequest struct {
	// Rule is the index of the deciding rule, -1 where no rule matches; Line is its line in the file, 0 where not known.
	Rule, Line int
	// Lost is PolicyLacks, PolicyLacksDecision, PolicyLacksStart or PolicyLacksPanic of package codes.
	Lost codes.Code
	// Verb and what it is about, AnyOther where the policy does not name it. Path is set for requests of no resource.
	Verb, APIGroup, Resource, Subresource, Namespace, Name, Path string
}

// Hidden is what [Policy.Hides] found.
type Hidden struct {
	// Requests are at most MaxHidden of each rule; More counts the others. Those that are hidden only while they last, and those only if the API server
	// panics, are one for each rule.
	Requests []HiddenRequest
	More     int
	// TooMany says that a rule names too much to look at all of it: then it may hide more.
	TooMany bool
}

// MaxHidden bounds how many kinds of request of one rule are listed.
const MaxHidden = 8

// maxCases bounds the kinds of request that are tried for one rule.
const maxCases = 200_000

// Harmless says which requests do not matter. Of two with the same key, Is must say the same, whoever asks. The zero value is for none.
type Harmless struct {
	Key string
	Is  func(authorizer.Attributes) bool
}

// Hides returns which requests of the user the policy keeps out of the log, or their decision. It is complete: it tries each rule that logs less
// with everything that the rule can match, distinguished by all that any rule of the policy names, and one value for all the rest. Of a policy that
// hides nothing that the user can do, nothing is returned. What is returned may not be changed: the policy remembers it.
func (p *Policy) Hides(who user.Info, harmless Harmless) Hidden {
	k := hidesKey{matching: p.matching(who), harmless: harmless.Key}
	out, known := p.hides.get(k)
	if !known {
		out = p.hidesMatching(k.matching, who, harmless.Is)
		p.hides.put(k, out)
	}
	return out
}

func (p *Policy) hidesMatching(matching string, who user.Info, harmless func(authorizer.Attributes) bool) (out Hidden) {
	words := p.vocabulary()
	whole := false // a rule before took everything
	for i := range p.rules {
		r := &p.rules[i]
		if whole || matching[i] == '-' {
			continue
		}
		if losesSome(r) && !p.shadowed(i, matching) {
			p.try(&out, i, words.within(r), who, harmless)
			p.tryLong(&out, i, words, who, harmless)
		}
		whole = len(r.Verbs)+len(r.Resources)+len(r.Namespaces)+len(r.NonResourceURLs) == 0
	}
	if !whole {
		p.try(&out, -1, words.within(&internal.PolicyRule{}), who, harmless)
	}
	return out
}

// matching has a + for each rule that is about the user, and a - for each other rule. The policy decides alike on all users of whom it is the same.
func (p *Policy) matching(who user.Info) string {
	out := make([]byte, len(p.rules))
	for i := range p.rules {
		out[i] = '-'
		if matchesUser(&p.rules[i], who) {
			out[i] = '+'
		}
	}
	return string(out)
}

type hidesKey struct{ matching, harmless string }

// maxHides bounds how many answers a policy remembers.
const maxHides = 1000

// hidesBook remembers answers of Hides, each of which may take a hundred thousand questions. It is safe for concurrent use.
type hidesBook struct {
	mu sync.Mutex
	of map[hidesKey]Hidden
}

func (b *hidesBook) get(k hidesKey) (Hidden, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	h, known := b.of[k]
	return h, known
}

func (b *hidesBook) put(k hidesKey, h Hidden) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of == nil || len(b.of) >= maxHides {
		b.of = map[hidesKey]Hidden{}
	}
	b.of[k] = h
}

// HidesAsNode returns what the policy hides of the requests that kubelets, and programs with their credentials, are known to make, if the user, who is no
// node, makes them as one. An API server evaluates its policy before it looks whom somebody acts as. Not everything that can be asked for is tried:
// that is for the users that are nodes.
func (p *Policy) HidesAsNode(who user.Info, harmless Harmless) Hidden {
	var out Hidden
	var seldom rare
	_, spaces, all := p.named()
	out.TooMany = !all
	seen := map[HiddenRequest]bool{}
	ask(nodeQuestions(), []user.Info{who}, append([]string{anyNamespace, systemNamespace}, spaces...), func(a *asked) {
		rule, lost := p.decidedInSome(&a.attrs)
		if lost == "" || a.minor || harmless.Is != nil && harmless.Is(&a.attrs) {
			return
		}
		h := p.hiddenRequest(rule, lost, &a.attrs)
		h.Namespace, h.Name = "", ""
		switch {
		case seen[h]:
		case !always(lost):
			seldom.add(h)
		default:
			seen[h] = true
			out.Requests = append(out.Requests, h)
		}
	})
	out.Requests = append(out.Requests, seldom.all...)
	return out
}

// shadowed is whether an earlier rule takes all requests of the user that this one matches.
func (p *Policy) shadowed(rule int, matching string) bool {
	r := &p.rules[rule]
	for i := range rule {
		before := &p.rules[i]
		if matching[i] == '+' && slices.Equal(before.Verbs, r.Verbs) && slices.Equal(before.Namespaces, r.Namespaces) &&
			slices.Equal(before.NonResourceURLs, r.NonResourceURLs) && reflect.DeepEqual(before.Resources, r.Resources) {
			return true
		}
	}
	return false
}

func matchesUser(r *internal.PolicyRule, who user.Info) bool {
	if len(r.Users) > 0 && !slices.Contains(r.Users, who.GetName()) {
		return false
	}
	return len(r.UserGroups) == 0 || slices.ContainsFunc(who.GetGroups(), func(g string) bool { return slices.Contains(r.UserGroups, g) })
}

// vocabulary is all that a policy names, by what it is; each list ends with AnyOther.
type vocabulary struct {
	verbs, groups, resources, subresources, namespaces, names, paths []string
}

func (p *Policy) vocabulary() *vocabulary {
	v := &vocabulary{namespaces: []string{""}, subresources: []string{""}, names: []string{""}}
	add := func(list *[]string, words ...string) {
		for _, w := range words {
			if !slices.Contains(*list, w) {
				*list = append(*list, w)
			}
		}
	}
	for i := range p.rules {
		r := &p.rules[i]
		add(&v.verbs, r.Verbs...)
		add(&v.namespaces, r.Namespaces...)
		for _, spec := range r.NonResourceURLs {
			// The path itself, or one below it.
			add(&v.paths, strings.ReplaceAll(spec, "*", ""), strings.ReplaceAll(spec, "*", AnyName))
		}
		for _, g := range r.Resources {
			add(&v.groups, g.Group)
			add(&v.names, g.ResourceNames...)
			for _, res := range g.Resources {
				resource, sub, _ := strings.Cut(res, "/")
				add(&v.resources, resource)
				add(&v.subresources, sub)
			}
		}
	}
	if slices.ContainsFunc(p.rules, func(r internal.PolicyRule) bool { return slices.Contains(r.OmitStages, internal.StageResponseStarted) }) {
		add(&v.verbs, longVerb) // a rule treats it apart, whether it names it or not
	}
	for _, list := range []*[]string{&v.verbs, &v.groups, &v.resources, &v.subresources, &v.namespaces, &v.names, &v.paths} {
		*list = append(slices.DeleteFunc(*list, func(w string) bool { return w == AnyOther }), AnyOther)
	}
	return v
}

// within is what of the vocabulary the rule can match, as far as it is cheap to tell: the evaluator decides.
func (v *vocabulary) within(r *internal.PolicyRule) *vocabulary {
	out := *v
	named := func(words []string) []string {
		return slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == AnyOther }) // see verbatim
	}
	if len(r.Verbs) > 0 {
		out.verbs = named(r.Verbs)
	}
	if len(r.Namespaces) > 0 {
		out.namespaces = named(r.Namespaces)
	}
	if len(r.NonResourceURLs) > 0 && len(r.Resources)+len(r.Namespaces) == 0 {
		out.groups = nil // none but paths
	}
	if len(r.Resources)+len(r.Namespaces) > 0 {
		out.paths = nil
	}
	if len(r.Resources) == 0 {
		return &out
	}
	out.groups, out.resources, out.subresources, out.names = nil, nil, nil, nil
	add := func(list *[]string, all []string, words ...string) {
		if len(words) == 0 || slices.Contains(words, "*") {
			words = all
		}
		for _, w := range words {
			if !slices.Contains(*list, w) {
				*list = append(*list, w)
			}
		}
	}
	for _, g := range r.Resources {
		add(&out.groups, v.groups, g.Group)
		add(&out.names, v.names, g.ResourceNames...)
		if len(g.Resources) == 0 {
			add(&out.resources, v.resources)
			add(&out.subresources, v.subresources)
		}
		for _, res := range g.Resources {
			resource, sub, _ := strings.Cut(res, "/")
			add(&out.resources, v.resources, resource)
			if res == "*" {
				sub = "*" // of any resource, with any subresource or none
			}
			add(&out.subresources, v.subresources, sub)
		}
	}
	return &out
}

// tryLong does what try does for the subresources whose requests may last, where no rule names them and the rule leaves out their beginning. It does so only
// where the rule hides nothing else: one thing is enough to say so.
func (p *Policy) tryLong(out *Hidden, rule int, v *vocabulary, who user.Info, harmless func(authorizer.Attributes) bool) {
	r := &p.rules[rule]
	if !slices.Contains(r.OmitStages, internal.StageResponseStarted) || out.TooMany || slices.ContainsFunc(out.Requests, func(h HiddenRequest) bool { return h.Rule == rule }) {
		return
	}
	long := *v
	long.subresources = longSubresources
	w := long.within(r)
	w.paths, w.subresources = nil, slices.DeleteFunc(slices.Clone(w.subresources), func(s string) bool { return !slices.Contains(longSubresources, s) })
	p.try(out, rule, w, who, harmless)
}

// try asks the policy about each kind of request in the words, and notes those that the rule decides and hides.
func (p *Policy) try(out *Hidden, rule int, w *vocabulary, who user.Info, harmless func(authorizer.Attributes) bool) {
	cases := len(w.verbs) * (len(w.paths) + len(w.groups)*len(w.resources)*len(w.subresources)*len(w.namespaces)*len(w.names))
	if cases > maxCases {
		out.TooMany = true
		return
	}
	listed := 0
	var seldom rare
	defer func() { out.Requests = append(out.Requests, seldom.all...) }()
	a := &authorizer.AttributesRecord{User: who}
	one := func() {
		index, lost := p.decidedInSome(a)
		if index != rule || lost == "" || harmless != nil && harmless(a) {
			return
		}
		h := p.hiddenRequest(rule, lost, a)
		if !always(lost) {
			seldom.add(h)
		} else if listed++; listed > MaxHidden {
			out.More++
		} else {
			out.Requests = append(out.Requests, h)
		}
	}
	for _, a.Verb = range w.verbs {
		for _, a.Path = range w.paths {
			one()
		}
		a.Path, a.APIVersion, a.ResourceRequest = "", "v1", true
		for _, a.APIGroup = range w.groups {
			for _, a.Resource = range w.resources {
				for _, a.Subresource = range w.subresources {
					for _, a.Namespace = range w.namespaces {
						for _, a.Name = range w.names {
							one()
						}
					}
				}
			}
		}
		*a = authorizer.AttributesRecord{User: who}
	}
}

// hiddenRequest is the request that the rule keeps out of the log.
func (p *Policy) hiddenRequest(rule int, lost codes.Code, a *authorizer.AttributesRecord) HiddenRequest {
	h := HiddenRequest{
		Rule: rule, Lost: lost, Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name,
		Path: a.Path,
	}
	if rule >= 0 {
		h.Line = p.lines[rule]
	}
	return h
}

// decided returns the rule that decides on a request in Kubernetes 1.36 and later, -1 for none, and what it keeps out of the log, as [loses] has it.
func (p *Policy) decided(a *authorizer.AttributesRecord) (rule int, lost codes.Code) {
	return p.decidedBy(p.indices, a)
}

// decidedInSome is decided for any version of the API server, one that keeps something out of the log if there is one.
func (p *Policy) decidedInSome(a *authorizer.AttributesRecord) (rule int, lost codes.Code) {
	for _, by := range p.versions() {
		if rule, lost = p.decidedBy(by, a); lost != "" {
			return rule, lost
		}
	}
	return rule, lost
}

// versions are the evaluators of the API server's versions that decide differently, the newest first.
func (p *Policy) versions() []audit.PolicyRuleEvaluator {
	if p.older == nil {
		return []audit.PolicyRuleEvaluator{p.indices}
	}
	return []audit.PolicyRuleEvaluator{p.indices, p.older}
}

func (p *Policy) decidedBy(by audit.PolicyRuleEvaluator, a *authorizer.AttributesRecord) (rule int, lost codes.Code) {
	got := by.EvaluatePolicyRule(a)
	rule, err := strconv.Atoi(string(got.Level))
	if err != nil {
		return -1, codes.PolicyLacks // no rule: the level is None
	}
	if p.rules[rule].Level.Less(internal.LevelMetadata) {
		return rule, codes.PolicyLacks
	}
	return rule, loses(got.OmitStages, isLong(a))
}
