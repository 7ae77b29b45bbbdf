package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Bounds of what is shown, in characters.
const (
	// maxShown is that of one name. A name of the cluster has at most 253.
	maxShown = 300
	// maxSaid is that of a sentence, which may have several names.
	maxSaid = 1000
)

// funcs are those of templates. What they return as text is escaped by html/template.
func funcs(a *assets) template.FuncMap {
	return template.FuncMap{
		"asset": a.url, "who": func(o tally.Origins) string { return wording.Who(&o) }, "from": func(o tally.Origins) string { return wording.From(&o) },
		"answered": func(o tally.Origins) string { return wording.Answered(&o) },
		"visible":  shown, "said": said, "command": wording.Visible, "stamp": stamp, "stampPtr": stampPtr, "thousands": wording.Thousands, "count": count,
		"dict": dict, "stepTime": stepTime, "percent": percent, "verdictClass": func(x report.Readiness) string { return verdictClass(&x) },
		"verdictTitle": func(x report.Readiness) string { return x.Head() }, "verdictMeans": func(x report.Readiness) string { return x.Means() }, "need": needWords,
		"incidentCounts": func(in incidents.Incident) string { return report.IncidentCounts(&in) },
		"incidentWhose":  func(in incidents.Incident) string { return report.WhoseCredential(&in) },
		"incidentRow":    func(r incidents.Row) string { return report.RowText(&r) },
		"incidentObject": func(o incidents.Object) string { return shown(report.ObjectText(&o)) },
		"incidentName": func(r incidents.Row) string {
			if r.Name == "" {
				return ""
			}
			return qualified(r.Namespace, r.Name)
		},
		"open": openOf, "pasteLines": pasteLines, "question": questionWords,
		"binding": bindingWords, "grant": grantWords, "step": stepWords, "span": spanWords, "drawing": drawing, "spark": spark,
		"join": func(all []string) string { return shown(strings.Join(all, ", ")) }, "toInt": func(n int) int64 { return int64(n) },
		"clusterURL": clusterURL, "clusterName": func(c report.FleetCluster) string { return c.Title() },
		"gates": gates, "request": requestWords, "outcome": outcomeWords, "sentence": sentence, "first": first, "brief": brief, "aside": aside,
	}
}

// questionWords are a question in full.
func questionWords(name string) string {
	if name == checks.Confined.String() {
		return "Is a stolen kubelet credential confined to its node?"
	}
	return "Can you delete the RBAC bindings for nodes?"
}

// shown makes a name safe to show and not too long.
func shown(s string) string { return wording.Bounded(s, maxShown) }

// said is shown for sentences.
func said(s string) string { return wording.Bounded(s, maxSaid) }

// stamp is a time in UTC, which the script tells in local time.
func stamp(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	t = t.UTC()
	return template.HTML(`<time datetime="` + t.Format(time.RFC3339Nano) + `">` + t.Format("2006-01-02 15:04:05") + `</time>`) // digits
}

func stampPtr(t *time.Time) template.HTML {
	if t == nil {
		return "–"
	}
	return stamp(*t)
}

// count is a number of things in words: 1 request, 2 requests.
func count(n any, what string) string {
	var x int64
	switch n := n.(type) {
	case int:
		x = int64(n)
	case int64:
		x = n
	}
	return wording.PluralOf(wording.Thousands(x), x, what)
}

// percent never says 100 of what is not all, nor 0 of what is something.
func percent(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return strings.Replace(wording.Percent(n, of), ".0 ", " ", 1)
}

// first are at most the first n of a list.
func first(n int, list any) (any, error) {
	v := reflect.ValueOf(list)
	if v.Kind() != reflect.Slice {
		return nil, fmt.Errorf("first: %T is no list", list)
	}
	return v.Slice(0, min(n, v.Len())).Interface(), nil
}

// dict makes a map for a template that is given several things.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, fmt.Errorf("dict: %d arguments are no pairs", len(pairs))
	}
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		k, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: the key %v is no text", pairs[i])
		}
		m[k] = pairs[i+1]
	}
	return m, nil
}

// resourceWords is resource[.group][/subresource].
func resourceWords(group, resource, sub string) string {
	if group != "" {
		resource += "." + group
	}
	if sub != "" {
		resource += "/" + sub
	}
	return resource
}

// objectWords is what a finding is about.
func objectWords(f report.Finding) string {
	name := qualified(f.Namespace, f.Name)
	if f.Name == "" && f.Namespace != "" {
		name = "in " + f.Namespace
	}
	return said(strings.TrimSpace(resourceWords(f.APIGroup, f.Resource, f.Subresource) + " " + name))
}

// aside is what a finding is about, where its message does not say so: those of an identity or a credential, and those of many groups.
func aside(f report.Finding) string {
	if f.Reason != "" && !rules.ByReason(f.Rule) && f.Rule != "secret-enumeration" && f.Rule != "node-deny-spike" {
		return ""
	}
	return objectWords(f)
}

// brief reports whether a name is better not broken over lines.
func brief(s string) bool { return len(s) <= 28 }

// requestWords is its verb, too.
func requestWords(f report.Finding) string {
	return said(strings.TrimSpace(f.Verb + " " + objectWords(f)))
}

// needWords is one request, such as "get secrets shop/db".
func needWords(n report.Need) string {
	s := requestWords(report.Finding{
		Verb: n.Verb, APIGroup: n.APIGroup, Resource: n.Resource, Subresource: n.Subresource, Namespace: n.Namespace, Name: n.Name,
	})
	return cmp.Or(s, "various")
}

func bindingWords(kind, namespace, name string) string {
	return shown(kind + " " + qualified(namespace, name))
}

func stepWords(s explain.Step) string { return shown(qualified(s.Namespace, s.Name)) }

// grantWords is a way by which RBAC allows something.
func grantWords(g explain.Grant) string {
	return shown(fmt.Sprintf("%s %s by %s %s", g.Subject.Kind, qualified(g.Subject.Namespace, g.Subject.Name), g.Role.Kind, g.Role.Name))
}

// spanWords is since when until when something was there.
func spanWords(from, to *time.Time) template.HTML {
	switch {
	case from == nil && to == nil:
		return "always"
	case to == nil:
		return `<span class="brief">since ` + stamp(*from) + `</span>`
	case from == nil:
		return `<span class="brief">until ` + stamp(*to) + `</span>`
	}
	return stamp(*from) + " to " + stamp(*to)
}

// outcomeWords are those of the what-if.
func outcomeWords(s string) string {
	switch s {
	case "node":
		return "allowed by Node"
	case "rbac":
		return "still by RBAC"
	case "other":
		return "by another"
	case "fruitless":
		return "failed anyway"
	case "unknown":
		return "not known"
	case "gained":
		return "newly allowed"
	}
	return s
}

// gates are the feature gates as flags, in order.
func gates(m map[string]bool) string {
	var all []string
	for k, v := range m {
		all = append(all, fmt.Sprintf("%s=%t", k, v))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// drawing is the SVG of what draws itself. Its names are escaped by package explain.
func drawing(d interface{ WriteSVG(io.Writer) error }) (template.HTML, error) {
	var b bytes.Buffer
	if err := d.WriteSVG(&b); err != nil {
		return "", fmt.Errorf("drawing the graph: %w", err)
	}
	s := b.String()
	if i := strings.Index(s, "<svg"); i > 0 {
		s = s[i:] // without the declaration of XML, which HTML has no place for
	}
	return template.HTML(s), nil // see above
}

// spark is the trend of the latest days as small bars; the words next to it say the same.
func spark(days []report.Day) sparkView {
	const most = 30
	days = days[max(0, len(days)-most):]
	v := sparkView{Width: max(7, len(days))}
	var top int64 = 1
	for _, d := range days {
		top = max(top, d.Count)
	}
	for i, d := range days {
		if d.Count > 0 {
			h := max(1, 10*float64(d.Count)/float64(top))
			v.Bars = append(v.Bars, bar{X: i, Y: 10 - h, H: h})
		}
	}
	var words []string
	for _, d := range days[max(0, len(days)-7):] {
		words = append(words, d.Day+": "+wording.Thousands(d.Count))
	}
	v.Words = cmp.Or(strings.Join(words, ", "), "not known")
	return v
}

type sparkView struct {
	Width int
	Bars  []bar
	Words string
}

// segment escapes a name for a path; "" where a path cannot hold it.
func segment(s string) string {
	if s == "" || s == "." || s == ".." {
		return ""
	}
	return url.PathEscape(s)
}

func dash(s string) string { return cmp.Or(url.PathEscape(s), "-") }

// objectURL is the path of an object's page; "" where it has none.
func objectURL(o Object) string {
	name, resource := segment(o.Name), segment(resourceWords(o.APIGroup, o.Resource, ""))
	if name == "" || resource == "" || o.Namespace == "." || o.Namespace == ".." {
		return ""
	}
	return "/objects/" + resource + "/" + dash(o.Namespace) + "/" + name
}
