package audit

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// unwrap decodes the object at buf[from:to], which is JSON and no event, if it is an envelope. Otherwise it is false, and nothing was
// reported.
func (d *Decoder) unwrap(from, to int) bool {
	var m memberSet
	if !m.look(&d.layers.fields.s, d.run.buf, from, to) {
		return false
	}
	return d.unwrapMembers(&m, from, to)
}

// unwrapEarly is unwrap of the object at start if its first key already is one of an envelope. Then the scanner is behind it. Otherwise it is false,
// and the object may well be an event, or an envelope.
func (d *Decoder) unwrapEarly(start int) bool {
	rest := d.run.buf[start:d.run.limit]
	key, _, _ := bytes.Cut(rest[2:min(len(rest), 20)], []byte{'"'})
	if memberOf(string(key)) < 0 {
		return false
	}
	var m memberSet
	s := &d.layers.fields.s
	if !m.look(s, d.run.buf, start, d.run.limit) || m.event {
		return false
	}
	end := s.Pos()
	if !d.unwrapMembers(&m, start, end) {
		return false
	}
	d.reader.s.Forward(end)
	return true
}

func (d *Decoder) unwrapMembers(m *memberSet, from, to int) bool {
	buf := d.run.buf
	switch {
	case m.is(mProtoPayload, jscan.Object):
		return d.gke(from, to)
	case m.has(mAuditID) && m.any(mRequestURI, mVerb):
		return d.auditTable(from, to)
	case m.elastic || m.is(mKubernetes, jscan.Object) && bytes.Contains(buf[m.of[mKubernetes].from:m.of[mKubernetes].to], elasticNeedle):
		if d.elastic(from, to) {
			return true
		}
	case m.is(mLogEvents, jscan.Array):
		d.cloudWatch(m)
		return true
	case m.is(mMessageType, jscan.String) && m.has(mLogGroup):
		d.foreignRecords(1)
		return true
	}
	if m.is(mProperties, jscan.Object) || m.is(mProperties, jscan.String) {
		if m.any(mCategory, mOperationName, mResourceID) {
			d.diagnostic(m)
			return true
		}
	}
	return d.export(m) || d.carrier(m)
}

// unwrapFaulty decodes the object at start, of which a field was not of the type that it has in an event, if it is an envelope. Then the scanner is
// behind it without a fault. Otherwise it is false, and the fault is left in the scanner.
func (d *Decoder) unwrapFaulty(start int) bool {
	s := &d.layers.fields.s
	s.ResetAt(d.run.buf[:d.run.limit], start)
	s.Skip()
	if s.Err() != nil || !d.unwrap(start, s.Pos()) {
		return false
	}
	d.reader.s.SkipAt(start)
	return true
}

// element decodes an element of an array that is no object: a string of JSON, or another array.
func (d *Decoder) element(start int) {
	s := &d.reader.s
	switch s.Peek() {
	case jscan.Array:
		inner := s.Raw()
		if f := s.Fault(); f != nil {
			d.report(f.Offset, f.Cause())
			return
		}
		d.nest(inner, EnvelopeNone, start)
		return
	case jscan.String:
	default:
		s.Object() // whose error is what there is to say
		d.report(s.Fault().Offset, s.Fault().Cause())
		return
	}
	raw, plain := s.Inside()
	switch {
	case s.Err() != nil:
		d.report(s.Fault().Offset, s.Fault().Cause())
	case promising(raw):
		d.text(raw, plain, EnvelopeEncoded, start)
	default:
		d.report(start, "value is not an object")
	}
}

// trueLevel reads the level of an event that OpenShift's forwarder took over the field of. It is false for any other event.
func (d *Decoder) trueLevel(start, end int) bool {
	event := d.run.buf[start:end]
	if !bytes.Contains(event, levelNeedle) {
		return false
	}
	s := &d.layers.fields.s
	s.Reset(event)
	var key string
	for s.Object(); s.Key(&key); {
		if (key == "k8s_audit_level" || key == "openshift_audit_level") && s.Peek() == jscan.String {
			d.ev.Level = levelOf(s.String())
			return true
		}
		s.Skip()
	}
	return false
}

var levelNeedle = []byte(`_audit_level"`)

// realBodies drops what stands in the place of a body that a shipper left out.
func (ev *Event) realBodies() {
	for _, body := range [...]*[]byte{&ev.RequestObject, &ev.ResponseObject} {
		if len(*body) > 0 && (*body)[0] == '"' {
			*body = nil
		}
	}
}

// reportOutside is report for what was found in an envelope.
func (d *Decoder) reportOutside(cause string) {
	out := d.run.out
	if out.envelope > EnvelopeOther && !strings.HasPrefix(cause, "in ") {
		cause = "in " + out.envelope.String() + ": " + cause
	}
	d.run.malformed(Malformed{Line: out.line, Offset: out.offset, Cause: cause})
}

// cloudWatch decodes the batch of a subscription to CloudWatch Logs.
func (d *Decoder) cloudWatch(m *memberSet) {
	buf, events := d.run.buf, m.of[mLogEvents]
	if m.begins(buf, mMessageType, "CONTROL_MESSAGE") || m.begins(buf, mLogGroup, "/aws/eks/") && foreignStream(buf, m) {
		d.foreignRecords(max(1, d.elements(events)))
		return
	}
	d.member(events, EnvelopeCloudWatch)
}

// foreignStream is whether a log event of EKS is of a stream next to that of the audit log.
func foreignStream(buf []byte, m *memberSet) bool {
	if !m.is(mLogStream, jscan.String) || m.begins(buf, mLogStream, "kube-apiserver-audit") {
		return false
	}
	for _, other := range [...]string{"kube-apiserver-", "authenticator-", "kube-controller-manager-", "cloud-controller-manager-", "kube-scheduler-"} {
		if m.begins(buf, mLogStream, other) {
			return true
		}
	}
	return false
}

// elements counts the elements of an array.
func (d *Decoder) elements(v member) (n int) {
	s := &d.layers.fields.s
	s.ResetAt(d.run.buf[:v.to], v.from)
	for s.Array(); s.More(); n++ {
		s.Skip()
	}
	return n
}

// diagnostic decodes a diagnostic record of Azure, one of records or a line of a blob.
func (d *Decoder) diagnostic(m *memberSet) {
	buf, s := d.run.buf, &d.layers.fields.s
	if m.is(mCategory, jscan.String) && !m.ofAudit(buf) {
		d.foreignRecords(1)
		return
	}
	properties := m.of[mProperties]
	if properties.kind == jscan.String {
		d.member(properties, EnvelopeAKS)
		return
	}
	var inside memberSet
	inside.look(s, buf, properties.from, properties.to)
	log := inside.of[mLog]
	switch {
	case log.kind == jscan.Object || foundIn(buf, log):
		d.member(log, EnvelopeAKS)
	case m.is(mCategory, jscan.String):
		d.reportInside(EnvelopeAKS, properties.from, "record of the audit log holds no JSON in properties.log")
	default: // klog's text is in the same hub
		d.foreignRecords(1)
	}
}

// carriers are the keys under which shippers carry what they ship, the surest first.
var carriers = [...]struct {
	key  int
	kind jscan.Kind
}{
	{mAtMessage, jscan.Object}, {mAtMessage, jscan.String}, {mMessage, jscan.Object}, {mMessage, jscan.String}, {mLog, jscan.String}, {mLine, jscan.String}, {mShortMessage, jscan.String}, {mFullMessage, jscan.String},
	{mStructured, jscan.Object}, {mEvent, jscan.Object}, {mEvent, jscan.String}, {mData, jscan.String}, {mAWSLogs, jscan.Object}, {mKinesis, jscan.Object},
	{mRecords, jscan.Array}, {mEvents, jscan.Array}, {mResourceLogs, jscan.Array}, {mScopeLogs, jscan.Array}, {mLogRecords, jscan.Array}, {mJSONPayload, jscan.Object}, {mTextPayload, jscan.String}, {mJournal, jscan.String},
	{mRaw, jscan.String}, {mSource, jscan.Object}, {mLog, jscan.Object}, {mBody, jscan.String}, {mBody, jscan.Object}, {mStringValue, jscan.String}, {mProperties, jscan.Object},
}

// carrier decodes what an object carries under one of the keys that shippers use.
func (d *Decoder) carrier(m *memberSet) bool {
	buf, s := d.run.buf, &d.layers.fields.s
	var only member
	for _, c := range carriers {
		v := m.of[c.key]
		if v.kind != c.kind {
			continue
		}
		switch v.kind {
		case jscan.String:
			if !foundIn(buf, v) && !(c.key == mData && base64Whole(v.inside(buf))) {
				if only.kind == jscan.None {
					only = v
				}
				continue
			}
		case jscan.Object:
			if !carries(s, buf, v) {
				continue
			}
		}
		if envelope := d.carrierOf(m, c.key); envelope == EnvelopeCloudWatch && foreignStream(buf, m) {
			d.foreignRecords(1)
		} else {
			d.memberOf(v, envelope, c.key == mData)
		}
		if c.key == mEvents && m.follows {
			d.reportInside(EnvelopeCloudWatch, v.from, "the answer has a nextToken, so more events follow: get all of them in one answer, as the AWS CLI does without --max-items")
		}
		return true
	}
	if m.other.kind == jscan.Object || foundIn(buf, m.other) {
		d.member(m.other, EnvelopeOther)
		return true
	}
	if m.has(mLogType) || foreignStream(buf, m) { // OpenShift's forwarder: the audit log of a host or of OVN
		d.foreignRecords(1)
		return true
	}
	if only.kind == jscan.None {
		return false
	}
	raw := only.inside(buf)
	if bytes.HasSuffix(raw, cutMark) {
		d.reportInside(EnvelopeCloudWatch, only.from, "event was cut off by CloudWatch Logs")
		return true
	}
	d.report(only.from, "record of a shipper holds no JSON but "+quote(raw))
	return true
}

// carries is whether an object may hold an event or an envelope: it has a member that is itself an object, an array or a promising string.
func carries(s *jscan.Scanner, buf []byte, v member) bool {
	found := false
	s.ResetAt(buf[:v.to], v.from)
	var key string
	for s.Object(); s.Key(&key); {
		switch key {
		case "kind", "auditID", "verb":
			found = true
		}
		found = found || strings.HasPrefix(key, elasticPrefix)
		switch memberOf(key) {
		case -1, mTimestamp, mHost, mFile, mID, mCategory, mTime,
			mFailed, mField, mMatched, mPITID, mScrollID, mShards, mStatistics, mStatus, mTimedOut, mTotal, mValue, mValues:
		default:
			found = true
		}
		s.Skip()
	}
	return found
}

// carrierOf tells from what else is in an object who made it.
func (d *Decoder) carrierOf(m *memberSet, key int) Envelope {
	switch key {
	case mShortMessage, mFullMessage:
		return EnvelopeGELF
	case mAtMessage:
		return EnvelopeCloudWatch
	case mLine:
		return EnvelopeLoki
	case mEvent:
		return EnvelopeSplunk
	case mStructured:
		return EnvelopeOpenShift
	case mAWSLogs:
		return EnvelopeCloudWatch
	case mData:
		if m.any(mMessageID) {
			return EnvelopePubSub
		}
		return EnvelopeOther
	case mLog:
		if m.has(mStream, mTime) && !m.any(mAtTimestamp, mKubernetes) {
			return EnvelopeContainerLog
		}
		return EnvelopeFluentBit
	case mMessage:
		switch {
		case m.is(mMessage, jscan.Object):
			// Of a push of Pub/Sub the message itself shows it.
		case m.any(mEventID, mIngestionTime), m.has(mID, mTimestamp):
			return EnvelopeCloudWatch
		case m.any(mAgent, mInput), m.has(mAtTimestamp) && m.is(mLog, jscan.Object):
			return EnvelopeFilebeat
		case m.any(mSourceType), m.has(mTimestamp) && m.any(mFile, mHost):
			return EnvelopeVector
		case m.has(mLogType):
			return EnvelopeOpenShift
		}
	}
	return EnvelopeOther
}

// member decodes a value of an envelope.
func (d *Decoder) member(v member, envelope Envelope) { d.memberOf(v, envelope, false) }

// memberOf is member. binary is whether a string is base64, of whatever, if it can be.
func (d *Decoder) memberOf(v member, envelope Envelope, binary bool) {
	buf := d.run.buf
	if v.kind != jscan.String {
		d.nest(buf[v.from:v.to:v.to], envelope, v.from)
		return
	}
	raw := v.inside(buf)
	plain := bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw)
	if binary && plain && base64Whole(raw) {
		d.base64(raw, envelope, v.from)
		return
	}
	d.text(raw, plain, envelope, v.from)
}
