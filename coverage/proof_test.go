package coverage

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

func parsed(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(text))
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

func TestHides(t *testing.T) {
	f := func(policy string, want ...string) {
		t.Helper()
		got := parsed(t, policy).Hides(nodeUser(anyNode), Harmless{})
		var all []string
		for _, h := range got.Requests {
			all = append(all, fmt.Sprintf("%d:%d %s %s.%s/%s %s/%s %s %v", h.Rule, h.Line, h.Verb, h.Resource, h.APIGroup, h.Subresource, h.Namespace, h.Name, h.Path, h.Lost == codes.PolicyLacksDecision))
		}
		if len(want) == 0 && len(all) > 0 || got.TooMany {
			t.Errorf("%s\nhides %q, too many %v", policy, all, got.TooMany)
		}
		for _, w := range want {
			if !strings.Contains(strings.Join(all, "\n"), w) {
				t.Errorf("%s\nno %q in %q and %d more", policy, w, all, got.More)
			}
		}
	}
	f(policyOf("- level: Metadata\n"))
	f(policyOf("- level: Metadata\n  userGroups: [system:nodes]\n- level: None\n"))
	f(policyOf("- level: None\n  users: [admin]\n- level: Metadata\n"))
	f(policyOf("- level: Metadata\n  resources: [{group: \"\", resources: [secrets]}]\n- level: None\n  resources: [{group: \"\", resources: [secrets]}]\n- level: Request\n"))
	f("omitStages: [RequestReceived]\n" + policyOf("- level: Metadata\n"))
	f(policyOf("- level: None\n  userGroups: [system:nodes]\n  verbs: [get]\n  resources: [{group: \"\", resources: [nodes]}]\n- level: Metadata\n"), "0:4 get nodes./")
	f(policyOf("- level: None\n  namespaces: [kube-system]\n- level: Metadata\n"), "0:4 * *.*/ kube-system/")
	f(policyOf("- level: None\n  nonResourceURLs: [/metrics*]\n- level: Metadata\n"), "/metrics false")
	f(policyOf("- level: Metadata\n  verbs: [get]\n"), "-1:0 *")
	f(policyOf("- level: Metadata\n  omitStages: [ResponseComplete]\n"), "true")
	f(policyOf("- level: None\n  resources: [{group: \"\", resources: [\"pods/*\"]}]\n- level: Metadata\n"), "0:4 * pods./* /")
	f(policyOf("- level: None\n  resources: [{group: \"\", resources: [\"*/status\"]}]\n- level: Metadata\n"), "0:4 * *./status")
	f(policyOf("- level: None\n  resources: [{group: \"\", resources: [configmaps], resourceNames: [x]}]\n- level: Metadata\n"), "configmaps./ /x")
}

// TestHidesDeployed holds that the policy that we deploy hides nothing that a node does.
func TestHidesDeployed(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "deploy", "audit-policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if h := parsed(t, string(b)).Hides(nodeUser(anyNode), Harmless{}); len(h.Requests) > 0 || h.TooMany {
		t.Errorf("%+v", h)
	}
}

// randomPolicy makes a policy of few words, so that rules meet.
func randomPolicy(r *rand.Rand) string {
	some := func(words ...string) string {
		var out []string
		for _, w := range words {
			if r.IntN(2) == 0 {
				out = append(out, fmt.Sprintf("%q", w))
			}
		}
		if len(out) == 0 {
			out = []string{fmt.Sprintf("%q", words[r.IntN(len(words))])}
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	maybe := func() bool { return r.IntN(2) == 0 }
	var b strings.Builder
	for range 1 + r.IntN(5) {
		fmt.Fprintf(&b, "- level: %s\n", []string{"None", "Metadata", "Request", "Metadata"}[r.IntN(4)])
		if maybe() {
			fmt.Fprintf(&b, "  verbs: %s\n", some("get", "watch", "list"))
		}
		if r.IntN(4) == 0 {
			fmt.Fprintf(&b, "  userGroups: %s\n", some("system:nodes", "system:authenticated", "admins"))
		}
		if r.IntN(5) == 0 {
			b.WriteString("  omitStages: [ResponseComplete]\n")
		}
		switch r.IntN(3) {
		case 0:
			fmt.Fprintf(&b, "  nonResourceURLs: %s\n", some("/version", "/metrics*", "/a/*", "*"))
		case 1:
			resources := some("secrets", "pods", "pods/status", "pods/*", "*/scale", "*")
			group := []string{"", "apps", "*"}[r.IntN(3)]
			names := ""
			if r.IntN(4) == 0 && !strings.Contains(resources, "*") {
				names = ", resourceNames: [x]"
			}
			fmt.Fprintf(&b, "  resources: [{group: %q, resources: %s%s}]\n", group, resources, names)
			if maybe() {
				fmt.Fprintf(&b, "  namespaces: %s\n", some("kube-system", "", "shop"))
			}
		}
	}
	return policyOf(b.String())
}

// TestHidesIsComplete holds that of a policy which is said to hide nothing no request at all is hidden, and that what is said to be hidden is.
func TestHidesIsComplete(t *testing.T) {
	whole, hiding := 0, 0
	for seed := range effort.Of(uint64(3000), 400) {
		r := rand.New(rand.NewPCG(3, seed))
		text := randomPolicy(r)
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			continue // two things that may not stand together
		}
		got := p.Hides(nodeUser(anyNode), Harmless{})
		if len(got.Requests) > 0 {
			hiding++
		} else {
			whole++
		}
		pick := func(words ...string) string { return words[r.IntN(len(words))] }
		for range 300 {
			a := authorizer.AttributesRecord{User: nodeUser(anyNode), Verb: pick("get", "list", "watch", "create")}
			if r.IntN(4) == 0 {
				a.Path = pick("/version", "/metrics", "/metrics/a", "/a/b", "/c", "/")
			} else {
				a.ResourceRequest, a.APIGroup, a.Resource = true, pick("", "apps", "batch"), pick("secrets", "pods", "jobs")
				a.Subresource, a.Namespace, a.Name = pick("", "", "status", "scale", "log"), pick("", "kube-system", "shop", "other"), pick("", "x", "y")
			}
			if _, lost := p.decided(&a); lost != "" && len(got.Requests) == 0 {
				t.Fatalf("seed %d: said to hide nothing, hides %+v\n%s", seed, a, text)
			}
		}
	}
	if least := effort.Of(300, 40); whole < least || hiding < least {
		t.Errorf("only %d policies that hide nothing and %d others", whole, hiding)
	}
}

// TestHidesRemembers holds that what a policy remembers of others does not change what it says of a user and of what is harmless.
func TestHidesRemembers(t *testing.T) {
	get := Harmless{"get", func(a authorizer.Attributes) bool { return a.GetVerb() == "get" }}
	list := Harmless{"list", func(a authorizer.Attributes) bool { return a.GetVerb() == "list" }}
	differ := 0
	for seed := range effort.Of(uint64(1000), 60) {
		text := randomPolicy(rand.New(rand.NewPCG(4, seed)))
		p, err := ParsePolicy([]byte(text))
		if err != nil {
			continue
		}
		var before Hidden
		for round := range 2 {
			for _, who := range []user.Info{nodeUser(anyNode), &user.DefaultInfo{Name: "a", Groups: []string{"admins"}}, &user.DefaultInfo{Name: "b", Groups: []string{user.AllAuthenticated}}} {
				for _, h := range []Harmless{get, list, {}} {
					got := p.Hides(who, h)
					if want := parsed(t, text).Hides(who, h); !reflect.DeepEqual(got, want) {
						t.Fatalf("seed %d, round %d: of %s but %q it hides %+v, of what nobody asked before %+v\n%s", seed, round, who.GetName(), h.Key, got, want, text)
					}
					if !reflect.DeepEqual(got, before) {
						differ++
					}
					before = got
				}
			}
		}
	}
	if least := effort.Of(500, 150); differ < least {
		t.Errorf("only %d answers differ from the one before", differ)
	}
}
