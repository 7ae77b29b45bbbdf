package app

import (
	"context"
	"errors"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// canary makes the bindings by which only some nodes go without what the group of nodes is given. It covers the nodes of the state's end and
// every identity of the log.
func (c *change) canary(ctx context.Context, o *SuggestOptions) (*SuggestResult, error) {
	b := report.NewCanaryBuilder(o.Canary)
	var setup *judging.Setup
	var first, last time.Time
	res, _, err := c.run(ctx, func(s *judging.Setup) { setup = s }, func(j *pipeline.Judgement) error {
		if first.IsZero() || j.Time.Before(first) {
			first = j.Time
		}
		if j.Time.After(last) {
			last = j.Time
		}
		if j.Observed.HasGrant {
			c.without.see(&j.Observed.Grant)
		}
		b.Add(j)
		return nil
	})
	if err != nil {
		return nil, err
	}
	state, out := setup.State, &SuggestResult{Unread: errors.Join(res.Errors...)}
	end := state.Summary().To
	if last.After(end) {
		end = last
	}
	nodes := state.Nodes.Names(end)
	for _, name := range o.Canary {
		if !slices.Contains(nodes, name) && !b.Seen(name) {
			return nil, &UnknownError{What: "node", Name: name, Where: "the state or the log", Known: nodes}
		}
	}
	if out.Unread == nil {
		if err := c.without.unknown(state.RBAC); err != nil {
			return nil, err
		}
	}
	for _, l := range state.Nodes.Lives(first, end) {
		if l.From.After(first) && !first.IsZero() {
			b.Joined(l.Name)
		}
	}
	var going []rbac.BindingInfo
	for _, x := range checks.Inventory(slices.Collect(state.RBAC.Bindings(end)), nil, nil) {
		group := rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup}
		if x.Fate == checks.Goes && c.without.removes(rbac.Grant{Binding: x.Binding, Role: x.Role, Subject: group}) {
			going = append(going, x.BindingInfo)
		}
	}
	out.Canary = b.Canary(going, nodes)
	return out, nil
}
