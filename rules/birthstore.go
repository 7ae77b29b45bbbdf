package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	rememberedBirth = "birth"
	rememberedIssue = "birth-certificate"
	// maxIssued is how many certificates are remembered.
	maxIssued = 1 << 16
)

// birthMemory is what of births is to be stored. Keys are used again: nothing is ever deleted from what is stored.
type birthMemory struct {
	slots   map[int]bool
	told    map[*birth]struct{}
	over    []int // slots that are free again
	changed map[*issue]struct{}
	next    int // of issues
}

func newBirthMemory() birthMemory {
	return birthMemory{slots: map[int]bool{}, told: map[*birth]struct{}{}, changed: map[*issue]struct{}{}}
}

// slot returns one that is free.
func (m *birthMemory) slot() int {
	n := 0
	for m.slots[n] {
		n++
	}
	m.slots[n] = true
	return n
}

func (m *birthMemory) touch(b *birth) { m.told[b] = struct{}{} }

func (m *birthMemory) close(b *birth) {
	delete(m.told, b)
	delete(m.slots, b.slot)
	m.over = append(m.over, b.slot)
}

// issues has a certificate stored.
func (m *birthMemory) issues(i *issue) {
	if i.slot == 0 {
		m.next = m.next%maxIssued + 1
		i.slot = m.next
	}
	m.changed[i] = struct{}{}
}

// Changes implements Detector. What is not judged yet is stored again and again, with what is known of its node.
func (d *birthDetector) Changes() []Remembered {
	var out []Remembered
	for _, n := range d.over {
		if !d.slots[n] {
			out = remember(out, rememberedBirth, strconv.Itoa(n), &birth{})
		}
	}
	d.over = nil
	for _, key := range slices.Sorted(maps.Keys(d.open)) {
		b := d.open[key]
		if _, is := d.told[b]; !is && b.Judged {
			continue
		}
		delete(d.told, b)
		if b.Holders = nil; d.nodes[b.Node] != nil {
			b.Holders = d.nodes[b.Node].holders
		}
		out = remember(out, rememberedBirth, strconv.Itoa(b.slot), b)
		b.Holders = nil
	}
	for _, i := range slices.SortedFunc(maps.Keys(d.changed), func(a, b *issue) int { return a.slot - b.slot }) {
		out = remember(out, rememberedIssue, strconv.Itoa(i.slot), i)
	}
	clear(d.changed)
	return out
}

// Restore implements Detector.
func (d *birthDetector) Restore(r *Remembered) (own bool, err error) {
	switch r.Kind {
	case rememberedBirth:
		b := &birth{}
		if err := json.Unmarshal(r.Value, b); err != nil {
			return true, err
		}
		slot, err := strconv.Atoi(r.Key)
		if err != nil || slot < 0 || slot >= maxOpenBirths || len(b.Node) > maxRemembered {
			return true, fmt.Errorf("a certificate request that is none")
		}
		if b.Key == "" || d.open[b.Key] != nil || d.slots[slot] {
			return true, nil
		}
		b.slot = slot
		d.slots[slot], d.open[b.Key] = true, b
		d.restoreHolders(b)
		return true, nil
	case rememberedIssue:
		i := &issue{}
		if err := json.Unmarshal(r.Value, i); err != nil {
			return true, err
		}
		slot, err := strconv.Atoi(r.Key)
		if err != nil || slot < 1 || slot > maxIssued || i.ID == "" {
			return true, fmt.Errorf("a certificate that is none")
		}
		if i.slot = slot; d.issued.get(i.ID) == nil {
			d.issued.add(i.ID, i)
			d.next = max(d.next, slot)
			if i.Used && d.proven == 0 {
				d.proven = 1 // some time before
			}
		}
		return true, nil
	}
	return false, nil
}

// restoreHolders puts back what was known of the node of a request.
func (d *birthDetector) restoreHolders(b *birth) {
	holders := slices.DeleteFunc(b.Holders, func(h *holder) bool { return h == nil })
	if b.Holders = nil; len(holders) > 0 && len(holders) <= maxHolders && d.nodes[b.Node] == nil && len(d.nodes) < MaxNodes {
		name := strings.Clone(b.Node)
		d.nodes[name] = &birthNode{name: name, holders: holders}
		d.dropped = true // the followed of the node, if there is one, must be looked up anew
	}
}
