package nodeadmission

import (
	"maps"
	"net/http"

	"k8s.io/apimachinery/pkg/api/equality"
)

// effect is what an update finds of a Node, and what it makes of it: one for each type that a patch can be, or what a patch of the labels alone says.
type effect struct {
	found  *nodeBody
	makes  []*nodeBody
	labels []byte
}

// made reports whether what another evaluation found is what this one makes, and not what it found: then the request itself may have made it.
func (x *effect) made(other *effect) bool {
	if x.found == nil || other.found == nil || equality.Semantic.DeepEqual(x.found, other.found) {
		return false
	}
	makes := x.makes
	if x.labels != nil {
		makes = append(makes, labelled(x.found, x.labels))
	}
	for _, m := range makes {
		if equality.Semantic.DeepEqual(m, other.found) {
			return true
		}
	}
	return false
}

// labelled is what a patch of the labels makes of a Node.
func labelled(found *nodeBody, patch []byte) *nodeBody {
	made := *found
	made.Metadata.Labels = maps.Clone(found.Metadata.Labels)
	if made.Metadata.Labels == nil {
		made.Metadata.Labels = map[string]string{}
	}
	eachLabel(patch, func(key, value string, remove bool) bool {
		if remove {
			delete(made.Metadata.Labels, key)
		} else {
			made.Metadata.Labels[key] = value
		}
		return true
	})
	return &made
}

// lacksObject reports whether what is missing is the object of the request, which may be gone by the request itself.
func (e *eval) lacksObject(m Missing) bool {
	switch e.resource {
	case "pods":
		return m == MissingPod
	case "nodes":
		return m == MissingNode
	case "persistentvolumeclaims":
		return m == MissingClaim
	case "resourceslices":
		return m == MissingSlice
	}
	return false
}

// absent reports whether the answer is that the object is not there.
func (a *Answer) absent() bool { return a.Verdict == None || a.Code == http.StatusNotFound }

// mayBeItself reports whether what the answer depends on changed so late that the request itself may have done it, and whether that bears on the answer.
func (e *eval) mayBeItself(ans *Answer) bool {
	if e.from == 0 || e.from < e.at.UnixNano()-int64(e.a.skew) {
		return false
	}
	return ans.absent() || e.verb == "patch" && ans.Verdict != Deny
}

// beforeItself returns the answer for a request that was carried out: the one as of before its own effect, where the state has that already at its time. For
// clocks differ, and the state may have the time of the request itself.
func (e *eval) beforeItself(ans Answer) Answer {
	now := *e
	before := e.decideAt(e.from - 1)
	if bears := before.Verdict == Deny || ans.Verdict == Unknown && before.Verdict != Unknown; bears && (ans.absent() || e.made(&now.effect)) {
		return before
	}
	*e = now
	return ans
}
