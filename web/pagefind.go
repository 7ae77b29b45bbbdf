package web

import "net/http"

// findings shows a page of findings, or of groups of them.
func (p *pages) findings(r *http.Request) (*view, error) {
	q, err := findingsQuery(r.URL.Query())
	if err != nil {
		return nil, err
	}
	q.Limit = min(q.Limit, maxPageRows)
	f, err := p.data.findings(r.Context(), q)
	if err != nil {
		return nil, err
	}
	return &view{"findings", "Findings", findingsView{FindingsPage: f, Chosen: chosen(&q)}}, nil
}

type findingsView struct {
	*FindingsPage
	// Chosen are the values of the query that choose findings.
	Chosen []choice
}

// choice is a value that the query has.
type choice struct{ Key, Label, Value string }

func chosen(q *FindingsQuery) []choice {
	var out []choice
	add := func(key, label, value string) {
		if value != "" {
			out = append(out, choice{key, label, value})
		}
	}
	add("q", "text", q.Text)
	add("rule", "rule", q.Rule)
	add("severity", "severity, at least", q.Severity)
	add("node", "node", q.Node)
	add("userAgent", "client", q.UserAgent)
	add("binding", "binding", q.Binding)
	add("resource", "resource", q.Resource)
	add("namespace", "namespace", q.Namespace)
	add("object", "object", q.Object)
	switch q.Allowed {
	case "true":
		add("allowed", "the request", "succeeded")
	case "false":
		add("allowed", "the request", "was refused, or failed")
	default:
		add("allowed", "allowed", q.Allowed)
	}
	return out
}

// More says whether a value is set that the form keeps folded away.
func (f findingsView) More() bool {
	q := &f.Query
	return q.UserAgent != "" || q.Binding != "" || q.Resource != "" || q.Namespace != "" || q.Object != "" || q.Allowed != ""
}

// maxOffered bounds the values that a box of the form offers.
const maxOffered = 20

// Offered are the most frequent values, without those that could not be distinguished from others when they are seen.
func (f findingsView) Offered(all []Count) []Count {
	var out []Count
	for _, c := range all {
		if len(out) < maxOffered && c.Name != "" && shown(c.Name) == c.Name {
			out = append(out, c)
		}
	}
	return out
}

// maxGroups bounds the groups on a page.
const maxGroups = 100

// Shown are the groups on the page; Hidden how many are not.
func (f findingsView) Shown() []Group { return f.Groups[:min(maxGroups, len(f.Groups))] }

// Hidden counts the groups that the page leaves out.
func (f findingsView) Hidden() int { return max(0, len(f.Groups)-maxGroups) }

// GroupURL leads to the findings of a group: the same query with its value in place of the grouping.
func (p *page) GroupURL(by, name string) string {
	if name == "" {
		return ""
	}
	return p.changed(by, name, "group", "")
}

// SeverityNames are what the form offers, the most severe first.
func (findingsView) SeverityNames() []string { return []string{"critical", "high", "medium", "low"} }

// GroupNames are what findings can be grouped by.
func (findingsView) GroupNames() []link {
	return []link{
		{Name: "rule", URL: "rule"}, {Name: "node", URL: "node"}, {Name: "client", URL: "userAgent"}, {Name: "binding", URL: "binding"},
		{Name: "resource", URL: "resource"}, {Name: "object", URL: "object"},
	}
}

// GroupTitle heads the column of the groups' names.
func (f findingsView) GroupTitle() string {
	for _, g := range f.GroupNames() {
		if g.URL == f.Query.Group {
			return sentenceCase(g.Name)
		}
	}
	return "Group"
}
