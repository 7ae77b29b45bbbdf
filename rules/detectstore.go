package rules

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// rememberedDenials is the kind of the steps. Their keys are used again once a step is over: what is over is known by the watermark.
const rememberedDenials = "denials"

// storedStep is a stepBucket as it is stored. The names are those of its older form.
type storedStep struct {
	Step    int64     `json:"step"`
	Denied  []*denial `json:"denied,omitempty"`
	Allowed []byte    `json:"allowed,omitempty"`
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
		st := storedStep{Step: n, Denied: b.inOrder(func(uint64) bool { return true })}
		if b.allowed.len > 0 {
			st.Allowed = make([]byte, 0, 8*b.allowed.len)
		}
		for id := range b.allowed.all {
			st.Allowed = binary.LittleEndian.AppendUint64(st.Allowed, id)
		}
		out = append(out, Remembered{Kind: rememberedDenials, Key: strconv.Itoa(b.slot), Value: st.append(nil)})
	}
	return out
}

// Restore implements Detector.
func (d *denials) Restore(r *Remembered) (own bool, err error) {
	if r.Kind != rememberedDenials {
		return false, nil
	}
	var st storedStep
	if err := st.read(r.Value); err != nil {
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
		if one == nil || one.Object == nil || stepOf(one.First) != st.Step || stepOf(one.Last) != st.Step || one.Count <= 0 || len(one.Node) > maxRemembered {
			return true, errors.New("a denial that is not of the step")
		}
		b.denied.add(one.ID, one)
	}
	for i := 0; i < len(st.Allowed); i += 8 {
		b.allowed.add(binary.LittleEndian.Uint64(st.Allowed[i:]), struct{}{})
	}
	b.slot = slot
	d.steps[st.Step], d.slots[slot] = b, true
	return true, nil
}
