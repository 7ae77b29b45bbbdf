package nodeadmission

import (
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// TestTable compares a table with a map, over names that meet in the same slots, through growth and pruning.
func TestTable(t *testing.T) {
	if size := unsafe.Sizeof(slot[storedPod]{}); size != 64 {
		t.Errorf("a slot takes %d bytes: it is no cache line", size)
	}
	r := rand.New(rand.NewPCG(15, 2))
	for range 200 {
		var got table[*int]
		type life struct {
			value *int
			from  int64
		}
		want := map[name]life{}
		nameOf := func() name {
			n := uint64(r.IntN(40))
			if n%3 == 0 {
				return name{n%2<<63 | 1<<58 - 1, uint32(n) + 1} // of the last slots
			}
			return name{n % 2 << 63, uint32(n) + 1}
		}
		for i := range 300 {
			at := int64(i + 1)
			switch n := nameOf(); r.IntN(12) {
			case 0:
				before := at - int64(r.IntN(30))
				got.prune(before)
				for n, l := range want {
					if l.value == nil && l.from <= before {
						delete(want, n)
					}
				}
			case 1, 2, 3:
				if _, ok := want[n]; ok {
					got.set(n, Moment{Time: time.Unix(0, at)}, nil)
					if want[n].value != nil {
						want[n] = life{nil, at}
					}
				}
			default:
				v := i
				got.set(n, Moment{Time: time.Unix(0, at)}, &v)
				want[n] = life{&v, at}
			}
			for range 5 {
				n := nameOf()
				h, l := got.find(n), want[n]
				if _, ok := want[n]; ok != (h != nil) {
					t.Fatalf("%v is there: %t, want %t", n, h != nil, ok)
				}
				if h == nil {
					continue
				}
				v, value, there, _ := got.look(h, at)
				if value == nil {
					value = new(*int)
				}
				if !there || *value != l.value || v.from != l.from {
					t.Fatalf("%v is %+v %v, want %+v", n, v, *value, l)
				}
			}
			if got.n != len(want) {
				t.Fatalf("%d objects, want %d", got.n, len(want))
			}
		}
	}
}
