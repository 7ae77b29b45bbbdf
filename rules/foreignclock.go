package rules

import (
	"net/http"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/json"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// ClockDoubt is by how much the clock of an API server may be wrong. The time of a request is that of the API server's clock, not of the state's.
const ClockDoubt = 10 * time.Minute

const (
	// clocksApart is by how much clocks that are kept right may differ.
	clocksApart = 5 * time.Second
	// struckFor is how long after a delete or an eviction of a pod its end may come: its grace period passes.
	struckFor = time.Minute
)

// clockWord is what the clocks of API servers say to a node's write of a pod that the state has elsewhere.
type clockWord uint8

const (
	notClock   clockWord = iota // it is of the pod that is elsewhere
	mayBeClock                  // nothing tells of which pod it is
	isClock                     // it is of a pod on the node
)

// PassedByClock reports, for a node's write of a pod that was not on it at the time of the request, whether it may be of one of the same name that was within [ClockDoubt].
func PassedByClock(r *Request, s State) bool { return byClock(r, s) != notClock }

// byClock says whether a node's write of a pod name is of a pod that was on the node within [ClockDoubt]. A pod cannot be moved to another node: one of the same
// name elsewhere is another pod, with another UID. So the write is of the pod whose UID it has; without one, of a delete the state tells which pod ended.
func byClock(r *Request, s State) clockWord {
	a := r.Attrs
	gone := r.Allowed && r.Event.Code == http.StatusNotFound
	switch {
	case s == nil || !r.IsNode || a.APIGroup != "" || a.Resource != "pods" || a.Name == "":
		return notClock
	case r.Allowed && r.Event.Code == http.StatusConflict && a.Verb == "delete":
		return ownPod(r, s)
	case !r.Succeeded() && !gone:
		return notClock
	}
	uid, ends := writtenUID(r), !gone && (a.Verb == "delete" || a.Subresource == "eviction")
	word, struck := notClock, false
	within := func(t time.Time, before, after time.Duration) bool {
		return !t.IsZero() && !t.Before(r.Time.Add(-before)) && !t.After(r.Time.Add(after))
	}
	s.PodStays(a.Namespace, a.Name, uid, r.Time.Add(-ClockDoubt), r.Time.Add(ClockDoubt), func(stay *nodeauthz.Stay) {
		named := uid != "" && stay.UIDKnown
		switch {
		case stay.Node != r.Node:
			struck = struck || named && stay.Is || uid == "" && ends && !stay.Begin.After(r.Time) && within(stay.End, clocksApart, struckFor)
		case named && !stay.Is: // it is of another pod
		case named, gone:
			word = isClock
		case ends && within(stay.End, clocksApart, clocksApart), !ends && (within(stay.Begin, clocksApart, clocksApart) || within(stay.End, clocksApart, clocksApart)):
			word = isClock
		default:
			word = max(word, mayBeClock)
		}
	})
	if struck {
		return notClock
	}
	return word
}

// ownPod says isClock if a deletion that was refused (409) names a pod that was on the node at any time: a kubelet that was away deletes it when its name is
// already another pod's. Without a UID in the log, a pod of the name must have been there.
func ownPod(r *Request, s State) (word clockWord) {
	uid := writtenUID(r)
	s.PodStays(r.Attrs.Namespace, r.Attrs.Name, uid, time.Time{}, r.Time.Add(ClockDoubt), func(stay *nodeauthz.Stay) {
		if stay.Node == r.Node && (uid == "" || !stay.UIDKnown || stay.Is) {
			word = isClock
		}
	})
	return word
}

// writtenUID is the UID that the body of a write says the pod must have; "" for none, and where the API server may read another one. It refuses such a write of
// another pod.
func writtenUID(r *Request) string {
	var body map[string]any // of members that come twice the last one counts, as in the API server, which does not fold the letters of names
	if len(r.Event.RequestObject) == 0 || json.Unmarshal(r.Event.RequestObject, &body) != nil {
		return ""
	}
	path := []string{"metadata"}
	switch {
	case r.Attrs.Verb == "delete":
		path = []string{"preconditions"}
	case r.Attrs.Subresource == "eviction":
		path = []string{"deleteOptions", "preconditions"}
	}
	for _, name := range append([]string{""}, path...) {
		if name != "" {
			body, _ = body[name].(map[string]any)
		}
		for member := range body {
			if strings.HasPrefix(member, "$") { // a directive of a patch
				return ""
			}
		}
	}
	uid, _ := body["uid"].(string)
	return uid
}
