package cluster

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// etcdHistory reads snapshots of one etcd as one journal: what there was at the revision that was compacted, and every change since then, each between the
// two instants that etcdTimes tells. A later snapshot continues the one before it. Where it was compacted beyond that one's end, the journal says that
// nobody watched in between. Secrets are not read. At most one object is in memory.
type etcdHistory struct {
	snapshots []*etcdSnapshot
	entries   []etcdEntry
	times     *etcdTimes
	// until is the instant after which nothing is known, and end one that is certainly after the last revision, in Unix nanoseconds.
	until, end int64
	buf        []byte
	off        int
}

// etcdEntry is a line of the journal that is to be made.
type etcdEntry struct {
	verb     verb
	kind     kindID
	snapshot uint16
	// listed says that it is of the objects that were there at the beginning.
	listed bool
	value  etcdRevision // where the object is
	// It happened after `after`, and no later than `by`.
	after, by etcdRevision
}

// etcdWide is how uncertain the time of a change may be. Beyond that, nobody watched the kind then. API servers renew their Leases every 10 s.
const etcdWide = 15 * second

// newEtcdHistory reads the snapshots once, or twice where their keys begin in an unusual way that nobody said. They have to stay open. prefix is what keys
// begin with, as CheckEtcdPrefix has it.
func newEtcdHistory(snapshots []*etcdSnapshot, prefix string) (*etcdHistory, error) {
	h := &etcdHistory{snapshots: snapshots}
	slices.SortStableFunc(snapshots, func(a, b *etcdSnapshot) int { return a.last.compare(b.last) })
	b := etcdBuilder{history: h, prefix: etcdPrefix{given: prefix, others: map[string]bool{}}, keys: map[string]uint32{}, live: map[uint32]etcdEntry{}, clocks: map[string]int32{}, seed: maphash.MakeSeed(), seen: map[etcdRevision]uint64{}}
	for i, s := range snapshots {
		if err := b.add(uint16(i), s); err != nil {
			return nil, &InputError{Path: s.path, Err: err}
		}
	}
	switch found, err := b.prefix.settle(len(b.keys) > 0); {
	case err != nil:
		return nil, &InputError{Path: snapshots[0].path, Err: err}
	case found != prefix:
		return newEtcdHistory(snapshots, found)
	}
	h.times = newEtcdTimes(b.sightings)
	last := snapshots[len(snapshots)-1].last
	h.until, _ = h.times.of(last)
	h.until = max(h.until, never)
	h.end = h.until + second + writeTakes
	for kind := range kinds {
		h.entries = append(h.entries, etcdEntry{verb: verbBookmark, kind: kindID(kind), after: last, by: last})
	}
	return h, nil
}

// etcdBuilder collects what a history is made of.
type etcdBuilder struct {
	history   *etcdHistory
	sightings []sighting
	clocks    map[string]int32
	// keys numbers the keys of objects that matter; live are those that are there, with the entry that made them what they are.
	keys   map[string]uint32
	live   map[uint32]etcdEntry
	prefix etcdPrefix
	// seen are the revisions of the snapshots before, with a hash of each: another one may not say otherwise.
	seen map[etcdRevision]uint64
	seed maphash.Seed
}

// etcdChange is a revision of a key that matters.
type etcdChange struct {
	at      etcdRevision
	made    int64 // the revision that made the key
	key     uint32
	kind    kindID
	deleted bool
}

// add takes in a snapshot that ends after those before it.
func (b *etcdBuilder) add(n uint16, s *etcdSnapshot) error {
	changes, err := b.scan(n, s)
	if err != nil {
		return err
	}
	known := etcdRevision{}
	if n > 0 {
		known = b.history.snapshots[n-1].last
	}
	list := n == 0 || s.compacted.compare(known) > 0
	from := known
	if list {
		// Of each key the latest change up to the revision that was compacted is left, or it was gone then.
		from = etcdRevision{s.compacted.main, math.MaxInt64}
		at, there, other := map[uint32]etcdChange{}, []etcdChange(nil), int64(math.MaxInt64)
		for _, c := range changes {
			if c.at.compare(from) <= 0 {
				at[c.key] = c
			}
		}
		for _, c := range at {
			if c.deleted {
				continue
			}
			// What was there at the end of the snapshot before, and has not changed since, was in that snapshot; so was, in some form, what was made before its end.
			was, ok := b.live[c.key]
			if n > 0 && (c.at.compare(known) <= 0 && was.value != c.at || c.made <= known.main && !ok) {
				other = min(other, c.made)
			}
			there = append(there, c)
		}
		if other < math.MaxInt64 {
			return b.otherEtcd(other)
		}
		slices.SortFunc(there, func(a, b etcdChange) int { return a.at.compare(b.at) })
		b.list(n, s, there, known)
	}
	for _, c := range changes {
		if c.at.compare(from) > 0 {
			b.change(n, c, c.at, c.at)
		}
	}
	return nil
}

// list takes in what there was when a snapshot was compacted.
func (b *etcdBuilder) list(n uint16, s *etcdSnapshot, there []etcdChange, known etcdRevision) {
	still := make(map[uint32]bool, len(there))
	for _, c := range there {
		still[c.key] = true
		was, ok := b.live[c.key]
		switch {
		case n == 0:
			e := etcdEntry{verb: verbAdded, kind: c.kind, listed: true, value: c.at, after: s.compacted, by: s.compacted}
			b.history.entries, b.live[c.key] = append(b.history.entries, e), e
		case !ok || was.value != c.at:
			if ok && c.made > known.main { // it was deleted, and made again
				gone := c
				gone.deleted = true
				b.change(n, gone, known, etcdRevision{main: c.made})
			}
			b.change(n, c, c.at, c.at)
		}
	}
	after := etcdRevision{}
	if n > 0 {
		after = known
		var gone []etcdEntry
		for key, e := range b.live {
			if !still[key] {
				gone = append(gone, e)
				delete(b.live, key)
			}
		}
		slices.SortFunc(gone, func(a, b etcdEntry) int { return a.value.compare(b.value) })
		for _, e := range gone {
			e.verb, e.listed, e.after, e.by = verbDeleted, false, known, s.compacted
			b.history.entries = append(b.history.entries, e)
		}
	}
	for kind := range kinds {
		b.history.entries = append(b.history.entries, etcdEntry{verb: verbListed, kind: kindID(kind), after: after, by: s.compacted})
	}
}

// change takes in one change.
func (b *etcdBuilder) change(n uint16, c etcdChange, after, by etcdRevision) {
	was, known := b.live[c.key]
	e := etcdEntry{verb: verbAdded, kind: c.kind, snapshot: n, value: c.at, after: after, by: by}
	switch {
	case c.deleted && !known:
		return
	case c.deleted:
		e.verb, e.snapshot, e.value = verbDeleted, was.snapshot, was.value
		delete(b.live, c.key)
	case known:
		e.verb = verbModified
	}
	if !c.deleted {
		b.live[c.key] = e
	}
	b.history.entries = append(b.history.entries, e)
}

// scan reads a whole snapshot: times from all that is in it but Secrets, and the changes of what matters.
func (b *etcdBuilder) scan(n uint16, s *etcdSnapshot) ([]etcdChange, error) {
	var changes []etcdChange
	managed := map[string]int64{} // of Leases and of what matters, the latest time in managedFields
	several, seen := len(b.history.snapshots) > 1, map[etcdRevision]uint64{}
	err := s.each(func(at etcdRevision, deleted bool, r etcdRecord) error {
		rest, ok := b.prefix.cut(&r)
		if !ok || bytes.HasPrefix(rest, []byte("secrets/")) {
			return nil
		}
		kind, matters := kindOfKey(rest)
		if matters {
			number, ok := b.keys[string(r.key)]
			if !ok {
				number = uint32(len(b.keys))
				b.keys[string(r.key)] = number
			}
			changes = append(changes, etcdChange{at: at, made: r.made, key: number, kind: kind, deleted: deleted})
			if several {
				sum := r.hash(b.seed)
				if was, ok := b.seen[at]; ok && was != sum || !ok && b.covered(n, at) {
					return b.otherEtcd(at.main)
				}
				seen[at] = sum
			}
		}
		if deleted {
			return nil
		}
		lease := bytes.HasPrefix(rest, []byte("leases/"))
		w := readWritten(lease, r.value)
		changed := int64(0) // when this revision was written, by the object
		if matters || lease {
			if was, ok := managed[string(r.key)]; ok && w.managed > was {
				changed = w.managed
			}
			managed[string(r.key)] = w.managed
		}
		if r.made == at.main && w.created != 0 {
			changed = max(changed, w.created)
		}
		b.sight(at, max(w.created, w.managed), changed)
		if lease && w.renewed != 0 {
			clock := int32(0)
			if !w.server {
				if clock = b.clocks[w.holder]; clock == 0 {
					clock = int32(len(b.clocks) + 1)
					b.clocks[w.holder] = clock
				}
			}
			b.sightings = append(b.sightings, sighting{at: at, early: w.renewed, late: w.renewed + writeTakes, clock: clock})
		}
		return nil
	})
	for at, sum := range seen {
		b.seen[at] = sum
	}
	return changes, err
}

// otherEtcd is the error of a snapshot that contradicts those before it.
func (b *etcdBuilder) otherEtcd(revision int64) error {
	return fmt.Errorf("not of the same etcd as %s: revision %d differs; give snapshots of one etcd, all from before it was restored or all from after", b.history.snapshots[0].path, revision)
}

// covered reports whether one of the snapshots before the nth has all changes of that time.
func (b *etcdBuilder) covered(n uint16, at etcdRevision) bool {
	return slices.ContainsFunc(b.history.snapshots[:n], func(s *etcdSnapshot) bool { return at.compare(s.compacted) > 0 && at.compare(s.last) <= 0 })
}

// sight takes in the times in an object by the clock of an API server, in whole seconds: it was written no earlier than the one and, unless that is 0, at
// the other. Of many in a row that say the same, the first and the last say it all.
func (b *etcdBuilder) sight(at etcdRevision, early, changed int64) {
	if early == 0 {
		return
	}
	s := sighting{at: at, early: early}
	if changed != 0 {
		s.late = changed + second + writeTakes
	}
	if n := len(b.sightings); n > 1 {
		last, before := &b.sightings[n-1], b.sightings[n-2]
		if last.clock == 0 && before.clock == 0 && last.early == s.early && before.early == s.early && (last.late == 0 || last.late == s.late) {
			*last = s
			return
		}
	}
	b.sightings = append(b.sightings, s)
}

// Read gives the next part of the journal.
func (h *etcdHistory) Read(p []byte) (int, error) {
	for h.off == len(h.buf) {
		if len(h.entries) == 0 {
			return 0, io.EOF
		}
		e := h.entries[0]
		h.entries = h.entries[1:]
		h.buf, h.off = h.buf[:0], 0
		if err := h.write(&e); err != nil {
			return 0, err
		}
	}
	n := copy(p, h.buf[h.off:])
	h.off += n
	return n, nil
}

// between returns the instants between which an entry happened.
func (h *etcdHistory) between(e *etcdEntry) (from, to int64) {
	from, _ = h.times.of(e.after)
	_, to = h.times.of(e.by)
	to = max(min(to, h.end), never)
	return min(max(from, never), to), to
}

// write puts an entry into the buffer.
func (h *etcdHistory) write(e *etcdEntry) error {
	from, to := h.between(e)
	switch {
	case e.verb == verbListed && e.after == etcdRevision{}, e.listed:
		to = min(to, h.until)
		from = to
	case e.verb == verbBookmark:
		from, to = h.until, h.until
	}
	verbs := [...]string{verbAdded: "ADDED", verbModified: "MODIFIED", verbDeleted: "DELETED", verbListed: "BOOKMARK", verbBookmark: "BOOKMARK"}
	var object []byte
	marks := e.verb == verbListed || e.verb == verbBookmark
	if marks {
		object = bookmarkOf(e.kind, e.verb == verbListed)
	} else {
		var err error
		if object, err = h.object(e); err != nil {
			return err
		}
	}
	h.buf, _ = appendEntry(h.buf, verbs[e.verb], object, timeOf(to), timeOf(from))
	if to-from > etcdWide && !marks {
		h.buf, _ = appendEntry(h.buf, "BOOKMARK", bookmarkOf(e.kind, true), timeOf(to), timeOf(from))
	}
	return nil
}

// object reads an entry's object.
func (h *etcdHistory) object(e *etcdEntry) ([]byte, error) {
	s := h.snapshots[e.snapshot]
	var object []byte
	err := s.record(e.value, func(r etcdRecord) (err error) {
		object, err = storedJSON(e.kind, e.value, r)
		return err
	})
	if err != nil {
		return nil, &InputError{Path: s.path, Err: err}
	}
	return object, nil
}

// bookmarkOf is the object of a bookmark, or of the end of a list.
func bookmarkOf(kind kindID, listed bool) []byte {
	k, annotations := &kinds[kind], ""
	version := k.Versions[0]
	if k.Group != "" {
		version = k.Group + "/" + version
	}
	if listed {
		annotations = `,"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}`
	}
	return fmt.Appendf(nil, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1"%s}}`, k.Name, version, annotations)
}

// newEtcdSource makes one source of all snapshots.
func newEtcdSource(snapshots []*etcdSnapshot, prefix string) (*source, error) {
	h, err := newEtcdHistory(snapshots, prefix)
	if err != nil {
		return nil, err
	}
	name := snapshots[0].path
	s := &source{path: name, d: newDecoder(), until: h.until}
	s.p = newParser(name, &input{Reader: h, close: func() {}}, s.d)
	s.p.made, s.p.f = true, newFramer(h, maxValueBytes)
	return s, s.begin()
}
