// Package ops is the HTTP server for those who operate nodetrail.
//
// What goes in: functions and handlers of the other parts. What comes out: /metrics, /healthz, /readyz and /-/reload on one address,
// /healthz and /readyz on a second one, where only probes connect, and profiles on a third one, which only this machine can reach. The package imports
// internal/conns and internal/loopback.
//
// POST /-/reload does no more than read the configuration file again, which whoever can write that file could have by waiting. Still it is
// not for everybody: with a token it must be borne, and without one the request must come from this machine, through no proxy and from no
// page of a browser.
package ops

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log" //nolint:depguard // http.Server takes no other logger
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/conns"
	"github.com/nodetrail/nodetrail/internal/loopback"
)

// Options set a Server up. Only Listen is needed.
type Options struct {
	// Listen is the address, as net.Listen takes it for "tcp".
	Listen string
	// Health is a further address of /healthz and /readyz alone, with connections of its own: whoever takes those of Listen does not keep a probe from its
	// answer. "" is none.
	Health string
	// Pprof is the address of profiles; it must be a loopback one. "" is none.
	Pprof string
	// Metrics serves /metrics.
	Metrics http.Handler
	// Ready returns why the process is not ready; nothing if it is. A reason is one line.
	Ready func() []string
	// Healthy returns an error if only a restart helps. nil is always healthy.
	Healthy func() error
	// Reload reads the configuration again.
	Reload func() error
	// ReloadToken returns the token that POST /-/reload must bear, "" for none: then it must come from this machine.
	ReloadToken func() (string, error)
	// TLS is for Listen, nil for none.
	TLS *tls.Config
	// MaxConnections bounds the open connections of each address that is listened on, 256 by default. A quarter of them may be of one peer, whose oldest
	// is closed for a newer one: a probe always gets in.
	MaxConnections int
	// Grace is how long requests in hand may take when the server stops, 5 s by default.
	Grace time.Duration
	Log   zerolog.Logger
}

// Server serves until it is stopped.
type Server struct {
	o                       Options
	mux                     *http.ServeMux
	main, health, profiling net.Listener // of mux, of probes, and of profiles; the latter two may be nil
}

// New listens, so that what cannot work is known at once. Serve or Close must follow.
func New(o Options) (*Server, error) {
	if o.MaxConnections <= 0 {
		o.MaxConnections = 256
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	s := &Server{o: o, mux: http.NewServeMux()}
	s.routes()
	for _, l := range []struct {
		to            *net.Listener
		address, what string
	}{{&s.main, o.Listen, "operations"}, {&s.health, o.Health, "probes"}, {&s.profiling, o.Pprof, "profiles"}} {
		if l.address == "" && l.to != &s.main {
			continue
		}
		var err error
		if *l.to, err = net.Listen("tcp", l.address); err != nil {
			return nil, errors.Join(fmt.Errorf("listening for %s: %w", l.what, err), s.Close())
		}
	}
	if s.profiling != nil && !loopback.Address(s.profiling.Addr().String()) {
		return nil, errors.Join(fmt.Errorf("listening for profiles: %s is not a loopback address, and profiles show what is in memory", o.Pprof), s.Close())
	}
	return s, nil
}

// Addr is the address that operations are served at.
func (s *Server) Addr() string { return s.main.Addr().String() }

// HealthAddr is the address of Options.Health, "" for none.
func (s *Server) HealthAddr() string {
	if s.health == nil {
		return ""
	}
	return s.health.Addr().String()
}

// Handle adds a handler, before Serve is called. The pattern is as for http.ServeMux.
func (s *Server) Handle(pattern string, h http.Handler) { s.mux.Handle(pattern, h) }

// Close stops listening. After Serve it has nothing to do.
func (s *Server) Close() error {
	var errs []error
	for _, l := range []net.Listener{s.main, s.health, s.profiling} {
		if l != nil {
			errs = append(errs, l.Close())
		}
	}
	return errors.Join(errs...)
}

// Serve answers until ctx ends, and then until the requests in hand are answered, for a while. It returns an error if it could not continue.
func (s *Server) Serve(ctx context.Context) error {
	complaints := log.New(complain{s.o.Log}, "", 0)
	var servers []*http.Server
	var listeners []net.Listener
	add := func(l net.Listener, h http.Handler, write time.Duration, t *tls.Config) {
		if l == nil {
			return
		}
		listeners = append(listeners, l)
		servers = append(servers, &http.Server{
			Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: write, IdleTimeout: 2 * time.Minute,
			MaxHeaderBytes: 16 << 10, ErrorLog: complaints, TLSConfig: t,
		})
	}
	probes := http.NewServeMux()
	s.probes(probes)
	add(s.main, s.mux, time.Minute, s.o.TLS)
	add(s.health, probes, 10*time.Second, nil)
	add(s.profiling, profiles(), 15*time.Minute, nil) // a trace takes its time
	ended := make(chan error, len(servers))
	for i, srv := range servers {
		go func() {
			l := conns.New(listeners[i], s.o.MaxConnections, func() {})
			if srv.TLSConfig != nil {
				ended <- srv.ServeTLS(l, "", "")
				return
			}
			ended <- srv.Serve(l)
		}()
	}
	var errs []error
	left := len(servers)
	select {
	case err := <-ended:
		left--
		errs = append(errs, fmt.Errorf("serving operations: %w", err))
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.o.Grace)
	defer cancel()
	for _, srv := range servers {
		if err := srv.Shutdown(stop); err != nil {
			_ = srv.Close() // what is in hand now is cut off: a profile, perhaps
		}
	}
	for range left {
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, fmt.Errorf("serving operations: %w", err))
		}
	}
	return errors.Join(errs...)
}

// complain writes what net/http has to say to the log.
type complain struct{ log zerolog.Logger }

func (c complain) Write(p []byte) (int, error) {
	c.log.Debug().Msg(strings.TrimSpace(string(p)))
	return len(p), nil
}

func (s *Server) routes() {
	if s.o.Metrics != nil {
		s.mux.Handle("GET /metrics", ownName(s.o.Metrics))
	}
	s.probes(s.mux)
	if s.o.Reload != nil {
		s.mux.Handle("POST /-/reload", http.NewCrossOriginProtection().Handler(http.HandlerFunc(s.reload)))
	}
}

// probes adds what a probe asks for.
func (s *Server) probes(mux *http.ServeMux) {
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		if s.o.Healthy != nil {
			if err := s.o.Healthy(); err != nil {
				answer(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		answer(w, http.StatusOK, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if s.o.Ready != nil {
			if why := s.o.Ready(); len(why) > 0 {
				answer(w, http.StatusServiceUnavailable, "not ready", why...)
				return
			}
		}
		answer(w, http.StatusOK, "ready")
	})
}

// ownName refuses requests that come from this machine under another one's name: a page that a browser here has open got its name an address of this
// machine, and would read the answer. From elsewhere a name says nothing: Prometheus has its own for this machine.
func ownName(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopback.Address(r.RemoteAddr) && !loopback.Named(r) {
			answer(w, http.StatusMisdirectedRequest, "from this machine, ask by one of its own addresses")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// answer writes lines of text.
func answer(w http.ResponseWriter, code int, line string, more ...string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, strings.Join(append([]string{line}, more...), "\n")+"\n") // the client may be gone
}

func (s *Server) reload(w http.ResponseWriter, req *http.Request) {
	token := ""
	if s.o.ReloadToken != nil {
		var err error
		if token, err = s.o.ReloadToken(); err != nil {
			s.o.Log.Error().Err(err).Msg("reading the token of POST /-/reload")
			answer(w, http.StatusInternalServerError, "the token cannot be read; the log says why")
			return
		}
	}
	switch {
	case token != "" && !bears(req, token):
		w.Header().Set("WWW-Authenticate", `Bearer realm="nodetrail"`)
		answer(w, http.StatusUnauthorized, "this needs the bearer token of reload.tokenFile")
		return
	case token == "" && !loopback.Request(req):
		answer(w, http.StatusForbidden, "without reload.tokenFile this is for requests from the same machine")
		return
	}
	if err := s.o.Reload(); err != nil {
		answer(w, http.StatusUnprocessableEntity, err.Error())
		return
	}
	answer(w, http.StatusOK, "the configuration is in force")
}

func bears(req *http.Request, token string) bool {
	got, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(token)) // of one length, whatever was sent
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1 && ok
}

// profiles serves what net/http/pprof registers with the default mux, which nothing here uses.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if !loopback.Request(req) {
			answer(w, http.StatusForbidden, "profiles are for requests from the same machine")
			return
		}
		mux.ServeHTTP(w, req)
	})
}
