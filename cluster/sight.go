package cluster

import (
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// sight is whether a live kind is being watched.
type sight struct {
	blind bool
	since int64 // the last moment of which all is known
}

// never is the beginning of a hole before which nobody watched: the earliest instant that a journal can name and that is not zero.
const never = second

// graphKind is the kind of vertex that a kind's objects are.
var graphKind = [numKinds]nodeauthz.Kind{
	kindPod:                   nodeauthz.KindPod,
	kindPersistentVolume:      nodeauthz.KindPersistentVolume,
	kindVolumeAttachment:      nodeauthz.KindVolumeAttachment,
	kindResourceSlice:         nodeauthz.KindResourceSlice,
	kindPodCertificateRequest: nodeauthz.KindPodCertificateRequest,
}

// isRole reports whether the kind is one of RBAC's.
func isRole(id kindID) bool {
	return id == kindClusterRole || id == kindClusterRoleBinding || id == kindRole || id == kindRoleBinding
}

// holeTime is the beginning of a hole; the zero time says that nobody ever watched before.
func holeTime(ns int64) time.Time {
	if ns <= never {
		return time.Time{}
	}
	return timeOf(ns)
}

// uncovered notes that nobody watched the kind from one instant to the other. The state is locked.
func (s *State) uncovered(id kindID, from, to int64) {
	if k, ok := id.admissionKind(); ok {
		s.Admission.Uncovered(k, timeOf(from), timeOf(to))
	}
	switch {
	case graphKind[id] != nodeauthz.KindNone:
		s.Graph.Uncovered(graphKind[id], holeTime(from), timeOf(to))
	case isRole(id):
		s.RBAC.Uncovered(holeTime(from), timeOf(to))
	case id == kindNode:
		s.Nodes.changeHoles(func(h *nodeauthz.Holes) { h.Add(holeTime(from), timeOf(to)) })
	case id == kindLease:
		s.Servers.changeHoles(func(h *nodeauthz.Holes) { h.Add(holeTime(from), timeOf(to)) })
	}
}

// lost notes that nobody watches the kind since the given instant; never if it was not listed yet or cannot be. The state is locked.
func (s *State) lost(id kindID, since int64) {
	s.sight[id] = sight{blind: true, since: since}
	if k, ok := id.admissionKind(); ok {
		s.Admission.UncoveredSince(k, timeOf(since))
	}
	switch {
	case graphKind[id] != nodeauthz.KindNone:
		s.Graph.UncoveredSince(graphKind[id], holeTime(since))
	case isRole(id):
		s.seeRoles()
	case id == kindNode:
		s.Nodes.changeHoles(func(h *nodeauthz.Holes) { h.Since(holeTime(since)) })
	case id == kindLease:
		s.Servers.changeHoles(func(h *nodeauthz.Holes) { h.Since(holeTime(since)) })
	}
}

// regained notes that all is known that happened since the kind was lost, but for holes. The state is locked.
func (s *State) regained(id kindID) {
	s.sight[id] = sight{}
	if k, ok := id.admissionKind(); ok {
		s.Admission.CoveredAgain(k)
	}
	switch {
	case graphKind[id] != nodeauthz.KindNone:
		s.Graph.CoveredAgain(graphKind[id])
	case isRole(id):
		s.seeRoles()
	case id == kindNode:
		s.Nodes.changeHoles((*nodeauthz.Holes).End)
	case id == kindLease:
		s.Servers.changeHoles((*nodeauthz.Holes).End)
	}
}

// seeRoles tells the store of roles since when one of its kinds was lost.
func (s *State) seeRoles() {
	blind, since := false, int64(0)
	for id, k := range s.sight {
		if !isRole(kindID(id)) || !k.blind {
			continue
		}
		if !blind || k.since < since {
			since = k.since
		}
		blind = true
	}
	if blind {
		s.RBAC.UncoveredSince(holeTime(since))
	} else {
		s.RBAC.CoveredAgain()
	}
}

// maxHoleWarnings bounds how many holes are listed.
const maxHoleWarnings = 5

// unwatched says when the kinds of the graph were not watched, as far as it is within the window of the log.
func (s *State) unwatched(logFrom, logTo time.Time) []codes.Gap {
	var all nodeauthz.Holes
	for _, kind := range graphKind {
		for _, h := range s.Graph.Holes(kind) {
			if h.From.IsZero() || h.To.IsZero() || !logTo.IsZero() && h.From.After(logTo) || h.To.Before(logFrom) {
				continue // before the state begins, or not over: distinguished
			}
			all.Add(h.From, h.To)
		}
	}
	var out []codes.Gap
	for i, h := range all.All() {
		if i == maxHoleWarnings {
			out = append(out, codes.Gap{
				Kind: codes.State, Code: codes.NotWatchedMore, Params: codes.Params{codes.Int(codes.ParamCount, len(all.All())-i)},
			})
			break
		}
		out = append(out, codes.Gap{Kind: codes.State, Code: codes.NotWatched, Params: codes.Params{
			codes.Duration(codes.ParamBy, h.To.Sub(h.From).Round(time.Millisecond)), codes.Time(codes.ParamAt, h.From),
		}})
	}
	return out
}
