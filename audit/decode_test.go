package audit

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authnv1 "k8s.io/api/authentication/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	kjson "sigs.k8s.io/json"
)

// captureLines returns real events of kube-apiserver, one of each sort.
func captureLines(tb testing.TB) [][]byte {
	tb.Helper()
	log, err := os.ReadFile("testdata/capture.log")
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Split(bytes.TrimSpace(log), []byte("\n"))
}

// decodeOne is the whole of decoding one event, without envelopes, by a reader that remembers nothing.
func decodeOne(data []byte) (*Event, error) {
	var r reader
	var ev Event
	r.s.Reset(data)
	r.event(&ev)
	r.s.End()
	return &ev, r.s.Err()
}

// full decodes an event as kube-apiserver's own types do.
func full(data []byte) (*Event, error) {
	var in auditv1.Event
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &in); err != nil {
		return nil, err
	}
	user := func(u *authnv1.UserInfo) User {
		out := User{Username: u.Username, UID: u.UID, Groups: u.Groups}
		if ids := u.Extra[credentialIDKey]; len(ids) > 0 {
			out.CredentialID = ids[0]
		}
		return out
	}
	ev := &Event{
		AuditID: string(in.AuditID), Stage: stageOf(string(in.Stage)), Level: levelOf(string(in.Level)), RequestURI: in.RequestURI, Verb: in.Verb,
		User: user(&in.User), SourceIPs: in.SourceIPs, UserAgent: in.UserAgent,
		RequestReceived: in.RequestReceivedTimestamp.Time, StageTime: in.StageTimestamp.Time,
		Decision: in.Annotations[decisionKey], Reason: in.Annotations[reasonKey], IssuedCredential: in.Annotations[issuedCredentialKey],
		Cut: in.Annotations[truncatedKey] == "true",
	}
	if in.AuthenticationMetadata != nil {
		ev.Constraint = in.AuthenticationMetadata.ImpersonationConstraint
	}
	if in.ImpersonatedUser != nil {
		ev.Impersonated, ev.IsImpersonated = user(in.ImpersonatedUser), true
	}
	if o := in.ObjectRef; o != nil {
		ev.HasObjectRef = true
		ev.ObjectRef = ObjectRef{
			Resource: o.Resource, Namespace: o.Namespace, Name: o.Name, UID: string(o.UID), APIGroup: o.APIGroup,
			APIVersion: o.APIVersion, Subresource: o.Subresource,
		}
	}
	if s := in.ResponseStatus; s != nil {
		ev.Code, ev.StatusReason, ev.StatusMessage = s.Code, string(s.Reason), s.Message
	}
	if in.RequestObject != nil {
		ev.RequestObject = in.RequestObject.Raw
	}
	if in.ResponseObject != nil {
		ev.ResponseObject = in.ResponseObject.Raw
	}
	return ev, nil
}

var sameTime = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })

// nasty are events, and what looks like some, that a decoder may get wrong.
var nasty = []string{
	`{}`, `null`, `[]`, ``, `{"kind":"Event"`, `{"user":null,"objectRef":null,"responseStatus":null,"annotations":null,"requestObject":null,"sourceIPs":null}`,
	`{"verb":"get","verb":"create"}`, `{"verb":"get","verb":null}`, `{"verb":1}`, `{"verb":1,"verb":"get"}`, `{"Verb":"get"}`, `{"v\u0065rb":"\u0067et"}`, `{"verb":"get","v\u0065rb":"create"}`,
	`{"user":{"username":"a","groups":["x","y"]},"user":{"uid":"u","groups":[null]}}`, `{"user":{"username":"system:node:w","username":"x"}}`, `{"user":{"username":"a"},"user":null}`,
	`{"user":{"groups":["a","b"],"groups":["c"],"groups":["d",null]}}`, `{"user":{"groups":["system:nodes"],"groups":[]}}`, `{"user":{"groups":["\u0073ystem:nodes"]}}`, `{"user":{"groups":[null,"a"]}}`,
	`{"user":{"extra":{"authentication.kubernetes.io/credential-id":["a","b"],"x":null}}}`, `{"user":{"extra":{"authentication.kubernetes.io/credential-id":null,"authentication.kubernetes.io/credential-id":["b"]}}}`, `{"user":{"extra":{"authentication.kubernetes.io/credential-id":[null,"a"]}}}`,
	`{"impersonatedUser":{"username":"system:node:x"},"impersonatedUser":null}`,
	`{"authenticationMetadata":{"impersonationConstraint":"impersonate:associated-node"}}`, `{"authenticationMetadata":null}`,
	`{"authenticationMetadata":{"impersonationConstraint":"a","impersonationConstraint":null},"authenticationMetadata":{}}`, `{"impersonatedUser":{}}`, `{"impersonatedUser":null,"impersonatedUser":{"groups":["system:nodes"]}}`,
	`{"objectRef":{"resource":"pods"},"objectRef":{"name":"a"},"verb":"create"}`, `{"objectRef":{"subresource":"token"},"objectRef":null,"objectRef":{"resource":"serviceaccounts"},"verb":"create"}`,
	`{"objectRef":{"resource":"pods","resource":"leases"},"verb":"update"}`, `{"objectRef":{"resource":"leases","resource":null},"verb":"update"}`, `{"objectRef":{"resource":"le\u0061ses"}}`, `{"objectRef" : {"resource":"pods"},"verb" : "create"}`,
	`{"responseStatus":{"code":200.0}}`, `{"responseStatus":{"code":2147483648}}`, `{"responseStatus":{"code":-2147483648,"reason":"x","message":"y"}}`, `{"responseStatus":{"code":1},"responseStatus":{"code":null,"reason":"z"}}`,
	`{"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/decision":null}}`, `{"annotations":{"authorization.k8s.io/reason":"a"},"annotations":{"authorization.k8s.io/decision":"b"}}`, `{"annotations":{"authorization.k8s.io/reason":"RBAC: \"x\"\u003c"}}`,
	`{"requestReceivedTimestamp":"2026-02-29T00:00:00.000000Z"}`, `{"requestReceivedTimestamp":"2024-02-29T23:59:59.999999Z"}`, `{"requestReceivedTimestamp":"2024-02-29T23:59:60.000000Z"}`, `{"requestReceivedTimestamp":"0000-01-01T00:00:00.000000Z"}`,
	`{"requestReceivedTimestamp":"9999-12-31T23:59:59.123456+14:00"}`, `{"requestReceivedTimestamp":"2024-01-01T00:00:00Z"}`, `{"requestReceivedTimestamp":"2024-01-01T00:00:00,123456Z"}`, `{"requestReceivedTimestamp":""}`, `{"requestReceivedTimestamp":null}`, `{"stageTimestamp":1}`,
	`{"requestReceivedTimestamp":"2024-01-01T00:00:00.000000Z","requestReceivedTimestamp":null}`, `{"stageTimestamp":"2024-01-01T0:00:00.0000000Z"}`, `{"stageTimestamp":"1900-03-01T00:00:00.000000Z"}`, `{"stageTimestamp":"2000-02-30T00:00:00.000000Z"}`,
	`{"requestObject":{"a":[1,{}]},"responseObject":"text"}`, `{"requestObject":{"a":1},"requestObject":null}`, `{"requestObject": 1 ,"requestObject": [ 2 ] }`, `{"requestObject":{"a":01}}`, "{\"userAgent\":\"kube\xfflet\"}", `{"userAgent":"kubelet/v1"}`, `{"userAgent":"\ud83d"}`,
	`{"sourceIPs":["10.0.0.1","::1"],"sourceIPs":["1"]}`, `{"sourceIPs":{}}`, `{"user":[]}`, `{"objectRef":1}`, `{"annotations":[]}`, `{"items":[{}],"items":null}`, "{\"userAgent\":\"a\nb\"}", "\x00{}",
}

func compareDecoding(t *testing.T, data []byte) {
	t.Helper()
	got, gotErr := decodeOne(data)
	want, wantErr := full(data)
	if wantErr != nil {
		if gotErr == nil && !json.Valid(data) {
			t.Fatalf("%q is no JSON but decodes", data)
		}
		return
	}
	if bytes.Equal(bytes.TrimSpace(data), []byte("null")) || bytes.Contains(data, []byte("items")) {
		return // No event to the decoder: an empty one to reflection.
	}
	if max(want.RequestReceived.Year(), want.StageTime.Year()) > lastYear {
		if gotErr == nil {
			t.Fatalf("%q: a time of after %d", data, lastYear)
		}
		return
	}
	if gotErr != nil {
		t.Fatalf("%q: %v, but the types of Kubernetes decode it", data, gotErr)
	}
	if d := cmp.Diff(want, got, sameTime, cmpopts.EquateEmpty()); d != "" {
		t.Fatalf("%q (-kubernetes +nodetrail):\n%s", data, d)
	}
	if d := cmp.Diff(got, got.Clone()); d != "" {
		t.Fatalf("clone of %q (-event +clone):\n%s", data, d)
	}
}

func TestDecodeAgreesWithKubernetes(t *testing.T) {
	for _, line := range captureLines(t) {
		if _, err := full(line); err != nil {
			t.Fatal(err)
		}
		compareDecoding(t, line)
	}
	for _, text := range nasty {
		compareDecoding(t, []byte(text))
	}
}

func TestDecodeWrongType(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, err := decodeOne([]byte(text))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	f(`{"verb":1}`, "value is not a string at offset 8")
	f(`{"verb":"get"`, "unexpected end at offset 13")
	f(`{"user":[]}`, "value is not an object at offset 8")
	f(`{"responseStatus":{"code":1e3}}`, "number is no 64-bit integer at offset 26")
	f(`{"responseStatus":{"code":2147483648}}`, "number is no 32-bit integer at offset 36")
	f(`{"stageTimestamp":"now"}`, "time is not RFC 3339 at offset 23")
	f(`{"stageTimestamp":"9999-01-01T00:00:00.000000Z"}`, "time is not before the year 9999 at offset 47")
	f(`{"stageTimestamp":"9998-12-31T23:00:00-01:00"}`, "time is not before the year 9999 at offset 45")
	f(`{"user":{"groups":["a",1]}}`, "value is not a string at offset 23")
}

// TestTimestampsOfOtherWriters holds the times that metav1.MicroTime refuses and other writers of audit events use.
func TestTimestampsOfOtherWriters(t *testing.T) {
	f := func(text string, want time.Time) {
		t.Helper()
		got, err := parseTime(text)
		if err != nil || !got.Equal(want) || got.Location() != time.UTC {
			t.Errorf("%s: %v, %v, want %v", text, got, err, want)
		}
	}
	f("2026-11-21T06:03:57Z", time.Date(2026, 11, 21, 6, 3, 57, 0, time.UTC))
	f("2026-11-21T06:03:57.5Z", time.Date(2026, 11, 21, 6, 3, 57, 500_000_000, time.UTC))
	f("2026-11-21T06:03:57.123456789+01:00", time.Date(2026, 11, 21, 5, 3, 57, 123_456_789, time.UTC))
}

func TestFixedTimesOfEveryDay(t *testing.T) {
	for day := time.Date(0, 1, 1, 1, 2, 3, 456_000, time.UTC); day.Year() < 2800; day = day.AddDate(0, 0, 1) {
		text := day.Format(microTime)
		if got, ok := parseFixed(text); !ok || !got.Equal(day) {
			t.Fatalf("%s: %v, %v", text, got, ok)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for i, line := range captureLines(f) {
		if i%8 == 0 {
			f.Add(line)
		}
	}
	for _, text := range nasty {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compareDecoding(t, data) })
}
