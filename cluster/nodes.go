package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Nodes is the registry of Node objects over time. It is safe for concurrent use.
type Nodes struct {
	mu sync.RWMutex
	// lives are in order of their beginning, for each name.
	lives   map[string][]nodeLife
	byHost  map[string][]string     // names by their first label, lower-case
	located map[string][]string     // the addresses that a Node had at any time, host names included
	having  map[string][]string     // the Nodes of each of these addresses
	at      map[string][]addressSet // the addresses that a Node had at once, maxAddressSets at most: the first two, and the latest last
	young   map[string]struct{}     // the Nodes of whose latest ones moved does not know yet that they have settled
	covered int64                   // from here on a Node that was not seen does not exist; 0: never
	ended   int64                   // the addresses that a Node got later are not known; 0: they are
	holes   nodeauthz.Holes
}

// nodeLife is the life of one Node object. Bounds are Unix nanoseconds; to is 0 while it lives.
type nodeLife struct {
	uid      string
	from, to int64
	// own is its creation by its own timestamp, in whole seconds, and first is when it was first seen. from is the better one of both. 0: not known.
	own, first int64
	// ready is what the condition Ready was, in order of time, at most maxReadiness of them: the latest.
	ready []readiness
	// virtual says that it was last marked as a node without a kubelet.
	virtual bool
}

// maxReadiness bounds the transitions that are kept of one Node: one that flaps every ten minutes makes as many in a day.
const maxReadiness = 144

// see takes in what the condition Ready is.
func (l *nodeLife) see(r readiness) {
	if r.since == 0 {
		return
	}
	i, there := slices.BinarySearchFunc(l.ready, r, func(a, b readiness) int {
		return cmp.Or(cmp.Compare(a.since, b.since), before(a.silent, b.silent), before(a.ready, b.ready))
	})
	if there {
		was := &l.ready[i]
		was.seen = max(was.seen, r.seen)
		if r.first != 0 && (was.first == 0 || r.first < was.first) {
			was.first, was.live = r.first, r.live
		}
		return
	}
	l.ready = slices.Insert(l.ready, i, r)
	if len(l.ready) > maxReadiness {
		oldest := 0
		for i := range l.ready {
			if a, b := &l.ready[i], &l.ready[oldest]; cmp.Or(a.first, a.since) < cmp.Or(b.first, b.since) {
				oldest = i
			}
		}
		l.ready = slices.Delete(l.ready, oldest, oldest+1)
	}
}

// before compares so that what is true comes first.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// began takes in since when it was there. The object's own timestamp is cut off to the second: where it was seen at about that time, it was made then and
// not before.
func (l *nodeLife) began(at nodeauthz.Stamp) {
	best := &l.first
	if at.Source == nodeauthz.SourceObject {
		best = &l.own
	}
	if t := at.Time.UnixNano(); *best == 0 || t < *best {
		*best = t
	}
	l.from = l.first
	if l.first == 0 || l.own != 0 && l.first >= l.own+second+agreement {
		l.from = l.own
	}
}

// nearBirth is how much earlier than a watch an audit event may tell that a Node was made.
const nearBirth = int64(5 * time.Second)

// holds reports whether an object without a UID that was seen at t is this one: a journal that was loaded before may know already how it ended.
func (l *nodeLife) holds(t int64) bool { return l.to == 0 || l.from-nearBirth <= t && t < l.to }

func newNodes() *Nodes {
	return &Nodes{lives: map[string][]nodeLife{}, byHost: map[string][]string{}, located: map[string][]string{}, having: map[string][]string{}, at: map[string][]addressSet{}, young: map[string]struct{}{}}
}

// hostOf is the part of a name by which similar ones are found.
func hostOf(name string) string {
	host, _, _ := strings.Cut(name, ".")
	return strings.ToLower(host)
}

func (n *Nodes) set(name, uid string, at nodeauthz.Stamp, r readiness) {
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
		if l.uid == uid || uid == "" && l.holds(from) {
			l.began(at)
			l.see(r)
			return
		}
	}
	for i := range lives {
		if l := &lives[i]; l.to == 0 && l.from < from {
			l.to = from
		}
	}
	life := nodeLife{uid: uid}
	life.began(at)
	life.see(r)
	lives = append(lives, life)
	sort.SliceStable(lives, func(i, j int) bool { return lives[i].from < lives[j].from })
	n.lives[name] = lives
}

// mark says whether the Node is one without a kubelet, by its labels.
func (n *Nodes) mark(name, uid string, virtual bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range n.lives[name] {
		if l := &n.lives[name][i]; l.uid == uid {
			l.virtual = virtual
		}
	}
}

// locate says which addresses a Node has; the latest maxAddresses stay.
func (n *Nodes) locate(name string, addresses []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.located[name]
	for _, a := range addresses {
		if !slices.Contains(known, a) {
			known = append(known, a)
			n.having[a] = append(n.having[a], name)
		}
	}
	if len(known) > 0 {
		cut := max(0, len(known)-maxAddresses)
		n.lost(name, known[:cut])
		n.located[name] = slices.Clone(known[cut:])
	}
}

// addressSet is the addresses that a Node has at once, since a time in Unix nanoseconds.
type addressSet struct {
	since     int64
	addresses []string
}

const (
	// maxAddressSets bounds how many sets of addresses are kept of a Node: the first two, and the latest ones.
	maxAddressSets = 8
	// settles is how long a Node must have had its addresses until they count, but for the first that are known. Whoever holds a node's credential can write
	// them, the first ones, too. The node's own kubelet, or its cloud's controller, takes back within minutes what it did not write.
	settles = int64(10 * time.Minute)
)

// locateAll is locate with all addresses of the Node at an instant; created is when the Node was made, 0 where that is not known. What it had before is forgotten
// if it did not settle. Of the first ones, what comes next has to confirm them: what it does not is forgotten, unless it confirms nothing.
func (n *Nodes) locateAll(name string, addresses []string, at, created int64) {
	n.locate(name, addresses)
	if !slices.ContainsFunc(addresses, isAddress) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	sets := n.at[name]
	is := func(i int) bool { return i >= 0 && slices.Equal(sets[i].addresses, addresses) }
	last := len(sets) - 1
	if is(last) {
		return
	}
	if last > 0 && sets[last].brief(at) {
		sets = sets[:last]
		n.at[name] = sets
		if last--; is(last) {
			return
		}
	}
	since := at
	switch {
	case last < 0 && created != 0:
		since = min(at, created)
	case last == 0 && sets[0].brief(at):
		if both := common(addresses, sets[0].addresses); slices.ContainsFunc(both, isAddress) {
			if sets[0].addresses = both; is(0) {
				return
			}
		}
	}
	if len(sets) >= maxAddressSets {
		// The first two stay: what comes in place of the first would count from the first, and so for all the past.
		sets = slices.Delete(slices.Clone(sets), 2, 3)
	}
	n.at[name] = append(sets[:len(sets):len(sets)], addressSet{since, slices.Clone(addresses)})
	n.young[name] = struct{}{}
}

// brief reports whether the Node has had the addresses for too short a time at an instant.
func (s *addressSet) brief(at int64) bool { return at-s.since < settles }

// common are those of the addresses that others have, too, however they are written.
func common(addresses, others []string) []string {
	plain := func(s string) string {
		if a, ok := audit.PlainAddress(s); ok {
			return a.String()
		}
		return s
	}
	return slices.DeleteFunc(slices.Clone(addresses), func(a string) bool {
		return !slices.ContainsFunc(others, func(o string) bool { return plain(o) == plain(a) })
	})
}

// moved says that the clock by which Nodes got their addresses was behind by so much more than was known until now, the time at. How long they have had them is not
// longer for that.
func (n *Nodes) moved(by, at int64) {
	if by <= 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for name := range n.young {
		sets := n.at[name]
		if last := len(sets) - 1; last < 0 || !sets[last].brief(at-by) {
			delete(n.young, name)
			continue
		}
		for i := range sets {
			sets[i].since = max(sets[i].since, min(sets[i].since+by, at))
		}
	}
}

// isAddress reports whether an address of a Node is no host name.
func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// AddressSets are the addresses that Nodes of the name had at once and that had settled by t, host names included, the latest last. With the zero time those that
// it has by now count, settled or not. It is empty where the state holds no such Node. If other addresses took the place of the first ones before they had settled,
// nothing shows that the Node had these at once: each counts by itself. Until the others have settled, nothing shows which are the latest: the last set is empty.
func (n *Nodes) AddressSets(name string, t time.Time) [][]string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	sets := n.at[name]
	last := len(sets) - 1
	contested := last > 0 && sets[0].brief(sets[1].since) && !slices.ContainsFunc(common(sets[0].addresses, sets[1].addresses), isAddress)
	for ; last > 0 && !t.IsZero() && sets[last].brief(t.UnixNano()); last-- {
		sets = sets[:last] // a log that is read after the state is judged by what the Node had then: any number of sets may have come since
	}
	out := make([][]string, 0, len(sets))
	for i := range sets {
		if i > 0 || !contested {
			out = append(out, sets[i].addresses)
			continue
		}
		for _, a := range sets[0].addresses {
			if isAddress(a) {
				out = append(out, []string{a})
			}
		}
	}
	if contested && len(sets) == 1 {
		out = append(out, nil)
	}
	return out
}

// lost says that the Node is not known to have the addresses any more.
func (n *Nodes) lost(name string, addresses []string) {
	for _, a := range addresses {
		if rest := slices.DeleteFunc(n.having[a], func(o string) bool { return o == name }); len(rest) > 0 {
			n.having[a] = rest
		} else {
			delete(n.having, a)
		}
	}
}

// At returns the name of the Node that has or had the address; "" if there is none, or if there are several.
func (n *Nodes) At(address string) string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	if all := n.having[address]; len(all) == 1 {
		return all[0]
	}
	return ""
}

// Addresses are those that Nodes of the name have or had, host names included: a node asks for a certificate about when it reports a new address. It
// is empty where the state holds none.
func (n *Nodes) Addresses(name string) []string {
	n.mu.RLock()
	defer n.mu.RUnlock()
	return slices.Clone(n.located[name])
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
		n.lost(name, n.located[name])
		delete(n.located, name)
		delete(n.at, name)
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

// AddressesKnown reports whether the registry covers the addresses that Nodes had at t. Bodies in an audit log show those that a Node gets seldom, and never all of them.
func (n *Nodes) AddressesKnown(t time.Time) bool {
	_, covered := n.Known("", t)
	n.mu.RLock()
	defer n.mu.RUnlock()
	return covered && (n.ended == 0 || t.UnixNano() <= n.ended)
}

// addressesEnd says that nobody sees which addresses Nodes get after t.
func (n *Nodes) addressesEnd(t int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended = t
}

// Unseen returns the longest stretch of the time from one instant to another in which nobody watched Nodes.
func (n *Nodes) Unseen(from, to time.Time) (longest time.Duration) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	for _, h := range n.holes.All() {
		if h.To.IsZero() || h.To.After(to) {
			h.To = to
		}
		if h.From.Before(from) {
			h.From = from
		}
		longest = max(longest, h.To.Sub(h.From))
	}
	return longest
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

// NodeLife is the life of one Node object, as far as it is known.
type NodeLife struct {
	Name string
	// From and To bound it; To is zero while it lives.
	From, To time.Time
	// NotReady are the times in which the condition Ready was not True, in order; the last To is zero where that continues. A time of which the state
	// holds no condition is not among them.
	NotReady []Interval
	// Silent are those of them in which it was Unknown.
	Silent []Interval
	// Virtual says that its labels are those of virtual-kubelet or KWOK.
	Virtual bool
}

// Interval is a time from one instant on and before another; a zero To is open.
type Interval struct{ From, To time.Time }

// Lives returns the lives of Node objects that overlap the interval, in order of name and beginning.
func (n *Nodes) Lives(from, to time.Time) []NodeLife {
	n.mu.RLock()
	defer n.mu.RUnlock()
	var out []NodeLife
	for name, lives := range n.lives {
		for i := range lives {
			l := &lives[i]
			if l.from > to.UnixNano() || l.to != 0 && l.to < from.UnixNano() {
				continue
			}
			life := NodeLife{Name: name, From: timeOf(l.from), To: timeOrZero(l.to), Virtual: l.virtual}
			life.NotReady = l.times(func(r readiness) bool { return !r.ready })
			life.Silent = l.times(func(r readiness) bool { return r.silent })
			out = append(out, life)
		}
	}
	slices.SortFunc(out, func(a, b NodeLife) int { return cmp.Or(cmp.Compare(a.Name, b.Name), a.From.Compare(b.From)) })
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
