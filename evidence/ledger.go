package evidence

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// Bounds of a Ledger. What is beyond them is dropped and marked.
const (
	// MaxNodes, MaxServers and MaxSources bound the names of one hour.
	MaxNodes   = 20_000
	MaxServers = 64
	MaxSources = 256
	// MaxVersions bounds the versions of one API server in one hour.
	MaxVersions = 4
	// MaxHours bounds the hours: the latest are kept.
	MaxHours = 2400
	// MaxName bounds the length of a name, in bytes.
	MaxName = nodeid.MaxName
)

// Watch is a kind of object that every kubelet watches all the time.
type Watch uint8

// The kinds that every kubelet watches.
const (
	WatchPods Watch = iota
	WatchNodes
	WatchServices
	WatchCSIDrivers
	WatchRuntimeClasses
	// Watches is how many there are.
	Watches
)

// String returns the resource.
func (w Watch) String() string {
	return [...]string{"pods", "nodes", "services", "csidrivers", "runtimeclasses", "unknown"}[min(w, Watches)]
}

// Read is a kind of object that a kubelet reads by name, for its pods.
type Read uint8

// The kinds that kubelets read for their pods.
const (
	ReadSecrets Read = iota
	ReadConfigMaps
	// Reads is how many there are.
	Reads
)

// String returns the resource.
func (r Read) String() string { return [...]string{"secrets", "configmaps", "unknown"}[min(r, Reads)] }

// Long is a kind of watches of nodes that an audit policy may treat apart.
type Long uint8

// The kinds of watches: those that every kubelet keeps, those of secrets and of configmaps, and all others.
const (
	LongStanding Long = iota
	LongSecrets
	LongConfigMaps
	LongOther
	// Longs is how many there are.
	Longs
)

// String returns what is watched.
func (l Long) String() string {
	return [...]string{"pods, nodes, services, csidrivers and runtimeclasses", "secrets", "configmaps", "other resources", "unknown"}[min(l, Longs)]
}

// Act is a request that every kubelet makes for its Node or its pods.
type Act uint8

// The requests that kubelets make: the first for the Node, at least every five to ten minutes; one before each report of a pod's status; that report; one for
// each pod with a token when it starts; one when a pod has ended that is to go; and one for the Node, before each report of a kubelet before 1.31 and after a
// start that finds the Node there.
const (
	ActReportNode Act = iota
	ActGetPod
	ActReportPod
	ActCreateToken
	ActDeletePod
	ActGetNode
	// Acts is how many there are.
	Acts
)

// String returns the verb and the resource.
func (a Act) String() string {
	return [...]string{"patch nodes/status", "get pods", "patch pods/status", "create serviceaccounts/token", "delete pods", "get nodes", "unknown"}[min(a, Acts)]
}

// Coming is a request that brings a pod to a node, and that no node makes: NodeRestriction lets nodes make only the mirrors of static pods.
type Coming uint8

// The requests that bring pods: somebody makes the pod, and the scheduler binds it to a node unless it was made for one.
const (
	ComingMade Coming = iota
	ComingBound
	// Comings is how many there are.
	Comings
)

// String returns the verb and the resource.
func (c Coming) String() string {
	return [...]string{"create pods", "create pods/binding", "unknown"}[min(c, Comings)]
}

// mark is an entry's key and whether it changed since it was last handed out.
type mark struct {
	kind  Kind
	hour  Hour
	name  string
	dirty bool
}

// NodeHour is what the log shows of a node in an hour. It must not be changed.
type NodeHour struct {
	mark
	// Renewed are the slots in which the node renewed its own Lease.
	Renewed Slots
	// Watched are the parts of the hour in which a kubelet's watch of each kind was live.
	Watched [Watches]Parts
	// Read are the parts in which a kubelet read an object of each kind by name, whatever the answer.
	Read [Reads]Parts
	// Acted are the parts in which a kubelet made each of those requests, whatever the answer.
	Acted [Acts]Parts
	// Began are the parts in which the node asked for a watch of each kind of which the log has the beginning, Ended those in which it asked for one of which
	// the log has the end.
	Began, Ended [Longs]Laned
	// Owes are the parts in which a kubelet did what it does not do without ActGetNode.
	Owes Parts
	// Started are the parts in which the kubelet created its Node, answered 201 or 409; Joined those in which it was 201.
	Started, Joined Parts
	// Foreign are the parts in which another identity renewed the node's Lease.
	Foreign Parts
	// First and Last are the seconds of the hour, counted from 1, of the node's first and last request; 0 for none.
	First, Last uint16
}

// ServerHour is what the log shows of an API server in an hour, by its identity Lease. It must not be changed.
type ServerHour struct {
	mark
	// Renewed are the slots in which the server renewed its Lease; Started those in which it looked for it, which it does when it starts.
	Renewed, Started Slots
	// Versions are those that its user agent said, in order, such as v1.36.3. ManyVersions says that there were more than MaxVersions.
	Versions     []string
	ManyVersions bool
}

// SourceHour is what the log of one source shows of authorization in an hour. It must not be changed.
//
// ByNode, ByRBAC, ByOther and Refused are about renewals of a node's own Lease, which the Node authorizer always allows: who else decided shows
// that Node is not asked first. So do ByRBAC and Refused of any other request that it always allows.
type SourceHour struct {
	mark
	// Requests are the parts with any answered request of a node, Undecided those in which a node renewed its own Lease and the event has no decision.
	Requests, Undecided              Parts
	ByNode, ByRBAC, ByOther, Refused Parts
	// Came are the parts in which somebody who is no node made each of those requests.
	Came [Comings]Parts
	// Reviewed are the parts in which somebody asked for a review of what another user may do, whose body tells who and what. What kubelets and other programs of
	// Kubernetes' own ask is known.
	Reviewed Parts
	// Pods are the pods for which kubelets did something.
	Pods Pods
}

// Pods is a set of acts of kubelets for pods. It is approximate: it may have one that nobody did, and does so the more often the more are in it.
type Pods [128]uint64

// place returns where an act for a pod stands.
func (p *Pods) place(act Act, namespace, name string) (word *uint64, bit uint64) {
	h := hashOffset
	for _, s := range [...]string{act.String(), namespace, name} {
		h = hashed(h, s) * hashPrime // between two, as after a zero byte
	}
	h ^= h >> 32
	return &p[h%uint64(len(p))], 1 << (h >> 16 % 64)
}

func (p *Pods) add(act Act, namespace, name string) bool {
	word, bit := p.place(act, namespace, name)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

// Overflow says which names of an hour were dropped.
type Overflow uint8

// What may have been dropped.
const (
	OverNodes Overflow = 1 << iota
	OverServers
	OverSources
	// overNames says in records of former releases that a name was too long. It is no name of a Node or an API server, so that nothing was lost.
	overNames
	allOverflow = OverNodes | OverServers | OverSources
)

// book is one hour.
type book struct {
	mark
	nodes    map[string]*NodeHour
	servers  map[string]*ServerHour
	sources  map[string]*SourceHour
	overflow Overflow
	last     *SourceHour // the one that was asked for last
}

// limits bound a Ledger.
type limits struct{ nodes, servers, sources, hours int }

// Ledger is the evidence of a log. Make one with [New].
type Ledger struct {
	books   map[Hour]*book
	names   map[string]string // each node's name once
	dropped mark              // the latest hour that was dropped; dropping says whether there is one
	drops   bool
	changed []*mark
	max     limits
	last    *book // the one that was asked for last
	scratch []byte
}

// New returns a Ledger without anything in it.
func New() *Ledger { return newLimited(limits{MaxNodes, MaxServers, MaxSources, MaxHours}) }

func newLimited(most limits) *Ledger {
	return &Ledger{books: map[Hour]*book{}, names: map[string]string{}, dropped: mark{kind: KindDropped}, max: most}
}

// touch notes that an entry changed.
func (l *Ledger) touch(m *mark) {
	if !m.dirty {
		m.dirty = true
		l.changed = append(l.changed, m)
	}
}

// book returns the entries of an hour, nil if the hour is earlier than those that are kept.
func (l *Ledger) book(h Hour) *book {
	if l.last != nil && l.last.hour == h {
		return l.last
	}
	b := l.books[h]
	if b == nil {
		if l.drops && h <= l.dropped.hour {
			return nil
		}
		b = &book{
			mark: mark{kind: KindOverflow, hour: h}, nodes: map[string]*NodeHour{}, servers: map[string]*ServerHour{}, sources: map[string]*SourceHour{},
		}
		l.books[h] = b
		if len(l.books) > l.max.hours {
			l.drop(slices.Min(slices.Collect(maps.Keys(l.books))))
			if l.books[h] == nil {
				return nil
			}
		}
	}
	l.last = b
	return b
}

// drop forgets all hours up to h, and says so.
func (l *Ledger) drop(h Hour) {
	if !l.drops || h > l.dropped.hour {
		l.drops, l.dropped.hour = true, h
		l.touch(&l.dropped)
	}
	l.Forget(h + 1)
}

// Forget forgets the hours before h, as if they had never been.
func (l *Ledger) Forget(before Hour) {
	maps.DeleteFunc(l.books, func(h Hour, _ *book) bool { return h < before })
	l.last = nil
	l.changed = slices.DeleteFunc(l.changed, func(m *mark) bool { return m != &l.dropped && m.hour < before })
}

// Dropped returns the latest hour that was dropped because there were more than MaxHours; ok is false if none was.
func (l *Ledger) Dropped() (h Hour, ok bool) { return l.dropped.hour, l.drops }

// overflows marks that something of the hour was dropped.
func (l *Ledger) overflows(b *book, o Overflow) {
	if b.overflow&o != o {
		b.overflow |= o
		l.touch(&b.mark)
	}
}

// node returns the entry of a node, nil for a name that no Node can have: no check asks for it, and whoever has a certificate for such a name costs no proof.
func (l *Ledger) node(b *book, name string) *NodeHour {
	n := b.nodes[name]
	if n != nil || !nodeid.CanBeName(name) {
		return n
	}
	own, ok := l.names[name]
	if !ok {
		if len(l.names) >= 4*l.max.nodes {
			clear(l.names) // it saves memory and means nothing
		}
		own = strings.Clone(name)
		l.names[own] = own
	}
	n = &NodeHour{mark: mark{kind: KindNode, hour: b.hour, name: own}}
	b.nodes[own] = n
	if len(b.nodes) > l.max.nodes {
		l.overflows(b, OverNodes)
		trim(b.nodes, l.max.nodes, 2)
	}
	return n
}

// server is as node: names of Leases have the form of those of Nodes.
func (l *Ledger) server(b *book, name string) *ServerHour {
	s := b.servers[name]
	if s != nil || !nodeid.CanBeName(name) {
		return s
	}
	s = &ServerHour{mark: mark{kind: KindServer, hour: b.hour, name: strings.Clone(name)}}
	b.servers[s.name] = s
	if len(b.servers) > l.max.servers {
		l.overflows(b, OverServers)
		trim(b.servers, l.max.servers, 2)
	}
	return s
}

// source is as node; the empty name stands for all sources where they are not distinguished.
func (l *Ledger) source(b *book, name string) *SourceHour {
	if b.last != nil && b.last.name == name {
		return b.last
	}
	s := b.sources[name]
	if s == nil {
		if len(name) > MaxName {
			l.overflows(b, OverSources)
			return nil
		}
		s = &SourceHour{mark: mark{kind: KindSource, hour: b.hour, name: strings.Clone(name)}}
		b.sources[s.name] = s
		if len(b.sources) > l.max.sources {
			l.overflows(b, OverSources)
			trim(b.sources, l.max.sources, 2)
		}
	}
	b.last = s
	return s
}

// trim keeps the first names once there are slack times as many: names beyond those can never be among the first again.
func trim[V any](all map[string]V, most, slack int) {
	if len(all) <= most*slack {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(all))[most:] {
		delete(all, name)
	}
}

// settle drops what is beyond the bounds, so that the result does not depend on the order of arrival.
func (l *Ledger) settle() {
	for _, b := range l.books {
		trim(b.nodes, l.max.nodes, 1)
		trim(b.servers, l.max.servers, 1)
		trim(b.sources, l.max.sources, 1)
		b.last = nil
	}
}

// Node returns what is known of a node in an hour, nil for nothing.
func (l *Ledger) Node(name string, h Hour) *NodeHour {
	if b := l.books[h]; b != nil {
		return b.nodes[name]
	}
	return nil
}

// Server returns what is known of an API server in an hour, nil for nothing.
func (l *Ledger) Server(name string, h Hour) *ServerHour {
	if b := l.books[h]; b != nil {
		return b.servers[name]
	}
	return nil
}

// Source returns what is known of a source in an hour, nil for nothing.
func (l *Ledger) Source(name string, h Hour) *SourceHour {
	if b := l.books[h]; b != nil {
		return b.sources[name]
	}
	return nil
}

// DidFor reports whether a kubelet did something for a pod in the hours from first to last, as far as is known: see [Pods].
func (l *Ledger) DidFor(act Act, namespace, name string, first, last Hour) bool {
	for h := first; h <= last; h++ {
		b := l.books[h]
		if b == nil {
			continue
		}
		if b.overflow&OverSources != 0 {
			return true
		}
		for _, s := range b.sources {
			if word, bit := s.Pods.place(act, namespace, name); *word&bit != 0 {
				return true
			}
		}
	}
	return false
}

// Reviewed reports whether somebody asked for a review of access in one of the parts of hours from one time to another.
func (l *Ledger) Reviewed(from, to time.Time) bool {
	return l.anySource(from, to, func(s *SourceHour) Parts { return s.Reviewed })
}

// Came reports whether somebody who is no node made such a request in one of the parts of hours from one time to another.
func (l *Ledger) Came(c Coming, from, to time.Time) bool {
	return l.anySource(from, to, func(s *SourceHour) Parts { return s.Came[c] })
}

// anySource reports whether one of the parts of hours from one time to another is in the sets that of chooses.
func (l *Ledger) anySource(from, to time.Time, of func(*SourceHour) Parts) bool {
	for at := from.Truncate(PartLength); !at.After(to); at = at.Add(PartLength) {
		b := l.books[HourOf(at)]
		if b == nil {
			continue
		}
		for _, s := range b.sources {
			if of(s).Has(at) {
				return true
			}
		}
	}
	return false
}

// Overflow says what was dropped of an hour.
func (l *Ledger) Overflow(h Hour) Overflow {
	if b := l.books[h]; b != nil {
		return b.overflow
	}
	return 0
}

// Nodes returns the names of the nodes that made requests, or whose Lease was renewed, in the hours from first to last, in order.
func (l *Ledger) Nodes(first, last Hour) []string {
	return namesOf(l, first, last, func(b *book) iter.Seq[string] { return maps.Keys(b.nodes) })
}

// Servers returns the names of the API servers' identity Leases of those hours, in order.
func (l *Ledger) Servers(first, last Hour) []string {
	return namesOf(l, first, last, func(b *book) iter.Seq[string] { return maps.Keys(b.servers) })
}

// Sources returns the names of the sources of those hours, in order.
func (l *Ledger) Sources(first, last Hour) []string {
	return namesOf(l, first, last, func(b *book) iter.Seq[string] { return maps.Keys(b.sources) })
}

func namesOf(l *Ledger, first, last Hour, of func(*book) iter.Seq[string]) []string {
	all := map[string]struct{}{}
	for h, b := range l.books {
		if h >= first && h <= last {
			for name := range of(b) {
				all[name] = struct{}{}
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func compareMarks(a, b *mark) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.hour, b.hour), cmp.Compare(a.name, b.name))
}
