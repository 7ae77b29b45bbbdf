package cluster

import (
	"hash/maphash"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rbac"
)

// State is what is known of a cluster over time. Its methods may be called concurrently: those that change it wait for each other. Graph, RBAC,
// Nodes, Servers and Admission may be read meanwhile.
type State struct {
	Graph   *nodeauthz.Graph
	RBAC    *rbac.Store
	Nodes   *Nodes
	Servers *Servers
	// Admission is what the admission plugin NodeRestriction looks up.
	Admission *nodeadmission.Store
	// EtcdPrefix is what keys begin with in the snapshots of etcd that Load reads, as CheckEtcdPrefix has it; "" is found by their content. It is set before Load.
	EtcdPrefix string

	mu sync.Mutex // guards what follows, and the order of changes

	// tracked are the objects that were seen and not seen deleted.
	tracked [numKinds]map[nodeauthz.NamespacedName]tracked
	// dead are the UIDs of objects that were seen deleted: a second source may report them once more a moment later. Each is 128 bits of two keyed hashes:
	// a minute of a large cluster has thousands.
	dead      map[[2]uint64]int64
	deadSeeds [2]maphash.Seed
	deadBound int
	// early are the latest requests that may have ended a pod, until a watch tells whether they did.
	early map[nodeauthz.NamespacedName]earlyEnd

	// finished are the times in which pods had succeeded or failed.
	finished map[nodeauthz.NamespacedName][]Finished
	// ending are the UIDs of pods that have time to end in, and atOnce when pods were deleted that never had.
	ending map[nodeauthz.NamespacedName]string
	atOnce []podEnd

	counts    [numKinds]int
	fromAudit [numKinds]int
	newest    [numKinds]int64
	sure      [numKinds]int64 // until when somebody who watched knew all of the kind that there was
	covered   [numKinds]int64 // the earliest beginning of an input that held the kind; 0: none
	until     [numKinds]int64 // the latest end of an input that held the kind; 0: none
	cut       [numKinds]bool  // what ended then is a snapshot of etcd
	over      bool            // nothing follows the inputs but audit events
	unseen    [numKinds]int64 // the first object of a kind of which audit events show after the inputs that it came, and not what it is; 0: none
	missed    bool            // there is one of those that came so late that an input that continues would have it
	dated     bool            // the input that ends last has no clock: it is from the latest time in its objects, or later
	from, to  int64
	tally     tally
	inputs    int
	unlisted  []string // inputs that held nothing of use
	claims    bool     // a pod on a node had a claim of a volume
	decoder   *decoder // for audit bodies
	versions  versions
	sight     [numKinds]sight
	signs     [numKinds]int64 // the last sign of life of a kind in journals; 0: none
	marked    bool            // a journal has bookmarks that no list ends with
	silences  []silent
	watched   []stretch           // in which journals show each change of each pod, but for holes
	looked    [numKinds][]stretch // in which somebody looked, while inputs are read
	waiting   []vanishing         // what may be gone, while inputs are read
	learned   int64               // the latest change that an audit event showed; 0: none
	forgot    stretch             // of which audit events showed what is not known any more
	behind    int64               // by how much the clock of who watched was behind, at most
	ahead     map[string]int64    // the nodes whose kubelets' clocks are ahead, and by how much
}

// stretch is a time in Unix nanoseconds, both ends included.
type stretch struct{ from, to int64 }

// watch notes that a source showed each pod of the cluster until then.
func (s *State) watch(src *source, to int64) {
	if k := &src.kinds[kindPod]; k.begun != 0 && k.showsAll() && src.listed == nil && src.until == 0 {
		s.watched = append(s.watched, stretch{k.begun, to})
	}
}

// PodsWatched reports whether each pod that there was at t is known, and each persistent volume that leads to a secret: what no pod uses then, no pod used. Holes are not
// looked at.
func (s *State) PodsWatched(t time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return (!s.claims || s.counts[kindPersistentVolume] > 0) && s.showsPods(t)
}

// showsPods reports whether a journal, or a watch, shows each change of each pod at t, but for holes. The state is locked.
func (s *State) showsPods(t time.Time) bool {
	at := t.UnixNano()
	return slices.ContainsFunc(s.watched, func(w stretch) bool { return w.from <= at && at <= w.to })
}

// PodsSeen returns the times between the two that the state covers, in order: from the first look at pods until the last one, less the holes. Where more may follow,
// and where the last one has no clock, some minutes more count as covered.
func (s *State) PodsSeen(from, to time.Time) (out []Interval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.covered[kindPod] == 0 {
		return nil
	}
	until := s.until[kindPod]
	for _, w := range s.watched {
		until = max(until, w.to)
	}
	at, end := later(timeOf(s.covered[kindPod]), from), to
	if last := timeOf(until); to.Sub(last) > s.silent() {
		end = last
		if s.quiet() == farBehind {
			end = last.Add(farBehind)
		}
	}
	var unseen nodeauthz.Holes
	for _, kind := range []nodeauthz.Kind{nodeauthz.KindPod, nodeauthz.KindPersistentVolume} {
		for _, h := range s.Graph.Holes(kind) {
			if h.To.IsZero() {
				h.To = to
			}
			unseen.Add(h.From, h.To)
		}
	}
	for _, h := range unseen.All() {
		if h.To.Before(at) || h.From.After(end) {
			continue
		}
		if h.From.After(at) {
			out = append(out, Interval{at, h.From})
		}
		at = h.To
	}
	if at.Before(end) {
		out = append(out, Interval{at, end})
	}
	return out
}

type tracked struct {
	uid           string
	created, seen int64
	restored      bool
}

// NewState returns a state that knows nothing.
func NewState() *State {
	s := &State{
		Graph: nodeauthz.NewGraph(), RBAC: rbac.NewStore(), Nodes: newNodes(), Servers: newServers(), Admission: nodeadmission.NewStore(),
		ahead: map[string]int64{}, dead: map[[2]uint64]int64{}, deadSeeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, deadBound: 4096, early: map[nodeauthz.NamespacedName]earlyEnd{}, finished: map[nodeauthz.NamespacedName][]Finished{},
		ending: map[nodeauthz.NamespacedName]string{}, decoder: newDecoder(), tally: tally{skipped: map[string]int{}},
	}
	for k := range s.tracked {
		s.tracked[k] = map[nodeauthz.NamespacedName]tracked{}
	}
	return s
}

// Summary says what a state holds, for a report.
type Summary struct {
	// Objects counts the distinct objects (by UID) of each kind that the inputs held, those deleted meanwhile included.
	Objects map[string]int
	// FromAudit counts the changes of each kind that were taken from audit bodies.
	FromAudit map[string]int
	// Skipped counts the objects of kinds that do not matter.
	Skipped map[string]int
	// From and To are the first and the last observation; zero if there was none.
	From, To time.Time
	// Malformed counts the entries that could not be read; Places says where the first 20 of them are.
	Malformed int
	Places    []string
}

// Summary returns what the state holds now.
func (s *State) Summary() Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Summary{
		Objects: map[string]int{}, FromAudit: map[string]int{}, Skipped: map[string]int{},
		Malformed: s.tally.malformed, Places: append([]string(nil), s.tally.places...),
	}
	for id := range kinds {
		if s.inputs > 0 && (kindID(id) != kindLease || s.counts[id] > 0) { // state that was recorded without them has no word on Leases
			out.Objects[kinds[id].Name] = s.counts[id]
		}
		if n := s.fromAudit[id]; n > 0 {
			out.FromAudit[kinds[id].Name] = n
		}
	}
	for k, n := range s.tally.skipped {
		out.Skipped[k] = n
	}
	if s.from != 0 {
		out.From, out.To = timeOf(s.from), timeOf(s.to)
	}
	return out
}

const (
	// farBehind is how long before the log's end the state may end before nothing can be proven any more. Objects without a clock show no more of when they were
	// read: kubelets write into their Nodes every five minutes.
	farBehind = 5 * time.Minute
	// signsWithin is how long a recorder that runs may write nothing, if it gets bookmarks: API servers send one every minute, and without any sign of life a
	// recorder gives its watch up.
	signsWithin = 90 * time.Second
)

// EndsBefore reports whether the state ends before t, and when. It does not where nobody can tell whether anything was left to be seen: shortly after the last
// sign of life, as long as no audit event shows a change.
func (s *State) EndsBefore(t time.Time) (end time.Time, early bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inputs == 0 || s.to == 0 {
		return time.Time{}, false
	}
	return timeOf(s.to), s.endsBefore(t)
}

// endsBefore is EndsBefore of a state that is locked and has seen anything.
func (s *State) endsBefore(t time.Time) bool {
	return t.Sub(timeOf(s.to)) > s.silent()
}

// silent is quiet, as far as audit events do not show that something has changed. The state is locked.
func (s *State) silent() time.Duration {
	if s.missed {
		return refineWithin
	}
	return s.quiet()
}

// quiet is for how long after its last entry the state says by its silence that nothing has changed. The state is locked.
func (s *State) quiet() time.Duration {
	switch {
	case !s.over, s.dated:
		return farBehind
	case s.marked:
		return signsWithin
	}
	return refineWithin
}

// mostAhead is how many nodes are named whose kubelets' clocks are ahead.
const mostAhead = 5

// Gaps says what is missing from the state, or doubtful about it, for a log whose requests are from the given window. Zero times mean that it is
// not known. A gap of the kind [codes.State] leaves no telling what the Node authorizer would decide, or for whom: an object kind that must be
// there, or a time in which nobody watched. What comes before the state begins, and within minutes after it ends, is a doubt alone: those requests are unknown, and
// counted as such.
func (s *State) Gaps(logFrom, logTo time.Time) (out []codes.Gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inputs == 0 {
		return nil
	}
	add := func(kind codes.Kind, code codes.Code, p ...codes.Param) {
		out = append(out, codes.Gap{Kind: kind, Code: code, Params: p})
	}
	for _, id := range warnWhenNone {
		kind := codes.Doubt
		if id == kindPod || id == kindNode {
			kind = codes.State
		}
		switch {
		case s.counts[id] == 0:
			add(kind, codes.KindMissing, codes.Text(codes.ParamKind, id.String()))
		case s.covered[id] == 0:
			add(kind, codes.KindPartial, codes.Text(codes.ParamKind, id.String()))
		}
	}
	if s.counts[kindPersistentVolume] == 0 && s.claims {
		add(codes.State, codes.VolumesMissing)
	}
	if s.from != 0 && !logFrom.IsZero() {
		if from := timeOf(s.from); from.After(logFrom) {
			add(codes.Doubt, codes.StateBeginsLate,
				codes.Duration(codes.ParamBy, from.Sub(logFrom).Round(time.Millisecond)), codes.Time(codes.ParamAt, from))
		}
		if s.endsBefore(logTo) {
			to, kind := timeOf(s.to), codes.Doubt
			if logTo.Sub(to) > farBehind {
				kind = codes.State
			}
			add(kind, codes.StateEndsEarly, codes.Duration(codes.ParamBy, logTo.Sub(to).Round(time.Second)), codes.Time(codes.ParamAt, to))
		}
	}
	out = append(out, s.unwatched(logFrom, logTo)...)
	if f := s.forgot; f.to != 0 {
		add(codes.State, codes.StateForgotten, codes.Duration(codes.ParamBy, time.Duration(f.to-f.from).Round(time.Millisecond)), codes.Time(codes.ParamAt, timeOf(f.from)))
	}
	if s.behind != 0 {
		add(codes.Doubt, codes.RecorderBehind, codes.Duration(codes.ParamBy, time.Duration(s.behind).Round(time.Second)))
	}
	for i, node := range slices.Sorted(maps.Keys(s.ahead)) {
		if i == mostAhead {
			add(codes.Doubt, codes.KubeletsAhead, codes.Int(codes.ParamCount, len(s.ahead)-i))
			break
		}
		add(codes.Doubt, codes.KubeletAhead, codes.Text(codes.ParamName, node), codes.Duration(codes.ParamBy, time.Duration(s.ahead[node]).Round(time.Second)))
	}
	if n := s.tally.errors; n > 0 {
		add(codes.State, codes.WatchErrors, codes.Int(codes.ParamCount, n))
	}
	if n := s.tally.malformed; n > 0 {
		add(codes.State, codes.StateUnreadable, codes.Int(codes.ParamCount, n))
	}
	for _, name := range s.unlisted {
		add(codes.Doubt, codes.FileUseless, codes.Text(codes.ParamName, name))
	}
	for _, place := range s.tally.places {
		add(codes.State, codes.EntryUnreadable, codes.Text(codes.ParamTrouble, place))
	}
	return out
}

// SkippedKinds returns the kinds that were passed over, most frequent first.
func (s Summary) SkippedKinds() []string {
	out := make([]string, 0, len(s.Skipped))
	for k := range s.Skipped {
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool {
		if a, b := s.Skipped[out[i]], s.Skipped[out[j]]; a != b {
			return a > b
		}
		return out[i] < out[j]
	})
	return out
}

// Prune forgets what was over before the given time.
func (s *State) Prune(before time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Graph.Prune(before)
	s.RBAC.Prune(before)
	s.Nodes.prune(before.UnixNano())
	s.Servers.prune(before.UnixNano())
	s.Admission.Prune(before)
	s.pruneFinished(before)
}

// apply takes one change in. start is when its source began to observe.
func (s *State) apply(c *change, start int64) {
	if s.from == 0 || start < s.from {
		s.from = start
	}
	s.to = max(s.to, c.at)
	s.newest[c.kind] = max(s.newest[c.kind], c.at)
	if c.moved != 0 {
		s.Nodes.moved(c.moved, c.at)
	}
	switch c.verb {
	case verbListed, verbBookmark, verbListing:
	case verbDeleted:
		s.applyDelete(c)
	default:
		s.applySet(c, start)
	}
}

// reapplied is how long after an object's end a second source may still report it alive.
const reapplied = 10 * 60 * second

func (s *State) applySet(c *change, start int64) {
	s.versions.add(c.uid, c.version)
	of := s.tracked[c.kind]
	was, known := of[c.ref]
	restored := known && was.restored && was.uid == c.uid || !known && c.restored()
	if died := s.died(c.uid); died != 0 && c.at-died < reapplied && !restored {
		if c.at < died {
			s.set(c, false, start) // late news of its life
		}
		return
	}
	if restored {
		c.created, c.granted, c.changed = 0, 0, 0 // these are of its first life
	}
	first := !known
	if known && c.uid != "" && was.uid != "" && was.uid != c.uid {
		if c.created != 0 && c.created < was.created {
			s.set(c, true, start) // late news of the object before: the graph fits it in before the one there is now
			s.remove(c.kind, c.ref, c.uid, ownTime(was.created))
			s.admitRemove(c.kind, c.ref, ownTime(was.created))
			return
		}
		s.remove(c.kind, c.ref, was.uid, between(max(was.seen, min(s.sure[c.kind], c.at)), c))
		s.bury(was.uid, c.at)
		first = true
	}
	if first {
		s.counts[c.kind]++
	}
	uid := c.uid
	if uid == "" {
		uid = was.uid
	}
	created := c.created
	if created == 0 {
		created = was.created
	}
	of[c.ref] = tracked{uid: uid, created: created, seen: max(c.at, was.seen), restored: restored}
	s.set(c, first, start)
}

// between is when an object ended of which no deletion was seen: after it was there for the last time, before the one that took its name.
func between(lastSeen int64, c *change) nodeauthz.Stamp {
	until := c.at
	if own := c.created + second; c.created != 0 && own < until {
		until = own
	}
	if until <= lastSeen {
		return nodeauthz.Stamp{Time: timeOf(until), Source: nodeauthz.SourceObject}
	}
	return nodeauthz.Stamp{Time: timeOf(lastSeen), Slop: time.Duration(until - lastSeen), Source: nodeauthz.SourceObject}
}

func (s *State) applyDelete(c *change) {
	if c.kind == kindLease && c.renewed != 0 {
		s.Servers.set(c.ref.Name, c.holder, c.created, c.renewed) // the last state says until when it was renewed
	}
	of := s.tracked[c.kind]
	was, known := of[c.ref]
	if !known && c.uid != "" && s.died(c.uid) == 0 {
		// Never seen alive: what it was is known all the same.
		s.counts[c.kind]++
		s.setBeforeEnd(c)
	}
	if known && (c.uid == "" || was.uid == "" || was.uid == c.uid) {
		delete(of, c.ref)
	}
	uid := c.uid
	if uid == "" {
		uid = was.uid
	}
	if c.kind == kindPod && known && was.uid == c.uid {
		s.endAtOnce(c)
	}
	s.remove(c.kind, c.ref, uid, c.gone())
	s.bury(uid, c.at)
}

// setBeforeEnd takes in an object whose deletion is the first that is seen of it: it began by its own timestamps.
func (s *State) setBeforeEnd(c *change) {
	began := *c
	began.ready.seen = c.at
	began.clocked, began.slop = false, time.Second
	began.at = max(c.granted, c.created)
	if began.at != 0 && began.at <= c.at {
		s.set(&began, true, began.at)
	}
}

func (s *State) deadKey(uid string) [2]uint64 {
	return [2]uint64{maphash.String(s.deadSeeds[0], uid), maphash.String(s.deadSeeds[1], uid)}
}

// died is when the object of that UID was seen deleted, 0 if it was not, or has no UID.
func (s *State) died(uid string) int64 {
	if uid == "" {
		return 0
	}
	return s.dead[s.deadKey(uid)]
}

func (s *State) bury(uid string, at int64) {
	if uid == "" {
		return
	}
	s.dead[s.deadKey(uid)] = at
	if len(s.dead) > s.deadBound {
		for u, t := range s.dead {
			if at-t > reapplied {
				delete(s.dead, u)
			}
		}
		s.deadBound = max(4096, len(s.dead)+len(s.dead)/4)
	}
}

// set passes an object on to where it counts.
func (s *State) set(c *change, first bool, start int64) {
	name := c.ref.Name
	at := c.seen()
	if first {
		at = c.firstSeen(start)
	}
	s.admitSet(&c.object, at)
	switch c.kind {
	case kindPod:
		c.pod.Bound = c.bound()
		s.claims = s.claims || c.pod.NodeName != "" && len(c.pod.PersistentVolumeClaims) > 0
		s.Graph.SetPod(c.pod, c.seen())
		s.finish(c)
	case kindPersistentVolume:
		s.Graph.SetPersistentVolume(c.volume, c.volumeSince(first, start))
	case kindVolumeAttachment:
		s.Graph.SetVolumeAttachment(name, c.uid, c.node, c.since(first))
	case kindResourceSlice:
		s.Graph.SetResourceSlice(name, c.uid, c.node, c.since(first))
	case kindPodCertificateRequest:
		s.Graph.SetPodCertificateRequest(c.ref.Namespace, name, c.uid, c.node, c.since(first))
	case kindNode:
		ready := c.ready
		ready.seen = max(ready.seen, c.at)
		if c.clocked {
			ready.first, ready.live = c.at, c.verb == verbModified && c.notBefore == 0
		}
		s.Nodes.set(name, c.uid, c.since(first), ready)
		s.Nodes.mark(name, c.uid, c.virtual)
		s.Nodes.locateAll(name, c.addresses, c.at, c.created)
	case kindLease:
		s.Servers.set(name, c.holder, c.created, c.renewed)
	case kindClusterRole, kindClusterRoleBinding, kindRole, kindRoleBinding:
		s.setRole(c.role, c.roleSince(first, start))
	}
}

// since is when an object began to exist, of a kind whose node does not change.
func (c *change) since(first bool) nodeauthz.Stamp {
	if !first {
		return c.seen()
	}
	return c.began(c.created)
}

func (s *State) setRole(role any, at time.Time) {
	switch o := role.(type) {
	case *rbacv1.ClusterRole:
		s.RBAC.SetClusterRole(o, at)
	case *rbacv1.Role:
		s.RBAC.SetRole(o, at)
	case *rbacv1.ClusterRoleBinding:
		s.RBAC.SetClusterRoleBinding(o, at)
	case *rbacv1.RoleBinding:
		s.RBAC.SetRoleBinding(o, at)
	}
}

// remove passes a deletion on to where it counts.
func (s *State) remove(kind kindID, ref nodeauthz.NamespacedName, uid string, at nodeauthz.Stamp) {
	// Roles have no intervals: within one, an object is taken to have been there until its end.
	end := at.Time.Add(at.Slop)
	if t, ok := s.tracked[kind][ref]; !ok || uid == "" || t.uid == "" || t.uid == uid { // or it is the end of another object of the name
		s.admitRemove(kind, ref, at)
	}
	switch kind {
	case kindPod:
		s.Graph.DeletePod(ref.Namespace, ref.Name, uid, at)
		s.ended(ref)
		s.unfinish(ref, uid, end)
	case kindPersistentVolume:
		s.Graph.DeletePersistentVolume(ref.Name, uid, at)
	case kindVolumeAttachment:
		s.Graph.DeleteVolumeAttachment(ref.Name, uid, at)
	case kindResourceSlice:
		s.Graph.DeleteResourceSlice(ref.Name, uid, at)
	case kindPodCertificateRequest:
		s.Graph.DeletePodCertificateRequest(ref.Namespace, ref.Name, uid, at)
	case kindNode:
		s.Nodes.remove(ref.Name, uid, at)
	case kindLease:
		s.Servers.remove(ref.Name, end.UnixNano())
	case kindClusterRole:
		s.RBAC.DeleteClusterRole(ref.Name, end)
	case kindClusterRoleBinding:
		s.RBAC.DeleteClusterRoleBinding(ref.Name, end)
	case kindRole:
		s.RBAC.DeleteRole(ref.Namespace, ref.Name, end)
	case kindRoleBinding:
		s.RBAC.DeleteRoleBinding(ref.Namespace, ref.Name, end)
	}
}
