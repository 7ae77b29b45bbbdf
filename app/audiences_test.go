package app

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/report"
)

// ruleOf is a rule with one of everything; "" for none.
func ruleOf(verb, group, resource, name string) rbacv1.PolicyRule {
	r := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
	if name != "" {
		r.ResourceNames = []string{name}
	}
	return r
}

// Each rule that is listed allows what RBAC allows, and each that RBAC goes by is listed: over all rules of few words.
func TestAudiencesAreRBACs(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for _, verb := range []string{verbAudience, "*", "get"} {
		for _, group := range []string{"", "*", "apps"} {
			for _, resource := range []string{"vault", "*", "*/vault", "serviceaccounts"} {
				for _, name := range []string{"", "web", "db"} {
					for _, subject := range []rbacv1.Subject{
						{Kind: "Group", Name: "system:nodes"}, {Kind: "User", Name: "system:node:w1"}, {Kind: "Group", Name: "system:authenticated"},
						{Kind: "Group", Name: "system:masters"}, {Kind: "Group", Name: "system:unauthenticated"},
					} {
						s := cluster.NewState()
						s.RBAC.CoverFrom(at.Add(-time.Hour))
						s.RBAC.SetClusterRole(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{ruleOf(verb, group, resource, name)}}, at.Add(-time.Minute))
						s.RBAC.SetClusterRoleBinding(&rbacv1.ClusterRoleBinding{
							ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: []rbacv1.Subject{subject}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "r"},
						}, at.Add(-time.Minute))
						want := s.RBAC.Authorize(authorizer.AttributesRecord{
							User: &user.DefaultInfo{Name: "system:node:w1", Groups: []string{"system:nodes", "system:authenticated"}}, Verb: verbAudience,
							Resource: "vault", Namespace: "shop", Name: "web", APIVersion: "v1", ResourceRequest: true,
						}, at).Allowed
						got := false
						for _, h := range audiencesOf(s, at).Holders {
							got = got || (h.Any || h.Audiences[0] == "vault") && (len(h.ServiceAccounts) == 0 || h.ServiceAccounts[0] == "web")
						}
						if got != want {
							t.Errorf("%s %q %s %q to %s %s: listed %t, allowed %t", verb, group, resource, name, subject.Kind, subject.Name, got, want)
						}
					}
				}
			}
		}
	}
}

func TestAudiencesAndDrivers(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	s := cluster.NewState()
	s.RBAC.CoverFrom(at)
	s.Admission.CoverFrom(nodeadmission.KindDriver, at)
	for name, audiences := range map[string][]string{"secrets-store.csi.k8s.io": {"vault", "aws"}, "ebs.csi.aws.com": {}, "gone": {"vault"}} {
		s.Admission.SetDriver(name, &audiences, nodeadmission.Moment{Time: at})
	}
	s.Admission.SetDriver("gone", nil, nodeadmission.Moment{Time: at.Add(time.Minute)})
	bind := func(name string, role rbacv1.PolicyRule) {
		s.RBAC.SetRole(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Rules: []rbacv1.PolicyRule{role}}, at)
		s.RBAC.SetRoleBinding(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Subjects: []rbacv1.Subject{{Kind: "Group", Name: "system:nodes"}}, RoleRef: rbacv1.RoleRef{Kind: "Role", Name: name},
		}, at)
	}
	bind("a", ruleOf(verbAudience, "", "vault", "web"))
	bind("b", ruleOf(verbAudience, "", "*", ""))
	end := at.Add(time.Hour)
	got := audiencesOf(s, end)
	driver := report.AudienceDriver{Name: "secrets-store.csi.k8s.io", Audiences: []string{"vault", "aws"}}
	holder := func(name string) report.AudienceHolder {
		return report.AudienceHolder{
			Binding: report.Binding{Kind: "RoleBinding", Namespace: "shop", Name: name}, Role: name, Subjects: []string{"Group system:nodes"}, Namespace: "shop",
			Drivers: []string{driver.Name},
		}
	}
	a, b := holder("a"), holder("b")
	a.Audiences, a.ServiceAccounts = []string{"vault"}, []string{"web"}
	b.Audiences, b.ServiceAccounts, b.Any = []string{"*"}, []string{}, true
	want := &report.Audiences{Known: true, DriversKnown: true, Holders: []report.AudienceHolder{b, a}, Drivers: []report.AudienceDriver{driver}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	lines := strings.Join(got.Lines(), "\n")
	if diff := cmp.Diff(`high: RoleBinding shop/b lets Group system:nodes request tokens for any audience in namespace shop
RoleBinding shop/a lets Group system:nodes request tokens for the audience "vault" of the service account web in namespace shop; the CSI driver secrets-store.csi.k8s.io asks for it, and its volumes do not need this rule
the CSI driver secrets-store.csi.k8s.io requests tokens for the audience "vault", "aws": NodeRestriction allows them for pods with its volumes`, lines); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// It goes through the store as it is.
	raw, err := toStore(&report.Facts{Audiences: got}, at, "v", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	back, err := fromStore(map[string]json.RawMessage{"a": raw})
	if diff := cmp.Diff(got, back.Audiences); err != nil || diff != "" {
		t.Errorf("%v, -stored +read:\n%s", err, diff)
	}
}
