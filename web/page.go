package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

// pages are what a person looks at. Each is one answer to one GET, whole without the script.
type pages struct {
	data      views
	cluster   string
	base      string // before the paths of all pages: that of the cluster among the pages of several; "" for pages of one
	fleet     bool   // whether these are the pages about all clusters
	now       func() time.Time
	log       zerolog.Logger
	assets    *assets
	templates map[string]*template.Template
}

func newPages(v views, cluster string, now func() time.Time, log zerolog.Logger) (*pages, error) {
	l, err := pageLook()
	if err != nil {
		return nil, err
	}
	return &pages{data: v, cluster: cluster, now: now, log: log, assets: l.assets, templates: l.templates}, nil
}

// routes adds the pages. The export of findings and what signs in are not among them.
func (p *pages) routes(mux *router) {
	mux.HandleFunc("GET /{$}", p.serve("overview", p.overview))
	mux.HandleFunc("GET /incidents", p.serve("incidents", p.incidents))
	mux.HandleFunc("GET /incidents/{id}", p.serve("incidents", p.incident))
	mux.HandleFunc("GET /findings", p.serve("findings", p.findings))
	mux.HandleFunc("GET /findings/{id}", p.serve("findings", p.finding))
	mux.HandleFunc("GET /nodes", p.serve("nodes", p.nodes))
	mux.HandleFunc("GET /nodes/{name}", p.serve("nodes", p.node))
	mux.HandleFunc("GET /bindings", p.serve("bindings", p.bindings))
	mux.HandleFunc("GET /bindings/{kind}/{namespace}/{name}", p.serve("bindings", p.binding))
	mux.HandleFunc("GET /objects", p.objects)
	mux.HandleFunc("GET /objects/{resource}/{namespace}/{name}", p.serve("objects", p.object))
	mux.HandleFunc("GET /checks", p.serve("checks", p.checks))
	mux.HandleFunc("GET /checks/{name}", p.serve("checks", p.check))
	mux.HandleFunc("GET /rules", p.serve("rules", p.rules))
	mux.HandleFunc("GET /rules/{name}", p.serve("rules", p.rule))
	p.common(mux)
}

// common adds what the pages of several clusters have, too.
func (p *pages) common(mux *router) {
	mux.HandleFunc("GET /login", func(w http.ResponseWriter, r *http.Request) { p.login(w, r, r.URL.Query().Has("failed")) })
	mux.HandleFunc("GET /assets/{file}", p.assets.serve)
	mux.HandleFunc("GET /", p.missing)
}

// page is what every template is given.
type page struct {
	// View is the template's name; Nav that of the entry of the menu.
	View, Nav string
	// Title comes before the name of the program in the window's title.
	Title   string
	Cluster string
	// Window is the length that was asked for, "" for all.
	Window string
	// Text is what the box for searching holds.
	Text string
	// Session says that there is one to be ended.
	Session bool
	Now     time.Time
	Data    any

	// Fleet is whether the page is about all clusters; Among whether it is of one of several.
	Fleet, Among bool

	base   string // before the paths of this cluster's pages
	here   string // the path, escaped
	params map[string][]string
}

// view is a template with its data.
type view struct {
	name, title string
	data        any
}

// serve makes a handler of what finds the view for a request.
func (p *pages) serve(nav string, find func(*http.Request) (*view, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := url.ParseQuery(r.URL.RawQuery); err != nil { // parameters that cannot be read would count as not given
			p.fail(w, r, nav, badQuery("the query cannot be read: %v", err))
			return
		}
		v, err := find(r)
		if err != nil {
			p.fail(w, r, nav, err)
			return
		}
		p.write(w, r, http.StatusOK, nav, v)
	}
}

// write renders a page to its end before anything is sent, so that an error never leaves half of one.
func (p *pages) write(w http.ResponseWriter, r *http.Request, status int, nav string, v *view) {
	q := r.URL.Query()
	_, noSession := r.Cookie(cookieOf(r))
	var b bytes.Buffer
	err := p.templates[v.name].Execute(&b, &page{
		View: v.name, Nav: nav, Title: v.title, Cluster: p.cluster, Window: q.Get("window"), Text: q.Get("q"),
		Session: noSession == nil && v.name != "login", Now: p.now(), Data: v.data, Fleet: p.fleet, Among: p.base != "", base: p.base, here: p.base + r.URL.EscapedPath(), params: q,
	})
	if err != nil {
		p.log.Error().Err(err).Str("page", v.name).Msg("cannot make a page")
		http.Error(w, "This page could not be made. The log of nodetrail says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // whoever asked is gone
}

// problem is what the page of an error says.
type problem struct {
	Status int
	Title  string
	Say    string
	// Help is what to do.
	Help string
}

func (p *pages) fail(w http.ResponseWriter, r *http.Request, nav string, err error) {
	x := problemOf(err)
	if x.Status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) {
		p.log.Error().Err(err).Str("path", r.URL.Path).Msg("cannot answer for a page")
	}
	if x.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	p.write(w, r, x.Status, nav, &view{"problem", x.Title, x})
}

// missing answers for paths that are no page.
func (p *pages) missing(w http.ResponseWriter, r *http.Request) {
	p.fail(w, r, "", fmt.Errorf("%w: there is no page at this address", errNotFound))
}

// loginView is what the page for signing in says.
type loginView struct {
	// Next is the path of this server to go to.
	Next   string
	Failed bool
}

// login writes the page for signing in; failed says that a try was in vain.
func (p *pages) login(w http.ResponseWriter, r *http.Request, failed bool) {
	status := http.StatusOK
	if failed {
		status = http.StatusUnauthorized
	}
	next := r.URL.Query().Get("next")
	if !localPath(next) {
		next = "/"
	}
	p.write(w, r, status, "", &view{"login", "Sign in", loginView{next, failed}})
}

// localPath reports whether s leads to a page of this server and nowhere else.
func localPath(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "//") && !strings.Contains(s, `\`)
}
