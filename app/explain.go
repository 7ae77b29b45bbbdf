package app

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/spelling"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

// ExplainOptions say what Explain explains, and by what. One of Request, AuditID and Finding is needed.
type ExplainOptions struct {
	// Authorization of a Finding is run's where a field has its zero value; the Skew is run's where it is negative.
	Authorization
	Input
	// ThenMode is as in ChangeOptions: the authorizers once the bindings are gone.
	ThenMode string
	// KubeletUserAgents are further user agents that are a kubelet's, without version.
	KubeletUserAgents []string
	// Window is how far before and after the request changes are shown; 0 is explain.DefaultWindow.
	Window time.Duration

	// Request is explained as of At, or of the state's last observation if that is zero. Logs only tell of the state.
	Request *authorizer.AttributesRecord
	At      time.Time
	// AuditID is of an event in Logs, whose request is explained.
	AuditID string
	// Finding is the ID of a finding in the store that Store names; its latest request is explained, by its event if that is in Logs. Without
	// State it is explained by what run has of it.
	Finding string
	Store   StoreOptions
}

// Validate says what is wrong with the options, before anything is read: an *OptionError, or ErrStdinTwice.
func (o *ExplainOptions) Validate() error {
	a := o.Authorization
	if o.Finding != "" {
		a.Skew = max(0, a.Skew)
	}
	if err := a.validate(); err != nil {
		return err
	}
	if _, err := thenMode(o.ThenMode); err != nil {
		return err
	}
	if o.SkewAuto && o.AuditID == "" {
		return optionError("Skew", "auto is measured by audit logs, and goes with AuditID alone")
	}
	if err := o.validateSkew(&o.Authorization); err != nil {
		return err
	}
	if o.Window < 0 || o.Window > 10*365*24*time.Hour {
		return optionError("Window", "%s is no span of time such as 10m", o.Window)
	}
	given := 0
	for _, is := range []bool{o.Request != nil, o.AuditID != "", o.Finding != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return optionError("Request", "one of Request, AuditID and Finding is needed")
	}
	return o.Input.validate()
}

// Explain says why a node may or may not do something as of an instant, who else can do the same, and what becomes of the request if the
// bindings for nodes go.
//
// The request of an event is judged as Analyze judges it, and explained by the state at the logs' end, which knows what came later, too. Notes
// of the explanation say where the two differ, and whether a log could not be read to its end.
//
// Errors are those of the options, of what cannot be read, of an event or a finding that is not there, and a *NoStoreError. It reads the logs,
// the state and, for a finding, the store and its configuration, and writes nothing.
func Explain(ctx context.Context, o ExplainOptions) (*explain.Explanation, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if o.Finding != "" {
		return explainFinding(ctx, &o)
	}
	x, err := newExplaining(&o)
	if err != nil {
		return nil, err
	}
	if o.Request != nil {
		return x.request(ctx, o.Request, o.At)
	}
	found, err := x.find(ctx, []string{o.AuditID})
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, fmt.Errorf("no event with the audit ID %s in %s", wording.Visible(o.AuditID), strings.Join(o.Logs, ", "))
	}
	return x.judged(found), nil
}

// explaining is an explanation in the making.
type explaining struct {
	*ExplainOptions
	judging judging.Options
	then    []string
	state   *cluster.State // once it is there
	unread  error          // why a log was not read to its end
	// measured is the skew, nil if it was given.
	measured *report.Skew
	same     int // judged requests with the audit ID of the one that was found
}

// weight is how much of several requests with one audit ID the request matters: most if it succeeded though the Node authorizer denies it.
func weight(j *pipeline.Judgement) int {
	switch {
	case j.Succeeded() && j.NodeDenies():
		return 2
	case j.Succeeded():
		return 1
	}
	return 0
}

func newExplaining(o *ExplainOptions) (*explaining, error) {
	x := &explaining{ExplainOptions: o, judging: judging.Options{Skew: o.Skew, Versions: o.versions(), Kubelets: o.KubeletUserAgents}}
	var err error
	if x.judging.Features, err = o.features(); err != nil {
		return nil, err
	}
	if x.judging.Mode, err = o.mode(); err != nil {
		return nil, err
	}
	x.then, err = thenMode(o.ThenMode)
	return x, err
}

// request explains one that is named.
func (x *explaining) request(ctx context.Context, attrs *authorizer.AttributesRecord, at time.Time) (*explain.Explanation, error) {
	var err error
	if x.state, err = startLoading(&x.Input).wait(ctx); err != nil {
		return nil, err
	}
	last, err := x.learn(ctx)
	if err != nil {
		return nil, err
	}
	end := x.state.Summary().To
	if last.After(end) {
		end = last
	}
	if at.IsZero() {
		if at = end; at.IsZero() {
			at = time.Now()
		}
	}
	ex := x.explainer(x.setup()).Request(attrs, at)
	if end = end.UTC(); !end.IsZero() && at.After(end.Add(x.judging.Skew)) {
		ex.StateEnd = &end
		ex.Notes = append(ex.Notes, fmt.Sprintf("The state ends at %s: this answer holds only if nothing has changed between then and the request.", end.Format(time.RFC3339)))
	}
	if node, is := nodeauthz.NodeIdentity(attrs.User); is && !x.state.Nodes.Ever(node) {
		if _, covered := x.state.Nodes.Known(node, at); covered {
			note := fmt.Sprintf("The state has no Node %s, at any time", node)
			if meant := spelling.Meant(node, nodeNames(x.state)); meant != "" {
				note += ": " + meant
			} else {
				note += "."
			}
			ex.Notes = append(ex.Notes, wording.Visible(note))
		} else {
			ex.Notes = append(ex.Notes, wording.Visible(fmt.Sprintf("The state does not tell whether there is a Node %s.", node)))
		}
	}
	return ex, nil
}

// learn takes state from the logs and returns the time of their last event.
func (x *explaining) learn(ctx context.Context) (time.Time, error) {
	if len(x.Logs) == 0 {
		return time.Time{}, nil
	}
	inputs, err := file.Expand(x.Logs, x.Stdin)
	if err != nil {
		return time.Time{}, err
	}
	logs := judging.Logs{Inputs: inputs, MaxEventBytes: x.maxEventBytes(), Progress: x.Progress}
	res, err := logs.Learn(ctx, x.state)
	if err != nil {
		return time.Time{}, err
	}
	if err := errors.Join(res.Errors...); err != nil {
		return time.Time{}, err
	}
	switch {
	case res.Bytes == 0:
		return time.Time{}, optionError("Logs", "%s: the log is empty", strings.Join(x.Logs, ", "))
	case res.Counts.Read == 0:
		return time.Time{}, optionError("Logs", "no audit event in %s", strings.Join(x.Logs, ", "))
	}
	return res.Last, nil
}

// setup is what judges by the state as it is now.
func (x *explaining) setup() *judging.Setup { return judging.New(x.state, x.judging) }

// explainer explains by a state.
func (x *explaining) explainer(s *judging.Setup) *explain.Explainer {
	o := explain.Options{Node: s.Auth, Graph: s.State.Graph, RBAC: s.State.RBAC, Admission: s.Judge.Admission, Then: x.then, Window: x.Window}
	if order := x.judging.Mode.String(); order != "" {
		o.Authorizers = strings.Split(order, ",")
	}
	return explain.New(o)
}

// judged explains a judged event, and says where the state has learned better since it was judged.
func (x *explaining) judged(j *pipeline.Judgement) *explain.Explanation {
	s := x.setup()
	s.Auth = j.Authorizer() // over the same state, and of the version of the request's time
	ex := x.explainer(s).Event(j)
	if now := s.Auth.Decide(j.Attrs, j.Time); j.IsNode && now.Verdict != j.Answer.Verdict {
		ex.Notes = append(ex.Notes, fmt.Sprintf("The log tells of a change later than it was waited for: by its end the verdict would be %s.", now.Verdict))
	}
	if x.same > 1 {
		ex.Notes = append(ex.Notes, fmt.Sprintf("%s have this audit ID, which clients can choose. Shown is the first that succeeded although the Node authorizer denies it. If there is none, it is the first that succeeded, or the first of all.", wording.Plurals(int64(x.same), "request")))
	}
	if x.measured != nil {
		ex.Notes = append(ex.Notes, "The skew is "+x.measured.Words()+".")
	}
	if x.unread != nil {
		ex.Notes = append(ex.Notes, wording.Visible(fmt.Sprintf("The log was not read to its end: %v.", x.unread)))
	}
	return ex
}

// find returns the judgement of the first event, in the order of ids, that has one of the audit IDs; nil if there is none. Of several requests with one audit ID it is the
// first of the greatest weight. The logs are gone through as Analyze does, so that the verdict is the one that it gives.
func (x *explaining) find(ctx context.Context, ids []string) (*pipeline.Judgement, error) {
	p := &passage{in: &x.Input, judged: x.judging, auto: x.SkewAuto, mode: x.AuthorizationMode}
	if err := p.find(); err != nil {
		return nil, err
	}
	rank := map[string]int{}
	for i, id := range ids {
		rank[id] = i
	}
	var found *pipeline.Judgement
	best, most := len(ids), 0
	res, _, err := p.run(ctx, func(s *judging.Setup) { x.state, x.judging.Skew, x.measured = s.State, p.judged.Skew, p.measured }, func(j *pipeline.Judgement) error {
		r, ok := rank[j.Event.AuditID]
		if !ok || r > best {
			return nil
		}
		if x.same++; r < best {
			x.same = 1
		}
		if w := weight(j); r < best || w > most {
			found, best, most = keep(j), r, w
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	unread := errors.Join(res.Errors...)
	if found != nil {
		x.unread = unread // what was not read may hold what came later
		return found, nil
	}
	if unread != nil {
		return nil, unread
	}
	return x.findSkipped(ctx, p.logs, rank)
}

// keep copies a judgement, which lives no longer than the call it is given to.
func keep(j *pipeline.Judgement) *pipeline.Judgement {
	c := *j
	c.Event = j.Event.Clone()
	c.Attrs = new(audit.Attributes).Of(c.Event, j.Authorizer().Features().AuthorizeWithSelectors)
	c.Node, c.Findings = strings.Clone(j.Node), nil
	c.Observed.Decision, c.Observed.Reason = c.Event.Decision, c.Event.Reason
	return &c
}

// findSkipped looks for events that no judge is given, since no node made them; the first that tells of a response, or else the first.
func (x *explaining) findSkipped(ctx context.Context, logs judging.Logs, ids map[string]int) (*pipeline.Judgement, error) {
	logs.Inputs = slices.DeleteFunc(slices.Clone(logs.Inputs), func(in file.Input) bool { return in.Path == "-" }) // it was read already
	if len(logs.Inputs) == 0 {
		return nil, nil
	}
	var found *audit.Event
	_, err := logs.Events(ctx, func(ev *audit.Event) {
		if _, ok := ids[ev.AuditID]; ok && (found == nil || found.Stage == audit.StageRequestReceived) {
			found = ev.Clone()
		}
	})
	if err != nil || found == nil {
		return nil, err
	}
	return keep(x.setup().Judge.Judge(found)), nil
}

// ParseInstant reads a time that a state can have. None is of before 1970, or is too late to be counted in nanoseconds; the zero time means something else.
func ParseInstant(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	switch {
	case err != nil:
		return t, fmt.Errorf("%q is not a time such as 2026-11-21T06:04:19.448Z", s)
	case t.Before(time.Unix(0, 0)) || t.After(time.Unix(0, math.MaxInt64)):
		return t, fmt.Errorf("%q is not a time between 1970 and 2262: no state is of that time", s)
	}
	return t, nil
}
