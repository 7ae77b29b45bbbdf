package scenario

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// expandAudit turns short lines into a log, in the envelope and with the damage that the flags ask for.
func expandAudit(lines []textLine, f *Flags) ([]byte, *lineError) {
	x := auditExpander{day: f.day, addresses: map[string]string{}}
	for _, l := range lines {
		if err := x.line(l.text); err != nil {
			return nil, &lineError{l.n, err}
		}
	}
	return f.wrap(x.out), nil
}

type auditExpander struct {
	day       time.Time
	n         int // requests so far
	addresses map[string]string
	out       [][]byte
}

func (x *auditExpander) line(text string) error {
	x.n++
	if text[0] == '{' {
		if !json.Valid([]byte(text)) {
			return fmt.Errorf("a line that begins with { and is not JSON")
		}
		x.out = append(x.out, []byte(text))
		return nil
	}
	words, err := cutWords(text)
	if err != nil {
		return err
	}
	copies, err := repeated(words)
	for i := 0; i < len(copies.lines) && err == nil; i++ {
		id := ""
		if len(copies.lines) > 1 {
			id = fmt.Sprintf("#%d", i+1)
		}
		if len(x.out) >= maxLines {
			return errTooMany
		}
		err = x.request(copies.lines[i], id, time.Duration(i)*copies.every)
	}
	return err
}

// shortRequest is a short line taken apart.
type shortRequest struct {
	at                     time.Time
	who, verb, what, which string
	decision, reason       string
	code                   int
	keys                   map[string]string
}

const requestShape = "a request has a time, who, a verb, a resource and a name (or a path), and one of allow, forbid, -"

func shortRequestOf(words []word, day time.Time) (r shortRequest, err error) {
	r.keys = map[string]string{}
	var plain []word
	for _, w := range words {
		if w.key == "" {
			plain = append(plain, w)
			continue
		}
		if !isRequestKey(w.key) {
			return r, fmt.Errorf("a request has no key %q", w.key)
		}
		r.keys[w.key] = w.value
	}
	next := func() (w word) {
		if len(plain) > 0 {
			w, plain = plain[0], plain[1:]
		}
		return w
	}
	if r.at, err = clock(day, next().value); err != nil {
		return r, err
	}
	r.who, r.verb, r.what = next().value, next().value, next().value
	if !strings.HasPrefix(r.what, "/") {
		r.which = next().value
	}
	r.decision = next().value
	if r.decision != "allow" && r.decision != "forbid" && r.decision != "-" {
		return r, fmt.Errorf("%s; not %q", requestShape, r.decision)
	}
	if len(plain) > 0 && plain[0].quoted {
		r.reason = next().value
	}
	switch {
	case len(plain) > 0:
		if r.code, err = strconv.Atoi(next().value); err != nil {
			return r, fmt.Errorf("the code is no number: %w", err)
		}
	case r.decision == "forbid":
		r.code = 403
	case r.verb == "create":
		r.code = 201
	default:
		r.code = 200
	}
	if len(plain) > 0 {
		return r, fmt.Errorf("%q is one word too many", plain[0].value)
	}
	return r, nil
}

func isRequestKey(key string) bool {
	switch key {
	case "id", "user", "groups", "as", "as-groups", "ua", "ip", "cred", "stage", "took", "level", "field", "uri", "name", "body", "response",
		"status", "repeat", "every":
		return true
	}
	return false
}

// agentOf is the user agent of a kubelet for who is named like one, and of a program named as the user for others.
func agentOf(username string) string {
	product := username[strings.LastIndexByte(username, ':')+1:]
	if strings.HasPrefix(username, "system:node") || strings.HasPrefix(username, "system:bootstrap:") {
		product = "kubelet"
	}
	return product + "/v1.36.3 (linux/amd64) kubernetes/0123abc"
}

func (x *auditExpander) request(words []word, copyOf string, later time.Duration) error {
	r, err := shortRequestOf(words, x.day)
	if err != nil {
		return err
	}
	r.at = r.at.Add(later)
	key := func(name, otherwise string) string {
		if v, ok := r.keys[name]; ok {
			return v
		}
		return otherwise
	}
	took, err := time.ParseDuration(key("took", "2ms"))
	if err != nil {
		return fmt.Errorf("took: %w", err)
	}
	ev := auditv1.Event{
		TypeMeta:                 metav1.TypeMeta{Kind: "Event", APIVersion: "audit.k8s.io/v1"},
		Level:                    auditv1.Level(key("level", "Metadata")),
		AuditID:                  types.UID(key("id", fmt.Sprintf("e%d", x.n)) + copyOf),
		Stage:                    auditv1.Stage(key("stage", "ResponseComplete")),
		Verb:                     r.verb,
		RequestReceivedTimestamp: metav1.NewMicroTime(r.at),
		StageTimestamp:           metav1.NewMicroTime(r.at.Add(took)),
	}
	x.user(&ev, &r, key)
	if r.decision != "-" {
		ev.Annotations = map[string]string{"authorization.k8s.io/decision": r.decision, "authorization.k8s.io/reason": r.reason}
	}
	if ev.Stage != auditv1.StageRequestReceived {
		ev.ResponseStatus = &metav1.Status{Code: int32(r.code), Message: r.keys["status"]}
		if r.code == 403 {
			ev.ResponseStatus.Status, ev.ResponseStatus.Reason = "Failure", "Forbidden"
		}
	} else {
		ev.Annotations = nil // the authorizers have not been asked yet
	}
	if err := x.target(&ev, &r); err != nil {
		return err
	}
	for name, into := range map[string]**runtime.Unknown{"body": &ev.RequestObject, "response": &ev.ResponseObject} {
		if v, ok := r.keys[name]; ok {
			if !json.Valid([]byte(v)) {
				return fmt.Errorf("%s is not JSON", name)
			}
			*into = &runtime.Unknown{Raw: []byte(v), ContentType: runtime.ContentTypeJSON}
		}
	}
	line, err := json.Marshal(&ev)
	x.out = append(x.out, line)
	return err
}

// user fills in who made the request, as whom and from where.
func (x *auditExpander) user(ev *auditv1.Event, r *shortRequest, key func(name, otherwise string) string) {
	name, groups := "system:node:"+r.who, "system:nodes,system:authenticated"
	if strings.Contains(r.who, ":") || r.keys["user"] != "" {
		name, groups = key("user", r.who), "system:authenticated"
	}
	ev.UserAgent = key("ua", agentOf(name))
	ev.User = authnv1.UserInfo{Username: name, Groups: strings.Split(key("groups", groups), ",")}
	if id := r.keys["cred"]; id != "" {
		ev.User.Extra = map[string]authnv1.ExtraValue{"authentication.kubernetes.io/credential-id": {id}}
	}
	if as := r.keys["as"]; as != "" {
		ev.ImpersonatedUser = &authnv1.UserInfo{Username: as, Groups: strings.Split(key("as-groups", "system:authenticated"), ",")}
	}
	if x.addresses[r.who] == "" {
		n := len(x.addresses) + 11
		x.addresses[r.who] = fmt.Sprintf("10.0.%d.%d", n/250, n%250)
	}
	ev.SourceIPs = strings.Split(key("ip", x.addresses[r.who]), ",")
}

// target fills in the URI and the objectRef, as the API server would have them.
func (x *auditExpander) target(ev *auditv1.Event, r *shortRequest) error {
	if strings.HasPrefix(r.what, "/") {
		ev.RequestURI = r.what
		return nil
	}
	if r.which == "" {
		return fmt.Errorf("%s", requestShape)
	}
	plural, group, _ := strings.Cut(r.what, ".")
	resource, subresource, _ := strings.Cut(plural, "/")
	if i := strings.IndexByte(group, '/'); i >= 0 {
		return fmt.Errorf("%q: the subresource comes before the group", r.what)
	}
	namespace, name, namespaced := strings.Cut(r.which, "/")
	if !namespaced {
		namespace, name = "", namespace
	}
	if name == "*" {
		name = ""
	}
	uri := "/api/v1"
	if group != "" {
		uri = "/apis/" + group + "/v1"
	}
	if namespaced {
		uri += "/namespaces/" + url.PathEscape(namespace)
	}
	uri += "/" + resource
	collection := r.verb == "list" || r.verb == "watch" || r.verb == "deletecollection"
	query := url.Values{}
	if v, ok := r.keys["field"]; ok {
		query.Set("fieldSelector", v)
	} else if collection && name != "" {
		query.Set("fieldSelector", "metadata.name="+name)
	}
	if r.verb == "watch" {
		query.Set("watch", "true")
	}
	if !collection && name != "" {
		uri += "/" + url.PathEscape(name)
	}
	if subresource != "" {
		uri += "/" + subresource
	}
	if len(query) > 0 {
		uri += "?" + query.Encode()
	}
	if v, ok := r.keys["uri"]; ok {
		uri = v
	}
	if v, ok := r.keys["name"]; ok {
		name = v
	}
	ev.RequestURI = uri
	ev.ObjectRef = &auditv1.ObjectReference{
		Resource: resource, Namespace: namespace, Name: name, APIGroup: group, APIVersion: "v1", Subresource: subresource,
	}
	return nil
}

// wrap puts events into their envelope and does the damage.
func (f *Flags) wrap(events [][]byte) []byte {
	var w bytes.Buffer
	if f.damage["bom"] {
		w.WriteString("\xef\xbb\xbf")
	}
	end := "\n"
	if f.damage["crlf"] {
		end = "\r\n"
	}
	list := func(items [][]byte) []byte {
		out := []byte(`{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`)
		return append(append(out, bytes.Join(items, []byte(","))...), "]}"...)
	}
	switch f.envelope {
	case "eventlist":
		var lists [][]byte
		for ; len(events) > 0; events = events[min(2, len(events)):] {
			lists = append(lists, list(events[:min(2, len(events))]))
		}
		events = lists
	case "array":
		events = [][]byte{append(append([]byte("["), bytes.Join(events, []byte(","))...), ']')}
	case "document":
		var indented bytes.Buffer
		if err := json.Indent(&indented, list(events), "", "  "); err == nil {
			events = [][]byte{indented.Bytes()}
		}
	}
	for i, ev := range events {
		if i == 1 && f.damage["nul"] {
			w.Write(make([]byte, 4096))
		}
		w.Write(ev)
		if i > 0 || !f.damage["glue"] {
			w.WriteString(end)
		}
	}
	if f.damage["torn"] && len(events) > 0 {
		last := events[len(events)-1]
		w.Write(last[:len(last)/2])
	}
	return w.Bytes()
}
