package scenarios

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// A policy that many people use hides most of what READY needs. With what policy check --fix makes of it, a real API server logs enough that each check which
// the policy prevented passes; and the same log does not pass as that of the policy as it was.
func TestPolicyFixed(t *testing.T) {
	ctx := work.Context()
	root := plane.Must(plane.Root())(t)
	program := plane.Must(trail.Build(ctx, work))(t)
	dir := filepath.Join(work.Dir, "policy")
	plane.Check(t, os.Mkdir(dir, 0o755))
	name := cmp.Or(os.Getenv("NODETRAIL_E2E_POLICY"), "kubeadm-writes")
	original, fixed := filepath.Join(root, "coverage", "testdata", "policies", name+".yaml"), filepath.Join(dir, "fixed.yaml")
	plane.Check(t, os.WriteFile(fixed, plane.Must(trail.Run(ctx, program, "policy", "check", "--fix", original))(t), 0o600))
	var said struct {
		Checks []struct{ Name, State string }
	}
	cmd := exec.CommandContext(ctx, program, "policy", "check", "-o", "json", original)
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 2 {
		t.Errorf("policy check has nothing against the policy: %v", err)
	}
	plane.Check(t, json.Unmarshal(out, &said))
	prevented := map[string]bool{}
	for _, c := range said.Checks {
		if c.State == "impossible" {
			prevented[c.Name] = true
		}
	}
	if len(prevented) == 0 || name == "kubeadm-writes" && (len(prevented) < 7 || !prevented["one-holder"] || !prevented["birth-guarded"]) {
		t.Fatalf("policy check says that the policy prevents %v", prevented)
	}
	// Here all nodes have one address, and nobody asks for a node's certificate.
	delete(prevented, "one-holder")
	delete(prevented, "birth-guarded")

	p := plane.Must(plane.New(ctx, work, plane.Options{Mode: "Node,RBAC", Policy: fixed}))(t)
	plane.Check(t, p.StartAPIServer(ctx))
	plane.Check(t, p.StartControllers(ctx))
	nodes := []string{"node-1", "node-2"}
	plane.Check(t, p.StartKubelets(ctx, nodes...))
	made := time.Now() // pods, whose secrets kubelets have to read
	plane.Check(t, p.Create(ctx, object("v1", "Namespace", "", "shop")))
	plane.Check(t, p.Create(ctx, secret("shop", "db")))
	for _, n := range nodes {
		plane.Check(t, plane.Eventually(ctx, "a pod is made on "+n, func() error { return p.Create(ctx, pod("shop", "web-"+n, n, "db")) }))
	}
	snapshot, log := filepath.Join(dir, "snapshot.db"), filepath.Join(dir, "audit.log")
	analyzed := func(policy string) (*trail.Report, error) {
		window := time.Since(made).Truncate(time.Second).String()
		b, err := os.ReadFile(p.AuditLogPath())
		if err != nil {
			return nil, err
		}
		if err := errors.Join(os.WriteFile(log, b, 0o600), p.EtcdSnapshotAfter(ctx, snapshot)); err != nil {
			return nil, err
		}
		out, err := trail.Run(ctx, program, "analyze", "-o", "json", "--state", snapshot, "--audit-policy", policy, "--min-window", window, log)
		if err != nil {
			return nil, err
		}
		return trail.ParseReport(out)
	}
	passed := func(r *trail.Report) (names map[string]bool, not string) {
		names = map[string]bool{}
		for _, c := range append(r.Readiness.Checks, r.Confinement.Checks...) {
			names[c.Name] = c.State == "passed"
			for _, i := range c.Evidence {
				if prevented[c.Name] && c.State != "passed" && i.State != "passed" {
					not += fmt.Sprintf("\n%s: %s", c.Name, i.Message)
				}
			}
		}
		return names, not
	}
	plane.Check(t, plane.Eventually(ctx, "the checks that the policy prevented pass", func() error {
		if time.Since(made) < 30*time.Second { // Leases are renewed every 10 s
			return errors.New("the log is too short")
		}
		r, err := analyzed(fixed)
		if err != nil {
			return err
		}
		if _, not := passed(r); not != "" {
			return fmt.Errorf("%s", strings.TrimSpace(not))
		}
		return nil
	}))
	names, _ := passed(plane.Must(analyzed(original))(t))
	if prevented["policy-known"] && names["policy-known"] {
		t.Errorf("under the policy as it was, these pass: %v", names)
	}
}
