package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/web"
)

// liveState explains by the state of the cluster.
type liveState struct {
	state *cluster.State
	node  func(context.Context) (*nodeauthz.Authorizer, *nodeadmission.Admission, error)
	mode  func(context.Context) (string, error)
	// whole is false where only audit bodies tell of the state; now says that it continues.
	whole, now bool
}

// explainer explains by the state, which ends at stateEnd, or by now if that is zero.
func (l *liveState) explainer(ctx context.Context, stateEnd time.Time) (*explain.Explainer, error) {
	if !l.whole {
		return nil, errors.New("no state of the cluster was given, and bodies in the audit log tell too little of it")
	}
	mode, err := l.mode(ctx)
	if err != nil {
		return nil, errors.New("the analyzer is stopping")
	}
	node, admission, err := l.node(ctx)
	if err != nil {
		return nil, errors.New("the analyzer is stopping")
	}
	o := explain.Options{Node: node, Graph: l.state.Graph, RBAC: l.state.RBAC, Admission: admission, StateEnd: stateEnd}
	if mode != "" {
		o.Authorizers = strings.Split(mode, ",")
	}
	return explain.New(o), nil
}

// Explain implements web.Live.
func (l *liveState) Explain(ctx context.Context, k *tally.Key, at time.Time) (*explain.Explanation, error) {
	if k.Rule == "node-identity" {
		return nil, errors.New("this finding is about an identity that is no node's: the Node authorizer has no opinion on it")
	}
	x, err := l.explainer(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	if from := l.state.Summary().From; !from.IsZero() && at.Before(from) {
		return nil, fmt.Errorf("the state that is known begins at %s, after the request", from.UTC().Format(time.RFC3339))
	}
	r := explain.Request{Node: k.Node, Verb: k.Verb, APIGroup: k.APIGroup, Resource: k.Resource, Subresource: k.Subresource, Namespace: k.Namespace, Name: k.Name}
	if k.Resource == "" {
		r.Path = k.Name
	}
	out := x.Request(r.Attributes(), at)
	if slices.Contains([]string{"list", "watch", "deletecollection"}, k.Verb) {
		out.Notes = append(out.Notes, "The store does not keep field selectors: with one, the Node authorizer may have allowed it.")
	}
	return out, nil
}

// Reach implements web.Live.
func (l *liveState) Reach(ctx context.Context, o web.Object, from, to time.Time) (*explain.Reach, error) {
	x, err := l.explainer(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	if known := l.state.Summary(); from.Before(known.From) {
		from = known.From
	}
	if l.now {
		to = time.Now()
	}
	return x.Object(explain.ObjectRef(o), from.UTC(), to.UTC()), nil
}

// NodeReach implements web.Live.
func (l *liveState) NodeReach(ctx context.Context, node string, read []explain.Use, from, to time.Time) (*explain.NodeReach, error) {
	x, err := l.explainer(ctx, time.Time{})
	if err != nil {
		return nil, err
	}
	if known := l.state.Summary(); from.Before(known.From) {
		from = known.From
	}
	if l.now {
		to = time.Now()
	} else if end, early := l.state.EndsBefore(to); early {
		if x, err = l.explainer(ctx, end); err != nil {
			return nil, err
		}
	}
	return x.Node(node, from.UTC(), to.UTC(), explain.BeyondOf(node, read)), nil
}

// Binding implements web.Live.
func (l *liveState) Binding(_ context.Context, b report.Binding) (*web.BindingState, error) {
	at := l.state.Summary().To
	if l.now {
		at = time.Now()
	}
	out := &web.BindingState{Exists: "unknown"}
	ref := rbac.BindingRef{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name}
	for info := range l.state.RBAC.Bindings(at) {
		if l.whole {
			out.Exists = "no"
		}
		if info.Binding == ref {
			out.Exists = "yes"
			break
		}
	}
	// Of one that is gone, what it was last.
	for info := range l.state.RBAC.BindingsDuring(time.Unix(0, 0), at) {
		if info.Binding != ref {
			continue
		}
		out.Role, out.Subjects = info.Role.Kind+" "+info.Role.Name, nil
		for _, s := range info.Subjects {
			if len(out.Subjects) >= maxSubjects {
				break
			}
			name := s.Name
			if s.Namespace != "" {
				name = s.Namespace + "/" + name
			}
			out.Subjects = append(out.Subjects, s.Kind+" "+name)
		}
	}
	return out, nil
}

// maxSubjects bounds what is listed of a binding.
const maxSubjects = 1000
