package webhook

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// Options of a Server. The zero value of a field means its default; Letters, and Listen or Listener, have none.
type Options struct {
	// Name tells endpoints apart: the lane is "webhook:" and the name, which is "audit" by default.
	Name string
	// Listen is the address, as net.Listen takes it for "tcp". Listener is used instead if it is not nil; the Server closes it.
	Listen   string
	Listener net.Listener
	// Path is what is posted to, "/audit" by default.
	Path string

	// CertFile and KeyFile are the server's certificate with its chain, and its key, both PEM.
	CertFile, KeyFile string
	// ClientCAFile holds the authorities (PEM) that sign client certificates. If it is given, every client needs one.
	ClientCAFile string
	// AllowedClients are the names that a client certificate may have, as its common name or as a DNS name or URI among its
	// alternative names. By default any certificate of the authorities will do.
	AllowedClients []string
	// BearerTokenFiles hold a token on each line; any of them will do. If they are given, every request needs one, next to a client
	// certificate if that is asked for too.
	BearerTokenFiles []string
	// Reload is how often the files above are looked at, 10s by default. What is broken in them is logged and counted, and what was in
	// force stays.
	Reload time.Duration

	// MaxBodyBytes bounds a body, also when decompressed: 32 MiB by default.
	MaxBodyBytes int64
	// MaxInFlight bounds the requests at once, 512 by default; MaxInFlightBytes the memory of those and of what the pipeline has not
	// released, 192 MiB by default or what is needed: one request at a time may take as much as the longest body needs, about four times
	// MaxBodyBytes, and the rest is for all others.
	MaxInFlight      int
	MaxInFlightBytes int64
	// MaxConnections bounds the open connections, 512 by default. A quarter of them may be those of one address that has not authenticated itself; beyond
	// that its oldest is closed. Where all are in use, an unauthenticated one makes room.
	MaxConnections int
	// HeaderTimeout (10s) bounds the handshake and the header of a request, BodyTimeout (15s) its body, IdleTimeout (2m) the time
	// between requests. CommitTimeout (25s, as the API server waits for 30s) bounds a request as a whole: what is not stored by then is
	// answered 503.
	HeaderTimeout, BodyTimeout, IdleTimeout, CommitTimeout time.Duration

	// MaxEventBytes bounds an event, 4 MiB by default.
	MaxEventBytes int
	// Want is what to hand on in addition to the requests of nodes. RunRaw and HandlerRaw hand everything on, unless NeededOnly.
	Want       audit.Want
	NeededOnly bool
	// Letters keeps what is no event.
	Letters source.Letters
	Log     zerolog.Logger

	now func() time.Time // time.Now but in tests
}

func (o *Options) setDefaults() {
	setDefault(&o.Name, "audit")
	setDefault(&o.Path, "/audit")
	setDefault(&o.Reload, 10*time.Second)
	setDefault(&o.MaxBodyBytes, 32<<20)
	setDefault(&o.MaxInFlight, 512)
	setDefault(&o.MaxInFlightBytes, max(192<<20, o.oneRequest()+2*o.MaxBodyBytes))
	setDefault(&o.MaxConnections, 512)
	setDefault(&o.HeaderTimeout, 10*time.Second)
	setDefault(&o.BodyTimeout, 15*time.Second)
	setDefault(&o.IdleTimeout, 2*time.Minute)
	setDefault(&o.CommitTimeout, 25*time.Second)
	setDefault(&o.MaxEventBytes, audit.DefaultMaxEventBytes)
	if o.now == nil {
		o.now = time.Now
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// minBodyBytes is the least bound of a body: that of the smallest buffer.
const minBodyBytes = minBuffer

func (o *Options) check() error {
	for _, n := range []struct {
		name  string
		value int64
	}{
		{"Reload", int64(o.Reload)}, {"MaxInFlight", int64(o.MaxInFlight)}, {"MaxConnections", int64(o.MaxConnections)},
		{"HeaderTimeout", int64(o.HeaderTimeout)}, {"BodyTimeout", int64(o.BodyTimeout)}, {"IdleTimeout", int64(o.IdleTimeout)},
		{"CommitTimeout", int64(o.CommitTimeout)}, {"MaxEventBytes", int64(o.MaxEventBytes)},
	} {
		if n.value < 0 {
			return fmt.Errorf("%s is negative", n.name)
		}
	}
	switch {
	case o.Letters == nil:
		return errors.New("no place for dead letters")
	case o.Listener != nil && o.Listen != "":
		return errors.New("both Listen and Listener are given")
	case !strings.HasPrefix(o.Path, "/") || path.Clean(o.Path) != o.Path:
		return fmt.Errorf("path %q is not a clean absolute path", o.Path)
	case o.MaxBodyBytes < minBodyBytes:
		return fmt.Errorf("a bound of %d bytes for a body is less than %d", o.MaxBodyBytes, minBodyBytes)
	case o.MaxInFlightBytes < o.oneRequest()+o.MaxBodyBytes:
		return fmt.Errorf("a bound of %d bytes in flight is less than %d, which bodies of %d need", o.MaxInFlightBytes, o.oneRequest()+o.MaxBodyBytes, o.MaxBodyBytes)
	case (o.CertFile == "") != (o.KeyFile == ""):
		return errors.New("a certificate and its key go together: one of the two files is not given")
	case o.ClientCAFile != "" && o.CertFile == "":
		return errors.New("client certificates need TLS: no certificate file is given")
	case len(o.AllowedClients) > 0 && o.ClientCAFile == "":
		return errors.New("allowed clients need a file of the authorities that sign their certificates")
	}
	if o.local() {
		return nil
	}
	switch {
	case o.CertFile == "":
		return fmt.Errorf("%s can be reached from elsewhere and needs TLS: give a certificate and a key, or listen on loopback", o.address())
	case !o.authenticates():
		return fmt.Errorf("%s can be reached from elsewhere and needs to know its senders: give client authorities or bearer tokens, or listen on loopback", o.address())
	}
	return nil
}

// oneRequest is the most memory that one request takes: its body as it came; decompressed, while that grows; and a part, while that grows.
func (o *Options) oneRequest() int64 { return 4*o.MaxBodyBytes + 2*maxPart*eventBytes }

// authenticates is whether senders have to show who they are.
func (o *Options) authenticates() bool { return o.ClientCAFile != "" || len(o.BearerTokenFiles) > 0 }

func (o *Options) address() string {
	switch {
	case o.Listener != nil:
		return o.Listener.Addr().String()
	case o.Listen != "":
		return o.Listen
	}
	return "the endpoint"
}

// local is whether only this machine can reach the endpoint.
func (o *Options) local() bool {
	if o.Listener != nil {
		return loopback(o.Listener.Addr())
	}
	host, _, err := net.SplitHostPort(o.Listen)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func loopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
