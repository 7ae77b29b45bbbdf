package evidence

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// The first byte of each value is the version of its form. Until the second one nobody looked for acts, until the third one not for which pods they were, until
// the fourth one not for gets of Nodes, until the fifth one not for how watches begin and end, until the sixth one all watches were in the first lane, and until
// the seventh one nobody looked for who brings pods or asks for reviews.
const (
	withoutActs  = 1
	withoutPods  = 2
	withoutLooks = 3
	withoutSpans = 4
	withoutLanes = 5
	withoutComes = 6
	codecVersion = 7
)

// Kind says what a record is about.
type Kind uint8

// The kinds of records.
const (
	KindNode Kind = iota + 1
	KindServer
	KindSource
	KindOverflow
	KindDropped
)

// Key names a record. Name is empty for the last two kinds.
type Key struct {
	Kind Kind
	Hour Hour
	Name string
}

// Changes calls store for each record that changed since the last call, in the order of kind, hour and name, until it returns an error, which
// is returned; what was handed out before counts as stored only if there is none. The value is the whole record, not the change, and belongs
// to the ledger: it is good during the call.
func (l *Ledger) Changes(store func(Key, []byte) error) error {
	l.settle()
	slices.SortFunc(l.changed, compareMarks)
	for _, m := range l.changed {
		if err := l.hand(m, store); err != nil {
			return err
		}
	}
	for _, m := range l.changed {
		m.dirty = false
	}
	clear(l.changed)
	l.changed = l.changed[:0]
	return nil
}

// Records calls f for every record, in the order of kind, hour and name.
func (l *Ledger) Records(f func(Key, []byte) error) error {
	l.settle()
	var all []*mark
	for _, b := range l.books {
		for _, n := range b.nodes {
			all = append(all, &n.mark)
		}
		for _, s := range b.servers {
			all = append(all, &s.mark)
		}
		for _, s := range b.sources {
			all = append(all, &s.mark)
		}
		if b.overflow != 0 {
			all = append(all, &b.mark)
		}
	}
	if l.drops {
		all = append(all, &l.dropped)
	}
	slices.SortFunc(all, compareMarks)
	for _, m := range all {
		if err := l.hand(m, f); err != nil {
			return err
		}
	}
	return nil
}

// hand encodes one record. An entry that was dropped meanwhile is passed over.
func (l *Ledger) hand(m *mark, f func(Key, []byte) error) error {
	dst := l.scratch[:0]
	dst = append(dst, codecVersion)
	b := l.books[m.hour]
	switch m.kind {
	case KindDropped:
	case KindOverflow:
		if b == nil {
			return nil
		}
		dst = append(dst, byte(b.overflow))
	case KindNode:
		if b == nil || b.nodes[m.name] == nil {
			return nil
		}
		dst = b.nodes[m.name].append(dst)
	case KindServer:
		if b == nil || b.servers[m.name] == nil {
			return nil
		}
		dst = b.servers[m.name].append(dst)
	case KindSource:
		if b == nil || b.sources[m.name] == nil {
			return nil
		}
		dst = b.sources[m.name].append(dst)
	}
	l.scratch = dst
	return f(Key{m.kind, m.hour, m.name}, dst)
}

// Put merges a record. What it brings does not count as a change. It keeps nothing of the value, and changes nothing if it returns an error.
func (l *Ledger) Put(k Key, value []byte) error {
	d := decoder{rest: value}
	version := d.byte()
	if version < withoutActs || version > codecVersion {
		return fmt.Errorf("record of hour %d: its form is not known", k.Hour)
	}
	if (k.Name == "") != (k.Kind == KindOverflow || k.Kind == KindDropped) && k.Kind != KindSource || len(k.Name) > MaxName {
		return fmt.Errorf("record of hour %d: its name does not fit its kind", k.Hour)
	}
	var node NodeHour
	var server ServerHour
	var source SourceHour
	var over Overflow
	dst := []byte{version}
	switch k.Kind {
	case KindNode:
		node.decode(&d, version)
		dst = node.appendAs(dst, version)
	case KindServer:
		server.decode(&d)
		dst = server.append(dst)
	case KindSource:
		source.decode(&d, version)
		dst = source.appendAs(dst, version)
	case KindOverflow:
		over = Overflow(d.byte())
		dst = append(dst, byte(over&(allOverflow|overNames)))
	case KindDropped:
	default:
		return fmt.Errorf("record of hour %d: kind %d is not known", k.Hour, k.Kind)
	}
	// Each value has one form only: what is written again must be the same.
	if d.failed || !bytes.Equal(dst, value) {
		return fmt.Errorf("record of hour %d: %w", k.Hour, errDamaged)
	}
	if version <= withoutLooks { // it then was of any request, also of one that did not come as far as to the authorizers
		source.Undecided = 0
	}
	l.merge(k, &node, &server, &source, over)
	return nil
}

var errDamaged = errors.New("it is damaged")

func (l *Ledger) merge(k Key, node *NodeHour, server *ServerHour, source *SourceHour, over Overflow) {
	if k.Kind == KindDropped {
		if !l.drops || k.Hour > l.dropped.hour {
			l.drops, l.dropped.hour = true, k.Hour
			l.Forget(k.Hour + 1)
		}
		return
	}
	b := l.book(k.Hour)
	if b == nil {
		return
	}
	switch k.Kind {
	case KindNode:
		if n := l.node(b, k.Name); n != nil {
			n.merge(node)
		}
	case KindServer:
		if s := l.server(b, k.Name); s != nil {
			s.merge(server)
		}
	case KindSource:
		if s := l.source(b, k.Name); s != nil {
			s.merge(source)
		}
	case KindOverflow:
		b.overflow |= over & allOverflow
	}
}

// Merge takes in all that other holds. All of it counts as changed.
func (l *Ledger) Merge(other *Ledger) {
	if other.drops {
		l.drop(other.dropped.hour)
	}
	for _, h := range slices.Sorted(maps.Keys(other.books)) {
		from, b := other.books[h], l.book(h)
		if b == nil {
			continue
		}
		for name, n := range from.nodes {
			if own := l.node(b, name); own != nil {
				own.merge(n)
				l.touch(&own.mark)
			}
		}
		for name, s := range from.servers {
			if own := l.server(b, name); own != nil {
				own.merge(s)
				l.touch(&own.mark)
			}
		}
		for name, s := range from.sources {
			if own := l.source(b, name); own != nil {
				own.merge(s)
				l.touch(&own.mark)
			}
		}
		l.overflows(b, from.overflow)
	}
}

// parts are all sets of parts, those that former forms lack at the end.
func (n *NodeHour) parts(version byte) []*Parts {
	all := []*Parts{
		&n.Watched[0], &n.Watched[1], &n.Watched[2], &n.Watched[3], &n.Watched[4], &n.Read[0], &n.Read[1], &n.Started, &n.Joined, &n.Foreign,
		&n.Acted[0], &n.Acted[1], &n.Acted[2], &n.Acted[3], &n.Acted[4],
		&n.Acted[5], &n.Owes,
	}
	switch {
	case version == withoutActs:
		return all[:len(all)-int(Acts)-1]
	case version <= withoutLooks:
		return all[:len(all)-2]
	}
	return all
}

// laned are all sets with lanes. Former forms have none.
func (n *NodeHour) laned(version byte) []*Laned {
	if version <= withoutSpans {
		return nil
	}
	return []*Laned{&n.Began[0], &n.Began[1], &n.Began[2], &n.Began[3], &n.Ended[0], &n.Ended[1], &n.Ended[2], &n.Ended[3]}
}

// lanesOf are the lanes of a form.
func lanesOf(version byte) Laned {
	if version <= withoutLanes {
		return Laned(allParts)
	}
	return allLaned
}

// parts are all sets of parts, those that former forms lack at the end.
func (s *SourceHour) parts(version byte) []*Parts {
	all := []*Parts{&s.Requests, &s.Undecided, &s.ByNode, &s.ByRBAC, &s.ByOther, &s.Refused, &s.Came[0], &s.Came[1], &s.Reviewed}
	if version <= withoutComes {
		return all[:len(all)-int(Comings)-1]
	}
	return all
}

func (n *NodeHour) merge(o *NodeHour) {
	n.Renewed.union(&o.Renewed)
	all := n.parts(codecVersion)
	for i, p := range o.parts(codecVersion) {
		all[i].add(*p)
	}
	spans := n.laned(codecVersion)
	for i, l := range o.laned(codecVersion) {
		spans[i].add(*l)
	}
	if n.First == 0 || o.First != 0 && o.First < n.First {
		n.First = o.First
	}
	n.Last = max(n.Last, o.Last)
}

func (s *ServerHour) merge(o *ServerHour) {
	s.Renewed.union(&o.Renewed)
	s.Started.union(&o.Started)
	for _, v := range o.Versions {
		s.version(v)
	}
	s.ManyVersions = s.ManyVersions || o.ManyVersions
}

func (s *SourceHour) merge(o *SourceHour) {
	all := s.parts(codecVersion)
	for i, p := range o.parts(codecVersion) {
		all[i].add(*p)
	}
	for i, word := range o.Pods {
		s.Pods[i] |= word
	}
}

func appendParts(dst []byte, all []*Parts) []byte {
	for _, p := range all {
		dst = binary.AppendUvarint(dst, uint64(*p))
	}
	return dst
}

func (n *NodeHour) append(dst []byte) []byte { return n.appendAs(dst, codecVersion) }

func (n *NodeHour) appendAs(dst []byte, version byte) []byte {
	dst = appendParts(dst, n.parts(version))
	for _, l := range n.laned(version) {
		dst = binary.AppendUvarint(dst, uint64(*l&lanesOf(version)))
	}
	dst = binary.AppendUvarint(dst, uint64(n.First))
	dst = binary.AppendUvarint(dst, uint64(n.Last))
	return n.Renewed.append(dst)
}

// decode reads a record. Where nobody looked for acts, or for how watches begin, none is missed.
func (n *NodeHour) decode(d *decoder, version byte) {
	d.parts(n.parts(version))
	for _, l := range n.laned(version) {
		*l = Laned(d.most(uint64(lanesOf(version))))
	}
	if version == withoutActs {
		for i := range n.Acted {
			n.Acted[i] = allParts
		}
	}
	if version <= withoutLooks {
		n.Acted[ActGetNode] = allParts
	}
	for i := range n.Began {
		switch {
		case version <= withoutSpans:
			n.Began[i] = allLaned
		case version <= withoutLanes: // what ends in any lane may have begun
			n.Began[i] *= eachLane
		}
	}
	n.First, n.Last = uint16(d.most(3600)), uint16(d.most(3600))
	d.failed = d.failed || n.First > n.Last || (n.First == 0) != (n.Last == 0)
	d.slots(&n.Renewed)
}

func (s *ServerHour) append(dst []byte) []byte {
	dst = s.Started.append(s.Renewed.append(dst))
	many := byte(0)
	if s.ManyVersions {
		many = 1
	}
	dst = append(dst, many, byte(len(s.Versions)))
	for _, v := range s.Versions {
		dst = append(dst, byte(len(v)))
		dst = append(dst, v...)
	}
	return dst
}

func (s *ServerHour) decode(d *decoder) {
	d.slots(&s.Renewed)
	d.slots(&s.Started)
	s.ManyVersions = d.most(1) == 1
	for range d.most(MaxVersions) {
		v := string(d.bytes(int(d.most(longestVersion))))
		d.failed = d.failed || v == "" || len(s.Versions) > 0 && v <= s.Versions[len(s.Versions)-1]
		s.Versions = append(s.Versions, v)
	}
	d.failed = d.failed || s.ManyVersions && len(s.Versions) < MaxVersions
}

func (s *SourceHour) append(dst []byte) []byte { return s.appendAs(dst, codecVersion) }

func (s *SourceHour) appendAs(dst []byte, version byte) []byte {
	dst = appendParts(dst, s.parts(version))
	if version <= withoutPods {
		return dst
	}
	for _, word := range s.Pods {
		dst = binary.AppendUvarint(dst, word)
	}
	return dst
}

// decode reads a record. Where nobody looked for pods, or for who brings them, none is missed; where nobody looked for reviews, there may have been some.
func (s *SourceHour) decode(d *decoder, version byte) {
	d.parts(s.parts(version))
	for i := range s.Came {
		if version <= withoutComes {
			s.Came[i], s.Reviewed = allParts, allParts
		}
	}
	for i := range s.Pods {
		if s.Pods[i] = math.MaxUint64; version > withoutPods {
			s.Pods[i] = d.most(math.MaxUint64)
		}
	}
}
