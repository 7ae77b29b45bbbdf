package plane

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Identity is who asks: a user name with groups, of which a certificate is made; the holder of a certificate that there is; or the bearer of a token.
// Without any of these nobody in particular asks.
type Identity struct {
	User   string
	Groups []string
	Token  string
	Held   *Pair
	// From is the address that connections come from; empty for whichever the system takes.
	From string
}

// NodeIdentity is that of a kubelet.
func NodeIdentity(node string) Identity {
	return Identity{User: "system:node:" + node, Groups: []string{"system:nodes"}}
}

// transports keeps connections, one set for each identity, as certificates belong to connections.
type transports struct {
	plane  *Plane
	mu     sync.Mutex
	byUser map[string]*http.Transport
}

func (t *transports) of(id Identity) (*http.Transport, error) {
	key := id.From + "\x00" + id.User + "\x00" + strings.Join(id.Groups, "\x00")
	if id.Held != nil {
		key = id.From + "\x00" + string(id.Held.Cert)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if tr := t.byUser[key]; tr != nil {
		return tr, nil
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(t.plane.CA.PEM)
	config := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	pair := id.Held
	if pair == nil && id.User != "" {
		made, err := t.plane.CA.Client(id.User, id.Groups...)
		if err != nil {
			return nil, err
		}
		pair = &made
	}
	if pair != nil {
		cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			return nil, fmt.Errorf("reading a certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	tr := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 4, DialContext: dialerFrom(id.From).DialContext}
	t.byUser[key] = tr
	return tr, nil
}

func (t *transports) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, tr := range t.byUser {
		tr.CloseIdleConnections()
	}
}

// Reconnect has the next requests come over new connections, as far as those that there are have nothing to do.
func (p *Plane) Reconnect() { p.transports.closeIdle() }

// Client asks the API server as somebody.
type Client struct {
	plane *Plane
	id    Identity
	// Agent is the User-Agent.
	Agent string
	// actAs is the user that is impersonated, and the groups.
	actAs  string
	groups []string
}

// As returns a client with a kubelet's user agent.
func (p *Plane) As(id Identity) *Client {
	return &Client{plane: p, id: id, Agent: "kubelet/" + p.Programs.Kubernetes + " (linux/amd64) kubernetes/e2e"}
}

// Node returns a client with a node's certificate.
func (p *Plane) Node(name string) *Client { return p.As(NodeIdentity(name)) }

// Admin returns a client that may do everything.
func (p *Plane) Admin() *Client {
	return p.As(Identity{User: "admin", Groups: []string{"system:masters"}}).With("kubectl/" + p.Programs.Kubernetes)
}

// With returns the client with another user agent.
func (c *Client) With(agent string) *Client {
	d := *c
	d.Agent = agent
	return &d
}

// Acting returns the client impersonating a user, with the groups.
func (c *Client) Acting(user string, groups ...string) *Client {
	d := *c
	d.actAs, d.groups = user, groups
	return &d
}

// Reply is the API server's answer.
type Reply struct {
	Code int
	Body []byte
	// AuditID is the request's, which the client chose.
	AuditID string
	// Sent and Got are when the request went out and the answer had come.
	Sent, Got time.Time
}

// Do sends a request with an audit ID of its own. body is marshalled; that of a PATCH is a merge patch. Refusals are no errors.
func (c *Client) Do(ctx context.Context, method, path string, body any) (*Reply, error) {
	contentType := "application/json"
	if method == http.MethodPatch {
		contentType = "application/merge-patch+json"
	}
	return c.send(ctx, method, path, contentType, body)
}

func (c *Client) send(ctx context.Context, method, path, contentType string, body any) (*Reply, error) {
	var b []byte
	switch body := body.(type) {
	case nil:
	case []byte:
		b = body
	default:
		var err error
		if b, err = json.Marshal(body); err != nil {
			return nil, fmt.Errorf("writing the body of %s %s: %w", method, path, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "https://"+c.plane.Address+path, bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	r := &Reply{AuditID: newUUID(), Sent: time.Now()}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.Agent)
	req.Header.Set("Audit-ID", r.AuditID)
	if c.id.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.id.Token)
	}
	if c.actAs != "" {
		req.Header.Set("Impersonate-User", c.actAs)
		req.Header["Impersonate-Group"] = c.groups
	}
	tr, err := c.plane.transports.of(c.id)
	if err != nil {
		return nil, err
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	defer resp.Body.Close()
	r.Code = resp.StatusCode
	if r.Body, err = io.ReadAll(resp.Body); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	r.Got = time.Now()
	return r, nil
}

// Get reads an object, and any answer but 200 is an error.
func (c *Client) Get(ctx context.Context, path string, to any) error {
	r, err := c.Do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	if r.Code != http.StatusOK {
		return fmt.Errorf("GET %s: %d %.300s", path, r.Code, r.Body)
	}
	return json.Unmarshal(r.Body, to)
}

// Must sends a request that has to succeed.
func (c *Client) Must(ctx context.Context, method, path string, body any) (*Reply, error) {
	r, err := c.Do(ctx, method, path, body)
	if err == nil && (r.Code < 200 || r.Code > 299) {
		err = fmt.Errorf("%s %s: %d %.500s", method, path, r.Code, r.Body)
	}
	return r, err
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Post creates something, and any refusal is an error.
func (c *Client) Post(ctx context.Context, path string, body, to any) error {
	r, err := c.Must(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(r.Body, to)
}
