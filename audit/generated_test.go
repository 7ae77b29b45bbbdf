package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// members are parts of events, several for each key, that a generated event is put together from.
var members = []string{
	`"verb":"get"`, `"verb":"list"`, `"verb":"create"`, `"verb":"patch"`, `"verb":null`, `"verb":"deletecollection"`, `"Verb":"create"`,
	`"user":{"username":"admin"}`, `"user":{"username":"system:node:a"}`, `"user":{"groups":["system:nodes"]}`, `"user":{"groups":["a",null]}`, `"user":null`, `"user":{"groups":[null],"uid":"system:node:"}`, `"user":{"username":null,"username":"b","groups":null}`,
	`"user":{"extra":{"authentication.kubernetes.io/credential-id":["x"]}}`, `"user":{"extra":{"authentication.kubernetes.io/credential-id":[],"kubelet":["kubelet"]}}`,
	`"authenticationMetadata":{"impersonationConstraint":"impersonate:associated-node"}`,
	`"responseStatus":{"code":403,"message":"users \"system:node:n1\" is forbidden: User \"a\" cannot impersonate resource \"users\""}`,
	`"impersonatedUser":{"username":"b"}`, `"impersonatedUser":{"groups":["x","system:nodes"]}`, `"impersonatedUser":null`, `"impersonatedUser":{"username":"system:node:"}`,
	`"userAgent":"kubectl"`, `"userAgent":"kubelet/v1"`, `"userAgent":"hollow-kubelet"`, `"userAgent":"a\\"`, `"userAgent":null`,
	`"objectRef":{"resource":"pods","name":"a"}`, `"objectRef":{"resource":"leases"}`, `"objectRef":{"subresource":"token"}`, `"objectRef":{"resource":"serviceaccounts"}`, `"objectRef":null`, `"objectRef":{"resource":"pods","subresource":"exec"}`, `"objectRef":{"subresource":null,"subresource":"status"}`,
	`"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: \"system:nodes\" \u003cx\u003e"}`, `"annotations":{"authorization.k8s.io/reason":null}`, `"annotations":null`, `"annotations":{"x":"\"kubelet\""}`,
	`"responseStatus":{"metadata":{},"code":200}`, `"responseStatus":{"code":403,"reason":"Forbidden"}`, `"responseStatus":null`, `"responseStatus":{"message":"m","code":null}`,
	`"requestObject":{"verb":"create","objectRef":{"resource":"pods"},"user":"kubelet"}`, `"requestObject":null`, `"responseObject":[1,{"a":"system:node:x"}]`,
	`"sourceIPs":["10.0.0.1","10.0.0.2"]`, `"sourceIPs":["x"]`, `"sourceIPs":[]`, `"sourceIPs":[null,null,null]`,
	`"requestReceivedTimestamp":"2026-11-21T06:03:57.603813Z"`, `"requestReceivedTimestamp":null`, `"stageTimestamp":"2026-11-21T06:03:57.603813+02:00"`, `"unknown":{"verb":"get"}`,
}

// generated returns an event that is JSON, whatever its keys: in any order, twice, with escapes and white space where they may be.
func generated(r *rand.Rand, id int) []byte {
	native := r.IntN(4) > 0
	head := strings.Replace(nativeStart, `"auditID":"1"`, fmt.Sprintf(`"auditID":"id-%d"`, id), 1)
	var b bytes.Buffer
	b.WriteByte('{')
	if native {
		b.WriteString(strings.TrimSuffix(head, ","))
	} else {
		fmt.Fprintf(&b, `"auditID":"id-%d"`, id)
	}
	escapes, spaces := 0, 0
	if r.IntN(3) == 0 {
		escapes = 1 + r.IntN(40)
	}
	if r.IntN(4) == 0 {
		spaces = 1 + r.IntN(8)
	}
	for range 1 + r.IntN(8) {
		b.WriteByte(',')
		distort(&b, r, members[r.IntN(len(members))], escapes, spaces)
	}
	if native && r.IntN(4) > 0 {
		b.WriteString(`,"stageTimestamp":"2026-11-21T06:03:57.603813Z"`)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// distort writes JSON in other bytes that mean the same: one character of about so many of its strings as an escape, and white space at one
// of about so many places.
func distort(b *bytes.Buffer, r *rand.Rand, text string, escapes, spaces int) {
	quoted := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\':
			length := 2
			if text[i+1] == 'u' {
				length = 6
			}
			b.WriteString(text[i : i+length])
			i += length - 1
		case c == '"':
			quoted = !quoted
			b.WriteByte(c)
		case quoted && escapes > 0 && r.IntN(escapes) == 0:
			if r.IntN(2) == 0 {
				fmt.Fprintf(b, `\u%04X`, c)
			} else {
				fmt.Fprintf(b, `\u%04x`, c)
			}
		case !quoted && spaces > 0 && strings.IndexByte("{}[]:,", c) >= 0 && r.IntN(spaces) == 0:
			b.WriteByte(' ')
			b.WriteByte(c)
			b.WriteByte('\t')
		default:
			b.WriteByte(c)
		}
	}
}

// TestGeneratedEvents puts events together at random and holds both promises: decoding agrees with the types of Kubernetes, and a buffer of lines
// yields just the events that are needed.
func TestGeneratedEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, want := range []Want{{}, {State: true}} {
		var log []byte
		events := effort.Of(4_000, 800)
		needed, lost := map[string]bool{}, int64(0)
		for id := range events {
			line := generated(r, id)
			compareDecoding(t, line)
			if ev, err := full(line); err != nil {
				t.Fatalf("%s: %v", line, err)
			} else if Needed(ev, want) {
				needed[ev.AuditID] = true
			} else if ev.User.Username == "" && lostUser(ev) {
				lost++
			}
			log = append(append(log, line...), '\n')
		}
		d := Decoder{Want: want}
		counts := d.Chunk(log, 1, func(ev *Event) {
			if !needed[ev.AuditID] {
				t.Errorf("%s is emitted and not needed, or emitted twice", ev.AuditID)
			}
			delete(needed, ev.AuditID)
		}, func(m Malformed) {
			if m.Cause != "event has no user" {
				t.Error(m)
			}
		})
		if len(needed) > 0 || counts.Malformed != lost || counts.Read != int64(events)-lost {
			t.Errorf("%+v: %d are missing: %+v", want, len(needed), counts)
		}
	}
}
