package nodeadmission

import (
	"encoding/binary"
	"encoding/hex"
	"maps"
	"slices"
)

// storedPod is a Pod as the store has it: most of a pod is what the pods of its workload have in common.
type storedPod struct {
	uid  [16]byte // if it is a UUID, as nearly all are
	own  string   // its UID if that is no UUID, then the names of its claims, each with its length
	node *string
	of   *workload
}

// workload is what pods have in common. Those of a workload share it.
type workload struct {
	pod   Pod // without UID, node and names of claims
	uuids bool
}

// shared keeps values that many objects have once.
type shared struct {
	workloads map[string]*workload
	nodes     map[string]*string
	bound     int
}

func newShared() shared {
	return shared{workloads: map[string]*workload{}, nodes: map[string]*string{}, bound: 4096}
}

// pod returns what the store keeps of a pod.
func (h *shared) pod(p *Pod) *storedPod {
	var out storedPod
	var own []byte
	of := workload{pod: *p}
	if of.uuids = parseUUID(p.UID, &out.uid); !of.uuids {
		own = appendText(own, p.UID)
	}
	of.pod.UID, of.pod.Node = "", ""
	for i := range p.Uses {
		if u := &p.Uses[i]; u.Kind == UseClaim {
			own = appendText(own, u.Name)
		}
	}
	out.own, out.of, out.node = string(own), h.workload(&of), h.nodes[p.Node]
	if out.node == nil {
		out.node = &[]string{p.Node}[0]
		h.nodes[p.Node] = out.node
	}
	return &out
}

// workload returns the one that is kept of those that are equal.
func (h *shared) workload(of *workload) *workload {
	key, ok := of.key()
	if w := h.workloads[string(key)]; ok && w != nil {
		return w
	}
	w := *of
	if slices.ContainsFunc(w.pod.Uses, func(u Use) bool { return u.Kind == UseClaim }) {
		w.pod.Uses = slices.Clone(w.pod.Uses)
		for i := range w.pod.Uses {
			if u := &w.pod.Uses[i]; u.Kind == UseClaim {
				u.Name = ""
			}
		}
	}
	if ok {
		h.workloads[string(key)] = &w
	}
	return &w
}

// pod returns the pod itself.
func (s *storedPod) pod() *Pod {
	p, own := s.of.pod, s.own
	p.Node = *s.node
	if s.of.uuids {
		p.UID = formatUUID(&s.uid)
	} else {
		p.UID, own = cutText(own)
	}
	if own != "" { // there are claims
		p.Uses = slices.Clone(p.Uses)
		for i := range p.Uses {
			if u := &p.Uses[i]; u.Kind == UseClaim {
				u.Name, own = cutText(own)
			}
		}
	}
	return &p
}

// key tells workloads apart that differ: each text comes with its length. ok is false for one of a pod that has things that no other has, such as statuses of
// claims, or drivers by more than their names.
func (w *workload) key() (key []byte, ok bool) {
	p := &w.pod
	if p.ClaimStatuses != nil {
		return nil, false
	}
	var flags byte
	for i, is := range []bool{w.uuids, p.SpecUnknown, p.StatusUnknown, p.Mirror, p.Labels == nil, p.Uses == nil} {
		if is {
			flags |= 1 << i
		}
	}
	key = appendText(append(key, flags), p.ServiceAccount)
	for i := range p.Uses {
		u := &p.Uses[i]
		switch key = append(key, 1+byte(u.Kind)); {
		case u.Driver != nil:
			return nil, false
		case u.Kind != UseClaim:
			key = appendText(key, u.Name)
		}
	}
	key = append(key, 0)
	for _, k := range slices.Sorted(maps.Keys(p.Labels)) {
		key = appendText(appendText(key, k), p.Labels[k])
	}
	return key, true
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(key, uint64(len(text))), text...)
}

// cutText returns the first of the texts that appendText made, and the others.
func cutText(texts string) (first, others string) {
	n, k := binary.Uvarint([]byte(texts[:min(len(texts), binary.MaxVarintLen64)]))
	return texts[k : k+int(n)], texts[k+int(n):]
}

// isDash reports whether a UUID has a dash there.
func isDash(i int) bool { return i == 8 || i == 13 || i == 18 || i == 23 }

// parseUUID reads a UUID in lower case, as the API server makes them.
func parseUUID(text string, into *[16]byte) bool {
	var digits [32]byte
	if len(text) != 36 {
		return false
	}
	n := 0
	for i := range len(text) {
		switch c := text[i]; {
		case isDash(i) != (c == '-') || 'A' <= c && c <= 'F':
			return false
		case c != '-':
			digits[n] = c
			n++
		}
	}
	var u [16]byte
	if _, err := hex.Decode(u[:], digits[:]); err != nil {
		return false
	}
	*into = u
	return true
}

func formatUUID(u *[16]byte) string {
	var digits [32]byte
	hex.Encode(digits[:], u[:])
	text, n := make([]byte, 36), 0
	for i := range text {
		if isDash(i) {
			text[i] = '-'
			continue
		}
		text[i] = digits[n]
		n++
	}
	return string(text)
}

// prune forgets what no object may have any more, when it has grown: what is still in use is then kept by the objects, and shared anew by those to come.
func (h *shared) prune(s *Store) {
	if n := len(h.workloads) + len(h.nodes); n > 2*max(h.bound, s.pods.n) {
		bound := h.bound
		*h = newShared()
		h.bound = bound
	}
}
