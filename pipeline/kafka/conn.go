package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"github.com/nodetrail/nodetrail/internal/credfile"
)

// Cluster says how to reach the brokers.
type Cluster struct {
	// Brokers are some of the cluster's, as host:port; the others are found through them.
	Brokers []string
	// ClientID is how the brokers' logs and quotas name this process, "nodetrail" by default.
	ClientID string
	TLS      TLS
	SASL     SASL
}

// TLS of the connections to brokers. The files are read for each connection, so that they can be replaced.
type TLS struct {
	Enabled bool
	// CAFile holds the authorities that brokers' certificates are checked against, by default the system's.
	CAFile string
	// CertFile and KeyFile are this client's certificate, if the brokers want one.
	CertFile, KeyFile string
	// ServerName is the name that brokers' certificates must have, by default the host that was connected to.
	ServerName string
	// InsecureSkipVerify accepts any certificate.
	InsecureSkipVerify bool
}

// The mechanisms of SASL.
const (
	SASLPlain       = "PLAIN"
	SASLScramSHA256 = "SCRAM-SHA-256"
	SASLScramSHA512 = "SCRAM-SHA-512"
)

// SASL is how to authenticate, not at all if Mechanism is "".
type SASL struct {
	Mechanism string
	Username  string
	// Password or, if it is "", the first line of PasswordFile, which is read for each connection.
	Password     string
	PasswordFile string
}

// dialTimeout bounds the making of a connection, TLS and SASL included.
const dialTimeout = 10 * time.Second

// validate returns what is wrong, with the field named as in the configuration.
func (c *Cluster) validate() error {
	if len(c.Brokers) == 0 {
		return errors.New("brokers: at least one is needed")
	}
	for _, b := range c.Brokers {
		host, port, err := net.SplitHostPort(b)
		if err != nil || host == "" || port == "" {
			return fmt.Errorf("brokers: %q is not host:port", b)
		}
	}
	if !c.TLS.Enabled && (c.TLS != TLS{}) {
		return errors.New("tls: it is set up but not enabled")
	}
	if _, err := c.TLS.config(); err != nil {
		return err
	}
	return c.SASL.validate()
}

func (s *SASL) validate() error {
	switch s.Mechanism {
	case "":
		if (*s != SASL{}) {
			return errors.New("sasl.mechanism: it is missing")
		}
		return nil
	case SASLPlain, SASLScramSHA256, SASLScramSHA512:
	default:
		return fmt.Errorf("sasl.mechanism: %q is none of %s, %s, %s", s.Mechanism, SASLPlain, SASLScramSHA256, SASLScramSHA512)
	}
	if s.Username == "" {
		return errors.New("sasl.username: it is missing")
	}
	if (s.Password == "") == (s.PasswordFile == "") {
		return errors.New("sasl.passwordFile: give it or the password, and not both")
	}
	_, err := s.secret()
	return err
}

func (s *SASL) secret() (string, error) {
	if s.PasswordFile == "" {
		return s.Password, nil
	}
	b, err := credfile.Read(s.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("sasl.passwordFile: %w", err)
	}
	line, _, _ := strings.Cut(string(b), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", fmt.Errorf("sasl.passwordFile: %s begins with an empty line", s.PasswordFile)
	}
	return line, nil
}

// mechanism satisfies kafka-go's sasl.Mechanism with the password of the moment.
type mechanism struct{ sasl SASL }

func (m mechanism) Name() string { return m.sasl.Mechanism }

func (m mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	password, err := m.sasl.secret()
	if err != nil {
		return nil, nil, err
	}
	var of sasl.Mechanism
	switch m.sasl.Mechanism {
	case SASLScramSHA256:
		of, err = scram.Mechanism(scram.SHA256, m.sasl.Username, password)
	case SASLScramSHA512:
		of, err = scram.Mechanism(scram.SHA512, m.sasl.Username, password)
	default:
		of = plain.Mechanism{Username: m.sasl.Username, Password: password}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("sasl: %w", err)
	}
	return of.Start(ctx)
}

func (s *SASL) mechanism() sasl.Mechanism {
	if s.Mechanism == "" {
		return nil
	}
	return mechanism{*s}
}

// config returns nil if TLS is off.
func (t *TLS) config() (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, InsecureSkipVerify: t.InsecureSkipVerify}
	var err error
	if t.CAFile != "" {
		if cfg.RootCAs, err = credfile.Authorities(t.CAFile); err != nil {
			return nil, fmt.Errorf("tls.caFile: %w", err)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, errors.New("tls.certFile and tls.keyFile: one is missing")
	}
	if t.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("tls.certFile: %w", err)
		}
		cfg.Certificates = []tls.Certificate{cert}
	}
	return cfg, nil
}

// dial opens a connection, through TLS if that is on, whose reads and writes cannot last indefinitely. kafka-go authenticates without a deadline.
func (c *Cluster) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	cfg, err := c.TLS.config()
	if err != nil {
		return nil, err
	}
	conn, err := (&net.Dialer{KeepAlive: 15 * time.Second}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if cfg == nil {
		return &boundedConn{Conn: conn}, nil
	}
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("tls handshake with %s: %w", address, err), conn.Close())
	}
	return &boundedConn{Conn: secure}, nil
}

// boundedConn gives a deadline to reads and writes that have none. kafka-go sets deadlines for both directions at once, or none.
type boundedConn struct {
	net.Conn
	set atomic.Bool
}

const maxSilence = 30 * time.Second

func (b *boundedConn) SetDeadline(t time.Time) error {
	b.set.Store(!t.IsZero())
	return b.Conn.SetDeadline(t)
}

func (b *boundedConn) SetReadDeadline(t time.Time) error {
	b.set.Store(!t.IsZero())
	return b.Conn.SetReadDeadline(t)
}

func (b *boundedConn) Read(p []byte) (int, error) {
	if !b.set.Load() {
		if err := b.Conn.SetReadDeadline(time.Now().Add(maxSilence)); err != nil {
			return 0, err
		}
	}
	return b.Conn.Read(p)
}

func (b *boundedConn) Write(p []byte) (int, error) {
	if !b.set.Load() {
		if err := b.Conn.SetWriteDeadline(time.Now().Add(maxSilence)); err != nil {
			return 0, err
		}
	}
	return b.Conn.Write(p)
}

func (c *Cluster) clientID() string {
	if c.ClientID == "" {
		return "nodetrail"
	}
	return c.ClientID
}

// dialFunc opens a connection; tests cut it off.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// transport returns a new pool of connections that asks for the metadata of the topics alone.
func (c *Cluster) transport(dial dialFunc, topics []string) *kafkago.Transport {
	return &kafkago.Transport{
		Dial: dial, DialTimeout: dialTimeout, IdleTimeout: 30 * time.Second,
		// The time-out of a look at the metadata, and twice the mean time between two.
		MetadataTTL: 4 * time.Second, MetadataTopics: topics,
		ClientID: c.clientID(), SASL: c.SASL.mechanism(),
	}
}

func (c *Cluster) dialer(dial dialFunc) *kafkago.Dialer {
	return &kafkago.Dialer{ClientID: c.clientID(), DialFunc: dial, Timeout: dialTimeout, SASLMechanism: c.SASL.mechanism()}
}
