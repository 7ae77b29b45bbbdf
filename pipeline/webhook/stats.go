package webhook

import (
	"sync/atomic"
	"time"
)

// outcome is how a request ended.
type outcome uint8

const (
	// proceed is no end: the request may continue.
	proceed outcome = iota
	stored
	deadLetter
	unauthenticated
	forbidden
	noPath
	noMethod
	busy
	truncated
	slow
	failed
	late
	stopping
	gone
	outcomes
)

// answers are the outcomes' names in Stats, their status codes and what is said.
var answers = [outcomes]struct {
	name string
	code int
	text string
}{
	stored:          {"stored", 200, ""},
	deadLetter:      {"dead_letter", 200, ""},
	unauthenticated: {"unauthenticated", 401, "credentials are missing or wrong"},
	forbidden:       {"forbidden", 403, "these credentials are not allowed here"},
	noPath:          {"no_path", 404, "nothing here"},
	noMethod:        {"no_method", 405, "audit events are posted"},
	busy:            {"busy", 429, "too much waits already"},
	truncated:       {"truncated", 400, "the body ended early"},
	slow:            {"slow", 408, "the body took too long"},
	failed:          {"failed", 503, "the batch could not be stored"},
	late:            {"late", 503, "the batch was not stored in time"},
	stopping:        {"stopping", 503, "stopping"},
	gone:            {"gone", 503, "the sender did not wait"},
}

// Stats is what a Server has done since it was made.
type Stats struct {
	// Requests counts the requests by outcome. The keys are always the same: stored (200), dead_letter (200, but nothing of it was an
	// event), unauthenticated (401), forbidden (403), no_path (404), no_method (405), busy (429), truncated (400), slow (408), failed,
	// late and stopping (503), and gone (the sender left before the answer).
	Requests map[string]int64
	// Bytes counts what was read of bodies, as it was sent.
	Bytes int64
	// Batches, Events and Malformed are of what was stored, again if it came again.
	Batches, Events, Malformed int64
	// Letters counts the dead letters handed on.
	Letters int64
	// InFlight is the number of requests in hand, InFlightBytes the memory that they and the pipeline hold.
	InFlight, InFlightBytes int64
	// Connections is the number of open connections, RefusedConnections how many were closed because there were too many, and
	// ConnectionErrors how often a handshake failed or net/http had another reason to complain.
	Connections, RefusedConnections, ConnectionErrors int64
	// Handshakes counts, of ConnectionErrors, the TLS handshakes that failed because one side would not have the other: its certificate, its
	// authority, its version of TLS. A sender whose certificate has expired is here and never among Requests. Who only looked whether
	// somebody listens is not.
	Handshakes int64
	// ReloadFailures counts the looks at the files of credentials that found something broken.
	ReloadFailures int64
	// CertificateExpires is when the server's certificate ends, zero without TLS.
	CertificateExpires time.Time
}

type counters struct {
	requests                                   [outcomes]atomic.Int64
	bytes, batches, events, malformed, letters atomic.Int64
	inFlight, refused, connTrouble             atomic.Int64
	handshakes                                 atomic.Int64
}

func (s *Server) connections() int64 {
	if l := s.conns.Load(); l != nil {
		return int64(l.Open())
	}
	return 0
}

// Stats may be called at any time.
func (s *Server) Stats() Stats {
	c := &s.counters
	requests := make(map[string]int64, outcomes)
	for out := stored; out < outcomes; out++ {
		requests[answers[out].name] = c.requests[out].Load()
	}
	current := s.creds.current()
	return Stats{
		Requests: requests, Bytes: c.bytes.Load(), Batches: c.batches.Load(), Events: c.events.Load(), Malformed: c.malformed.Load(),
		Letters: c.letters.Load(), InFlight: c.inFlight.Load(), InFlightBytes: s.budget.used(),
		Connections: s.connections(), RefusedConnections: c.refused.Load(), ConnectionErrors: c.connTrouble.Load(), Handshakes: c.handshakes.Load(),
		ReloadFailures: s.creds.failures.Load(), CertificateExpires: current.expires,
	}
}
