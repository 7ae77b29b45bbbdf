package app

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// underPolicy are the states of the checks for a day that is logged by a policy, nil if there is no read of a node in the log.
func underPolicy(t *testing.T, policy string) map[string]checks.State {
	t.Helper()
	d, err := days.Clean(3, days.Options{
		Nodes: 2, Span: time.Hour + 30*time.Minute, Minor: 36, Features: days.Deployments | days.KubeadmJoin | days.Rotation | days.ServerRestart, Policy: policy,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(d.Events, func(e *days.Event) bool {
		return e.IsNode() && e.Ref != nil && slices.Contains([]string{"secrets", "configmaps", "pods", "nodes"}, e.Ref.Resource) && slices.Contains([]string{"get", "list", "watch"}, e.Verb)
	}) {
		return nil
	}
	out := map[string]checks.State{}
	for _, r := range provenDay(t, d) {
		out[r.Check] = r.State
	}
	return out
}

// checkPolicy is PolicyCheck of a policy's text.
func checkPolicy(t *testing.T, text string) *PolicyCheckResult {
	t.Helper()
	r, err := PolicyCheck(PolicyCheckOptions{Path: "-", Stdin: strings.NewReader(text), KubernetesVersion: "1.36", Fix: true})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

// What policy check says of a policy is what the checks say of a day whose log that policy made: what cannot pass does not, all else passes that passes
// with the project's own policy, and with the policy that --fix prints all passes that does with that. Of policies that people use, and of any.
func TestPolicyCheck(t *testing.T) {
	own, err := os.ReadFile("../deploy/audit-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	best := underPolicy(t, string(own))
	policies := map[string]string{"own": string(own)}
	files, err := filepath.Glob("../coverage/testdata/policies/*.yaml")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		policies[filepath.Base(path)] = string(text)
	}
	for seed := range effort.Of(uint64(100), 2) {
		policies[fmt.Sprint("random ", seed)] = days.RandomPolicy(1000 + seed)
	}
	for i, name := range slices.Sorted(maps.Keys(policies)) {
		if i%effort.Of(1, 3) != 0 && name != "own" {
			continue
		}
		text := policies[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := checkPolicy(t, text)
			compare := func(what string, r *PolicyCheckResult, is map[string]checks.State) {
				for _, c := range r.Checks {
					switch passed := is[c.Check.Name] == checks.Passed; {
					case c.Cannot && passed:
						t.Errorf("%s: %s cannot pass, and does: %+v", what, c.Check.Name, c.Lacks)
					case is != nil && !c.Cannot && !c.Weak && !passed && best[c.Check.Name] == checks.Passed:
						t.Errorf("%s: %s can pass, and does not", what, c.Check.Name)
					}
				}
				if n, _ := r.Cannot(checks.Ready); is == nil && n == 0 {
					t.Errorf("%s: no read of a node is logged, and every check can pass", what)
				}
			}
			compare("as it is", r, underPolicy(t, text))
			fixed := checkPolicy(t, string(r.Fixed))
			for _, c := range fixed.Checks {
				if c.Cannot || c.Weak {
					t.Errorf("fixed: %s: %+v", c.Check.Name, c.Lacks)
				}
			}
			compare("fixed", fixed, underPolicy(t, string(r.Fixed)))
			if name == "own" && !bytes.Equal(own, r.Fixed) {
				t.Errorf("what is good is changed:\n%s", r.Fixed)
			}
			if t.Failed() {
				t.Logf("policy:\n%s\nfixed:\n%s", text, r.Fixed)
			}
		})
	}
}

// What each of the policies that people use prevents.
func TestPoliciesInUse(t *testing.T) {
	want := map[string]string{
		"aks-audit-admin": "policy-known one-holder",
		"eks":             "policy-known one-holder birth-guarded",
		"gce":             "policy-known one-holder birth-guarded",
		"k3s-deployments": "window-covered reads-logged policy-known servers-seen node-authorizer-on rare-paths-seen node-restriction-on one-holder birth-guarded",
		"kubeadm-writes":  "window-covered reads-logged policy-known servers-seen node-authorizer-on rare-paths-seen one-holder birth-guarded",
		"kubernetes-docs": "policy-known one-holder birth-guarded",
		"kubespray":       "policy-known one-holder",
		"openshift":       "policy-known one-holder birth-guarded",
		"talos":           "birth-guarded",
		"rke2-cis": "window-covered reads-logged policy-known every-event-judged servers-seen node-authorizer-on version-known nothing-depends identities-conform " +
			"races-decided agreement rare-paths-seen node-restriction-on no-excess-use one-holder birth-guarded",
	}
	files, err := filepath.Glob("../coverage/testdata/policies/*.yaml")
	if err != nil || len(files) != len(want) {
		t.Fatal(files, err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range checkPolicy(t, string(text)).Checks {
			if c.Cannot {
				got = append(got, c.Check.Name)
			}
		}
		if name := strings.TrimSuffix(filepath.Base(path), ".yaml"); strings.Join(got, " ") != want[name] {
			t.Errorf("%s prevents %q", name, got)
		}
	}
}
