package tally

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rules"
)

// flooded are allowed requests of some nodes, with refused ones of the same nodes and rules between them.
func flooded(r *rand.Rand, allowed, refused int) (all, onlyAllowed []*Entry) {
	one := func(i int, allowed bool) *Entry {
		node := fmt.Sprintf("n%d", r.IntN(4))
		name := fmt.Sprintf("%t-%d", allowed, r.IntN(3*allowedShare*8))
		return &Entry{Time: time.Unix(int64(i+1), 0).UTC(), IsNode: true, Node: node, Findings: []Finding{{
			Key: Key{Rule: []string{rules.ExcessAccess, rules.NodeIdentity, "a"}[r.IntN(3)], Node: node, Name: name}, Severity: rules.Severity(1 + r.IntN(4)), Allowed: allowed,
			Reason: rules.Reason(fmt.Sprint("r", r.IntN(2))),
		}}}
	}
	for i := range allowed {
		onlyAllowed = append(onlyAllowed, one(i, true))
	}
	all = append(all, onlyAllowed...)
	for i := range refused {
		at := r.IntN(len(all) + 1)
		all = append(all[:at:at], append([]*Entry{one(i, false)}, all[at:]...)...)
	}
	return all, onlyAllowed
}

// Where an allowed request is counted does not depend on refused ones, however many.
func TestAttack02FloodHidesNothing(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		all, allowed := flooded(r, 1+r.IntN(600), r.IntN(1500))
		got, want := New(), New()
		for _, s := range []*Tally{got, want} {
			s.Bound(10 + r.IntN(200))
		}
		want.Bound(got.max)
		for _, e := range all {
			got.Add(e)
		}
		for _, e := range allowed {
			want.Add(e)
		}
		count := func(s *Tally) map[Key]int64 {
			out := map[Key]int64{}
			for k, g := range s.Groups {
				if g.Allowed {
					out[k] = g.Count
				}
			}
			return out
		}
		if diff := cmp.Diff(count(want), count(got)); diff != "" {
			t.Fatalf("seed %d: allowed requests without and with refused ones (-want +got):\n%s", seed, diff)
		}
		// So it is where what was counted apart is put together, in any order.
		parts := []*Tally{New(), New()}
		for _, p := range parts {
			p.Bound(1 << 40)
		}
		for _, e := range all {
			parts[r.IntN(2)].Add(e)
		}
		sum := New()
		sum.Bound(got.max)
		sum.Merge(parts[0])
		sum.Merge(parts[1])
		n := int64(0)
		for _, g := range sum.Groups {
			if g.Allowed {
				n += g.Count
			}
		}
		if n != int64(len(allowed)) {
			t.Fatalf("seed %d: %d allowed requests are in groups of allowed ones, want %d", seed, n, len(allowed))
		}
	}
}

// A group of which the room was given back leaves none behind.
func TestRoomsAreGivenBack(t *testing.T) {
	rooms, taken := NewRooms(50), []Room{}
	known := map[Key]bool{}
	for i := range 5000 {
		f := Finding{Key: Key{Rule: rules.ExcessAccess, Node: fmt.Sprint(i % 7), Name: fmt.Sprint(i)}, Severity: rules.High, Allowed: i%3 == 0}
		key, room := rooms.Place(&f.Key, f.Class(), false, func(k Key) bool { return known[k] })
		if !known[key] {
			known[key] = true
			taken = append(taken, room)
		}
	}
	if len(taken) > 50+25+10 {
		t.Errorf("%d rooms were taken", len(taken))
	}
	for i := range 5000 { // of rules that users write, many of them
		f := Finding{Key: Key{Rule: fmt.Sprint("r", i%9), Node: fmt.Sprint(i % 7), Name: fmt.Sprint(i)}, Severity: rules.High, Allowed: i%3 == 0}
		key, room := rooms.Place(&f.Key, f.Class(), false, func(k Key) bool { return known[k] })
		if !known[key] {
			known[key] = true
			taken = append(taken, room)
		}
	}
	if m := rooms.mine; m.allowed > 5 || m.refused > 2 || len(m.wide) > 4*9*3 {
		t.Errorf("rules that users write: %+v", m)
	}
	for _, o := range taken {
		rooms.Leave(o)
	}
	if m := rooms.mine; len(m.used)+len(m.wide)+m.refused+m.dull+m.allowed+rooms.allowed != 0 {
		t.Errorf("left behind: %+v", rooms.mine)
	}
	if len(rooms.used)+len(rooms.wide)+rooms.refused+rooms.dull != 0 {
		t.Errorf("left behind: %+v", rooms)
	}
}

// However much the rules that users write find, what the built-in ones find is counted in the same groups.
func TestOwnRulesTakeNoRoom(t *testing.T) {
	day := time.Unix(1000, 0).UTC()
	entry := func(rule string, i int) Entry {
		f := Finding{Key: Key{Rule: rule, Node: fmt.Sprint(i % 3), Name: fmt.Sprint(i)}, Reason: rules.BindingNeeded, Severity: rules.High, Allowed: i%2 == 0}
		return Entry{Time: day.Add(time.Duration(i)), Findings: []Finding{f}}
	}
	alone, mixed := newBounded(100), newBounded(100)
	for i := range 1000 {
		for j := range 20 {
			e := entry(fmt.Sprint("mine-", j%4), i*20+j)
			mixed.Add(&e)
		}
		e := entry(rules.ExcessAccess, i)
		alone.Add(&e)
		mixed.Add(&e)
	}
	own := int64(0)
	for k, g := range mixed.Groups {
		if k.Rule != rules.ExcessAccess {
			own += g.Count
			delete(mixed.Groups, k)
		}
	}
	if diff := cmp.Diff(alone.Groups, mixed.Groups); diff != "" || own != 20_000 || len(alone.Groups) < 20 {
		t.Errorf("%d of own rules; without them and with them: %s", own, diff)
	}
}
