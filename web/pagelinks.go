package web

import (
	"html"
	"html/template"
	"net/url"
	"strings"

	"github.com/nodetrail/nodetrail/report"
)

// link is a choice that a page offers.
type link struct {
	Name, URL string
	Current   bool
}

// with adds the window that was asked for, and pairs of names and values; a pair without a value is left out.
func (p *page) with(path string, pairs ...string) string {
	if path == "" {
		return ""
	}
	path = p.base + path
	q := url.Values{}
	if p.Window != "" {
		q.Set("window", p.Window)
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// To is where a form is sent.
func (p *page) To(path string) string { return p.base + path }

// Doc is HTML with its links to other pages of this cluster.
func (p *page) Doc(s template.HTML) template.HTML {
	return template.HTML(strings.ReplaceAll(string(s), `<a href="/`, `<a href="`+html.EscapeString(p.base)+`/`)) // both parts are escaped
}

// URL leads to a page of fixed path.
func (p *page) URL(path string) string { return p.with(path) }

// FindingsURL leads to the findings that pairs choose.
func (p *page) FindingsURL(pairs ...string) string { return p.with("/findings", pairs...) }

// FindingURL leads to a finding.
func (p *page) FindingURL(id string) string { return p.with(under("/findings/", id)) }

// NodeURL leads to a node.
func (p *page) NodeURL(name string) string { return p.with(under("/nodes/", name)) }

// RuleURL leads to a rule.
func (p *page) RuleURL(name string) string { return p.with(under("/rules/", name)) }

// CheckURL leads to a check.
func (p *page) CheckURL(name string) string { return p.with(under("/checks/", name)) }

// BindingURL leads to a binding.
func (p *page) BindingURL(kind, namespace, name string) string {
	s := segment(name)
	if s == "" || segment(kind) == "" || namespace == "." || namespace == ".." {
		return ""
	}
	return p.with("/bindings/" + strings.ToLower(url.PathEscape(kind)) + "/" + dash(namespace) + "/" + s)
}

// ObjectURL leads to the object of a finding, "" where it is none or one without a name.
func (p *page) ObjectURL(f report.Finding) string {
	if f.Resource == "" || f.Name == "" {
		return ""
	}
	return p.with(objectURL(Object{APIGroup: f.APIGroup, Resource: f.Resource, Namespace: f.Namespace, Name: f.Name}))
}

func under(path, name string) string {
	if name = segment(name); name == "" {
		return ""
	}
	return path + name
}

// Windows are the times that can be looked at.
func (p *page) Windows() []link {
	all := []link{{"all", "", false}, {"30 days", "30d", false}, {"7 days", "7d", false}, {"24 hours", "24h", false}, {"1 hour", "1h", false}}
	known := false
	for i := range all {
		w := all[i].URL
		all[i].Current = w == p.Window
		known = known || all[i].Current
		all[i].URL = p.changed("window", w)
	}
	if !known {
		all = append(all, link{shown(p.Window), p.changed(), true})
	}
	return all
}

// changed is this page with other values in its query; from its first row on.
func (p *page) changed(pairs ...string) string {
	q := url.Values{}
	for k, v := range p.params {
		if k != "cursor" && len(v) > 0 && v[0] != "" { // a form sends all its boxes
			q.Set(k, v[0])
		}
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			q.Del(pairs[i])
		} else {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return p.here
	}
	return p.here + "?" + q.Encode()
}

// PageURL is this page at another cursor.
func (p *page) PageURL(cursor string) string {
	if cursor == "" {
		return ""
	}
	return p.changed("cursor", cursor)
}

// FirstURL is this page from its first row on.
func (p *page) FirstURL() string { return p.changed() }

// Without is this page with one value less in its query.
func (p *page) Without(name string) string { return p.changed(name, "") }

// ExportURL is the export of what this page shows, all of it.
func (p *page) ExportURL(path string) string {
	q := url.Values{}
	for _, k := range findingParameters() {
		if v := p.params[k]; len(v) > 0 && v[0] != "" && k != "limit" && k != "cursor" && k != "group" {
			q.Set(k, v[0])
		}
	}
	if len(q) == 0 {
		return p.base + path
	}
	return p.base + path + "?" + q.Encode()
}

// HasCursor says that this is not the first page of a list.
func (p *page) HasCursor() bool { return len(p.params["cursor"]) > 0 && p.params["cursor"][0] != "" }

// sortView is the head of a column that can be sorted by.
type sortView struct {
	Name, URL string
	// Aria is ascending or descending, "" for a column that is not sorted by.
	Aria, Arrow string
}

// Sort makes the head of the column that a query sorts by under the key. Columns of counts and times begin with the most and the latest.
func (p *page) Sort(name, key, now string) sortView {
	if now == "" {
		now = "severity"
	}
	down := key == "severity" || key == "last" || key == "first" || key == "count"
	v := sortView{Name: name, URL: p.changed("sort", key)}
	if strings.TrimPrefix(now, "-") != key {
		return v
	}
	if strings.HasPrefix(now, "-") {
		down = !down
	} else {
		v.URL = p.changed("sort", "-"+key)
	}
	v.Aria, v.Arrow = "ascending", "↑"
	if down {
		v.Aria, v.Arrow = "descending", "↓"
	}
	return v
}
