package web

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/credfile"
	"github.com/nodetrail/nodetrail/internal/loopback"
)

// Access says who may read the pages. Each way is enough by itself; where there is none, requests must come from this machine.
type Access struct {
	// TokenFile holds bearer tokens, one a line, at least 16 bytes each.
	TokenFile string
	// CertFile and KeyFile make [Server.TLS]; without them there is none.
	CertFile, KeyFile string
	// ClientCAFile has the authorities of clients' certificates; ClientNames are common names, DNS names or URIs of which they must have one.
	ClientCAFile string
	ClientNames  []string
	// Reload is how often to look whether the files have changed, 10 s by default.
	Reload time.Duration
	// Review says whether who bears a token may read the pages, and who it is; nil if nobody can say. It may be called concurrently.
	Review func(ctx context.Context, token string) (user string, allowed bool, err error)
}

// LocalOnly reports whether requests must come from this machine.
func (a *Access) LocalOnly() bool {
	return a.TokenFile == "" && a.ClientCAFile == "" && a.Review == nil
}

// Bounds of who has not shown yet who it is.
const (
	// maxTries is how many wrong tokens are answered at the same time, each after slowly.
	maxTries = 4
	slowly   = time.Second
	// maxReviews is how many tokens the cluster is asked about at the same time, reviewWithin how long that may take.
	maxReviews   = 8
	reviewWithin = 10 * time.Second
)

// access lets requests in.
type access struct {
	o        *Access
	files    *files
	sessions *sessions
	tries    chan struct{}
	reviews  chan struct{}
	slowly   time.Duration
	refused  [entries]atomic.Int64
	log      zerolog.Logger
}

func newAccess(o *Access, now func() time.Time, log zerolog.Logger) (*access, error) {
	f, err := newFiles(o, now, log)
	if err != nil {
		return nil, err
	}
	return &access{
		o: o, files: f, sessions: newSessions(now), tries: make(chan struct{}, maxTries), reviews: make(chan struct{}, maxReviews), slowly: slowly, log: log,
	}, nil
}

// entry is how a request was let in, or why it was not.
type entry uint8

const (
	letIn entry = iota
	notLocal
	notKnown   // who asks has shown nothing that could be known
	wrongToken // a token that is nobody's
	notAllowed // known, and not allowed
	tooMany    // too many wrong tokens at once
	notNow     // nobody can say now
	entries
)

// refusals are the names of the entries in Stats.
var refusals = [entries]string{
	notLocal: "not_local", notKnown: "no_credentials", wrongToken: "wrong_token", notAllowed: "forbidden", tooMany: "too_many", notNow: "unavailable",
}

// refuse counts a request that was not let in, and is e.
func (a *access) refuse(e entry) entry {
	if e != letIn {
		a.refused[e].Add(1)
	}
	return e
}

// Stats is what a Server has done about who may read since it was made.
type Stats struct {
	// Refused counts the requests that were not let in, by why. The keys are always the same: wrong_token, no_credentials (as of each browser
	// before it has signed in), forbidden, not_local, too_many (wrong tokens at once), and unavailable (the cluster cannot be asked).
	Refused map[string]int64
	// ReloadFailures counts the looks at the files of credentials that found something broken.
	ReloadFailures int64
	// CertificateExpires is when the server's certificate ends, zero without TLS.
	CertificateExpires time.Time
}

// Stats may be called at any time.
func (s *Server) Stats() Stats {
	out := Stats{Refused: map[string]int64{}, CertificateExpires: s.access.files.current().expires, ReloadFailures: s.access.files.failures.Load()}
	for e := letIn + 1; e < entries; e++ {
		out.Refused[refusals[e]] = s.access.refused[e].Load()
	}
	return out
}

// enter says whether a request may be answered, and counts it if not.
func (a *access) enter(r *http.Request) entry { return a.refuse(a.look(r)) }

func (a *access) look(r *http.Request) entry {
	if a.o.LocalOnly() {
		if loopback.Request(r) {
			return letIn
		}
		return notLocal
	}
	if a.o.ClientCAFile != "" && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		switch known, allowed := a.files.knowsCertificate(r.TLS.PeerCertificates); {
		case allowed:
			return letIn
		case known:
			return notAllowed
		}
	}
	if len(r.Header.Values("Authorization")) > 0 {
		token := credfile.Bearer(r.Header)
		if token == "" {
			return notKnown
		}
		return a.try(r, token)
	}
	if token, ok := a.sessions.of(r); ok {
		if e := a.token(r.Context(), token); e != wrongToken {
			return e
		}
		// It was good when the session began, so that it is no guess.
	}
	return notKnown
}

// token says whether a token may enter.
func (a *access) token(ctx context.Context, token string) entry {
	if a.files.knowsToken(token) {
		return letIn
	}
	if a.o.Review == nil {
		return wrongToken
	}
	select {
	case a.reviews <- struct{}{}:
		defer func() { <-a.reviews }()
	default:
		return tooMany
	}
	ctx, stop := context.WithTimeout(ctx, reviewWithin)
	defer stop()
	switch user, allowed, err := a.o.Review(ctx, token); {
	case err != nil:
		a.log.Warn().Err(err).Msg("the cluster cannot be asked who may read the pages")
		return notNow
	case allowed:
		return letIn
	case user != "":
		return notAllowed
	}
	return wrongToken
}

// try is token for one that may be a guess: what is wrong is answered late, and few at a time.
func (a *access) try(r *http.Request, token string) entry {
	ctx, from := r.Context(), r.RemoteAddr
	if a.files.knowsToken(token) {
		return letIn
	}
	select {
	case a.tries <- struct{}{}:
		defer func() { <-a.tries }()
	default:
		return tooMany
	}
	e := a.token(ctx, token)
	if e != wrongToken {
		return e
	}
	a.log.Warn().Str("from", from).Int64("failures", a.refused[wrongToken].Load()+1).Msg("a token was refused that nobody has")
	timer := time.NewTimer(a.slowly)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return e
}

// status is the answer to who is not let in.
func (e entry) status() (int, string) {
	switch e {
	case notLocal:
		return http.StatusForbidden, "these pages are for requests from the same machine, by the name localhost or its address; other access needs a token, a certificate or Kubernetes (the section pages of the configuration)"
	case notAllowed:
		return http.StatusForbidden, "you are known and have no access to these pages"
	case tooMany:
		return http.StatusTooManyRequests, "too many tokens are being tried; come again in a moment"
	case notNow:
		return http.StatusServiceUnavailable, "nobody can say now whether this token is good"
	}
	return http.StatusUnauthorized, "this needs a bearer token or a client certificate"
}

// signIn takes the token of the form, and gives a session for it.
func (a *access) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		answerError(w, http.StatusBadRequest, "the form cannot be read")
		return
	}
	next := r.PostForm.Get("next")
	if !localPath(next) || strings.ContainsFunc(next, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		next = "/"
	}
	token := strings.TrimSpace(r.PostForm.Get("token"))
	e := wrongToken
	if token != "" && len(token) <= credfile.MaxToken {
		e = a.try(r, token)
	}
	switch a.refuse(e) {
	case letIn:
		a.sessions.begin(w, r, token)
		redirect(w, next)
	case wrongToken:
		redirect(w, "/login?failed=1&next="+url.QueryEscape(next))
	default:
		code, say := e.status()
		answerError(w, code, say)
	}
}

// redirect leads to another page of this server by GET.
func redirect(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// TLS is the configuration of a listener for the pages; nil without a certificate.
func (s *Server) TLS() *tls.Config { return s.access.files.serverTLS() }

// Check refuses to listen at an address that others reach, if anybody could read the pages there.
func (a *Access) Check(address string) error {
	switch {
	case loopback.Address(address):
		return nil
	case a.LocalOnly():
		return fmt.Errorf("%s can be reached from other machines: give a bearer token, client certificates or Kubernetes' word on who may read the pages, or listen on 127.0.0.1", address)
	case a.CertFile == "":
		return fmt.Errorf("%s can be reached from other machines: give a certificate, or listen on 127.0.0.1", address)
	}
	return nil
}
