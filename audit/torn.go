package audit

import "bytes"

// eventStart begins each event that kube-apiserver writes to its log. Within a string of JSON its quotes are escaped.
var eventStart = []byte(nativeHead)

const nativeHead = `{"kind":"Event","apiVersion":"audit.k8s.io/`

// maxGlued bounds where a whole event is looked for behind a torn one.
const maxGlued = 16

// torn reports an object that begins a line and is no JSON, as an API server leaves that was killed while it wrote. What it writes when it is
// started again follows on the same line: then what is in front of that is reported, and the scanner continues with the whole event. Otherwise the
// fault stays in the scanner.
func (d *Decoder) torn(start int) {
	limit, s := d.run.limit, &d.reader.s
	fault, faulty := s.Fault(), *s
	at := d.glued(start, limit, fault.Offset)
	if at < 0 {
		*s = faulty
		d.reportTorn(start, limit, fault.Offset, fault.Cause())
		return
	}
	s.ResetAt(d.run.buf[:at], start)
	d.reader.event(&d.ev)
	fault = s.Fault() // an object with a fault has one in each part of it, too
	d.reportTorn(start, at, fault.Offset, fault.Cause())
	s.ResetAt(d.run.buf[:limit], at)
}

// glued returns where the last whole event of buf[start:limit] begins, if the line ends with it and something is in front of it; else -1. An object in
// the body of a request may look like an event, but does not end where the line ends; unless that is where the fault is.
func (d *Decoder) glued(start, limit, fault int) int {
	if fault >= limit && d.reader.last&(seenRequestObject|seenResponseObject) != 0 {
		return -1
	}
	s := &d.reader.s
	for to, n := limit, 0; n < maxGlued; n++ {
		at := bytes.LastIndex(d.run.buf[start:to], eventStart)
		if at <= 0 {
			return -1
		}
		to = start + at
		s.ResetAt(d.run.buf[:limit], to)
		if s.Skip(); s.Err() == nil && !s.Space() {
			return to
		}
	}
	return -1
}

// reportTorn reports a line, or a part of one, buf[start:end], that was torn while it was decoded into the Decoder's event.
func (d *Decoder) reportTorn(start, end, offset int, cause string) {
	d.reportOf(offset, cause, d.ofNoNode(d.run.buf[start:end]))
}

// ofNoNode reports whether what is left of a torn event, which was just decoded as far as it goes, shows that nothing needs the event. kube-apiserver
// writes the status behind all that decides about it.
func (d *Decoder) ofNoNode(left []byte) bool {
	const decides = seenUser | seenVerb | seenStatus
	if d.run.inside || d.run.holes || d.Want.All || d.reader.twice || d.reader.whole&decides != decides {
		return false
	}
	if d.reader.whole&seenAnnotations == 0 { // the reason may be in what is missing
		d.ev.Decision = ""
	}
	return bytes.HasPrefix(left, eventStart) && !bytes.Contains(left[1:], eventStart) && !Needed(&d.ev, d.Want)
}
