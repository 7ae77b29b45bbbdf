package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/conns"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// endpoint is a Server with somewhere to hand batches to.
type endpoint struct {
	*Server
	raw bool
	// needed is whether only what is needed is handed on.
	needed bool
	// take hands a part on. It returns nil when it is somebody else's.
	take     func(context.Context, *part) error
	stopping atomic.Bool
}

// retryAfter is the seconds that a sender is asked to wait. client-go tries up to ten times more, within the 30 seconds that
// kube-apiserver gives each of its own five attempts.
const retryAfter = 2

// ServeHTTP answers one request.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.counters.inFlight.Add(1)
	defer e.counters.inFlight.Add(-1)
	out := e.outcome(w, r)
	e.counters.requests[out].Add(1)
	h, answer := w.Header(), &answers[out]
	h.Set("X-Content-Type-Options", "nosniff")
	switch out {
	case unauthenticated, forbidden:
		if len(e.opt.BearerTokenFiles) > 0 && out == unauthenticated {
			h.Set("WWW-Authenticate", "Bearer")
		}
		e.log.Warn().Str("from", r.RemoteAddr).Int("status", answer.code).Msg("the webhook turned a sender away")
		// Its body is not read, not even to make the connection fit for another request.
		h.Set("Connection", "close")
		e.readUntil(w, time.Unix(1, 0))
	case busy, stopping:
		if r.ProtoMajor < 2 {
			// Over HTTP/1 a sender that is still sending would see a broken connection rather than the answer.
			e.discard(r.Body)
		}
	case noMethod:
		h.Set("Allow", http.MethodPost)
	case truncated, slow:
		h.Set("Connection", "close")
	}
	if answer.code == http.StatusTooManyRequests || answer.code == http.StatusServiceUnavailable {
		h.Set("Retry-After", strconv.Itoa(retryAfter))
	}
	if answer.code == http.StatusOK {
		return
	}
	http.Error(w, answer.text, answer.code)
}

// discarding are the buffers of bodies that nobody reads.
var discarding = sync.Pool{New: func() any { return new([minBuffer]byte) }}

// discard reads a body that was turned away.
func (e *endpoint) discard(r io.Reader) {
	buf := discarding.Get().(*[minBuffer]byte)
	defer discarding.Put(buf)
	for left := e.opt.MaxBodyBytes; left > 0; {
		n, err := r.Read(buf[:])
		if e.counters.bytes.Add(int64(n)); err != nil {
			return
		}
		left -= int64(n)
	}
}

// readUntil bounds how long the body may take from now on. A ResponseWriter that cannot do that has another server's bounds.
func (e *endpoint) readUntil(w http.ResponseWriter, deadline time.Time) {
	_ = http.NewResponseController(w).SetReadDeadline(deadline)
}

// outcome does all that a request asks for.
func (e *endpoint) outcome(w http.ResponseWriter, r *http.Request) outcome {
	received := time.Now()
	if out := e.creds.authenticate(r); out != proceed {
		return out
	}
	conns.Trust(r.Context())
	e.readUntil(w, received.Add(e.opt.BodyTimeout))
	switch {
	case r.URL.Path != e.opt.Path:
		return noPath
	case r.Method != http.MethodPost:
		return noMethod
	case e.stopping.Load():
		return stopping
	}
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	default:
		return busy
	}
	mine := &claim{budget: &e.budget}
	if !mine.await(r.Context(), r.ContentLength, e.opt.MaxBodyBytes) {
		return busy
	}
	b := e.newBody(mine)
	defer func() { b.end() }()
	spoilt, out := e.read(b, r)
	if out != proceed {
		return out
	}
	// The body is there; a deadline that passed now would look like a sender who has left.
	e.readUntil(w, time.Time{})
	ctx, cancel := context.WithDeadline(r.Context(), received.Add(e.opt.CommitTimeout))
	defer cancel()
	d := &delivery{e: e, body: b, received: received}
	if spoilt != nil {
		d.spoilt(*spoilt)
	} else {
		d.split(ctx)
	}
	out, err := d.finish(ctx)
	if err != nil && out != gone {
		e.log.Warn().Err(err).Str("outcome", answers[out].name).Msg("the webhook could not take a batch")
	}
	return out
}

// keptOfOversize is how much is kept of a body that is too long.
const keptOfOversize = 1 << 20

// drained is how many times its bound of a body is read: whoever is cut off while sending sees a broken connection rather than an answer, and sends
// all of it again.
const drained = 16

// read reads the body of a request, decompressed. Of a body that is longer than its bound each long event is reduced. It returns a letter if the body can
// never be of use, and an outcome other than proceed if it is not there.
func (e *endpoint) read(b *body, r *http.Request) (*source.Letter, outcome) {
	counting := &meter{r: r.Body, all: &e.counters.bytes}
	coding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	var plain io.Reader = counting
	if plainCoding(coding) && (r.ContentLength > e.opt.MaxBodyBytes || r.ContentLength < 0) {
		plain = e.shrink(counting)
	}
	size := int64(0)
	err := b.fill(plain, r.ContentLength, e.opt.MaxBodyBytes)
	if errors.Is(err, errTooLong) {
		if _, err = io.Copy(io.Discard, io.LimitReader(counting, drained*e.opt.MaxBodyBytes)); err == nil {
			size = max(counting.read, r.ContentLength)
		}
	}
	switch {
	case errors.Is(err, errNoRoom):
		return nil, busy
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, slow
	case err != nil:
		return nil, truncated
	case size > 0:
		return &source.Letter{
			Cause: fmt.Sprintf("body of %d bytes exceeds the bound of %d", size, e.opt.MaxBodyBytes),
			Data:  b.buf[:min(len(b.buf), keptOfOversize)], Size: size,
		}, proceed
	}
	switch coding {
	case "", "identity":
		return nil, proceed
	case "gzip", "x-gzip":
		return e.inflate(b)
	default:
		return &source.Letter{Cause: fmt.Sprintf("content encoding %.40q is not known", coding), Data: b.buf}, proceed
	}
}

func plainCoding(coding string) bool { return coding == "" || coding == "identity" }

// shrink reads a body with its long events reduced, and not more than so many times its bound.
func (e *endpoint) shrink(r io.Reader) io.Reader {
	const least = 16 << 10 // what is longer has to shrink when the others already took half of the body's room
	return &audit.Shrinker{
		R: io.LimitReader(r, drained*e.opt.MaxBodyBytes), MaxEvent: e.opt.MaxEventBytes, Least: least, Half: e.opt.MaxBodyBytes / 2,
	}
}

// inflate decompresses the body in its place. The letter of one that is damaged holds the bytes as they came.
func (e *endpoint) inflate(b *body) (*source.Letter, outcome) {
	plain := e.newBody(b.claim)
	defer plain.drop()
	z, err := gzip.NewReader(bytes.NewReader(b.buf))
	if err == nil {
		err = plain.fill(e.shrink(z), int64(len(b.buf))*4, e.opt.MaxBodyBytes)
	}
	switch {
	case errors.Is(err, errNoRoom):
		return nil, busy
	case errors.Is(err, errTooLong):
		return &source.Letter{Cause: fmt.Sprintf("body exceeds the bound of %d bytes when decompressed", e.opt.MaxBodyBytes), Data: b.buf}, proceed
	case err != nil:
		return &source.Letter{Cause: fmt.Sprintf("decompressing: %v", err), Data: b.buf}, proceed
	}
	b.buf, plain.buf = plain.buf, b.buf
	return nil, proceed
}

// meter counts the bytes read.
type meter struct {
	r    io.Reader
	all  *atomic.Int64 // of all requests
	read int64
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.all.Add(int64(n))
	m.read += int64(n)
	return n, err
}
