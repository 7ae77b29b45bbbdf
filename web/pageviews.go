package web

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// maxPageRows bounds what a list shows at once, whatever the query's limit.
const maxPageRows = 60

func (p *pages) overview(r *http.Request) (*view, error) {
	o, err := p.data.overview(r.Context(), r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"overview", o.Readiness.Head(), overviewView{o, migrationPlot(o.Trend)}}, nil
}

type overviewView struct {
	*Overview
	Plot *plot
}

// Questions are both.
func (o overviewView) Questions() []report.Question {
	return []report.Question{o.Readiness.Question(), o.Confinement.Question()}
}

// Open counts the checks of both questions that are in one of the states, each once.
func (o overviewView) Open(states ...string) int {
	names := map[string]bool{}
	for _, q := range o.Questions() {
		for i := range q.Checks {
			if slices.Contains(states, q.Checks[i].State) {
				names[q.Checks[i].Name] = true
			}
		}
	}
	return len(names)
}

// Breaking is how many requests would break.
func (o overviewView) Breaking() int64 { return o.Readiness.Breaking() }

// Clients are the programs that need a binding, each once.
func (o overviewView) Clients() int {
	names := map[string]bool{}
	for i := range o.Readiness.Clients {
		names[o.Readiness.Clients[i].UserAgent] = true
	}
	return len(names)
}

// Failing are the sources with which something is wrong, at most five.
func (o overviewView) Failing() []Source {
	var out []Source
	for _, s := range o.Sources {
		if !s.Healthy && len(out) < 5 {
			out = append(out, s)
		}
	}
	return out
}

// Every is how many seconds pass between two updates of the page.
func (o overviewView) Every() int {
	if d, err := time.ParseDuration(o.Trend.Step); err == nil && d < time.Minute {
		return 2
	}
	return 10
}

// verdictClass is ready, with or without waivers, not-ready or unknown.
func verdictClass(x *report.Readiness) string {
	switch x.Verdict {
	case report.VerdictReady, report.VerdictWaived:
		return "ready"
	case report.VerdictNotReady:
		return "not-ready"
	}
	return "unknown"
}

func (p *pages) finding(r *http.Request) (*view, error) {
	f, err := p.data.finding(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return &view{"finding", cmp.Or(f.Rule.Title(), f.Finding.Rule), findingView{f, requestPlot(f.Trend)}}, nil
}

type findingView struct {
	*FindingPage
	Plot *plot
}

func (p *pages) nodes(r *http.Request) (*view, error) {
	q := r.URL.Query()
	n, err := p.data.nodes(r.Context(), q.Get("window"), q.Get("cursor"), maxPageRows)
	if err != nil {
		return nil, err
	}
	return &view{"nodes", "Nodes", n}, nil
}

func (p *pages) node(r *http.Request) (*view, error) {
	name := r.PathValue("name")
	n, err := p.data.node(r.Context(), name, r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"node", "Node " + shown(name), nodeView{n, verdictPlot(n.Trend)}}, nil
}

type nodeView struct {
	*NodePage
	Plot *plot
}

func (p *pages) bindings(r *http.Request) (*view, error) {
	b, err := p.data.bindings(r.Context(), r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"bindings", "Bindings", b}, nil
}

func (p *pages) binding(r *http.Request) (*view, error) {
	of := report.Binding{Namespace: unDash(r.PathValue("namespace")), Name: r.PathValue("name")}
	switch r.PathValue("kind") {
	case "clusterrolebinding":
		of.Kind = "ClusterRoleBinding"
	case "rolebinding":
		of.Kind = "RoleBinding"
	default:
		return nil, badQuery("a binding is a clusterrolebinding or a rolebinding")
	}
	b, err := p.data.binding(r.Context(), of, r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	plot := newPlot("Requests that only this binding let through", b.Trend, excessSeries("would break"))
	return &view{"binding", "Binding " + shown(of.Name), bindingView{b, plot}}, nil
}

type bindingView struct {
	*BindingPage
	Plot *plot
}

// objects is the form for an object; filled in, it leads to the object's page.
func (p *pages) objects(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	form := objectForm{
		Resource: strings.TrimSpace(q.Get("resource")), Namespace: strings.TrimSpace(q.Get("namespace")), Name: strings.TrimSpace(q.Get("name")),
	}
	resource, group, _ := strings.Cut(form.Resource, ".")
	to := objectURL(Object{APIGroup: group, Resource: resource, Namespace: form.Namespace, Name: form.Name})
	switch {
	case to != "":
		if window := q.Get("window"); window != "" {
			to += "?window=" + url.QueryEscape(window)
		}
		redirect(w, p.base+to)
		return
	case form.Resource != "" || form.Name != "":
		form.Missing = true
	case !q.Has("resource"):
		form.Resource = "secrets"
	}
	p.write(w, r, http.StatusOK, "objects", &view{"objects", "Objects", form})
}

// objectForm is what was filled in so far.
type objectForm struct {
	Resource, Namespace, Name string
	// Missing says that something is.
	Missing bool
}

func (p *pages) object(r *http.Request) (*view, error) {
	resource, group, _ := strings.Cut(r.PathValue("resource"), ".")
	of := Object{APIGroup: group, Resource: resource, Namespace: unDash(r.PathValue("namespace")), Name: r.PathValue("name")}
	o, err := p.data.object(r.Context(), of, r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"object", "Object " + shown(of.Name), objectView{o}}, nil
}

type objectView struct{ *ObjectPage }

// Name is the object's in a query of findings, [namespace/]name.
func (o objectView) Name() string { return qualified(o.Object.Namespace, o.Object.Name) }

// ResourceName is its resource[.group].
func (o objectView) ResourceName() string {
	return resourceWords(o.Object.APIGroup, o.Object.Resource, "")
}

func (p *pages) checks(r *http.Request) (*view, error) {
	c, err := p.data.checks(r.Context(), r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"checks", "Checks", c}, nil
}

func (p *pages) check(r *http.Request) (*view, error) {
	c, err := p.data.check(r.Context(), r.PathValue("name"), r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"check", cmp.Or(c.Title, c.Check.Name), c}, nil
}

// Page is the check's page as HTML, without its title.
func (c CheckPage) Page() template.HTML { return renderDoc(c.Doc) }

// Items are the check's evidence, those that do not pass first, as many as a page shows; More counts the others.
func (c CheckPage) Items() []report.CheckItem {
	return c.Check.Evidence[:min(maxPageRows, len(c.Check.Evidence))]
}

// More counts the items that the page does not show.
func (c CheckPage) More() int { return len(c.Check.Evidence) + c.Check.More - len(c.Items()) }

// openItems are the items because of which a check does not pass, as far as a list shows them.
type openItems struct {
	Items []report.CheckItem
	More  int
}

func openOf(c report.Check, most int) openItems {
	items, more := c.Open(most)
	return openItems{items, more}
}

// pasteLines are a file of waivers by its lines, nil if it is too long for a page.
func pasteLines(s string) []string {
	const most = 20_000
	if len(s) > most {
		return nil
	}
	return strings.Split(strings.TrimSpace(s), "\n")
}

func (p *pages) rules(r *http.Request) (*view, error) {
	all, err := p.data.rules(r.Context(), r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"rules", "Rules", all}, nil
}

func (p *pages) rule(r *http.Request) (*view, error) {
	x, err := p.data.rule(r.Context(), r.PathValue("name"), r.URL.Query().Get("window"))
	if err != nil {
		return nil, err
	}
	return &view{"rule", cmp.Or(x.Title(), x.Name), x}, nil
}

// Title says in one line what the rule flags.
func (r Rule) Title() string {
	if r.title != "" {
		return r.title
	}
	for _, x := range rules.All() {
		if x.Name == r.Name {
			return x.Title()
		}
	}
	return ""
}

// Page is the rule's page as HTML, without its title.
func (r Rule) Page() template.HTML {
	doc := r.Doc
	if _, body, ok := strings.Cut(doc, "\n## "); ok {
		doc = "## " + body
	}
	return renderDoc(doc)
}

// Steps say as HTML what to do about a finding.
func (r Rule) Steps() template.HTML {
	_, steps, _ := strings.Cut(r.Doc, "\n## What to do\n")
	steps, _, _ = strings.Cut(steps, "\n## ")
	return renderDoc(cmp.Or(steps, r.Todo))
}

// problemOf says an error to a person. What the error says of the inside stays in the log.
func problemOf(err error) problem {
	switch {
	case errors.Is(err, errNotFound):
		return problem{
			http.StatusNotFound, "Not found", "There is nothing at this address.",
			"It may be of a time that is no longer stored, or of another cluster. Look for it among the findings.",
		}
	case errors.Is(err, errBadQuery):
		return problem{http.StatusBadRequest, "Not understood", sentence(err.Error()), "Take the query out of the address, or choose again with the form."}
	case errors.Is(err, errUnavailable), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problem{
			http.StatusServiceUnavailable, "Not available now", "The store cannot be read now.",
			"Try again in a moment. If it stays so, look at the log of nodetrail and at the page /readyz.",
		}
	}
	return problem{http.StatusInternalServerError, "Something went wrong", "This page could not be made.", "The log of nodetrail says why."}
}

// sentenceCase begins with a capital.
func sentenceCase(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] }

// sentence begins with a capital and ends with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	s = sentenceCase(s)
	if !strings.HasSuffix(s, ".") {
		s += "."
	}
	return s
}

// unDash is the namespace of a path, where "-" is none.
func unDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
