package audit

import (
	"encoding/json"
	"time"
)

// AppendJSON appends the event as one line of JSON without its end, such that decoding it gives an equal event but for Line.
func (ev *Event) AppendJSON(b []byte) ([]byte, error) {
	type user struct {
		Username string              `json:"username,omitempty"`
		UID      string              `json:"uid,omitempty"`
		Groups   []string            `json:"groups,omitempty"`
		Extra    map[string][]string `json:"extra,omitempty"`
	}
	type ref struct {
		Resource    string `json:"resource,omitempty"`
		Namespace   string `json:"namespace,omitempty"`
		Name        string `json:"name,omitempty"`
		UID         string `json:"uid,omitempty"`
		APIGroup    string `json:"apiGroup,omitempty"`
		APIVersion  string `json:"apiVersion,omitempty"`
		Subresource string `json:"subresource,omitempty"`
	}
	type status struct {
		Code    int32  `json:"code,omitempty"`
		Reason  string `json:"reason,omitempty"`
		Message string `json:"message,omitempty"`
	}
	userOf := func(u *User) *user {
		out := &user{Username: u.Username, UID: u.UID, Groups: u.Groups}
		if u.CredentialID != "" && len(u.Extra) == 0 {
			out.Extra = map[string][]string{credentialIDKey: {u.CredentialID}}
		}
		for _, x := range u.Extra {
			if out.Extra == nil {
				out.Extra = map[string][]string{}
			}
			out.Extra[x.Key] = append(out.Extra[x.Key], x.Value)
		}
		return out
	}
	out := struct {
		Kind                     string            `json:"kind"`
		APIVersion               string            `json:"apiVersion"`
		Level                    string            `json:"level,omitempty"`
		AuditID                  string            `json:"auditID"`
		Stage                    string            `json:"stage,omitempty"`
		RequestURI               string            `json:"requestURI"`
		Verb                     string            `json:"verb"`
		User                     *user             `json:"user"`
		ImpersonatedUser         *user             `json:"impersonatedUser,omitempty"`
		SourceIPs                []string          `json:"sourceIPs,omitempty"`
		UserAgent                string            `json:"userAgent,omitempty"`
		ObjectRef                *ref              `json:"objectRef,omitempty"`
		ResponseStatus           *status           `json:"responseStatus,omitempty"`
		RequestObject            json.RawMessage   `json:"requestObject,omitempty"`
		ResponseObject           json.RawMessage   `json:"responseObject,omitempty"`
		RequestReceivedTimestamp *time.Time        `json:"requestReceivedTimestamp,omitempty"`
		StageTimestamp           *time.Time        `json:"stageTimestamp,omitempty"`
		Annotations              map[string]string `json:"annotations,omitempty"`
		AuthenticationMetadata   map[string]string `json:"authenticationMetadata,omitempty"`
	}{
		Kind: "Event", APIVersion: "audit.k8s.io/v1", AuditID: ev.AuditID, RequestURI: ev.RequestURI, Verb: ev.Verb, User: userOf(&ev.User),
		SourceIPs: ev.SourceIPs, UserAgent: ev.UserAgent, RequestObject: ev.RequestObject, ResponseObject: ev.ResponseObject,
	}
	if ev.Level != LevelUnknown {
		out.Level = ev.Level.String()
	}
	if ev.Stage != StageUnknown {
		out.Stage = ev.Stage.String()
	}
	if ev.IsImpersonated {
		out.ImpersonatedUser = userOf(&ev.Impersonated)
	}
	if ev.Constraint != "" {
		out.AuthenticationMetadata = map[string]string{"impersonationConstraint": ev.Constraint}
	}
	if ev.HasObjectRef {
		r := ref(ev.ObjectRef)
		out.ObjectRef = &r
	}
	if ev.Code != 0 || ev.StatusReason != "" || ev.StatusMessage != "" {
		out.ResponseStatus = &status{ev.Code, ev.StatusReason, ev.StatusMessage}
	}
	if !ev.RequestReceived.IsZero() {
		out.RequestReceivedTimestamp = &ev.RequestReceived
	}
	if !ev.StageTime.IsZero() {
		out.StageTimestamp = &ev.StageTime
	}
	if ev.Decision != "" || ev.Reason != "" {
		out.Annotations = map[string]string{decisionKey: ev.Decision, reasonKey: ev.Reason}
	}
	if ev.IssuedCredential != "" {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[issuedCredentialKey] = ev.IssuedCredential
	}
	if ev.Cut {
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[truncatedKey] = "true"
	}
	line, err := json.Marshal(&out)
	return append(b, line...), err
}
