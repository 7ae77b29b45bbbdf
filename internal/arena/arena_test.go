package arena

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTexts keeps texts of any length, long ones too, while others are released, and compares them with copies. What is released makes room.
func TestTexts(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 2))
	a, want := NewTexts(), map[Text]string{}
	halfway := 0
	for i := range 40_000 {
		n := r.IntN(40)
		if r.IntN(10) == 0 {
			n = r.IntN(long + 10)
		}
		text := strings.Repeat(string(rune('a'+i%26)), n)
		id := a.Put(text)
		if _, used := want[id]; used || id == 0 {
			t.Fatalf("the number %d is given twice", id)
		}
		want[id] = text
		for id, text := range want {
			if got := a.Get(id); got != text {
				t.Fatalf("the text %d is %q, want %q", id, got, text)
			}
			if len(want) > 3000 {
				a.Release(id)
				delete(want, id)
			}
			break
		}
		if i == 20_000 {
			halfway = len(a.chunks)
		}
	}
	if len(a.chunks) > halfway+1 || len(a.chunks) < 2 {
		t.Errorf("%d chunks after %d", len(a.chunks), halfway)
	}
	longs := 0
	for id, text := range want {
		if len(text) >= long {
			longs++
		}
		if got := a.Get(id); got != text {
			t.Fatalf("the text %d is %q, want %q", id, got, text)
		}
	}
	if len(a.byNumber) != longs || longs == 0 {
		t.Errorf("%d long texts are kept of %d", len(a.byNumber), longs)
	}
}

// TestOf hands out records, keeps what is in them, and hands out again what was released.
func TestOf(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 5))
	var a Of[int]
	want := map[uint32]int{}
	for i := range 20_000 {
		id := a.Alloc()
		if _, used := want[id]; used {
			t.Fatalf("the number %d is given twice", id)
		}
		*a.At(id), want[id] = i, i
		for id, v := range want {
			if *a.At(id) != v {
				t.Fatalf("record %d is %d, want %d", id, *a.At(id), v)
			}
			if len(want) > 3*chunk || r.IntN(3) == 0 {
				a.Release(id)
				delete(want, id)
			}
			break
		}
	}
	if a.Live() != len(want) || a.Len() > 3*chunk+1 {
		t.Errorf("%d of %d records are handed out, want %d", a.Live(), a.Len(), len(want))
	}
}
