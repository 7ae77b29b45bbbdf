package report

import (
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/nodetrail/nodetrail/wording"
)

// WriteHTML writes the report as one self-contained page: no script, no request to anywhere. Names from logs are text.
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("report").Funcs(template.FuncMap{
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
		"questions": func(r *Report) []Question { return r.Questions() },
		"wrong":     func(c Check) string { return c.wrong() },
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

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>nodetrail{{with .Cluster}}: {{visible .}}{{end}}</title>
<style>
:root { color-scheme: light dark; --line: #8886; --bad: #b3261e; --warn: #8a5a00; --good: #1b6e3c; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --warn: #ffca6b; --good: #7bd69a; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem; border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
.critical, .high, .no { color: var(--bad); } .medium, .maybe { color: var(--warn); } .yes { color: var(--good); }
h1 { margin-bottom: 0; } pre { overflow-x: auto; padding: .5rem; border: 1px solid var(--line); }
</style>
</head>
<body>
<main>
{{range $i, $q := questions .}}{{if $i}}<p>Is a stolen kubelet credential confined to its node? <span class="{{.Class}}">{{.Head}}</span>: {{.Means}}.</p>
{{else}}<h1><span class="{{.Class}}">{{.Head}}</span></h1>
<p>Can I delete the RBAC bindings for nodes{{with $.Cluster}} in {{visible .}}{{end}}? {{capital .Means}}.{{with $.Window.From}} Requests from {{stamp .}}{{end}}{{with $.Window.To}} to {{stamp .}}.{{end}}</p>
{{end}}{{end}}{{range questions .}}<h2>{{.Title}}</h2>
<table>
<thead><tr><th>Check</th><th>State</th><th>Expected</th><th>Seen</th><th>What is wrong</th><th>Next step</th></tr></thead>
<tbody>{{range .Checks}}<tr><td>{{.Name}}</td><td class="{{if eq .State "failed"}}no{{else if eq .State "passed"}}yes{{else}}maybe{{end}}">{{.State}}</td><td>{{.Expected}}</td><td>{{.Seen}}</td><td>{{visible (wrong .)}}</td><td>{{.Next}}</td></tr>
{{end}}</tbody></table>
{{end}}{{with .Waivers}}<h2>Waivers</h2><ul>{{range .}}<li>{{.Check}} {{visible (waived .)}}</li>{{end}}</ul>
{{end}}{{with paste .}}<h2>Waivers for what is unproven</h2>
<pre><code>{{.}}</code></pre>
{{end}}{{with .Readiness.Blockers}}<h2>Against it</h2><ul>{{range .}}<li>{{visible .}}</li>{{end}}</ul>{{end}}
{{with .Readiness.Holes}}<h2>Holes in the evidence</h2><ul>{{range .}}<li>{{visible .Message}}</li>{{end}}</ul>{{end}}
{{with others .Readiness}}<h2>Warnings</h2><ul>{{range .}}<li>{{visible .}}</li>{{end}}</ul>{{end}}
{{with .Readiness.Clients}}<h2>Who would break</h2>
{{range .}}<h3>{{visible .UserAgent}}</h3>
<p>{{used .}} by {{visible .Binding}}, last {{stamp .Last}}. By day: {{perDay .Days}}</p>
<details><summary>What it needs</summary><table>
<thead><tr><th>Request</th><th>Node</th><th>Count</th><th>Last</th></tr></thead>
<tbody>{{range .Needs}}<tr><td>{{need .}}</td><td>{{visible .Node}}</td><td>{{.Count}}</td><td>{{stamp .Last}}</td></tr>
{{end}}</tbody></table>{{with .More}}<p>and {{.}} more</p>{{end}}</details>
{{end}}{{end}}{{with .Readiness.Identities}}<h2>Identities that do not conform</h2>
<table>
<thead><tr><th>Identity</th><th>Reason</th><th>What is wrong</th><th>Requests</th><th>Clients</th><th>Last</th></tr></thead>
<tbody>{{range .}}<tr><td>{{visible .Identity}}</td><td>{{.Reason}}</td><td>{{visible .Message}}</td><td>{{.Requests}}</td><td>{{some .Clients}}</td><td>{{stamp .Last}}</td></tr>
{{end}}</tbody></table>
{{end}}{{with .Readiness.Denials}}<h2>Denials that persist</h2><ul>{{range .}}<li>{{visible .Message}}, last {{stamp .Last}}</li>{{end}}</ul>
{{end}}<h2>Evidence</h2>
<table>
<tr><th scope="row">Events</th><td>{{.Events.Read}} read, {{.Events.Node}} of nodes, {{.Events.Skipped}} skipped, {{.Events.Duplicates}} duplicates, {{.Events.Malformed}} malformed{{range .Events.MalformedAt}}<br/>{{visible .File}}:{{.Line}}: {{visible .Cause}}{{end}}</td></tr>
<tr><th scope="row">State</th><td>{{or (objects .State.Objects) "none"}}</td></tr>
<tr><th scope="row">Authorizers</th><td>{{visible (or .Authorization.Mode "unknown")}}{{if .Authorization.Inferred}} (inferred){{end}}, Kubernetes {{visible .Authorization.KubernetesVersion}}{{gates .Authorization.FeatureGates}}</td></tr>
{{range .Authorization.VersionLines}}<tr><th scope="row">Version</th><td>{{visible .}}</td></tr>
{{end}}{{with .Authorization.Skew}}<tr><th scope="row">Skew</th><td>{{.Words}}</td></tr>
{{end}}<tr><th scope="row">Verdicts</th><td>{{.Verdicts.Allow}} allow, {{.Verdicts.Deny}} deny, {{.Verdicts.Unknown}} unknown; races: {{.Verdicts.Races.Allow}} allow, {{.Verdicts.Races.Deny}} deny</td></tr>
<tr><th scope="row">Agreement</th><td>{{.Agreement.Agree}} of {{.Agreement.Compared}} with the apiserver; in races {{.Agreement.Races.Agree}} of {{.Agreement.Races.Compared}}</td></tr>
</table>
{{with .NodeRestriction}}{{if .Writes}}<h2>NodeRestriction</h2>
<p>Writes of nodes: {{.Sum}}.</p>
<table>
<thead><tr><th>Writes of nodes</th><th>Count</th><th>NodeRestriction</th></tr></thead>
<tbody>{{range .Writes}}<tr><td>{{visible (kind .)}}</td><td>{{.Count}}</td><td>{{visible (why .)}}</td></tr>
{{end}}</tbody></table>
{{end}}{{end}}{{with .TokenAudiences.Lines}}<h2>Audiences of service account tokens</h2>
<ul>{{range .}}<li>{{visible .}}</li>{{end}}</ul>
{{end}}<h2>Findings</h2>
{{if .Findings}}<table>
<thead><tr><th>Severity</th><th>Rule</th><th>What</th><th>Count</th><th>Client</th><th>Object</th><th>Last</th></tr></thead>
<tbody>{{range .Findings}}<tr><td class="{{.Severity}}">{{.Severity}}</td><td>{{.Rule}}</td><td>{{visible .Message}}</td><td>{{.Count}}</td><td>{{visible .UserAgent}}</td><td>{{object .}}</td><td>{{stamp .Last}}</td></tr>
{{end}}</tbody></table>{{else}}<p>None.</p>{{end}}
{{if .Agreement.Disagree}}<h2>Disagreements with the apiserver</h2>
<table>
<thead><tr><th>Time</th><th>Node</th><th>Request</th><th>nodetrail</th><th>apiserver</th><th>auditID</th></tr></thead>
<tbody>{{range .Agreement.Disagree}}<tr><td>{{stamp .Time}}</td><td>{{visible .Node}}</td><td>{{visible .Verb}} {{visible .Resource}} {{visible .Namespace}} {{visible .Name}}</td><td>{{.Verdict}}</td><td>{{.Observed}}</td><td>{{visible .AuditID}}</td></tr>
{{end}}</tbody></table>
{{with .Agreement.DisagreeMore}}<p>and {{.}} more</p>{{end}}
{{end}}<h2>Nodes</h2>
<table>
<thead><tr><th>Node</th><th>Requests</th><th>Denied by Node</th><th>Allowed by RBAC alone</th></tr></thead>
<tbody>{{range .Nodes}}<tr><td>{{visible .Name}}</td><td>{{.Requests}}</td><td>{{.Deny}}</td><td>{{.Excess}}</td></tr>
{{end}}</tbody></table>
{{with .Readiness.Plan}}<h2>Plan</h2>
<ol>{{range .}}<li><p>{{.What}}.</p>{{with .Commands}}<pre><code>{{range .}}{{.}}
{{end}}</code></pre>{{end}}</li>
{{end}}</ol>
{{end}}</main>
</body>
</html>
`
