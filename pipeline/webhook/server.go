package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log" //nolint:depguard // http.Server takes no other logger
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/conns"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// Server receives audit events over HTTP. Its methods may be called concurrently, Run and RunRaw once in all.
type Server struct {
	opt      Options
	creds    *credentials
	budget   budget
	slots    chan struct{} // a request in hand holds one
	buffers  buffers
	decoders chan *audit.Decoder // one for each processor: each has learned much of the events, and more of them would wait for one
	parts    chan *part
	counters counters
	listens  atomic.Bool
	conns    atomic.Pointer[conns.Listener] // nil before it listens
	// log is for what senders can cause as often as they like.
	log zerolog.Logger
}

// New checks the options and reads the credentials. It does not listen yet. Without TLS and without authentication it makes a Server
// only if that listens on loopback.
func New(opt Options) (*Server, error) {
	opt.setDefaults()
	if err := opt.check(); err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	creds, err := newCredentials(&opt)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	s := &Server{
		opt: opt, creds: creds, budget: budget{max: opt.MaxInFlightBytes - opt.oneRequest()},
		slots: make(chan struct{}, opt.MaxInFlight), decoders: make(chan *audit.Decoder, runtime.GOMAXPROCS(0)), parts: make(chan *part, keptParts),
		log: opt.Log.Sample(&zerolog.BurstSampler{Burst: 10, Period: 10 * time.Second}),
	}
	for range cap(s.decoders) {
		s.decoders <- s.decoder()
	}
	return s, nil
}

func (s *Server) decoder() *audit.Decoder { return &audit.Decoder{MaxEventBytes: s.opt.MaxEventBytes} }

// Lane is the name of the one lane of the Server. It has no positions: what is not stored is sent again.
func (s *Server) Lane() string { return "webhook:" + s.opt.Name }

// Listens reports whether Run or RunRaw accepts connections. Run opens the lane first, which waits for the store.
func (s *Server) Listens() bool { return s.listens.Load() }

// Handler hands batches to an intake in which the Server's lane is open. It is for a server other than Run's, which has to do the TLS
// (with client certificates in http.Request.TLS) and bound headers and connections.
func (s *Server) Handler(intake source.Intake) http.Handler { return s.handler(intake) }

// HandlerRaw is Handler for a gateway.
func (s *Server) HandlerRaw(intake RawIntake) http.Handler { return s.rawHandler(intake) }

// handler decodes: events take about as much as their body.
func (s *Server) handler(intake source.Intake) *endpoint {
	s.budget.begin = s.budget.max / 2
	return &endpoint{
		Server: s, needed: true, take: func(ctx context.Context, p *part) error { return p.give(ctx, intake) },
	}
}

// rawHandler hands on the bytes of bodies.
func (s *Server) rawHandler(intake RawIntake) *endpoint {
	s.budget.begin = s.budget.max / 8 * 7
	return &endpoint{
		Server: s, raw: true, needed: s.opt.NeededOnly, take: func(ctx context.Context, p *part) error { return p.giveRaw(ctx, intake) },
	}
}

// Run opens the lane, listens, and serves until ctx ends. Then it accepts no more, answers the requests in hand when they are stored,
// and closes the lane; so the intake must continue storing until Run returns.
func (s *Server) Run(ctx context.Context, intake source.Intake) error {
	if _, err := intake.Open(ctx, s.Lane(), 0); err != nil {
		return fmt.Errorf("webhook: opening %s: %w", s.Lane(), err)
	}
	defer intake.Close(s.Lane())
	return s.serve(ctx, s.handler(intake))
}

// RunRaw is Run for a gateway.
func (s *Server) RunRaw(ctx context.Context, intake RawIntake) error {
	return s.serve(ctx, s.rawHandler(intake))
}

// stopGrace is how long over the bound of a request stopping may take.
const stopGrace = 5 * time.Second

func (s *Server) serve(ctx context.Context, e *endpoint) error {
	listener, err := s.listen(ctx)
	if err != nil {
		return err
	}
	conf := s.creds.serverTLS()
	srv := &http.Server{
		Handler: e, TLSConfig: conf, ConnContext: listener.Context,
		ReadHeaderTimeout: s.opt.HeaderTimeout, IdleTimeout: s.opt.IdleTimeout,
		// The body has a deadline of its own, once the sender is known.
		WriteTimeout:   max(s.opt.CommitTimeout, s.opt.BodyTimeout) + stopGrace,
		MaxHeaderBytes: 16 << 10,
		HTTP2:          &http.HTTP2Config{MaxConcurrentStreams: s.opt.MaxInFlight, MaxReceiveBufferPerConnection: 1 << 20, MaxReceiveBufferPerStream: 512 << 10},
		ErrorLog:       log.New(complaints{s}, "", 0),
	}
	s.listens.Store(true)
	defer s.listens.Store(false)
	s.opt.Log.Info().Str("partition", s.Lane()).Stringer("address", listener.Addr()).Str("path", s.opt.Path).Bool("tls", conf != nil).
		Bool("clientCertificates", s.opt.ClientCAFile != "").Bool("bearerTokens", len(s.opt.BearerTokenFiles) > 0).Msg("the audit webhook listens")
	ended := make(chan error, 1)
	go func() {
		if conf != nil {
			ended <- srv.ServeTLS(listener, "", "")
		} else {
			ended <- srv.Serve(listener)
		}
	}()
	select {
	case err := <-ended:
		return errors.Join(fmt.Errorf("webhook: serving on %s: %w", listener.Addr(), err), srv.Close())
	case <-ctx.Done():
	}
	e.stopping.Store(true)
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), srv.WriteTimeout)
	defer cancel()
	err = srv.Shutdown(stop)
	if why := <-ended; !errors.Is(why, http.ErrServerClosed) {
		err = errors.Join(err, why)
	}
	if err != nil {
		// Their senders get no answer and send again.
		return errors.Join(fmt.Errorf("webhook: requests in hand were cut off: %w", err), srv.Close())
	}
	return nil
}

func (s *Server) listen(ctx context.Context) (*conns.Listener, error) {
	listener := s.opt.Listener
	if listener == nil {
		if s.opt.Listen == "" {
			return nil, errors.New("webhook: no address to listen on")
		}
		var conf net.ListenConfig
		var err error
		if listener, err = conf.Listen(ctx, "tcp", s.opt.Listen); err != nil {
			return nil, fmt.Errorf("webhook: %w", err)
		}
	}
	// A name may stand for another address than it seems to.
	if open := s.opt.CertFile == "" || !s.opt.authenticates(); open && !loopback(listener.Addr()) {
		return nil, errors.Join(fmt.Errorf("webhook: %s is no loopback address and needs TLS and authentication", listener.Addr()), listener.Close())
	}
	l := conns.New(listener, s.opt.MaxConnections, func() { s.counters.refused.Add(1) })
	s.conns.Store(l)
	return l, nil
}

// complaints takes what net/http logs of broken handshakes and the like, which anybody can cause.
type complaints struct{ s *Server }

func (c complaints) Write(line []byte) (int, error) {
	if text := bytes.TrimSpace(line); refusedHandshake(text) {
		c.s.counters.handshakes.Add(1)
		c.s.log.Warn().Bytes("error", text).Msg("a sender and the webhook do not accept each other's TLS: look at the certificates and authorities of both")
	} else {
		c.s.log.Debug().Bytes("error", text).Msg("trouble with a connection to the webhook")
	}
	c.s.counters.connTrouble.Add(1)
	return len(line), nil
}

// refusedHandshake tells a handshake that one side refused from one that was not gone through with, as by a health check that only
// connects. net/http says no more than a line of text, "http: TLS handshake error from ADDRESS: CAUSE".
func refusedHandshake(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("http: TLS handshake error from "))
	if !ok {
		return false
	}
	_, cause, _ := bytes.Cut(rest, []byte(": "))
	return bytes.Contains(cause, []byte("tls: ")) || bytes.Contains(cause, []byte("x509: ")) || bytes.Contains(cause, []byte("HTTP request to an HTTPS server"))
}
