package web

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
)

// checker holds answers against the description.
type checker struct {
	t    *testing.T
	doc  *document
	h    http.Handler
	seen map[string]bool
}

func newChecker(t *testing.T, h http.Handler) *checker {
	t.Helper()
	doc, err := readDocument()
	ok(t, err)
	return &checker{t, doc, h, map[string]bool{}}
}

// get asks for the path of the description with its parameters, and returns the body.
func (c *checker) get(path string, params map[string]string, query string, want int) []byte {
	c.t.Helper()
	op := c.doc.operation(path)
	if op == nil {
		c.t.Fatalf("%s is not described", path)
	}
	at := path
	for k, v := range params {
		at = strings.Replace(at, "{"+k+"}", url.PathEscape(v), 1)
	}
	c.seen[path] = true
	if query != "" {
		at += "?" + query
	}
	r := request(at)
	w := do(c.h, r)
	if w.Code != want {
		c.t.Errorf("%.200s: status %d, want %d: %.200s", at, w.Code, want, w.Body)
		return nil
	}
	if want == http.StatusOK {
		for _, wrong := range c.doc.request(op, r.URL.Query()) {
			c.t.Errorf("%.200s: the request is not as described: %s", at, wrong)
		}
	}
	for _, wrong := range c.doc.answer(op, w) {
		c.t.Errorf("%.200s: the answer is not as described: %.2000s", at, wrong)
	}
	c.headers(at, w)
	return w.Body.Bytes()
}

func (c *checker) headers(at string, w *httptest.ResponseRecorder) {
	c.t.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		if got := w.Header().Get(name); got != want {
			c.t.Errorf("%.200s: %s is %q", at, name, got)
		}
	}
}

// Every path answers as the description says, to good and to bad questions, whatever the names are.
func TestAnswersAreAsDescribed(t *testing.T) {
	sites := map[string]*site{"capture": captureSite(t, "capture"), "rbac-only": captureSite(t, "capture-rbac-only"), "hostile": hostileSite(t), "empty": newSite(t, time.Hour)}
	for name, s := range sites {
		t.Run(name, func(t *testing.T) {
			c := newChecker(t, s.server())
			everything(t, c, name)
			for path := range c.doc.paths() {
				if !c.seen[path] && name != "empty" {
					t.Errorf("%s was not asked for", path)
				}
			}
		})
	}
}

// everything asks for every path, with what the lists name.
func everything(t *testing.T, c *checker, of string) {
	t.Helper()
	const p = apiPrefix
	decode := func(b []byte, to any) {
		t.Helper()
		ok(t, json.Unmarshal(b, to))
	}
	for _, window := range []string{"", "window=7d", "window=5s", "window=90m"} {
		for _, path := range []string{"/overview", "/findings", "/nodes", "/bindings", "/checks", "/rules", "/report", "/incidents"} {
			c.get(p+path, nil, window, http.StatusOK)
		}
		c.get(p+"/rules/{name}", map[string]string{"name": "node-identity"}, window, http.StatusOK)
		for _, check := range checks.All() {
			c.get(p+"/checks/{name}", map[string]string{"name": check.Name}, window, http.StatusOK)
		}
	}
	c.get(p+"/openapi.json", nil, "", http.StatusOK)
	c.get(p+"/fleet", nil, "", http.StatusNotFound)
	for _, name := range sortNames() {
		c.get(p+"/findings", nil, "sort="+name+"&limit=3", http.StatusOK)
		c.get(p+"/findings", nil, "sort=-"+name+"&limit=3", http.StatusOK)
	}
	for _, name := range groupNames() {
		c.get(p+"/findings", nil, "group="+name, http.StatusOK)
	}
	for _, q := range []string{"severity=high", "rule=rbac-excess-access", "q=SHOP", "allowed=true", "allowed=false", "node=worker-1&namespace=shop", "resource=secrets&object=shop/secret-0"} {
		c.get(p+"/findings", nil, q, http.StatusOK)
		c.get("/findings.json", nil, q, http.StatusOK)
		c.get("/findings.csv", nil, q, http.StatusOK)
	}
	c.get(p+"/incidents/{id}", map[string]string{"id": "nowhere"}, "", http.StatusNotFound)
	var listed IncidentsPage
	decode(c.get(p+"/incidents", nil, "", http.StatusOK), &listed)
	if (of == "capture" || of == "rbac-only") && len(listed.Incidents) == 0 {
		t.Error("there are no incidents")
	}
	for i := range listed.Incidents {
		in := &listed.Incidents[i]
		c.get(p+"/incidents/{id}", map[string]string{"id": in.ID}, "", http.StatusOK)
		var own IncidentsPage
		decode(c.get(p+"/incidents", nil, "credential="+url.QueryEscape(in.Credential), http.StatusOK), &own)
		for j := range own.Incidents {
			if own.Incidents[j].Credential != in.Credential {
				t.Errorf("an incident of %q among those of %q", own.Incidents[j].Credential, in.Credential)
			}
		}
	}
	var findings FindingsPage
	decode(c.get(p+"/findings", nil, "limit=200", http.StatusOK), &findings)
	for _, f := range findings.Findings[:min(len(findings.Findings), 40)] {
		c.get(p+"/findings/{id}", map[string]string{"id": f.ID}, "", http.StatusOK)
		if reachable(f.Name) && reachable(f.Resource) && (f.Namespace == "" || reachable(f.Namespace)) {
			resource := f.Resource
			if f.APIGroup != "" {
				resource += "." + f.APIGroup
			}
			namespace := f.Namespace
			if namespace == "" {
				namespace = "-"
			}
			c.get(p+"/objects/{resource}/{namespace}/{name}", map[string]string{"resource": resource, "namespace": namespace, "name": f.Name}, "", http.StatusOK)
		}
	}
	var nodes NodesPage
	decode(c.get(p+"/nodes", nil, "limit=2", http.StatusOK), &nodes)
	if nodes.Next != "" {
		decode(c.get(p+"/nodes", nil, "limit=2&cursor="+nodes.Next, http.StatusOK), &nodes)
		c.get(p+"/nodes", nil, "limit=2&cursor="+nodes.Previous, http.StatusOK)
	}
	for _, n := range nodes.Nodes {
		c.get(p+"/nodes/{name}", map[string]string{"name": n.Name}, "window=1d", http.StatusOK)
	}
	var bindings BindingsPage
	decode(c.get(p+"/bindings", nil, "", http.StatusOK), &bindings)
	for _, b := range bindings.Bindings {
		if !reachable(b.Binding.Name) {
			continue
		}
		namespace := b.Binding.Namespace
		if namespace == "" {
			namespace = "-"
		}
		c.get(p+"/bindings/{kind}/{namespace}/{name}", map[string]string{"kind": strings.ToLower(b.Binding.Kind), "namespace": namespace, "name": b.Binding.Name}, "", http.StatusOK)
	}
	if of != "empty" && (len(findings.Findings) == 0 || len(nodes.Nodes) == 0 || len(bindings.Bindings) == 0) {
		t.Errorf("%d findings, %d nodes, %d bindings", len(findings.Findings), len(nodes.Nodes), len(bindings.Bindings))
	}

	for path, query := range map[string]string{
		"/overview": "window=7x", "/findings": "colour=red", "/nodes": "limit=0", "/bindings": "window=-1h", "/rules": "q=x", "/report": "window=1h&window=2h", "/openapi.json": "x=",
	} {
		c.get(p+path, nil, query, http.StatusBadRequest)
	}
	for _, query := range []string{
		"severity=worst", "rule=no-such-rule", "sort=colour", "group=colour", "allowed=maybe", "limit=1001", "limit=x", "limit=-1", "limit=+5", "cursor=%21", "cursor=AAAA",
		"window=" + strings.Repeat("9", 40) + "h", "q=%zz", "window=0s", "limit=0", "q=" + strings.Repeat("x", maxQuery), "sort=last&cursor=" + findings.Next,
	} {
		if query != "sort=last&cursor=" {
			c.get(p+"/findings", nil, query, http.StatusBadRequest)
		}
	}
	for _, query := range []string{"limit=5", "cursor=x", "group=rule", "sort=x", "window=x"} {
		c.get("/findings.csv", nil, query, http.StatusBadRequest)
		c.get("/findings.json", nil, query, http.StatusBadRequest)
	}
	c.get(p+"/nodes", nil, "cursor=AAAA", http.StatusBadRequest)
	c.get(p+"/nodes/{name}", map[string]string{"name": "no such node"}, "", http.StatusNotFound)
	c.get(p+"/nodes/{name}", map[string]string{"name": "x"}, "limit=4", http.StatusBadRequest)
	c.get(p+"/findings/{id}", map[string]string{"id": "0000"}, "", http.StatusNotFound)
	c.get(p+"/findings/{id}", map[string]string{"id": "0000"}, "window=1d", http.StatusBadRequest)
	c.get(p+"/rules/{name}", map[string]string{"name": "none"}, "", http.StatusNotFound)
	c.get(p+"/checks/{name}", map[string]string{"name": "none"}, "", http.StatusNotFound)
	c.get(p+"/rules/{name}", map[string]string{"name": "none"}, "x=1", http.StatusBadRequest)
	binding := map[string]string{"kind": "clusterrolebinding", "namespace": "-", "name": "none"}
	c.get(p+"/bindings/{kind}/{namespace}/{name}", binding, "", http.StatusNotFound)
	binding["namespace"] = "shop"
	c.get(p+"/bindings/{kind}/{namespace}/{name}", binding, "", http.StatusBadRequest)
	c.get(p+"/objects/{resource}/{namespace}/{name}", map[string]string{"resource": ".apps", "namespace": "-", "name": "none"}, "", http.StatusBadRequest)
	c.get(p+"/objects/{resource}/{namespace}/{name}", map[string]string{"resource": "secrets", "namespace": "-", "name": "none"}, "", http.StatusOK)
}

// reachable reports whether a path can name it: no URL has a segment "..", and JSON has no bytes that are no text.
func reachable(name string) bool {
	return name != "" && name != ".." && !strings.Contains(name, "\ufffd")
}

// What is described and what is served are the same, by the patterns that servers of one cluster and of several answer by. A pattern of these that answers with no
// page is of the API.
func TestEveryRouteIsDescribed(t *testing.T) {
	doc, err := readDocument()
	ok(t, err)
	one, several := newSite(t, time.Hour).server(), newFleetSite(t, "prod").server(Access{})
	apiOf := func(s *Server) (paths []string) {
		for _, pattern := range s.mux.patterns {
			path, is := strings.CutPrefix(pattern, "GET ")
			if !is {
				t.Errorf("%s is served for other methods than GET", pattern)
			}
			if strings.HasPrefix(path, "/api/") && path != "/api/" || strings.Contains(strings.ReplaceAll(path, "...", ""), ".") {
				paths = append(paths, path)
			}
		}
		return paths
	}
	routed, described := slices.Concat(apiOf(one), apiOf(several)), slices.Collect(maps.Keys(doc.paths()))
	slices.Sort(routed)
	slices.Sort(described)
	if routed = slices.Compact(routed); !slices.Equal(described, routed) {
		t.Errorf("described %v\nserved    %v", described, routed)
	}
	// docs/pages.md names each answer, and each key that leads to a page.
	page, err := os.ReadFile("../docs/pages.md")
	ok(t, err)
	placeholder := regexp.MustCompile(`\{[a-z]+\}`)
	var names []string
	for _, e := range (&api{}).endpoints() {
		names = append(names, placeholder.ReplaceAllStringFunc(e.path[1:], func(s string) string { return strings.ToUpper(strings.Trim(s, "{}")) }))
	}
	layout, err := os.ReadFile("templates/layout.tmpl")
	ok(t, err)
	for _, key := range regexp.MustCompile(`data-go="(.)"`).FindAllStringSubmatch(string(layout), -1) {
		names = append(names, key[1])
	}
	for _, name := range names {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/pages.md does not name `%s`", name)
		}
	}
	// What is described as of one cluster is served by each server for each of its clusters, and what is of all of them by no server of one.
	for path, item := range doc.paths() {
		_, ofAll := item.(object)["servers"]
		if served := slices.Contains(one.mux.patterns, "GET "+path); served == ofAll {
			t.Errorf("%s: described as of all clusters: %v; served where there is one: %v", path, ofAll, served)
		}
		if ofAll && !slices.Contains(several.mux.patterns, "GET "+path) {
			t.Errorf("%s is not served where there are several clusters", path)
		}
	}
	for s, names := range map[*Server][]string{one: {"/api", "/api/v1/fleet"}, several: {"/api/v1/overview", "/api/v1/findings"}} {
		for _, path := range append(names, "/api/v1", "/api/v1/", "/api/v2/overview", "/api/v1/findings/a/b", "/api/v1/overview/", "/api/v1/login") {
			if w := do(s, request(path, "Accept", "application/json")); w.Code != http.StatusNotFound {
				t.Errorf("%s: status %d", path, w.Code)
			}
		}
	}
}

// Only GET and HEAD are understood, and a page that is asked for as JSON is the API's.
func TestMethodsAndForms(t *testing.T) {
	h := captureSite(t, "capture").server()
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions, "BREW"} {
		for _, path := range []string{"/", "/findings", "/api/v1/overview", "/api/v1/nope"} {
			r := request(path)
			r.Method = method
			if w := do(h, r); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	r := request("/api/v1/rules")
	r.Method = http.MethodHead
	if w := do(h, r); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
	for path, contentType := range map[string]string{"/findings.csv": "text/csv; charset=utf-8", "/findings.json": "application/json"} {
		r := request(path)
		r.Method = http.MethodHead
		if w := do(h, r); w.Code != http.StatusOK || w.Header().Get("Content-Type") != contentType || w.Body.Len() > 0 {
			t.Errorf("HEAD %s: %d, %s, %d bytes", path, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
	}
	for accept, want := range map[string]string{
		"": "text/html", "*/*": "text/html", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8": "text/html", "application/json": "application/json",
		"application/json, text/html;q=0.5": "application/json", "text/html, application/json;q=0.5": "text/html",
	} {
		for _, path := range []string{"/", "/findings", "/nodes", "/nodes/worker-1", "/bindings", "/rules", "/rules/node-identity"} {
			w := do(h, request(path, "Accept", accept))
			if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || !strings.HasPrefix(got, want) {
				t.Errorf("%s as %q: %d %s", path, accept, w.Code, got)
			}
		}
	}
}

// The exports hold all findings of a query, and no cell of the table is a formula.
func TestExports(t *testing.T) {
	for name, s := range map[string]*site{"capture": captureSite(t, "capture"), "hostile": hostileSite(t)} {
		h := s.server()
		var page FindingsPage
		ok(t, json.Unmarshal(do(h, request("/api/v1/findings?severity=high&limit=1")).Body.Bytes(), &page))
		rows, err := csv.NewReader(do(h, request("/findings.csv?severity=high")).Body).ReadAll()
		ok(t, err)
		var list []Finding
		ok(t, json.Unmarshal(do(h, request("/findings.json?severity=high")).Body.Bytes(), &list))
		if page.Total == 0 || len(rows) != page.Total+1 || len(list) != page.Total {
			t.Errorf("%s: %d findings, %d rows, %d in the list", name, page.Total, len(rows), len(list))
		}
		for i, row := range rows {
			for _, cell := range row {
				if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
					t.Errorf("%s: row %d has the cell %q", name, i, cell)
				}
			}
			if i > 0 && row[0] != list[i-1].ID {
				t.Errorf("%s: row %d is %s and not %s", name, i, row[0], list[i-1].ID)
			}
		}
	}
}

// What breaks off in the middle does not look whole.
func TestExportBreaksOff(t *testing.T) {
	s := captureSite(t, "capture").server()
	ctx, stop := context.WithCancel(t.Context())
	w := &cutWriter{ResponseRecorder: httptest.NewRecorder(), cut: stop}
	defer func() {
		if recover() != http.ErrAbortHandler { //nolint:errorlint // the very value
			t.Error("the answer ended as if it were whole")
		}
	}()
	s.ServeHTTP(w, request("/findings.json").WithContext(ctx))
}

// cutWriter ends the request with the first bytes.
type cutWriter struct {
	*httptest.ResponseRecorder
	cut func()
}

func (c *cutWriter) Write(p []byte) (int, error) {
	c.cut()
	return c.ResponseRecorder.Write(p)
}

// hostileSite has findings with hostile names in every field.
func hostileSite(t testing.TB) *site {
	s := newSite(t, time.Hour)
	at := time.Date(2026, 11, 20, 23, 0, 0, 0, time.UTC)
	for i, name := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, "\u202e\u2066rtl", strings.Repeat("n", 253), "=HYPERLINK(1)", "+1", "-1", "@x", "\tx", "\rx", "a/b?c#d%2F",
		"\x00\x1b[31m", "\xff\xfe", "..", "{{.}}", "a,b\"c\nd", "'; DROP TABLE findings; --", "é\u0301", "🦆",
	} {
		e := excess(at.Add(time.Duration(i)*time.Hour), name, name, name, name)
		f := &e.Findings[0]
		k := &f.Key
		f.Reason, f.Params, f.AuditID = rules.Reason(name), codes.Params{codes.Text(codes.ParamMessage, name)}, name
		if i%3 == 1 {
			k.Binding.Kind, k.Binding.Namespace = "RoleBinding", name
			k.Resource, k.APIGroup, k.Subresource, k.Namespace, k.Verb, k.Apart = name, name, name, name, name, name
		}
		s.commit(e)
	}
	s.facts.Cluster = "<b>prod</b>"
	return s
}
