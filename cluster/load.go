package cluster

import (
	"cmp"
	"container/heap"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// maxOpen is how many inputs are kept open before it is their turn.
const maxOpen = 64

// Load reads journals and snapshots into the state: files, folders and "-" for stdin, packed or not. Several inputs are merged in the
// order of their observations. Entries that cannot be read are counted (see Summary) and passed over. An *InputError says what could
// not be used at all; the state then holds what was read before it.
func (s *State) Load(paths []string, stdin io.Reader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	named, err := findInputs(paths)
	if err != nil {
		return err
	}
	given := map[string]bool{}
	for _, p := range paths {
		given[p] = true
	}
	var q queue
	defer q.close()
	var snapshots []*etcdSnapshot
	defer func() {
		for _, e := range snapshots {
			e.close()
		}
	}()
	for i, path := range named {
		src, err := newSource(path, stdin)
		if err != nil {
			switch {
			case given[path] || len(named) == 1:
				return err
			case errors.Is(err, errNoneRead): // as if all objects of the folder were in one file
				s.tally.bad(path, 0, err)
			case isNothing(err):
				s.unlisted = append(s.unlisted, path) // some other file in a folder
			default:
				return err
			}
			continue
		}
		s.inputs++
		if src.etcd != nil {
			snapshots = append(snapshots, src.etcd)
			continue
		}
		if i >= maxOpen {
			src.park()
		}
		src.order = s.inputs
		if src.done {
			s.absorb(src)
			continue
		}
		q.sources = append(q.sources, src)
	}
	if s.inputs == 0 {
		return &InputError{Path: paths[0], Err: errNoObjects}
	}
	if len(snapshots) > 0 {
		src, err := newEtcdSource(snapshots, s.EtcdPrefix)
		if err != nil {
			return err
		}
		src.order = s.inputs
		q.sources = append(q.sources, src)
	}
	heap.Init(&q)
	if err := s.merge(&q); err != nil {
		return err
	}
	s.cover()
	s.notLooked()
	s.end()
	s.silencesEnd()
	return nil
}

// cover tells the parts from when on they are complete. Inputs that hold nothing of a kind say nothing of its absence.
func (s *State) cover() {
	if t := s.covered[kindPod]; t != 0 {
		s.Graph.CoverFrom(timeOf(t))
	}
	if t := s.covered[kindClusterRole]; t != 0 {
		s.RBAC.CoverFrom(timeOf(t))
	}
	if t := s.covered[kindNode]; t != 0 {
		s.Nodes.coverFrom(t)
	}
	if t := s.covered[kindLease]; t != 0 {
		s.Servers.coverFrom(t)
	}
	for id := range kinds {
		if k, ok := kindID(id).admissionKind(); ok && s.covered[id] != 0 {
			s.Admission.CoverFrom(k, timeOf(s.covered[id]))
		}
	}
}

// end tells the admission plugin's store that the inputs have ended: what comes after them nobody has seen. Where the last of them is a snapshot of etcd,
// that holds for all parts.
func (s *State) end() {
	for id := range kinds {
		if s.cut[id] {
			s.endKind(kindID(id), s.until[id])
		}
		if k, ok := kindID(id).admissionKind(); ok && s.until[id] != 0 {
			s.Admission.UncoveredSince(k, timeOf(s.until[id]+1))
		}
	}
}

// reportsWithin is how long a kubelet may use a new address at most before its Node has it.
const reportsWithin = 60 * second

// InputsEnd says that nothing follows what was loaded but audit events, if bodies, from which the state is to learn. What came later and nobody saw is then not
// taken for absent, or strange to a Node if it is an address: from the first pod on of which an audit event shows that it came, and not what it is, and without bodies
// some minutes after the end of the inputs at the latest.
func (s *State) InputsEnd(bodies bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inputs == 0 || s.to == 0 {
		return
	}
	s.Nodes.addressesEnd(s.to - reportsWithin)
	s.over = true
	if !bodies {
		s.endKinds(s.to + int64(farBehind))
	}
}

// endKinds notes that nothing is known of any kind after t. The state is locked.
func (s *State) endKinds(t int64) {
	for id := range kinds {
		s.endKind(kindID(id), t)
	}
}

// Learned is the latest time at which an audit event showed a change that nothing loaded had shown, reports of Nodes on themselves aside; zero if none did.
func (s *State) Learned() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.learned == 0 {
		return time.Time{}
	}
	return timeOf(s.learned)
}

// Forgot says that a state before this one, loaded from the same inputs, learned from audit events up to learned, and that those are not given again, as after a
// restart. What they showed is not taken for absent or for what it was before: after the end of the inputs it is not known, but for what later audit events tell.
// It reports whether the inputs end before that, and when.
func (s *State) Forgot(learned time.Time) (end time.Time, forgot bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inputs == 0 || s.to == 0 || s.to >= learned.UnixNano() {
		return time.Time{}, false
	}
	s.Nodes.addressesEnd(s.to - reportsWithin)
	s.endKinds(s.to)
	s.Graph.ResumesAt(learned)
	s.forgot = stretch{s.to, learned.UnixNano()}
	return timeOf(s.to), true
}

// endKind notes that nothing is known of a kind after t. The state is locked.
func (s *State) endKind(id kindID, t int64) {
	if s.covered[id] != 0 && !s.sight[id].blind {
		s.lost(id, t)
		s.Graph.EndsAt(graphKind[id], timeOf(t))
	}
}

// cameUnseen takes in that an object was created, or a pod bound, of which the log does not have the body.
func (s *State) cameUnseen(id kindID, at int64) {
	if !s.over || at <= s.to {
		return
	}
	if first := &s.unseen[id]; *first == 0 || at < *first {
		*first = at
	}
	if s.missed = s.missed || at > s.to+int64(refineWithin); !s.missed {
		return // the inputs may have ended with the log
	}
	for id, first := range s.unseen {
		if k := &s.sight[id]; first != 0 && k.blind && k.since > first {
			k.blind = false // an earlier one came later
		}
		if first != 0 {
			s.endKind(kindID(id), first)
		}
	}
}

// merge applies the changes of all sources in order of time.
func (s *State) merge(q *queue) error {
	for len(q.sources) > 0 {
		src := q.sources[0]
		c := src.head
		start := c.at
		if !c.alone {
			src.start = min(src.start, c.at) // entries need not be in order
			start = src.start
			s.progress(src, &c, q)
			s.sign(src, &c)
		}
		s.apply(&c, start)
		if err := src.advance(); err != nil {
			return err
		}
		if !src.done {
			heap.Fix(q, 0)
			continue
		}
		heap.Pop(q)
		s.behind = max(s.behind, src.slow.most)
		for node, by := range src.ahead {
			s.ahead[node] = max(s.ahead[node], by)
		}
		for k := range src.kinds {
			s.endList(src, kindID(k), q)
			if src.kinds[k].begun == 0 {
				continue
			}
			end := cmp.Or(src.until, src.last)
			s.look(kindID(k), &src.kinds[k], end)
			if end >= s.until[k] {
				s.until[k], s.cut[k] = end, src.until != 0
			}
		}
		if src.last >= s.to {
			s.dated = src.listed != nil && src.until == 0
		}
		s.watch(src, src.last)
		s.sourceEnded(src)
		s.absorb(src)
	}
	return nil
}

// silence is how long a kind can be without a sign of life in a journal that has bookmarks. What was not recorded, or is missing from the journal, is longer.
const silence = 10 * 60 * second

// sign takes in a sign of life of a kind: a change, or a bookmark, which an API server sends every minute. After a silence nobody knows what happened meanwhile,
// unless the entry says that it has all since the last sign: notBefore is the last moment before it of which all is known.
func (s *State) sign(src *source, c *change) {
	if !c.clocked || src.until != 0 {
		return
	}
	if c.moved != 0 {
		for i := range s.signs {
			if s.signs[i] != 0 {
				s.signs[i] += c.moved // no silence: those before belong there, too
			}
		}
	}
	s.marked = s.marked || c.verb == verbBookmark
	last := &s.signs[c.kind]
	to := c.at
	if c.notBefore != 0 {
		to = min(to, c.notBefore)
	}
	if *last != 0 && to-*last > silence {
		s.silences = append(s.silences, silent{c.kind, *last, to})
	}
	*last = max(*last, c.at)
}

// silent is a time in which a journal has no sign of life of a kind.
type silent struct {
	kind     kindID
	from, to int64
}

// silencesEnd makes holes of the silences. Where a kind has bookmarks, whoever watches another one has them, too: one without was listed and not watched.
// Journals without any bookmark tell nothing by their silence.
func (s *State) silencesEnd() {
	if !s.marked {
		return
	}
	for id, last := range s.signs {
		if last != 0 && s.to-last > silence {
			s.silences = append(s.silences, silent{kindID(id), last, s.to})
		}
	}
	for _, x := range s.silences {
		s.uncovered(x.kind, x.from, x.to)
	}
	s.silences = nil
}

// absorb takes over what a source counted.
func (s *State) absorb(src *source) {
	if src.p == nil {
		return
	}
	t := &src.p.tally
	for k, n := range t.skipped {
		s.tally.skipped[k] += n
	}
	s.tally.malformed += t.malformed
	s.tally.errors += t.errors
	for _, p := range t.places {
		if len(s.tally.places) < maxPlaces {
			s.tally.places = append(s.tally.places, p)
		}
	}
}

// progress follows a source through its lists of a kind.
func (s *State) progress(src *source, c *change, q *queue) {
	k := &src.kinds[c.kind]
	if c.verb == verbListed && c.notBefore != 0 && c.notBefore <= c.at {
		s.uncovered(c.kind, c.notBefore, c.at)
	}
	if k.begun == 0 && c.verb >= verbBookmark {
		return // says that the watch lives, and nothing of what there is
	}
	if k.begun == 0 {
		k.begun, k.listing = c.at, true
		if t := s.covered[c.kind]; t == 0 || src.start < t {
			s.covered[c.kind] = src.start
		}
	}
	if s.covered[c.kind] != 0 {
		s.covered[c.kind] = min(s.covered[c.kind], src.start)
	}
	s.alive(src, c)
	s.run(c, k)
	switch {
	case k.listing:
		s.list(src, c, q)
	case c.verb == verbListed && (c.notBefore == 0 || k.run.marked):
		s.listedAgain(src, c.kind, q)
	}
	watched := c.clocked && k.showsAll() && (c.verb == verbListed || c.notBefore == 0 && (c.verb == verbModified || c.verb == verbDeleted || c.verb == verbBookmark))
	if watched { // what is added may be of a list
		s.sure[c.kind] = max(s.sure[c.kind], c.at)
	}
	if k.last = c.at; c.verb == verbListed || c.verb != verbAdded && !k.listing && !k.run.marked {
		k.run = listRun{}
	}
}

// listRun are the latest entries of a kind as far as they may be a list of all that there is.
type listRun struct {
	from, before int64 // when the first came, and the entry before it
	prior        int64 // until when anybody had seen the kind by then; 0: never
	pause        int64 // from before to from
	known        bool  // one of the objects was known: what follows is of the list
	marked       bool  // the source says that the list begins here
}

// run notes where a list may begin: where the source says so, or with the first of the objects that come one after the other, each as a new one. Some of these may have
// been made just before; nobody lists anything in the longest pause.
func (s *State) run(c *change, k *kindProgress) {
	if !k.listing && (c.verb == verbModified || c.verb == verbDeleted || c.verb == verbBookmark) {
		return // of no list
	}
	r := &k.run
	begins, pause := c.verb == verbListing, c.at-k.last
	switch {
	case begins && (r.marked || k.listing): // the list before has no end, and this one has all of it again
		if k.listing {
			s.look(c.kind, k, k.begun)
			k.begun, k.scope = c.at, nil
		}
		r.from = c.at
	case r.marked, k.listing && r.from != 0:
	case r.from == 0, begins, !r.known && pause > r.pause:
		*r = listRun{from: c.at, before: k.last, prior: max(s.sure[c.kind], s.lastLook(c.kind), k.last), pause: pause, marked: begins}
	}
	if !k.listing && !r.marked && !r.known && c.verb == verbAdded && c.uid != "" {
		r.known = s.tracked[c.kind][c.ref].uid == c.uid
	}
}

// look notes until when a source has shown the whole kind since the beginning of its list. Of one that shows one namespace alone only the list counts: it may be all that there is.
func (s *State) look(kind kindID, k *kindProgress, until int64) {
	if !k.showsAll() {
		until = k.begun
	}
	s.looked[kind] = append(s.looked[kind], stretch{k.begun, until})
}

// lastLook is until when a source that has ended had shown the kind.
func (s *State) lastLook(kind kindID) (until int64) {
	for _, x := range s.looked[kind] {
		until = max(until, x.to)
	}
	return until
}

// list takes in an entry of the list with which a source begins.
func (s *State) list(src *source, c *change, q *queue) {
	k := &src.kinds[c.kind]
	old := c.created == 0 || c.created <= src.start
	switch {
	case c.verb == verbListed:
		k.whole = true
		s.endList(src, c.kind, q)
	case c.verb == verbState, c.verb == verbAdded && old:
		if k.scope == nil {
			k.scope = map[string]struct{}{}
		}
		if len(k.scope) < 2 {
			k.scope[c.ref.Namespace] = struct{}{}
		}
	case c.verb >= verbBookmark:
	default:
		s.endList(src, c.kind, q)
	}
}

// endList ends the list with which a source begins. What others had seen before and it did not list is gone.
func (s *State) endList(src *source, kind kindID, q *queue) {
	k := &src.kinds[kind]
	if !k.listing {
		return
	}
	k.listing = false
	if k.run.prior == 0 || !k.whole && len(k.scope) == 0 {
		return
	}
	v := vanishing{kind: kind, from: k.run.prior, to: k.begun}
	if !k.showsAll() {
		v.scope = k.scope
	}
	s.vanish(v, src, q)
}

// listedAgain takes in the end of a further list of all that there is: somebody else continues the journal. Whoever lists again what it had known before says
// until when it had, and not that the list begins ([Record]).
func (s *State) listedAgain(src *source, kind kindID, q *queue) {
	k := &src.kinds[kind]
	s.look(kind, k, k.run.before)
	if kind == kindPod && k.showsAll() {
		s.watched = append(s.watched, stretch{k.begun, k.run.before})
	}
	k.begun, k.whole = k.run.from, true
	s.vanish(vanishing{kind: kind, from: k.run.prior, to: k.run.from}, src, q)
}

// vanishing are the objects of a kind that were not seen any more from one instant to the other.
type vanishing struct {
	kind     kindID
	from, to int64
	scope    map[string]struct{} // the namespaces; nil for all
	open     map[*source]bool    // others that may have watched all the time, and then show by themselves what is gone
}

// vanish removes such objects, or waits for other sources that are open to tell whether they watched. A list is of some time before it comes, and clocks differ: whoever watches
// knows better.
func (s *State) vanish(v vanishing, src *source, q *queue) {
	if v.from >= v.to {
		return
	}
	for _, other := range q.sources {
		if other != src && other.kinds[v.kind].begun != 0 {
			if v.open == nil {
				v.open = map[*source]bool{}
			}
			v.open[other] = true
		}
	}
	if len(v.open) > 0 {
		s.waiting = append(s.waiting, v)
		return
	}
	s.gone(&v)
}

// alive takes in a sign of life of a source: it has watched, and shows what is gone.
func (s *State) alive(src *source, c *change) {
	if len(s.waiting) > 0 && c.clocked {
		s.waiting = slices.DeleteFunc(s.waiting, func(v vanishing) bool { return v.kind == c.kind && c.at > v.to && v.open[src] })
	}
}

// sourceEnded takes in that a source has nothing more to say.
func (s *State) sourceEnded(src *source) {
	s.waiting = slices.DeleteFunc(s.waiting, func(v vanishing) bool {
		delete(v.open, src)
		if len(v.open) == 0 {
			s.gone(&v)
		}
		return len(v.open) == 0
	})
}

// gone removes what was not seen any more.
func (s *State) gone(v *vanishing) {
	gap := nodeauthz.Stamp{Time: timeOf(v.from), Slop: timeOf(v.to).Sub(timeOf(v.from)), Source: nodeauthz.SourceObject}
	for ref, t := range s.tracked[v.kind] {
		if t.seen >= v.to {
			continue
		}
		if _, in := v.scope[ref.Namespace]; v.scope != nil && !in {
			continue
		}
		delete(s.tracked[v.kind], ref)
		s.bury(t.uid, v.to)
		s.remove(v.kind, ref, t.uid, gap)
	}
}

// notLooked makes holes of the times between the first and the last look at a kind in which nobody looked at it.
func (s *State) notLooked() {
	for id := range kinds {
		all := s.looked[id]
		slices.SortFunc(all, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		for i, until := 0, int64(0); i < len(all); i++ {
			if until != 0 && all[i].from > until {
				s.uncovered(kindID(id), until, all[i].from)
			}
			until = max(until, all[i].to)
		}
		s.looked[id] = nil
	}
}

// queue orders sources by the time of their next change.
type queue struct{ sources []*source }

func (q *queue) Len() int { return len(q.sources) }
func (q *queue) Less(i, j int) bool {
	a, b := q.sources[i], q.sources[j]
	if a.head.at != b.head.at {
		return a.head.at < b.head.at
	}
	return a.order < b.order
}
func (q *queue) Swap(i, j int) { q.sources[i], q.sources[j] = q.sources[j], q.sources[i] }
func (q *queue) Push(x any)    { q.sources = append(q.sources, x.(*source)) }

// Pop takes the last source out, as container/heap wants it.
func (q *queue) Pop() any {
	n := len(q.sources) - 1
	s := q.sources[n]
	q.sources = q.sources[:n]
	return s
}

func (q *queue) close() {
	for _, s := range q.sources {
		if s.p != nil {
			s.p.close()
		}
	}
}
