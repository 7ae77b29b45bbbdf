package audit

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"
)

// Most of an event's bytes were in an event before it: who made the request, with what, and why it was allowed. kube-apiserver writes them between the
// few members that are the event's own (its ID, its URI, its verb, its object, its times). So a reader remembers such runs of members by their bytes,
// and what they mean. Where the same bytes come again in a place between two members, they mean the same, and one comparison takes the place of reading
// them. What the bytes are is not looked at: a run is remembered only after it was read as all else is, and the order of the members is that
// in which they came.

// A place is where a run begins: at the beginning of an event, or behind a member of its own.
type place int

const (
	placeStart place = iota
	placeID
	placeURI
	placeVerb
	placeRef
	placeBody
	placeReceived
	placeStageTime
	numPlaces
	noPlace place = -1
)

// A common is a run of members that was seen in several events.
type common struct {
	// raw is the run: from the brace or comma in front of its first member to the colon behind the key of the member that follows it, or to the brace
	// that closes the event.
	raw []byte
	// next is the key of the member that follows it, "" at the end of the event.
	next string
	// seen has the bits of the members, and last that of the last one; none says that there are none.
	seen, last int
	none       bool
	ev         Event // of which the run's members are set
	env        envelope
}

const (
	// longRun is the length in bytes from which on runs are found by a hash: of so many bytes, or of all behind the time of the stage, up to the end of the
	// line or of the event.
	longRun = 128
	// longestRun bounds what is remembered of one run, in bytes.
	longestRun = 2 << 10
	buckets    = 1024
	ways       = 8
	marks      = 16384
	// patience is how many runs are turned away from a full bucket before one takes a place in it.
	patience = 16
	// worthwhile is how many runs are read before memory is taken for any: some decoders read one event.
	worthwhile = 32
)

// objectsEnd is what mostly ends the annotations and the event.
var objectsEnd = []byte("}}")

// bucket holds runs, those that come often in front.
type bucket [ways]*common

// runs are what a reader remembers. The memory that events get of it is never written again.
type runs struct {
	// place and from are where the run in hand begins; noPlace if there is none.
	place place
	from  int
	fresh bool // whether it was not looked for
	short [numPlaces]bucket
	long  []bucket // by hash
	// once has a hash of runs that came once: most never come again.
	once    []uint32
	read    int     // and not found
	turned  int     // away
	learner *reader // of the runs that are kept
}

// open begins a run at offset from.
func (t *runs) open(at place, from int) { t.place, t.from, t.fresh = at, from, true }

// longs returns where long runs are kept that begin as rest does, or nil.
func (t *runs) longs(rest []byte) *bucket {
	switch {
	case t.long == nil || len(rest) < longRun:
		return nil
	case t.place != placeStageTime:
		rest = rest[:longRun]
	case len(rest) > longestRun: // in a list
		end := bytes.Index(rest[:longestRun], objectsEnd)
		if end < 0 {
			return nil
		}
		rest = rest[:end]
	}
	return &t.long[hash(rest)%buckets]
}

// find returns the run that rest begins with, or nil.
func (t *runs) find(rest []byte) *common {
	if t.place == noPlace {
		return nil
	}
	if c := t.short[t.place].find(rest); c != nil {
		return c
	}
	if b := t.longs(rest); b != nil {
		return b.find(rest)
	}
	return nil
}

func (b *bucket) find(rest []byte) *common {
	for i, c := range b {
		if c == nil {
			return nil
		}
		if bytes.HasPrefix(rest, c.raw) {
			if i > 0 {
				b[i], b[i-1] = b[i-1], c
			}
			return c
		}
	}
	return nil
}

// keep remembers the run of n bytes that rest begins with, if it came before.
func (t *runs) keep(rest []byte, n int) {
	if t.read++; t.read < worthwhile {
		return
	}
	if t.long == nil {
		t.long, t.once = make([]bucket, buckets), make([]uint32, marks)
		t.learner = new(reader)
	}
	b := &t.short[t.place]
	if n >= longRun {
		b = t.longs(rest)
	}
	if b == nil || n > longestRun {
		return
	}
	h := hash(rest[:n])
	if mark := &t.once[h%marks]; *mark != uint32(h>>32) {
		*mark = uint32(h >> 32)
		return
	}
	i := slices.Index(b[:], nil)
	if i < 0 {
		if t.turned++; t.turned%patience != 0 {
			return
		}
		i = ways - 1
	}
	b[i] = t.learner.learn(bytes.Clone(rest[:n]))
}

// learn reads a run that was read before. The run is its own from then on.
func (r *reader) learn(raw []byte) *common {
	c := &common{raw: raw, none: true}
	s := &r.s
	if s.Reset(raw); raw[0] == '{' {
		s.Object()
	}
	for s.Key(&c.next) {
		bit, ok := r.common(c.next, &c.ev, &c.env)
		if !ok {
			return c
		}
		c.seen |= bit
		c.last, c.none = bit, false
	}
	c.next = ""
	return c
}

// key steps to the next member, over a run that is remembered. It is false at the end of the event.
func (r *reader) key(key *string, ev *Event, env *envelope, seen *int) bool {
	t, s := &r.runs, &r.s
	if t.fresh && s.Fault() == nil {
		t.fresh = false
		if c := t.find(s.Slice(t.from, s.Len())); c != nil {
			end := t.from + len(c.raw)
			t.place = noPlace
			c.set(ev, env)
			before := *seen
			r.note(seen, c.seen)
			if *key = c.next; c.next != "" {
				s.Forward(end)
				return true
			}
			if !c.none {
				r.whole = before | c.seen&^c.last
			}
			s.Leave(end)
			return false
		}
	}
	if s.Key(key) {
		return true
	}
	r.closeRun()
	return false
}

// closeRun remembers the run that ends at the scanner's position.
func (r *reader) closeRun() {
	t, s := &r.runs, &r.s
	if t.place != noPlace && !r.twice && s.Fault() == nil {
		t.keep(s.Slice(t.from, s.Len()), s.Pos()-t.from)
	}
}

func (c *common) set(ev *Event, env *envelope) {
	from := &c.ev
	for seen := c.seen; seen != 0; seen &= seen - 1 {
		switch seen & -seen {
		case seenKind:
			env.kind = c.env.kind
		case seenAPIVersion:
			env.apiVersion = c.env.apiVersion
		case seenLevel:
			ev.Level = from.Level
		case seenStage:
			ev.Stage = from.Stage
		case seenUser:
			ev.User = from.User
		case seenImpersonated:
			ev.Impersonated, ev.IsImpersonated = from.Impersonated, from.IsImpersonated
		case seenSourceIPs:
			ev.SourceIPs = from.SourceIPs
		case seenUserAgent:
			ev.UserAgent = from.UserAgent
		case seenStatus:
			ev.Code, ev.StatusReason, ev.StatusMessage = from.Code, from.StatusReason, from.StatusMessage
		case seenAnnotations:
			ev.Decision, ev.Reason, ev.IssuedCredential, ev.Cut = from.Decision, from.Reason, from.IssuedCredential, from.Cut
		case seenMetadata:
			ev.Constraint = from.Constraint
		}
	}
}

func hash(b []byte) uint64 {
	const k1, k2 = 0x9e3779b97f4a7c15, 0xe7037ed1a0b428db
	h := uint64(len(b)) * k1
	for len(b) >= 16 {
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(b)^k1^h, binary.LittleEndian.Uint64(b[8:])^k2)
		h = hi ^ lo
		b = b[16:]
	}
	for _, c := range b {
		h = (h ^ uint64(c)) * k1
	}
	hi, lo := bits.Mul64(h^k1, k2)
	return hi ^ lo
}
