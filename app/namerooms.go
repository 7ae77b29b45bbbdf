package app

import (
	"hash/maphash"
	"net/http"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/tally"
)

// Bounds of the names of nodes that analyze distinguishes. Whoever may act as nodes, or sign certificates, can make up names without end.
const (
	// namesServed are names without a Node object for which a request succeeded: more than there are nodes in a cluster of which the state is not known.
	namesServed = 10_000
	// namesRefused are names of which there is nothing but refused requests.
	namesRefused = 1_000
	// namesCounted is up to how many names that are left out are counted.
	namesCounted = 100_000
)

// nameRooms decides which names of nodes are distinguished. Those of Node objects always are, and made-up names never take their room. Whatever names are left
// out count together, as those of [tally.Others]. Not safe for concurrent use.
type nameRooms struct {
	isNode          func(name string) bool
	served, refused int // how many more there may be
	kept            map[string]bool
	seed            maphash.Seed
	left            map[uint64]bool
	requests        int64 // of those left out
}

func newNameRooms(isNode func(string) bool) *nameRooms {
	return &nameRooms{isNode: isNode, served: namesServed, refused: namesRefused, kept: map[string]bool{}, seed: maphash.MakeSeed(), left: map[uint64]bool{}}
}

// place returns the name under which a request of the node counts. served says that it succeeded.
func (r *nameRooms) place(name string, served bool) string {
	whole, there := r.kept[name]
	keep := func(whole bool) { r.kept[strings.Clone(name)] = whole } // the name may alias a buffer
	switch {
	case there && (whole || !served):
	case !there && r.isNode(name):
		keep(true)
	case served && r.served > 0:
		if r.served--; there {
			r.refused++
		}
		keep(true)
	case there:
	case r.refused > 0:
		r.refused--
		keep(false)
	default:
		if len(r.left) < namesCounted {
			r.left[maphash.String(r.seed, name)] = true
		}
		return tally.Others
	}
	return name
}

// entry is what counts of one, which is not changed. served says that its request succeeded.
func (r *nameRooms) entry(e *tally.Entry, served bool) *tally.Entry {
	node, left := e.Node, false
	if e.IsNode {
		node = r.place(e.Node, served)
		left = node != e.Node
	}
	for i := range e.Findings {
		name := e.Findings[i].Key.Node
		left = left || name != "" && r.place(name, served) != name
	}
	if !left {
		return e
	}
	r.requests++
	out := *e
	out.Node, out.Findings = node, slices.Clone(e.Findings)
	for i := range out.Findings {
		if k := &out.Findings[i].Key; k.Node != "" {
			k.Node = r.place(k.Node, served)
		}
	}
	return &out
}

// judged is what counts of a request.
func (r *nameRooms) judged(j *pipeline.Judgement) *tally.Entry {
	return r.entry(j.Entry, succeeded(j.Event.Code))
}

// found is what counts of findings over time.
func (r *nameRooms) found(e *tally.Entry) *tally.Entry { return r.entry(e, succeeded(e.Origin.Code)) }

func succeeded[N int | int32](code N) bool { return code > 0 && code < http.StatusMultipleChoices }

// gaps says how much was left out.
func (r *nameRooms) gaps() []codes.Gap {
	if r.requests == 0 {
		return nil
	}
	return []codes.Gap{{Kind: codes.Log, Code: codes.NamesTogether, Params: codes.Params{codes.Int(codes.ParamCount, len(r.left)), codes.Int(codes.ParamTotal, r.requests)}}}
}
