package nodeauthz

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestLists keeps lists of any length, long ones too, while others are released, and compares them with copies.
func TestLists(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 2))
	length := func() int {
		switch r.IntN(20) {
		case 0:
			return maxList - 2 + r.IntN(4)
		case 1:
			return r.IntN(3 * listChunk)
		}
		return r.IntN(40)
	}
	a, want := newLists(), map[listID][]vertexID{}
	for i := range 10_000 {
		list := slices.Repeat([]vertexID{vertexID(i)}, length())
		id := a.put(list)
		if _, used := want[id]; used && id != 0 || (id == 0) != (len(list) == 0) {
			t.Fatalf("the number %d is given twice", id)
		}
		want[id] = slices.Clone(list)
		if len(list) > 0 {
			list[0]++ // the caller's
		}
		for id, list := range want {
			if got := a.at(id); !slices.Equal(got, list) {
				t.Fatalf("the list %d is %v, want %v", id, got, list)
			}
			if len(want) > 100 {
				a.release(id)
				delete(want, id)
			}
			break
		}
	}
	for id, list := range want {
		if got := a.at(id); !slices.Equal(got, list) {
			t.Fatalf("the list %d is %v, want %v", id, got, list)
		}
	}
}

// TestIndex adds and removes vertices, some of one tag and those with which the table ends among them, and finds those that are there.
func TestIndex(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 3))
	g := NewGraph()
	there := map[string]vertexID{}
	for i := range 100_000 {
		name := string(rune('a'+r.IntN(26))) + strings.Repeat("b", r.IntN(100)) + string(rune('a'+r.IntN(26)))
		id, is := there[name]
		if got := g.find(KindSecret, 0, name); got != id {
			t.Fatalf("%s is %d, want %d", name, got, id)
		}
		if is && i/20_000%2 == 1 { // by turns there become fewer
			g.release(id)
			delete(there, name)
		} else if i/20_000%2 == 0 {
			if there[name] = g.intern(KindSecret, "", name); is && there[name] != id {
				t.Fatalf("%s is %d, and then %d", name, id, there[name])
			}
		}
	}
	x := newIndex()
	for i := range vertexID(firstSlots / 2) {
		x.add(^uint32(0)-uint32(i%3), i+1)
	}
	for i := range vertexID(firstSlots / 4) {
		x.remove(^uint32(0)-uint32(i%3), i+1)
	}
	left := 0
	x.all(func(id vertexID) {
		if left++; id <= firstSlots/4 {
			t.Fatalf("%d was removed", id)
		}
	})
	if left != firstSlots/4 || x.used != left {
		t.Errorf("%d are left, %d counted", left, x.used)
	}
}
