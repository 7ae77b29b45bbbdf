package dashboards

import (
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/rules"
)

const generated = "# Written by go generate from the rules: change them, or dashboards/findings.go.\n"

// OwnRuleAlert is the alert on findings of rules that users write: nodetrail's metrics name these rules, its files cannot.
const OwnRuleAlert = "OwnRuleFinding"

// findingsExpr is also true where Prometheus saw the counter at its present value only, such as of what a process finds as it starts. What
// was there before is counted by the increase.
func findingsExpr(rules string) string {
	return fmt.Sprintf("sum by (cluster, rule, severity) (increase(nodetrail_findings_total{%[1]s}[15m])) > 0\n"+
		"  or sum by (cluster, rule, severity) (nodetrail_findings_total{%[1]s} and nodetrail_findings_last_timestamp_seconds{%[1]s} > time() - 15 * 60\n"+
		"    unless nodetrail_findings_total{%[1]s} offset 15m)", rules)
}

func onlyRule(name string) string { return fmt.Sprintf("rule=%q", name) }

// otherRules are those that are not among the given ones.
func otherRules(all []*rules.Rule) string {
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	return fmt.Sprintf("rule!~%q", strings.Join(names, "|"))
}

// Findings is the rules file with an alert for each rule. The severity is that of the findings.
func Findings(all []*rules.Rule) string {
	var b strings.Builder
	b.WriteString(generated + `#
# Alerts on what the rules find, from nodetrail's metrics. They name the rule and its severity, not the node: use them where nodetrail does not
# send its findings to Alertmanager itself (sinks.alertmanager), or everything is alerted twice.
groups:
  - name: nodetrail.findings
    rules:
`)
	alert := func(name, rules, title, runbook string) {
		fmt.Fprintf(&b, `      - alert: %s
        expr: |
          %s
        labels:
          component: nodetrail
        annotations:
          summary: %q
          description: '{{ $value | humanize }} findings of severity {{ $labels.severity }} by the rule {{ $labels.rule }} in cluster "{{ $labels.cluster }}" within 15 minutes.'
          runbook_url: %s
`, name, strings.ReplaceAll(findingsExpr(rules), "\n", "\n          "), title, runbook)
	}
	for _, r := range all {
		name := rules.AlertName(r.Name)
		alert(name, onlyRule(r.Name), r.Title(), RunbookURL+name+".md")
	}
	alert(OwnRuleAlert, otherRules(all), "A rule of your own flags requests", docsURL+rules.OwnPage)
	return b.String()
}

// FindingsTest is the unit test of Findings for promtool: in one cluster there are findings, in another there were some long ago. In a third nodetrail was
// down, and has found them by the first scrape; in a fourth, after that, what it found is of an old log.
func FindingsTest(all []*rules.Rule) string {
	var b strings.Builder
	b.WriteString(generated + "rule_files: [../findings.yaml]\nevaluation_interval: 1m\ntests:\n")
	test := func(name, rule, severity string) {
		fmt.Fprintf(&b, `  - name: %[1]s
    interval: 1m
    input_series:
      - series: nodetrail_findings_total{cluster="bad", rule="%[2]s", severity="%[3]s", allowed="true"}
        values: 0x20 3x40
      - series: nodetrail_findings_total{cluster="good", rule="%[2]s", severity="%[3]s", allowed="true"}
        values: 7x60
      - series: nodetrail_findings_total{cluster="down", rule="%[2]s", severity="%[3]s", allowed="true"}
        values: 2x5 _x40 2x40
      - series: nodetrail_findings_last_timestamp_seconds{cluster="down", rule="%[2]s", severity="%[3]s", allowed="true"}
        values: _x46 2755x40
      - series: nodetrail_findings_total{cluster="old", rule="%[2]s", severity="%[3]s", allowed="true"}
        values: _x46 2x40
    promql_expr_test:
      - expr: ALERTS{alertname="%[1]s"}
        eval_time: 20m
        exp_samples: []
      - expr: ALERTS{alertname="%[1]s", alertstate="firing"}
        eval_time: 25m
        exp_samples:
          - {labels: 'ALERTS{alertname="%[1]s", alertstate="firing", cluster="bad", component="nodetrail", rule="%[2]s", severity="%[3]s"}', value: 1}
      - expr: ALERTS{alertname!="%[1]s"}
        eval_time: 25m
        exp_samples: []
      - expr: ALERTS{alertname="%[1]s"}
        eval_time: 40m
        exp_samples: []
      - expr: ALERTS{alertname="%[1]s"}
        eval_time: 47m
        exp_samples:
          - {labels: 'ALERTS{alertname="%[1]s", alertstate="firing", cluster="down", component="nodetrail", rule="%[2]s", severity="%[3]s"}', value: 1}
      - expr: ALERTS{alertname="%[1]s"}
        eval_time: 62m
        exp_samples: []
`, name, rule, severity)
	}
	for _, r := range all {
		test(rules.AlertName(r.Name), r.Name, r.Severity.String())
	}
	test(OwnRuleAlert, "no-vault-reads", rules.Medium.String())
	return b.String()
}

// FindingPage is the runbook of the alert on a rule's findings.
func FindingPage(r *rules.Rule) string {
	section := func(name string) string { return r.Section(name, rules.LinkTo("../rules/")) }
	return fmt.Sprintf(`<!-- Written by go generate from the rules: change them, or dashboards/findings.go. -->
# %s

%s.

The severity is that of the findings, %s at most. The alert is active when

`+"```\n%s\n```"+`

and ends 15 minutes after the last finding. Findings that nodetrail makes when it starts count, too, even if their requests are from a time
when nodetrail was down. Findings from a time before nodetrail was first started do not count.

## What
%s

## Why
%s

## What to do
%s
%s

Incidents are findings about one credential that follow each other, with what to rotate and how to end the access. The report lists open
incidents:

`+"```sh\nnodetrail report --incidents --data FOLDER\n```"+`

The alert names no node and no object, because there are too many for labels. The dashboard *Detections* shows when the findings began. The
exemplars of its panels are audit IDs.

Not every finding is an attack:

%s

## How to silence it
%s

Or silence the alert by its label `+"`rule`"+`. If nodetrail itself sends its findings to Alertmanager, do not load findings.yaml. The page of
the rule is [%s](../rules/%s.md).
`, rules.AlertName(r.Name), strings.TrimSuffix(r.Title(), "."), r.Severity, findingsExpr(onlyRule(r.Name)), section("What"), section("Why"),
		rules.Commands(r, "report", "--data FOLDER"), section("What to do"), section("False positives"), section("How to silence it"), r.Name, r.Name)
}
