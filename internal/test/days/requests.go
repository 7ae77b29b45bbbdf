package days

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// client is who sends requests, over which connection.
type client struct {
	user   *User
	agent  string
	ips    []string
	server int
	// reason is the annotation on what it is allowed: empty for the node authorizer and for system:masters.
	reason string
}

// apiResource is what a request is about: a Ref without the names, and the path before the resource.
type apiResource struct{ group, version, name string }

// The resources that the simulated clients use.
var (
	resPods        = apiResource{"", "v1", "pods"}
	resNodes       = apiResource{"", "v1", "nodes"}
	resServices    = apiResource{"", "v1", "services"}
	resSecrets     = apiResource{"", "v1", "secrets"}
	resConfigMaps  = apiResource{"", "v1", "configmaps"}
	resClaims      = apiResource{"", "v1", "persistentvolumeclaims"}
	resVolumes     = apiResource{"", "v1", "persistentvolumes"}
	resEvents      = apiResource{"", "v1", "events"}
	resAccounts    = apiResource{"", "v1", "serviceaccounts"}
	resLeases      = apiResource{"coordination.k8s.io", "v1", "leases"}
	resAttachments = apiResource{"storage.k8s.io", "v1", "volumeattachments"}
	resCSINodes    = apiResource{"storage.k8s.io", "v1", "csinodes"}
	resCSIDrivers  = apiResource{"storage.k8s.io", "v1", "csidrivers"}
	resClasses     = apiResource{"node.k8s.io", "v1", "runtimeclasses"}
	resCSRs        = apiResource{"certificates.k8s.io", "v1", "certificatesigningrequests"}
	resPodCerts    = apiResource{"certificates.k8s.io", "v1", "podcertificaterequests"}
	resAccess      = apiResource{"authorization.k8s.io", "v1", "subjectaccessreviews"}
	resTokenReview = apiResource{"authentication.k8s.io", "v1", "tokenreviews"}
)

// path is the URI without its query.
func (r apiResource) path(namespace, name, sub string) string {
	var b strings.Builder
	if r.group == "" {
		b.WriteString("/api/v1")
	} else {
		b.WriteString("/apis/" + r.group + "/" + r.version)
	}
	if namespace != "" {
		b.WriteString("/namespaces/" + namespace)
	}
	b.WriteString("/" + r.name)
	for _, part := range [...]string{name, sub} {
		if part != "" {
			b.WriteString("/" + part)
		}
	}
	return b.String()
}

// request makes the event of a finished request of level Metadata, and keeps it. On create, name is what the API server reads from the body, and
// stands in objectRef alone.
func (s *sim) request(c *client, at time.Time, verb string, r apiResource, namespace, name, sub, query string, code int) *Event {
	inPath := name
	if verb == "create" && sub == "" {
		inPath = ""
	}
	uri := r.path(namespace, inPath, sub)
	if query != "" {
		uri += "?" + query
	}
	return s.keep(c, at, verb, uri, &Ref{
		Group: r.group, Version: r.version, Resource: r.name, Subresource: sub, Namespace: namespace, Name: name,
	}, code)
}

func (s *sim) keep(c *client, at time.Time, verb, uri string, ref *Ref, code int) *Event {
	e := &Event{
		Level: LevelMetadata, Stage: StageComplete, Verb: verb, URI: uri, User: c.user, SourceIPs: c.ips, UserAgent: c.agent, Ref: ref, Code: code,
		Received: at, Staged: at.Add(s.some(400*time.Microsecond, 4*milli)), Decision: "allow", DecisionReason: c.reason, Server: c.server,
	}
	if code >= 400 {
		e.fail(code)
	}
	return s.log(e)
}

// log keeps an event if it is of the day.
func (s *sim) log(e *Event) *Event {
	if !e.Staged.Before(s.from) && e.Staged.Before(s.to) {
		e.AuditID = uuid(s.Rand)
		s.events = append(s.events, e)
	}
	return e
}

// fail fills in what the API server answers with a code.
func (e *Event) fail(code int) {
	kind, name := "", ""
	if e.Ref != nil {
		kind, name = e.Ref.Resource, e.Ref.Name
		if e.Ref.Group != "" {
			kind += "." + e.Ref.Group
		}
	}
	e.Code = code
	switch code {
	case 404:
		e.Reason, e.Message = "NotFound", fmt.Sprintf("%s %q not found", kind, name)
		if name == "" {
			e.Message = "the server could not find the requested resource"
		}
	case 409:
		e.Reason, e.Message = "AlreadyExists", fmt.Sprintf("%s %q already exists", kind, name)
	case 403:
		if e.Ref == nil {
			e.Reason, e.Message = "Forbidden", fmt.Sprintf("forbidden: User %q cannot %s path %q", e.User.Username, e.Verb, e.URI)
			return
		}
		e.Reason, e.Message = "Forbidden", fmt.Sprintf("%s %q is forbidden: User %q cannot %s resource %q in API group %q", kind, name,
			e.User.Username, e.Verb, e.Ref.Resource, e.Ref.Group)
		if e.Ref.Namespace != "" {
			e.Message += fmt.Sprintf(" in the namespace %q", e.Ref.Namespace)
		} else {
			e.Message += " at the cluster scope"
		}
		if e.DecisionReason != "" {
			e.Message += ": " + e.DecisionReason
		}
	default:
		e.Reason, e.Message = "InternalError", fmt.Sprintf("an error on the server (%d) has prevented the request from succeeding", code)
	}
}

// watch makes the two events of a watch that is sent at at and ends at end. query has the selector first; timeout is what the client asks for. name is that
// of the one object that is watched, if it is one.
func (s *sim) watch(c *client, at, end time.Time, r apiResource, namespace, name, selector string, timeout time.Duration, initial bool) *Event {
	q := "allowWatchBookmarks=true"
	if selector != "" {
		q += "&fieldSelector=" + url.QueryEscape(selector)
	}
	if initial {
		q += "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"
	} else {
		q += fmt.Sprintf("&resourceVersion=%d", 1000+at.Unix()%1_000_000)
	}
	if r != resPods {
		q += "&timeout=" + timeout.String()
	}
	q += fmt.Sprintf("&timeoutSeconds=%d&watch=true", int(timeout.Seconds()))
	e := &Event{
		Level: LevelMetadata, Stage: StageStarted, Verb: "watch", URI: r.path(namespace, "", "") + "?" + q, User: c.user, SourceIPs: c.ips,
		UserAgent: c.agent, Code: 200, Ref: &Ref{Group: r.group, Version: r.version, Resource: r.name, Namespace: namespace, Name: name},
		Received: at, Staged: at.Add(s.some(400*time.Microsecond, 2*milli)), Decision: "allow", DecisionReason: c.reason, Server: c.server,
		AuditID: uuid(s.Rand),
	}
	done := *e
	done.Stage, done.Staged = StageComplete, later(end, e.Staged.Add(50*time.Microsecond))
	for _, e := range [...]*Event{e, &done} {
		if !e.Staged.Before(s.from) && e.Staged.Before(s.to) {
			s.events = append(s.events, e)
		}
	}
	return e
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
