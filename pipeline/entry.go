package pipeline

import (
	"strings"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Entries makes the entry of a judgement, again and again in the same memory. Not safe for concurrent use.
type Entries struct {
	e        tally.Entry
	ambient  tally.AmbientKey
	write    tally.AdmissionKey
	disagree tally.Disagreement
	names    *resourceNames
}

// resourceNames are names of resources with their groups, made once.
type resourceNames map[groupResource]string

type groupResource struct{ resource, group string }

// Of returns what the judgement adds to a tally, but for its ID. It is good until the next call and may alias the event's memory.
func (m *Entries) Of(j *Judgement) *tally.Entry {
	e := &m.e
	*e = tally.Entry{
		Time: j.Time, IsNode: j.IsNode, Node: tally.Bounded(j.Node), Verdict: j.Answer.Verdict, Observed: j.Observed.NodeVerdict,
		Race: j.Answer.Race, Findings: e.Findings[:0],
	}
	for i := range j.Findings {
		f := &j.Findings[i]
		e.Findings = append(e.Findings, tally.Finding{
			Key: keyOf(j, f), Reason: f.Reason, Severity: f.Severity, Allowed: f.Allowed, Params: f.Params, AuditID: tally.Bounded(j.Event.AuditID),
		})
	}
	if len(j.Findings) > 0 {
		e.Origin = origin(j)
	}
	if !j.IsNode {
		return e
	}
	if j.Observed.HasGrant && j.Observed.Grant.Ambient() {
		m.ambient = tally.AmbientKey{Binding: boundedBinding(j.Observed.Grant.Binding), Verb: tally.Bounded(j.Attrs.Verb), Resource: m.resource(j)}
		e.Ambient = &m.ambient
	}
	if o := j.Admission.Outcome(j.Event.Code, j.Event.StatusMessage); o != rules.OutcomeNone {
		a := j.Attrs
		m.write = tally.AdmissionKey{Outcome: o, Missing: string(j.Admission.Missing), Verb: a.Verb}
		m.write.Resource, m.write.Subresource = nodeadmission.KindOf(a.APIGroup, a.Resource, a.Subresource)
		if o != rules.OutcomeUnknown {
			m.write.Missing = ""
		}
		e.Admission = &m.write
	}
	m.compare(e, j)
	return e
}

// origin is who made the request, from where, and how the API server answered.
func origin(j *Judgement) tally.Origin {
	ev := j.Event
	o := tally.Origin{User: ev.User.Username, Groups: ev.User.Groups, Code: ev.Code}
	if ev.IsImpersonated {
		o.Impersonated = ev.Impersonated.Username
	}
	if address, logged := ev.Address(); logged {
		o.Address = tally.Address{Address: address, Node: j.AddressNode}
	}
	return o
}

// resource is the resource with its group, or the path of a request for none.
func (m *Entries) resource(j *Judgement) string {
	a := j.Attrs
	switch {
	case !a.ResourceRequest:
		return tally.Bounded(a.Path)
	case a.APIGroup == "":
		return tally.Bounded(a.Resource)
	}
	const most = 1024 // there are a hundred resources in a cluster, and any number of names for none
	k := groupResource{a.Resource, a.APIGroup}
	if m.names == nil {
		m.names = &resourceNames{}
	}
	names := *m.names
	if s, ok := names[k]; ok {
		return s
	}
	s := tally.Bounded(a.Resource + "." + a.APIGroup)
	if names == nil || len(names) >= most {
		names = resourceNames{}
		*m.names = names
	}
	names[groupResource{strings.Clone(k.resource), strings.Clone(k.group)}] = s
	return s
}

// compare holds the verdict against the API server's.
func (m *Entries) compare(e *tally.Entry, j *Judgement) {
	ours, theirs := e.Verdict, e.Observed
	if ours == nodeauthz.Unknown || theirs == nodeauthz.NotNode {
		return
	}
	if ours == nodeauthz.Deny && theirs == nodeauthz.Deny && j.Observed.Decision == "forbid" {
		e.ReasonCompared, e.ReasonEqual = true, sameReason(j.Observed.Reason, j.Answer.Reason)
	}
	verdict := ours.String()
	switch {
	case j.Contradicted:
		verdict = nodeauthz.Allow.String() // what the two authorizers say together
	case e.Race || ours == theirs:
		e.Distance, e.HasDistance = j.RaceDistance()
		return
	}
	a := j.Attrs
	m.disagree = tally.Disagreement{
		AuditID: j.Event.AuditID, Time: j.Time, Node: j.Node, Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource,
		Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, Verdict: verdict, Observed: theirs.String(),
		Reason: j.Reason(), Unordered: j.unordered(),
	}
	e.Disagreement = &m.disagree
}

// sameReason compares Node's reason with a refusal's, in which RBAC's may follow or precede on a line of its own.
func sameReason(observed, node string) bool {
	if observed == node {
		return true
	}
	if node == "" {
		_, rest := nodeauthz.CutAuthorizer(observed)
		return strings.HasPrefix(rest, "RBAC:")
	}
	before, after, _ := strings.Cut(observed, node)
	return (before == "" || strings.HasSuffix(before, "\n")) && (after == "" || after[0] == '\n') && observed != before
}

// keyOf says to which group a finding belongs.
func keyOf(j *Judgement, f *Finding) tally.Key {
	k := tally.Key{
		Rule: f.Finding.Rule, Node: tally.Bounded(f.Subject), Product: j.Client(), Binding: boundedBinding(f.Binding),
	}
	if f.Reason == rules.OwnFailed || f.Reason == rules.OwnCostly { // about the rule, whatever the request
		return tally.Key{Rule: k.Rule, Apart: f.Apart}
	}
	if rules.ByReason(k.Rule) {
		if k.Reason, k.Apart = f.Reason, tally.Bounded(f.Apart); !rules.ByObject(f.Reason) {
			return k // what matters is who and by what, not each object that was asked for
		}
	}
	a := j.Attrs
	k.Verb, k.APIGroup, k.Resource, k.Subresource = tally.Bounded(a.Verb), tally.Bounded(a.APIGroup), tally.Bounded(a.Resource), tally.Bounded(a.Subresource)
	k.Namespace, k.Name = tally.Bounded(a.Namespace), tally.Bounded(a.Name)
	if !a.ResourceRequest {
		k.Name = tally.Bounded(a.Path)
	}
	if k.Rule == rules.ExcessAccess || k.Rule == rules.ForeignWrite {
		k.Apart = f.Apart // such as rules.JustGone or rules.WriteUnclear, or nothing
	}
	return k
}

func boundedBinding(b rbac.BindingRef) rbac.BindingRef {
	b.Kind, b.Namespace, b.Name = tally.Bounded(b.Kind), tally.Bounded(b.Namespace), tally.Bounded(b.Name)
	return b
}
