package report

import (
	"fmt"
	"html/template"
	"io"
	"reflect"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// WriteHTML writes the report as one self-contained page: no script, no request to anywhere. Names from logs are text. The summary comes first, the rest is
// folded; without all it lists the first 20 of each kind.
func (r *Report) WriteHTML(w io.Writer, all bool) error {
	t, err := template.New("report").Funcs(template.FuncMap{
		"sum":       func(r *Report) Summary { return r.Summary() },
		"sections":  sections,
		"top":       func(list any) any { return top(list, all) },
		"more":      func(list any) int { return reflect.ValueOf(list).Len() - reflect.ValueOf(top(list, all)).Len() },
		"toInt":     func(n int64) int { return int(n) },
		"add":       func(n, m int) int { return n + m },
		"fold":      func(id string) section { return section{id, sectionTitles[id], 0} },
		"visible":   wording.Visible,
		"stamp":     stamp,
		"objects":   objects,
		"gates":     gates,
		"perDay":    perDay,
		"used":      func(c Client) string { return plural(c.Requests, "request") + " on " + plural(int64(c.Nodes), "node") },
		"need":      func(n Need) string { return needWords(&n) },
		"some":      func(all []string) string { return someOf(all, planNames) },
		"others":    func(x Readiness) []string { return x.OtherWarnings() },
		"capital":   capital,
		"pages":     func() string { return wording.Pages },
		"questions": func(r *Report) []Question { return r.Questions() },
		"wrong":     func(c Check) string { return c.wrong() },
		"cells":     func(f Finding) []string { return f.originCells() },
		"excepted":  func(r *Report) string { return r.ExceptedCounts() },
		"waived":    func(w Waiver) string { return w.say() },
		"kind":      func(w Writes) string { return w.Kind() },
		"why":       func(w Writes) string { return w.Why() },
		"paste":     func(r *Report) string { return wording.VisibleLines(r.Paste) },
		"object": func(f Finding) string {
			s := f.Resource
			if f.Subresource != "" {
				s += "/" + f.Subresource
			}
			return wording.Visible(strings.TrimSpace(s + " " + joinName(f.Namespace, f.Name)))
		},
	}).Parse(page)
	if err != nil {
		return fmt.Errorf("the report's template: %w", err)
	}
	if err := t.Execute(w, r); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}

// top are the first of a list, or all of it.
func top(list any, all bool) any {
	v := reflect.ValueOf(list)
	if all {
		return list
	}
	return v.Slice(0, min(topOf, v.Len())).Interface()
}

// section is a part of the page that is folded.
type section struct {
	ID, Title string
	Count     int
}

// sectionTitles are those of all sections, by the section's ID.
var sectionTitles = map[string]string{
	"ready": "Checks for deleting the bindings", "confined": "Checks for confined credentials", "waivers": "Waivers", "paste": "Waivers for what is unproven",
	"blocking": "Blockers in full", "holes": "Gaps in the evidence", "notes": "Notes", "clients": "Who would break",
	"identities": "Kubelets with a wrong user or group", "denials": "Denials that persist", "evidence": "Evidence", "writes": "NodeRestriction", "exceptions": "Exceptions",
	"audiences": "Audiences of service account tokens", "findings": "Findings", "disagreements": "Disagreements with the API server", "nodes": "Nodes", "plan": "Plan",
}

// sections are those that the page has, in order.
func sections(r *Report) []section {
	x := &r.Readiness
	var out []section
	for _, s := range []section{
		{"plan", "", len(x.Plan)}, {"findings", "", len(r.Findings)}, {"ready", "", len(x.Checks)}, {"confined", "", len(r.Confinement.Checks)}, {"waivers", "", len(r.Waivers)}, {"exceptions", "", len(r.Exceptions)},
		{"paste", "", len(r.Paste)}, {"blocking", "", len(x.Blockers)}, {"holes", "", len(x.Holes)}, {"notes", "", len(x.OtherWarnings())}, {"clients", "", len(x.Clients)},
		{"identities", "", len(x.Identities)}, {"denials", "", len(x.Denials)}, {"evidence", "", 1}, {"writes", "", len(r.NodeRestriction.Writes)},
		{"audiences", "", len(r.TokenAudiences.Lines())}, {"disagreements", "", len(r.Agreement.Disagree)}, {"nodes", "", len(r.Nodes)},
	} {
		if s.Title = sectionTitles[s.ID]; s.Count > 0 {
			out = append(out, s)
		}
	}
	return out
}

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nodetrail{{with .Cluster}}: {{visible .}}{{end}}: {{.Readiness.Head}}, {{.Confinement.Question.Head}}</title>
<style>
:root { color-scheme: light dark; --line: #8886; --bad: #b3261e; --warn: #8a5a00; --good: #1b6e3c; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --warn: #ffca6b; --good: #7bd69a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.critical, .high, .no { color: var(--bad); } .medium, .maybe { color: var(--warn); } .yes { color: var(--good); }
h1 { margin-bottom: 0; } summary h2 { display: inline; font-size: 1.1rem; } details { margin: .3rem 0; } nav ul { columns: 3 14rem; font-size: .9rem; } nav a { display: inline-block; min-height: 1.5rem; }
@media print { body { font-size: 11px; margin: 0; max-width: none; } nav { display: none; } }
.count { color: inherit; opacity: .8; } pre { overflow-x: auto; padding: .5rem; border: 1px solid var(--line); }
</style>
</head>
<body>
<main>
{{range $i, $q := questions .}}{{if $i}}<p>Is a stolen kubelet credential confined to its node? <span class="{{.Class}}">{{.Head}}</span>: {{.Means}}.</p>
{{else}}<h1><span class="{{.Class}}">{{.Head}}</span></h1>
<p>Can I delete the RBAC bindings for nodes{{with $.Cluster}} in {{visible .}}{{end}}? {{capital .Means}}.{{with $.Window.From}} Requests from {{stamp .}}{{end}}{{with $.Window.To}} to {{stamp .}}.{{end}}</p>
{{end}}{{end}}{{with sum .}}{{range .Remarks}}<p>{{visible .}}</p>
{{end}}{{$before := len .Blockers}}{{with .Blockers}}<h2>Blockers</h2>
<ol>{{range top .}}{{template "point" .}}{{end}}</ol>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}
{{end}}{{with .Gaps}}<h2>Gaps</h2>
<ol start="{{add $before 1}}">{{range top .}}{{template "point" .}}{{end}}</ol>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}
{{end}}<h2>Results</h2>
<table>{{range .Lines}}<tr><th scope="row">{{.Name}}</th><td>{{visible .Text}}</td></tr>
{{end}}</table>
<p>{{pages}}</p>
{{end}}<nav aria-label="Contents"><h2>Contents</h2><ul>{{range sections .}}<li><a href="#{{.ID}}">{{.Title}}</a></li>
{{end}}</ul></nav>
{{with .Readiness.Plan}}{{template "fold" fold "plan"}}
<ol>{{range .}}<li><p>{{.What}}.</p>{{with .Commands}}<pre><code>{{range .}}{{.}}
{{end}}</code></pre>{{end}}</li>
{{end}}</ol></details>
{{end}}{{with .Findings}}{{template "fold" fold "findings"}}
<table>
<thead><tr><th>Severity</th><th>Rule</th><th>What</th><th>Count</th><th>Client</th><th>Object</th><th>Who</th><th>From</th><th>Answer</th><th>Audit IDs</th><th>Last</th></tr></thead>
<tbody>{{range top .}}<tr><td class="{{.Severity}}">{{.Severity}}</td><td>{{.Rule}}</td><td>{{visible .Message}}</td><td>{{.Count}}</td><td>{{visible .UserAgent}}</td><td>{{object .}}</td>{{range cells .}}<td>{{.}}</td>{{end}}<td>{{stamp .Last}}</td></tr>
{{end}}</tbody></table>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}{{range questions .}}{{template "fold" fold .Name}}
<table>
<thead><tr><th>Check</th><th>State</th><th>Expected</th><th>Seen</th><th>What is wrong</th><th>Next step</th></tr></thead>
<tbody>{{range .Checks}}<tr><td>{{.Name}}</td><td class="{{if eq .State "failed"}}no{{else if eq .State "passed"}}yes{{else}}maybe{{end}}">{{.State}}</td><td>{{.Expected}}</td><td>{{.Seen}}</td><td>{{visible (wrong .)}}</td><td>{{.Next}}</td></tr>
{{end}}</tbody></table></details>
{{end}}{{with .Waivers}}{{template "fold" fold "waivers"}}<ul>{{range .}}<li>{{.Check}} {{visible (waived .)}}</li>{{end}}</ul></details>
{{end}}{{with .Exceptions}}{{template "fold" fold "exceptions"}}<p>{{excepted $}}</p><ul>{{range top .}}<li>{{visible .Say}}</li>{{end}}</ul>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}{{with paste .}}{{template "fold" fold "paste"}}<pre><code>{{.}}</code></pre></details>
{{end}}{{with .Readiness.Blockers}}{{template "fold" fold "blocking"}}<ul>{{range top .}}<li>{{visible .}}</li>{{end}}</ul>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>{{end}}
{{with .Readiness.Holes}}{{template "fold" fold "holes"}}<ul>{{range top .}}<li>{{visible .Message}}</li>{{end}}</ul>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>{{end}}
{{with others .Readiness}}{{template "fold" fold "notes"}}<ul>{{range top .}}<li>{{visible .}}</li>{{end}}</ul>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>{{end}}
{{with .Readiness.Clients}}{{template "fold" fold "clients"}}
{{range top .}}<h3>{{visible .UserAgent}}</h3>
<p>{{used .}} by {{visible .Binding}}, last {{stamp .Last}}. By day: {{perDay .Days}}</p>
<table>
<thead><tr><th>Request</th><th>Node</th><th>Count</th><th>Last</th></tr></thead>
<tbody>{{range top .Needs}}<tr><td>{{need .}}</td><td>{{visible .Node}}</td><td>{{.Count}}</td><td>{{stamp .Last}}</td></tr>
{{end}}</tbody></table>{{with add (more .Needs) .More}}<p>and {{.}} more</p>{{end}}
{{end}}{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}{{with .Readiness.Identities}}{{template "fold" fold "identities"}}
<table>
<thead><tr><th>Identity</th><th>Reason</th><th>What is wrong</th><th>Requests</th><th>Clients</th><th>Last</th></tr></thead>
<tbody>{{range top .}}<tr><td>{{visible .Identity}}</td><td>{{.Reason}}</td><td>{{visible .Message}}</td><td>{{.Requests}}</td><td>{{some .Clients}}</td><td>{{stamp .Last}}</td></tr>
{{end}}</tbody></table>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}{{with .Readiness.Denials}}{{template "fold" fold "denials"}}<ul>{{range top .}}<li>{{visible .Message}}, last {{stamp .Last}}</li>{{end}}</ul>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}{{template "fold" fold "evidence"}}
<table>
<tr><th scope="row">Events</th><td>{{.Events.Read}} read, {{.Events.Node}} of nodes, {{.Events.Skipped}} skipped, {{.Events.Duplicates}} duplicates, {{.Events.Malformed}} malformed{{range .Events.MalformedAt}}<br/>{{visible .File}}:{{.Line}}: {{visible .Cause}}{{end}}</td></tr>
<tr><th scope="row">State</th><td>{{or (objects .State.Objects) "none"}}</td></tr>
<tr><th scope="row">Authorizers</th><td>{{visible (or .Authorization.Mode "unknown")}}{{if .Authorization.Inferred}} (inferred){{end}}, Kubernetes {{visible .Authorization.KubernetesVersion}}{{gates .Authorization.FeatureGates}}</td></tr>
{{range .Authorization.VersionLines}}<tr><th scope="row">Version</th><td>{{visible .}}</td></tr>
{{end}}{{with .Authorization.Skew}}<tr><th scope="row">Skew</th><td>{{.Words}}</td></tr>
{{end}}<tr><th scope="row">Verdicts</th><td>{{.Verdicts.Allow}} allow, {{.Verdicts.Deny}} deny, {{.Verdicts.Unknown}} unknown; races: {{.Verdicts.Races.Allow}} allow, {{.Verdicts.Races.Deny}} deny</td></tr>
<tr><th scope="row">Agreement</th><td>{{.Agreement.Agree}} of {{.Agreement.Compared}} with the API server; in races {{.Agreement.Races.Agree}} of {{.Agreement.Races.Compared}}</td></tr>
</table></details>
{{with .NodeRestriction}}{{if .Writes}}{{template "fold" fold "writes"}}
<p>Writes of nodes: {{.Sum}}.</p>
<table>
<thead><tr><th>Writes of nodes</th><th>Count</th><th>NodeRestriction</th></tr></thead>
<tbody>{{range .Writes}}<tr><td>{{visible (kind .)}}</td><td>{{.Count}}</td><td>{{visible (why .)}}</td></tr>
{{end}}</tbody></table></details>
{{end}}{{end}}{{with .TokenAudiences.Lines}}{{template "fold" fold "audiences"}}<ul>{{range top .}}<li>{{visible .}}</li>{{end}}</ul>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}{{if .Agreement.Disagree}}{{template "fold" fold "disagreements"}}
<table>
<thead><tr><th>Time</th><th>Node</th><th>Request</th><th>nodetrail</th><th>API server</th><th>auditID</th></tr></thead>
<tbody>{{range top .Agreement.Disagree}}<tr><td>{{stamp .Time}}</td><td>{{visible .Node}}</td><td>{{visible .Verb}} {{visible .Resource}} {{visible .Namespace}} {{visible .Name}}</td><td>{{.Verdict}}</td><td>{{.Observed}}</td><td>{{visible .AuditID}}</td></tr>
{{end}}</tbody></table>
{{with add (more .Agreement.Disagree) (toInt .Agreement.DisagreeMore)}}<p>and {{.}} more</p>{{end}}</details>
{{end}}{{with .Nodes}}{{template "fold" fold "nodes"}}
<table>
<thead><tr><th>Node</th><th>Requests</th><th>Denied by Node</th><th>of which needed RBAC</th></tr></thead>
<tbody>{{range top .}}<tr><td>{{visible .Name}}</td><td>{{.Requests}}</td><td>{{.Deny}}</td><td>{{.Excess}}</td></tr>
{{end}}</tbody></table>{{with more .}}<p>and {{.}} more (--all)</p>{{end}}</details>
{{end}}</main>
</body>
</html>
{{define "point"}}<li><strong>{{visible .What}}</strong>{{with .Count}} <span class="count">({{.}})</span>{{end}}{{with .Detail}}: {{visible .}}{{end}}. Next: {{visible .Next}}</li>
{{end}}{{define "fold"}}<details id="{{.ID}}"><summary><h2>{{.Title}}</h2></summary>{{end}}`
