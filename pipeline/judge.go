package pipeline

import (
	"net/http"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// Judgement is everything said of one request. It and what it points to live as long as the call it is given to.
type Judgement struct {
	rules.Request
	Findings []Finding
	// Early says that the request was judged although the state had not caught up with it. It is unknown where that could matter.
	Early bool
	node  *nodeauthz.Authorizer
	// between are the two versions that differ on the request, where it cannot be told which is the API server's.
	between [2]string
}

// Finding is a rule's finding with the rule.
type Finding struct {
	rules.Finding
	Rule *rules.Rule
}

// Reason is the reason of the re-evaluated verdict: the reference's for a deny, else empty.
func (j *Judgement) Reason() string {
	if j.Answer.Verdict == nodeauthz.Deny {
		return j.Answer.Reason
	}
	return ""
}

// Authorizer is the one that answered.
func (j *Judgement) Authorizer() *nodeauthz.Authorizer { return j.node }

// Between names the two Kubernetes versions, the older first, that differ on the request while API servers of both write the log, or between which
// the API server's lies; empty where one is known. The verdict then is a race, or unknown.
func (j *Judgement) Between() (older, newer string) { return j.between[0], j.between[1] }

// Detail names the edge that makes the verdict a race, or the state that an unknown one lacks. It searches the graph when called.
func (j *Judgement) Detail() string {
	switch {
	case j.Event.Derived && j.Answer.Verdict == nodeauthz.Unknown && selectable(j.Attrs):
		return "the log does not hold the request's selectors"
	case j.Early && j.Answer.Verdict == nodeauthz.Unknown:
		return "the state had not caught up with the request"
	case j.between[0] != "":
		return "Kubernetes " + j.between[0] + " and " + j.between[1] + " differ on the request"
	case j.Answer.Race:
		return j.node.RaceDetail(j.Attrs, j.Time)
	case j.Answer.Verdict == nodeauthz.Unknown:
		return j.node.MissingFor(j.Attrs, j.Time)
	}
	return ""
}

// Judge judges single requests. It is not safe for concurrent use: it reuses its memory.
type Judge struct {
	// Node is the authorizer with memory. Where there are Versions, it is not asked.
	Node *nodeauthz.Authorizer
	// Versions say by which version requests are judged; nil for Node's.
	Versions *Versions
	// RBAC may be nil: then what is not annotated is not known.
	RBAC *rbac.Store
	// Admission is the admission plugin NodeRestriction over the state, and Blind the same without any; nil to leave writes alone.
	Admission, Blind *nodeadmission.Admission
	// State is what rules ask; nil if there is none.
	State rules.State
	// Rules are checked in their order.
	Rules []*rules.Rule
	// Memory is what rules remember; it must not be nil.
	Memory *rules.Memory
	// Mode tells what annotations imply.
	Mode *Mode
	// Early says that the state has not caught up with the next request: what it does not know may be there.
	Early bool

	attrs   audit.Attributes
	write   nodeadmission.Request
	j       Judgement
	reasons map[string]parsedReason
}

type parsedReason struct {
	grant rbac.Grant
	ok    bool
}

// Judge returns the judgement of the request of which ev is an event. It is valid until the next call.
func (j *Judge) Judge(ev *audit.Event) *Judgement {
	out := &j.j
	u := ev.Effective()
	out.node, out.between = j.Node, [2]string{}
	out.Findings = out.Findings[:0]
	out.Request = rules.Request{Event: ev, Time: receivedAt(ev)}
	// Versions that do not hand selectors to authorizers do not have Node look at any.
	out.Attrs = j.attrs.Of(ev, j.Versions != nil || j.Node.Features().AuthorizeWithSelectors)
	out.Node, out.IsNode = nodeid.Of(u.Username, u.Groups)
	if out.IsNode {
		if j.Versions != nil {
			j.Versions.decide(out)
		} else {
			out.Answer = j.Node.Decide(out.Attrs, out.Time)
		}
		if out.Early = j.Early; j.Early && out.Answer.Verdict == nodeauthz.Deny && !out.Answer.Static {
			out.Answer = nodeauthz.Answer{Verdict: nodeauthz.Unknown}
		}
		if ev.Derived && out.Answer.Verdict == nodeauthz.Deny && selectable(out.Attrs) {
			out.Answer = nodeauthz.Answer{Verdict: nodeauthz.Unknown} // its selectors were not logged
		}
	}
	j.observe(out)
	if j.Versions != nil && out.IsNode && !j.Early && (!ev.Derived || !selectable(out.Attrs)) {
		j.Versions.observe(out, j.Mode.plain())
	}
	j.admission(out)
	j.grant(out)
	j.impersonation(out)
	out.JustGone = j.justGone(out)
	for _, r := range j.Rules {
		if r.Check == nil {
			continue
		}
		if f, found := r.Check(&out.Request, j.State, j.Memory); found {
			if ips := ev.SourceIPs; f.Severity == rules.Critical && len(ips) > 0 {
				// The last address is the connection's own; those before it are the client's claims.
				f.Params = append(f.Params[:len(f.Params):len(f.Params)], codes.Text(rules.ParamAddress, ips[len(ips)-1]))
			}
			out.Findings = append(out.Findings, Finding{Finding: f, Rule: r})
		}
	}
	return out
}

// decided reports whether enough has been seen to judge by.
func (j *Judge) decided() bool { return j.Mode.Decided() && (j.Versions == nil || j.Versions.settled) }

// selectable reports whether the Node authorizer's answer to such a request can depend on its selectors.
func selectable(a *authorizer.AttributesRecord) bool {
	switch a.Verb {
	case "list", "watch", "deletecollection":
	default:
		return false
	}
	switch a.Resource {
	case "pods", "nodes", "secrets", "configmaps", "resourceslices":
		return true
	}
	return false
}

// observe reads the apiserver's own word.
func (j *Judge) observe(out *Judgement) {
	ev, o := out.Event, &out.Observed
	o.Decision, o.Reason = ev.Decision, ev.Reason
	if o.Grant, o.HasGrant = j.parse(ev.Reason); o.HasGrant && ev.Decision != "allow" {
		o.Grant, o.HasGrant = rbac.Grant{}, false
	}
	o.Authorizer = authorizerOf(out)
	if out.IsNode {
		j.Mode.Observe(out)
		o.NodeVerdict = j.Mode.Implies(out)
	}
	switch {
	case o.Decision != "":
		out.Allowed = o.Decision == "allow"
	case o.Reason != "": // a reason without a decision is that of an authorizer which failed
	case ev.Code == 0:
		out.Open = true
	default:
		// Without the annotation a 403 may be admission's, but then nothing went through either; and a 429 comes before authorization.
		out.Allowed = ev.Code != 401 && ev.Code != 403 && ev.Code != 429
	}
}

// grant finds the RBAC grant that let the request through, when Node did not.
func (j *Judge) grant(out *Judgement) {
	out.Grant, out.HasGrant = out.Observed.Grant, out.Observed.HasGrant
	if !out.IsNode || !out.Allowed && !out.Open || j.RBAC == nil || !out.NodeDenies() {
		return
	}
	if !out.HasGrant && out.Observed.Decision == "" {
		d := j.RBAC.Authorize(out.Attrs, out.Time)
		if d.Allowed {
			out.Grant, out.HasGrant, out.Allowed = d.Grant, true, true
		}
		out.Open = out.Open && !d.Known
	}
	out.Spare = j.RBAC.AuthorizeWithout(out.Attrs, out.Time, rbac.Grant.ForNodes).Allowed
}

// untilBefore is how long before a request its object may have been on the node to count as just gone.
const untilBefore = time.Minute

// justGone reports whether the request was for what is not there, and Node allowed it until just before.
func (j *Judge) justGone(out *Judgement) bool {
	if out.Event.Code != http.StatusNotFound || !out.Allowed || !out.Attrs.ResourceRequest || !out.NodeDenies() {
		return false
	}
	for at := out.Time.Add(-untilBefore); !at.After(out.Time); at = at.Add(time.Second) {
		if j.Node.Decide(out.Attrs, at).Verdict == nodeauthz.Allow {
			return true
		}
	}
	return false
}

// parse reads an RBAC reason. The same few come again and again.
func (j *Judge) parse(reason string) (rbac.Grant, bool) {
	const most = 4096
	if len(reason) < 5 || reason[:5] != "RBAC:" {
		return rbac.Grant{}, false
	}
	if p, seen := j.reasons[reason]; seen {
		return p.grant, p.ok
	}
	reason = strings.Clone(reason) // what is parsed of it aliases it, and is kept
	p := parsedReason{}
	p.grant, p.ok = rbac.ParseReason(reason)
	if j.reasons == nil || len(j.reasons) >= most {
		j.reasons = map[string]parsedReason{}
	}
	j.reasons[reason] = p
	return p.grant, p.ok
}

// receivedAt is the request's time; what lacks it was answered soon after. The zero time of an event without any precedes all state.
func receivedAt(ev *audit.Event) time.Time {
	if ev.RequestReceived.IsZero() {
		return ev.StageTime
	}
	return ev.RequestReceived
}
