package web

import (
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
)

// api asks a server for what its own OpenAPI description describes.
type api struct {
	t    *testing.T
	s    *server
	doc  *openapi3.T
	seen map[string]bool
}

// TestAnswersAreAsDescribed holds the description and the answers of real servers against an OpenAPI library.
func TestAnswersAreAsDescribed(t *testing.T) {
	p := program(t)
	nothing := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(nothing, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*server{"capture": capture(t, p), "crowd": crowd(t, p), "empty": serve(t, p, "--data", t.TempDir(), nothing)} {
		t.Run(name, func(t *testing.T) {
			doc, err := openapi3.NewLoader().LoadFromData(s.get(t, "/api/v1/openapi.json"))
			if err != nil {
				t.Fatal(err)
			}
			if err := doc.Validate(t.Context()); err != nil {
				t.Error(err)
			}
			a := &api{t: t, s: s, doc: doc, seen: map[string]bool{}}
			a.everything(name != "empty")
			for path := range doc.Paths.Map() {
				if !a.seen[path] && name != "empty" {
					t.Errorf("%s was not asked for", path)
				}
			}
		})
	}
}

// everything asks for every path, with names from the lists, and for what is not there.
func (a *api) everything(filled bool) {
	const p = "/api/v1"
	for _, path := range []string{p + "/overview", p + "/findings", p + "/nodes", p + "/bindings", p + "/incidents", p + "/checks", p + "/rules", p + "/report"} {
		a.get(path, nil, "", http.StatusOK)
		a.get(path, nil, "window=1h", http.StatusOK)
		a.get(path, nil, "window=never", http.StatusBadRequest)
	}
	a.get(p+"/openapi.json", nil, "", http.StatusOK)
	a.get(p+"/fleet", nil, "", http.StatusNotFound) // a server of one cluster
	a.get("/findings.csv", nil, "severity=high", http.StatusOK)
	a.get("/findings.json", nil, "severity=high&sort=-last", http.StatusOK)
	a.get(p+"/findings", nil, "group=userAgent", http.StatusOK)
	a.get(p+"/rules/{name}", map[string]string{"name": "node-identity"}, "", http.StatusOK)
	a.get(p+"/rules/{name}", map[string]string{"name": "none"}, "", http.StatusNotFound)
	a.get(p+"/checks/{name}", map[string]string{"name": "nothing-depends"}, "", http.StatusOK)
	a.get(p+"/checks/{name}", map[string]string{"name": "none"}, "", http.StatusNotFound)
	a.get(p+"/nodes/{name}", map[string]string{"name": "none"}, "", http.StatusNotFound)
	a.get(p+"/findings/{id}", map[string]string{"id": "none"}, "", http.StatusNotFound)
	var findings struct {
		Findings []struct{ ID, Node, Resource, Namespace, Name string }
	}
	a.s.json(a.t, p+"/findings?limit=20", &findings)
	for _, f := range findings.Findings {
		a.get(p+"/findings/{id}", map[string]string{"id": f.ID}, "", http.StatusOK)
		if f.Node != "" {
			a.get(p+"/nodes/{name}", map[string]string{"name": f.Node}, "window=1d", http.StatusOK)
		}
		if f.Resource != "" && f.Namespace != "" && f.Name != "" {
			a.get(p+"/objects/{resource}/{namespace}/{name}", map[string]string{"resource": f.Resource, "namespace": f.Namespace, "name": f.Name}, "", http.StatusOK)
		}
	}
	var bindings struct {
		Bindings []struct {
			Binding struct{ Kind, Namespace, Name string }
		}
	}
	a.s.json(a.t, p+"/bindings", &bindings)
	for _, b := range bindings.Bindings {
		namespace := b.Binding.Namespace
		if namespace == "" {
			namespace = "-"
		}
		a.get(p+"/bindings/{kind}/{namespace}/{name}", map[string]string{"kind": strings.ToLower(b.Binding.Kind), "namespace": namespace, "name": b.Binding.Name}, "", http.StatusOK)
	}
	a.get(p+"/incidents/{id}", map[string]string{"id": "none"}, "", http.StatusNotFound)
	var incidents struct{ Incidents []struct{ ID string } }
	a.s.json(a.t, p+"/incidents", &incidents)
	for _, in := range incidents.Incidents[:min(20, len(incidents.Incidents))] {
		a.get(p+"/incidents/{id}", map[string]string{"id": in.ID}, "", http.StatusOK)
	}
	if filled && (len(findings.Findings) == 0 || len(bindings.Bindings) == 0 || len(incidents.Incidents) == 0) {
		a.t.Errorf("%d findings, %d bindings, %d incidents", len(findings.Findings), len(bindings.Bindings), len(incidents.Incidents))
	}
}

// get asks for a path of the description with its parameters.
func (a *api) get(path string, params map[string]string, query string, want int) {
	a.t.Helper()
	item := a.doc.Paths.Value(path)
	if item == nil || item.Get == nil {
		a.t.Fatalf("%s is not described", path)
	}
	a.seen[path] = true
	at := a.s.url + path
	for name, value := range params {
		at = strings.Replace(at, "{"+name+"}", url.PathEscape(value), 1)
	}
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, at+"?"+query, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != want {
		body, err := io.ReadAll(answer.Body)
		a.t.Errorf("%.200s: status %d, want %d: %.200s %v", r.URL, answer.StatusCode, want, body, err)
		return
	}
	in := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: params, QueryParams: r.URL.Query(),
		Route:   &routers.Route{Spec: a.doc, Path: path, PathItem: item, Method: http.MethodGet, Operation: item.Get},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, MultiError: true},
	}
	if want == http.StatusOK {
		if err := openapi3filter.ValidateRequest(a.t.Context(), in); err != nil {
			a.t.Errorf("%.200s: the request is not as described: %v", r.URL, err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: answer.StatusCode, Header: answer.Header, Body: answer.Body,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(a.t.Context(), out); err != nil {
		a.t.Errorf("%.200s: the answer is not as described: %.2000s", r.URL, err.Error())
	}
}
