// Package http posts findings to an address, as a JSON array, as a batch of CloudEvents, or in the terms of OCSF; changes of incidents as
// CloudEvents, or as messages of an incoming webhook of Slack.
//
// What goes in: the findings of a queue; what comes out: one POST for each batch, which is delivered when the receiver answers 2xx. The
// package imports sinks and internal/credfile.
package http

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/credfile"
	"github.com/nodetrail/nodetrail/sinks"
)

// Options set a Sender up. Only Name and URL are needed.
type Options struct {
	Name, URL string
	// Format is JSON by default. Of CloudEvents a batch is application/cloudevents-batch+json; what else there is are arrays of application/json. Slack has
	// no arrays: a request is one message.
	Format sinks.Format
	// Pages is the address of nodetrail's pages, for links in messages of Slack. They have none if it is empty.
	Pages string
	// Headers are sent along.
	Headers map[string]string
	// Username is for basic authentication, with Password or what PasswordFile holds.
	Username, Password, PasswordFile string
	// BearerToken, or what BearerTokenFile holds, is sent as such. Files are read for each request.
	BearerToken, BearerTokenFile string
	// CAFile holds the authorities that may have signed the receiver's certificate, the system's if it is empty; ServerName is the name
	// that the certificate must have. CertFile and KeyFile are the client's own certificate, read for each connection.
	CAFile, ServerName, CertFile, KeyFile string
	// Timeout bounds one request, 10 s by default.
	Timeout time.Duration
	// UserAgent is the client's name, nodetrail by default.
	UserAgent string
}

// Sender posts to one address. Its methods may be called concurrently.
type Sender struct {
	o      Options
	client *http.Client
}

// New returns a Sender; nothing is sent yet.
func New(o Options) (*Sender, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("sink %s: its URL is not one of http or https", o.Name) // not quoted: it may hold a secret
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	if o.UserAgent == "" {
		o.UserAgent = "nodetrail"
	}
	conf, err := o.tls()
	if err != nil {
		return nil, fmt.Errorf("sink %s: %w", o.Name, err)
	}
	return &Sender{o: o, client: &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: sameReceiver,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, TLSClientConfig: conf, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 1, MaxConnsPerHost: 2,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: o.Timeout, MaxResponseHeaderBytes: 64 << 10,
		},
	}}, nil
}

func (o *Options) tls() (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: o.ServerName}
	var err error
	if o.CAFile != "" {
		if conf.RootCAs, err = credfile.Authorities(o.CAFile); err != nil {
			return nil, fmt.Errorf("reading the certificate authorities: %w", err)
		}
	}
	if o.CertFile != "" {
		if conf.GetClientCertificate, err = credfile.ClientCertificate(o.CertFile, o.KeyFile); err != nil {
			return nil, err
		}
	}
	return conf, nil
}

// sameReceiver follows a redirect only where the POST stays one, with its body, and where it goes to the same host by the same scheme: the
// credentials are not for others.
func sameReceiver(req *http.Request, via []*http.Request) error {
	const most = 3
	first := via[0]
	if len(via) > most || req.Method != first.Method || req.URL.Host != first.URL.Host || req.URL.Scheme != first.URL.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// Name is the sink's.
func (s *Sender) Name() string { return s.o.Name }

// Close drops idle connections.
func (s *Sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Send posts the findings. Where the receiver refuses a batch for good or finds it too large, its halves are tried by themselves, so that
// only what it refuses is lost.
func (s *Sender) Send(ctx context.Context, findings []sinks.Finding) error {
	n := len(findings)
	var p *sinks.PermanentError
	if s.o.Format != sinks.Slack || n == 1 {
		body, err := s.encode(findings)
		if err != nil {
			return sinks.Permanent(err)
		}
		if err = s.post(ctx, body); !errors.As(err, &p) || n < 2 {
			return err
		}
	}
	if n == 0 {
		return ctx.Err()
	}
	refused, why := 0, error(nil)
	for _, half := range [][]sinks.Finding{findings[:n/2], findings[n/2:]} {
		err := s.Send(ctx, half)
		switch {
		case err == nil:
		case errors.As(err, &p):
			why = p.Err
			if p.Refused == 0 {
				refused += len(half)
			}
			refused += p.Refused
		default:
			return err
		}
	}
	if refused == 0 {
		return nil
	}
	return &sinks.PermanentError{Err: why, Refused: refused}
}

func (s *Sender) encode(findings []sinks.Finding) ([]byte, error) {
	if s.o.Format == sinks.Slack {
		return s.o.Format.EncodeLinked(&findings[0], s.o.Pages)
	}
	b := []byte("[")
	for i := range findings {
		one, err := s.o.Format.Encode(&findings[i])
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, one...)
	}
	return append(b, ']'), nil
}

// Post posts a body of JSON that is already encoded, once. Its errors are those that Send returns.
func (s *Sender) Post(ctx context.Context, body []byte) error { return s.post(ctx, body) }

func (s *Sender) post(ctx context.Context, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL, bytes.NewReader(body))
	if err != nil {
		return errors.New("making the request: the URL is not valid")
	}
	for name, value := range s.o.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("User-Agent", s.o.UserAgent)
	req.Header.Set("Content-Type", "application/json")
	if s.o.Format == sinks.CloudEvents {
		req.Header.Set("Content-Type", "application/cloudevents-batch+json; charset=UTF-8")
	}
	if err := s.authenticate(req); err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // without the URL, whose query may hold a secret
		}
		return fmt.Errorf("posting findings: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	const most = 4 << 10
	said, _ := io.ReadAll(io.LimitReader(resp.Body, most)) // only for the message
	return judge(resp, said)
}

func (s *Sender) authenticate(req *http.Request) error {
	switch {
	case s.o.Username != "":
		password, err := secret(s.o.Password, s.o.PasswordFile)
		if err != nil {
			return err
		}
		req.SetBasicAuth(s.o.Username, password)
	case s.o.BearerToken != "" || s.o.BearerTokenFile != "":
		token, err := secret(s.o.BearerToken, s.o.BearerTokenFile)
		if err != nil {
			return err
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return errors.New("the bearer token holds characters that no token has")
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func secret(text, path string) (string, error) {
	if path == "" {
		return text, nil
	}
	b, err := credfile.Read(path)
	if err != nil {
		return "", fmt.Errorf("reading the sink's secret: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// judge turns an answer into what a queue understands. Answers that a change of the receiver or of credentials would mend are tried again.
func judge(resp *http.Response, said []byte) error {
	code := resp.StatusCode
	if code/100 == 2 {
		return nil
	}
	const most = 200
	quote := strings.ToValidUTF8(string(said[:min(most, len(said))]), "")
	err := fmt.Errorf("posting findings: the receiver answers %d %q", code, strings.TrimSpace(quote))
	switch code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusGone, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestURITooLong, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity,
		http.StatusRequestHeaderFieldsTooLarge:
		return sinks.Permanent(err)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after := retryAfter(resp.Header.Get("Retry-After")); after > 0 {
			return &sinks.RetryError{Err: err, After: after}
		}
	}
	return err
}

// retryAfter reads the header: seconds, or a date.
func retryAfter(s string) time.Duration {
	const most = 24 * 60 * 60
	if n, err := strconv.ParseUint(s, 10, 32); err == nil {
		return time.Duration(min(n, most)) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(time.Until(t), most*time.Second)
	}
	return 0
}
