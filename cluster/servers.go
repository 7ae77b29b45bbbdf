package cluster

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Each kube-apiserver renews a Lease of its own, which the garbage collector removes when it has been expired for an hour
// (pkg/controlplane/instance.go and controller/leasegarbagecollection upstream, on by default since 1.26).
const (
	serversNamespace = "kube-system"
	identityLabel    = "apiserver.kubernetes.io/identity"
	identityServer   = "kube-apiserver"
)

// Servers is the registry of API servers over time, by their identity Leases. It is safe for concurrent use.
type Servers struct {
	mu    sync.RWMutex
	lives map[string]*serverLife // by the Lease's name
	holes nodeauthz.Holes
	since int64 // from here on a Lease that was not seen does not exist; 0: never
}

// serverLife bounds are Unix nanoseconds; 0 where not known.
type serverLife struct {
	holder            string
	from, renewed, to int64
}

// ServerLife is what the state knows of one API server.
type ServerLife struct {
	// Name is its Lease's; Holder is the identity in it, which changes when the server starts again.
	Name, Holder string
	// From is when the Lease was made, Renewed the latest renewal that is known; To is when the Lease was deleted, zero if it is there. A Lease
	// outlives its server by an hour or two.
	From, Renewed, To time.Time
	// Unseen says that nobody watched for some time between Renewed and To: it may have been renewed then.
	Unseen bool
}

// Ended returns the time in which the server made its last renewal. It has an end if its Lease stays as it is while others are renewed up to newest, or was
// deleted before the eyes of somebody.
func (l *ServerLife) Ended(newest time.Time) (in Interval, ended bool) {
	switch {
	case l.Renewed.IsZero(), l.Unseen:
		return Interval{}, false
	case l.To.IsZero() && newest.Sub(l.Renewed) <= RenewalStep+time.Minute:
		return Interval{}, false
	}
	if !l.To.IsZero() && !l.Renewed.Equal(l.Renewed.Truncate(RenewalStep)) { // as the Lease had it when it was deleted
		return Interval{l.Renewed, l.Renewed}, true
	}
	return Interval{l.Renewed, l.Renewed.Add(RenewalStep)}, true
}

func newServers() *Servers { return &Servers{lives: map[string]*serverLife{}} }

func (s *Servers) set(name, holder string, from, renewed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lives[name]
	if l == nil {
		l = &serverLife{from: from}
		s.lives[name] = l
	}
	if renewed >= l.renewed {
		l.renewed, l.holder = renewed, holder
	}
	if from != 0 && (l.from == 0 || from < l.from) {
		l.from = from
	}
	if l.to != 0 && renewed > l.to { // made again under the same name, which is a hash of the host's
		l.to = 0
	}
}

func (s *Servers) remove(name string, at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lives[name]; l != nil {
		l.to = at
	}
}

func (s *Servers) coverFrom(t int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since == 0 || t < s.since {
		s.since = t
	}
}

// changeHoles calls f with the times in which nobody watched the Leases.
func (s *Servers) changeHoles(f func(*nodeauthz.Holes)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.holes)
}

func (s *Servers) prune(before int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holes.Prune(timeOf(before))
	for name, l := range s.lives {
		if l.to != 0 && l.to < before {
			delete(s.lives, name)
		}
	}
}

// Lives returns the API servers whose Leases were there at some instant of the interval, in order of their names, and whether the registry
// covers all of it: where it does not, there may have been others.
func (s *Servers) Lives(from, to time.Time) (lives []ServerLife, covered bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	begin, end := from.UnixNano(), to.UnixNano()
	for name, l := range s.lives {
		if l.from > end || l.to != 0 && l.to < begin {
			continue
		}
		life := ServerLife{Name: name, Holder: l.holder, From: timeOrZero(l.from), Renewed: timeOrZero(l.renewed), To: timeOrZero(l.to)}
		if l.to != 0 {
			_, life.Unseen = s.holes.Touch(life.Renewed, life.To)
		}
		lives = append(lives, life)
	}
	slices.SortFunc(lives, func(a, b ServerLife) int { return cmp.Compare(a.Name, b.Name) })
	_, unseen := s.holes.Touch(from, to)
	return lives, s.since != 0 && s.since <= begin && !unseen
}

func timeOrZero(ns int64) time.Time {
	if ns == 0 {
		return time.Time{}
	}
	return timeOf(ns)
}
