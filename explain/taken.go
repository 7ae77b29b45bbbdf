package explain

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/tally"
)

// MaxTaken bounds the secrets and the service accounts of which it is kept that the log shows how they were read, or tokens made of them.
const MaxTaken = 10_000

// takings are the secrets that a credential read with success, and the service accounts of which it got tokens, whatever anybody says of whether it may. The
// zero value has none.
type takings struct {
	places map[taking]int
	all    []taking
	ids    [][]string // of the requests, at most MaxExamples
	more   int64      // requests for others
}

// taking is what is to be rotated after a request; a secret without a name stands for all of its namespace.
type taking struct{ kind, namespace, name string }

// takenBy is what a request took if it succeeded.
func takenBy(group, resource, sub, verb, namespace, name string) (t taking, ok bool) {
	switch {
	case group != "":
	case resource == "secrets" && sub == "" && givesBack(verb) && name == "":
		return taking{rotateSecrets, namespace, ""}, true
	case resource == "secrets" && sub == "" && givesBack(verb):
		return taking{rotateSecret, namespace, name}, true
	case resource == "serviceaccounts" && sub == "token" && verb == "create":
		return taking{rotateTokens, namespace, name}, true
	}
	return taking{}, false
}

// givesBack reports whether the answer has what the object holds.
func givesBack(verb string) bool {
	switch verb {
	case "get", "list", "watch", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// add takes a request that succeeded in.
func (t *takings) add(j *pipeline.Judgement) {
	a := j.Attrs
	if !a.ResourceRequest {
		return
	}
	k, ok := takenBy(a.APIGroup, a.Resource, a.Subresource, a.Verb, tally.Bounded(a.Namespace), tally.Bounded(a.Name))
	if !ok {
		return
	}
	i, known := t.places[k]
	if !known {
		if len(t.all) == MaxTaken {
			t.more++
			return
		}
		if t.places == nil {
			t.places = map[taking]int{}
		}
		k.namespace, k.name = strings.Clone(k.namespace), strings.Clone(k.name)
		i = len(t.all)
		t.places[k], t.all, t.ids = i, append(t.all, k), append(t.ids, nil)
	}
	sample(&t.ids[i], j.Event.AuditID)
}

// taken is what the use took.
func (u *Use) taken() (t taking, ok bool) {
	return takenBy(u.APIGroup, u.Resource, u.Subresource, u.Verb, u.Namespace, u.Name)
}

// takings are what the credential took, with audit IDs, in order. Those of the uses are among them.
func (b *Beyond) takings() iter.Seq2[taking, []string] {
	return func(yield func(taking, []string) bool) {
		if b == nil {
			return
		}
		all := make(map[taking][]string, len(b.taken.all))
		for i, t := range b.taken.all {
			all[t] = b.taken.ids[i]
		}
		for i := range b.Uses {
			if t, ok := b.Uses[i].taken(); ok && all[t] == nil {
				all[t] = b.Uses[i].AuditIDs
			}
		}
		order := slices.SortedFunc(maps.Keys(all), func(a, b taking) int {
			return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
		})
		for _, t := range order {
			if !yield(t, all[t]) {
				return
			}
		}
	}
}
