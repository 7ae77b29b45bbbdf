package audit

import (
	"bytes"
	"fmt"
)

// An Envelope is what a shipper of logs puts around events. Which one it is shows from the bytes, see Message.
type Envelope uint8

// The envelopes. An event counts under the innermost of them that is known by name: the one that the event's fields were taken from. Where
// there is none it counts under the last of EnvelopeEventList, EnvelopeEncoded (compressed, base64 or a string of JSON) and EnvelopeOther (an
// object that carries it and could be anyone's) that it was in.
const (
	EnvelopeNone Envelope = iota
	EnvelopeEventList
	EnvelopeEncoded
	EnvelopeOther
	EnvelopePrefixedLine
	EnvelopeContainerLog
	EnvelopeFluentBit
	EnvelopeFilebeat
	EnvelopeElastic
	EnvelopeVector
	EnvelopeOpenShift
	EnvelopeCloudWatch
	EnvelopeAKS
	EnvelopeAKSAudit
	EnvelopeGKE
	EnvelopePubSub
	EnvelopeSplunk
	EnvelopeGELF
	EnvelopeLoki
	// NumEnvelopes is how many there are.
	NumEnvelopes
)

// String returns the name of the envelope in metrics and reports.
func (e Envelope) String() string {
	switch e {
	case EnvelopeNone:
		return "none"
	case EnvelopeEventList:
		return "event-list"
	case EnvelopeEncoded:
		return "encoded"
	case EnvelopePrefixedLine:
		return "prefixed-line"
	case EnvelopeContainerLog:
		return "container-log"
	case EnvelopeFluentBit:
		return "fluent-bit"
	case EnvelopeFilebeat:
		return "filebeat"
	case EnvelopeElastic:
		return "elastic"
	case EnvelopeVector:
		return "vector"
	case EnvelopeOpenShift:
		return "openshift"
	case EnvelopeCloudWatch:
		return "cloudwatch"
	case EnvelopeAKS:
		return "aks"
	case EnvelopeAKSAudit:
		return "aks-audit-table"
	case EnvelopeGKE:
		return "gke"
	case EnvelopePubSub:
		return "pubsub"
	case EnvelopeSplunk:
		return "splunk"
	case EnvelopeGELF:
		return "gelf"
	case EnvelopeLoki:
		return "loki"
	default:
		return "other"
	}
}

const (
	// maxLayers is how many envelopes and encodings may lie around each other. An envelope has three at most: a list, its item, and the
	// encoding of that.
	maxLayers = 12
	// What one call may decompress: so many bytes, and so many for each byte it was given, but not more than the last. Real audit logs
	// compress 10 to 40 times.
	inflateFree, inflatePerByte, inflateMost = 1 << 20, 100, 64 << 20
)

// layers is what a Decoder needs to see through envelopes.
type layers struct {
	// inner decodes what is inside of an envelope. Each layer has its own.
	inner *Decoder
	depth int
	// arena is where unescaped text goes. What events may alias is never written again.
	arena []byte
	// scratch is for what no event aliases.
	scratch []byte
	fields  fieldReader
	inflate inflater
	// inflated is how much is still to be decompressed in this call, of the outermost layer.
	inflated int
}

// outside is where the bytes of a layer came from.
type outside struct {
	envelope Envelope
	// line and offset are the place in the bytes that the caller gave.
	line, offset int
	// inflated is the one of the outermost layer.
	inflated *int
}

// Message decodes the value of one message: an event, events on lines, an EventList, an array, one of these spread over lines, or any
// of them in the envelopes that shippers use (docs/envelopes.md), one in the other, compressed or encoded. Lines are counted
// within the value. It is Chunk in all else, and as fast where there is no envelope.
//
// A shipper's envelope hides nothing but what it lost: what comes out is what the bare event would give. Where that cannot be, the event says
// so: Level is LevelUnknown, or Derived is set. Strings of events that were encoded live in memory of their own, which is never written
// again, so that what is said of buf holds for value.
//
// Records of other logs that share a stream with the audit log are counted as Foreign where their envelope shows it. An object
// that is none of all this is malformed.
func (d *Decoder) Message(value []byte, emit func(*Event), malformed func(Malformed)) Counts {
	d.begin(value, 1, emit, malformed)
	d.body()
	return d.total()
}

// body decodes the whole of run.buf, whatever it is.
func (d *Decoder) body() {
	buf := d.run.buf
	switch {
	case bytes.HasPrefix(buf, gzipMagic), bytes.HasPrefix(buf, zstdMagic):
		d.compressed(buf, 0)
	case d.spread(buf):
		d.document()
	default:
		d.lines()
	}
}

// spread is whether the first value of a buffer goes over several lines.
func (d *Decoder) spread(buf []byte) bool {
	if len(buf) >= len(nativeHead) && string(buf[:len(nativeHead)]) == nativeHead {
		return false
	}
	end := bytes.IndexByte(buf, '\n')
	return end >= 0 && end < len(buf)-1 && IsDocument(buf)
}

// total is end for callers who ask for envelopes.
func (d *Decoder) total() Counts {
	counts := d.end()
	counts.Envelopes[EnvelopeNone] = counts.Read - counts.wrapped()
	return counts
}

// wrapped is how many events came in an envelope.
func (c *Counts) wrapped() int64 {
	var n int64
	for _, v := range c.Envelopes[EnvelopeNone+1:] {
		n += v
	}
	return n
}

// nest decodes the bytes that were found in an envelope at offset of the current buffer. They must be left alone as long as events live.
// It returns whether any event was given to emit.
func (d *Decoder) nest(data []byte, envelope Envelope, offset int) (emitted bool) {
	out := d.outside(envelope, offset)
	if d.layers.depth+1 >= maxLayers {
		d.report(offset, fmt.Sprintf("more than %d layers of envelopes", maxLayers))
		return false
	}
	in := d.layers.inner
	if in == nil {
		in = &Decoder{}
		in.layers.depth = d.layers.depth + 1
		d.layers.inner = in
	}
	in.Want, in.MaxEventBytes = d.Want, d.MaxEventBytes
	in.begin(data, out.line, d.run.emit, d.run.malformed)
	in.run.out, in.run.inside = out, true
	in.body()
	counts := in.total()
	for _, plain := range [...]Envelope{EnvelopeNone, EnvelopeEventList, EnvelopeEncoded, EnvelopeOther} {
		if plain < envelope {
			counts.Envelopes[envelope] += counts.Envelopes[plain]
			counts.Envelopes[plain] = 0
		}
	}
	d.run.counts.Add(counts)
	return counts.Read > counts.Skipped
}

// outside returns the place of an offset in the caller's bytes.
func (d *Decoder) outside(envelope Envelope, offset int) outside {
	if d.run.inside {
		out := d.run.out
		if envelope > EnvelopeOther {
			out.envelope = envelope
		}
		return out
	}
	if d.run.out.inflated == nil {
		d.layers.inflated = min(inflateFree+inflatePerByte*len(d.run.buf), inflateMost)
		d.run.out.inflated = &d.layers.inflated
	}
	return outside{envelope: envelope, line: d.lineOf(offset), offset: offset, inflated: d.run.out.inflated}
}

// foreignRecords counts records of other logs.
func (d *Decoder) foreignRecords(n int) { d.run.counts.Foreign += int64(n) }

// room returns the end of the arena, with space for n bytes behind it. What is not kept is given again.
func (l *layers) room(n int) []byte {
	const block = 64 << 10
	if n > block/2 {
		return make([]byte, 0, n)
	}
	if cap(l.arena)-len(l.arena) < n {
		l.arena = make([]byte, 0, block)
	}
	return l.arena[len(l.arena):len(l.arena):cap(l.arena)]
}

// keep makes sure that text, which room gave the memory for, is not written over.
func (l *layers) keep(text []byte) {
	if n := len(l.arena) + len(text); n <= cap(l.arena) && len(text) > 0 && &l.arena[:n][len(l.arena)] == &text[0] {
		l.arena = l.arena[:n]
	}
}
