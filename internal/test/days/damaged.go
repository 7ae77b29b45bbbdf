package days

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// damaged are mutations that a third examiner found to leave a day READY: files that were written in part, and requests that nobody was asked about.
func damaged() []Mutation {
	const judged, inventoried = "every-event-judged", "bindings-inventoried"
	out := []Mutation{
		{
			Name: "request-nulled", Effect: Hides, Checks: []string{judged}, Description: "NUL bytes are in the place of a planted request, as after a crash", apply: func(m *mutator) string {
				p := m.plant(m.late(minute).from)
				if p == nil {
					return ""
				}
				p.e.Nulled = true
				m.add(p.e)
				return p.String()
			},
		},
		{
			Name: "nuls-in-front", Effect: Harmless, Description: "the log begins with NUL bytes, as one that was copied and truncated", apply: func(m *mutator) string {
				if len(m.Events) == 0 {
					return ""
				}
				e := *m.Events[0]
				e.Hole = 1 + m.IntN(100_000)
				m.Events[0] = &e
				return fmt.Sprintf("%d NUL bytes", e.Hole)
			},
		},
		{
			Name: "request-too-many", Effect: Breaks, Checks: []string{"nothing-depends"}, Description: "the API server is too busy to ask its authorizers about a planted request, and answers 429",
			apply: func(m *mutator) string {
				p := m.plantAsk(m.moment(), asks[0])
				if p == nil {
					return ""
				}
				p.e.Decision, p.e.DecisionReason, p.e.Code = "", "", 429
				p.e.Message, p.e.Reason = "Too many requests, please try again later.", "TooManyRequests"
				m.add(p.e)
				return p.String()
			},
		},
		{
			Name: "kubelet-too-many", Effect: Harmless, Description: "the API server is too busy to ask its authorizers about a kubelet's request, which comes again", apply: func(m *mutator) string {
				at := m.moment()
				like := m.like(m.node(), at)
				if like == nil {
					return ""
				}
				e := m.ownLease(like, at)
				e.Decision, e.Code = "", 429
				e.Message, e.Reason = "Too many requests, please try again later.", "TooManyRequests"
				m.add(e)
				return nodeOf(like.User)
			},
		},
		{
			Name: "remove-third-but-leases", Effect: Hides, Checks: []string{"reads-logged"}, Description: "a third of all events but those about Leases is missing, at random", apply: func(m *mutator) string {
				return some(m.drop(func(e *Event) bool { return (e.Ref == nil || e.Ref.Resource != resLeases.name) && m.IntN(3) == 0 }), "events that are about no Lease")
			},
		},
		stateHole("state-hole", "the journal lacks half an hour", nil, "state-complete", "window-covered"),
		{Name: "state-restarted", Effect: Hides, Checks: []string{"state-complete", "bindings-inventoried"}, Description: "nobody recorded for some minutes, and then another recorder continued the same journal", apply: stateRestarted},
	}
	for kind, checks := range map[string][]string{
		"Pod": {"state-complete", "reads-logged"}, "Node": {"window-covered", "reads-logged"}, "Lease": {"servers-seen"},
		"ClusterRoleBinding": {inventoried}, "RoleBinding": {inventoried}, "ClusterRole": {inventoried}, "PersistentVolume": {"state-complete", "reads-logged"},
	} {
		out = append(
			out, stateHole("state-hole-"+strings.ToLower(kind), "the journal lacks half an hour of the kind "+kind, []string{kind}, checks...),
			Mutation{Name: "state-hole-watch-" + strings.ToLower(kind), Effect: Hides, Checks: checks, Description: "the recorder may list the kind " + kind + " and not watch it", apply: listedOnly(kind)},
		)
	}
	slices.SortFunc(out, func(a, b Mutation) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// stateHole takes half an hour out of the journal, or its end: of some kinds, or of all. Their bookmarks are missing with what changed.
func stateHole(name, what string, kinds []string, checks ...string) Mutation {
	return Mutation{Name: name, Effect: Hides, Checks: checks, Description: what, apply: func(m *mutator) string {
		hole := span{from: m.From.Add(m.To.Sub(m.From) / 3)}
		if hole.to = hole.from.Add(30 * minute); len(kinds) > 0 && m.IntN(2) == 0 {
			hole.to = m.To.Add(time.Hour)
		}
		n := len(m.State)
		m.State = slices.DeleteFunc(m.State, func(e *Entry) bool {
			return hole.holds(e.At) && (len(kinds) == 0 || slices.Contains(kinds, e.Kind))
		})
		return some(n-len(m.State), "entries from "+stamp(hole.from))
	}}
}

// stateRestarted has a recorder killed, and another one list all that there is some minutes later.
func stateRestarted(m *mutator) string {
	begin := m.late(20 * minute)
	hole := span{from: begin.from, to: begin.from.Add(2*minute + time.Duration(m.Int64N(int64(15*minute))))}
	type name struct{ kind, namespace, name string }
	there, marks := map[name]*Entry{}, map[string]*Entry{}
	var before, list, after []*Entry
	for _, e := range m.State {
		n := name{e.Kind, e.Namespace, e.Name}
		switch {
		case e.At.After(hole.to):
			after = append(after, e)
			continue
		case e.Type == "BOOKMARK":
			marks[e.Kind] = e
		case e.Type == "DELETED":
			delete(there, n)
		default:
			there[n] = e
		}
		if e.At.Before(hole.from) {
			before = append(before, e)
		}
	}
	if len(before) == 0 || len(after) == 0 {
		return ""
	}
	for _, e := range there {
		list = append(list, &Entry{At: hole.to, Type: "ADDED", Kind: e.Kind, Namespace: e.Namespace, Name: e.Name, Object: e.Object, raw: e.raw})
	}
	for _, e := range marks {
		list = append(list, bookmark(hole.to.Add(milli), e.Object["apiVersion"], e.Kind, listEnd))
	}
	slices.SortFunc(list, func(a, b *Entry) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	m.State = slices.Concat(before, list, after)
	return "nobody recorded from " + stamp(hole.from) + " to " + stamp(hole.to)
}

// listedOnly leaves of a kind what a recorder has of it that may list it and not watch it.
func listedOnly(kind string) func(m *mutator) string {
	return func(m *mutator) string {
		listed, n := false, len(m.State)
		m.State = slices.DeleteFunc(m.State, func(e *Entry) bool {
			if e.Kind != kind {
				return false
			}
			gone := listed
			listed = listed || e.Type == "BOOKMARK" // the list ends with the first
			return gone
		})
		return some(n-len(m.State), fmt.Sprintf("%d entries of %s", n-len(m.State), kind))
	}
}

// WholeSeconds is the mutation that cuts the times of events to whole seconds. It is none of Mutations: whether the check agreement notices depends on the day.
func WholeSeconds(seed uint64) Mutation {
	return Mutation{
		Name: "whole-seconds", Seed: seed, Effect: Hides, Checks: []string{"agreement"}, apply: wholeSeconds,
		Description: "something cuts the times of events to whole seconds, and a kubelet asked for a pod just after it deleted it, in the next second",
	}
}

// wholeSeconds has a kubelet delete a pod at the end of a second and ask for it at the beginning of the next one, and be let through: it looks like a second later.
func wholeSeconds(m *mutator) string {
	for _, i := range m.Perm(len(m.Events)) {
		e := m.Events[i]
		if e.Verb != "delete" || !e.IsNode() || e.Ref == nil || e.Ref.Resource != "pods" || e.Code != 200 || e.Received.After(m.To.Add(-minute)) {
			continue
		}
		next := e.Received.Truncate(second).Add(second)
		gone := slices.IndexFunc(m.State, func(s *Entry) bool {
			return s.Type == "DELETED" && s.Kind == "Pod" && s.Namespace == e.Ref.Namespace && s.Name == e.Ref.Name && s.At.Sub(e.Received).Abs() < second
		})
		if gone < 0 {
			continue
		}
		last, seen := *e, *m.State[gone]
		last.Received, last.Staged, seen.At = next.Add(-6*milli), next.Add(-2*milli), next.Add(3*milli)
		m.State[gone] = &seen
		sortState(m.State)
		again := m.secretBy(e, e.Ref.Namespace, e.Ref.Name, next.Add(6*milli))
		again.URI, again.DecisionReason, again.Ref.Resource = resPods.path(e.Ref.Namespace, e.Ref.Name, ""), "", "pods"
		again.fail(404)
		m.drop(func(o *Event) bool { return o == e })
		m.add(&last, again)
		m.change(func(*Event) bool { return true }, func(e *Event) { e.Received, e.Staged = e.Received.Truncate(second), e.Staged.Truncate(second) })
		return again.URI + " at " + stamp(again.Received)
	}
	return ""
}
