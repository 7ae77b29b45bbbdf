package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/rules"
)

func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rules")
	var stderr strings.Builder
	if got := run([]string{dir}, &stderr); got != 0 {
		t.Fatalf("exit status %d: %s", got, stderr.String())
	}
	gone := filepath.Join(dir, "no-such-rule.md")
	if err := os.WriteFile(gone, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(dir, rules.All()[:1]); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 || entries[0].Name() != "README.md" || entries[1].Name() != rules.All()[0].Name+".md" {
		t.Errorf("files are %v, want README.md and the one rule's page", entries)
	}
}

func TestWriteChecks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "checks")
	var stderr strings.Builder
	if got := run([]string{"checks", dir}, &stderr); got != 0 {
		t.Fatalf("exit status %d: %s", got, stderr.String())
	}
	if err := writeChecks(dir, checks.All()[:1]); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 2 || entries[0].Name() != "README.md" || entries[1].Name() != checks.All()[0].Name+".md" {
		t.Errorf("files are %v, want README.md and the one check's page", entries)
	}
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"a", "b"}, {"main.go"}, {"dashboards", "no-such-folder"}} {
		var stderr strings.Builder
		if got := run(args, &stderr); got != 1 || !strings.HasPrefix(stderr.String(), "gen: ") {
			t.Errorf("run(%q) is %d with %q", args, got, stderr.String())
		}
	}
}

func TestWriteMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "metrics.md")
	var stderr strings.Builder
	if got := run([]string{path}, &stderr); got != 0 {
		t.Fatalf("exit status %d: %s", got, stderr.String())
	}
	page, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(page), "| `nodetrail_requests_total` | counter |") {
		t.Errorf("%v: %s", err, page)
	}
	if got := run([]string{filepath.Join(path, "metrics.md")}, &stderr); got != 1 {
		t.Errorf("exit status %d for a folder that is a file", got)
	}
}

func TestWriteDashboards(t *testing.T) {
	root := t.TempDir()
	alerts, err := os.ReadFile(filepath.Join("..", "..", "..", "dashboards", "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(root, "docs", "runbooks", "NoSuchAlert.md")
	for path, text := range map[string]string{filepath.Join(root, "dashboards", "prometheus", "alerts.yaml"): string(alerts), gone: "old"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var stderr strings.Builder
	if got := run([]string{"dashboards", root}, &stderr); got != 0 {
		t.Fatalf("exit status %d: %s", got, stderr.String())
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("the runbook of an alert that is no more is there: %v", err)
	}
	for _, path := range []string{"docs/runbooks/NodetrailDown.md", "docs/runbooks/RbacExcessAccess.md", "dashboards/grafana/migration.json"} {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err != nil {
			t.Error(err)
		}
	}
}
