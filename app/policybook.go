package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/tally"
)

// writtenBook has one event of each kind that nodes' requests left in the log: an audit policy that would not have written it is not the one in force.
// The zero value is not useful.
type writtenBook struct {
	of map[writtenKind]*writtenEvent
}

// writtenKind is a kind of event. Requests of one kind are nearly always written alike.
type writtenKind struct {
	verb, group, resource, subresource string
	stage                              audit.Stage
	system                             bool // in kube-system, which policies treat apart
}

// writtenEvent is the last event of a kind, as far as a policy looks at it.
type writtenEvent struct {
	User       string    `json:"user"`
	Groups     []string  `json:"groups"`
	Verb       string    `json:"verb"`
	APIGroup   string    `json:"apiGroup,omitempty"`
	APIVersion string    `json:"apiVersion,omitempty"`
	Resource   string    `json:"resource,omitempty"`
	Sub        string    `json:"subresource,omitempty"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name,omitempty"`
	Path       string    `json:"path,omitempty"`
	Stage      string    `json:"stage"`
	AuditID    string    `json:"auditID"`
	Last       time.Time `json:"last"`

	stored time.Time // the last that changes has handed out
}

const (
	// maxWritten bounds the kinds. Kubelets of one version make about 60 kinds of request; what is refused, which anybody can make up, is no kind.
	maxWritten = 512
	// writtenEvery is how exactly it is known which event of a kind was the last.
	writtenEvery = time.Hour
	// maxWrittenText bounds each string of an event: what is longer is not looked at.
	maxWrittenText = 512
	// rememberedWritten is the kind of memory that has them.
	rememberedWritten = "events-written"
)

func newWrittenBook() *writtenBook { return &writtenBook{of: map[writtenKind]*writtenEvent{}} }

// add takes in a judgement. It looks at requests of those who authenticated as nodes, at events as the API server wrote them.
func (b *writtenBook) add(j *pipeline.Judgement) {
	if b == nil || !j.IsNode {
		return
	}
	ev, a := j.Event, j.Attrs
	if ev.IsImpersonated || ev.Derived || ev.ReducedFrom > 0 || ev.Code == 0 || ev.Code >= 400 {
		return
	}
	k := writtenKind{a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), ev.Stage, a.GetNamespace() == "kube-system"}
	if k.resource == "" {
		k.subresource = a.GetPath()
	}
	x := b.of[k]
	if x != nil && j.Time.Sub(x.Last) < writtenEvery {
		return
	}
	if x == nil && len(b.of) >= maxWritten || !slices.Contains(ev.User.Groups, user.AllAuthenticated) {
		return // a forwarder has left groups out
	}
	n := &writtenEvent{
		User: ev.User.Username, Verb: k.verb, APIGroup: k.group, APIVersion: a.GetAPIVersion(), Resource: k.resource, Sub: a.GetSubresource(),
		Namespace: a.GetNamespace(), Name: a.GetName(), Path: a.GetPath(), Stage: ev.Stage.String(), AuditID: ev.AuditID, Last: j.Time,
	}
	for _, s := range []*string{&n.User, &n.Verb, &n.APIGroup, &n.APIVersion, &n.Resource, &n.Sub, &n.Namespace, &n.Name, &n.Path, &n.AuditID} {
		if len(*s) > maxWrittenText {
			return
		}
		*s = strings.Clone(*s)
	}
	n.Groups = audit.CloneStrings(ev.User.Groups)
	if x != nil {
		n.stored = x.stored
		*x = *n
		return
	}
	k.verb, k.group, k.resource, k.subresource = n.Verb, n.APIGroup, n.Resource, strings.Clone(k.subresource)
	b.of[k] = n
}

// changes are what has changed since it was called last, to be stored with the requests that were judged meanwhile, under the name of the book.
func (b *writtenBook) changes(name string) (out []tally.Remembered) {
	for k, x := range b.of {
		if x.Last.Equal(x.stored) {
			continue
		}
		x.stored = x.Last
		if value, err := json.Marshal(x); err == nil { // of strings and a time
			key := strings.Join([]string{name, k.verb, k.group, k.resource, k.subresource, x.Stage, fmt.Sprint(k.system)}, "\x00")
			out = append(out, tally.Remembered{Kind: rememberedWritten, Key: key, Value: value})
		}
	}
	return out
}

// storedWritten are the events of all books that were stored, from begin on. What nobody can read says nothing against a policy.
func storedWritten(stored []tally.Remembered, begin time.Time) (out []*writtenEvent) {
	for i := range stored {
		x := &writtenEvent{}
		if json.Unmarshal(stored[i].Value, x) == nil && !x.Last.Before(begin) {
			out = append(out, x)
		}
	}
	return out
}

// all are the events, from begin on.
func (b *writtenBook) all(begin time.Time) (out []*writtenEvent) {
	if b == nil {
		return nil
	}
	for _, x := range b.of {
		if !x.Last.Before(begin) {
			out = append(out, x)
		}
	}
	return out
}

// contradicted are the kinds of request of which the log has an event that the policy would not have written, by the request.
func contradicted(p *coverage.Policy, written []*writtenEvent) (out []checks.Contradiction) {
	for _, x := range written {
		line, ok := p.Writes(&authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: x.User, Groups: x.Groups}, Verb: x.Verb, APIGroup: x.APIGroup, APIVersion: x.APIVersion, Resource: x.Resource,
			Subresource: x.Sub, Namespace: x.Namespace, Name: x.Name, Path: x.Path, ResourceRequest: x.Resource != "",
		}, x.Stage)
		if ok {
			continue
		}
		c := checks.Contradiction{
			Request: requestKind(x.Verb, x.APIGroup, x.Resource, x.Sub, x.Path), AuditID: x.AuditID, At: x.Last,
		}
		if line > 0 {
			c.Line = fmt.Sprint(line)
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(x, y checks.Contradiction) int {
		return cmp.Or(strings.Compare(x.Request, y.Request), x.At.Compare(y.At), strings.Compare(x.AuditID, y.AuditID))
	})
	return out
}
