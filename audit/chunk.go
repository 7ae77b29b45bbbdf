package audit

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// DefaultMaxEventBytes is how long an event may be where a Decoder does not say: 4 MiB.
const DefaultMaxEventBytes = 4 << 20

// Malformed is the place of something that is no audit event.
type Malformed struct {
	// Line is counted as the caller of Chunk or Document counts lines.
	Line int
	// Offset is in bytes from the beginning of the buffer.
	Offset int
	// Cause is one clause. It never quotes more than 40 bytes of the log, and those escaped.
	Cause string
	// OfNoNode says that it is what is left of an event, and that this shows that nothing needs the event: see [Needed].
	OfNoNode bool
}

// TooLong is the finding about an event or a line of size bytes that its reader did not even keep.
func TooLong(line, offset int, size int64, bound int) Malformed {
	return Malformed{Line: line, Offset: offset, Cause: fmt.Sprintf("event of %d bytes exceeds the bound of %d", size, bound)}
}

// Counts says what a buffer held.
type Counts struct {
	// Read is the number of well-formed events, Skipped those among them that nothing needs.
	Read, Skipped int64
	// Malformed is how often something was no audit event.
	Malformed int64
	// NULBytes is how many NUL bytes stood in the way. At its beginning a log that was copied and truncated has them.
	NULBytes int64
	// Foreign is how many records of other logs there were, as shippers put them next to audit events. They are not malformed.
	Foreign int64
	// Envelopes says how many of the events read came in which envelope. Together they are Read.
	Envelopes [NumEnvelopes]int64
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Read += other.Read
	c.Skipped += other.Skipped
	c.Malformed += other.Malformed
	c.NULBytes += other.NULBytes
	c.Foreign += other.Foreign
	for i, n := range other.Envelopes {
		c.Envelopes[i] += n
	}
}

// A Decoder takes buffers of audit logs apart. Its zero value decodes what the nodes did. It may be used again and again, by one
// goroutine at a time.
type Decoder struct {
	// Want is what to emit in addition to the requests of nodes.
	Want Want
	// MaxEventBytes is the length beyond which an event counts as malformed, DefaultMaxEventBytes if it is 0.
	MaxEventBytes int
	// Continues says that the next buffer begins within a line of which the buffer before had the beginning and nothing but NUL bytes behind it.
	Continues bool

	reader reader
	ev     Event
	held   []heldEvent // used again
	run    run
	layers layers
}

// A run is one buffer being taken apart.
type run struct {
	buf       []byte
	emit      func(*Event)
	malformed func(Malformed)
	counts    Counts
	// line is the number of the line that offset lineStart is on.
	line, lineStart int
	// limit is where the line or document ends that is being read.
	limit int
	// holes says that NUL bytes are in the line that is being read, in the place of nobody knows what.
	holes bool
	// inside is whether the buffer was found in an envelope, and out where.
	inside bool
	out    outside
}

// Chunk decodes a buffer of lines, the first of which has number firstLine. The buffer should end where a line ends; what is left of a
// torn line is malformed. A line may hold several events, an EventList or an array of events, or an envelope of them (see Message); a
// byte-order mark, carriage returns, and NUL bytes at the beginning of the first line are stepped over. Each event that is needed is given to
// emit, in order; the Event is used again after emit returns, but a copy of it (*ev) stays good as long as buf is left alone. Whatever is no
// event is given to malformed and does not stop the rest. Neither function may be nil or use the Decoder.
func (d *Decoder) Chunk(buf []byte, firstLine int, emit func(*Event), malformed func(Malformed)) Counts {
	d.begin(buf, firstLine, emit, malformed)
	d.lines()
	return d.total()
}

// lines decodes the lines of the whole of run.buf.
func (d *Decoder) lines() {
	buf := d.run.buf
	nul := nextNUL(buf, 0)
	for from := 0; from < len(buf); d.run.line++ {
		to := len(buf)
		if n := bytes.IndexByte(buf[from:], '\n'); n >= 0 {
			to = from + n
		}
		d.run.lineStart = from
		if nul < to {
			nul = d.holey(from, to)
		} else {
			d.piece(from, to)
		}
		from = to + 1
	}
}

func (d *Decoder) begin(buf []byte, firstLine int, emit func(*Event), malformed func(Malformed)) {
	d.run = run{buf: buf, emit: emit, malformed: malformed, line: firstLine}
}

func (d *Decoder) end() Counts {
	counts := d.run.counts
	// Nothing of the caller's stays behind.
	d.run, d.ev = run{}, Event{}
	d.reader.s.Reset(nil)
	d.layers.fields.s.Reset(nil)
	d.layers.fields.inner.Reset(nil)
	return counts
}

func (d *Decoder) bound() int {
	if d.MaxEventBytes > 0 {
		return d.MaxEventBytes
	}
	return DefaultMaxEventBytes
}

func nextNUL(buf []byte, from int) int {
	if n := bytes.IndexByte(buf[from:], 0); n >= 0 {
		return from + n
	}
	return len(buf)
}

// holey decodes a line that holds NUL bytes: what stands between them are pieces of their own. A log that was copied and truncated begins with them.
// Elsewhere they are in the place of what was written and lost, as after a crash: where no piece shows that, it is reported. holey returns where the next NUL
// is.
func (d *Decoder) holey(from, to int) int {
	buf, first, told := d.run.buf, nextNUL(d.run.buf[:to], from), d.run.counts.Malformed
	d.run.holes = true
	defer func() { d.run.holes = false }()
	for from < to {
		nul := min(nextNUL(buf[:to], from), to)
		d.piece(from, nul)
		for from = nul; from < to && buf[from] == 0; from++ {
			d.run.counts.NULBytes++
		}
	}
	if (first > 0 || d.run.line > 1 && !d.Continues) && d.run.counts.Malformed == told {
		d.report(first, "NUL bytes in the place of events")
	}
	return nextNUL(buf, to)
}

// piece decodes a line, or what is left of one between NUL bytes.
func (d *Decoder) piece(from, to int) {
	buf := d.run.buf
	for from < to && blank(buf[from]) {
		from++
	}
	for from < to && blank(buf[to-1]) {
		to--
	}
	if bytes.HasPrefix(buf[from:to], byteOrderMark) {
		from += len(byteOrderMark)
	}
	if from < to {
		d.values(from, to, true)
	}
}

var byteOrderMark = []byte("\xef\xbb\xbf")

func blank(c byte) bool { return c == ' ' || c == '\r' || c == '\t' }

// values decodes the values in buf[from:to], one behind the other. odd is whether there may be something in front of the first that is no JSON,
// or something else that only an envelope explains.
func (d *Decoder) values(from, to int, odd bool) {
	s := &d.reader.s
	d.run.limit = to
	s.ResetAt(d.run.buf[:to], from)
	for s.Space() {
		start := s.Pos()
		switch s.Peek() {
		case jscan.Object:
			d.object(start, true, true)
		case jscan.Array:
			d.array(false)
		default:
			if !odd || !d.oddLine(start, to) {
				d.report(start, fmt.Sprintf("not a JSON object but %s", quote(d.run.buf[start:to])))
			}
			return
		}
		odd = false
		if f := s.Fault(); f != nil {
			if s.SkipAt(start); s.Err() != nil {
				return
			}
		}
	}
}

// array decodes an array of events, or the items of a list. A fault that is left in the scanner was reported.
func (d *Decoder) array(items bool) {
	s := &d.reader.s
	for s.Array(); s.More(); {
		s.Space()
		start := s.Pos()
		if !items && s.Peek() != jscan.Object {
			d.element(start)
		} else {
			d.object(start, false, !items)
		}
		if f := s.Fault(); f != nil && f.Fault == jscan.WrongType {
			s.SkipAt(start)
			if f = s.Fault(); f != nil {
				d.report(f.Offset, f.Cause())
				return
			}
		}
		if s.Err() != nil {
			return
		}
	}
	if f := s.Fault(); f != nil {
		d.report(f.Offset, f.Cause())
	}
}

// object decodes one event, or a list of events where lists may be, or an envelope where those may be. A fault that is left in the scanner was
// reported.
func (d *Decoder) object(start int, lists, envelopes bool) {
	s := &d.reader.s
	// An event begins with "kind" as kube-apiserver writes it.
	if envelopes && start+8 < d.run.limit && d.run.buf[start+2] != 'k' && d.unwrapEarly(start) {
		return
	}
	env := d.reader.event(&d.ev)
	if f := s.Fault(); f != nil {
		if lists && env.kind == "EventList" && env.items >= 0 && f.Fault != jscan.WrongType {
			d.tornList(start, env, f.Offset, f.Cause())
			return
		}
		if envelopes && f.Fault == jscan.WrongType && d.unwrapFaulty(start) {
			return
		}
		if envelopes && lists {
			d.torn(start)
		} else {
			d.report(f.Offset, f.Cause())
		}
		return
	}
	if lists && (env.kind == "EventList" || env.kind == "" && env.items >= 0 && d.ev.AuditID == "") {
		d.list(env)
		return
	}
	end := s.Pos()
	if cause := foreign(env, &d.ev); cause != "" {
		switch {
		case envelopes && env.kind == "EventList": // a list in an array
			d.nest(d.run.buf[start:end:end], EnvelopeNone, start)
			return
		case envelopes && d.unwrap(start, end):
			return
		}
		d.report(start, cause)
		return
	}
	if end-start > d.bound() {
		if _, ok := reduce(s.Slice(start, end), d.bound(), &d.ev); !ok {
			d.report(start, TooLong(0, 0, int64(end-start), d.bound()).Cause)
			return
		}
	}
	openShift := d.ev.Level == LevelUnknown && d.trueLevel(start, end)
	if d.take(start) && openShift {
		d.run.counts.Envelopes[EnvelopeOpenShift]++
	}
}

// take counts the event that was decoded, and gives it to emit if it is needed. It is false, and reports the event, if nothing can need it only because its
// user is missing.
func (d *Decoder) take(start int) bool {
	needed := Needed(&d.ev, d.Want)
	if !needed && d.ev.User.Username == "" && lostUser(&d.ev) {
		d.report(start, "event has no user")
		return false
	}
	d.run.counts.Read++
	if !needed {
		d.run.counts.Skipped++
		return true
	}
	d.ev.Line = d.lineOf(start)
	if d.run.inside {
		d.ev.realBodies()
	}
	d.run.emit(&d.ev)
	return true
}

// lostUser is whether an event without a user had one. kube-apiserver writes none if it does not authenticate the client (401), or if the request's
// timeout is invalid (400); see k8s.io/apiserver/pkg/endpoints/filters, WithFailedAuthenticationAudit and WithRequestDeadline.
func lostUser(ev *Event) bool {
	return (ev.Stage == StageResponseStarted || ev.Stage == StageResponseComplete) && ev.Code != 400 && ev.Code != 401 && !ev.Derived
}

// tornList decodes what came before the fault in a list, and leaves the fault in the scanner.
func (d *Decoder) tornList(start int, env envelope, offset int, cause string) {
	s := &d.reader.s
	s.ResetAt(d.run.buf[:d.run.limit], env.items)
	if !s.Null() {
		d.items()
	}
	if s.Err() == nil { // it is behind the items
		d.report(offset, cause)
		s.SkipAt(start)
	}
}

// list decodes the items of a list that was checked to be JSON, and continues behind it.
func (d *Decoder) list(env envelope) {
	s := &d.reader.s
	end := s.Pos()
	if cause := foreignVersion(env); cause != "" {
		d.report(end-1, cause)
		return
	}
	if env.items < 0 {
		d.report(end-1, "EventList has no items")
		return
	}
	s.ResetAt(d.run.buf[:end], env.items)
	if !s.Null() {
		d.items()
	}
	s.ResetAt(d.run.buf[:d.run.limit], end)
}

// items decodes the items of a list.
func (d *Decoder) items() { d.counted(EnvelopeEventList, func() { d.array(true) }) }

// foreign says why a JSON object, which was read into ev, is no audit event, or "".
func foreign(env envelope, ev *Event) string {
	switch {
	case env.kind != "" && env.kind != "Event":
		return fmt.Sprintf("kind %s is not an audit event", quote([]byte(env.kind)))
	case env.kind == "" && ev.AuditID == "" && ev.Verb == "":
		return "object is not an audit event"
	}
	return foreignVersion(env)
}

// foreignVersion says why an object of the version is no audit event that is known, or "". The versions before v1, which are gone since Kubernetes 1.24, have the same fields.
func foreignVersion(env envelope) string {
	switch env.apiVersion {
	case "", "audit.k8s.io/v1", "audit.k8s.io/v1beta1", "audit.k8s.io/v1alpha1":
		return ""
	}
	if strings.HasPrefix(env.apiVersion, "audit.k8s.io/") {
		return fmt.Sprintf("apiVersion %s is not known: audit.k8s.io/v1 is", quote([]byte(env.apiVersion)))
	}
	return fmt.Sprintf("apiVersion %s is not of audit.k8s.io", quote([]byte(env.apiVersion)))
}

// quote shows the beginning of hostile bytes.
func quote(b []byte) string {
	const most = 40
	if len(b) > most {
		return fmt.Sprintf("%.*q…", most, b[:most])
	}
	return fmt.Sprintf("%q", b)
}

func (d *Decoder) report(offset int, cause string) { d.reportOf(offset, cause, false) }

func (d *Decoder) reportOf(offset int, cause string, ofNoNode bool) {
	d.run.counts.Malformed++
	if d.run.inside {
		d.reportOutside(cause)
		return
	}
	d.run.malformed(Malformed{Line: d.lineOf(offset), Offset: offset, Cause: cause, OfNoNode: ofNoNode})
}

// lineOf returns the number of the line that offset is on. Offsets mostly come in order, so that it counts on from where it last was.
func (d *Decoder) lineOf(offset int) int {
	r := &d.run
	if r.inside {
		return r.out.line
	}
	if offset < r.lineStart {
		return r.line - bytes.Count(r.buf[offset:r.lineStart], []byte{'\n'})
	}
	r.line += bytes.Count(r.buf[r.lineStart:offset], []byte{'\n'})
	r.lineStart = offset
	return r.line
}
