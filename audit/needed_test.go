package audit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// nastyLines are lines on which a decoder that trusts the layout goes wrong; native is put where kube-apiserver's own beginning of an
// event would stand.
var nastyLines = []string{
	`{NATIVE"verb":"get","user":{"username":"\u0073ystem:node:a"}}`, `{NATIVE"verb":"get","user":{"username":"system:node\u003aa"}}`, `{NATIVE"verb":"get","user":{"username":"x","groups":["system:nodes"]}}`,
	`{NATIVE"verb":"get","user":{"username":"x","groups":["system\u003anodes"]}}`, `{NATIVE"verb":"get","user":{"username":"x"},"user":{"groups":["system:nodes"]}}`, `{NATIVE"verb":"get","impersonatedUser":{"username":"system:node:a"}}`,
	`{NATIVE"verb":"get","user":{"username":"x"},"responseStatus":{"code":403,"message":"nodes.authentication.k8s.io \"*\" is forbidden: User \"x\" cannot impersonate:associated-node resource"}}`,
	`{NATIVE"verb":"get","userAgent":"kubelet/v1"}`, `{NATIVE"verb":"get","userAgent":"hollow-kubelet/v1"}`, `{NATIVE"verb":"get","userAgent":"\u006bubelet"}`, `{NATIVE"verb":"get","userAgent": "kubelet"}`, `{NATIVE"verb":"get","userAgent":"a\\","user":{"username":"system:node:"}}`,
	`{NATIVE"verb":"get","userAgent":"a\\u006b","userAgent":"kubelet"}`, `{NATIVE"verb":"get","annotations":{"a":"to Group \"system:nodes\""}}`,
	`{NATIVE"verb":"get","objectRef":{"resource":"pods"},"verb":"create"}`, `{NATIVE"verb":"get","objectRef":{"resource":"pods"},"verb" : "create"}`, `{NATIVE"verb":"get","objectRef":{"resource":"pods"},"v\u0065rb":"create"}`,
	`{NATIVE"verb":"create","objectRef":{"resource":"pods"}}`, `{NATIVE"verb":"create","objectRef" : {"resource":"pods"}}`, `{NATIVE"verb":"create","objectRef":{"resource":"leases"},"objectRef":{"resource":"pods"}}`, `{NATIVE"verb":"create","objectRef":{"resource":"leases"},"objectRef" :{"resource":"pods"}}`,
	`{NATIVE"verb":"create","objectRef":{"resource":"pods"},"objectRef":{"name":"a"}}`, `{NATIVE"verb":"create","objectRef":{"resource":"pods","resource":null}}`,
	`{NATIVE"verb":"create","objectRef":{"resource":"leases","resource":"pods"}}`, `{NATIVE"verb":"create","objectRef":{"subresource":"token","resource":"serviceaccounts"}}`, `{NATIVE"verb":"create","objectRef":{"subresource":"token"},"objectRef":null,"objectRef":{"resource":"serviceaccounts"}}`,
	`{NATIVE"verb":"create","objectRef":{"subresource":"token","subresource":null,"resource":"serviceaccounts"}}`, `{NATIVE"verb":"creat\u0065","objectRef":{"resource":"pods"}}`, `{NATIVE"verb":"create","objectRef":{"resource":"pod\u0073"}}`, `{NATIVE"verb":"create","objectRef":null}`,
	`{NATIVE"verb":"create","requestObject":{"verb":"get","objectRef":{"resource":"x"}},"objectRef":{"resource":"pods"}}`, `{NATIVE"verb":"patch"}`, `{NATIVE"verb":"get"}`, `{NATIVE"verb":null}`, `{NATIVE"verb":"create","objectRef":{"resource":"leases"}}`,
	`{NATIVE"verb":"update","user":{"username":"system:apiserver"},"objectRef":{"resource":"leases","namespace":"kube-system","name":"apiserver-a","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"patch","user":{"username":"system:apiserver"},"objectRef":{"name":"apiserver-a","name":null,"resource":"leases","namespace":"kube-system","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"update","user":{"username":"system:apiserve\u0072"},"objectRef":{"resource":"leases","namespace":"x","namespace":"kube-system","name":"apiserver-a","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"update","user":{"username":"kwok"},"objectRef":{"resource":"leases","namespace":"kube-node-lease","name":"a","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"patch","objectRef":{"namespace":"x","namespace":"kube-node-lease","resource":"leases","subresource":null,"apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"create","objectRef":{"namespace":"kube-node-leas\u0065","resource":"leases","name":"a","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"get","user":{"username":"system:apiserver"},"objectRef":{"resource":"leases","namespace":"kube-system","name":"apiserver-a","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"get","user":{"username":"system:apiserver"},"objectRef":{"name":"\u0061piserver-a","resource":"leases","namespace":"kube-system","apiGroup":"coordination.k8s.io"}}`,
	`{NATIVE"verb":"list","user":{"username":"jane"}}`, `{NATIVE"verb":"list","user":{"username":"j\u0061ne"}}`, `{NATIVE"verb":"list","user":{"groups":["system:bootstrappers"]}}`,
	`{NATIVE"verb":"list","impersonatedUser":{"username":"system:serviceaccount:kube-system:agent"}}`, `{NATIVE"verb":"list","user":{"username":"j\u00fcrgen"}}`,
	`{NATIVE"verb":"list","user":{"username":"jürgen"}}`, `{NATIVE"verb":"list","user":{"username":"a\"b"}}`, `{NATIVE"verb":"list","user":{"username":"x\/y"}}`,
	`{NATIVE"verb":"get","user":{"username":"system:bootstrap:abcdef"}}`, `{NATIVE"verb":"get","user":{"username":"x"},"user":{"username":"system:bootstrap:"}}`, `{NATIVE"verb":"list","impersonatedUser":{"username":"system:bootstra\u0070:a"}}`,
	`{NATIVE"verb":"get","user":{"username":"syystem:x","groups":["system:bootstrappers","system:bootstrap:a"]}}`, `{NATIVE"verb":"get","user":{"username":"system:bootstrap:yystem:node"}}`,
	`{NATIVE"verb":"update","objectRef":{"resource":"certificatesigningrequests","name":"a","apiGroup":"certificates.k8s.io","subresource":"approval"}}`,
	`{NATIVE"verb":"create","objectRef":{"resource":"certificatesigningrequest\u0073","apiGroup":"certificates.k8s.io"}}`, `{NATIVE"verb":"patch","objectRef":{"resource":"x","resource":"certificatesigningrequests","apiGroup":"certificates.k8s.io"}}`,
	`{NATIVE"verb":"create","objectRef":{"resource":"secrets","namespace":"kube-system","name":"bootstrap-token-abcdef"}}`, `{NATIVE"verb":"update","objectRef":{"name":"x","resource":"secrets","namespace":"kube-system","name":"bootstrap-token-"}}`,
	`{NATIVE"verb":"list","user":{"username":"a"},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \"system:node\" to User \"a\""}}`,
	`{NATIVE"verb":"list","annotations":{"authorization.k8s.io/reason":"RBAC: allowed by ClusterRoleBinding \"b\" of ClusterRole \u0022system:node\" to User \"a\""}}`,
	`{NATIVE"verb":"list","user":{"username":"system:serviceaccount:a:b"},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`,
	`{NATIVE"verb":"list","user":{"username":"system:serviceaccount:a:b","groups":["system:masters"]},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""}}`,
	`{NATIVE"verb":"get","impersonatedUser":{"username":"system:node:a","extra":{"scopes":["b","a"],"a":[null],"authentication.kubernetes.io/credential-id":["x","y"]}}}`,
	`{NATIVE"verb":"get","impersonatedUser":{"username":"system:node:a","extra":{"scopes":["b"],"s\u0063opes":["a"],"e":null}}}`,
	`{NATIVE"verb":"get"}{NATIVE"verb":"get","user":{"username":"system:node:a"}}`,
}

const nativeStart = `"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","stage":"ResponseComplete","requestURI":"/a",`

func nastyCorpus(tb testing.TB) [][]byte {
	lines := captureLines(tb)
	for _, line := range nastyLines {
		lines = append(lines, []byte(strings.ReplaceAll(line, "NATIVE", nativeStart)))
	}
	for _, text := range nasty {
		lines = append(lines, []byte(text))
	}
	return lines
}

// complete holds that a decoder gives a line of one event to emit if it is needed, and never otherwise, as the types of Kubernetes read it.
func complete(t *testing.T, d *Decoder, line []byte) {
	t.Helper()
	ev, err := full(line)
	if err != nil || bytes.IndexByte(line, '\n') >= 0 || ev.AuditID == "" {
		return
	}
	emitted := 0
	counts := d.Chunk(line, 1, func(*Event) { emitted++ }, func(Malformed) {})
	if counts.Read == 1 && (emitted == 1) != Needed(ev, d.Want) {
		t.Fatalf("%q is emitted %d times", line, emitted)
	}
}

func TestNeededIsEmitted(t *testing.T) {
	for _, want := range wants() {
		d := Decoder{Want: want}
		for range 3 {
			for _, line := range nastyCorpus(t) {
				complete(t, &d, line)
			}
		}
	}
}

// wants are what decoders are asked for in these tests.
func wants() []Want {
	others := &Subjects{}
	others.Wants([]string{"system:serviceaccount:kube-system:agent", "jane"}, []string{"system:bootstrappers"})
	odd := &Subjects{}
	odd.Wants([]string{"jürgen", `a"b`, "x/y"}, nil)
	return []Want{{}, {State: true}, {Others: others}, {State: true, Others: odd}}
}

func TestNeeded(t *testing.T) {
	f := func(want bool, ev Event) {
		t.Helper()
		if got := Needed(&ev, Want{State: true}); got != want {
			t.Errorf("%+v: %v", ev, got)
		}
	}
	f(true, Event{User: User{Username: "system:node:a"}})
	f(true, Event{User: User{Groups: []string{"a", "system:nodes"}}})
	f(true, Event{IsImpersonated: true, Impersonated: User{Username: "system:node:"}})
	f(true, Event{UserAgent: "kubelet/v1.36.0"})
	f(false, Event{UserAgent: "hollow-kubelet/v1.36.0"})
	f(true, Event{Decision: "allow", Reason: `RBAC: allowed by RoleBinding "b/ns" of ClusterRole "system:node" to ServiceAccount "a/ns"`})
	f(false, Event{Decision: "allow", Reason: `RBAC: allowed by ClusterRoleBinding "system:node-proxier" of ClusterRole "system:node-proxier" to User "a"`})
	refused := Event{
		Code: 403, User: User{Username: "a"}, StatusMessage: `users "system:node:n1" is forbidden: User "a" cannot impersonate resource "users" in API group "" at the cluster scope`,
	}
	f(true, refused)
	refused.User.Username = "b"
	f(false, refused)
	for message, want := range map[string]bool{
		`secrets "a" is forbidden: User "b" cannot impersonate-on:arbitrary-node:get resource "secrets" in API group "" in the namespace "x"`:                    true,
		`nodes is forbidden: User "b" cannot impersonate-on:associated-node:list resource "nodes" in API group "" at the cluster scope`:                          true,
		`forbidden: User "b" cannot impersonate-on:arbitrary-node:get path "/healthz"`:                                                                           true,
		`nodes.authentication.k8s.io "n1" is forbidden: User "b" cannot impersonate:arbitrary-node resource "nodes" in API group "" at the cluster scope`:        true,
		`pods is forbidden: User "b" cannot impersonate-on:user-info:list resource "pods" in API group "" at the cluster scope`:                                  false,
		`pods is forbidden: User "c" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" at the cluster scope`:                             false,
		`secrets " cannot impersonate-on:x" is forbidden: User "b" cannot impersonate-on:arbitrary-node:get resource "secrets" in API group "" in namespace "x"`: true,
	} {
		refused.StatusMessage = message
		f(want, refused)
	}
	f(false, Event{User: User{Username: "system:nodes"}})
	f(true, Event{Verb: "create", ObjectRef: ObjectRef{Resource: "pods", Subresource: "binding"}})
	f(true, Event{Verb: "get", User: User{Username: "system:bootstrap:abcdef"}})
	f(true, Event{Verb: "get", IsImpersonated: true, Impersonated: User{Username: "system:bootstrap:abcdef"}})
	f(false, Event{Verb: "get", User: User{Username: "x", Groups: []string{"system:bootstrap:abcdef", "system:bootstrappers"}}})
	for _, sub := range []string{"", "approval", "status"} {
		for verb, want := range map[string]bool{"create": true, "update": true, "patch": true, "get": false, "delete": false} {
			f(want, Event{Verb: verb, ObjectRef: ObjectRef{Resource: "certificatesigningrequests", APIGroup: "certificates.k8s.io", Subresource: sub}})
		}
	}
	f(false, Event{Verb: "create", ObjectRef: ObjectRef{Resource: "certificatesigningrequests"}})
	f(true, Event{Verb: "create", ObjectRef: ObjectRef{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-abcdef"}})
	f(false, Event{Verb: "create", ObjectRef: ObjectRef{Resource: "secrets", Namespace: "kube-system", Name: "token-abcdef"}})
	f(false, Event{Verb: "delete", ObjectRef: ObjectRef{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-abcdef"}})
	f(false, Event{Verb: "get", ObjectRef: ObjectRef{Resource: "pods"}})
	f(false, Event{Verb: "create", ObjectRef: ObjectRef{Resource: "pods", Subresource: "exec"}})
	f(false, Event{Verb: "create", ObjectRef: ObjectRef{Resource: "serviceaccounts", Subresource: "token"}})
	f(true, Event{Verb: "deletecollection", ObjectRef: ObjectRef{Resource: "persistentvolumes"}})

	renewal := Event{
		Verb: "update", User: User{Username: "system:apiserver"},
		ObjectRef: ObjectRef{Resource: "leases", Namespace: "kube-system", Name: "apiserver-4ivpfq", APIGroup: "coordination.k8s.io"},
	}
	f(true, renewal)
	start := renewal
	start.Verb = "get" // as it does when it starts
	f(true, start)
	for _, change := range []func(*Event){
		func(ev *Event) { ev.Verb = "list" }, func(ev *Event) { ev.User.Username = "system:kube-scheduler" }, func(ev *Event) { ev.ObjectRef.Resource = "configmaps" },
		func(ev *Event) { ev.ObjectRef.Namespace = "default" }, func(ev *Event) { ev.ObjectRef.Name = "kube-scheduler" },
		func(ev *Event) { ev.ObjectRef.APIGroup = "" }, func(ev *Event) { ev.ObjectRef.Subresource = "status" },
	} {
		other := renewal
		change(&other)
		f(false, other)
	}
}

// Whoever renews the Lease of a node is needed: a program that plays one has no identity of a node.
func TestNodeLeaseIsNeeded(t *testing.T) {
	renewal := Event{
		Verb: "update", User: User{Username: "system:serviceaccount:kube-system:kwok"}, UserAgent: "kwok/v1",
		ObjectRef: ObjectRef{Resource: "leases", Namespace: "kube-node-lease", Name: "worker-1", APIGroup: "coordination.k8s.io"},
	}
	for _, verb := range []string{"create", "update", "patch"} {
		if renewal.Verb = verb; !Needed(&renewal, Want{}) {
			t.Errorf("%s is not needed", verb)
		}
	}
	for _, change := range []func(*Event){
		func(ev *Event) { ev.Verb = "get" }, func(ev *Event) { ev.Verb = "delete" }, func(ev *Event) { ev.ObjectRef.Namespace = "kube-system" },
		func(ev *Event) { ev.ObjectRef.APIGroup = "" }, func(ev *Event) { ev.ObjectRef.Subresource = "status" },
		func(ev *Event) { ev.ObjectRef.Resource = "configmaps" },
	} {
		other := renewal
		change(&other)
		if Needed(&other, Want{}) {
			t.Errorf("%+v is needed", other)
		}
	}
}

// What is wanted of others is found as themselves or as whom they act, by name or group, and nothing else is.
func TestSubjects(t *testing.T) {
	var none *Subjects
	if none.Holds(&User{Username: "jane"}) || !none.Empty() {
		t.Error("nil holds somebody")
	}
	for _, want := range wants()[2:] {
		for name := range want.Others.users {
			if !Needed(&Event{User: User{Username: name}}, want) || !Needed(&Event{IsImpersonated: true, Impersonated: User{Username: name}}, want) {
				t.Errorf("%s is not needed", name)
			}
			if Needed(&Event{User: User{Username: name + "x", Groups: []string{name}}}, want) || Needed(&Event{Impersonated: User{Username: name}}, want) {
				t.Errorf("%s is found where it is not", name)
			}
		}
		for name := range want.Others.groups {
			if !Needed(&Event{User: User{Groups: []string{"x", name}}}, want) || Needed(&Event{User: User{Username: name}}, want) {
				t.Errorf("group %s", name)
			}
		}
	}
}

func FuzzNeeded(f *testing.F) {
	for i, line := range nastyCorpus(f) {
		if i%8 == 0 || i > len(captureLines(f)) {
			f.Add(line, i%2 == 0)
		}
	}
	f.Fuzz(func(t *testing.T, line []byte, state bool) {
		for _, want := range wants() {
			want.State = want.State || state
			d := Decoder{Want: want}
			for range 3 {
				complete(t, &d, line)
				complete(t, &d, append([]byte(`{`+nativeStart), line...))
			}
		}
	})
}

// What a message says of impersonation does not depend on the names of the user and the object: the API server quotes both.
func TestSaysImpersonation(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	parts := []string{"a", "system:node:n1", `"`, `\`, `\"`, " ", "<", "&", ` is forbidden: User "x"`, "forbidden: User ", "\u00e9"}
	text := func() (s string) {
		for range rnd.IntN(5) {
			s += parts[rnd.IntN(len(parts))]
		}
		return s
	}
	for range 20_000 {
		object, name := text(), text()
		for verb, want := range map[string]bool{"impersonate": true, "impersonate:arbitrary-node": true, "impersonate-on:user-info:get": true, "get": false, "create": false} {
			message := fmt.Sprintf(`users %q is forbidden: User %s cannot %s resource "users" in API group "" at the cluster scope`, object, inMessage.Replace(strconv.Quote(name)), verb)
			if got := SaysImpersonation(&Event{StatusMessage: message}); got != want {
				t.Fatalf("%t of %s", got, message)
			}
		}
	}
	const may = `forbidden: User "a\" cannot impersonate x" cannot get path "/"`
	if !SaysImpersonation(&Event{StatusMessage: may}) {
		t.Error("that may say so")
	}
	if SaysImpersonation(&Event{StatusMessage: may, Decision: "forbid"}) {
		t.Error("what was authorized was not refused before")
	}
}
