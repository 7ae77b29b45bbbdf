package coverage

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	internal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// everyRequest calls f with requests of all kinds that policies of these tests tell apart.
func everyRequest(f func(a *authorizer.AttributesRecord)) {
	node := nodeUser("system:node:worker-1")
	users := []user.Info{
		node, apiServer(),
		&user.DefaultInfo{Name: "jane", Groups: []string{user.AllAuthenticated}},
		&user.DefaultInfo{Name: "kubelet", Groups: []string{user.AllAuthenticated}},
		&user.DefaultInfo{Name: "system:bootstrap:abcdef", Groups: []string{"system:bootstrappers", user.AllAuthenticated}},
		&user.DefaultInfo{Name: "system:serviceaccount:kube-system:x", Groups: []string{"system:serviceaccounts", user.AllAuthenticated}},
		&user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}},
	}
	resources := []string{
		"pods", "pods/status", "pods/log", "nodes", "nodes/status", "secrets", "configmaps", "services", "events", "serviceaccounts/token", "persistentvolumeclaims/status",
		"leases.coordination.k8s.io", "certificatesigningrequests.certificates.k8s.io", "certificatesigningrequests/approval.certificates.k8s.io",
		"certificatesigningrequests/status.certificates.k8s.io", "csidrivers.storage.k8s.io", "runtimeclasses.node.k8s.io", "resourceslices.resource.k8s.io", "deployments.apps",
	}
	for _, who := range users {
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
			for _, path := range []string{"/healthz", "/version", "/api", "/other"} {
				f(&authorizer.AttributesRecord{User: who, Verb: verb, Path: path})
			}
			for _, res := range resources {
				for _, ns := range []string{"", "kube-system", "kube-node-lease", "default", "shop"} {
					for _, name := range []string{"", "kube-root-ca.crt", "other"} {
						resource, group, _ := strings.Cut(res, ".")
						resource, sub, _ := strings.Cut(resource, "/")
						f(&authorizer.AttributesRecord{
							User: who, Verb: verb, APIGroup: group, APIVersion: "v1", Resource: resource, Subresource: sub, Namespace: ns, Name: name, ResourceRequest: true,
						})
					}
				}
			}
		}
	}
}

// A policy that is fixed keeps nothing from a check, logs of no request less than before, and of none more than a check needs. So it is for policies that
// people use, and for any other.
func TestFix(t *testing.T) {
	policies := map[string]string{}
	files, err := filepath.Glob("testdata/policies/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, path := range append(files, "../deploy/audit-policy.yaml") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		policies[path] = string(text)
	}
	for seed := range effort.Of(uint64(100), 5) {
		text := days.RandomPolicy(seed)
		policies[text] = text
	}
	for name, text := range policies {
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			t.Fatal(name, err)
		}
		fixed, err := p.Fix([]byte(text), Harmless{})
		if err != nil {
			t.Errorf("%s\n%v", name, err)
			continue
		}
		q, err := ParsePolicy(fixed)
		if err != nil {
			t.Fatal(name, err)
		}
		if left := q.Lacks(Harmless{}); len(left) > 0 {
			t.Errorf("%s: left: %+v", name, left)
		}
		if again, err := q.Fix(fixed, Harmless{}); err != nil || string(again) != string(fixed) {
			t.Errorf("%s: fixed again it is\n%s%v", name, again, err)
		}
		everyRequest(func(a *authorizer.AttributesRecord) { neverWorse(t, name, p, q, a) })
		if t.Failed() {
			t.Fatalf("fixed:\n%s", fixed)
		}
	}
}

func neverWorse(t *testing.T, name string, was, is *Policy, a *authorizer.AttributesRecord) {
	t.Helper()
	before, after := was.levels.EvaluatePolicyRule(a), is.levels.EvaluatePolicyRule(a)
	what := func() string {
		return a.User.GetName() + " " + a.Verb + " " + a.APIGroup + "/" + a.Resource + "/" + a.Subresource + " " + a.Namespace + "/" + a.Name + a.Path
	}
	if before.Level == internal.LevelNone && after.Level == internal.LevelNone {
		return
	}
	had := before.Level
	if slices.Contains(before.OmitStages, internal.StageResponseComplete) && had == internal.LevelRequestResponse {
		had = internal.LevelRequest // the response was in no stage
	}
	if after.Level.Less(had) {
		t.Errorf("%s: %s is logged at %s, was %s", name, what(), after.Level, before.Level)
	}
	if before.Level != internal.LevelNone {
		for _, s := range after.OmitStages {
			if !slices.Contains(before.OmitStages, s) {
				t.Errorf("%s: %s is not logged at %s any more", name, what(), s)
			}
		}
	}
	body := a.Resource == "certificatesigningrequests" || a.Subresource == "token" ||
		a.User.GetName() == "system:node:worker-1" && slices.Contains([]string{"nodes", "pods", "persistentvolumeclaims", "resourceslices"}, a.Resource)
	most := internal.LevelMetadata
	if body {
		most = internal.LevelRequest
	}
	if before.Level.Less(after.Level) && most.Less(after.Level) {
		t.Errorf("%s: %s is logged at %s, was %s", name, what(), after.Level, before.Level)
	}
	if (a.Resource == "secrets" || a.Resource == "configmaps") && internal.LevelMetadata.Less(after.Level) && before.Level.Less(after.Level) {
		t.Errorf("%s: contents of %s", name, what())
	}
}

// What a policy leaves out as a whole is left out of each rule.
func TestStagesOfPolicy(t *testing.T) {
	p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [ResponseComplete, ResponseStarted]\nrules:\n- level: Metadata\n"))
	if err != nil {
		t.Fatal(err)
	}
	if h := p.Hides(nodeUser("system:node:a"), Harmless{}); len(h.Requests) == 0 || h.Requests[0].Lost != codes.PolicyLacksDecision {
		t.Errorf("%+v", h)
	}
	if lacks := p.Lacks(Harmless{}); len(lacks) == 0 || lacks[0].Code != codes.PolicyLacksDecision {
		t.Errorf("%+v", lacks)
	}
}

func TestFixRefuses(t *testing.T) {
	text := "apiVersion: audit.k8s.io/v1\nkind: Policy\nx: &a [{level: None}]\nrules: *a\n"
	p, err := ParsePolicy([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Fix([]byte(text), Harmless{}); err == nil || !strings.Contains(err.Error(), "its rules are not a plain list") {
		t.Error(err)
	}
}
