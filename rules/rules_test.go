package rules

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
	"unsafe"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// alias is a string that changes with its bytes, as an event's do.
func alias(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

func TestProduct(t *testing.T) {
	for ua, want := range map[string]string{
		"": "", "kubelet/v1.36.3 (linux/amd64)": "kubelet", "kubelet": "kubelet", "my agent": "my", "/x": "",
		strings.Repeat("a", 100):             strings.Repeat("a", 64),
		strings.Repeat("é", 100):             strings.Repeat("é", 32),
		"x" + strings.Repeat("é", 100) + "/": "x" + strings.Repeat("é", 31),
	} {
		if got := Product(ua); got != want {
			t.Errorf("Product(%q) = %q, want %q", ua, got, want)
		}
	}
}

func TestOutcome(t *testing.T) {
	for _, x := range []struct {
		code                 int32
		allowed              bool
		succeeded, fruitless bool
	}{
		{200, true, true, false}, {201, true, true, false}, {101, true, true, false}, {0, true, true, false},
		{404, true, false, true}, {403, true, false, true}, {409, true, false, false}, {410, true, false, false}, {500, true, false, false},
		{403, false, false, false}, {404, false, false, false}, {0, false, false, false}, {401, false, false, false},
	} {
		r := &Request{Event: &audit.Event{Code: x.code}, Attrs: &authorizer.AttributesRecord{Verb: "create"}, Allowed: x.allowed}
		if got := r.Succeeded(); got != x.succeeded {
			t.Errorf("code %d, allowed %t: succeeded %t", x.code, x.allowed, got)
		}
		if got := r.Fruitless(); got != x.fruitless {
			t.Errorf("code %d, allowed %t: fruitless %t", x.code, x.allowed, got)
		}
		// Nobody asks admission about a read: it was refused behind the API server.
		if r.Attrs.Verb = "list"; r.Fruitless() != (x.fruitless && x.code == 404) {
			t.Errorf("code %d of a read, allowed %t: fruitless %t", x.code, x.allowed, r.Fruitless())
		}
	}
}

// A client that admission refuses for now makes the request again: without the permission it never succeeds.
func TestRefusedForNow(t *testing.T) {
	for _, c := range []struct {
		message         string
		allowed, failed bool
	}{
		{`pods "a" is forbidden: exceeded quota: shop, requested: pods=1, used: pods=10, limited: pods=10`, true, true},
		{`pods "a" is forbidden: unable to create new content in namespace shop because it is being terminated`, true, true},
		{`pods "a" is forbidden: violates PodSecurity "restricted:latest"`, true, false},
		{`pods "exceeded quota: " is forbidden: User "system:node:n" cannot create resource "pods"`, false, false},
	} {
		r := &Request{Event: &audit.Event{Code: 403, StatusMessage: c.message}, Attrs: &authorizer.AttributesRecord{Verb: "create"}, Allowed: c.allowed}
		if r.Failed() != c.failed || r.Fruitless() != (c.allowed && !c.failed) {
			t.Errorf("%s: failed %t, fruitless %t", c.message, r.Failed(), r.Fruitless())
		}
	}
}

// hostile are strings that somebody may put into any field of a request.
func hostile() []string {
	return []string{
		"", "\x00", "\x1b[2J\x1b[31mREADY", "a\nb\r\nc", "\u202eevil\u2066", "\xff\xfe", "%s%d%!(EXTRA", "<script>alert(1)</script>", "a/b/c", " ",
		"\u2028\u0085", "'", `"`, "`", strings.Repeat("x", 1<<12), "system:node:", "system:nodes", "::1%\x1b[2J", "\u009b31m",
	}
}

// set puts the string into all fields of the request that come from a log.
func set(r *Request, s string) {
	r.Event.User = audit.User{Username: s, UID: s, Groups: []string{s}, CredentialID: s}
	r.Event.UserAgent, r.Event.AuditID, r.Event.RequestURI, r.Event.Verb, r.Event.SourceIPs = s, s, s, s, []string{s, s}
	r.Event.ObjectRef = audit.ObjectRef{Resource: s, Namespace: s, Name: s, UID: s, APIGroup: s, APIVersion: s, Subresource: s}
	a := r.Attrs
	a.Verb, a.Namespace, a.Name, a.Path = s, s, s, s
}

// FuzzRules holds the rules to: no panic whatever the strings, no more findings than rules, none in a race or for an unknown verdict
// by the rules that depend on the verdict, and strings that are their own.
func FuzzRules(f *testing.F) {
	for _, s := range hostile() {
		for bits := range uint16(16) {
			f.Add(s, "system:node:"+s, bits*0x1111)
		}
	}
	groups := [][]string{nil, {"system:nodes"}, {"system:bootstrappers"}, {"system:nodes", "system:masters"}}
	verbs := []string{"get", "list", "watch", "create", "patch", "delete", "deletecollection", ""}
	resources := []string{"secrets", "pods", "nodes", "configmaps", "serviceaccounts", "csinodes", "leases", ""}
	codes := []int32{0, 200, 403, 404}
	f.Fuzz(func(t *testing.T, text, name string, bits uint16) {
		bytes := []byte(text)
		r := request(func(r *Request) { set(r, alias(bytes)) })
		as(name, groups[bits&3]...)(r)
		r.Attrs.Verb, r.Attrs.Resource = verbs[bits>>2&7], resources[bits>>5&7]
		code(codes[bits>>8&3])(r)
		r.Answer.Verdict, r.Answer.Race = nodeauthz.Verdict(bits>>10&3), bits>>12&1 == 1
		r.HasGrant, r.Grant.Subject.Kind, r.Grant.Subject.Name = bits>>13&1 == 1, "Group", "system:nodes"
		if bits>>14&1 == 1 {
			annotated("allow", nodeauthz.Verdict(bits>>14&3))(r)
		}
		if bits>>15 == 1 {
			impersonated(r)
		}
		m := NewMemory()
		s := &world{pods: map[string]string{text + "/" + text: "other"}, similar: map[string]string{name: text + " case"}}
		for range 2 {
			for _, rule := range All() {
				if rule.Check == nil {
					continue
				}
				check(t, rule, s, m, r)
				f, found := rule.Find(r, s, m)
				byVerdict := rule.Name == "rbac-excess-access" || rule.Name == "out-of-scope-secret-read" || rule.Name == "authorizer-lag"
				if found && byVerdict && (r.Answer.Race || r.Answer.Verdict == nodeauthz.Unknown && r.Observed.NodeVerdict != nodeauthz.Deny) {
					t.Errorf("%s flags a request that is a race or unknown: %+v", rule.Name, f)
				}
				own := f.Params.Own()
				before := fmt.Sprint(own)
				for i := range bytes {
					bytes[i] ^= 1
				}
				if fmt.Sprint(own) != before {
					t.Errorf("%s: owned parameters alias the event", rule.Name)
				}
				for i := range bytes {
					bytes[i] ^= 1
				}
			}
		}
		if !utf8.ValidString(Product(strings.ToValidUTF8(text, ""))) {
			t.Errorf("cuts a letter of %q", text)
		}
	})
}

// BenchmarkRules is what all rules cost for a request that none of them flags.
func BenchmarkRules(b *testing.B) {
	r := request(verdict(nodeauthz.Allow), code(200), certificate("X509SHA256=aa"))
	w, m, all := &world{nodes: []string{"worker-1"}}, NewMemory(), All()
	b.ReportAllocs()
	for b.Loop() {
		for _, rule := range all {
			if rule.Check == nil {
				continue
			}
			if f, found := rule.Find(r, w, m); found {
				b.Fatal(f)
			}
		}
	}
}
