package report

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
)

type ambientKey struct {
	binding               rbac.BindingRef
	verb, group, resource string
}

// addAmbient counts a request that a binding for all authenticated users allowed.
func (b *Builder) addAmbient(j *pipeline.Judgement) {
	if !j.Observed.HasGrant || !j.Observed.Grant.Ambient() {
		return
	}
	k := ambientKey{binding: j.Observed.Grant.Binding, verb: j.Attrs.Verb, group: j.Attrs.APIGroup, resource: j.Attrs.Resource}
	if !j.Attrs.ResourceRequest {
		k.resource = j.Attrs.Path
	}
	a := b.ambient[k]
	if a == nil {
		if len(b.ambient) >= MaxAmbient-1 {
			k = ambientKey{}
			a = b.ambient[k]
		}
		if a == nil {
			a = newAmbient(&k)
			b.ambient[k] = a
		}
	}
	a.Count++
}

// newAmbient also makes the key one that holds no memory of the event.
func newAmbient(k *ambientKey) *Ambient {
	for _, s := range []*string{&k.binding.Kind, &k.binding.Namespace, &k.binding.Name, &k.verb, &k.group, &k.resource} {
		*s = strings.Clone(bounded(*s))
	}
	a := &Ambient{
		Binding: Binding{Kind: k.binding.Kind, Namespace: k.binding.Namespace, Name: k.binding.Name}, Verb: k.verb, Resource: k.resource,
	}
	if k.group != "" {
		a.Resource += "." + k.group
	}
	return a
}

// listAmbient is the most frequent first.
func (b *Builder) listAmbient() []Ambient {
	out := make([]Ambient, 0, len(b.ambient))
	for _, a := range b.ambient {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(x, y Ambient) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Binding.Name, y.Binding.Name), cmp.Compare(x.Resource, y.Resource),
			cmp.Compare(x.Verb, y.Verb), cmp.Compare(x.Binding.Namespace, y.Binding.Namespace), cmp.Compare(x.Binding.Kind, y.Binding.Kind))
	})
	return out
}
