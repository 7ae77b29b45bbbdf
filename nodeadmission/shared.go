package nodeadmission

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
)

// shared keeps values that many objects have once.
type shared struct {
	texts  map[string]string
	labels map[string]map[string]string
	uses   map[string][]Use
	bound  int
}

func newShared() shared {
	return shared{texts: map[string]string{}, labels: map[string]map[string]string{}, uses: map[string][]Use{}, bound: 4096}
}

func (h *shared) text(s string) string {
	if t, ok := h.texts[s]; ok {
		return t
	}
	s = strings.Clone(s)
	h.texts[s] = s
	return s
}

// pod returns a copy of the pod whose fields are shared.
func (h *shared) pod(p *Pod) *Pod {
	c := *p
	c.UID, c.Node, c.ServiceAccount = strings.Clone(p.UID), h.text(p.Node), h.text(p.ServiceAccount)
	if len(p.Labels) > 0 {
		key := labelsKey(p.Labels)
		if _, ok := h.labels[key]; !ok {
			h.labels[key] = p.Labels
		}
		c.Labels = h.labels[key]
	}
	if len(p.Uses) > 0 {
		key := usesKey(p.Uses)
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

func usesKey(uses []Use) string {
	var key []byte
	for i := range uses {
		u := &uses[i]
		key = append(key, byte(u.Kind), flag(u.Driver.InTree), flag(u.Driver.Unsure))
		key = appendText(appendText(appendText(key, u.Name), u.Driver.Name), u.Driver.Err)
	}
	return string(key)
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

func flag(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// prune forgets what no object may have any more, when it has grown: what is still in use is then kept by the objects, and shared anew by those to come.
func (h *shared) prune(s *Store) {
	if n := len(h.texts) + len(h.labels) + len(h.uses); n > 2*max(h.bound, len(s.pods)) {
		bound := h.bound
		*h = newShared()
		h.bound = bound
	}
}
