package web

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

func TestDoc(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		if diff := cmp.Diff(want, string(renderDoc(doc))); diff != "" {
			t.Errorf("of %q (-want +got):\n%s", doc, diff)
		}
	}
	f("", "")
	f("One\nparagraph.\n\nAnother.\n", "<p>One\nparagraph.</p>\n<p>Another.</p>\n")
	f("<!-- no -->\n# Title\n\nRule `x`.\n\n## What\nText\n", "<p>Rule <code>x</code>.</p>\n<h2>What</h2>\n<p>Text</p>\n")
	f("One of:\n\n- a `b`\n  and more;\n- c\n\nEnd", "<p>One of:</p>\n<ul>\n<li>a <code>b</code>\nand more;</li>\n<li>c</li>\n</ul>\n<p>End</p>\n")
	f("See [node-identity](node-identity.md).", "<p>See <a href=\"/rules/node-identity\">node-identity</a>.</p>\n")
	f("[x](https://example.org) [x](javascript:alert) ![x](y.md", "<p>[x](https://example.org) [x](javascript:alert) ![x](y.md</p>\n")
	f("<script>`<b>`</script> & \"\n## <i>", "<p>&lt;script&gt;<code>&lt;b&gt;</code>&lt;/script&gt; &amp; &#34;</p>\n<h2>&lt;i&gt;</h2>\n")
	f("- a\n```sh\n# <a> `b`\n\n- c [d](e.md)\n```\nf", "<ul>\n<li>a</li>\n</ul>\n<div class=\"commands\"><pre tabindex=\"0\" aria-label=\"Commands\"><code># &lt;a&gt; `b`\n\n- c [d](e.md)\n</code></pre></div>\n<p>f</p>\n")
	f("```\na", "<div class=\"commands\"><pre tabindex=\"0\" aria-label=\"Commands\"><code>a\n</code></pre></div>\n")
	f("- a\nb\n## c", "<ul>\n<li>a\nb</li>\n</ul>\n<h2>c</h2>\n")
}

// Every rule's and every check's page has nothing that the renderer leaves as it is.
func TestDocsOfRules(t *testing.T) {
	rendered := func(name, page string) {
		t.Helper()
		for _, mark := range []string{"`", "](", "\n- ", "##", "<!--"} {
			if strings.Contains(page, mark) {
				t.Errorf("the page of %s has %q", name, mark)
			}
		}
	}
	for _, c := range checks.All() {
		rendered(c.Name, string(CheckPage{Doc: checks.Page(&c)}.Page()))
	}
	for _, r := range rules.All() {
		v := Rule{Name: r.Name, Doc: rules.Page(r)}
		page := string(v.Page())
		rendered(r.Name, page)
		// Next to the sections of the Doc there are the reasons.
		if strings.Count(page, "<h2>") != strings.Count(r.Doc, "\n## ")+1 || v.Title() != r.Title() || !strings.HasPrefix(string(v.Steps()), "<p>") {
			t.Errorf("the page of %s is %q, with the title %q and the steps %q", r.Name, page, v.Title(), v.Steps())
		}
	}
}

func FuzzDoc(f *testing.F) {
	for _, r := range rules.All() {
		f.Add(rules.Page(r))
	}
	f.Add("- a\n\n- `b\n[c](d.md)")
	f.Fuzz(func(t *testing.T, doc string) {
		s := string(renderDoc(doc))
		for _, tag := range []string{"<script", "<img", "<a href=\"http", "onerror=\""} {
			if strings.Contains(s, tag) {
				t.Errorf("%q makes %q", doc, s)
			}
		}
		if strings.Count(s, "<ul>") != strings.Count(s, "</ul>") || strings.Count(s, "<p>") != strings.Count(s, "</p>") {
			t.Errorf("%q makes %q", doc, s)
		}
	})
}

func steady(step string, counts ...int64) Trend {
	t := Trend{Step: step}
	for i, n := range counts {
		t.Points = append(t.Points, Point{At: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Hour), Excess: n})
	}
	return t
}

func TestPlotWords(t *testing.T) {
	f := func(tr Trend, want string) {
		t.Helper()
		p := newPlot("", tr, excessSeries("x"))
		if p.Lanes[0].Words != want {
			t.Errorf("the words are %q, want %q", p.Lanes[0].Words, want)
		}
	}
	f(steady("hour", 7), "7 in 1 hour")
	f(steady("hour", 0, 0), "none in 2 hours")
	f(steady("hour", 0, 1234, 5), "1,239 in 3 hours, at most 1,234 in one (2026-11-20 11:00)")
	f(steady("day", 4, 0), "4 in 2 days, at most 4 in one (2026-11-20), none in the last day")
	f(steady("1s", 4, 2, 0, 0), "6 in 4 seconds, at most 4 in one (2026-11-20 10:00:00), none in the last 2 seconds")
	f(steady("10s", 4, 2), "6 in 20 seconds, at most 4 in one (2026-11-20 10:00:00)")
	f(steady("5m", 4, 2), "6 in 10 minutes, at most 4 in one (2026-11-20 10:00)")
	if newPlot("", Trend{Step: "hour"}, excessSeries("x")) != nil {
		t.Error("a trend without steps has a plot")
	}
}

func TestPlotBars(t *testing.T) {
	p := newPlot("c", steady("hour", 10, 0, 1, 1000), excessSeries("x"))
	want := []bar{
		{X: 0, Y: 97, H: 3, Say: "2026-11-20 10:00: 10"}, {X: 2, Y: 97, H: 3, Say: "2026-11-20 12:00: 1"}, {X: 3, Y: 0, H: 100, Say: "2026-11-20 13:00: 1,000"},
	}
	if diff := cmp.Diff(want, p.Lanes[0].Bars); diff != "" {
		t.Errorf("bars (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]plotRow{{at(180), []int64{1000}}, {at(120), []int64{1}}, {at(0), []int64{10}}}, p.Rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	// A long time has bars of several steps each, and no request is lost.
	many := make([]int64, 10*maxBars+7)
	for i := range many {
		many[i] = int64(i % 3)
	}
	p = newPlot("c", steady("hour", many...), excessSeries("x"))
	l := p.Lanes[0]
	if len(l.Bars) > maxBars || l.Width > maxBars || l.Total != 2406 || len(p.Rows) != maxPlotRows || p.Left != 1604-maxPlotRows {
		t.Errorf("%d bars, %d wide, %d in all, %d rows and %d left", len(l.Bars), l.Width, l.Total, len(p.Rows), p.Left)
	}
}

func TestLinks(t *testing.T) {
	p := &page{Window: "7d", here: "/findings", params: map[string][]string{"window": {"7d"}, "q": {"a&b"}, "cursor": {"c"}, "rule": {""}, "group": {"node"}, "limit": {"5"}}}
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("the link is %q, want %q", got, want)
		}
	}
	f(p.NodeURL("a/b?c#d e%2F"), "/nodes/a%2Fb%3Fc%23d%20e%252F?window=7d")
	f(p.NodeURL(""), "")
	f(p.NodeURL(".."), "")
	f(p.BindingURL("ClusterRoleBinding", "", "legacy:system:node"), "/bindings/clusterrolebinding/-/legacy:system:node?window=7d")
	f(p.BindingURL("RoleBinding", "a/b", "c"), "/bindings/rolebinding/a%2Fb/c?window=7d")
	f(p.ObjectURL(report.Finding{APIGroup: "g", Resource: "r", Namespace: "n", Name: "x"}), "/objects/r.g/n/x?window=7d")
	f(p.ObjectURL(report.Finding{Resource: "nodes"}), "")
	f(p.FindingsURL("rule", "x", "node", ""), "/findings?rule=x&window=7d")
	f(p.Without("q"), "/findings?group=node&limit=5&window=7d")
	f(p.PageURL("d"), "/findings?cursor=d&group=node&limit=5&q=a%26b&window=7d")
	f(p.GroupURL("node", "w"), "/findings?limit=5&node=w&q=a%26b&window=7d")
	f(p.ExportURL("/findings.csv"), "/findings.csv?q=a%26b&window=7d")
	s := p.Sort("Last", "last", "")
	f(s.URL+s.Aria, "/findings?group=node&limit=5&q=a%26b&sort=last&window=7d")
	s = p.Sort("Last", "last", "last")
	f(s.URL+s.Aria, "/findings?group=node&limit=5&q=a%26b&sort=-last&window=7ddescending")
	s = p.Sort("Node", "node", "-node")
	f(s.URL+s.Aria, "/findings?group=node&limit=5&q=a%26b&sort=node&window=7ddescending")
	if all := p.Windows(); !all[2].Current || all[2].URL != "/findings?group=node&limit=5&q=a%26b&window=7d" || len(all) != 5 {
		t.Errorf("windows are %v", all)
	}
	p.Window = "36h"
	if all := p.Windows(); len(all) != 6 || !all[5].Current || all[5].Name != "36h" {
		t.Errorf("windows are %v", all)
	}
}

func TestNextIsHere(t *testing.T) {
	for s, want := range map[string]bool{
		"/": true, "/findings?q=a#b": true, "": false, "//evil.example": false, "https://evil.example/": false, `/\evil.example`: false, "findings": false, "javascript:x": false,
		"/\tx": false, "/%2F/x": true,
	} {
		if localPath(s) != want {
			t.Errorf("%q leads here: %v, want %v", s, !want, want)
		}
	}
}

// The form for an object leads to its page.
func TestObjectForm(t *testing.T) {
	h := newFakePages(t, &fake{name: plain, many: 1})
	w := get(t, h, "/objects?resource=resourceclaims.resource.k8s.io&namespace=a%2Fb&name=+x%3F&window=7d")
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/objects/resourceclaims.resource.k8s.io/a%2Fb/x%3F?window=7d" {
		t.Errorf("status %d, to %q", w.Code, w.Header().Get("Location"))
	}
	if w := get(t, h, "/objects?resource=nodes&name=.."); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "needs a resource and a name") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// What went wrong is said in a sentence and with the right status, and nothing of the inside.
func TestProblems(t *testing.T) {
	f := func(err error, status int, say string) {
		t.Helper()
		w := get(t, newFakePages(t, &fake{name: plain, many: 1, err: err}), "/")
		if w.Code != status || !strings.Contains(w.Body.String(), say) || strings.Contains(w.Body.String(), "secret of the inside") {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		checkPage(t, say, w.Body.String())
	}
	f(errNotFound, 404, "There is nothing at this address.")
	f(badQuery("window: %q is no duration", "<b>"), 400, "Window: &#34;&lt;b&gt;&#34; is no duration.")
	f(errUnavailable, 503, "The store cannot be read now.")
	f(http.ErrBodyNotAllowed, 500, "The log of nodetrail says why.")
}

// A parameter that cannot be read does not count as not given.
func TestUnreadableQuery(t *testing.T) {
	h := newFakePages(t, &fake{name: plain, many: 1})
	for _, path := range []string{"/findings?sort=%27;drop", "/?window=7d;x", "/nodes?q=%zz"} {
		w := get(t, h, path)
		if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "The query cannot be read: ") {
			t.Errorf("%s: status %d: %s", path, w.Code, w.Body)
		}
		checkPage(t, path, w.Body.String())
	}
}

// The overview opens with the answer of the checks, whatever blockers and holes there are, and each answer has its title, its colour and its sentence.
func TestOverviewAnswers(t *testing.T) {
	for answer, want := range map[string][]string{
		report.VerdictReady:    {"ready", "Ready", "The bindings can be deleted: "},
		report.VerdictWaived:   {"ready", "Ready with 2 waivers", "The bindings can be deleted if the waivers hold: "},
		report.VerdictNotReady: {"not-ready", "Not ready", "The bindings must not be deleted yet: "},
		report.VerdictUnknown:  {"unknown", "Not enough evidence", "It is not proven that the bindings can be deleted: "},
	} {
		for _, many := range []int{0, 3} {
			body := get(t, newFakePages(t, &fake{name: plain, many: many, answer: answer, waivers: 2}), "/").Body.String()
			for _, s := range []string{
				`<section class="verdict verdict-` + want[0] + `" `, "<h1>" + want[1] + "</h1>", `<p class="lead">` + want[2] + "4 checks failed, 4 are unproven, 4 are waived, 3 passed.</p>", "<title>" + want[1],
			} {
				if !strings.Contains(body, s) {
					t.Errorf("the overview of %q with %d blockers lacks %s", answer, many, s)
				}
			}
			checkPage(t, answer, body)
		}
	}
}

// Assets are kept by browsers for as long as they are the same.
func TestAssets(t *testing.T) {
	h := newFakePages(t, &fake{name: plain, many: 1})
	a, err := newAssets()
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"style.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml"} {
		u, err := a.url(name)
		if err != nil {
			t.Fatal(err)
		}
		w := get(t, h, u)
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || w.Body.Len() > 40_000 {
			t.Errorf("%s: status %d, %v, %d bytes", u, w.Code, w.Header(), w.Body.Len())
		}
		if w := get(t, h, "/assets/"+name); w.Header().Get("Cache-Control") != "no-cache" {
			t.Errorf("%s without its hash: %v", name, w.Header())
		}
	}
	if w := get(t, h, "/assets/nothing"); w.Code != 404 {
		t.Errorf("status %d of what is not there", w.Code)
	}
}
