package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// What of a finding's explanation no option says is run's, and what one says is not.
func TestExplainAsRun(t *testing.T) {
	c := config.Default()
	c.Skew, c.Authorization.Mode = config.Duration(3*time.Second), "RBAC"
	was := &report.Authorization{Mode: "Node,RBAC", KubernetesVersion: "1.34"}
	f := func(a Authorization, version, mode string, skew time.Duration) {
		t.Helper()
		x, err := newExplaining(&ExplainOptions{Authorization: a, Finding: "f"})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.asRun(c, was); err != nil {
			t.Fatal(err)
		}
		if got := x.judging; got.Features.Version() != version || got.Mode.String() != mode || got.Skew != skew {
			t.Errorf("version %s, mode %s, skew %s", got.Features.Version(), got.Mode, got.Skew)
		}
	}
	f(Authorization{Skew: -1}, "1.34", "RBAC", 3*time.Second)
	f(Authorization{KubernetesVersion: "1.35", AuthorizationMode: "Node,RBAC"}, "1.35", "Node,RBAC", 0)
	c.Authorization.Mode = "auto"
	f(Authorization{Skew: -1}, "1.34", "Node,RBAC", 3*time.Second)
}

// Every kind of object in the manifests is part of the change.
func TestManifests(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, kind := range []string{"Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"} {
		text := "kind: " + kind + "\napiVersion: rbac.authorization.k8s.io/v1\nmetadata: {name: a, namespace: b}\n"
		if strings.HasSuffix(kind, "Binding") {
			text += "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}\n"
		}
		path := filepath.Join(dir, kind+".yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	o := ChangeOptions{Input: Input{Logs: []string{capture + "/audit.log.gz"}}, With: paths}
	c, err := o.prepare()
	if err != nil {
		t.Fatal(err)
	}
	if w := c.with; len(w.Roles) != 1 || len(w.ClusterRoles) != 1 || len(w.RoleBindings) != 1 || len(w.ClusterRoleBindings) != 1 {
		t.Errorf("%+v", w)
	}
	var option *OptionError
	o.With = []string{dir + "/none"}
	if _, err := o.prepare(); !errors.As(err, &option) || option.Option != "With" {
		t.Errorf("%v", err)
	}
}

// A policy that hides bodies is reported where bodies are all that tells of the state.
func TestPolicyGaps(t *testing.T) {
	policy, err := coverage.ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	gaps := func(in Input, disable ...string) (n int) {
		t.Helper()
		in.Logs = []string{capture + "/audit.log.gz"}
		a, err := Analyze(t.Context(), AnalyzeOptions{Input: in, Policy: policy, Disable: disable})
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Report.Findings {
			if a.Report.Findings[i].Rule == rules.CoverageGap {
				n++
			}
		}
		return n
	}
	alone, beside := gaps(Input{}), gaps(Input{State: []string{capture + "/journal.jsonl.gz"}})
	if alone <= beside {
		t.Errorf("%d gaps where bodies alone tell of the state, %d next to a journal", alone, beside)
	}
	if n := gaps(Input{NoBodies: true}); n != beside {
		t.Errorf("%d gaps where bodies do not matter, want %d", n, beside)
	}
	if n := gaps(Input{}, rules.CoverageGap); n != 0 {
		t.Errorf("%d gaps although the rule is disabled", n)
	}
}
