package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// DefaultWindow is how far before and after a request its history goes.
const DefaultWindow = 10 * time.Minute

// Options are what an Explainer is made from.
type Options struct {
	// Node is the authorizer over Graph.
	Node  *nodeauthz.Authorizer
	Graph *nodeauthz.Graph
	RBAC  *rbac.Store
	// Admission is the plugin NodeRestriction over the same state; nil to leave it out for requests that nobody made.
	Admission *nodeadmission.Admission
	// Authorizers are the API server's, in their order, as in Node,RBAC; Node,RBAC where there are none.
	Authorizers []string
	// Then are those that the cluster will run when bindings go, nil for the same; with Node before RBAC where Node is not among them.
	Then []string
	// Window is how far before and after a request its history goes, DefaultWindow if zero.
	Window time.Duration
	// StateEnd is when the state ends, if that is before the end of the time that [Explainer.Node] is asked about; zero otherwise.
	StateEnd time.Time
	// Until is the end of that time where it is open: of the logs, or of the state. Zero bounds nothing.
	Until time.Time
}

// Explainer explains requests and objects. It holds no state of its own, and may be used concurrently and while the state changes.
type Explainer struct{ o Options }

// New returns an Explainer.
func New(o Options) *Explainer {
	if len(o.Authorizers) == 0 {
		o.Authorizers = []string{"Node", "RBAC"}
	}
	if o.Then == nil {
		o.Then = []string{"Node", "RBAC"}
		if slices.Contains(o.Authorizers, "Node") {
			o.Then = o.Authorizers
		}
	}
	if o.Window <= 0 {
		o.Window = DefaultWindow
	}
	return &Explainer{o: o}
}

// Attributes is the request as the authorizer is asked about it: of the node, or of User and Groups where Node is empty. An empty Groups
// of a node's means those that nodes have. The selector is FIELD=VALUE[,...]; one that is not counts as none.
func (r *Request) Attributes() *authorizer.AttributesRecord {
	u := &user.DefaultInfo{Name: r.User, Groups: r.Groups}
	if r.Node != "" {
		u.Name = nodeid.UserPrefix + r.Node
		if len(u.Groups) == 0 {
			u.Groups = []string{user.NodesGroup, user.AllAuthenticated}
		}
	}
	a := &authorizer.AttributesRecord{User: u, Verb: r.Verb, APIVersion: "v1"}
	if r.Resource == "" && r.Path != "" {
		a.Path = r.Path
		return a
	}
	a.ResourceRequest, a.APIGroup, a.Resource, a.Subresource = true, r.APIGroup, r.Resource, r.Subresource
	a.Namespace, a.Name = r.Namespace, r.Name
	setSelector(a, r.FieldSelector)
	return a
}

// Request explains a request that may never have been made, as of at.
func (x *Explainer) Request(attrs *authorizer.AttributesRecord, at time.Time) *Explanation {
	return x.explain(judgementOf(attrs, at), false)
}

// judgementOf is of a request that nobody made.
func judgementOf(attrs *authorizer.AttributesRecord, at time.Time) *pipeline.Judgement {
	j := &pipeline.Judgement{Request: rules.Request{Event: eventOf(attrs), Attrs: attrs, Time: at}}
	j.Node, j.IsNode = nodeauthz.NodeIdentity(attrs.User)
	return j
}

// Event explains the request of a judged event, by the API server's own word where the event has it. It keeps nothing of the judgement.
func (x *Explainer) Event(j *pipeline.Judgement) *Explanation {
	out := x.explain(j, true)
	ev, o := j.Event, &j.Observed
	out.Event = &Event{
		AuditID: strings.Clone(ev.AuditID), UserAgent: strings.Clone(ev.UserAgent), SourceIPs: append([]string{}, audit.CloneStrings(ev.SourceIPs)...), Code: ev.Code,
		Decision: strings.Clone(o.Decision), Reason: strings.Clone(o.Reason), Authorizer: string(o.Authorizer),
	}
	if o.NodeVerdict == nodeauthz.Allow || o.NodeVerdict == nodeauthz.Deny {
		out.Event.NodeVerdict = o.NodeVerdict.String()
	}
	if ev.IsImpersonated {
		out.Notes = slices.Insert(out.Notes, 0, wording.Visible(fmt.Sprintf("User %q made the request, by impersonation of user %q.", ev.User.Username, ev.Impersonated.Username)))
	}
	return out
}

// explain does what both have in common; made is whether anybody made the request.
func (x *Explainer) explain(j *pipeline.Judgement, made bool) *Explanation {
	ev := x.o.Node.Evidence(j.Attrs, j.Time, nodeauthz.Limits{Window: x.o.Window, Nodes: MaxNodes, Changes: MaxChanges})
	answer := ev.Answer
	if made {
		answer = j.Answer
	}
	out := &Explanation{
		Request: requestOf(j), At: wireTime(j.Time), Verdict: verdictOf(answer.Verdict), Race: answer.Race, Static: answer.Static,
		Path: pathOf(ev.Path), Last: pathOf(ev.Last), Next: pathOf(ev.Next), Words: []string{}, Notes: []string{},
	}
	if answer.Verdict == nodeauthz.Deny {
		out.Reason = strings.Clone(answer.Reason)
	}
	switch {
	case answer.Verdict == ev.Verdict && answer.Race == ev.Race:
		out.Detail = ev.Detail
	case answer.Verdict == nodeauthz.Unknown && (j.Early || j.Event.Derived):
		out.Detail = j.Detail()
	}
	if ev.Object != nil {
		s := stepOf(*ev.Object)
		out.Object = &s
	}
	out.Others = othersOf(&ev)
	out.History = x.history(&ev, j)
	out.RBAC = x.rbac(j)
	out.Subjects = x.subjects(j.Attrs, j.Time)
	out.NodeRestriction = x.restriction(j, made)
	if !made {
		j.Answer = answer
		j.Allowed = x.passes(answer, out.RBAC.Allowed)
		if j.Event.Code, j.Observed.Decision = 403, "forbid"; j.Allowed {
			j.Event.Code, j.Observed.Decision = 200, "allow"
		}
	}
	out.Consequences = x.consequences(j, out, made)
	out.Words = out.words()
	out.Summary = x.summary(out)
	return out
}

// passes tells whether the API server lets through a request that nobody made.
func (x *Explainer) passes(answer nodeauthz.Answer, byRBAC bool) bool {
	return byRBAC && slices.Contains(x.o.Authorizers, "RBAC") ||
		answer.Verdict == nodeauthz.Allow && slices.Contains(x.o.Authorizers, "Node")
}

// eventOf is an event of a request that nobody made.
func eventOf(attrs *authorizer.AttributesRecord) *audit.Event {
	ev := &audit.Event{Verb: attrs.Verb}
	if attrs.User != nil {
		ev.User.Username, ev.User.Groups = attrs.User.GetName(), attrs.User.GetGroups()
	}
	return ev
}

func requestOf(j *pipeline.Judgement) Request {
	a := j.Attrs
	r := Request{
		Verb: strings.Clone(a.Verb), APIGroup: strings.Clone(a.APIGroup), Resource: strings.Clone(a.Resource), Subresource: strings.Clone(a.Subresource),
		Namespace: strings.Clone(a.Namespace), Name: strings.Clone(a.Name), Groups: []string{},
	}
	if j.IsNode {
		r.Node = strings.Clone(j.Node)
	}
	if a.User != nil {
		r.User, r.Groups = strings.Clone(a.User.GetName()), append(r.Groups, audit.CloneStrings(a.User.GetGroups())...)
	}
	if !a.ResourceRequest {
		r.Path = strings.Clone(a.Path)
	}
	for i, req := range a.FieldSelectorRequirements {
		if i > 0 {
			r.FieldSelector += ","
		}
		op := "="
		if req.Operator == selection.NotEquals {
			op = "!="
		}
		r.FieldSelector += req.Field + op + req.Value
	}
	return r
}

func verdictOf(v nodeauthz.Verdict) string {
	if v == nodeauthz.NotNode {
		return "none"
	}
	return v.String()
}

func stepOf(s nodeauthz.Step) Step {
	kind := s.Kind.String()
	if s.Kind == nodeauthz.KindNone {
		kind = nodeKind
	}
	return Step{Kind: kind, Namespace: strings.Clone(s.Namespace), Name: strings.Clone(s.Name)} // the object is as the request names it
}

const nodeKind = "node"

func stepsOf(steps []nodeauthz.Step) []Step {
	out := make([]Step, len(steps))
	for i, s := range steps {
		out[i] = stepOf(s)
	}
	return out
}

func pathOf(p *nodeauthz.Path) *Path {
	if p == nil {
		return nil
	}
	return &Path{Steps: stepsOf(p.Steps), From: optional(p.From), To: optional(p.To)}
}

func othersOf(ev *nodeauthz.Evidence) Others {
	out := Others{Nodes: make([]NodePath, 0, len(ev.Others)), More: ev.MoreOthers, Known: ev.Missing == ""}
	for i := range ev.Others {
		o := &ev.Others[i]
		out.Nodes = append(out.Nodes, NodePath{Node: o.Node, Path: *pathOf(&o.Path), Paths: o.Paths})
	}
	return out
}

// optional is nil for the zero time.
func optional(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = wireTime(t)
	return &t
}

// wireTime keeps a time within the years that JSON has, in UTC.
func wireTime(t time.Time) time.Time {
	t = t.UTC()
	switch y := t.Year(); {
	case y > 9999:
		return time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	case y < 0:
		return time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return t
}
