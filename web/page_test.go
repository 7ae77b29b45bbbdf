package web

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/golden"
)

// maxPage is the largest that a page may be, in bytes.
const maxPage = 500_000

func newFakePages(t testing.TB, f *fake) http.Handler {
	t.Helper()
	p, err := newPages(f, f.name("prod"), func() time.Time { return at(100) }, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	mux := newRouter()
	p.routes(mux)
	return mux
}

func get(t testing.TB, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

// everyPage are the paths of all pages, with a name in those that have one.
func everyPage(name string) []string {
	n := url.PathEscape(name)
	return []string{
		"/", "/?window=7d", "/findings", "/findings?window=24h&q=" + url.QueryEscape(name) + "&node=" + url.QueryEscape(name) + "&sort=-last&severity=high&allowed=true",
		"/findings?group=node", "/findings?cursor=x&limit=1000", "/findings/id000001", "/nodes", "/nodes?cursor=x", "/nodes/" + n, "/bindings",
		"/bindings/clusterrolebinding/-/" + n, "/bindings/rolebinding/" + n + "/" + n, "/objects", "/objects?resource=&name=" + url.QueryEscape(name), "/objects/secrets/" + n + "/" + n,
		"/incidents", "/incidents?window=7d&credential=" + n, "/incidents/id000001", "/checks", "/checks?window=7d", "/checks/nothing-depends", "/checks/one-holder", "/rules", "/rules/node-identity", "/login", "/login?failed=1&next=" + url.QueryEscape("/findings?q="+name), "/nowhere/" + n,
	}
}

func TestEveryPage(t *testing.T) {
	for _, names := range []struct {
		is   string
		name func(string) string
	}{{"plain", plain}, {"hostile", hostile}, {"empty", func(string) string { return "" }}} {
		for _, many := range []int{0, 1, effort.Of(10_000, 300)} {
			if many > 1 && names.is != "hostile" {
				many = 70 // more than any list has rows
			}
			h := newFakePages(t, &fake{name: names.name, many: many})
			for _, path := range everyPage(names.name("a/b c?d#e%2F")) {
				if strings.Contains(path, "//") || strings.HasSuffix(path, "/") && path != "/" {
					continue // no path has an empty name in it
				}
				w := get(t, h, path)
				where := fmt.Sprintf("%s with %d things of %s names", path[:min(60, len(path))], many, names.is)
				want := http.StatusOK
				switch {
				case strings.HasPrefix(path, "/nowhere"):
					want = http.StatusNotFound
				case strings.Contains(path, "failed"):
					want = http.StatusUnauthorized
				}
				if w.Code != want {
					t.Errorf("%s: status %d, want %d", where, w.Code, want)
				}
				body := w.Body.String()
				if len(body) > maxPage {
					t.Errorf("%s: %d bytes, at most %d", where, len(body), maxPage)
				}
				checkPage(t, where, body)
			}
		}
	}
}

// checkPage holds what is true of every page against one.
func checkPage(t *testing.T, where, body string) {
	t.Helper()
	root, err := parsePage(body)
	if err != nil {
		t.Errorf("%s: %v", where, err)
		return
	}
	c := pageChecker{ids: map[string]bool{}, refs: map[string]string{}, count: map[string]int{}, labels: map[string]bool{}}
	c.walk(root)
	bad := func(format string, args ...any) { t.Errorf("%s: %s", where, fmt.Sprintf(format, args...)) }
	for _, p := range c.problems {
		bad("%s", p)
	}
	for _, one := range []string{"h1", "main", "title", "header", "footer"} {
		if c.count[one] != 1 {
			bad("%d elements %s, want one", c.count[one], one)
		}
	}
	if c.count["script"] != 1 || c.count["style"] != 0 || c.count["iframe"] != 0 {
		bad("%d scripts, %d styles, %d iframes", c.count["script"], c.count["style"], c.count["iframe"])
	}
	for id, by := range c.refs {
		if !c.ids[id] {
			bad("%s names the id %q, which is not there", by, id)
		}
	}
	for _, id := range c.inputs {
		if !c.labels[id] {
			bad("the input %q has no label", id)
		}
	}
}

type pageChecker struct {
	problems    []string
	ids, labels map[string]bool
	refs        map[string]string
	inputs      []string
	count       map[string]int
}

func (c *pageChecker) bad(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *pageChecker) walk(n *pageNode) {
	if n.name != "" {
		c.element(n)
	}
	c.text(n.text)
	for _, k := range n.children {
		c.walk(k)
	}
}

// text is never what hides or turns around other text.
func (c *pageChecker) text(s string) {
	for _, r := range s {
		if r < ' ' && r != '\n' && r != '\t' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069' {
			c.bad("a text has the character %U", r)
			return
		}
	}
}

func (c *pageChecker) element(n *pageNode) {
	if !n.inSVG {
		c.count[n.name]++
	}
	has := map[string]string{}
	for _, a := range n.attrs {
		key := strings.ToLower(a.Name.Local)
		has[key] = a.Value
		if key != "value" { // which is what the query has, and is shown in a box of its own
			c.text(a.Value)
		}
		switch {
		case strings.HasPrefix(key, "on"), key == "style", key == "srcdoc":
			c.bad("<%s> has the attribute %s", n.name, key)
		case slices.Contains([]string{"href", "src", "action", "formaction", "poster", "data"}, key):
			u, err := url.Parse(a.Value)
			if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(a.Value, "/") && !strings.HasPrefix(a.Value, "#") {
				c.bad("<%s> leads to %q", n.name, a.Value)
			}
			if strings.HasPrefix(a.Value, "#") {
				c.refs[a.Value[1:]] = "a link"
			}
		case key == "for", key == "list":
			c.refs[a.Value] = key
			if key == "for" {
				c.labels[a.Value] = true
			}
		case key == "aria-labelledby", key == "aria-describedby":
			for _, id := range strings.Fields(a.Value) {
				c.refs[id] = key
			}
		}
	}
	if id, ok := has["id"]; ok {
		if c.ids[id] || id == "" {
			c.bad("the id %q is there twice or empty", id)
		}
		c.ids[id] = true
	}
	switch n.name {
	case "input", "select", "textarea":
		if has["type"] != "hidden" && has["type"] != "checkbox" {
			c.inputs = append(c.inputs, has["id"])
		}
	case "table":
		if first := n.first(); first == nil || first.name != "caption" {
			c.bad("a table has no caption")
		}
	case "th":
		if has["scope"] == "" {
			c.bad("a th has no scope")
		}
	case "section":
		if has["aria-labelledby"] == "" && has["id"] != "verdict" {
			c.bad("a section has no name")
		}
	case "a":
		if strings.TrimSpace(n.words()) == "" {
			c.bad("a link has no text")
		}
	}
}

// What a person reads of some pages, word by word.
func TestPageText(t *testing.T) {
	h := newFakePages(t, &fake{name: plain, many: 2})
	for name, path := range map[string]string{"overview": "/?window=7d", "checks": "/checks", "check": "/checks/nothing-depends", "incidents": "/incidents", "incident": "/incidents/id000000", "findings": "/findings?severity=high&q=db", "finding": "/findings/id000001"} {
		root, err := parsePage(get(t, h, path).Body.String())
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		write := func(s string) { b.WriteString(s) }
		outline(root.find("main"), write)
		golden.Check(t, filepath.Join("testdata", "page-"+name+".txt"), strings.TrimSpace(b.String())+"\n")
	}
}

// outline writes the words of a page, a line for each block, with where links lead.
func outline(n *pageNode, write func(string)) {
	if s := strings.Join(strings.Fields(n.text), " "); s != "" {
		write(" " + s)
	}
	if n.name == "datalist" || n.name == "svg" {
		return
	}
	if slices.Contains([]string{"h1", "h2", "h3", "p", "li", "tr", "form", "option", "pre", "summary", "figcaption", "caption"}, n.name) {
		write("\n" + n.name)
	}
	for _, k := range n.children {
		outline(k, write)
	}
	for _, a := range n.attrs {
		if a.Name.Local == "href" {
			write(" (" + a.Value + ")")
		}
	}
	if n.name == "td" || n.name == "th" {
		write(" |")
	}
}
