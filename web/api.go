package web

import (
	"context"
	_ "embed" // of the description
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/wording"
)

//go:embed openapi.json
var description []byte

// apiPrefix is under which the API is.
const apiPrefix = "/api/v1"

// api serves views as JSON.
type api struct {
	data    views
	log     zerolog.Logger
	reports chan struct{} // one for each report that is being written
}

// call is one request of the API, its query checked.
type call struct {
	r *http.Request
	q url.Values
}

func (c *call) ctx() context.Context    { return c.r.Context() }
func (c *call) get(name string) string  { return c.q.Get(name) }
func (c *call) path(name string) string { return c.r.PathValue(name) }

// endpoint is a path of the API. The test of the description reads the table.
type endpoint struct {
	path string
	// query are the parameters that it knows.
	query []string
	// of is a value of the type that it answers with.
	of    any
	serve func(*call) (any, error)
}

// findingParameters are the JSON names of FindingsQuery.
func findingParameters() []string {
	return []string{
		"window", "rule", "severity", "node", "resource", "object", "namespace", "userAgent", "binding", "allowed", "q", "sort", "group", "limit", "cursor",
	}
}

// endpoints are what the API of one cluster has, but for its description.
func (a *api) endpoints() []endpoint {
	window := []string{"window"}
	return []endpoint{
		{"/overview", window, &Overview{}, func(c *call) (any, error) {
			o, err := a.data.overview(c.ctx(), c.get("window"))
			if err != nil {
				return nil, err
			}
			return o.shorten(), nil
		}},
		{"/incidents", []string{"window", "credential"}, &IncidentsPage{}, func(c *call) (any, error) {
			return a.data.incidents(c.ctx(), c.get("credential"), c.get("window"))
		}},
		{"/incidents/{id}", nil, &IncidentPage{}, func(c *call) (any, error) { return a.data.incident(c.ctx(), c.path("id")) }},
		{"/findings", findingParameters(), &FindingsPage{}, func(c *call) (any, error) {
			q, err := findingsQuery(c.q)
			if err != nil {
				return nil, err
			}
			return a.data.findings(c.ctx(), q)
		}},
		{"/findings/{id}", nil, &FindingPage{}, func(c *call) (any, error) { return a.data.finding(c.ctx(), c.path("id")) }},
		{"/nodes", []string{"window", "cursor", "limit"}, &NodesPage{}, func(c *call) (any, error) {
			limit, err := number("limit", c.get("limit"))
			if err != nil {
				return nil, err
			}
			return a.data.nodes(c.ctx(), c.get("window"), c.get("cursor"), limit)
		}},
		{"/nodes/{name}", window, &NodePage{}, func(c *call) (any, error) { return a.data.node(c.ctx(), c.path("name"), c.get("window")) }},
		{"/bindings", window, &BindingsPage{}, func(c *call) (any, error) { return a.data.bindings(c.ctx(), c.get("window")) }},
		{"/bindings/{kind}/{namespace}/{name}", window, &BindingPage{}, func(c *call) (any, error) {
			b, err := bindingOf(c.path("kind"), c.path("namespace"), c.path("name"))
			if err != nil {
				return nil, err
			}
			return a.data.binding(c.ctx(), b, c.get("window"))
		}},
		{"/objects/{resource}/{namespace}/{name}", window, &ObjectPage{}, func(c *call) (any, error) {
			return a.data.object(c.ctx(), objectOf(c.path("resource"), c.path("namespace"), c.path("name")), c.get("window"))
		}},
		{"/checks", window, &ChecksPage{}, func(c *call) (any, error) { return a.data.checks(c.ctx(), c.get("window")) }},
		{"/checks/{name}", window, &CheckPage{}, func(c *call) (any, error) { return a.data.check(c.ctx(), c.path("name"), c.get("window")) }},
		{"/rules", window, []Rule{}, func(c *call) (any, error) { return a.data.rules(c.ctx(), c.get("window")) }},
		{"/rules/{name}", window, &Rule{}, func(c *call) (any, error) { return a.data.rule(c.ctx(), c.path("name"), c.get("window")) }},
		{"/report", window, &report.Report{}, func(c *call) (any, error) { return a.readReport(c.ctx(), c.get("window")) }},
	}
}

// bindingOf is the binding that a path names.
func bindingOf(kind, namespace, name string) (report.Binding, error) {
	b := report.Binding{Namespace: unlessDash(namespace), Name: name}
	switch {
	case kind == "clusterrolebinding" && b.Namespace == "":
		b.Kind = "ClusterRoleBinding"
	case kind == "rolebinding" && b.Namespace != "":
		b.Kind = "RoleBinding"
	default:
		return b, badQuery("a binding is named as clusterrolebinding/-/NAME or rolebinding/NAMESPACE/NAME")
	}
	return b, nil
}

// objectOf is the object that a path names. Resource is resource[.group].
func objectOf(resource, namespace, name string) Object {
	o := Object{Namespace: unlessDash(namespace), Name: name}
	o.Resource, o.APIGroup, _ = strings.Cut(resource, ".")
	return o
}

// unlessDash is empty for the - that stands for no namespace.
func unlessDash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}

// findingsQuery reads a query string that was checked for what is unknown.
func findingsQuery(v url.Values) (FindingsQuery, error) {
	limit, err := number("limit", v.Get("limit"))
	return FindingsQuery{
		Window: v.Get("window"), Rule: v.Get("rule"), Severity: v.Get("severity"), Node: v.Get("node"), Resource: v.Get("resource"),
		Object: v.Get("object"), Namespace: v.Get("namespace"), UserAgent: v.Get("userAgent"), Binding: v.Get("binding"), Allowed: v.Get("allowed"),
		Text: v.Get("q"), Sort: v.Get("sort"), Group: v.Get("group"), Limit: limit, Cursor: v.Get("cursor"),
	}, err
}

// maxQuery bounds a query string.
const maxQuery = 8 << 10

// parameters reads a query string of which all must be known, each given once.
func parameters(raw string, known []string) (url.Values, error) {
	if len(raw) > maxQuery {
		return nil, badQuery("the query is longer than %d bytes", maxQuery)
	}
	v, err := url.ParseQuery(raw)
	if err != nil {
		return nil, badQuery("the query cannot be read: %v", err)
	}
	for name, values := range v {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, badQuery("%q is no parameter here: there is none", name)
		case !slices.Contains(known, name):
			return nil, badQuery("%q is no parameter here: there are %s", name, strings.Join(known, ", "))
		case len(values) > 1:
			return nil, badQuery("%s is given %d times", name, len(values))
		}
	}
	return v, nil
}

// routes adds the API of one cluster to the mux.
func (a *api) routes(mux *router) {
	a.handle(mux, a.endpoints()...)
	mux.HandleFunc("GET /findings.csv", a.export("text/csv; charset=utf-8", newCSV))
	mux.HandleFunc("GET /findings.json", a.export("application/json", newJSONList))
}

// handle adds endpoints and the description to the mux. Under /api there is nothing else.
func (a *api) handle(mux *router, endpoints ...endpoint) {
	for _, e := range endpoints {
		mux.HandleFunc("GET "+apiPrefix+e.path, func(w http.ResponseWriter, r *http.Request) {
			q, err := parameters(r.URL.RawQuery, e.query)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			v, err := e.serve(&call{r, q})
			if err != nil {
				a.fail(w, r, err)
				return
			}
			if whole, is := v.(*wholeReport); is {
				a.answerReport(w, r, whole)
				return
			}
			b, err := json.Marshal(v)
			if err != nil {
				a.fail(w, r, err)
				return
			}
			answerJSON(w, http.StatusOK, wording.EscapeJSON(b))
		})
	}
	mux.HandleFunc("GET "+apiPrefix+"/openapi.json", func(w http.ResponseWriter, r *http.Request) {
		if _, err := parameters(r.URL.RawQuery, nil); err != nil {
			a.fail(w, r, err)
			return
		}
		answerJSON(w, http.StatusOK, description)
	})
	mux.HandleFunc("GET /api/", func(w http.ResponseWriter, r *http.Request) { a.fail(w, r, errNotFound) })
}

func answerJSON(w http.ResponseWriter, code int, b []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if len(b) == 0 || b[len(b)-1] != '\n' {
		b = append(slices.Clip(b), '\n')
	}
	_, _ = w.Write(b) // whoever asked may be gone
}

// statusOf is the status of an error, and what is said of it.
func statusOf(err error) (int, string) {
	switch {
	case errors.Is(err, errBadQuery):
		return http.StatusBadRequest, err.Error()
	case errors.Is(err, errNotFound):
		return http.StatusNotFound, errNotFound.Error()
	case errors.Is(err, errBusy):
		return http.StatusServiceUnavailable, errBusy.Error()
	case errors.Is(err, errUnavailable):
		return http.StatusServiceUnavailable, errUnavailable.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, "this took too long"
	}
	return http.StatusInternalServerError, "this cannot be shown; the log says why"
}

// fail answers with an error, and logs what is not the asker's fault.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	code, say := statusOf(err)
	if code >= http.StatusInternalServerError && r.Context().Err() == nil {
		a.log.Error().Err(err).Str("path", r.URL.Path).Msg("cannot answer a request of the API")
	}
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	answerError(w, code, say)
}

func answerError(w http.ResponseWriter, code int, say string) {
	b, err := json.Marshal(struct {
		Error string `json:"error"`
	}{say})
	if err != nil {
		b = []byte("{}") // a string can always be written
	}
	answerJSON(w, code, b)
}
