package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Options set a Server up. Store and Facts are needed.
type Options struct {
	// Cluster is the cluster's name, from which the IDs of findings are made; "" is that of the facts.
	Cluster string
	Store   Store
	// Facts is what a report needs to know in addition to the counts.
	Facts func(ctx context.Context) (report.Facts, error)
	// Base is before the paths of all pages and of the API, such as /clusters/NAME; "" where they are at the root.
	Base string
	// Prove puts the results of the checks into the facts, for the tally of a window that ends with the newest request; 0 is all that there is. Nil for
	// none: then everything is unproven.
	Prove func(ctx context.Context, t *tally.Tally, window time.Duration, f *report.Facts) error
	// Incidents are at most so many of those with a finding since a time, zero for all, that which chooses, nil for all; and how many more there are in each
	// state. Nil for none.
	Incidents func(ctx context.Context, from time.Time, which func(*incidents.Incident) bool, most int) ([]incidents.Incident, map[incidents.State]int, error)
	// Turn waits until nobody else reads much of the store; who got it calls end. The pages of several clusters share one. Nil where there is nobody else.
	Turn func(ctx context.Context) (held context.Context, end func(), err error)
	// Live is nil where no state of the cluster is at hand; NoLive says why, in a sentence.
	Live   Live
	NoLive string
	// Sources are those of this process; nil where there are none.
	Sources func() []Source
	// Disabled are the rules that are not checked; nil for what the facts say.
	Disabled func() []string
	// Own are the rules that the user wrote; nil for those that found something.
	Own    func() []*rules.Rule
	Access Access
	// Step is how finely the store keeps counts, an hour by default; Hourly for how long, 7 days by default.
	Step, Hourly time.Duration
	// Now is the clock, time.Now by default.
	Now func() time.Time
	Log zerolog.Logger
}

const (
	// maxRequests bounds the requests in hand.
	maxRequests = 64
	// answerWithin is how long an answer may take, but for an export, which may take exportWithin.
	answerWithin = 30 * time.Second
	exportWithin = 10 * time.Minute
)

// Server serves the pages and the API. It is an http.Handler.
type Server struct {
	o      Options
	mux    *router
	access *access
	data   *data  // nil where there are several clusters
	fleet  *fleet // nil where there is one cluster
	room   chan struct{}
	cross  *http.CrossOriginProtection
}

// router is a ServeMux that knows its patterns: the test of the description holds them against it.
type router struct {
	*http.ServeMux
	patterns []string
}

func newRouter() *router { return &router{ServeMux: http.NewServeMux()} }

// HandleFunc is that of ServeMux.
func (m *router) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	m.patterns = append(m.patterns, pattern)
	m.ServeMux.HandleFunc(pattern, handler)
}

// New returns the pages over a store.
func New(o Options) (*Server, error) {
	if o.Store == nil || o.Facts == nil {
		return nil, errors.New("pages need a store and facts")
	}
	if o.Step <= 0 {
		o.Step = time.Hour
	}
	if o.Hourly <= 0 {
		o.Hourly = 7 * 24 * time.Hour
	}
	if o.NoLive == "" {
		o.NoLive = "no state of the cluster is at hand"
	}
	s, err := newServer(o)
	if err != nil {
		return nil, err
	}
	s.data = newData(&s.o)
	p, err := newPages(s.data, o.Cluster, s.o.Now, o.Log)
	if err != nil {
		return nil, fmt.Errorf("making the pages: %w", err)
	}
	p.base = o.Base
	p.routes(s.mux)
	(&api{data: s.data, log: o.Log, reports: make(chan struct{}, reportsAtOnce)}).routes(s.mux)
	return s, nil
}

// newServer is a server without pages.
func newServer(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, mux: newRouter(), room: make(chan struct{}, maxRequests), cross: http.NewCrossOriginProtection()}
	var err error
	s.access, err = newAccess(&s.o.Access, o.Now, o.Log)
	return s, err
}

// Warm reads what the first visitor would have to wait for: of a store with ten thousand findings in each of 24 hours some seconds.
func (s *Server) Warm(ctx context.Context) {
	if s.data != nil {
		_, _ = s.data.cache.get(ctx, 0) // who asks next gets its error
	}
}

// policy is the Content-Security-Policy of every answer.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Cookie, Authorization")
	select {
	case s.room <- struct{}{}:
		defer func() { <-s.room }()
	default:
		h.Set("Retry-After", "1")
		answerError(w, http.StatusServiceUnavailable, "too many requests are in hand")
		return
	}
	within := answerWithin
	if s.isExport(r.URL.Path) {
		within = exportWithin
		// The server's own bound is for pages. Where there is no connection, as in tests, there is none to be extended.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(within))
	}
	ctx, stop := context.WithTimeout(r.Context(), within)
	defer stop()
	r = r.WithContext(ctx)
	switch {
	case r.Method == http.MethodPost && (r.URL.Path == "/login" || r.URL.Path == "/logout"):
		s.sign(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		answerError(w, http.StatusMethodNotAllowed, "only GET and HEAD are understood")
		return
	case (r.URL.Path == "/login" || strings.HasPrefix(r.URL.Path, "/assets/")) && !s.o.Access.LocalOnly():
		// Who signs in needs them.
	default:
		if e := s.access.enter(r); e != letIn {
			s.refuse(w, r, e)
			return
		}
	}
	if r.ContentLength != 0 {
		r.Body = http.NoBody
	}
	if s.fleet != nil {
		s.fleet.serve(w, r)
		return
	}
	s.answer(w, r)
}

// answer answers who was let in.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	if asksForJSON(r) {
		r.URL.Path, r.URL.RawPath = asAPI(r.URL.Path), asAPI(r.URL.RawPath)
	}
	s.mux.ServeHTTP(w, r)
}

// isExport is whether a path is of an export of findings.
func (s *Server) isExport(path string) bool {
	if s.fleet != nil {
		_, path = inCluster(path)
	}
	return strings.HasPrefix(path, "/findings.")
}

// sign is POST /login and POST /logout, from a page of this server only.
func (s *Server) sign(w http.ResponseWriter, r *http.Request) {
	if err := s.cross.Check(r); err != nil {
		answerError(w, http.StatusForbidden, "this form is of another site")
		return
	}
	if s.o.Access.TokenFile == "" && s.o.Access.Review == nil {
		answerError(w, http.StatusNotFound, "there is nothing to sign in to: no token is asked for")
		return
	}
	if r.URL.Path == "/logout" {
		s.access.sessions.end(w, r)
		redirect(w, "/login")
		return
	}
	s.access.signIn(w, r)
}

// refuse answers who is not let in: a browser is led to where it can sign in.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, e entry) {
	code, say := e.status()
	tokens := s.o.Access.TokenFile != "" || s.o.Access.Review != nil
	browser := strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/api/")
	switch {
	case code == http.StatusUnauthorized && tokens && browser && r.Header.Get("Sec-Fetch-Site") == "cross-site":
		// The browser has kept the cookie back, as it came by a link of another site, such as an alert's. Asked again from here it sends it.
		w.Header().Set("Refresh", "0")
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("One moment.\n")) // whoever asked may be gone
	case code == http.StatusUnauthorized && tokens && browser:
		redirect(w, "/login?next="+url.QueryEscape(r.URL.RequestURI()))
	default:
		if code == http.StatusUnauthorized && tokens {
			w.Header().Set("WWW-Authenticate", `Bearer realm="nodetrail"`)
		}
		if code == http.StatusTooManyRequests || code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "2")
		}
		answerError(w, code, say)
	}
}

// asksForJSON reports whether a page is asked for as JSON rather than as HTML.
func asksForJSON(r *http.Request) bool {
	if strings.HasPrefix(r.URL.Path, "/api/") || strings.HasPrefix(r.URL.Path, "/assets/") || strings.HasPrefix(r.URL.Path, "/findings.") || r.URL.Path == "/login" {
		return false
	}
	best, json := 0.0, 0.0
	for part := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, parameters, _ := strings.Cut(strings.TrimSpace(part), ";")
		q := 1.0
		for p := range strings.SplitSeq(parameters, ";") {
			if v, ok := strings.CutPrefix(strings.TrimSpace(p), "q="); ok {
				if n, err := strconv.ParseFloat(v, 64); err == nil {
					q = n
				}
			}
		}
		switch strings.ToLower(strings.TrimSpace(kind)) {
		case "application/json":
			json = max(json, q)
		case "text/html", "application/xhtml+xml", "text/*":
			best = max(best, q)
		}
	}
	return json > best
}

// asAPI is where a page's view is as JSON.
func asAPI(path string) string {
	switch path {
	case "":
		return ""
	case "/":
		return apiPrefix + "/overview"
	}
	return apiPrefix + path
}
