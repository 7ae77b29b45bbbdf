package rbac_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rbac"
)

func TestReasonRoundTrip(t *testing.T) {
	names := []string{"", "a", "system:node", `"`, `a" of ClusterRole "b" to Group "c`, "a\nRBAC: allowed by", "a\\", "\x00\x7f\xff\xfe", "é\u202e\u2028\ufeff\ufffd", "a b", "'", "`", " of ", " to ", "a/b", "/"}
	namespaces := []string{"ns", "", `n"s`, "n\ns"}
	f := func(g rbac.Grant) {
		t.Helper()
		reason := rbac.FormatReason(g)
		for _, r := range []string{reason, "no relationship found between node 'w1' and this object\n" + reason, reason + "\n", "\n" + reason + "\r\nother"} {
			got, ok := rbac.ParseReason(r)
			if diff := cmp.Diff(g, got); !ok || diff != "" {
				t.Errorf("ParseReason(%q): %v (-want +got):\n%s", r, ok, diff)
			}
		}
	}
	for i, n := range names {
		m := names[(i+1)%len(names)]
		for _, namespace := range namespaces {
			for _, s := range []rbac.SubjectRef{{Kind: "User", Name: n}, {Kind: "Group", Name: m}, {Kind: "ServiceAccount", Namespace: namespace, Name: m}} {
				f(rbac.Grant{Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: n}, Role: rbac.RoleRef{Kind: "ClusterRole", Name: m}, Subject: s})
				f(rbac.Grant{Binding: rbac.BindingRef{Kind: "RoleBinding", Namespace: namespace, Name: m}, Role: rbac.RoleRef{Kind: "Role", Name: n}, Subject: s})
			}
		}
	}
}

// TestFormatReason compares with how the reference puts a reason together.
func TestFormatReason(t *testing.T) {
	for _, n := range []string{"a", `"`, "\n\x00\xff", "é\u202e", ""} {
		got := rbac.FormatReason(rbac.Grant{
			Binding: rbac.BindingRef{Kind: "RoleBinding", Namespace: "ns", Name: n},
			Role:    rbac.RoleRef{Kind: "Role", Name: n},
			Subject: rbac.SubjectRef{Kind: "ServiceAccount", Namespace: n, Name: "s"}})
		want := fmt.Sprintf("RBAC: allowed by RoleBinding %q of Role %q to ServiceAccount %q", n+"/ns", n, "s/"+n)
		if got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestParseReasonRefuses(t *testing.T) {
	const good = `RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "s/ns"`
	if _, ok := rbac.ParseReason(good); !ok {
		t.Fatal("the good one is refused")
	}
	for _, r := range []string{
		"", "\n", "RBAC: ", "RBAC: allowed by ", "no relationship found between node 'w1' and this object",
		`RBAC: clusterrole.rbac.authorization.k8s.io "x" not found`,
		" " + good, "x " + good, good + " ", good + "x", strings.ToLower(good), strings.ReplaceAll(good, " ", "  "),
		strings.TrimSuffix(good, `"`), good[:len(good)-6],
		strings.Replace(good, "b/ns", "b", 1), strings.Replace(good, "s/ns", "s", 1),
		strings.Replace(good, "RoleBinding", "Binding", 1), strings.Replace(good, "of Role", "of Rolle", 1), strings.Replace(good, "ServiceAccount", "Robot", 1),
		strings.ReplaceAll(good, `"`, "`"), strings.ReplaceAll(good, `"`, `'`),
		strings.Replace(good, `"r"`, `"\x72"`, 1), strings.Replace(good, `"r"`, "\"\xff\"", 1), strings.Replace(good, `"r"`, "\"\u202e\"", 1),
		strings.Replace(good, " of ", "\n of ", 1),
	} {
		if g, ok := rbac.ParseReason(r); ok {
			t.Errorf("ParseReason(%q) = %+v", r, g)
		}
	}
}

func TestOwnReason(t *testing.T) {
	const good = `RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "s/ns"`
	for n := range len(good) {
		if !rbac.OwnReason(good[:n+1]) {
			t.Errorf("%q is not RBAC's", good[:n+1])
		}
	}
	for _, r := range []string{"allowed by policy", "rbac", "no relationship found"} {
		if rbac.OwnReason(r) {
			t.Errorf("%q is RBAC's", r)
		}
	}
}

// FuzzParseReason holds that a reason has a grant just when one of its lines is
// what FormatReason makes of that grant.
func FuzzParseReason(f *testing.F) {
	f.Add(`RBAC: allowed by ClusterRoleBinding "legacy:system:node" of ClusterRole "system:node" to Group "system:nodes"`)
	f.Add(`RBAC: allowed by RoleBinding "b/ns" of Role "r" to ServiceAccount "s/ns"`)
	f.Add("x\nRBAC: allowed by ClusterRoleBinding \"\\xff\\n\\\"\" of ClusterRole \"\\u202e\" to User \"a\"\r\ny")
	f.Fuzz(func(t *testing.T, reason string) {
		g, ok := rbac.ParseReason(reason)
		if !ok {
			if g != (rbac.Grant{}) {
				t.Errorf("refused, but %+v", g)
			}
			return
		}
		line := rbac.FormatReason(g)
		if !strings.Contains("\n"+strings.ReplaceAll(reason, "\r", "\n")+"\n", "\n"+line+"\n") {
			t.Errorf("%q\nhas no line %q", reason, line)
		}
		if again, ok := rbac.ParseReason(line); !ok || again != g {
			t.Errorf("parsed again: %v %+v, was %+v", ok, again, g)
		}
	})
}
