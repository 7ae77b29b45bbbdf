package app

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// Who writes a role needs escalate for it, and who writes a binding bind for the role of just that kind, which the body names.
func TestSparing(t *testing.T) {
	for _, c := range []struct {
		verb, resource, name string
		request, response    string
		want                 []string
	}{
		{"update", "clusterroles", "r", "", "", []string{"escalate clusterroles r"}},
		{"create", "roles", "", "", `{"metadata":{"name":"r"}}`, []string{"escalate roles "}},
		{"create", "clusterrolebindings", "", "", "", []string{"bind clusterroles "}},
		{"create", "clusterrolebindings", "", `{"roleRef":{"kind":"ClusterRole","name":"view"}}`, "", []string{"bind clusterroles view"}},
		{"create", "rolebindings", "", "", "", []string{"bind clusterroles ", "bind roles "}},
		{"create", "rolebindings", "", `{"roleRef":{"kind":"Role","name":"view"}}`, "", []string{"bind roles view"}},
		{"create", "rolebindings", "", `{"roleRef":{"kind":"ClusterRole","name":"view"}}`, "", []string{"bind clusterroles view"}},
		{"update", "rolebindings", "b", `{"roleRef":{"kind":"ClusterRole","name":"other"}}`, `{"roleRef":{"kind":"Role","name":"view"}}`, []string{"bind roles view"}},
		{"patch", "rolebindings", "b", `{"roleRef":{"kind":"Role","name":"view"}}`, "", []string{"bind clusterroles ", "bind roles "}},
		{"patch", "rolebindings", "b", `{"subjects":[]}`, `{"roleRef":{"kind":"Role","name":"view"}}`, []string{"bind roles view"}},
		{"create", "rolebindings", "", `{"roleRef":{"kind":"Ro`, `{"kind":"Status"}`, []string{"bind clusterroles ", "bind roles "}},
	} {
		ev := &audit.Event{RequestObject: []byte(c.request), ResponseObject: []byte(c.response)}
		j := &pipeline.Judgement{Request: rules.Request{Event: ev, Attrs: &authorizer.AttributesRecord{Verb: c.verb, Resource: c.resource, Name: c.name, Namespace: "shop"}}}
		var got []string
		for _, a := range sparing(j) {
			got = append(got, fmt.Sprintf("%s %s %s", a.Verb, a.Resource, a.Name))
			if a.Namespace != "shop" {
				t.Errorf("%v: in namespace %q", c, a.Namespace)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s %s %s %s (-want +got):\n%s", c.verb, c.resource, c.request, c.response, diff)
		}
	}
}

// Whatever spares somebody the rights that he gives others, or the groups that he may have asked for, the day is not READY if it is of another kind of role, or ends.
func TestSparedAndNot(t *testing.T) {
	for name, kinds := range map[string]int{"gives-rights": 20, "may-ask-for-group": 8} {
		t.Run(name, func(t *testing.T) { openInEachForm(t, name, "nothing-depends", "", 60, kinds) })
	}
}

// A policy needs the right to read its parameters only if it has some, which only the object as it was stored shows.
func TestMayHaveParameters(t *testing.T) {
	for _, c := range []struct {
		resource, response string
		want               bool
	}{
		{"validatingadmissionpolicies", "", true},
		{"validatingadmissionpolicies", `{"kind":"Status"}`, true},
		{"validatingadmissionpolicies", `{"spec":{"paramKind":{"apiVersion":"v1","kind":"ConfigMap"}}}`, true},
		{"validatingadmissionpolicies", `{"spec":{"paramKind":null}}`, false},
		{"validatingadmissionpolicies", `{"spec":{"validations":[]}}`, false},
		{"mutatingadmissionpolicies", `{"spec":{"paramKind":{}}}`, true},
		{"validatingadmissionpolicybindings", `{"spec":{"paramRef":{"name":"a"}}}`, true},
		{"mutatingadmissionpolicybindings", `{"spec":{"policyName":"a"}}`, false},
		{"mutatingadmissionpolicybindings", `{"spec":`, true},
		{"validatingwebhookconfigurations", "", false},
	} {
		ev := &audit.Event{RequestObject: []byte(`{"spec":{}}`), ResponseObject: []byte(c.response)}
		if got := mayHaveParameters(c.resource, ev); got != c.want {
			t.Errorf("%s %s: %t", c.resource, c.response, got)
		}
	}
}

// What admission refuses for now is no refusal that the client would get anyway.
func TestOutcomeOfRefusal(t *testing.T) {
	for message, want := range map[string]checks.Outcome{
		`pods "a" is forbidden: exceeded quota: shop, requested: pods=1, used: pods=10, limited: pods=10`: checks.OutcomeFailed,
		`pods "a" is forbidden: violates PodSecurity "restricted:latest"`:                                 checks.OutcomeRefused,
	} {
		j := &pipeline.Judgement{Request: rules.Request{
			Event: &audit.Event{Code: 403, StatusMessage: message}, Attrs: &authorizer.AttributesRecord{Verb: "create"}, Allowed: true,
			Observed: rules.Observed{Decision: "allow"},
		}}
		if got := report.AnswerOf(j); got != want {
			t.Errorf("%s: %v, want %v", message, got, want)
		}
	}
}

// A binding is needed for a right only if no other one gives it.
func TestNeededAlone(t *testing.T) {
	ref := func(name string) rbac.BindingRef {
		return rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}
	}
	from := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		bindings []string
		want     bool
	}{{[]string{"goes"}, true}, {[]string{"goes", "stays"}, false}, {[]string{"stays"}, false}, {nil, false}} {
		s := rbac.NewStore()
		for _, name := range c.bindings {
			s.SetClusterRole(&rbacv1.ClusterRole{
				ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}}},
			}, from)
			s.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
				ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: rbac.KindClusterRole, Name: name},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
			}, from)
		}
		get := &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "jane"}, Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db", ResourceRequest: true}
		by, needed := (&bindingBook{store: s}).needed(get, from.Add(time.Hour), map[rbac.BindingRef]bool{ref("goes"): true})
		if needed != c.want || needed && by != ref("goes") {
			t.Errorf("%v: needed %t, by %v", c.bindings, needed, by)
		}
	}
}
