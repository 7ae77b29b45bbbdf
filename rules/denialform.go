package rules

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// What detectors remember of denials is stored again and again, most of all in an attack. So it is bytes: numbers of variable length, and texts as they are.
// JSON, which earlier versions stored, is read as well.

// denialForm is the first byte, and earlierForm was. JSON begins with another one. What does not change comes first in a denial, so that it is made once for all
// times that a denial is stored.
const (
	earlierForm = 1
	denialForm  = 2
)

// The flags of a denial.
const (
	denialAllowed = 1 << iota
	denialKnown
	denialWide
	denialUUID
	denialPath
)

// denialBytes is about what a denial takes.
const denialBytes = 160

func appendTime(b []byte, t time.Time) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

func (c *cursor) time() time.Time {
	seconds, nanos := c.varint(), c.uvarint()
	if nanos >= uint64(time.Second) {
		c.broken = true
		return time.Time{}
	}
	return time.Unix(seconds, int64(nanos)).UTC()
}

func (c *cursor) texts() (all []string) {
	for range c.uvarint() {
		if c.broken {
			return nil
		}
		all = append(all, c.text())
	}
	return all
}

// appendID appends an audit ID.
func appendID(b []byte, id string) []byte {
	if short, is := shortUUID(id); is {
		return append(append(b, 1), short[:]...)
	}
	return appendString(append(b, 0), id)
}

func (c *cursor) auditID() string {
	if c.flags() == 0 {
		return c.text()
	}
	if id := c.take(16); id != nil {
		return longUUID(new([36]byte), id)
	}
	return ""
}

// append appends the denial.
func (d *denial) append(b []byte) []byte {
	return appendTime(binary.AppendVarint(d.appendFixed(b), d.Count), d.Last)
}

// appendFixed appends all but how often it was, and when last.
func (d *denial) appendFixed(b []byte) []byte {
	id, short := shortUUID(d.AuditID)
	flags := byte(0)
	for i, is := range [...]bool{d.Allowed, d.Known, d.Wide, short, d.Object.Path != ""} {
		if is {
			flags |= 1 << i
		}
	}
	b = appendString(append(b, flags), d.Node)
	b = binary.LittleEndian.AppendUint64(b, d.ID)
	b = appendTime(b, d.First)
	if short {
		b = append(b, id[:]...)
	} else {
		b = appendString(b, d.AuditID)
	}
	b = appendString(b, d.Reason)
	b = appendString(b, d.Product)
	o := d.Object
	b = appendString(b, o.Verb)
	if flags&denialPath != 0 {
		b = appendString(b, o.Path)
	}
	for _, s := range [...]string{o.APIGroup, o.Resource, o.Subresource, o.Namespace, o.Name} {
		b = appendString(b, s)
	}
	return binary.AppendVarint(b, d.Lagged)
}

// denial reads one of the form.
func (c *cursor) denial(d *denial, form byte) {
	c.fixed(d, form)
	if form != earlierForm {
		d.Count, d.Last = c.varint(), c.time()
	}
}

// fixed reads what appendFixed appends; of the earlier form, all.
func (c *cursor) fixed(d *denial, form byte) {
	flags := c.flags()
	d.Allowed, d.Known, d.Wide = flags&denialAllowed != 0, flags&denialKnown != 0, flags&denialWide != 0
	d.Node = c.text()
	if id := c.take(8); id != nil {
		d.ID = binary.LittleEndian.Uint64(id)
	}
	if form == earlierForm {
		d.Count, d.First, d.Last = c.varint(), c.time(), c.time()
	} else {
		d.First = c.time()
	}
	if flags&denialUUID == 0 {
		d.AuditID = c.text()
	} else if id := c.take(16); id != nil {
		d.AuditID = longUUID(new([36]byte), id)
	}
	d.Reason, d.Product = c.text(), c.text()
	o := &deniedObject{}
	d.Object = o
	if o.Verb = c.text(); flags&denialPath != 0 {
		o.Path = c.text()
	}
	for _, s := range [...]*string{&o.APIGroup, &o.Resource, &o.Subresource, &o.Namespace, &o.Name} {
		*s = c.text()
	}
	d.Lagged = c.varint()
}

var errDenials = errors.New("denials that cannot be read")

// formed is a cursor behind the form's byte; the form is 0 where the value has another one.
func formed(value []byte) (c cursor, form byte) {
	if len(value) == 0 || value[0] != earlierForm && value[0] != denialForm {
		return c, 0
	}
	return cursor{b: value[1:]}, value[0]
}

// whole is an error if what was read does not end where it should.
func (c *cursor) whole() error {
	if c.broken || len(c.b) > 0 {
		return errDenials
	}
	return nil
}

func (s *storedStep) append(b []byte) []byte {
	b = append(slices.Grow(b, 64+denialBytes*len(s.Denied)+len(s.Allowed)), denialForm)
	b = binary.AppendVarint(b, s.Step)
	b = binary.AppendUvarint(b, uint64(len(s.Denied)))
	for _, d := range s.Denied {
		b = d.append(b)
	}
	return append(b, s.Allowed...)
}

func (s *storedStep) read(value []byte) error {
	c, form := formed(value)
	if form == 0 {
		return json.Unmarshal(value, s)
	}
	s.Step = c.varint()
	for range c.uvarint() {
		if c.broken {
			return errDenials
		}
		d := &denial{}
		c.denial(d, form)
		s.Denied = append(s.Denied, d)
	}
	s.Allowed = slices.Clone(c.b)
	c.b = nil
	return c.whole()
}

// appendWatched appends the objects of a node.
func appendWatched(b []byte, all []*watched) []byte {
	b = append(b, denialForm)
	for _, w := range all {
		if w.fixed == nil {
			w.fixed = w.denial.appendFixed(make([]byte, 0, denialBytes))
			w.fixed = binary.AppendUvarint(w.fixed, uint64(len(w.AuditIDs)))
			for _, id := range w.AuditIDs {
				w.fixed = appendID(w.fixed, id)
			}
		}
		b = append(b, w.fixed...)
		b = appendTime(binary.AppendVarint(b, w.Count), w.Last)
		b = binary.AppendVarint(b, w.Windows)
		b = binary.AppendVarint(b, w.Window)
		b = appendTime(b, w.FoundAt)
		passed := byte(0)
		if w.PassedNow {
			passed = 1
		}
		b = append(b, passed)
	}
	return b
}

func readWatched(value []byte) (all []*watched, err error) {
	c, form := formed(value)
	if form == 0 {
		err = json.Unmarshal(value, &all)
		return all, err
	}
	for len(c.b) > 0 {
		w := &watched{}
		c.fixed(&w.denial, form)
		if form == earlierForm {
			w.AuditIDs = c.texts()
		} else {
			for range c.uvarint() {
				if c.broken {
					break
				}
				w.AuditIDs = append(w.AuditIDs, c.auditID())
			}
			w.Count, w.Last = c.varint(), c.time()
		}
		w.Windows, w.Window, w.FoundAt, w.PassedNow = c.varint(), c.varint(), c.time(), c.flags() != 0
		all = append(all, w)
	}
	return all, c.whole()
}
