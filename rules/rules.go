package rules

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// Severity orders findings; the zero value is none.
type Severity uint8

// The severities, least first.
const (
	None Severity = iota
	Low
	Medium
	High
	Critical
)

var severityNames = [...]string{"", "low", "medium", "high", "critical"}

// SeverityNames returns the names of the severities that a finding can have, the least severe first.
func SeverityNames() []string { return slices.Clone(severityNames[Low:]) }

// String returns the severity in lower case.
func (s Severity) String() string {
	if int(s) < len(severityNames) {
		return severityNames[s]
	}
	return fmt.Sprintf("severity(%d)", uint8(s))
}

// Level is the severity in the three words that Prometheus' alerts have: critical, warning or info; "" for none.
func (s Severity) Level() string {
	switch s {
	case Critical:
		return "critical"
	case High, Medium:
		return "warning"
	case Low:
		return "info"
	}
	return ""
}

// ParseSeverity reads what String writes.
func ParseSeverity(s string) (Severity, error) {
	for i, name := range severityNames {
		if i > 0 && s == name {
			return Severity(i), nil
		}
	}
	return None, fmt.Errorf("%q is not a severity: low, medium, high or critical", s)
}

// Authorizer names whose word an observed decision is.
type Authorizer string

// The authorizers that an annotation can point to.
const (
	ByNobody Authorizer = ""
	ByNode   Authorizer = "node"
	ByRBAC   Authorizer = "rbac"
	ByOther  Authorizer = "other"
)

// Observed is the API server's own word on a request, from its annotations.
type Observed struct {
	// Decision is "allow", "forbid", or empty where the event has no annotation.
	Decision string
	// Authorizer is whose reason it is.
	Authorizer Authorizer
	// NodeVerdict is what the annotations imply the Node authorizer said: Allow, Deny, or NotNode where they imply nothing.
	NodeVerdict nodeauthz.Verdict
	Reason      string
	// Grant is what an RBAC reason names; HasGrant says whether there is one.
	Grant    rbac.Grant
	HasGrant bool
}

// Request is one judged request. A rule must not keep it or its strings: they live as long as the call.
type Request struct {
	Event *audit.Event
	Attrs *authorizer.AttributesRecord
	Time  time.Time
	// Node is the node's name when IsNode, which needs the name and the group, both.
	Node   string
	IsNode bool
	// Answer is the re-evaluated verdict.
	Answer   nodeauthz.Answer
	Observed Observed
	// Admission is about the admission plugin NodeRestriction, for writes of nodes.
	Admission Admission
	// Allowed is true when the request passed authorization, as far as the event tells.
	Allowed bool
	// Open is true when the log does not hold how the request ended, nor does the state tell whether RBAC lets it through.
	Open bool
	// Grant is the RBAC grant that let it through: the observed one, else the re-evaluated; but one of kubeadm's or k0s's that stays where that gives the same.
	// HasGrant says whether one is known.
	Grant    rbac.Grant
	HasGrant bool
	// Impersonator is the node that acts as somebody else, else empty. Grant and Spare are then those of the impersonation. A node that may act as
	// another one without a binding for nodes is none.
	Impersonator string
	// JustGone is true where the object was not there (404), where the API server failed (Failed), or where the request is one that a kubelet makes again (Rereads), and
	// the Node authorizer allowed the same request at some instant of the minute before.
	JustGone bool
	// Contested is true when the API server allowed the request without a reason, as its Node authorizer does, and the state leads the node to no such object
	// within [ClockDoubt] of it: the state lacks something, or another authorizer allowed it. Elsewhere says that the state leads another node to the object then,
	// Unused that it leads none there, and this node at no time, though all pods were watched: then it lacks nothing.
	Contested, Elsewhere, Unused bool
	// Unnamed is true when the log has no user agents: that the request has none says nothing of its client.
	Unnamed bool
	// Spare is true when RBAC would allow the request without any binding for nodes too, such as one for all authenticated users.
	Spare bool

	client  string // what Client returns, once asked says that it was called
	asked   bool
	signing *signingRead // nil before Signing is called
	object  uint64       // idOf an observation that was cut; 0 for none
}

// NodeDenies reports whether the Node authorizer denies the request beyond doubt: by the API server's own word where there is one,
// else by the re-evaluated verdict, and never in a race.
func (r *Request) NodeDenies() bool {
	if !r.IsNode || r.Answer.Race {
		return false
	}
	if v := r.Observed.NodeVerdict; v == nodeauthz.Allow || v == nodeauthz.Deny {
		return v == nodeauthz.Deny
	}
	return r.Answer.Verdict == nodeauthz.Deny
}

// lags reports whether the API server's Node authorizer denied what the state had long allowed the node: the object belongs to the node.
func (r *Request) lags() bool { return r.Answer.Verdict == nodeauthz.Allow && !r.Answer.Race }

// refusedForGood reports whether the request was refused, and the Node authorizer denies it and does not lag.
func (r *Request) refusedForGood() bool { return !r.Allowed && !r.Open && r.NodeDenies() && !r.lags() }

// Succeeded reports whether the request was carried out: it passed authorization, admission and the handler.
func (r *Request) Succeeded() bool {
	code := r.Event.Code
	return r.Allowed && (code == 0 || code < 300)
}

// Fruitless reports whether the request passed authorization and then failed: the object was not there, or admission
// refused it. Without the permission the client would have had a refusal instead, and no less. The answer of a proxied backend says nothing of that.
func (r *Request) Fruitless() bool {
	return r.Allowed && r.Attrs.Subresource != "proxy" && (r.Event.Code == http.StatusNotFound || r.Event.Code == http.StatusForbidden && r.Admitted() && !r.refusedForNow())
}

// Failed reports whether the API server failed (5xx), was too busy to answer (429), or refused the request for now, so that the client has nothing of the request
// and makes it again.
func (r *Request) Failed() bool {
	return r.Event.Code == http.StatusTooManyRequests || r.Event.Code >= http.StatusInternalServerError || r.refusedForNow()
}

// Unasked reports whether the API server was too busy (429) to ask its authorizers. The client asks again for what it would have been allowed.
func (r *Request) Unasked() bool {
	return r.Event.Code == http.StatusTooManyRequests && r.Observed.Decision == "" && !r.Answer.Race
}

// refusedForNow reports whether admission refused the request for what passes: a quota that is used up (k8s.io/apiserver/pkg/admission/plugin/resourcequota), or
// a namespace that is deleted and may be made again (k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle).
func (r *Request) refusedForNow() bool {
	const quota, terminating = "exceeded quota: ", "because it is being terminated"
	message := r.Event.StatusMessage
	return r.Allowed && r.Event.Code == http.StatusForbidden && r.Admitted() && (strings.Contains(message, quota) || strings.Contains(message, terminating))
}

// Rereads reports whether the request succeeded and is one that a kubelet makes again for what its pods have already: a list or a watch, or a get of a claim or
// a volume, which each sync of a pod makes (pkg/kubelet/volumemanager/populator, getPVCExtractPV and getPVSpec).
func (r *Request) Rereads() bool {
	a := r.Attrs
	volume := a.APIGroup == "" && a.Subresource == "" && (a.Resource == "persistentvolumeclaims" || a.Resource == "persistentvolumes")
	return r.Succeeded() && (a.Verb == "list" || a.Verb == "watch" || a.Verb == "get" && volume)
}

// Admitted reports whether the API server asks admission about such a request. It does not ask about reads: a read that passes authorization and ends with 403
// was refused by a backend, such as an aggregated API server.
func (r *Request) Admitted() bool {
	switch r.Attrs.Subresource {
	case "exec", "attach", "portforward", "proxy":
		return true
	}
	return nodeadmission.Admits(r.Attrs.Verb)
}

// State answers what rules ask about the cluster. It is satisfied by nodetrail's cluster state.
type State interface {
	// NodeRegistered says whether the cluster has had a Node of that name around t, and whether the state can know.
	NodeRegistered(name string, t time.Time) (registered, known bool)
	// SimilarNode returns the name of a Node that differs from name only by letter case or by a domain, and which of both: NameLetterCase or
	// NameDomain. It is "" if there is none.
	SimilarNode(name string, t time.Time) (similar string, how Reason)
	// NodeCreatedBetween says whether a Node of that name was created anew in the interval.
	NodeCreatedBetween(name string, from, to time.Time) bool
	// PodNode returns the node that had the pod at t.
	PodNode(namespace, name string, t time.Time) (node string, ok bool)
	// PodWasOn says whether a pod of that name was on the node at some instant from `from` to `to`.
	PodWasOn(namespace, name, node string, from, to time.Time) bool
	// PodStays calls f with each stay of a pod of that name on a node at some instant from `from` to `to`. uid is compared with the pods'; it may be empty.
	PodStays(namespace, name, uid string, from, to time.Time, f func(*nodeauthz.Stay))
	// PodOnNode judges whether the pod was on the node at t.
	PodOnNode(namespace, name, node string, t time.Time) nodeauthz.Answer
	// Leads says whether the Node authorizer allows a node of that name such a request at any time within [ClockDoubt] of t, as far as the state tells.
	Leads(a *authorizer.AttributesRecord, node string, t time.Time) bool
	// Had is Leads for what a kubelet knew when it heard of the cluster last: where the Node is silent at t, or was within [ClockDoubt] before, it goes back to
	// [ClockDoubt] before that.
	Had(a *authorizer.AttributesRecord, node string, t time.Time) bool
	// HadPod says whether a pod of that name was on the node at t, or as far back as Had goes.
	HadPod(namespace, name, node string, t time.Time) bool
	// HadPodIn says whether a pod of the namespace was on the node at some instant by t.
	HadPodIn(namespace, node string, t time.Time) bool
	// SilentSince is since when the Node has been silent that is so at t, or was within [ClockDoubt] before; zero if it was not.
	SilentSince(node string, t time.Time) time.Time
	// NodeExists says whether there was a Node object of that name at t, and whether the state can know.
	NodeExists(name string, t time.Time) (exists, known bool)
	// PodsWatched says whether a watch shows each pod that there was at t, in all namespaces, and each persistent volume that leads to a secret.
	PodsWatched(t time.Time) bool
	// NodeAddresses are the addresses and host names that a Node of that name had at any time; empty where the state does not tell.
	NodeAddresses(name string) []string
	// NodeAddressSets are the addresses and host names that a Node of that name had at once, the latest last; empty where the state does not tell. But for the
	// first ones, those that it had for less than ten minutes by t are left out: whoever holds the node's credential can write them. With the zero time those are
	// left out that it had for less than ten minutes and has no more. First ones that the Node had no longer than that do not count together, see
	// cluster.Nodes.AddressSets.
	NodeAddressSets(name string, t time.Time) [][]string
	// AddressesKnown says whether the state covers the addresses that Nodes had at t.
	AddressesKnown(t time.Time) bool
	// NodeAt returns the node that has the address, at any time; "" if none has it, or several.
	NodeAt(address string) string
	// NodesWith are the Nodes that existed at t and had the address or the host name by then, for ten minutes or from the first; the one that has had it for longest first.
	NodesWith(address string, t time.Time) []string
	// OnlyPulls says whether pods name a secret, which cannot be there by that name, as an image pull secret, and no pod names it otherwise.
	OnlyPulls(namespace, name string) bool
	// FreshSecret returns a secret (namespace/name) to which the pod alone led the node when it was bound, and when that was. ok is false if there is
	// none, or if the pod was not on the node at t.
	FreshSecret(namespace, pod, node string, t time.Time) (secret string, bound time.Time, ok bool)
}

// Finding is something worth telling, as data: package wording makes a sentence of it. Its strings live as long as the request.
type Finding struct {
	Rule string
	// Reason is one of the rule's Reasons.
	Reason   Reason
	Severity Severity
	// Subject is the node's name, or for identities that are no node the user name.
	Subject string
	// Apart tells findings apart that have rule, subject, object and reason in common, such as the second address. It is no text for people.
	Apart string
	// Params are what the reason is about, in addition to what the request tells.
	Params codes.Params
	// Allowed says whether the request passed.
	Allowed bool
	// Binding is set where an RBAC binding is to blame.
	Binding rbac.BindingRef
}

// Rule is one rule.
type Rule struct {
	// Name is stable: a metric label, an alert name, a configuration key.
	Name string
	// Severity is the highest that its findings have.
	Severity Severity
	// Reasons are all that its findings can have.
	Reasons []ReasonDoc
	// Doc is the text of the rule's page, from which [Page] makes it; what comes before the first blank line is its title.
	Doc string
	// Check looks at one request and reports whether it has found something, which it then puts into f; else f may hold anything. Check is nil where a
	// single request never shows what the rule is about.
	Check func(r *Request, s State, m *Memory, f *Finding) bool
	// NewDetector makes what finds in several requests together what none shows alone; nil if there is no such thing.
	NewDetector func(DetectorOptions) Detector
}

// Find is Check for a rule that may have none. It returns no finding where there is none.
func (r *Rule) Find(q *Request, s State, m *Memory) (f Finding, found bool) {
	if r.Check != nil && r.Check(q, s, m, &f) {
		return f, true
	}
	return Finding{}, false
}

// Title is the first paragraph of the Doc.
func (r *Rule) Title() string {
	title, _, _ := strings.Cut(r.Doc, "\n\n")
	return strings.ReplaceAll(title, "\n", " ")
}

// Runbook is the path of the rule's page in the repository; those of users share one.
func (r *Rule) Runbook() string {
	if !BuiltIn(r.Name) {
		return OwnPage
	}
	return "docs/rules/" + r.Name + ".md"
}

// All returns the rules in the order in which a report lists them.
func All() []*Rule {
	return []*Rule{
		rbacExcessAccess(), outOfScopeSecretRead(), nodeIdentity(), nodeCredentialMisuse(), foreignNodeWrite(), oversizedRequest(), authorizerLag(),
		nodeDenySpike(), persistentNodeDeny(), secretEnumeration(), auditCoverageGap(), restrictionBypass(),
		bootstrapImpersonation(), bootstrapTokenMisuse(), nodeOtherGrant(),
	}
}

// Names returns the names of the rules, in the order of [All].
func Names() []string {
	var names []string
	for _, r := range All() {
		names = append(names, r.Name)
	}
	return names
}

// Product is the user agent's first word without the version, as in "calico-node/v3.20.0 (linux)", bounded in length.
func Product(userAgent string) string {
	userAgent, _, _ = strings.Cut(userAgent, "/")
	userAgent, _, _ = strings.Cut(userAgent, " ")
	return cut(userAgent, 64)
}

// Client is what the client calls itself, without the version (see [Product]). It is found once: the first call is not safe for concurrent use.
func (r *Request) Client() string {
	if !r.asked {
		r.client, r.asked = Product(r.Event.UserAgent), true
	}
	return r.client
}

// product is what the client calls itself, without the version; a kubelet's name where the log does not tell.
func (r *Request) product() string {
	if r.Unnamed {
		return "kubelet"
	}
	return r.Client()
}

// ParamName is the key of an object's name that the request does not have: on create it is in the body.
const ParamName = "name"

// created is the name that only the body of a create tells.
func created(r *Request) codes.Params {
	a := r.Attrs
	if a.Name != "" || !a.ResourceRequest || r.Event.ObjectRef.Name == "" {
		return nil
	}
	switch a.Verb {
	case "list", "watch", "deletecollection":
		return nil
	}
	return codes.Params{codes.Text(ParamName, r.Event.ObjectRef.Name)}
}
