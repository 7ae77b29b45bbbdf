package app

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
)

// SuggestOptions are those of Suggest. Only Logs is needed.
type SuggestOptions struct {
	ChangeOptions
	// Namespace is that of the service accounts; "" is kube-system.
	Namespace string
	// MaxNames is up to how many names of objects stand in a rule; 0 is 8.
	MaxNames int
	// MaxNamespaces is up to how many namespaces get a role each, and not a cluster role together; 0 is 20.
	MaxNamespaces int
	// Canary are names of nodes. With any, Suggest makes no service accounts but the bindings by which only these nodes go without what the group
	// system:nodes is given; Namespace, MaxNames, MaxNamespaces and Verify do not go with it.
	Canary []string
	// Verify has the logs read a second time, with each request of the programs made as its service account. They and the state must be files.
	Verify bool
}

// Validate says what is wrong with the options, before anything is read: an *OptionError, or ErrStdinTwice.
func (o *SuggestOptions) Validate() error {
	switch {
	case o.MaxNames < 0:
		return optionError("MaxNames", "%d is less than 1", o.MaxNames)
	case o.MaxNamespaces < 0:
		return optionError("MaxNamespaces", "%d is less than 1", o.MaxNamespaces)
	case o.Namespace != "" && len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return optionError("Namespace", "%q is no name of a namespace", o.Namespace)
	case len(o.Canary) > 0 && o.Verify:
		return optionError("Canary", "it makes no service accounts, which is what is verified: try its bindings with what-if")
	case len(o.Canary) > 0 && !o.hasState():
		return optionError("Canary", "state is needed: it has the bindings and the nodes")
	case slices.Contains(o.Canary, ""):
		return optionError("Canary", "the name of a node is empty")
	case o.Verify && (o.Loaded != nil || slices.Contains(slices.Concat(o.State, o.Logs), "-")):
		return ErrReadTwice
	}
	return o.validate()
}

// ErrReadTwice refuses to verify what can be read only once.
var ErrReadTwice = errors.New("to verify, the log and the state are read twice, and standard input (-) can be read only once")

// SuggestResult is what came of Suggest.
type SuggestResult struct {
	// Suggestion is the RBAC, with the proof if Verify was set and all could be read; nil with a canary.
	Suggestion *report.Suggestion
	// Canary is set where one was asked for.
	Canary *report.Canary
	// Unread is why files could not be read to their end, nil if all were: what was not read may need more.
	Unread error
}

// Suggest finds the programs whose requests would break under the change, and makes for each a service account with the roles and bindings
// that it needs: what it did in the log, and nothing else.
//
// Whether a verified suggestion holds is in its Verified; that it does not is no error. Errors are as WhatIf's, and an *UnknownError for a
// canary that neither the state nor the log knows. It reads the logs, the state
// and the manifests, those twice to verify, and writes nothing.
func Suggest(ctx context.Context, o SuggestOptions) (*SuggestResult, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := o.prepare()
	if err != nil {
		return nil, err
	}
	if len(o.Canary) > 0 {
		return c.canary(ctx, &o)
	}
	c.logs.All = c.everybody()
	var s *report.Suggester
	var judged *judging.Setup
	res, _, err := c.run(ctx, func(setup *judging.Setup) {
		judged = setup
		s = report.NewSuggester(c.over(setup), report.SuggestOptions{
			Namespace: o.Namespace, MaxNames: o.MaxNames, MaxNamespaces: o.MaxNamespaces, Kubelets: o.KubeletUserAgents,
		})
	}, func(j *pipeline.Judgement) error {
		s.Add(j)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if impersonates(judged) {
		s.Impersonates()
	}
	out := &SuggestResult{Suggestion: s.Suggestion(), Unread: errors.Join(res.Errors...)}
	out.Suggestion.Skew = c.measured
	if out.Unread != nil {
		out.Suggestion.Unread = out.Unread.Error()
	}
	if c.in.hasState() {
		out.Suggestion.Audiences = audiencesOf(judged.State, c.end(res))
	}
	if o.Verify && out.Unread == nil {
		err = c.verify(ctx, s, out)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// impersonates reports whether all API servers that wrote the end of the log are known to have constrained impersonation (KEP-5284), on by default since
// Kubernetes 1.36.
func impersonates(s *judging.Setup) bool {
	const since = 36
	if s.Judge.Versions == nil {
		return false
	}
	v := s.Judge.Versions.Conclusions()
	if len(v) == 0 {
		return false
	}
	last := &v[len(v)-1]
	if !foundVersion(last).Known {
		return false
	}
	return !slices.ContainsFunc(append(last.Also, last.Features), func(f nodeauthz.Features) bool { return f.Emulated < since })
}

// verify goes through the logs again, over state that is read again: what the first pass learnt came later than the requests.
func (c *change) verify(ctx context.Context, s *report.Suggester, out *SuggestResult) error {
	var v *report.Verifier
	var verr error
	res, _, err := c.run(ctx, func(setup *judging.Setup) {
		v, verr = s.NewVerifier(c.over(setup), out.Suggestion, c.without.removes, c.with)
	}, func(j *pipeline.Judgement) error {
		if verr != nil {
			return verr
		}
		v.Add(j)
		return nil
	})
	if verr != nil {
		return verr
	}
	if err != nil {
		return err
	}
	out.Suggestion.Verified, out.Unread = v.Verification(), errors.Join(res.Errors...)
	return nil
}
