package cluster

import (
	"cmp"
	"slices"
	"time"
)

// SilentSince returns since when the condition Ready of the Node has been Unknown that is so at t, or was until at most so long before; zero if it was not. A Node that is
// deleted while it is Unknown stays so until there is one of its name again.
func (n *Nodes) SilentSince(name string, t time.Time, before time.Duration) (since time.Time) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	lives := n.lives[name]
	for i := range lives {
		l := &lives[i]
		at, ended := t.UnixNano(), int64(0)
		if i+1 < len(lives) {
			ended = lives[i+1].from
		}
		if l.from > at || ended != 0 && ended < at-int64(before) || !slices.ContainsFunc(l.ready, func(r readiness) bool { return r.silent }) {
			continue
		}
		for _, silent := range l.times(func(r readiness) bool { return r.silent }) {
			if !silent.From.After(t) && (silent.To.IsZero() || !silent.To.Before(t.Add(-before))) {
				since = silent.From
			}
		}
	}
	return since
}

// ordered are the states of the condition Ready in the order in which they were seen, each since when it was so. A kubelet's clock may be wrong: a state does not
// begin after it was seen, nor before the one that came before it. The end of Unknown is not before it was last seen so, and a watch shows it when it comes.
func (l *nodeLife) ordered() []readiness {
	out := make([]readiness, 0, len(l.ready))
	for _, r := range l.ready {
		// Of two transitions within a second, what was seen last is what it came to: a log that is read after a journal shows what was before.
		switch n := len(out); {
		case n == 0 || out[n-1].since != r.since || out[n-1].silent != r.silent:
			out = append(out, r)
		case r.seen >= out[n-1].seen:
			out[n-1] = r
		}
	}
	slices.SortStableFunc(out, func(a, b readiness) int { return cmp.Compare(cmp.Or(a.first, a.since), cmp.Or(b.first, b.since)) })
	for i := range out {
		r := &out[i]
		if r.first != 0 {
			r.since = min(r.since, r.first)
		}
		if i == 0 {
			continue
		}
		was := &out[i-1]
		if r.first != 0 && was.silent && !r.silent {
			if r.live {
				r.since = r.first
			}
			r.since = max(r.since, min(was.seen, r.first))
		}
		r.since = max(r.since, was.since)
	}
	return out
}

// times are those in which the condition Ready was so.
func (l *nodeLife) times(so func(readiness) bool) (out []Interval) {
	was := false
	for _, r := range l.ordered() {
		is := so(r)
		if is && !was {
			out = append(out, Interval{From: timeOf(r.since)})
		}
		if was && !is {
			out[len(out)-1].To = timeOf(r.since)
		}
		was = is
	}
	return out
}
