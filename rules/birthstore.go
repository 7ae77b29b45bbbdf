package rules

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

const (
	rememberedBirth = "birth"
	rememberedIssue = "birth-certificate"
	// rememberedAddress is of which nodes come from an address, rememberedBirthNow of all nodes together.
	rememberedAddress  = "birth-address"
	rememberedBirthNow = "birth-now"
	// maxIssued is how many certificates are remembered.
	maxIssued = 1 << 16
)

// birthMemory is what of births is to be stored.
type birthMemory struct {
	slots   slotSet
	told    map[*birth]struct{}
	changed map[*issue]struct{}
	next    int // of issues
}

func newBirthMemory() birthMemory {
	return birthMemory{slots: newSlotSet(), told: map[*birth]struct{}{}, changed: map[*issue]struct{}{}}
}

func (m *birthMemory) touch(b *birth) { m.told[b] = struct{}{} }

func (m *birthMemory) close(b *birth) {
	delete(m.told, b)
	m.slots.empty(b.slot)
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
	out := d.slots.changes(nil, rememberedBirth, &birth{})
	for _, key := range slices.Sorted(maps.Keys(d.open)) {
		b := d.open[key]
		if _, is := d.told[b]; !is && b.Judged {
			continue
		}
		delete(d.told, b)
		out = remember(out, rememberedBirth, strconv.Itoa(b.slot), b)
	}
	for _, i := range slices.SortedFunc(maps.Keys(d.changed), func(a, b *issue) int { return a.slot - b.slot }) {
		out = remember(out, rememberedIssue, strconv.Itoa(i.slot), i)
	}
	clear(d.changed)
	for _, address := range slices.Sorted(maps.Keys(d.ownersTold)) {
		if o := d.owners.get(address); o != nil {
			out = remember(out, rememberedAddress, address, o)
		}
	}
	clear(d.ownersTold)
	out = d.objects.changes(d.gone.changes(out))
	now := birthNow{Proven: d.proven, Lost: d.gone.lost, Nodes: make(map[string][]*holder, len(d.nodes)), Homes: map[string]*dwelling{}}
	for name, n := range d.nodes {
		if now.Nodes[name] = n.holders; n.Home != "" {
			now.Homes[name] = &n.dwelling
		}
	}
	for _, u := range d.first {
		now.First = append(now.First, storedUse{u.node.name, *u.h})
	}
	for i := range d.made {
		m := &d.made[i]
		now.Made = append(now.Made, storedMade{m.node.name, *m.h, m.address, m.at, m.audit})
	}
	return remember(out, rememberedBirthNow, "", &now)
}

// birthNow is what of all nodes is stored together: most of it changes every minute.
type birthNow struct {
	Nodes  map[string][]*holder `json:"n"`
	First  []storedUse          `json:"f,omitempty"`
	Made   []storedMade         `json:"m,omitempty"`
	Proven int64                `json:"p,omitzero"`
	// Homes are where the nodes renew their Leases from.
	Homes map[string]*dwelling `json:"h,omitempty"`
	// Lost says that nodes that are gone were dropped.
	Lost bool `json:"l,omitempty"`
}

// storedUse is a first use that is not judged yet.
type storedUse struct {
	Node   string `json:"n"`
	Holder holder `json:"h"`
}

// storedMade is a Node that was made, and is not judged yet.
type storedMade struct {
	Node    string    `json:"n"`
	Holder  holder    `json:"h"`
	Address string    `json:"a"`
	At      time.Time `json:"t"`
	Audit   string    `json:"u"`
}

// restoreNow puts back what is known of all nodes.
func (d *birthDetector) restoreNow(now *birthNow) {
	d.gone.lost = d.gone.lost || now.Lost
	if d.proven == 0 || now.Proven != 0 && now.Proven < d.proven {
		d.proven = now.Proven
	}
	for name, holders := range now.Nodes {
		if d.nodes[name] != nil || len(d.nodes) >= MaxNodes || len(name) > maxRemembered || len(holders) > maxHolders || slices.Contains(holders, nil) {
			continue
		}
		n := &birthNode{name: name, holders: holders}
		if w := now.Homes[name]; w != nil {
			n.dwelling = *w
		} else { // of a program that knew the credentials' alone: that of the latest one
			for _, h := range holders {
				if h.Home != "" && h.Since.After(n.Since) {
					n.dwelling = h.dwelling
				}
			}
		}
		d.nodes[name] = n
	}
	for i := range now.First {
		u := &now.First[i]
		n := d.nodes[u.Node]
		if n == nil || len(d.first) >= maxFirstUses {
			continue
		}
		d.first = append(d.first, firstUse{n, n.stored(&u.Holder)})
	}
	for i := range now.Made {
		m := &now.Made[i]
		if n := d.nodes[m.Node]; n != nil && len(d.made) < maxFirstUses {
			d.made = append(d.made, made{n, n.stored(&m.Holder), m.Address, m.At, m.Audit})
		}
	}
}

// stored is the node's credential that was stored, or that one if it had to make room for others.
func (n *birthNode) stored(h *holder) *holder {
	if at := slices.IndexFunc(n.holders, func(o *holder) bool { return o.ID == h.ID && o.First.Equal(h.First) }); at >= 0 {
		return n.holders[at]
	}
	return h
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
		if b.Key == "" || d.open[b.Key] != nil || d.slots.used[slot] {
			return true, nil
		}
		b.slot = slot
		d.slots.used[slot], d.open[b.Key] = true, b
		return true, nil
	case rememberedObject:
		return true, d.objects.restore(r)
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
			d.joined(i)
			d.next = max(d.next, slot)
		}
		return true, nil
	case rememberedAddress:
		var o struct {
			Name  string `json:"n"`
			Other string `json:"o"`
			Step  int64  `json:"s"`
			Later int64  `json:"l"`
		}
		if err := json.Unmarshal(r.Value, &o); err != nil {
			return true, err
		}
		if d.owners.get(r.Key) == nil {
			d.owners.add(r.Key, &addressOwner{name: o.Name, other: o.Other, step: o.Step, later: o.Later})
		}
		return true, nil
	case rememberedGone:
		return true, d.gone.restore(r)
	case rememberedBirthNow:
		var now birthNow
		if err := json.Unmarshal(r.Value, &now); err != nil {
			return true, err
		}
		d.restoreNow(&now)
		return true, nil
	}
	return false, nil
}
