package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Remembered is an entry of a Memory, to be stored.
type Remembered struct {
	// Kind is "node" or "certificate", Key the node's name or the credential's ID.
	Kind, Key string
	Value     []byte
	// First says that of several values for the key the first that was stored stays; otherwise the latest does.
	First bool
}

const (
	rememberedNode = "node"
	rememberedCert = "certificate"
)

// tellEvery is how far the time of a node's last use moves before it is told again. It matters only when a node is replaced under its
// name, which takes longer.
const tellEvery = 10 * time.Second

// journal notes what changed. A nil one notes nothing.
type journal struct {
	nodes map[string]struct{}
	certs map[string]struct{}
}

func (j *journal) cert(id string) {
	if j != nil {
		j.certs[strings.Clone(id)] = struct{}{}
	}
}

func (j *journal) node(name string, n *nodeMemory) {
	t := &n.told
	if j == nil || len(name) > maxRemembered ||
		n.v4 == t.V4 && n.v6 == t.V6 && n.v4at.Sub(t.V4At) < tellEvery && n.v6at.Sub(t.V6At) < tellEvery {
		return
	}
	*t = n.stored()
	j.nodes[strings.Clone(name)] = struct{}{}
}

func (n *nodeMemory) stored() storedNode {
	return storedNode{V4: n.v4, V4At: n.v4at, V6: n.v6, V6At: n.v6at}
}

// storedNode is a nodeMemory as it is stored.
type storedNode struct {
	V4   netip.Addr `json:"v4,omitzero"`
	V4At time.Time  `json:"v4at,omitzero"`
	V6   netip.Addr `json:"v6,omitzero"`
	V6At time.Time  `json:"v6at,omitzero"`
}

// Changes returns what changed since the last call, in no matter how many entries, ordered by kind and key. The first call begins to
// note changes.
func (m *Memory) Changes() []Remembered {
	if m.journal == nil {
		m.journal = &journal{nodes: map[string]struct{}{}, certs: map[string]struct{}{}}
		return nil
	}
	j := m.journal
	if len(j.nodes)+len(j.certs) == 0 {
		return nil
	}
	out := make([]Remembered, 0, len(j.nodes)+len(j.certs))
	for _, id := range slices.Sorted(maps.Keys(j.certs)) {
		if owner := m.certs.get(id); owner != nil {
			out = append(out, Remembered{Kind: rememberedCert, Key: id, Value: []byte(*owner), First: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(j.nodes)) {
		n := m.nodes.get(name)
		if n == nil {
			continue
		}
		value, err := json.Marshal(n.stored())
		if err != nil { // a year that JSON has no form for
			continue
		}
		out = append(out, Remembered{Kind: rememberedNode, Key: name, Value: value})
	}
	clear(j.nodes)
	clear(j.certs)
	return out
}

// Restore puts back what Changes told. Entries of kinds that are not the memory's are left alone; one that cannot be read is an error,
// after the others were taken.
func (m *Memory) Restore(all []Remembered) error {
	var failed error
	for i := range all {
		r := &all[i]
		switch r.Kind {
		case rememberedCert:
			owner := string(r.Value)
			m.certs.add(r.Key, &owner)
		case rememberedNode:
			var n storedNode
			if err := json.Unmarshal(r.Value, &n); err != nil {
				failed = fmt.Errorf("reading what is remembered of node %q: %w", r.Key, err)
				continue
			}
			m.nodes.add(r.Key, &nodeMemory{v4: n.V4, v4at: n.V4At, v6: n.V6, v6at: n.V6At, told: n})
		}
	}
	return failed
}
