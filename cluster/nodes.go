package cluster

import (
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Nodes is the registry of Node objects over time. It is safe for concurrent use.
type Nodes struct {
	mu sync.RWMutex
	// lives are in order of their beginning, for each name.
	lives   map[string][]nodeLife
	byHost  map[string][]string // names by their first label, lower-case
	covered int64               // from here on a Node that was not seen does not exist; 0: never
	holes   nodeauthz.Holes
}

// nodeLife is the life of one Node object. Bounds are Unix nanoseconds; to is 0 while it lives.
type nodeLife struct {
	uid      string
	from, to int64
}

func newNodes() *Nodes {
	return &Nodes{lives: map[string][]nodeLife{}, byHost: map[string][]string{}}
}

// hostOf is the part of a name by which similar ones are found.
func hostOf(name string) string {
	host, _, _ := strings.Cut(name, ".")
	return strings.ToLower(host)
}

func (n *Nodes) set(name, uid string, at nodeauthz.Stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	lives := n.lives[name]
	if len(lives) == 0 {
		host := hostOf(name)
		if !slices.Contains(n.byHost[host], name) {
			n.byHost[host] = append(n.byHost[host], name)
		}
	}
	from := at.Time.UnixNano()
	for i := range lives {
		l := &lives[i]
		if l.uid == uid || uid == "" && l.to == 0 {
			l.from = min(l.from, from)
			return
		}
	}
	for i := range lives {
		if l := &lives[i]; l.to == 0 && l.from < from {
			l.to = from
		}
	}
	lives = append(lives, nodeLife{uid: uid, from: from})
	sort.SliceStable(lives, func(i, j int) bool { return lives[i].from < lives[j].from })
	n.lives[name] = lives
}

func (n *Nodes) remove(name, uid string, at nodeauthz.Stamp) {
	n.mu.Lock()
	defer n.mu.Unlock()
	end := at.Time.Add(at.Slop).UnixNano()
	for i := range n.lives[name] {
		if l := &n.lives[name][i]; (uid == "" || l.uid == "" || l.uid == uid) && (l.to == 0 || end < l.to) {
			l.to = end
		}
	}
}

func (n *Nodes) coverFrom(t int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.covered == 0 || t < n.covered {
		n.covered = t
	}
}

// changeHoles calls f with the times in which nobody watched Nodes.
func (n *Nodes) changeHoles(f func(*nodeauthz.Holes)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.holes)
}

func (n *Nodes) prune(before int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.holes.Prune(timeOf(before))
	for name, lives := range n.lives {
		kept := slices.DeleteFunc(lives, func(l nodeLife) bool { return l.to != 0 && l.to < before })
		if len(kept) > 0 {
			n.lives[name] = kept
			continue
		}
		delete(n.lives, name)
		host := hostOf(name)
		if rest := slices.DeleteFunc(n.byHost[host], func(o string) bool { return o == name }); len(rest) > 0 {
			n.byHost[host] = rest
		} else {
			delete(n.byHost, host)
		}
	}
}

// Known reports whether a Node object of this name existed at t, and whether the registry covers t: where it does not, the
// absence of a Node proves nothing.
func (n *Nodes) Known(name string, t time.Time) (exists, covered bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	at := t.UnixNano()
	for _, l := range n.lives[name] {
		if l.from <= at && (l.to == 0 || at < l.to) {
			exists = true
		}
	}
	_, unseen := n.holes.Touch(t, t)
	return exists, n.covered != 0 && at >= n.covered && !unseen
}

// Names returns the names of the Node objects that exist at t, in order.
func (n *Nodes) Names(t time.Time) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	at, out := t.UnixNano(), []string{}
	for name, lives := range n.lives {
		if slices.ContainsFunc(lives, func(l nodeLife) bool { return l.from <= at && (l.to == 0 || at < l.to) }) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// CreatedBetween reports whether a Node object of this name began its life after from and not after to.
func (n *Nodes) CreatedBetween(name string, from, to time.Time) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, l := range n.lives[name] {
		if l.from > from.UnixNano() && l.from <= to.UnixNano() {
			return true
		}
	}
	return false
}

// Ever reports whether a Node object of this name was ever seen.
func (n *Nodes) Ever(name string) bool {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return len(n.lives[name]) > 0
}

// Similarity says in what two node names differ.
type Similarity uint8

const (
	// SimilarCase says: equal but for the case of letters.
	SimilarCase Similarity = iota + 1
	// SimilarHost says: one is a host name, the other that host's full domain name (letter case aside).
	SimilarHost
)

// Similar returns a registered name that the given one was probably meant to be, the nearest first: equal but for letter case,
// or the host name of a full domain name, or the reverse. ok is false when there is none, or when the name itself is registered.
func (n *Nodes) Similar(name string) (registered string, how Similarity, ok bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if len(n.lives[name]) > 0 {
		return "", 0, false
	}
	for _, other := range n.byHost[hostOf(name)] {
		switch {
		case strings.EqualFold(other, name):
			return other, SimilarCase, true
		case strings.Contains(other, ".") == strings.Contains(name, "."):
		case !ok || other < registered:
			registered, how, ok = other, SimilarHost, true
		}
	}
	return registered, how, ok
}
