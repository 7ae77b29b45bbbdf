package app

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/userfile"
)

// PolicyCheckOptions are the inputs of PolicyCheck.
type PolicyCheckOptions struct {
	// Path is the policy's file, - for Stdin.
	Path  string
	Stdin io.Reader
	// KubernetesVersion is the version whose Node authorizer decides what nodes may do without a binding, together with the newest; empty for the newest alone.
	// One that is not supported is judged as the two nearest.
	KubernetesVersion string
	// Fix says that PolicyCheckResult.Fixed is wanted.
	Fix bool
}

// PolicyCheckResult says what an audit policy keeps from the checks.
type PolicyCheckResult struct {
	// Warnings are what the API server would warn of, too, and that the version is not supported.
	Warnings []string
	// Checks are all, in the order of [checks.All].
	Checks []CheckUnderPolicy
	// Fixed is the policy with what is missing added, if that was asked for.
	Fixed []byte
}

// CheckUnderPolicy is a check, and what the policy keeps from it.
type CheckUnderPolicy struct {
	Check checks.Check
	// Cannot says that the check cannot pass, Weak that it can, but sees less.
	Cannot, Weak bool
	Lacks        []Lack
	// RestsOn are checks without which this one does not pass, and that cannot pass or see less.
	RestsOn []string
}

// Lack is what one rule of a policy keeps from a check.
type Lack struct {
	Code   codes.Code
	Params codes.Params
}

// Cannot returns how many checks of a question cannot pass with the policy, and of how many.
func (r *PolicyCheckResult) Cannot(q checks.Question) (n, of int) {
	for i := range r.Checks {
		if r.Checks[i].Check.Questions&q == 0 {
			continue
		}
		of++
		if r.Checks[i].Cannot {
			n++
		}
	}
	return n, of
}

// PolicyCheck says which checks cannot pass with an audit policy, and writes one with which they can.
func PolicyCheck(o PolicyCheckOptions) (*PolicyCheckResult, error) {
	text, err := readPolicyText(o)
	if err != nil {
		return nil, err
	}
	p, err := coverage.ParsePolicy(text)
	if err != nil {
		return nil, fmt.Errorf("reading the audit policy %s: %w", o.Path, err)
	}
	harmless, err := harmlessIn(o.KubernetesVersion)
	if err != nil {
		return nil, err
	}
	out := &PolicyCheckResult{Warnings: p.Warnings}
	if assumed := (&Authorization{KubernetesVersion: o.KubernetesVersion}).Assumed(); assumed != "" {
		out.Warnings = append(out.Warnings, assumed)
	}
	lacks := p.Lacks(harmless)
	for _, c := range checks.All() {
		of := CheckUnderPolicy{Check: c}
		for _, l := range lacks {
			if l.Check == c.Name {
				of.Cannot, of.Weak = !l.Weak, l.Weak
				of.Lacks = append(of.Lacks, Lack{l.Code, l.Params})
			}
		}
		out.Checks = append(out.Checks, of)
	}
	out.rest()
	if o.Fix {
		if out.Fixed, err = p.Fix(text, harmless); err != nil {
			return nil, fmt.Errorf("the audit policy %s: %w", o.Path, err)
		}
	}
	return out, nil
}

// rest adds what the checks rest on.
func (r *PolicyCheckResult) rest() {
	for i := range r.Checks {
		c := &r.Checks[i]
		for j := range r.Checks[:i] { // they come before it
			if o := &r.Checks[j]; (o.Cannot || o.Weak) && slices.Contains(c.Check.RestsOn, o.Check.Name) {
				c.RestsOn = append(c.RestsOn, o.Check.Name)
				c.Cannot = c.Cannot || o.Cannot
				c.Weak = !c.Cannot
			}
		}
	}
}

func readPolicyText(o PolicyCheckOptions) ([]byte, error) {
	in := o.Stdin
	if o.Path != "-" {
		f, err := os.Open(o.Path)
		if err != nil {
			return nil, userfile.Unreadable(o.Path, err)
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, coverage.MaxPolicyBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading the audit policy: %w", err)
	}
	return b, nil
}

// harmlessIn says which requests any node may make by the static rules of the version's authorizer and the newest one's.
func harmlessIn(version string) (h coverage.Harmless, err error) {
	all, err := staticAuthorizers(version)
	if err != nil {
		return h, err
	}
	return all.allow(anyName), nil
}
