package dashboards

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
)

// Files returns what is generated, by its path under the folder of the repository: root. alerts.yaml is read from there.
func Files(root string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(root, "dashboards", "prometheus", "alerts.yaml"))
	if err != nil {
		return nil, fmt.Errorf("opening the alerts: %w", err)
	}
	defer f.Close()
	alerts, err := ParseAlerts(f)
	if err != nil {
		return nil, err
	}
	out := map[string]string{
		"dashboards/prometheus/findings.yaml":       Findings(rules.All()),
		"dashboards/prometheus/tests/findings.yaml": FindingsTest(rules.All()),
	}
	for _, d := range All() {
		b, err := d.JSON()
		if err != nil {
			return nil, err
		}
		out["dashboards/grafana/"+d.File()] = string(b)
	}
	const runbooks = "docs/runbooks/"
	for _, a := range alerts {
		out[runbooks+a.Name+".md"] = a.Page(alerts)
	}
	for _, r := range rules.All() {
		out[runbooks+rules.AlertName(r.Name)+".md"] = FindingPage(r)
	}
	out[runbooks+"README.md"] = index(alerts, rules.All())
	return out, nil
}

// index is docs/runbooks/README.md.
func index(alerts []*Alert, all []*rules.Rule) string {
	var b strings.Builder
	b.WriteString("<!-- Written by go generate from dashboards/prometheus/alerts.yaml and the rules: change them. -->\n# Runbooks\n\n" +
		"A page for each alert of [dashboards/prometheus](../../dashboards/README.md). The annotation `runbook_url` of an alert has the\n" +
		"address of its page.\n\n" +
		"A page says what the alert means, why it matters, what to check and to do, and how to silence it. It begins with the query of the alert.\n" +
		"[operations.md](../operations.md) lists symptoms of nodetrail itself, and [troubleshooting.md](../troubleshooting.md) lists error messages.\n\n" +
		"## nodetrail itself\n\nThese alerts say that nodetrail does not work as it should, or that a check had passed and fails now.\n\n| alert | severity | what it says |\n|---|---|---|\n")
	for _, a := range alerts {
		what, _, _ := strings.Cut(a.Runbook["What"], "\n\n")
		what, _, _ = strings.Cut(strings.ReplaceAll(what, "\n", " "), ". ")
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s |\n", a.Name, a.Name, a.Severity, strings.TrimSuffix(what, "."))
	}
	b.WriteString("\n## What the rules find\n\nThese alerts say that a rule found something in the audit log. The severity is that of the findings.\n\n| alert | severity, at most | what it says |\n|---|---|---|\n")
	for _, r := range all {
		fmt.Fprintf(&b, "| [%s](%s.md) | %s | %s |\n", rules.AlertName(r.Name), rules.AlertName(r.Name), r.Severity, r.Title())
	}
	fmt.Fprintf(&b, "| [%s](../own-rules.md#alerts) | that of the rule | A rule of your own flags requests |\n", OwnRuleAlert)
	return b.String()
}
