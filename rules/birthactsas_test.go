package rules

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/audit"
)

// actsAs has the user impersonate another.
func actsAs(name string, groups ...string) with {
	return func(r *Request) {
		r.Event.Impersonated, r.Event.IsImpersonated = audit.User{Username: name, Groups: groups}, true
	}
}

// Who impersonates somebody that is trusted is not trusted for that.
//
// Seen to fail where the user that is impersonated counts.
func TestBirthByWhoActsAsAnother(t *testing.T) {
	m := &Memory{Bootstrap: Bootstrap{Trusted: []string{"ops"}}}
	f := func(rule *Rule, name, want string, changes ...with) {
		t.Helper()
		if got := check(t, rule, nil, m, request(changes...)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	approved := signing(t, kubeletsAsk("worker-1"), "approval", "csr-1")
	birth, tokens := bootstrapImpersonation(), bootstrapTokenMisuse()
	for _, name := range []string{"system:kube-controller-manager", "system:serviceaccount:kube-system:certificate-controller", "ops"} {
		f(birth, "approved as "+name, `high: user "jane" approved a certificate for CN="system:node:worker-1", O="system:nodes" in place of the controller`, approved, by("jane"), actsAs(name))
		f(birth, "approved by a node as "+name, `critical: user "system:node:worker-7" is a node and approved a certificate for CN="system:node:worker-1", O="system:nodes"`,
			approved, by("system:node:worker-7", "system:nodes"), actsAs(name))
	}
	f(birth, "approved by who is trusted", "", approved, by("ops"), actsAs("jane"))

	made := func(r *Request) {
		does("create secrets kube-system/")(r)
		r.Event.ObjectRef = audit.ObjectRef{Resource: "secrets", Namespace: "kube-system", Name: "bootstrap-token-abcdef"}
		code(201)(r)
	}
	const medium = "medium: jane made the bootstrap token in the secret bootstrap-token-abcdef"
	f(tokens, "made as an admin", medium, made, by("jane"), actsAs("kubernetes-admin", "system:masters"))
	f(tokens, "made as who is trusted", medium, made, by("jane"), actsAs("ops"))
	f(tokens, "made by an admin", "", made, by("kubernetes-admin", "system:masters"), actsAs("jane"))
}

// Who asks for a certificate of a node as that node is not the node.
func TestBirthAsTheNode(t *testing.T) {
	own := kubeletsAsk("worker-1")
	own.user, own.cert = "system:node:worker-1", "evil"
	for _, acts := range []bool{false, true} {
		b := newBirths(t)
		b.lives("worker-9", 0, 1200, "X509SHA256=9", "10.0.0.9") // the log advances
		b.lives("worker-1", 0, 1200, "X509SHA256=1", "10.0.0.1")
		by, want := func(*Request) {}, []string(nil)
		if acts {
			by = func(r *Request) {
				r.Event.User.Username = "jane"
				actsAs(own.user, "system:nodes")(r)
			}
			want = []string{`critical: user "jane" got a certificate of node worker-1 while its kubelet was running with another credential, from 10.9.9.9`}
		}
		b.one(600, "csr-a", signing(t, own, "", "csr"), from("10.9.9.9"), by)
		b.one(600, "csr-b", signing(t, own, "approval", "csr"))
		b.one(601, "csr-c", signing(t, own, "status", "csr"))
		got := b.findings(nil)
		for i := range got {
			_, got[i], _ = strings.Cut(got[i], " ")
		}
		if !slices.Equal(got, want) {
			t.Errorf("as the node, impersonated %t:\n got %q\nwant %q", acts, got, want)
		}
	}
}
