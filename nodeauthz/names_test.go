package nodeauthz

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestNamesAndLists keeps names and lists of any length, long ones too, while others are released, and compares them with maps. What is released makes room.
func TestNamesAndLists(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 2))
	length := func() int {
		switch r.IntN(20) {
		case 0:
			return longName - 3 + r.IntN(6)
		case 1:
			return maxList - 2 + r.IntN(4)
		case 2:
			return r.IntN(3 * listChunk)
		}
		return r.IntN(40)
	}
	a, b := newNames(), newLists()
	texts, vertices := map[nameID]string{}, map[listID][]vertexID{}
	highest := 0
	for i := range 20_000 {
		n := length()
		name := strings.Repeat(string(rune('a'+i%26)), n)
		id := a.put(name)
		if _, used := texts[id]; used || id == 0 {
			t.Fatalf("the name %d is given twice", id)
		}
		texts[id] = name
		list := slices.Repeat([]vertexID{vertexID(i)}, n)
		at := b.put(list)
		if _, used := vertices[at]; used && at != 0 {
			t.Fatalf("the list %d is given twice", at)
		}
		vertices[at] = list
		if n > 0 {
			list[0]++ // the caller's
			list = slices.Clone(list)
			list[0]--
			vertices[at] = list
		}
		for id, want := range texts {
			if got := a.text(id); got != want {
				t.Fatalf("the name %d is %q, want %q", id, got, want)
			}
			if len(texts) > 100 {
				a.release(id)
				delete(texts, id)
			}
			break
		}
		for id, want := range vertices {
			if got := b.at(id); !slices.Equal(got, want) {
				t.Fatalf("the list %d is %v, want %v", id, got, want)
			}
			if len(vertices) > 100 {
				b.release(id)
				delete(vertices, id)
			}
			break
		}
		if i == 10_000 {
			highest = len(a.chunks)
		}
	}
	if len(a.chunks) > highest+1 || len(a.long) > len(texts) {
		t.Errorf("%d chunks of names after %d, %d long names among %d", len(a.chunks), highest, len(a.long), len(texts))
	}
	for id, want := range texts {
		if got := a.text(id); got != want {
			t.Fatalf("the name %d is %q, want %q", id, got, want)
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
