package audit

import (
	gojson "encoding/json"
	"time"

	"sigs.k8s.io/json"
)

// merged decodes again, by reflection, the object that begins at start and holds a key twice. What a second value of an object, an
// array or a map means is then decided by the same code that kube-apiserver uses. Nothing writes such events, so that speed is no matter.
func (r *reader) merged(start int, ev *Event) envelope {
	r.s.SkipAt(start)
	end := r.s.Pos()
	var m mirror
	if err := json.UnmarshalCaseSensitivePreserveInts(r.s.Slice(start, end), &m); err != nil {
		r.s.Fail("a key comes twice and one of the values is of the wrong type")
		return envelope{items: -1}
	}
	m.store(ev)
	env := envelope{kind: m.Kind, apiVersion: m.APIVersion, items: -1}
	if m.Items != nil {
		r.s.Fail("a list of events in which a key comes twice")
	}
	return env
}

// mirror has the used fields of k8s.io/apiserver/pkg/apis/audit/v1.Event.
type mirror struct {
	Kind             string             `json:"kind"`
	APIVersion       string             `json:"apiVersion"`
	Level            string             `json:"level"`
	AuditID          string             `json:"auditID"`
	Stage            string             `json:"stage"`
	RequestURI       string             `json:"requestURI"`
	Verb             string             `json:"verb"`
	User             mirrorUser         `json:"user"`
	ImpersonatedUser *mirrorUser        `json:"impersonatedUser"`
	Metadata         *mirrorMetadata    `json:"authenticationMetadata"`
	SourceIPs        []string           `json:"sourceIPs"`
	UserAgent        string             `json:"userAgent"`
	ObjectRef        *mirrorRef         `json:"objectRef"`
	ResponseStatus   *mirrorStatus      `json:"responseStatus"`
	RequestObject    *gojson.RawMessage `json:"requestObject"`
	ResponseObject   *gojson.RawMessage `json:"responseObject"`
	RequestReceived  mirrorTime         `json:"requestReceivedTimestamp"`
	StageTime        mirrorTime         `json:"stageTimestamp"`
	Annotations      map[string]string  `json:"annotations"`
	Items            *gojson.RawMessage `json:"items"`
	ReducedFrom      int64              `json:"nodetrailReducedFrom"`
	ResponseBytes    int64              `json:"nodetrailResponseBytes"`
}

type mirrorUser struct {
	Username string              `json:"username"`
	UID      string              `json:"uid"`
	Groups   []string            `json:"groups"`
	Extra    map[string][]string `json:"extra"`
}

type mirrorMetadata struct {
	ImpersonationConstraint string `json:"impersonationConstraint"`
}

type mirrorRef struct {
	Resource    string `json:"resource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
	UID         string `json:"uid"`
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Subresource string `json:"subresource"`
}

type mirrorStatus struct {
	Code    int32  `json:"code"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type mirrorTime struct{ time.Time }

// UnmarshalJSON clears the time at a null, as metav1.MicroTime does.
func (t *mirrorTime) UnmarshalJSON(b []byte) error {
	t.Time = time.Time{}
	if string(b) == "null" {
		return nil
	}
	var text string
	err := gojson.Unmarshal(b, &text)
	if err != nil {
		return err
	}
	t.Time, err = parseTime(text)
	return err
}

func (m *mirror) store(ev *Event) {
	*ev = Event{
		AuditID: m.AuditID, Stage: stageOf(m.Stage), Level: levelOf(m.Level), RequestURI: m.RequestURI, Verb: m.Verb,
		User: m.User.user(false), SourceIPs: m.SourceIPs, UserAgent: m.UserAgent,
		RequestReceived: m.RequestReceived.Time, StageTime: m.StageTime.Time,
		Decision: m.Annotations[decisionKey], Reason: m.Annotations[reasonKey], IssuedCredential: m.Annotations[issuedCredentialKey], ReducedFrom: m.ReducedFrom, ResponseBytes: m.ResponseBytes,
		Cut: m.Annotations[truncatedKey] == "true",
	}
	if m.ImpersonatedUser != nil {
		ev.Impersonated, ev.IsImpersonated = m.ImpersonatedUser.user(true), true
	}
	if m.Metadata != nil {
		ev.Constraint = m.Metadata.ImpersonationConstraint
	}
	if o := m.ObjectRef; o != nil {
		ev.ObjectRef, ev.HasObjectRef = ObjectRef(*o), true
	}
	if s := m.ResponseStatus; s != nil {
		ev.Code, ev.StatusReason, ev.StatusMessage = s.Code, s.Reason, s.Message
	}
	if m.RequestObject != nil {
		ev.RequestObject = *m.RequestObject
	}
	if m.ResponseObject != nil {
		ev.ResponseObject = *m.ResponseObject
	}
}

func (u *mirrorUser) user(impersonated bool) User {
	out := User{Username: u.Username, UID: u.UID, Groups: u.Groups}
	if ids := u.Extra[credentialIDKey]; len(ids) > 0 {
		out.CredentialID = ids[0]
	}
	if !impersonated {
		return out
	}
	for key, values := range u.Extra {
		for _, v := range values {
			out.Extra = append(out.Extra, Extra{key, v})
		}
	}
	sortExtra(out.Extra)
	return out
}
