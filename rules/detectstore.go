package rules

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// rememberedDenials is the kind of the steps. Their keys are used again once a step is over: what is over is known by the watermark.
const rememberedDenials = "denials"

// storedStep is a stepBucket as it is stored.
type storedStep struct {
	Step    int64     `json:"step"`
	Denied  []*denial `json:"denied,omitempty"`
	Allowed []byte    `json:"allowed,omitempty"`
}

// denialBytes is about what a denial takes.
const denialBytes = 336

func (s *storedStep) appendJSON(b []byte) ([]byte, error) {
	m := membersOf(slices.Grow(b, 64+denialBytes*len(s.Denied)+base64.StdEncoding.EncodedLen(len(s.Allowed))))
	m.number(`"step":`, s.Step)
	if len(s.Denied) > 0 {
		m.name(`"denied":`)
		appendAll(&m, s.Denied, (*denial).members)
	}
	if len(s.Allowed) > 0 {
		m.name(`"allowed":`)
		m.b = append(m.b, '"')
		m.b = append(base64.StdEncoding.AppendEncode(m.b, s.Allowed), '"')
	}
	return m.end()
}

// members appends those of the denial.
func (d *denial) members(m *members) {
	d.name(m)
	d.counts(m)
	d.rest(m)
}

func (d *denial) name(m *members) {
	m.name(`"n":`)
	m.b = appendText(m.b, d.Node)
	m.name(`"i":`)
	m.b = strconv.AppendUint(m.b, d.ID, 10)
}

// counts appends what changes while the object is watched.
func (d *denial) counts(m *members) {
	m.number(`"c":`, d.Count)
	m.time(`"f":`, d.First)
	m.time(`"l":`, d.Last)
}

func (d *denial) rest(m *members) {
	m.text(`"a":`, d.AuditID)
	m.text(`"r":`, d.Reason)
	m.text(`"p":`, d.Product)
	m.name(`"o":`)
	m.b = append(m.b, '{')
	d.Object.members(m)
	m.b = append(m.b, '}')
	if d.Lagged != 0 {
		m.number(`"b":`, d.Lagged)
	}
	m.flag(`"w":`, d.Allowed)
	m.flag(`"k":`, d.Known)
	m.flag(`"e":`, d.Wide)
}

func (o *deniedObject) members(m *members) {
	m.text(`"v":`, o.Verb)
	m.text(`"g":`, o.APIGroup)
	m.text(`"r":`, o.Resource)
	m.text(`"s":`, o.Subresource)
	m.text(`"ns":`, o.Namespace)
	m.text(`"n":`, o.Name)
	m.text(`"p":`, o.Path)
}

// Changes implements Detector.
func (d *denials) Changes() []Remembered {
	var out []Remembered
	for _, n := range slices.Sorted(maps.Keys(d.steps)) {
		b := d.steps[n]
		if !b.changed {
			continue
		}
		b.changed = false
		st := storedStep{Step: n}
		for _, id := range slices.Sorted(maps.Keys(b.denied)) {
			st.Denied = append(st.Denied, b.denied[id])
		}
		if b.allowed.len > 0 {
			st.Allowed = make([]byte, 0, 8*b.allowed.len)
		}
		for id := range b.allowed.all {
			st.Allowed = binary.LittleEndian.AppendUint64(st.Allowed, id)
		}
		out = remember(out, rememberedDenials, strconv.Itoa(b.slot), &st)
	}
	return out
}

// Restore implements Detector.
func (d *denials) Restore(r *Remembered) (own bool, err error) {
	if r.Kind != rememberedDenials {
		return false, nil
	}
	var st storedStep
	if err := json.Unmarshal(r.Value, &st); err != nil {
		return true, err
	}
	slot, err := strconv.Atoi(r.Key)
	if err != nil || slot < 0 || slot >= maxSteps {
		return true, errors.New("a key that is none")
	}
	if st.Step < max(d.done, overBy(d.since)) || d.steps[st.Step] != nil || d.slots[slot] {
		return true, nil
	}
	if len(st.Denied) > maxStepWide+1 || len(st.Allowed) > 8*maxStepAllowed || len(st.Allowed)%8 != 0 {
		return true, fmt.Errorf("a step with %d denials and %d bytes of what was allowed", len(st.Denied), len(st.Allowed))
	}
	b := newStepBucket(len(st.Denied), len(st.Allowed)/8)
	for _, one := range st.Denied {
		if one == nil || stepOf(one.First) != st.Step || stepOf(one.Last) != st.Step || one.Count <= 0 || len(one.Node) > maxRemembered {
			return true, errors.New("a denial that is not of the step")
		}
		b.denied[one.ID] = one
	}
	for i := 0; i < len(st.Allowed); i += 8 {
		b.allowed.add(binary.LittleEndian.Uint64(st.Allowed[i:]))
	}
	b.slot = slot
	d.steps[st.Step], d.slots[slot] = b, true
	return true, nil
}
