package rules

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
)

// Observations writes the observations of a commit as they are stored: by lane, and what many of them have in common once. The zero value is empty.
type Observations struct {
	b         []byte
	who, what map[string]uint64
	last      []byte // who made the last one
	lastWho   uint64
}

// observationsForm is the first byte of what is stored.
const observationsForm = 1

// firstObservations is how many bytes there is room for at first, which is for some dozens.
const firstObservations = 8 << 10

// mostObservations is how many bytes are kept to be used again.
const mostObservations = 1 << 20

// Lane begins the observations of a lane. reached says that all requests of the lane from before it are among these, or were in those of before;
// the zero time says nothing.
func (o *Observations) Lane(name string, reached time.Time) {
	if o.who == nil {
		o.b, o.who, o.what = make([]byte, 0, firstObservations), map[string]uint64{}, map[string]uint64{}
	}
	if len(o.b) == 0 {
		o.b = append(o.b, observationsForm)
	}
	o.b = append(o.b, 0)
	o.b = appendString(o.b, name)
	at := int64(0)
	if !reached.IsZero() {
		at = reached.UnixNano()
	}
	o.b = binary.AppendVarint(o.b, at)
}

// Add appends an observation that [AppendObservation] made, of the lane that was begun last.
func (o *Observations) Add(observation []byte) {
	c := cursor{b: observation}
	who, what := c.bytes(), c.bytes()
	o.b = append(o.b, 1)
	if o.lastWho != 0 && bytes.Equal(who, o.last) {
		o.b = binary.AppendUvarint(o.b, o.lastWho)
	} else {
		o.lastWho = o.part(o.who, who)
		o.last = append(o.last[:0], who...)
	}
	o.part(o.what, what)
	o.b = append(binary.AppendUvarint(o.b, uint64(len(c.b))), c.b...)
}

// part refers to one that is there already, or writes it. It returns the number by which the next one can refer to it.
func (o *Observations) part(known map[string]uint64, part []byte) uint64 {
	if n, is := known[string(part)]; is {
		o.b = binary.AppendUvarint(o.b, n)
		return n
	}
	n := uint64(len(known)) + 1
	known[string(part)] = n
	o.b = append(o.b, 0)
	o.b = append(binary.AppendUvarint(o.b, uint64(len(part))), part...)
	return n
}

// Bytes are what is to be stored, nil if there is nothing. They are valid until Reset.
func (o *Observations) Bytes() []byte {
	if len(o.b) == 0 {
		return nil
	}
	return o.b
}

// Reset makes it empty, and keeps its memory, if that is not much, for what comes next.
func (o *Observations) Reset() {
	if cap(o.b) > mostObservations {
		*o = Observations{}
		return
	}
	clear(o.who)
	clear(o.what)
	o.b, o.lastWho = o.b[:0], 0
}

var errObservations = errors.New("observations that cannot be read")

// observationReader reads what is stored. What many have in common it keeps, also from one time to the next.
type observationReader struct {
	who  map[string]*observedWho
	what map[string]*observedWhat
}

// maxParts bounds what is kept of each kind.
const maxParts = 4 * MaxNodes

func newObservationReader() *observationReader {
	return &observationReader{who: map[string]*observedWho{}, what: map[string]*observedWhat{}}
}

// read calls lane for each lane, and each for each of its observations, whose rest is part of b.
func (o *observationReader) read(b []byte, lane func(name string, reached time.Time), each func(observation)) error {
	if len(b) == 0 || b[0] != observationsForm {
		return errObservations
	}
	c := cursor{b: b[1:]}
	var who []*observedWho
	var what []*observedWhat
	for len(c.b) > 0 {
		if c.flags() == 0 {
			name, at := c.text(), c.varint()
			reached := time.Time{}
			if at != 0 {
				reached = time.Unix(0, at).UTC()
			}
			lane(name, reached)
			continue
		}
		of := observation{who: shared(&c, &who, o.who, readWho), what: shared(&c, &what, o.what, readWhat)}
		of.rest = c.bytes()
		nanos, n := binary.Varint(of.rest)
		if c.broken || n <= 0 || of.who == nil || of.what == nil {
			return errObservations
		}
		of.at, of.rest = nanos, of.rest[n:]
		of.readCame()
		each(of)
	}
	if c.broken {
		return errObservations
	}
	return nil
}

// shared reads a part: one that was in these observations before, one that is kept, or a new one.
func shared[T any](c *cursor, here *[]*T, kept map[string]*T, read func([]byte) (*T, bool)) *T {
	if n := c.uvarint(); n > 0 {
		if n > uint64(len(*here)) {
			c.broken = true
			return nil
		}
		return (*here)[n-1]
	}
	b := c.bytes()
	one := kept[string(b)]
	if one == nil {
		var whole bool
		if one, whole = read(b); !whole {
			c.broken = true
			return nil
		}
		if len(kept) >= maxParts {
			clear(kept)
		}
		kept[string(b)] = one
	}
	*here = append(*here, one)
	return one
}
