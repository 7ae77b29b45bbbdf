package jsonl

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/wording"
)

func TestLineIsTheContracts(t *testing.T) {
	v := &Verdict{
		AuditID: "id", Time: time.Date(2026, 11, 21, 6, 4, 19, 448_000_000, time.UTC), Node: "worker-1", Verb: "get", Resource: "secrets",
		Namespace: "shop", Name: "secret-3", Verdict: "deny", Reason: "no relationship found between node 'worker-1' and this object",
		Observed: Observed{Decision: "allow", Authorizer: "rbac", NodeVerdict: "deny", ObservedReason: "RBAC: allowed by …", Grant: &Grant{
			BindingKind: "ClusterRoleBinding", BindingName: "legacy:system:node", RoleKind: "ClusterRole", RoleName: "system:node",
			SubjectKind: "Group", SubjectName: "system:nodes"}},
		Code: 200, UserAgent: "calico-node/v3.20.0", SourceIPs: []string{"10.0.0.7"}, Findings: []string{"rbac-excess-access", "out-of-scope-secret-read"},
	}
	want := `{"auditID":"id","time":"2026-11-21T06:04:19.448Z","node":"worker-1","verb":"get","apiGroup":"","resource":"secrets","subresource":"",` +
		`"namespace":"shop","name":"secret-3","path":"","verdict":"deny","race":false,"reason":"no relationship found between node 'worker-1' and this object","detail":"",` +
		`"observed":{"decision":"allow","authorizer":"rbac","nodeVerdict":"deny","reason":"RBAC: allowed by …",` +
		`"binding":{"kind":"ClusterRoleBinding","namespace":"","name":"legacy:system:node"},"role":{"kind":"ClusterRole","name":"system:node"},"subject":{"kind":"Group","name":"system:nodes"}},` +
		`"code":200,"userAgent":"calico-node/v3.20.0","sourceIPs":["10.0.0.7"],"findings":["rbac-excess-access","out-of-scope-secret-read"]}` + "\n"
	var buf bytes.Buffer
	w := NewWriter(&buf)
	if err := w.Write(v); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if buf.String() != want {
		t.Errorf("got  %s\nwant %s", buf.String(), want)
	}
}

func FuzzString(f *testing.F) {
	for _, s := range []string{"", "plain", "a\"b\\c\n\t\x00\x1f\x7f", "\xff\xfe", "\u2028é\u202e", "\u0085\u009b31m", "\U000e0001", "</script>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		line := str(nil, "", s)
		var got string
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if want := strings.ToValidUTF8(s, "\x00"); strings.ToValidUTF8(got, "\x00") != want && !strings.ContainsRune(got, '\ufffd') {
			t.Errorf("%q came back as %q", s, got)
		}
		if bytes.ContainsFunc(line, wording.Hidden) {
			t.Errorf("%q holds a control character", line)
		}
	})
}

func BenchmarkWrite(b *testing.B) {
	v := &Verdict{AuditID: "f2c5a5cb-2f3c-4df4-8e7f-1d2c3b4a5968", Node: "worker-1", Verb: "get", Resource: "secrets", Namespace: "shop",
		Name: "secret-3", Verdict: "allow", UserAgent: "kubelet/v1.36.3 (linux/amd64) kubernetes/abc", SourceIPs: []string{"10.0.0.7"}}
	var buf []byte
	b.ReportAllocs()
	for b.Loop() {
		buf = v.appendTo(buf[:0])
	}
	b.SetBytes(int64(len(buf)))
}

func TestAdmission(t *testing.T) {
	v := Verdict{Admission: &Admission{Verdict: "deny", Code: 403, Message: `nodes "b" is forbidden`, Race: true, Observed: "allow"}}
	want := `"admission":{"verdict":"deny","code":403,"message":"nodes \"b\" is forbidden","missing":"","race":true,"observed":"allow"},"code":0`
	if line := string(v.AppendLine(nil)); !strings.Contains(line, want) {
		t.Errorf("%s\nlacks %s", line, want)
	}
}
