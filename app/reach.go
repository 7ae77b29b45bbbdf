package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

// ReachOptions say of which node Reach tells, and by what. Node is needed, and state or logs.
type ReachOptions struct {
	Authorization
	// Input's Since and Until bound the time that is asked about. Without logs, durations count back from the state's last observation.
	Input
	// Node is the node's name.
	Node string
	// At asks about one instant, in place of Since and Until; the logs are then looked at as a whole.
	At time.Time
}

// Validate says what is wrong with the options, before anything is read: an *OptionError, or ErrStdinTwice.
func (o *ReachOptions) Validate() error {
	switch {
	case o.Node == "":
		return optionError("Node", "the name of the node is needed")
	case !o.At.IsZero() && (o.Since != Limit{} || o.Until != Limit{}):
		return optionError("At", "it asks about one instant, and does not go with Since or Until")
	case !o.hasState() && len(o.Logs) == 0:
		return optionError("State", "state or logs are needed")
	}
	if err := o.Authorization.validate(); err != nil {
		return err
	}
	if o.SkewAuto && len(o.Logs) == 0 {
		return optionError("Skew", "auto is measured by audit logs, and none is given")
	}
	if err := o.validateSkew(&o.Authorization); err != nil {
		return err
	}
	return o.Input.validate()
}

// UnknownError is a name that is in nothing that was read.
type UnknownError struct {
	// What is what should have that name: node, binding, or binding or subject.
	What string
	Name string
	// Where says what was read.
	Where string
	// Known are the names that there are.
	Known []string
}

// Error names what is unknown.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("there is no %s %s in %s", e.What, wording.Visible(e.Name), e.Where)
}

// ReachResult is what came of Reach.
type ReachResult struct {
	Reach *explain.NodeReach
	// Unread is why logs could not be read to their end, nil if all were: what was not read may hold more that the credential did.
	Unread error
}

// Reach says what a holder of a node's credential could reach in a span of time, what the credential did beyond that by the logs, and what to rotate.
//
// A node that is in neither the state nor the logs is an *UnknownError. Other errors are as Analyze's. It reads the logs and the state, and writes
// nothing.
func Reach(ctx context.Context, o ReachOptions) (*ReachResult, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	r := &reaching{ReachOptions: &o, from: o.At, to: o.At}
	var err error
	if r.judged.Features, err = o.features(); err != nil {
		return nil, err
	}
	if len(o.Logs) == 0 {
		err = r.byState(ctx)
	} else {
		err = r.byLogs(ctx)
	}
	if err != nil {
		return nil, err
	}
	if !r.known() {
		return nil, &UnknownError{What: "node", Name: o.Node, Where: "the state or the log", Known: nodeNames(r.setup.State)}
	}
	eo := explain.Options{Node: r.setup.Auth, Graph: r.setup.State.Graph, RBAC: r.setup.State.RBAC}
	eo.StateEnd, eo.Until = r.ends()
	x := explain.New(eo)
	out := &ReachResult{Reach: x.Node(o.Node, r.from, r.to, r.beyond), Unread: r.unread}
	if r.measured != nil {
		out.Reach.Notes = append(out.Reach.Notes, "The skew is "+r.measured.Words()+".")
	}
	if r.unread != nil {
		out.Reach.Notes = append(out.Reach.Notes, fmt.Sprintf("The log was not read to its end: %v.", r.unread))
	}
	return out, nil
}

// reaching is an answer of Reach in the making.
type reaching struct {
	*ReachOptions
	judged   judging.Options
	setup    *judging.Setup
	from, to time.Time // both included
	beyond   *explain.Beyond
	last     time.Time // event of the logs
	measured *report.Skew
	unread   error
}

// ends is when the state ends, if that is before the end of the time that is asked about, and until when that is if it is open. A time that is named is held
// against the last observation; to the end of a log the state reaches as long as nothing shows that it missed anything.
func (r *reaching) ends() (stateEnd, until time.Time) {
	state := r.setup.State
	end, early := state.EndsBefore(cmp.Or(r.to, r.last))
	if until = r.last; until.Before(end) {
		until = end
	}
	if !early && !r.to.IsZero() && !end.IsZero() {
		early = r.to.After(end.Add(r.judged.Skew)) && (r.last.IsZero() || r.to.After(r.last))
	}
	if !early {
		end = time.Time{}
	}
	return end, until
}

func (r *reaching) byState(ctx context.Context) error {
	state, err := startLoading(&r.Input).wait(ctx)
	if err != nil {
		return err
	}
	if r.judged.Mode, err = r.mode(); err != nil {
		return err
	}
	r.setup = judging.New(state, r.judged)
	end := state.Summary().To
	at := func(l Limit) time.Time {
		if l.FromEnd && l.At.IsZero() {
			return end.Add(-l.Back)
		}
		return l.At
	}
	return r.span(pipeline.Window{Since: at(r.Since), Until: at(r.Until)})
}

// span takes over the time that is asked about, unless that is an instant.
func (r *reaching) span(w pipeline.Window) error {
	if !r.At.IsZero() {
		return nil
	}
	if !w.Since.IsZero() && !w.Until.IsZero() && !w.Since.Before(w.Until) {
		return &WindowError{w.Since, w.Until}
	}
	if r.from = w.Since; !w.Until.IsZero() {
		r.to = w.Until.Add(-time.Nanosecond)
	}
	return nil
}

func (r *reaching) byLogs(ctx context.Context) error {
	p, err := r.Input.prepare(&r.Authorization)
	if err != nil {
		return err
	}
	if err := r.span(p.logs.Window); err != nil {
		return err
	}
	r.beyond = explain.NewBeyond(r.Node)
	res, _, err := p.run(ctx, func(s *judging.Setup) { r.setup = s }, func(j *pipeline.Judgement) error {
		r.beyond.Add(j)
		return nil
	})
	if err != nil {
		return err
	}
	r.last = res.Last
	r.unread, r.measured = errors.Join(res.Errors...), p.measured
	return nil
}

// known reports whether anything tells of the node.
func (r *reaching) known() bool {
	if r.setup.State.Nodes.Ever(r.Node) || r.beyond != nil && r.beyond.Requests > 0 {
		return true
	}
	objects, _ := r.setup.Auth.ReachedBy(r.Node, time.Time{}, time.Time{})
	return len(objects) > 0
}

// nodeNames are the names of all Nodes that there ever were, in order.
func nodeNames(state *cluster.State) []string {
	var out []string
	for _, l := range state.Nodes.Lives(time.Unix(0, 0), time.Unix(1<<33, 0)) {
		if len(out) == 0 || out[len(out)-1] != l.Name {
			out = append(out, strings.Clone(l.Name))
		}
	}
	return out
}
