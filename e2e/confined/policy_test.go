package confined

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// policyEnv names the policy of coverage/testdata/policies that the tests of this file run.
const policyEnv = "NODETRAIL_E2E_POLICY"

// A policy that many people use hides something that READY or CONFINED needs. With what policy check --fix makes of it, a real API server logs enough: a hardened
// cluster reaches both, by all checks. The same log, with the policy as it was, does not pass.
func TestPolicyFixed(t *testing.T) {
	p := readPolicy(t)
	fixed := filepath.Join(work.Dir, "policy.yaml")
	plane.Check(t, os.WriteFile(fixed, plane.Must(trail.Run(work.Context(), p.program, "policy", "check", "--fix", p.path))(t), 0o600))
	c := newCluster(t, "fixed", fixed)
	c.live(t, "node-1", "node-2")
	c.confined(t)
	c.Plane.Options.Policy = p.path
	r := plane.Must(c.analyzed(time.Now()))(t)
	for _, name := range passed(r) {
		if name == "policy-known" && p.prevented[name] {
			t.Errorf("under the policy as it was, these pass: %v", passed(r))
		}
	}
}

// policy is one that people use, and the checks that policy check says it prevents.
type policy struct {
	program, path string
	prevented     map[string]bool
}

func readPolicy(t *testing.T) *policy {
	t.Helper()
	name := cmp.Or(os.Getenv(policyEnv), "kubeadm-writes")
	p := &policy{
		program:   plane.Must(trail.Build(work.Context(), work))(t),
		path:      filepath.Join(plane.Must(plane.Root())(t), "coverage", "testdata", "policies", name+".yaml"),
		prevented: map[string]bool{},
	}
	cmd := exec.CommandContext(work.Context(), p.program, "policy", "check", "-o", "json", p.path)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 2 {
		t.Fatalf("policy check has nothing against the policy: %v", err)
	}
	var said struct {
		Checks []struct{ Name, State string }
	}
	plane.Check(t, json.Unmarshal(out, &said))
	for _, c := range said.Checks {
		if c.State == "impossible" {
			p.prevented[c.Name] = true
		}
	}
	if len(p.prevented) == 0 || name == "kubeadm-writes" && (len(p.prevented) < 7 || !p.prevented["one-holder"] || !p.prevented["birth-guarded"]) {
		t.Fatalf("policy check says that the policy prevents %v", p.prevented)
	}
	return p
}

// passed are the checks of both questions that passed.
func passed(r *trail.Report) (out []string) {
	for _, c := range slices.Concat(r.Readiness.Checks, r.Confinement.Checks) {
		if c.State == "passed" && !slices.Contains(out, c.Name) {
			out = append(out, c.Name)
		}
	}
	return out
}
