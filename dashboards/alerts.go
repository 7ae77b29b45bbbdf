package dashboards

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Alert is one alert of a rules file.
type Alert struct {
	Name        string
	Expr        string
	For         string
	Severity    string
	Annotations map[string]string
	// Runbook has the text of each of the sections, from the comment above the alert.
	Runbook map[string]string
}

// sections are the parts of a runbook, in their order.
func sections() []string {
	return []string{"What", "Why", "What to do", "How to see that it is over", "How to silence it"}
}

const (
	// docsURL is where the repository's files are.
	docsURL = "https://github.com/nodetrail/nodetrail/blob/main/"
	// RunbookURL is where runbooks are; a name and ".md" follow.
	RunbookURL = docsURL + "docs/runbooks/"
)

// ParseAlerts reads the alerts of a rules file with their comments. An alert that lacks a part of its runbook, a severity, an annotation or
// the right runbook_url is an error.
func ParseAlerts(r io.Reader) ([]*Alert, error) {
	var file struct {
		Groups []struct {
			Rules []yaml.Node
		}
	}
	if err := yaml.NewDecoder(r).Decode(&file); err != nil {
		return nil, fmt.Errorf("reading the rules file: %w", err)
	}
	var out []*Alert
	var errs []error
	for _, g := range file.Groups {
		for i := range g.Rules {
			a, err := parseAlert(&g.Rules[i])
			if err != nil {
				errs = append(errs, err)
				continue
			}
			out = append(out, a)
		}
	}
	return out, errors.Join(errs...)
}

func parseAlert(n *yaml.Node) (*Alert, error) {
	var raw struct {
		Alert, Expr, For    string
		Labels, Annotations map[string]string
	}
	if err := n.Decode(&raw); err != nil {
		return nil, fmt.Errorf("line %d: %w", n.Line, err)
	}
	a := &Alert{
		Name: raw.Alert, Expr: strings.TrimSpace(raw.Expr), For: raw.For, Severity: raw.Labels["severity"], Annotations: raw.Annotations, Runbook: map[string]string{},
	}
	if a.Name == "" {
		return nil, fmt.Errorf("line %d: no alert", n.Line)
	}
	if !slices.Contains([]string{"critical", "warning"}, a.Severity) {
		return nil, fmt.Errorf("%s: the severity must be critical or warning", a.Name)
	}
	if a.Annotations["summary"] == "" || a.Annotations["description"] == "" || a.Annotations["runbook_url"] != RunbookURL+a.Name+".md" {
		return nil, fmt.Errorf("%s: the annotations must be summary, description, and runbook_url with %s%s.md", a.Name, RunbookURL, a.Name)
	}
	comment := n.HeadComment
	if comment == "" && len(n.Content) > 0 {
		comment = n.Content[0].HeadComment
	}
	return a, a.runbook(comment)
}

// runbook takes the comment apart.
func (a *Alert) runbook(comment string) error {
	var lines []string
	for line := range strings.Lines(comment) {
		lines = append(lines, strings.TrimPrefix(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(line), "#")), " "))
	}
	rest := sections()
	section := ""
	for part := range strings.SplitSeq(strings.Join(lines, "\n"), "\n\n") {
		part = strings.TrimSpace(part)
		for i, s := range rest {
			if text, ok := strings.CutPrefix(part, s+":"); ok {
				if i != 0 {
					return fmt.Errorf("%s: the comment has %q where %q should be", a.Name, s, rest[0])
				}
				section, rest, part = s, rest[1:], strings.TrimSpace(text)
				break
			}
		}
		if section == "" || part == "" {
			return fmt.Errorf("%s: the comment must begin with %q and have no empty part", a.Name, sections()[0]+":")
		}
		if a.Runbook[section] != "" {
			part = a.Runbook[section] + "\n\n" + part
		}
		a.Runbook[section] = part
	}
	if len(rest) > 0 {
		return fmt.Errorf("%s: the comment lacks %q", a.Name, rest[0]+":")
	}
	return nil
}

// Page is the alert's runbook, in Markdown. Names of other alerts and paths under docs become links.
func (a *Alert) Page(all []*Alert) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- Written by go generate from the comments of dashboards/prometheus/alerts.yaml: change it there. -->\n# %s\n\n", a.Name)
	docs := regexp.MustCompile(`docs/([\w/-]+\.md)`)
	after := "as soon as this query has a result"
	if a.For != "" {
		after = "when this query has had a result for " + a.For
	}
	fmt.Fprintf(&b, "Severity: %s. The alert fires %s:\n\n```promql\n%s\n```\n", a.Severity, after, a.Expr)
	for _, s := range sections() {
		text := a.Runbook[s]
		for _, other := range all {
			if other.Name != a.Name {
				text = strings.ReplaceAll(text, other.Name, "["+other.Name+"]("+other.Name+".md)")
			}
		}
		text = docs.ReplaceAllString(text, "[docs/$1](../$1)")
		if s == "What to do" {
			text = a.look() + "\n\n" + text
		}
		fmt.Fprintf(&b, "\n## %s\n%s\n", s, text)
	}
	return b.String()
}

// look is the commands that show the log of nodetrail and the metrics that the alert is about.
func (a *Alert) look() string {
	metrics := regexp.MustCompile(`[a-z_:]*\bnodetrail_[a-z_]+:?`).FindAllString(a.Expr, -1)
	metrics = slices.DeleteFunc(metrics, func(name string) bool { return strings.Contains(name, ":") }) // a recording rule is not on /metrics
	slices.Sort(metrics)
	shown := "curl -s http://127.0.0.1:9876/readyz\n"
	if len(metrics) > 0 {
		shown += "curl -s http://127.0.0.1:9876/metrics | grep -E '^(" + strings.Join(slices.Compact(metrics), "|") + ")'\n"
	}
	return "Start with these commands. They are for the pod of `deploy/nodetrail.yaml`. If you have several pods, use the name of the pod that the alert\n" +
		"is about. Outside of a cluster, read the log of the service, and use the same `curl`.\n\n" +
		"```sh\nkubectl -n nodetrail get pods -o wide\nkubectl -n nodetrail logs nodetrail-0 --since=1h | grep -E '\"level\":\"(warn|error)\"'\n" +
		"kubectl -n nodetrail port-forward pod/nodetrail-0 9876:9876 &\n" + shown + "```"
}
