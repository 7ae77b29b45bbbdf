package coverage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/apis/audit/install"
	"k8s.io/apiserver/pkg/apis/audit/validation"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/internal/userfile"
)

// MaxPolicyBytes bounds the file of an audit policy.
const MaxPolicyBytes = 1 << 20

// maxRules bounds the rules of a policy. Real ones have some dozens.
const maxRules = 2000

// Policy is an audit policy. It is safe for concurrent use.
type Policy struct {
	// Warnings are what the API server would only warn of too, such as unknown fields.
	Warnings []string

	rules  []internal.PolicyRule // with the policy's own omitStages
	lines  []int                 // of the rules in the file, 0 where not known
	levels audit.PolicyRuleEvaluator
	// indices is the same policy with the index of each rule for its level: upstream's evaluator then says which rule it was.
	indices audit.PolicyRuleEvaluator
	// older is what indices is for API servers before Kubernetes 1.36, where the group * is no wildcard; nil if no rule has it.
	older audit.PolicyRuleEvaluator
	hides hidesBook
	text  []byte // of the file that it was read from, if it was
}

// ReadPolicy reads the policy that kube-apiserver's --audit-policy-file names.
func ReadPolicy(path string) (*Policy, error) { return (*Policy)(nil).Again(path) }

// Again is ReadPolicy, but returns p itself, with what it remembers, if the file holds what p was read from. p may be nil.
func (p *Policy) Again(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, userfile.Unreadable(path, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxPolicyBytes+1))
	if err != nil {
		return nil, userfile.Unreadable(path, err)
	}
	if p != nil && bytes.Equal(p.text, b) {
		return p, nil
	}
	read, err := ParsePolicy(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	read.text = b
	return read, nil
}

// ParsePolicy reads an audit policy, YAML or JSON, as kube-apiserver does (k8s.io/apiserver/pkg/audit/policy.LoadPolicyFromBytes): what is not
// in its schema is a warning, what contradicts itself is an error.
func ParsePolicy(b []byte) (*Policy, error) {
	if len(b) > MaxPolicyBytes {
		return nil, fmt.Errorf("it is longer than %d bytes", MaxPolicyBytes)
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	out, from := &Policy{}, &internal.Policy{}
	_, kind, err := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder().Decode(b, nil, from)
	if runtime.IsStrictDecodingError(err) {
		out.Warnings = append(out.Warnings, shorten(strings.TrimPrefix(err.Error(), "strict decoding error: ")))
		from = &internal.Policy{}
		_, kind, err = serializer.NewCodecFactory(scheme).UniversalDecoder().Decode(b, nil, from)
	}
	text := parseText(b)
	var wrongType *json.UnmarshalTypeError
	switch {
	case runtime.IsNotRegisteredError(err), err == nil && kind.Version != "v1", err != nil && kind != nil && kind.Kind != "Policy":
		at := "kind"
		if is := text.find(at); len(is) > 0 && is[0].Value == "Policy" {
			at = "apiVersion"
		}
		return nil, fmt.Errorf("it does not say that it is a Policy of audit.k8s.io/v1%s", text.at(at))
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return nil, text.wrongType(wrongType)
	case err != nil && strings.Contains(err.Error(), "Go value of type"):
		return nil, errors.New("it is not YAML or JSON with an apiVersion and a kind")
	case err != nil:
		return nil, errors.New(shorten(err.Error()))
	case len(from.Rules) == 0:
		return nil, errors.New("it has no rules, and the API server would refuse it")
	case len(from.Rules) > maxRules:
		return nil, fmt.Errorf("it has more than %d rules", maxRules)
	}
	if errs := validation.ValidatePolicy(from); len(errs) > 0 {
		return nil, errors.New(shorten(text.wrongValues(errs, out.Warnings)))
	}
	out.rules = from.DeepCopy().Rules
	for i := range out.rules {
		r := &out.rules[i]
		for _, stage := range from.OmitStages {
			if !slices.Contains(r.OmitStages, stage) {
				r.OmitStages = append(r.OmitStages, stage)
			}
		}
	}
	out.lines = text.lines(len(from.Rules))
	verbatim(from.Rules)
	// The evaluator changes the policy that it is given.
	out.levels = policy.NewPolicyRuleEvaluator(from.DeepCopy())
	marked := from.DeepCopy()
	for i := range marked.Rules {
		marked.Rules[i].Level = internal.Level(fmt.Sprint(i))
	}
	older, differs := marked.DeepCopy(), false
	for i := range older.Rules {
		for j := range older.Rules[i].Resources {
			if g := &older.Rules[i].Resources[j]; g.Group == "*" {
				g.Group, differs = nothing, true
			}
		}
	}
	out.indices = policy.NewPolicyRuleEvaluator(marked)
	if differs {
		out.older = policy.NewPolicyRuleEvaluator(older)
	}
	return out, nil
}

// nothing is no verb, namespace, name or group of any request.
const nothing = "\x00"

// verbatim replaces a * where it is no wildcard: there the API server looks for a verb, a namespace or a name of that text, and no request has one.
// [AnyOther], which is asked about in place of what no rule names, must not match it.
func verbatim(all []internal.PolicyRule) {
	replace := func(words []string) {
		for i, w := range words {
			if w == AnyOther {
				words[i] = nothing
			}
		}
	}
	for i := range all {
		replace(all[i].Verbs)
		replace(all[i].Namespaces)
		for j := range all[i].Resources {
			replace(all[i].Resources[j].ResourceNames)
		}
	}
}

// where names a rule; index -1 is what no rule matches.
func (p *Policy) where(index int) string {
	if index < 0 || index >= len(p.rules) {
		return codes.NoRule
	}
	if line := p.lines[index]; line > 0 {
		return fmt.Sprintf("rules[%d] (line %d)", index, line)
	}
	return fmt.Sprintf("rules[%d]", index)
}

// Subjects returns the users and groups that rules name, each once, in the order of the file.
func (p *Policy) Subjects() (users, groups []string) {
	add := func(list, names []string) []string {
		for _, name := range names {
			if !slices.Contains(list, name) {
				list = append(list, name)
			}
		}
		return list
	}
	for i := range p.rules {
		users, groups = add(users, p.rules[i].Users), add(groups, p.rules[i].UserGroups)
	}
	return users, groups
}

const (
	// mostNamed is how many users and namespaces are asked about, whether rules tell them apart or not.
	mostNamed = 20
	// maxApart bounds the namespaces that rules tell apart.
	maxApart = 1000
)

// named returns the node users that rules name, mostNamed at most, and the namespaces: beyond mostNamed those that other rules name than each before. It is not all if
// there are more than maxApart. Both are in the order of the file.
func (p *Policy) named() (users, namespaces []string, all bool) {
	var order []string
	in := map[string][]int{}
	for i := range p.rules {
		for _, u := range p.rules[i].Users {
			if strings.HasPrefix(u, nodeid.UserPrefix) && len(users) < mostNamed && !slices.Contains(users, u) {
				users = append(users, u)
			}
		}
		for _, ns := range p.rules[i].Namespaces {
			if ns == "" {
				continue
			}
			of := in[ns]
			if of == nil {
				order = append(order, ns)
			}
			if len(of) == 0 || of[len(of)-1] != i {
				in[ns] = append(of, i)
			}
		}
	}
	apart := map[string]bool{}
	for _, ns := range order {
		rules := fmt.Sprint(in[ns])
		if len(namespaces) >= mostNamed && apart[rules] {
			continue
		}
		if len(namespaces) >= maxApart {
			return users, namespaces, false
		}
		apart[rules] = true
		namespaces = append(namespaces, ns)
	}
	return users, namespaces, true
}
