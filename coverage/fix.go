package coverage

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"
	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Fix returns the policy's text with what it keeps from the checks added: before each rule that does, copies of that rule that match only what a check
// needs, at the level that it needs. So each request is logged as before or better, and no request is logged with more than a check needs. Comments are
// kept. text must be what the policy was parsed from; harmless is as for [Policy.Lacks].
func (p *Policy) Fix(text []byte, harmless Harmless) ([]byte, error) {
	if len(p.Lacks(harmless)) == 0 {
		return text, nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("it cannot be written again: it is no single YAML mapping")
	}
	root := doc.Content[0]
	list := member(root, "rules")
	if list == nil || list.Kind != yaml.SequenceNode || len(list.Content) != len(p.rules) {
		return nil, errors.New("it cannot be written again: its rules are not a plain list")
	}
	if err := p.endStages(root, list); err != nil {
		return nil, err
	}
	hides := map[int]bool{}
	hidden, unclear := p.hidesOfNodes(harmless)
	for _, h := range hidden {
		hides[h.Rule] = true
	}
	for i := range p.rules {
		hides[i] = hides[i] || unclear && losesSome(&p.rules[i])
	}
	var out []*yaml.Node
	for i := range p.rules {
		added, err := ruleNodes(additions(&p.rules[i], hides[i]))
		if err != nil {
			return nil, err
		}
		out = append(append(out, added...), list.Content[i])
	}
	// What no rule matches is not logged.
	added, err := ruleNodes(additions(&internal.PolicyRule{Level: internal.LevelNone}, hides[-1]))
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.rules, func(r internal.PolicyRule) bool { return matchesAll(&r) }) {
		out = append(out, added...)
	}
	list.Content = out
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := errors.Join(enc.Encode(&doc), enc.Close()); err != nil {
		return nil, fmt.Errorf("writing it again: %w", err)
	}
	fixed, err := ParsePolicy(b.Bytes())
	if err != nil {
		return nil, fmt.Errorf("with what is added, %w", err)
	}
	if left := fixed.Lacks(harmless); len(left) > 0 {
		return nil, fmt.Errorf("what keeps requests from the check %s cannot be fixed: %s", left[0].Check, strings.Join(left[0].Params.All(codes.ParamRequest), ", "))
	}
	return b.Bytes(), nil
}

// endStages moves what the policy as a whole leaves out of how requests begin and end to its rules, so that rules that are added can have it.
func (p *Policy) endStages(root, list *yaml.Node) error {
	stages := member(root, "omitStages")
	if stages == nil {
		return nil
	}
	end := func(n *yaml.Node) bool {
		return n.Value != string(internal.StageRequestReceived)
	}
	var moved []*yaml.Node
	for _, n := range stages.Content {
		if end(n) {
			moved = append(moved, n)
		}
	}
	stages.Content = slices.DeleteFunc(stages.Content, end)
	for _, rule := range list.Content {
		if len(moved) == 0 {
			return nil
		}
		own := member(rule, "omitStages")
		if own == nil || own.Kind != yaml.SequenceNode {
			own = &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
			rule.Content = append(rule.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "omitStages"}, own)
		}
		for _, n := range moved {
			if !slices.ContainsFunc(own.Content, func(o *yaml.Node) bool { return o.Value == n.Value }) {
				own.Content = append(own.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: n.Value})
			}
		}
	}
	return nil
}

// member returns the value of a mapping's key, nil if it has none.
func member(m *yaml.Node, key string) *yaml.Node {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if m.Content[i].Value == key {
			return m.Content[i+1]
		}
	}
	return nil
}

// matchesAll is whether a rule matches every request: what follows it decides nothing.
func matchesAll(r *internal.PolicyRule) bool {
	return len(r.Users)+len(r.UserGroups)+len(r.Verbs)+len(r.Resources)+len(r.Namespaces)+len(r.NonResourceURLs) == 0
}

// addition is a rule to be added, and the checks that it is for.
type addition struct {
	rule   internal.PolicyRule
	checks []string
}

// additions are the rules that log what r does not and checks need; each matches only what r does. whole says that r hides requests of nodes that all must
// be logged.
func additions(r *internal.PolicyRule, whole bool) []addition {
	var out, others []addition
	// The level that most is logged with comes first: the others would take its requests.
	for _, level := range []internal.Level{internal.LevelRequest, internal.LevelMetadata} {
		if !r.Level.Less(level) && !losesSome(r) {
			continue
		}
		for _, n := range needs() {
			if n.level != level || n.some || whole && n.who == nodes && level == internal.LevelMetadata {
				continue // of nodes all is added below
			}
			limits, ok := limitTo(r, n.who)
			if !ok {
				continue
			}
			limits.Level = raised(r, level)
			if more := intersect(r, &limits, &n); n.who != people {
				out = append(out, more...)
			} else if len(more) > 0 {
				others = more
			}
		}
	}
	if all, ok := limitTo(r, nodes); ok && whole {
		all.Level = raised(r, internal.LevelMetadata)
		all.Verbs, all.Resources, all.Namespaces, all.NonResourceURLs = r.Verbs, r.Resources, r.Namespaces, r.NonResourceURLs
		out = append(out, addition{all, []string{"policy-known"}})
	}
	if len(others) > 0 && r.Level == internal.LevelNone {
		out = append(out, quiet(r)...)
	}
	return append(out, others...)
}

// quiet are copies of a rule of level None for the requests of Kubernetes' own programs: they stay out of the log where others' must be in it.
func quiet(r *internal.PolicyRule) []addition {
	var out []addition
	for _, only := range []internal.PolicyRule{
		{Users: []string{user.APIServerUser, user.KubeControllerManager, user.KubeScheduler, user.KubeProxy}},
		{UserGroups: []string{serviceaccount.AllServiceAccountsGroup}, Verbs: []string{"get", "list", "watch"}},
	} {
		c := *r.DeepCopy()
		if len(only.Users) > 0 {
			c.Users = common(r.Users, only.Users)
		} else if c.UserGroups = only.UserGroups; len(r.Users) > 0 || len(r.UserGroups) > 0 && !slices.Contains(r.UserGroups, user.AllAuthenticated) {
			continue
		}
		if len(only.Verbs) > 0 {
			c.Verbs = common(r.Verbs, only.Verbs)
		}
		if len(c.Users)+len(only.UserGroups) > 0 && (len(c.Verbs) > 0 || len(r.Verbs) == 0) {
			out = append(out, addition{c, nil})
		}
	}
	return out
}

// common are the words of both lists; an empty list stands for all.
func common(all, some []string) []string {
	if len(all) == 0 {
		return some
	}
	return slices.DeleteFunc(slices.Clone(some), func(s string) bool { return !slices.Contains(all, s) })
}

// raised is the level of a rule that is added before r: at least level, and as much as r logs; without the response, which may hold secrets, if r did not log
// that at its stages.
func raised(r *internal.PolicyRule, level internal.Level) internal.Level {
	if level.Less(r.Level) && r.Level.Less(internal.LevelRequestResponse) {
		return r.Level
	}
	if r.Level == internal.LevelRequestResponse && slices.Contains(r.OmitStages, internal.StageResponseComplete) {
		return internal.LevelRequest
	}
	if r.Level == internal.LevelRequestResponse {
		return r.Level
	}
	return level
}

// falls is whether r logs less of a request than a need asks for.
func falls(r *internal.PolicyRule, n *need, verb, resource string) bool {
	_, sub, _ := strings.Cut(resource, "/")
	lost := loses(r.OmitStages, verb == longVerb || slices.Contains(longSubresources, sub))
	return r.Level.Less(n.level) || always(lost) || n.whole && lost != ""
}

// limitTo returns a rule with the users that r matches and who make the requests, if there are any, and the stages of r but for the end of requests.
func limitTo(r *internal.PolicyRule, w who) (internal.PolicyRule, bool) {
	out := internal.PolicyRule{Users: r.Users, UserGroups: r.UserGroups, OmitManagedFields: r.OmitManagedFields, OmitStages: []internal.Stage{internal.StageRequestReceived}}
	if r.Level != internal.LevelNone && !slices.Contains(r.OmitStages, internal.StageRequestReceived) {
		out.OmitStages = nil
	}
	var of []user.Info
	switch w {
	case anybody:
		return out, true
	case people:
		named := func(s string) bool { return !strings.HasPrefix(s, "system:") || s == user.AllAuthenticated }
		return out, (len(r.Users) == 0 || slices.ContainsFunc(r.Users, named)) && (len(r.UserGroups) == 0 || slices.ContainsFunc(r.UserGroups, named) || len(r.Users) > 0 && slices.Contains(r.UserGroups, user.NodesGroup))
	case apiServers:
		of = []user.Info{apiServer()}
		out.Users, out.UserGroups = []string{user.APIServerUser}, nil
	case nodes:
		of = []user.Info{nodeUser(anyNode)}
		out.Users, out.UserGroups = nil, []string{user.NodesGroup}
		for _, name := range r.Users {
			if p := nodeUser(name); strings.HasPrefix(name, nodeid.UserPrefix) && matchesUser(r, p) {
				of, out.Users = append(of, p), append(out.Users, name)
			}
		}
	}
	return out, slices.ContainsFunc(of, func(u user.Info) bool { return matchesUser(r, u) })
}

// intersect are rules like limits that match what both r and the need do.
func intersect(r, limits *internal.PolicyRule, n *need) []addition {
	var out []addition
	for i := range n.questions {
		q := &n.questions[i]
		rule := *limits
		for _, verb := range strings.Fields(q.verbs) {
			if (len(r.Verbs) == 0 || slices.Contains(r.Verbs, verb)) && falls(r, n, verb, q.resource) {
				rule.Verbs = append(rule.Verbs, verb)
			}
		}
		switch {
		case q.namespace == "*":
			rule.Namespaces = r.Namespaces
		case len(r.Namespaces) > 0 && !slices.Contains(r.Namespaces, q.namespace):
			continue
		case q.namespace != "":
			rule.Namespaces = []string{q.namespace}
		default:
			rule.Namespaces = r.Namespaces
		}
		resource, group, _ := strings.Cut(q.resource, ".")
		rule.Resources = within(r, group, resource)
		if len(rule.Verbs) == 0 || len(rule.Resources) == 0 || strings.HasPrefix(q.resource, "/") {
			continue
		}
		out = join(out, addition{rule, n.checks})
	}
	return out
}

// within returns the resource as r matches it: with each set of names that r has for it.
func within(r *internal.PolicyRule, group, resource string) []internal.GroupResources {
	one := internal.GroupResources{Group: group, Resources: []string{resource}}
	if len(r.Resources) == 0 {
		if len(r.NonResourceURLs) > 0 && len(r.Namespaces) == 0 {
			return nil // paths alone
		}
		return []internal.GroupResources{one}
	}
	name, sub, _ := strings.Cut(resource, "/")
	var out []internal.GroupResources
	for _, g := range r.Resources {
		if g.Group != group && g.Group != "*" {
			continue
		}
		matches := len(g.Resources) == 0 || slices.ContainsFunc(g.Resources, func(spec string) bool {
			return spec == resource || spec == "*" || sub != "" && spec == "*/"+sub || spec == name+"/*"
		})
		if matches {
			own := one
			own.ResourceNames = g.ResourceNames
			out = append(out, own)
		}
	}
	return out
}

// join adds a rule to those that differ from it by their resources alone.
func join(all []addition, a addition) []addition {
	for i := range all {
		b := &all[i]
		if !slices.Equal(b.rule.Verbs, a.rule.Verbs) || !slices.Equal(b.rule.Namespaces, a.rule.Namespaces) {
			continue
		}
		for _, g := range a.rule.Resources {
			j := slices.IndexFunc(b.rule.Resources, func(o internal.GroupResources) bool {
				return o.Group == g.Group && slices.Equal(o.ResourceNames, g.ResourceNames)
			})
			if j < 0 {
				b.rule.Resources = append(b.rule.Resources, g)
			} else {
				b.rule.Resources[j].Resources = append(b.rule.Resources[j].Resources, g.Resources...)
			}
		}
		return all
	}
	return append(all, a)
}

// writtenRule is a rule as it is written.
type writtenRule struct {
	Level             string             `yaml:"level"`
	Users             []string           `yaml:"users,omitempty,flow"`
	UserGroups        []string           `yaml:"userGroups,omitempty,flow"`
	Verbs             []string           `yaml:"verbs,omitempty,flow"`
	Namespaces        []string           `yaml:"namespaces,omitempty,flow"`
	Resources         []writtenResources `yaml:"resources,omitempty"`
	NonResourceURLs   []string           `yaml:"nonResourceURLs,omitempty,flow"`
	OmitStages        []string           `yaml:"omitStages,omitempty,flow"`
	OmitManagedFields *bool              `yaml:"omitManagedFields,omitempty"`
}

type writtenResources struct {
	Group         string   `yaml:"group"`
	Resources     []string `yaml:"resources,omitempty,flow"`
	ResourceNames []string `yaml:"resourceNames,omitempty,flow"`
}

func ruleNodes(all []addition) ([]*yaml.Node, error) {
	var out []*yaml.Node
	for i := range all {
		r := &all[i].rule
		w := writtenRule{
			Level: string(r.Level), Users: r.Users, UserGroups: r.UserGroups, Verbs: r.Verbs, Namespaces: r.Namespaces, NonResourceURLs: r.NonResourceURLs,
			OmitManagedFields: r.OmitManagedFields,
		}
		for _, s := range r.OmitStages {
			w.OmitStages = append(w.OmitStages, string(s))
		}
		for _, g := range r.Resources {
			w.Resources = append(w.Resources, writtenResources(g))
		}
		n := &yaml.Node{}
		if err := n.Encode(w); err != nil {
			return nil, fmt.Errorf("writing a rule: %w", err)
		}
		n.HeadComment = "# nodetrail: as before, for Kubernetes' own programs"
		if len(all[i].checks) > 0 {
			n.HeadComment = "# nodetrail: for " + strings.Join(all[i].checks, ", ")
		}
		out = append(out, n)
	}
	return out, nil
}
