package nodeadmission

import (
	"iter"
	"maps"
	"slices"
	"sync"
	"time"
)

// Kind is a kind of object that a Store remembers.
type Kind uint8

// The kinds of a Store.
const (
	KindPod Kind = iota
	KindNode
	KindClaim
	KindVolume
	KindDriver
	KindServiceAccount
	KindSlice
	kinds
)

// Moment is when a change happened: at Time or up to Slop later.
type Moment struct {
	Time time.Time
	Slop time.Duration
}

// Claim is what the plugin reads of a persistent volume claim.
type Claim struct {
	// Volume is the name of the volume, empty as long as there is none.
	Volume string
	// Object is the whole claim as JSON without managed fields; nil if it is not known.
	Object []byte
}

// Store remembers what the plugin looks up, each object with its versions over time. It is a State by itself, but for the authorizer and for
// CSINodes. Its methods may be called concurrently.
//
// An object that was not seen does not exist from the time given to CoverFrom on, but for the times given to Uncovered and UncoveredSince;
// before, nobody can tell. While nobody watches a kind that was watched before, its objects may be gone or be others of the same name, so nobody can
// tell what they are either. Of a kind that nobody ever watched an object counts as what it was last given as. Equal versions in a row, such as those of a pod whose status alone changes, count as one. What many
// pods share is kept once.
type Store struct {
	mu       sync.RWMutex
	pods     table[storedPod]
	nodes    table[*Node]
	claims   table[*Claim]
	volumes  table[*Driver]
	drivers  table[*[]string]
	accounts table[*string]
	slices   table[*string]
	// driverNames are the names of the drivers in the table, of which there are few.
	driverNames map[name]string
	covered     [kinds]coverage
	shared      *shared
	hash        hasher
}

// NewStore returns a store that knows nothing.
func NewStore() *Store {
	s := &Store{driverNames: map[name]string{}, hash: newHasher()}
	s.shared = newShared(&s.hash)
	s.pods.equal, s.pods.release = s.shared.equal, s.shared.release
	return s
}

// State returns the store as the state of an Admission, with an authorizer that may be nil.
func (s *Store) State(auth Authorizer) State {
	return State{Pods: s, Nodes: s, Claims: s, Volumes: s, Drivers: s, ServiceAccounts: s, Slices: s, Objects: s, Authorizer: auth}
}

// coverage says when the absence of an object proves that it does not exist.
type coverage struct {
	known bool
	from  int64
	holes [][2]int64
	// since is from when on nobody watches, if blind.
	blind bool
	since int64
}

// covers reports whether an instant is covered, and narrows the sight to the time of which that holds.
func (c *coverage) covers(at int64, s *Sight) bool {
	if !c.known || at < c.from {
		if c.known {
			narrow(s, 0, c.from)
		}
		return false
	}
	narrow(s, c.from, 0)
	switch {
	case c.blind && at >= c.since:
		narrow(s, c.since, 0)
		return false
	case c.blind:
		narrow(s, 0, c.since)
	}
	for _, h := range c.holes {
		switch {
		case at < h[0]:
			narrow(s, 0, h[0])
		case at > h[1]:
			narrow(s, h[1]+1, 0)
		default:
			narrow(s, h[0], h[1]+1)
			return false
		}
	}
	return true
}

// narrow cuts a sight to [from, to), where 0 is no bound.
func narrow(s *Sight, from, to int64) {
	if from != 0 && (s.From == 0 || s.From < from) {
		s.From = from
	}
	if to != 0 && (s.To == 0 || s.To > to) {
		s.To = to
	}
}

// CoverFrom says that from t on all objects of the kind are known.
func (s *Store) CoverFrom(k Kind, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.covered[k]
	if at := t.UnixNano(); !c.known || at < c.from {
		c.known, c.from = true, at
	}
}

// Uncovered says that from `from` to `to` nobody watched the kind: what was not seen then may have existed.
func (s *Store) Uncovered(k Kind, from, to time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered[k].holes = append(s.covered[k].holes, [2]int64{from.UnixNano(), to.UnixNano()})
}

// UncoveredSince says that nobody watches the kind from t on, until CoveredAgain says otherwise. The latest call counts.
func (s *Store) UncoveredSince(k Kind, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered[k].blind, s.covered[k].since = true, t.UnixNano()
}

// CoveredAgain says that all is known that happened since nobody watched the kind, but for the times given to Uncovered.
func (s *Store) CoveredAgain(k Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.covered[k].blind, s.covered[k].since = false, 0
}

// Covers reports whether somebody watched the kind at t.
func (s *Store) Covers(k Kind, t time.Time) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.covered[k].covers(t.UnixNano(), &Sight{})
}

// Prune forgets what was over before t. Answers for instants before t are then unknown, or as of t.
func (s *Store) Prune(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := t.UnixNano()
	s.pods.prune(before)
	s.nodes.prune(before)
	s.claims.prune(before)
	s.volumes.prune(before)
	s.drivers.prune(before)
	maps.DeleteFunc(s.driverNames, func(n name, _ string) bool { return s.drivers.find(n) == nil })
	s.accounts.prune(before)
	s.slices.prune(before)
	for k := range s.covered {
		c := &s.covered[k]
		c.from = max(c.from, before)
		c.holes = slices.DeleteFunc(c.holes, func(h [2]int64) bool { return h[1] < before })
	}
	s.shared.prune(&s.pods)
}

// SetPod says what a pod became; a nil pod, that it ended. The store keeps the pod's fields. So do the methods below.
func (s *Store) SetPod(namespace, podName string, p *Pod, m Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stored storedPod
	if p != nil {
		stored = s.shared.store(p)
	}
	s.pods.set(s.hash.name(namespace, podName), m, stored)
}

// SetNode says what a Node became.
func (s *Store) SetNode(nodeName string, n *Node, m Moment) { set(s, &s.nodes, "", nodeName, n, m) }

// SetClaim says what a persistent volume claim became.
func (s *Store) SetClaim(namespace, claimName string, c *Claim, m Moment) {
	set(s, &s.claims, namespace, claimName, c, m)
}

// SetVolume says what a persistent volume became.
func (s *Store) SetVolume(volumeName string, d *Driver, m Moment) {
	set(s, &s.volumes, "", volumeName, d, m)
}

// SetDriver says which audiences a CSIDriver asks for.
func (s *Store) SetDriver(driverName string, audiences *[]string, m Moment) {
	set(s, &s.drivers, "", driverName, audiences, m)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.driverNames[s.hash.name("", driverName)] = driverName
}

// SetServiceAccount says the UID of a service account.
func (s *Store) SetServiceAccount(namespace, accountName string, uid *string, m Moment) {
	set(s, &s.accounts, namespace, accountName, uid, m)
}

// SetSlice says the node of a ResourceSlice, empty for one without.
func (s *Store) SetSlice(sliceName string, node *string, m Moment) {
	set(s, &s.slices, "", sliceName, node, m)
}

// set says what an object became.
func set[V comparable](s *Store, t *table[V], namespace, object string, v V, m Moment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.set(s.hash.name(namespace, object), m, v)
}

// Remove says that an object ended.
func (s *Store) Remove(k Kind, namespace, object string, m Moment) {
	switch k {
	case KindPod:
		s.SetPod(namespace, object, nil, m)
	case KindNode:
		s.SetNode(object, nil, m)
	case KindClaim:
		s.SetClaim(namespace, object, nil, m)
	case KindVolume:
		s.SetVolume(object, nil, m)
	case KindDriver:
		s.SetDriver(object, nil, m)
	case KindServiceAccount:
		s.SetServiceAccount(namespace, object, nil, m)
	case KindSlice:
		s.SetSlice(object, nil, m)
	}
}

// find looks an object up.
func find[V comparable](s *Store, t *table[V], k Kind, namespace, object string, at time.Time) (V, Sight) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, sight := t.at(s.hash.name(namespace, object), at.UnixNano(), &s.covered[k])
	if v == nil {
		var none V
		return none, sight
	}
	return *v, sight
}

// Pod is of Pods. The pod is the caller's, its labels and what else it refers to are not.
func (s *Store) Pod(namespace, name string, at time.Time) (*Pod, Sight) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, sight := s.pod(namespace, name, at)
	if p == nil {
		return nil, sight
	}
	return s.shared.load(p), sight
}

func (s *Store) pod(namespace, name string, at time.Time) (*storedPod, Sight) {
	return s.pods.at(s.hash.name(namespace, name), at.UnixNano(), &s.covered[KindPod])
}

// PodOn implements NodePods.
func (s *Store) PodOn(namespace, name, node string, at time.Time) (on, exists bool, sight Sight) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, sight := s.pod(namespace, name, at)
	exists = p != nil
	return exists && p.node == s.hash.tag(node), exists, sight
}

// PodAsksToken implements TokenPods.
func (s *Store) PodAsksToken(namespace, name, node, uid, audience string, at time.Time) (asks bool, sight Sight) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p, sight := s.pod(namespace, name, at)
	return p != nil && p.node == s.hash.tag(node) && s.shared.asksToken(p, uid, audience), sight
}

// Node is of Nodes.
func (s *Store) Node(name string, at time.Time) (*Node, Sight) {
	return find(s, &s.nodes, KindNode, "", name, at)
}

// ClaimVolume is of Claims.
func (s *Store) ClaimVolume(namespace, name string, at time.Time) (*string, Sight) {
	c, sight := find(s, &s.claims, KindClaim, namespace, name, at)
	if c == nil {
		return nil, sight
	}
	return &c.Volume, sight
}

// VolumeDriver is of Volumes.
func (s *Store) VolumeDriver(name string, at time.Time) (*Driver, Sight) {
	return find(s, &s.volumes, KindVolume, "", name, at)
}

// DriverAudiences is of Drivers.
func (s *Store) DriverAudiences(name string, at time.Time) (*[]string, Sight) {
	return find(s, &s.drivers, KindDriver, "", name, at)
}

// AllDrivers returns the CSIDrivers that there were at an instant with the audiences of their token requests, in no order; known is false if there may be
// more.
func (s *Store) AllDrivers(at time.Time) (all iter.Seq2[string, []string], known bool) {
	out := map[string][]string{}
	s.mu.RLock()
	defer s.mu.RUnlock()
	c := &s.covered[KindDriver]
	for n, driver := range s.driverNames {
		if audiences, _ := s.drivers.at(n, at.UnixNano(), c); audiences != nil {
			out[driver] = **audiences
		}
	}
	return maps.All(out), c.covers(at.UnixNano(), &Sight{})
}

// ServiceAccountUID is of ServiceAccounts.
func (s *Store) ServiceAccountUID(namespace, name string, at time.Time) (*string, Sight) {
	return find(s, &s.accounts, KindServiceAccount, namespace, name, at)
}

// SliceNode is of Slices.
func (s *Store) SliceNode(name string, at time.Time) (*string, Sight) {
	return find(s, &s.slices, KindSlice, "", name, at)
}

// Object is of Objects. CSINodes are not remembered.
func (s *Store) Object(resource, namespace, name string, at time.Time) ([]byte, Sight) {
	if resource != "persistentvolumeclaims" {
		return nil, Sight{}
	}
	c, sight := find(s, &s.claims, KindClaim, namespace, name, at)
	if c == nil {
		return nil, sight
	}
	return c.Object, sight
}
