package pipeline

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// admission asks the admission plugin NodeRestriction about a node's write, and reads in the response what the API server's own plugin said.
func (j *Judge) admission(out *Judgement) {
	ev := out.Event
	if j.Admission == nil || !out.IsNode || !out.Attrs.ResourceRequest || !nodeadmission.Admits(out.Attrs.Verb) {
		return
	}
	refused := refusedBefore(ev)
	out.Admission.Observed = nodeadmission.Observe(&nodeadmission.Response{
		Verb: ev.Verb, Subresource: ev.ObjectRef.Subresource, Authorized: !refused, Code: ev.Code, Message: ev.StatusMessage,
	})
	r := &j.write
	*r = nodeadmission.Request{
		Attributes: out.Attrs, Node: out.Node, IsNode: true, Name: ev.ObjectRef.Name, Body: ev.RequestObject, Refused: refused,
		NotFound: ev.Code == 404 && out.Admission.Observed != nodeadmission.ObservedDeny, Done: out.Succeeded() || ev.Code >= http.StatusInternalServerError,
	}
	plugin := j.Admission
	if j.Early {
		plugin = j.Blind
	}
	out.Admission.Answer = plugin.Decide(r, out.Time)
	if out.Admission.Bypassed() && (plugin.PodElsewhere(r, out.Time) && rules.PassedByClock(&out.Request, j.State) || j.boundByClock(r, &out.Request)) {
		out.Admission.Race = true
	}
	r.Body, r.Attributes = nil, nil
}

// boundByClock reports whether a token or a certificate is for a pod that was on the node within [rules.ClockDoubt], and not at the time of the request.
func (j *Judge) boundByClock(w *nodeadmission.Request, r *rules.Request) bool {
	name, uid := nodeadmission.BoundPod(w)
	if uid == "" || j.State == nil {
		return false
	}
	within, now := false, false
	j.State.PodStays(r.Attrs.Namespace, name, uid, r.Time.Add(-rules.ClockDoubt), r.Time.Add(rules.ClockDoubt), func(stay *nodeauthz.Stay) {
		if stay.Node != r.Node || !stay.UIDKnown || !stay.Is {
			return
		}
		within = true
		now = now || !stay.Begin.After(r.Time) && (stay.End.IsZero() || stay.End.After(r.Time))
	})
	return within && !now
}

// refusedBefore reports whether the request did not come as far as admission: authorization refused it, or the API server before that. Where the log
// has no decision the message tells (k8s.io/apiserver/pkg/endpoints/handlers/responsewriters.Forbidden).
func refusedBefore(ev *audit.Event) bool {
	switch {
	case ev.Decision != "":
		return ev.Decision != "allow"
	case ev.Code == 401, ev.Code == 429 && ev.ObjectRef.Subresource != "eviction":
		return true
	}
	return ev.Code == 403 && strings.Contains(ev.StatusMessage, ` is forbidden: User "`) || ev.Reason != ""
}

// RoleAuthorizer is what the admission plugin asks: the API server's authorizers. The verbs that it asks for are none of those that the Node authorizer
// knows, so only RBAC may allow them.
type RoleAuthorizer struct {
	RBAC *rbac.Store
	Mode *Mode
}

// Authorize implements nodeadmission.Authorizer.
func (a *RoleAuthorizer) Authorize(attrs authorizer.Attributes, at time.Time) (allowed, known bool, err error) {
	if slices.Contains(attrs.GetUser().GetGroups(), user.SystemPrivilegedGroup) {
		return true, true, nil
	}
	d := a.RBAC.Authorize(attrs, at)
	if d.Allowed {
		return true, true, nil
	}
	return false, d.Known && !a.Mode.others(), nil
}
