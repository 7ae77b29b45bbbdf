package rules

import (
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// OversizedRequest is the name of the rule on requests that are too long to come from a kubelet.
const OversizedRequest = "oversized-request"

// The reasons of the rule oversized-request.
const (
	EventTooLong     Reason = "event-too-long"
	BodyCut          Reason = "body-cut"
	RequestCut       Reason = "request-cut"
	FieldTooLong     Reason = "field-too-long"
	TooManyAddresses Reason = "too-many-addresses"
)

// WriteTooLong is the Apart of the finding on a node's write that succeeded, and of which NodeRestriction reads the body, in an event that is too long to be read.
const WriteTooLong = "write"

// What no kubelet sends. Names have at most 253 characters; the longest URI of a kubelet has a name in its path and another in a field selector.
const (
	longestField  = 8 << 10 // bytes of the URI or the user agent
	mostAddresses = 32      // in X-Forwarded-For
)

func oversizedRequest() *Rule {
	return &Rule{
		Name:     OversizedRequest,
		Severity: High,
		Reasons: []ReasonDoc{
			{Reason: EventTooLong, Doc: "the request's audit event is longer than the bound, not by its response alone, and was judged from its fields"},
			{Reason: BodyCut, Doc: "the API server cut the body of a write that NodeRestriction decides by its body (medium)"},
			{Reason: RequestCut, Doc: "the API server cut the body of a request for a certificate, so that it may be for any node (high)"},
			{Reason: FieldTooLong, Doc: "the URI or the user agent has more than 8 KiB"},
			{Reason: TooManyAddresses, Doc: "the request names more than 32 addresses in X-Forwarded-For"},
		},
		Doc: `A node sends a request that is too long to come from a kubelet

## What
The rule flags a request with a node's identity, or with a bootstrap token, in these cases:

- The URI or the user agent has more than 8 KiB.
- The request names more than 32 addresses that it was forwarded from.
- The audit event is longer than the bound of an event ('--max-event-bytes', 'maxEventBytes'), also without the body of the response.
- The request is a write that succeeded, and the API server cut off its body because the event was too long (the annotation
  'audit.k8s.io/truncated'). It is not known what NodeRestriction decides about this write (medium).
- The request asks for a certificate and succeeded, and its body is not in the log because the event was too long (high). This applies to
  any user who is not in 'bootstrap.trusted'. The certificate may be for any node.

The request is judged anyway: by its path, the parameters that the authorizer reads, and its last address. Other findings name what it did.
Of an event that is longer than the bound, nodetrail does not read the body of the response, nor that of the request if it has more than
8 KiB. If such a request asks for a certificate, it is not known for which node.

An event that is too long only because of the response is judged in the same way and is no finding, such as a list of thousands of Services
that is logged at the level RequestResponse. This needs that nothing else of the event is left out or cut off: no text or body of the
request has more than 8 KiB, and it names at most 16 addresses.

## Why
A client chooses the length of its requests. A URI of one megabyte makes an audit event of six megabytes. The API server drops this event if
'--audit-webhook-truncate-max-event-size' is smaller, and other tools refuse it. Somebody with a stolen credential can hide a request in
this way. No kubelet sends such requests. But the status of a pod that a kubelet reports can be so long that an API server with a low bound
cuts it off.

## What to do
Look at the other findings of the same node, and at the address that the request came from. Find out what used the node's credential, and
rotate it. Check whether the API server dropped events: 'apiserver_audit_error_total' with the plugin "truncate" counts them, and nodetrail
reports them as gaps if 'apiserverMetrics' is configured.

## False positives
A program on the node uses the kubelet's credential, and lists with a very long label selector. Give it a service account.

An audit event of a kubelet's request for a certificate has about 3 KB. If the API server cuts shorter events than that, each request for a
certificate is flagged. Raise that bound.

## How to silence it
Run with '--disable oversized-request'.`,
		Check: checkOversized,
	}
}

func checkOversized(r *Request, _ State, m *Memory, f *Finding) bool {
	subject := r.Node
	if subject == "" {
		subject = r.Impersonator
	}
	if name := r.Event.Effective().Username; subject == "" && strings.HasPrefix(name, audit.BootstrapUserPrefix) {
		subject = name
	} else if subject == "" || !r.IsNode && r.Impersonator == "" {
		return requestCut(r, m, f)
	}
	ev := r.Event
	of := func(reason Reason, about codes.Param) bool {
		*f = Finding{Rule: OversizedRequest, Reason: reason, Severity: High, Subject: subject, Allowed: r.Allowed, Params: codes.Params{about}}
		return true
	}
	longest := max(len(ev.RequestURI), len(ev.UserAgent))
	switch {
	case ev.ReducedFrom > 0 && ev.ResponseBytes == 0:
		of(EventTooLong, codes.Int(ParamBytes, ev.ReducedFrom))
		if a := r.Attrs; r.IsNode && r.Succeeded() && a.ResourceRequest && nodeadmission.ReadsBody(a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Name) && !pretends(r) {
			f.Apart = WriteTooLong
		}
		return true
	case ev.Cut && requestCut(r, m, f):
		return true
	case ev.Cut && r.Succeeded() && r.Admission.Verdict == nodeadmission.Unknown && !pretends(r):
		*f = Finding{Rule: OversizedRequest, Reason: BodyCut, Severity: Medium, Subject: subject, Allowed: r.Allowed}
		return true
	case longest > longestField:
		return of(FieldTooLong, codes.Int(ParamBytes, int64(longest)))
	case len(ev.SourceIPs) > mostAddresses:
		return of(TooManyAddresses, codes.Int(ParamCount, int64(len(ev.SourceIPs))))
	}
	return false
}

// requestCut finds a request for a certificate whose body was too long for the log. Who asks chooses its length. The objects of kubelets and of others have a few KB.
func requestCut(r *Request, m *Memory, f *Finding) bool {
	if !asksWithoutBody(r) || !r.Succeeded() || pretends(r) {
		return false
	}
	by := r.Event.User.Username
	if s, _ := r.Signing(); !s.Cut || slices.Contains(m.Bootstrap.Trusted, by) {
		return false
	}
	*f = Finding{Rule: OversizedRequest, Reason: RequestCut, Severity: High, Subject: plainNode(by), Allowed: r.Allowed, Params: codes.Params{codes.Text(ParamUser, by)}}
	if r.IsNode {
		f.Apart = WriteTooLong
	}
	return true
}

// pretends reports whether a request changes nothing by its own wish. The API server issues a token for a dry run, too
// (k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage/token.go).
func pretends(r *Request) bool {
	a := r.Attrs
	return DryRun(r.Event) && (a.APIGroup != "" || a.Resource != "serviceaccounts" || a.Subresource != "token")
}
