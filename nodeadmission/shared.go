package nodeadmission

import (
	"encoding/binary"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/internal/arena"
)

// storedPod is a Pod as the store has it: most of a pod is what the pods of its workload have in common. The zero value is no pod.
type storedPod struct {
	node [8]byte    // the tag of its name
	uid  [16]byte   // if it is a UUID, as nearly all are
	own  arena.Text // its UID if that is no UUID, then the names of its claims, each with its length
	of   uint32     // the number of its workload
}

// workload is what pods have in common. Those of a workload share it.
type workload struct {
	pod   Pod // without UID, node and names of claims
	uuids bool
	// asks is true if a volume asks for a token; the first of them asks for one with the audience.
	asks     bool
	audience string
}

// shared keeps values that many pods have once.
type shared struct {
	hash      *hasher
	texts     arena.Texts
	workloads arena.Of[*workload]
	byKey     map[string]uint32
	nodes     map[[8]byte]string
	bound     int // of workloads and nodes, from which on Prune looks for those that no pod has
}

const minBound = 4096

func newShared(h *hasher) *shared {
	s := &shared{hash: h, texts: arena.NewTexts(), byKey: map[string]uint32{}, nodes: map[[8]byte]string{}, bound: minBound}
	s.workloads.Alloc() // 0 is none
	return s
}

// store returns what the store keeps of a pod.
func (h *shared) store(p *Pod) storedPod {
	out := storedPod{node: h.hash.tag(p.Node)}
	var own []byte
	of := workload{pod: *p}
	if of.uuids = parseUUID(p.UID, &out.uid); !of.uuids {
		own = appendText(own, p.UID)
	}
	of.pod.UID, of.pod.Node = "", ""
	for i := range p.Uses {
		switch u := &p.Uses[i]; {
		case u.Kind == UseClaim:
			own = appendText(own, u.Name)
		case u.Kind == UseAudience && !of.asks && !p.SpecUnknown:
			of.asks, of.audience = true, u.Name
		}
	}
	if len(own) > 0 {
		out.own = h.texts.Put(string(own))
	}
	if _, known := h.nodes[out.node]; !known {
		h.nodes[out.node] = p.Node
	}
	out.of = h.workload(&of)
	return out
}

// workload returns the number of the one that is kept of those that are equal.
func (h *shared) workload(of *workload) uint32 {
	key, ok := of.key()
	if id := h.byKey[string(key)]; ok && id != 0 {
		return id
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
	id := h.workloads.Alloc()
	*h.workloads.At(id) = &w
	if ok {
		h.byKey[string(key)] = id
	}
	return id
}

func (h *shared) own(s *storedPod) string {
	if s.own == 0 {
		return ""
	}
	return h.texts.Get(s.own)
}

// load returns the pod itself.
func (h *shared) load(s *storedPod) *Pod {
	of, own := *h.workloads.At(s.of), h.own(s)
	p := of.pod
	p.Node = h.nodes[s.node]
	if of.uuids {
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

// equal reports whether two pods are the same.
func (h *shared) equal(a, b storedPod) bool {
	if a.of == 0 || b.of == 0 || a.node != b.node || a.uid != b.uid || h.own(&a) != h.own(&b) {
		return a.of == 0 && b.of == 0
	}
	return a.of == b.of || reflect.DeepEqual(*h.workloads.At(a.of), *h.workloads.At(b.of))
}

// asksToken reports whether the pod has that UID, and its first volume that asks for a token asks for one with the audience.
func (h *shared) asksToken(s *storedPod, uid, audience string) bool {
	of := *h.workloads.At(s.of)
	if !of.asks || of.audience != audience {
		return false
	}
	if of.uuids {
		return isUUID(&s.uid, uid)
	}
	is, _ := cutText(h.own(s))
	return is == uid
}

// release forgets what a pod has of its own.
func (h *shared) release(s storedPod) {
	if s.own != 0 {
		h.texts.Release(s.own)
	}
}

// prune forgets workloads and nodes that no pod has, when there are many more than the last time.
func (h *shared) prune(pods *table[storedPod]) {
	if h.workloads.Live()+len(h.nodes) <= h.bound {
		return
	}
	used, nodes := make([]bool, h.workloads.Len()), map[[8]byte]string{}
	pods.values(func(s storedPod) {
		if used[s.of] = true; s.of != 0 {
			nodes[s.node] = h.nodes[s.node]
		}
	})
	h.nodes = nodes
	maps.DeleteFunc(h.byKey, func(_ string, id uint32) bool { return !used[id] })
	for id := uint32(1); id < uint32(len(used)); id++ {
		if w := h.workloads.At(id); !used[id] && *w != nil {
			*w = nil
			h.workloads.Release(id)
		}
	}
	h.bound = max(minBound, 2*(h.workloads.Live()+len(h.nodes)))
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

// uuidAt is where the text of a UUID has each byte.
var uuidAt = [16]int{0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34}

const hexDigits = "0123456789abcdef"

func formatUUID(u *[16]byte) string {
	text := []byte("00000000-0000-0000-0000-000000000000")
	for i, at := range uuidAt {
		text[at], text[at+1] = hexDigits[u[i]>>4], hexDigits[u[i]&15]
	}
	return string(text)
}

// isUUID reports whether a text is a UUID, in lower case, as the API server makes them.
func isUUID(u *[16]byte, text string) bool {
	if len(text) != 36 {
		return false
	}
	for i, at := range uuidAt {
		if text[at] != hexDigits[u[i]>>4] || text[at+1] != hexDigits[u[i]&15] {
			return false
		}
	}
	return text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-'
}

func parseUUID(text string, into *[16]byte) bool {
	if len(text) != 36 {
		return false
	}
	var u [16]byte
	for i, at := range uuidAt {
		hi, lo := strings.IndexByte(hexDigits, text[at]), strings.IndexByte(hexDigits, text[at+1])
		u[i] = byte(max(hi, 0)<<4 | max(lo, 0))
	}
	if !isUUID(&u, text) {
		return false
	}
	*into = u
	return true
}
