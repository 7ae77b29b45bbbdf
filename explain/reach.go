package explain

import (
	"fmt"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Object says who could reach an object at any instant from `from` to `to`, by which path, and who had access through RBAC at to. A zero time bounds
// nothing; a zero `to` means that the subjects are those of the latest instant that the state knows of.
func (x *Explainer) Object(ref ObjectRef, from, to time.Time) *Reach {
	out := &Reach{Object: ref, From: wireTime(from), To: wireTime(to), Rows: []ReachRow{}, Words: []string{}, Known: true}
	kind := nodeauthz.KindOfResource(ref.APIGroup, ref.Resource)
	if kind == nodeauthz.KindNone {
		out.Words = append(out.Words, x.outsideGraph(&ref)...)
	} else {
		out.Kind = kind.String()
		r := x.o.Node.Reach(nodeauthz.Step{Kind: kind, Namespace: ref.Namespace, Name: ref.Name}, from, to, MaxNodes)
		out.More, out.Nodes, out.Known = r.MorePaths, r.Nodes, r.Missing == ""
		for i := range r.Paths {
			p := &r.Paths[i]
			out.Rows = append(out.Rows, ReachRow{
				Node: p.Steps[len(p.Steps)-1].Name, Path: *pathOf(p),
				Now: (to.IsZero() || !p.From.After(to)) && (p.To.IsZero() || !to.IsZero() && p.To.After(to)),
			})
		}
		if !out.Known {
			out.Words = append(out.Words, "Paths may be missing: "+r.Missing+".")
		}
	}
	at := to
	if at.IsZero() {
		at = farFuture
	}
	out.Subjects = x.subjects(&authorizer.AttributesRecord{
		Verb: "get", APIVersion: "v1", ResourceRequest: true, APIGroup: ref.APIGroup, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name,
	}, at)
	if !out.Subjects.Known {
		out.Words = append(out.Words, "Subjects may be missing: the state does not know all roles and bindings of then.")
	}
	return out
}

// farFuture is after all that a state knows.
var farFuture = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a value that only a call can make

// outsideGraph says who can get what is not in the graph.
func (x *Explainer) outsideGraph(ref *ObjectRef) []string {
	everybody := Request{Node: "\x00", Verb: "get", APIGroup: ref.APIGroup, Resource: ref.Resource, Namespace: ref.Namespace, Name: ref.Name}
	own := everybody
	own.Node = ref.Name
	switch {
	case x.o.Node.Decide(everybody.Attributes(), farFuture).Verdict == nodeauthz.Allow:
		return []string{"The Node authorizer lets every node get it, by a static rule."}
	case ref.Name != "" && x.o.Node.Decide(own.Attributes(), farFuture).Verdict == nodeauthz.Allow:
		return []string{fmt.Sprintf("The Node authorizer lets node %s alone get it: it is named after the node.", visible(ref.Name))}
	}
	return []string{"The Node authorizer lets no node get it."}
}
