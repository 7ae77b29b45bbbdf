package ownrules

import (
	"net"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
)

// Field is one thing that an expression and a message can name, such as request.verb.
type Field struct {
	// Group is request, verdict, admission or state; Name is the rest.
	Group, Name string
	// Doc is one line.
	Doc string
	// Values are all that there are, for a text with few.
	Values []string

	kind kind
	text func(*subject) string
	num  func(*subject) int64
	yes  func(*subject) bool
	list func(*subject) []string
	// known says whether the field has a value; nil where it always has.
	known func(*subject) bool
}

// kind is a field's type.
type kind uint8

const (
	text kind = iota
	number
	boolean
	list
	timestamp
)

// Type is the field's type in CEL.
func (f *Field) Type() string { return f.kind.cel().String() }

func (k kind) cel() *cel.Type {
	return [...]*cel.Type{cel.StringType, cel.IntType, cel.BoolType, cel.ListType(cel.StringType), cel.TimestampType}[k]
}

// Path is the field as expressions have it.
func (f *Field) Path() string { return f.Group + "." + f.Name }

// Optional reports whether the state may not know the field, so that an expression that asks for it fails unless it asks has() first.
func (f *Field) Optional() bool { return f.known != nil }

// fields are all fields, by group.
var fields = func() []Field {
	out := requestFields()
	out = append(out, verdictFields()...)
	out = append(out, admissionFields()...)
	return append(out, stateFields()...)
}()

// groups are the parts of a path before the point.
var groups = []string{"request", "verdict", "admission", "state"}

func requestFields() []Field {
	const g = "request"
	return []Field{
		{Group: g, Name: "verb", kind: text, Doc: "the verb of the Kubernetes API, or the HTTP method in lower case", text: func(s *subject) string { return s.r.Attrs.Verb }},
		{Group: g, Name: "resource", kind: text, Doc: "such as secrets; empty for a request for a path", text: func(s *subject) string { return s.r.Attrs.Resource }},
		{Group: g, Name: "subresource", kind: text, Doc: "such as status", text: func(s *subject) string { return s.r.Attrs.Subresource }},
		{Group: g, Name: "apiGroup", kind: text, Doc: "empty for the core group", text: func(s *subject) string { return s.r.Attrs.APIGroup }},
		{Group: g, Name: "namespace", kind: text, Doc: "of the object; empty if it has none, and for requests for all namespaces", text: func(s *subject) string { return s.r.Attrs.Namespace }},
		{Group: g, Name: "name", kind: text, Doc: "of the object, from the body if only that has it", text: (*subject).objectName},
		{Group: g, Name: "path", kind: text, Doc: "of a request that is not for a resource", text: func(s *subject) string {
			if s.r.Attrs.ResourceRequest {
				return ""
			}
			return s.r.Attrs.Path
		}},
		{Group: g, Name: "uri", kind: text, Doc: "the request's URI with its parameters, as the log has it", text: func(s *subject) string { return s.r.Event.RequestURI }},
		{Group: g, Name: "isNode", kind: boolean, Doc: "the user is a node: system:node:NAME in the group system:nodes", yes: func(s *subject) bool { return s.r.IsNode }},
		{Group: g, Name: "node", kind: text, Doc: "the node's name; empty for other users", text: func(s *subject) string {
			if !s.r.IsNode {
				return ""
			}
			return s.r.Node
		}},
		{Group: g, Name: "user", kind: text, Doc: "the user name, that of the impersonated user if there is one", text: func(s *subject) string { return s.r.Event.Effective().Username }},
		{Group: g, Name: "groups", kind: list, Doc: "the groups of that user", list: func(s *subject) []string { return s.r.Event.Effective().Groups }},
		{Group: g, Name: "impersonator", kind: text, Doc: "the user who acts as that user; empty if nobody does", text: func(s *subject) string {
			if !s.r.Event.IsImpersonated {
				return ""
			}
			return s.r.Event.User.Username
		}},
		{Group: g, Name: "credential", kind: text, Doc: "the ID of the credential, such as X509SHA256=...; empty if the API server did not log it", text: func(s *subject) string { return s.r.Event.User.CredentialID }},
		{Group: g, Name: "userAgent", kind: text, Doc: "what the program calls itself, in full", text: func(s *subject) string { return s.r.Event.UserAgent }},
		{Group: g, Name: "client", kind: text, Doc: "the first word of the user agent without its version, such as calico-node", text: func(s *subject) string { return rules.Product(s.r.Event.UserAgent) }},
		{Group: g, Name: "kubelet", kind: boolean, Doc: "the user agent is a kubelet's", yes: func(s *subject) bool {
			var further []string
			if s.m != nil {
				further = s.m.Kubelets
			}
			return rules.IsKubelet(rules.Product(s.r.Event.UserAgent), further)
		}},
		{Group: g, Name: "address", kind: text, Doc: "from where the connection came: the last of addresses", text: (*subject).address},
		{Group: g, Name: "addresses", kind: list, Doc: "the source addresses in the log; all but the last are claims of the sender", list: func(s *subject) []string { return s.r.Event.SourceIPs }},
		{Group: g, Name: "allowed", kind: boolean, Doc: "the request passed authorization", yes: func(s *subject) bool { return s.r.Allowed }},
		{Group: g, Name: "succeeded", kind: boolean, Doc: "the request passed authorization and admission, and was carried out", yes: func(s *subject) bool { return s.r.Succeeded() }},
		{Group: g, Name: "code", kind: number, Doc: "the code of the response; 0 if the log has none", num: func(s *subject) int64 { return int64(s.r.Event.Code) }},
		{Group: g, Name: "time", kind: timestamp, Doc: "when the API server received the request"},
		{Group: g, Name: "hour", kind: number, Doc: "the hour of that time in UTC, 0 to 23", num: func(s *subject) int64 { return int64(s.r.Time.UTC().Hour()) }},
	}
}

func verdictFields() []Field {
	const g = "verdict"
	verdicts := []string{"none", "allow", "deny", "unknown"}
	return []Field{
		{Group: g, Name: "node", kind: text, Values: verdicts, Doc: "what the Node authorizer says by the state at that time; none for users that are not nodes", text: func(s *subject) string { return verdictName(s.r.Answer.Verdict) }},
		{Group: g, Name: "observed", kind: text, Values: verdicts[:3], Doc: "what the API server's own Node authorizer said, as far as the log shows", text: func(s *subject) string { return verdictName(s.r.Observed.NodeVerdict) }},
		{Group: g, Name: "denied", kind: boolean, Doc: "the Node authorizer denies the request beyond doubt", yes: func(s *subject) bool { return s.r.NodeDenies() }},
		{Group: g, Name: "needsRBAC", kind: boolean, Doc: "the request passed although the Node authorizer denies it beyond doubt", yes: func(s *subject) bool { return s.r.Allowed && s.r.NodeDenies() }},
		{Group: g, Name: "race", kind: boolean, Doc: "the verdict would be another one within the skew", yes: func(s *subject) bool { return s.r.Answer.Race }},
		{Group: g, Name: "reason", kind: text, Doc: "the Node authorizer's reason for a deny", text: func(s *subject) string { return s.r.Answer.Reason }},
		{Group: g, Name: "decision", kind: text, Values: []string{"", "allow", "forbid"}, Doc: "the API server's own decision in the log; empty if the log has none", text: func(s *subject) string {
			if d := s.r.Observed.Decision; d == "allow" || d == "forbid" {
				return d
			}
			return ""
		}},
		{Group: g, Name: "binding", kind: text, Doc: "the RBAC binding that let the request through, as [NAMESPACE/]NAME; empty if none is known", text: (*subject).binding},
		{Group: g, Name: "role", kind: text, Doc: "the role of that binding", text: func(s *subject) string {
			if !s.r.HasGrant {
				return ""
			}
			return s.r.Grant.Role.Name
		}},
	}
}

func verdictName(v nodeauthz.Verdict) string {
	if v == nodeauthz.NotNode {
		return "none"
	}
	return v.String()
}

func admissionFields() []Field {
	const g = "admission"
	outcomes := []string{"none"}
	for _, o := range rules.Outcomes() {
		outcomes = append(outcomes, string(o))
	}
	return []Field{
		{Group: g, Name: "verdict", kind: text, Values: []string{"none", "allow", "deny", "unknown"}, Doc: "what NodeRestriction says of the write", text: func(s *subject) string { return s.r.Admission.Verdict.String() }},
		{Group: g, Name: "observed", kind: text, Values: []string{"none", "allow", "deny", "other"}, Doc: "what the API server's own plugin said, as far as the response shows", text: func(s *subject) string { return s.r.Admission.Observed.String() }},
		{Group: g, Name: "outcome", kind: text, Values: outcomes, Doc: "how the two compare", text: func(s *subject) string {
			if o := s.r.Admission.Outcome(s.r.Event.Code, s.r.Event.StatusMessage); o != rules.OutcomeNone {
				return string(o)
			}
			return "none"
		}},
		{Group: g, Name: "bypassed", kind: boolean, Doc: "the write passed although NodeRestriction refuses it beyond doubt", yes: func(s *subject) bool { return s.r.Admission.Bypassed() }},
		{Group: g, Name: "message", kind: text, Doc: "the message with which NodeRestriction refuses", text: func(s *subject) string {
			if s.r.Admission.Verdict != nodeadmission.Deny {
				return ""
			}
			return s.r.Admission.Message
		}},
	}
}

func stateFields() []Field {
	const g = "state"
	return []Field{
		{
			Group: g, Name: "nodeRegistered", kind: boolean, Doc: "the cluster has had a Node of the name request.node",
			known: func(s *subject) bool { _, known := s.registered(); return known }, yes: func(s *subject) bool { yes, _ := s.registered(); return yes },
		},
		{
			Group: g, Name: "nodeExists", kind: boolean, Doc: "there was a Node of the name request.node at that time",
			known: func(s *subject) bool { _, known := s.exists(); return known }, yes: func(s *subject) bool { yes, _ := s.exists(); return yes },
		},
		{
			Group: g, Name: "nodeAddresses", kind: list, Doc: "the addresses and host names that this Node had at any time",
			known: func(s *subject) bool { return len(s.nodeAddresses()) > 0 }, list: (*subject).nodeAddresses,
		},
		{
			Group: g, Name: "addressOfNode", kind: boolean, Doc: "request.address is one of them",
			known: func(s *subject) bool { return len(s.nodeAddresses()) > 0 && s.address() != "" }, yes: (*subject).fromNode,
		},
		{
			Group: g, Name: "podNode", kind: text, Doc: "the node of the pod that the request is for",
			known: func(s *subject) bool { _, known := s.podNode(); return known }, text: func(s *subject) string { node, _ := s.podNode(); return node },
		},
	}
}

// subject is what expressions look at: a judged request with the state, or what a test gives.
type subject struct {
	r *rules.Request
	s rules.State
	m *rules.Memory
	// given has the values of a test, by field; nil for a request.
	given map[*Field]ref.Val
}

func (s *subject) objectName() string {
	if s.r.Attrs.Name == "" && s.r.Attrs.ResourceRequest {
		return s.r.Event.ObjectRef.Name
	}
	return s.r.Attrs.Name
}

func (s *subject) address() string {
	address, _ := s.r.Event.Address()
	return address
}

func (s *subject) binding() string {
	switch b := &s.r.Grant.Binding; {
	case !s.r.HasGrant:
		return ""
	case b.Namespace != "":
		return b.Namespace + "/" + b.Name
	default:
		return b.Name
	}
}

func (s *subject) registered() (yes, known bool) {
	if s.s == nil || !s.r.IsNode || s.r.Node == "" {
		return false, false
	}
	return s.s.NodeRegistered(s.r.Node, s.r.Time)
}

func (s *subject) exists() (yes, known bool) {
	if s.s == nil || !s.r.IsNode || s.r.Node == "" {
		return false, false
	}
	return s.s.NodeExists(s.r.Node, s.r.Time)
}

func (s *subject) nodeAddresses() []string {
	if s.s == nil || !s.r.IsNode || s.r.Node == "" {
		return nil
	}
	return s.s.NodeAddresses(s.r.Node)
}

func (s *subject) fromNode() bool {
	from := s.address()
	ip := net.ParseIP(from)
	for _, a := range s.nodeAddresses() {
		if a == from || ip != nil && ip.Equal(net.ParseIP(a)) {
			return true
		}
	}
	return false
}

func (s *subject) podNode() (node string, known bool) {
	a := s.r.Attrs
	name := s.objectName()
	if s.s == nil || a.APIGroup != "" || a.Resource != "pods" || name == "" {
		return "", false
	}
	return s.s.PodNode(a.Namespace, name, s.r.Time)
}

// isKnown reports whether the field has a value.
func (f *Field) isKnown(s *subject) bool {
	if s.given != nil {
		_, known := s.given[f]
		return known || f.known == nil
	}
	return f.known == nil || f.known(s)
}

// of is the field's value, which must be known. It may alias the request.
func (f *Field) of(s *subject) ref.Val {
	if s.given != nil {
		if v, ok := s.given[f]; ok {
			return v
		}
		return f.kind.zero()
	}
	switch f.kind {
	case text:
		return types.String(f.text(s))
	case number:
		return types.Int(f.num(s))
	case boolean:
		return types.Bool(f.yes(s))
	case list:
		return types.NewStringList(types.DefaultTypeAdapter, f.list(s))
	}
	return types.Timestamp{Time: s.r.Time}
}

// asText is the value of a text.
func (f *Field) asText(s *subject) string {
	if s.given != nil {
		v, _ := f.of(s).Value().(string)
		return v
	}
	return f.text(s)
}

// asNumber is the value of a number, or of what is true (1) or false.
func (f *Field) asNumber(s *subject) int64 {
	switch v := f.of(s).(type) {
	case types.Int:
		return int64(v)
	case types.Bool:
		if v {
			return 1
		}
	}
	return 0
}

func (k kind) zero() ref.Val {
	switch k {
	case text:
		return types.String("")
	case number:
		return types.Int(0)
	case boolean:
		return types.False
	case list:
		return types.NewStringList(types.DefaultTypeAdapter, nil)
	}
	return types.Timestamp{}
}

// fieldOf finds a field by its path.
func fieldOf(path string) *Field {
	group, name, _ := strings.Cut(path, ".")
	for i := range fields {
		if fields[i].Group == group && fields[i].Name == name {
			return &fields[i]
		}
	}
	return nil
}
