package play

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/loopback"
)

// Lines writes events as lines, a batch at a time.
type Lines struct{ W io.Writer }

// Send implements Sink.
func (l Lines) Send(_ context.Context, events []Event) error {
	var buf bytes.Buffer
	for i := range events {
		buf.Write(events[i].JSON)
		buf.WriteByte('\n')
	}
	if _, err := l.W.Write(buf.Bytes()); err != nil {
		return fmt.Errorf("writing events: %w", err)
	}
	return nil
}

// WebhookOptions of a Webhook. The zero value of a field means its default.
type WebhookOptions struct {
	URL string
	// TokenFile holds a bearer token, read again for each request.
	TokenFile string
	// Client is what requests are made with; it must follow no redirects.
	Client *http.Client
	// Patience is how long a batch is offered to a server that is not there or has no room, 10 minutes by default.
	Patience time.Duration
	// Clock is the machine's by default.
	Clock Clock
	// Changed is called with the error when the server begins to fail, and with nil when it takes events again. Nil for nothing.
	Changed func(err error)
}

// Webhook posts events as EventLists, as kube-apiserver does to its audit webhook.
type Webhook struct {
	o     WebhookOptions
	fails bool // as Changed knows
}

// NewWebhook returns a Webhook, or what is wrong with the options.
func NewWebhook(o WebhookOptions) (*Webhook, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the webhook's address is not a URL of http or https")
	}
	if u.Scheme == "http" && (o.TokenFile != "" || u.User != nil) && !loopback.Host(u.Hostname()) {
		return nil, errors.New("a token goes over https only, or to this machine")
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	if o.Clock == nil {
		o.Clock = WallClock{}
	}
	return &Webhook{o: o}, nil
}

// Bounds of the time between two attempts, whatever a server asks for.
const (
	minPause = 200 * time.Millisecond
	maxPause = time.Minute
)

// Send implements Sink. It continues with a batch while the server answers 429 or 5xx or is not there, waiting as long as Retry-After says.
func (w *Webhook) Send(ctx context.Context, events []Event) error {
	body := eventList(events)
	deadline := w.o.Clock.Now().Add(w.o.Patience)
	for pause := minPause; ; pause = min(2*pause, maxPause/4) {
		after, err := w.post(ctx, body)
		var later *laterError
		retried := err != nil && ctx.Err() == nil && errors.As(err, &later)
		if (retried || err == nil) && retried != w.fails && w.o.Changed != nil {
			w.fails = retried
			w.o.Changed(err)
		}
		if !retried {
			return err
		}
		wait := pause/2 + rand.N(pause/2)
		if after > 0 {
			wait = min(after, maxPause)
		}
		now := w.o.Clock.Now()
		if now.Add(wait).After(deadline) {
			return fmt.Errorf("%w; tried for %s", err, w.o.Patience)
		}
		if err := w.o.Clock.Sleep(ctx, now.Add(wait)); err != nil {
			return err
		}
	}
}

// laterError is a failure that may pass.
type laterError struct{ err error }

func (e *laterError) Error() string { return e.err.Error() }
func (e *laterError) Unwrap() error { return e.err }

func eventList(events []Event) []byte {
	n := 100
	for i := range events {
		n += len(events[i].JSON) + 1
	}
	b := make([]byte, 0, n)
	b = append(b, `{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":[`...)
	for i := range events {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, events[i].JSON...)
	}
	return append(b, "]}\n"...)
}

// post makes one attempt. It returns how long the server wants to be left alone.
func (w *Webhook) post(ctx context.Context, body []byte) (time.Duration, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.o.URL, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("posting events: the address is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "nodetrail-play")
	if w.o.TokenFile != "" {
		token, err := os.ReadFile(w.o.TokenFile)
		if err != nil {
			return 0, fmt.Errorf("posting events: reading the token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	res, err := w.o.Client.Do(req)
	if err != nil {
		return 0, &laterError{fmt.Errorf("posting events: %w", err)}
	}
	defer func() { _ = res.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(res.Body, 512)) // for the message alone
	if res.StatusCode/100 == 2 {
		return 0, nil
	}
	err = fmt.Errorf("posting events: the webhook answered %s: %q", res.Status, bytes.TrimSpace(said))
	if res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500 {
		return retryAfter(res.Header.Get("Retry-After"), w.o.Clock.Now()), &laterError{err}
	}
	return 0, err
}

// retryAfter reads the header: seconds or a date. It is 0 if there is none.
func retryAfter(header string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(header); err == nil && n > 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	if t, err := http.ParseTime(header); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}
