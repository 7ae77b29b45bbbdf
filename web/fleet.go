package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/report"
)

// FleetOptions set up the pages of several clusters. List and Open are needed.
type FleetOptions struct {
	// List lists the clusters.
	List func(ctx context.Context) (*report.Fleet, error)
	// Open opens one of them, by its schema. The pages use its options, but for Access, Base, Now and Log, until they call end.
	Open   func(ctx context.Context, schema string) (o Options, end func(), err error)
	Access Access
	// Now is the clock, time.Now by default.
	Now func() time.Time
	Log zerolog.Logger
}

const (
	// clustersPrefix is under which the pages of each cluster are, by its schema.
	clustersPrefix = "/clusters/"
	// maxOpen bounds the clusters that are open at the same time: each has connections to the database.
	maxOpen = 8
)

// fleet has the pages of several clusters: what the pages of one cluster are at the root they are under a path of its own.
type fleet struct {
	o     FleetOptions
	mux   *router
	pages *pages

	mu   sync.Mutex
	open map[string]*member
	tick int64
}

// member is a cluster that is open, or is being opened.
type member struct {
	ready  chan struct{}
	server *Server
	close  func()
	err    error
	users  int // guarded by fleet.mu, as is used
	used   int64
}

// NewFleet returns the page that lists clusters, with the pages of each. Whoever may read it may read all of them.
func NewFleet(o FleetOptions) (*Server, error) {
	if o.List == nil || o.Open == nil {
		return nil, errors.New("pages of several clusters need them")
	}
	s, err := newServer(Options{Access: o.Access, Now: o.Now, Log: o.Log})
	if err != nil {
		return nil, err
	}
	p, err := newPages(nil, "", s.o.Now, o.Log)
	if err != nil {
		return nil, fmt.Errorf("making the pages: %w", err)
	}
	p.fleet = true
	f := &fleet{o: o, mux: s.mux, pages: p, open: map[string]*member{}}
	s.fleet = f
	s.mux.HandleFunc("GET /{$}", p.serve("fleet", func(r *http.Request) (*view, error) {
		if _, err := parameters(r.URL.RawQuery, nil); err != nil {
			return nil, err
		}
		all, err := f.list(r.Context())
		if err != nil {
			return nil, err
		}
		return &view{"fleet", "Clusters", all}, nil
	}))
	(&api{log: o.Log}).handle(s.mux, f.endpoint())
	s.mux.HandleFunc("GET "+clustersPrefix+"{schema}/{path...}", f.cluster)
	p.common(s.mux)
	return s, nil
}

// serve answers who was let in.
func (f *fleet) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/" && asksForJSON(r) {
		r.URL.Path, r.URL.RawPath = apiPrefix+"/fleet", ""
	}
	f.mux.ServeHTTP(w, r)
}

// endpoint is what the API has of all clusters together.
func (f *fleet) endpoint() endpoint {
	return endpoint{"/fleet", nil, &report.Fleet{}, func(c *call) (any, error) { return f.list(c.ctx()) }}
}

func (f *fleet) list(ctx context.Context) (*report.Fleet, error) {
	all, err := f.o.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	return all, nil
}

// clusterURL leads to the pages of a cluster; "" where they cannot be shown.
func clusterURL(schema, trouble string) string {
	if schema = segment(schema); schema == "" || trouble != "" {
		return ""
	}
	return clustersPrefix + schema + "/"
}

// inCluster splits a path into the one before a cluster's pages and the one within them. Both are escaped if the path is.
func inCluster(path string) (base, rest string) {
	schema, is := strings.CutPrefix(path, clustersPrefix)
	if !is {
		return "", path
	}
	schema, rest, _ = strings.Cut(schema, "/")
	return clustersPrefix + schema, "/" + rest
}

// cluster is a page of one cluster.
func (f *fleet) cluster(w http.ResponseWriter, r *http.Request) {
	fail := f.pages.fail
	if _, rest := inCluster(r.URL.EscapedPath()); strings.HasPrefix(rest, "/api/") || asksForJSON(r) {
		fail = func(w http.ResponseWriter, r *http.Request, _ string, err error) {
			(&api{log: f.o.Log}).fail(w, r, err)
		}
	}
	m, err := f.acquire(r.Context(), r.PathValue("schema"))
	if err != nil {
		fail(w, r, "", err)
		return
	}
	defer f.release(m)
	_, rest := inCluster(r.URL.EscapedPath())
	path, err := url.PathUnescape(rest)
	if err != nil {
		fail(w, r, "", errNotFound) // it was unescaped before
		return
	}
	within := r.Clone(r.Context())
	within.URL.Path, within.URL.RawPath = path, rest
	m.server.answer(w, within)
}

// acquire opens a cluster that is listed, or finds it open. It is to be released.
func (f *fleet) acquire(ctx context.Context, schema string) (*member, error) {
	f.mu.Lock()
	f.tick++
	m := f.open[schema]
	if m == nil {
		goes, room := f.makeRoom()
		if !room {
			f.mu.Unlock()
			return nil, fmt.Errorf("%w: %d clusters are being read", errUnavailable, maxOpen)
		}
		m = &member{ready: make(chan struct{})}
		f.open[schema] = m
		// Others wait for it, whatever becomes of this request.
		go func() {
			defer close(m.ready)
			goes.end()
			m.server, m.close, m.err = f.openCluster(context.WithoutCancel(ctx), schema)
		}()
	}
	m.used = f.tick
	m.users++
	f.mu.Unlock()
	select {
	case <-m.ready:
	case <-ctx.Done():
		f.release(m)
		return nil, ctx.Err()
	}
	if m.err != nil {
		f.release(m)
		f.forget(schema, m)
		return nil, m.err
	}
	return m, nil
}

// makeRoom takes out the cluster that was not asked for for longest, if too many are open: it is to be closed. It is false if all are in use.
func (f *fleet) makeRoom() (goes *member, room bool) {
	if len(f.open) < maxOpen {
		return nil, true
	}
	oldest := ""
	for schema, m := range f.open {
		if m.users == 0 && (oldest == "" || m.used < f.open[oldest].used) {
			oldest = schema
		}
	}
	if oldest == "" {
		return nil, false
	}
	goes = f.open[oldest]
	delete(f.open, oldest)
	return goes, true
}

// end closes a cluster, if there is one. It waits for what is read in the background.
func (m *member) end() {
	if m == nil {
		return
	}
	if <-m.ready; m.err == nil {
		m.close()
	}
}

func (f *fleet) release(m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.users--
}

// forget forgets one that could not be opened.
func (f *fleet) forget(schema string, m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[schema] == m {
		delete(f.open, schema)
	}
}

func (f *fleet) openCluster(ctx context.Context, schema string) (*Server, func(), error) {
	ctx, stop := context.WithTimeout(ctx, answerWithin)
	defer stop()
	all, err := f.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !slices.ContainsFunc(all.Clusters, func(c report.FleetCluster) bool { return c.Schema == schema && c.Trouble == "" }) {
		return nil, nil, errNotFound
	}
	o, end, err := f.o.Open(ctx, schema)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	o.Access, o.Base, o.Now, o.Log = Access{}, clustersPrefix+url.PathEscape(schema), f.o.Now, f.o.Log
	s, err := New(o)
	if err != nil {
		end()
		return nil, nil, err
	}
	return s, end, nil
}

// Close closes the clusters that are open. No request may be in hand.
func (s *Server) Close() {
	if s.fleet == nil {
		return
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	for schema, m := range s.fleet.open {
		delete(s.fleet.open, schema)
		m.end()
	}
}
