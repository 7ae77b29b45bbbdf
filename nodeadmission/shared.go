package nodeadmission

import (
	"encoding/binary"
	"maps"
	"slices"
)

// shared keeps values that many objects have once.
type shared struct {
	labels map[string]map[string]string
	uses   map[string][]Use
	bound  int
}

func newShared() shared {
	return shared{labels: map[string]map[string]string{}, uses: map[string][]Use{}, bound: 4096}
}

// pod returns a copy of the pod whose fields are shared.
func (h *shared) pod(p *Pod) *Pod {
	c := *p
	if len(p.Labels) > 0 {
		key := labelsKey(p.Labels)
		if _, ok := h.labels[key]; !ok {
			h.labels[key] = p.Labels
		}
		c.Labels = h.labels[key]
	}
	if key, ok := usesKey(p.Uses); ok {
		if _, ok := h.uses[key]; !ok {
			h.uses[key] = p.Uses
		}
		c.Uses = h.uses[key]
	}
	return &c
}

// labelsKey and usesKey tell values apart that differ: each text comes with its length.
func labelsKey(labels map[string]string) string {
	var key []byte
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		key = appendText(appendText(key, k), labels[k])
	}
	return string(key)
}

// usesKey is for uses that the pods of a workload have in common: what names a claim of its own, or a driver by more than its name, is not.
func usesKey(uses []Use) (key string, ok bool) {
	var k []byte
	for i := range uses {
		u := &uses[i]
		if u.Kind == UseClaim || u.Driver != nil {
			return "", false
		}
		k = appendText(append(k, byte(u.Kind)), u.Name)
	}
	return string(k), len(uses) > 0
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

// prune forgets what no object may have any more, when it has grown: what is still in use is then kept by the objects, and shared anew by those to come.
func (h *shared) prune(s *Store) {
	if n := len(h.labels) + len(h.uses); n > 2*max(h.bound, s.pods.n) {
		bound := h.bound
		*h = newShared()
		h.bound = bound
	}
}
