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
	"golang.org/x/net/html"

	"github.com/nodetrail/nodetrail/internal/golden"
)

// maxPage is the largest that a page may be, in bytes.
const maxPage = 500_000

func newFakePages(t testing.TB, f *fake) http.Handler {
	t.Helper()
	p, err := newPages(f, f.name("prod"), func() time.Time { return at(100) }, zerolog.New(zerolog.NewTestWriter(t)))
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
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
		"/rules", "/rules/node-identity", "/login", "/login?failed=1&next=" + url.QueryEscape("/findings?q="+name), "/nowhere/" + n,
	}
}

func TestEveryPage(t *testing.T) {
	for _, names := range []struct {
		is   string
		name func(string) string
	}{{"plain", plain}, {"hostile", hostile}, {"empty", func(string) string { return "" }}} {
		for _, many := range []int{0, 1, 10_000} {
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
	root, err := html.Parse(strings.NewReader(body))
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

func (c *pageChecker) walk(n *html.Node) {
	switch n.Type {
	case html.ElementNode:
		c.element(n)
	case html.TextNode:
		c.text(n.Data)
	}
	for k := n.FirstChild; k != nil; k = k.NextSibling {
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

func (c *pageChecker) element(n *html.Node) {
	if n.Namespace == "" {
		c.count[n.Data]++
	}
	has := map[string]string{}
	for _, a := range n.Attr {
		has[a.Key] = a.Val
		if a.Key != "value" { // which is what the query has, and is shown in a box of its own
			c.text(a.Val)
		}
		switch key := strings.ToLower(a.Key); {
		case strings.HasPrefix(key, "on"), key == "style", key == "srcdoc":
			c.bad("<%s> has the attribute %s", n.Data, key)
		case slices.Contains([]string{"href", "src", "action", "formaction", "poster", "data"}, key):
			u, err := url.Parse(a.Val)
			if err != nil || u.Scheme != "" || u.Host != "" || !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") {
				c.bad("<%s> leads to %q", n.Data, a.Val)
			}
			if strings.HasPrefix(a.Val, "#") {
				c.refs[a.Val[1:]] = "a link"
			}
		case key == "for", key == "list":
			c.refs[a.Val] = key
			if key == "for" {
				c.labels[a.Val] = true
			}
		case key == "aria-labelledby", key == "aria-describedby":
			for _, id := range strings.Fields(a.Val) {
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
	switch n.Data {
	case "input", "select", "textarea":
		if has["type"] != "hidden" && has["type"] != "checkbox" {
			c.inputs = append(c.inputs, has["id"])
		}
	case "table":
		if first := firstElement(n); first == nil || first.Data != "caption" {
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
		if strings.TrimSpace(textOf(n)) == "" {
			c.bad("a link has no text")
		}
	}
}

func firstElement(n *html.Node) *html.Node {
	for k := n.FirstChild; k != nil; k = k.NextSibling {
		if k.Type == html.ElementNode {
			return k
		}
	}
	return nil
}

func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for k := n.FirstChild; k != nil; k = k.NextSibling {
		b.WriteString(textOf(k))
	}
	return b.String()
}

// What a person reads of three pages, word by word.
func TestPageText(t *testing.T) {
	h := newFakePages(t, &fake{name: plain, many: 2})
	for name, path := range map[string]string{"overview": "/?window=7d", "findings": "/findings?severity=high&q=db", "finding": "/findings/id000001"} {
		root, err := html.Parse(strings.NewReader(get(t, h, path).Body.String()))
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		write := func(s string) { b.WriteString(s) }
		outline(find(root, "main"), write)
		golden.Check(t, filepath.Join("testdata", "page-"+name+".txt"), strings.TrimSpace(b.String())+"\n")
	}
}

func find(n *html.Node, name string) *html.Node {
	if n.Type == html.ElementNode && n.Data == name {
		return n
	}
	for k := n.FirstChild; k != nil; k = k.NextSibling {
		if found := find(k, name); found != nil {
			return found
		}
	}
	return nil
}

// outline writes the words of a page, a line for each block, with where links lead.
func outline(n *html.Node, write func(string)) {
	switch {
	case n.Type == html.TextNode:
		if s := strings.Join(strings.Fields(n.Data), " "); s != "" {
			write(" " + s)
		}
		return
	case n.Data == "datalist", n.Data == "svg":
		return
	}
	if slices.Contains([]string{"h1", "h2", "h3", "p", "li", "tr", "form", "option", "pre", "summary", "figcaption", "caption"}, n.Data) {
		write("\n" + n.Data)
	}
	for k := n.FirstChild; k != nil; k = k.NextSibling {
		outline(k, write)
	}
	for _, a := range n.Attr {
		if a.Key == "href" {
			write(" (" + a.Val + ")")
		}
	}
	if n.Data == "td" || n.Data == "th" {
		write(" |")
	}
}
