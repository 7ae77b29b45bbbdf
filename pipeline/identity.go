package pipeline

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/tally"
)

// idOf identifies a request, by all that was logged of it where it has no auditID.
func idOf(ev *audit.Event) tally.ID {
	var b [512]byte
	if ev.AuditID != "" {
		return tally.IDOf(identify(b[:0], ev))
	}
	id := b[:0]
	for _, s := range []string{
		ev.RequestReceived.Format(time.RFC3339Nano), ev.Verb, ev.RequestURI, ev.User.Username, ev.Impersonated.Username, ev.UserAgent,
		ev.ObjectRef.Name, ev.Decision, ev.Reason, strconv.Itoa(int(ev.Code)), fmt.Sprint(ev.SourceIPs),
	} {
		id = fmt.Appendf(id, "%d:%s,", len(s), s)
	}
	return tally.IDOf(id)
}

// identify appends what all events of one request share, and events of no other: its auditID, verb and URI, and when it was received. The
// auditID alone does not do: a client may give it by the header Audit-ID, the same for all that it asks for, and what looked like another
// event of a harmless request would never be judged. Events derived from another kind of log have no such time.
func identify(b []byte, ev *audit.Event) []byte {
	b = appendTexts(b, ev.AuditID, ev.Verb, ev.RequestURI)
	if hasTime(ev) {
		b = binary.AppendVarint(b, ev.RequestReceived.UnixMicro())
	}
	return b
}

// appendTexts appends texts with their lengths, so that no two rows of texts look alike.
func appendTexts(b []byte, texts ...string) []byte {
	for _, s := range texts {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return b
}

// hasTime reports whether all events of the request have the time when it was received.
func hasTime(ev *audit.Event) bool { return !ev.Derived && !ev.RequestReceived.IsZero() }

// identifyOther appends what identify does, and the answer: for a request that has the same in common with another one.
func identifyOther(b []byte, ev *audit.Event) []byte { return answer(identify(b, ev), ev) }

// answers reports whether the event tells of its request's answer.
func answers(ev *audit.Event) bool {
	return ev.Stage == audit.StageResponseComplete || ev.Stage == audit.StageResponseStarted && hasTime(ev)
}

// answerOf is of what the event tells of its request's answer, zero if it tells nothing.
func answerOf(ev *audit.Event) tally.ID {
	if !answers(ev) {
		return tally.ID{}
	}
	var b [512]byte
	return tally.IDOf(answer(b[:0], ev))
}

// answer appends what the events of a request share from its answer on, as do copies of them, and events of two requests need not: who asked, from where and by what program, as whom, and the code.
// Where identify has no time, it is the time; where there is no URI, the object.
func answer(b []byte, ev *audit.Event) []byte {
	address, _ := ev.Address()
	b = appendTexts(b, ev.User.Username, address, ev.UserAgent, ev.Impersonated.Username)
	if ev.IsImpersonated {
		b = append(b, '+')
	}
	b = binary.AppendVarint(b, int64(ev.Code))
	if !hasTime(ev) {
		b = binary.AppendVarint(b, timeOf(ev).UnixMicro())
	}
	if ev.RequestURI == "" {
		o := &ev.ObjectRef
		b = appendTexts(b, o.APIGroup, o.Resource, o.Subresource, o.Namespace, o.Name)
	}
	return b
}

// timeOf is where in the log's time an event stands.
func timeOf(ev *audit.Event) time.Time {
	if ev.StageTime.IsZero() {
		return ev.RequestReceived
	}
	return ev.StageTime
}
