package audit

import (
	"bytes"
	"strings"

	"github.com/nodetrail/nodetrail/internal/jscan"
)

// A member is where the value of a key is in a buffer. Its kind is jscan.None where there is none.
type member struct {
	from, to int
	kind     jscan.Kind
}

// The keys by which envelopes show.
const (
	mAgent = iota
	mAtMessage
	mAtTimestamp
	mAuditID
	mAWSLogs
	mBody
	mCategory
	mData
	mEvent
	mEventID
	mEvents
	mFailed
	mField
	mFile
	mFullMessage
	mHits
	mHost
	mID
	mIngestionTime
	mInput
	mJournal
	mJSONPayload
	mKinesis
	mKubernetes
	mLine
	mLog
	mLogEvents
	mLogGroup
	mLogName
	mLogRecords
	mLogStream
	mLogType
	mMatched
	mMessage
	mMessageID
	mMessageType
	mOperationName
	mPITID
	mProperties
	mProtoPayload
	mRaw
	mRecords
	mRequestURI
	mResourceID
	mResourceLogs
	mResult
	mResults
	mScopeLogs
	mScrollID
	mShards
	mShortMessage
	mSource
	mSourceType
	mStatistics
	mStatus
	mStream
	mStreams
	mStringValue
	mStructured
	mTextPayload
	mTime
	mTimedOut
	mTimestamp
	mTotal
	mValue
	mValues
	mVerb
	numMembers
)

// memberOf returns the index of a key, or -1.
func memberOf(key string) int {
	switch key {
	case "agent":
		return mAgent
	case "@timestamp":
		return mAtTimestamp
	case "AuditId":
		return mAuditID
	case "awslogs":
		return mAWSLogs
	case "body":
		return mBody
	case "category", "Category":
		return mCategory
	case "data":
		return mData
	case "event":
		return mEvent
	case "eventId":
		return mEventID
	case "events":
		return mEvents
	case "file":
		return mFile
	case "full_message":
		return mFullMessage
	case "host", "hostname":
		return mHost
	case "id":
		return mID
	case "ingestionTime":
		return mIngestionTime
	case "input":
		return mInput
	case "MESSAGE":
		return mJournal
	case "jsonPayload":
		return mJSONPayload
	case "kinesis":
		return mKinesis
	case "kubernetes":
		return mKubernetes
	case "log":
		return mLog
	case "logEvents":
		return mLogEvents
	case "logGroup":
		return mLogGroup
	case "logName":
		return mLogName
	case "logRecords":
		return mLogRecords
	case "resourceLogs":
		return mResourceLogs
	case "scopeLogs":
		return mScopeLogs
	case "stringValue":
		return mStringValue
	case "logStream", "logStreamName", "@logStream":
		return mLogStream
	case "log_type":
		return mLogType
	case "message", "Message":
		return mMessage
	case "messageId", "message_id":
		return mMessageID
	case "messageType":
		return mMessageType
	case "operationName":
		return mOperationName
	case "properties":
		return mProperties
	case "protoPayload":
		return mProtoPayload
	case "_raw":
		return mRaw
	case "records", "Records":
		return mRecords
	case "RequestUri":
		return mRequestURI
	case "resourceId":
		return mResourceID
	case "short_message":
		return mShortMessage
	case "_source":
		return mSource
	case "source_type":
		return mSourceType
	case "stream":
		return mStream
	case "structured":
		return mStructured
	case "textPayload":
		return mTextPayload
	case "time":
		return mTime
	case "timestamp":
		return mTimestamp
	case "Verb":
		return mVerb
	case "@message":
		return mAtMessage
	case "failed":
		return mFailed
	case "field":
		return mField
	case "hits":
		return mHits
	case "line", "Line":
		return mLine
	case "recordsMatched":
		return mMatched
	case "pit_id":
		return mPITID
	case "result":
		return mResult
	case "results":
		return mResults
	case "_scroll_id":
		return mScrollID
	case "_shards":
		return mShards
	case "statistics":
		return mStatistics
	case "status":
		return mStatus
	case "streams":
		return mStreams
	case "timed_out":
		return mTimedOut
	case "total":
		return mTotal
	case "value":
		return mValue
	case "values":
		return mValues
	}
	return -1
}

// A memberSet is what an object holds under the keys of envelopes. Of duplicate keys the last one counts.
type memberSet struct {
	of [numMembers]member
	// other is the first value under any other key that may hold an event.
	other member
	// elastic is whether a key begins with kubernetes.audit., event whether one is of events or of lists of them.
	elastic, event bool
	// follows is whether the answer of a log store says that there is more.
	follows bool
}

// look reads the keys of the object at buf[from:to]. It is false where that is not JSON.
func (m *memberSet) look(s *jscan.Scanner, buf []byte, from, to int) bool {
	s.ResetAt(buf[:to], from)
	var key string
	for s.Object(); s.Key(&key); {
		i := memberOf(key)
		if i < 0 {
			switch {
			case key == "kind", key == "auditID", key == "verb", key == "items":
				m.event = true
			case strings.HasPrefix(key, elasticPrefix):
				m.elastic = true
			}
			v := valueOf(s)
			if key == "nextToken" || key == "NextToken" {
				m.follows = v.kind == jscan.String && v.to-v.from > len(`""`)
			}
			if m.other.kind == jscan.None && (v.kind == jscan.Object || v.kind == jscan.String) && bytes.Contains(buf[v.from:v.to], auditIDNeedle) {
				m.other = v
			}
			continue
		}
		m.of[i] = valueOf(s)
	}
	return s.Err() == nil
}

var (
	elasticNeedle = []byte(`"audit`)
	auditIDNeedle = []byte("auditID")
)

// valueOf steps over the next value.
func valueOf(s *jscan.Scanner) member {
	kind := s.Peek()
	from := s.Pos()
	s.Skip()
	return member{from: from, to: s.Pos(), kind: kind}
}

// has is whether all of these keys are there.
func (m *memberSet) has(keys ...int) bool {
	for _, k := range keys {
		if m.of[k].kind == jscan.None {
			return false
		}
	}
	return true
}

// any is whether one of these keys is there.
func (m *memberSet) any(keys ...int) bool {
	for _, k := range keys {
		if m.of[k].kind != jscan.None {
			return true
		}
	}
	return false
}

func (m *memberSet) is(key int, kind jscan.Kind) bool { return m.of[key].kind == kind }

// begins is whether a member is a string that begins with prefix.
func (m *memberSet) begins(buf []byte, key int, prefix string) bool {
	return bytes.HasPrefix(m.text(buf, key), []byte(prefix))
}

// ofAudit is whether the category of an Azure record is one of the audit log's. Azure compares categories without regard to case.
func (m *memberSet) ofAudit(buf []byte) bool {
	text := m.text(buf, mCategory)
	return len(text) >= len(auditCategory) && strings.EqualFold(string(text[:len(auditCategory)]), auditCategory)
}

// auditCategory begins the categories kube-audit and kube-audit-admin.
const auditCategory = "kube-audit"

// text returns what a member says that is a string, nil if it is none.
func (m *memberSet) text(buf []byte, key int) []byte {
	v := m.of[key]
	if v.kind != jscan.String {
		return nil
	}
	text := v.inside(buf)
	if bytes.IndexByte(text, '\\') >= 0 {
		return jscan.AppendUnescaped(nil, text)
	}
	return text
}
