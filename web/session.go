package web

import (
	"crypto/rand"
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

const (
	// sessionFor is how long somebody who signed in is known.
	sessionFor = 12 * time.Hour
	// maxSessions bounds them; of more the oldest end.
	maxSessions = 1000
	// cookieName is the session's; over TLS with the prefix that binds it to this host.
	cookieName = "nodetrail_session"
)

// sessions are those who signed in with a token. A session is good as long as its token is: what the session holds is the token, and it is
// checked for each request. They end with the process.
type sessions struct {
	now func() time.Time

	mu  sync.Mutex
	all map[[sha256.Size]byte]session // by the hash of what the cookie holds
}

type session struct {
	token string
	ends  time.Time
}

func newSessions(now func() time.Time) *sessions {
	return &sessions{now: now, all: map[[sha256.Size]byte]session{}}
}

func cookieOf(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-" + cookieName
	}
	return cookieName
}

// begin gives a session for the token.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request, token string) {
	id := rand.Text() + rand.Text()
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, one := range s.all {
		if !now.Before(one.ends) {
			delete(s.all, k)
		}
	}
	for len(s.all) >= maxSessions {
		var oldest [sha256.Size]byte
		ends := time.Time{}
		for k, one := range s.all {
			if ends.IsZero() || one.ends.Before(ends) {
				oldest, ends = k, one.ends
			}
		}
		delete(s.all, oldest)
	}
	s.all[sha256.Sum256([]byte(id))] = session{token, now.Add(sessionFor)}
	http.SetCookie(w, s.cookie(r, id, int(sessionFor/time.Second)))
}

func (s *sessions) cookie(r *http.Request, value string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieOf(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	}
}

// of is the token of the request's session.
func (s *sessions) of(r *http.Request) (string, bool) {
	c, err := r.Cookie(cookieOf(r))
	if err != nil {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	one, there := s.all[sha256.Sum256([]byte(c.Value))]
	if !there || !s.now().Before(one.ends) {
		return "", false
	}
	return one.token, true
}

// end forgets the request's session.
func (s *sessions) end(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(cookieOf(r)); err == nil {
		s.mu.Lock()
		delete(s.all, sha256.Sum256([]byte(c.Value)))
		s.mu.Unlock()
	}
	http.SetCookie(w, s.cookie(r, "", -1))
}
