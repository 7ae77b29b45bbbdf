package dashboards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rules"
)

const good = `
groups:
  - name: a
    rules:
      # What: It is
      # broken.
      #
      # Why: One
      #
      # two.
      #
      # What to do: See Other and docs/rules/a-b.md.
      #
      # How to see that it is over: It works.
      #
      # How to silence it: Do not.
      - alert: Broken
        expr: up == 0
        for: 5m
        labels: {severity: critical}
        annotations: {summary: s, description: d, runbook_url: "` + RunbookURL + `Broken.md"}
`

func TestParseAlerts(t *testing.T) {
	got, err := ParseAlerts(strings.NewReader(good))
	if err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	want := "<!-- Written by go generate from the comments of dashboards/prometheus/alerts.yaml: change it there. -->\n# Broken\n\n" +
		"Severity: critical. The alert fires when this query has had a result for 5m:\n\n```promql\nup == 0\n```\n\n## What\nIt is\nbroken.\n\n## Why\nOne\n\ntwo.\n\n## What to do\n" +
		got[0].look() + "\n\nSee [Other](Other.md) and [docs/rules/a-b.md](../rules/a-b.md).\n\n" +
		"## How to see that it is over\nIt works.\n\n## How to silence it\nDo not.\n"
	if diff := cmp.Diff(want, got[0].Page([]*Alert{got[0], {Name: "Other"}})); diff != "" {
		t.Error(diff)
	}
}

// TestLook: the metrics of the alert are asked for, each once, and no recording rules.
func TestLook(t *testing.T) {
	a := &Alert{Expr: `rate(nodetrail_b_total{x="nodetrail"}[1m]) > nodetrail_a or nodetrail_b_total or cluster:nodetrail_c:rate15m`}
	if got := a.look(); !strings.Contains(got, "| grep -E '^(nodetrail_a|nodetrail_b_total)'\n```") {
		t.Error(got)
	}
}

// TestParseAlertsRefuses: an alert without all of its page is none.
func TestParseAlertsRefuses(t *testing.T) {
	f := func(old, fresh, want string) {
		t.Helper()
		if !strings.Contains(good, old) {
			t.Fatalf("the good one has no %q", old)
		}
		if _, err := ParseAlerts(strings.NewReader(strings.Replace(good, old, fresh, 1))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q in place of %q: %v, want %q", fresh, old, err, want)
		}
	}
	f("# Why: One", "# Because", `"What to do" where "Why" should be`)
	f("# What: It is", "# It is", `must begin with "What:"`)
	f("\n      #\n      # How to silence it: Do not.", "", `lacks "How to silence it:"`)
	f("# What to do: See Other and docs/rules/a-b.md.", "# What to do:", "no empty part")
	f("Broken.md", "Other.md", "runbook_url")
	f("summary: s, ", "", "summary")
	f("severity: critical", "severity: high", "severity")
	f("alert: Broken", "record: x", "no alert")
	f("groups:", "groups: [", "reading the rules file")
	f("expr: up == 0", "expr: [up]", "line")
}

// TestFiles: what is in the tree is what Files says, and each rule and alert has a runbook.
func TestFiles(t *testing.T) {
	files, err := Files("..")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range files {
		b, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
		if err != nil || string(b) != text {
			t.Errorf("%s is stale, go generate ./... writes it: %v", path, err)
		}
	}
	pages, err := filepath.Glob(filepath.Join("..", "docs", "runbooks", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range pages {
		if _, ok := files["docs/runbooks/"+filepath.Base(path)]; !ok {
			t.Errorf("%s is of no alert", path)
		}
	}
	for _, r := range rules.All() {
		if files["docs/runbooks/"+rules.AlertName(r.Name)+".md"] == "" {
			t.Errorf("%s has no runbook", r.Name)
		}
	}
	if _, err := Files(t.TempDir()); err == nil {
		t.Error("no error without alerts.yaml")
	}
}
