package audit

import (
	"bytes"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/internal/jscan"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// gkeMethod is what the method names of Kubernetes begin with in Cloud Audit Logs.
const gkeMethod = "io.k8s."

// A gkeEntry is what is used of a LogEntry of Cloud Audit Logs.
type gkeEntry struct {
	service, method, resource string
	operation                 string
	first, last               bool
	requests, responses       []byte
	status                    bool
}

// gke decodes the LogEntry at buf[from:to] of Cloud Audit Logs, which GKE makes of an audit event.
//
// The entry holds no request URI, hence no selectors, and no groups. kube-apiserver counts a user as a node only with the group
// system:nodes next to the name system:node:…; GKE's own kubelets have it, so that it is put there for every user of such a name. What was made
// up and what is missing is why the event is marked Derived.
func (d *Decoder) gke(from, to int) bool {
	f := &d.layers.fields
	d.ev = Event{}
	ev := &d.ev
	var e gkeEntry
	f.s.ResetAt(d.run.buf[:to], from)
	e.entry(&f.s, ev)
	if fault := f.s.Fault(); fault != nil {
		d.reportInside(EnvelopeGKE, fault.Offset, fault.Cause())
		return true
	}
	if e.service != "k8s.io" && !(e.service == "" && strings.HasPrefix(e.method, gkeMethod)) {
		d.foreignRecords(1) // of another service of Google Cloud, which the same sink exports
		return true
	}
	e.event(ev)
	if ev.AuditID == "" && ev.Verb == "" {
		return false
	}
	d.accept(EnvelopeGKE, from, to)
	return true
}

// entry reads the whole entry. Its AuditID is the entry's insertId, until event knows better.
func (e *gkeEntry) entry(s *jscan.Scanner, ev *Event) {
	var key string
	for s.Object(); s.Key(&key); {
		switch key {
		case "insertId":
			ev.AuditID = s.StringOrNull()
		case "timestamp":
			ev.RequestReceived = timeOrNull(s)
		case "labels":
			gkeLabels(s, ev)
		case "operation":
			e.readOperation(s)
		case "protoPayload":
			e.payload(s, ev)
		default:
			s.Skip()
		}
	}
}

func (e *gkeEntry) readOperation(s *jscan.Scanner) {
	var key string
	if s.Null() {
		return
	}
	for s.Object(); s.Key(&key); {
		switch {
		case key == "id":
			e.operation = s.StringOrNull()
		case key == "first" && s.Peek() == jscan.Bool:
			e.first = s.Bool()
		case key == "last" && s.Peek() == jscan.Bool:
			e.last = s.Bool()
		default:
			s.Skip()
		}
	}
}

func (e *gkeEntry) payload(s *jscan.Scanner, ev *Event) {
	var key string
	for s.Object(); s.Key(&key); {
		switch key {
		case "serviceName":
			e.service = s.StringOrNull()
		case "methodName":
			e.method = s.StringOrNull()
		case "resourceName":
			e.resource = s.StringOrNull()
		case "authenticationInfo":
			stringsOf(s, map[string]*string{"principalEmail": &ev.User.Username})
		case "requestMetadata":
			var ip string
			stringsOf(s, map[string]*string{"callerIp": &ip, "callerSuppliedUserAgent": &ev.UserAgent})
			if ip != "" {
				ev.SourceIPs = []string{ip}
			}
		case "status":
			e.readStatus(s, ev)
		case "request":
			e.requests = objectOrNone(s)
		case "response":
			e.responses = objectOrNone(s)
		default:
			s.Skip()
		}
	}
}

// readStatus reads a google.rpc.Status.
func (e *gkeEntry) readStatus(s *jscan.Scanner, ev *Event) {
	if s.Null() {
		return
	}
	e.status = true
	var key string
	for s.Object(); s.Key(&key); {
		switch {
		case key == "code" && s.Peek() == jscan.Number:
			ev.Code = int32(min(max(s.Int64(), 0), 999))
		case key == "message":
			ev.StatusMessage = s.StringOrNull()
		default:
			s.Skip()
		}
	}
}

// event makes the event of what was read.
func (e *gkeEntry) event(ev *Event) {
	ev.Derived = true
	if e.operation != "" {
		ev.AuditID = e.operation // the audit ID, which the entries of a request share
	}
	ev.StageTime = ev.RequestReceived
	ev.Stage = StageResponseComplete
	if e.first && !e.last {
		ev.Stage = StageResponseStarted
	}
	ev.Level = LevelMetadata
	switch {
	case e.responses != nil:
		ev.Level = LevelRequestResponse
	case e.requests != nil:
		ev.Level = LevelRequest
	}
	ev.RequestObject, ev.ResponseObject = e.requests, e.responses
	if strings.HasPrefix(ev.User.Username, nodeid.UserPrefix) {
		ev.User.Groups = []string{user.NodesGroup, user.AllAuthenticated}
	}
	if e.status && ev.Code < 100 {
		ev.Code = httpCode(ev.Code)
	}
	e.target(ev)
}

// target fills in verb and object from a method such as io.k8s.core.v1.pods.status.patch and a resource such as
// core/v1/namespaces/shop/pods/web/status.
func (e *gkeEntry) target(ev *Event) {
	dot := strings.LastIndexByte(e.method, '.')
	if dot < 0 {
		return
	}
	ev.Verb = e.method[dot+1:]
	var t target
	path := "/apis/" + e.resource
	if rest, ok := strings.CutPrefix(e.resource, "core/"); ok {
		path = "/api/" + rest
	}
	if !t.parse(path) || t.resource == "" {
		return
	}
	ev.HasObjectRef = true
	ev.ObjectRef = ObjectRef{
		Resource: t.resource, Namespace: t.namespace, Name: t.name,
		APIGroup: t.group, APIVersion: t.version, Subresource: t.subresource,
	}
}

// httpCode returns the HTTP status that kube-apiserver most likely answered with where Cloud Audit Logs has a code of gRPC.
func httpCode(grpc int32) int32 {
	switch grpc {
	case 0:
		return 200
	case 1:
		return 499
	case 3, 9, 11:
		return 400
	case 4:
		return 504
	case 5:
		return 404
	case 6, 10:
		return 409
	case 7:
		return 403
	case 8:
		return 429
	case 12:
		return 501
	case 14:
		return 503
	case 16:
		return 401
	default:
		return 500
	}
}

// gkeLabels reads the annotations, which are labels there.
func gkeLabels(s *jscan.Scanner, ev *Event) {
	cut := ""
	stringsOf(s, map[string]*string{decisionKey: &ev.Decision, reasonKey: &ev.Reason, issuedCredentialKey: &ev.IssuedCredential, truncatedKey: &cut})
	ev.Cut = ev.Cut || cut == "true"
}

// stringsOf reads the members of an object that are strings and wanted.
func stringsOf(s *jscan.Scanner, wanted map[string]*string) {
	if s.Null() {
		return
	}
	var key string
	for s.Object(); s.Key(&key); {
		if to := wanted[key]; to != nil && s.Peek() == jscan.String {
			*to = s.String()
			continue
		}
		s.Skip()
	}
}

func objectOrNone(s *jscan.Scanner) []byte {
	if s.Peek() != jscan.Object {
		s.Skip()
		return nil
	}
	body := s.Raw()
	if len(bytes.TrimSpace(body)) <= len("{}") {
		return nil
	}
	return body
}

func timeOrNull(s *jscan.Scanner) (t time.Time) {
	text := s.StringOrNull()
	if text == "" || s.Err() != nil {
		return t
	}
	t, err := parseTime(text)
	if err != nil {
		s.Fail(err.Error())
	}
	return t
}
