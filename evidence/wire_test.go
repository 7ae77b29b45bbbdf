package evidence

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is written is read again, each change once; what is cut is refused, unless it is cut between two records.
func TestChangesOneBehindTheOther(t *testing.T) {
	l := ledgerOf(New(), day(rand.New(rand.NewPCG(1, 2)), 3, 2)...)
	l.drop(HourOf(noon) - 5)
	want := dump(t, l)
	b := l.AppendChanges([]byte{})
	if again := l.AppendChanges(nil); len(again) != 0 {
		t.Errorf("%d bytes are handed out again", len(again))
	}
	got, n := New(), 0
	if err := Each(b, func(k Key, v []byte) error { n++; return got.Put(k, v) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, dump(t, got)); diff != "" || n != len(want) {
		t.Errorf("%d records of %d (-want +got):\n%s", n, len(want), diff)
	}
	whole := 0
	for cut := range b {
		if err := Each(b[:cut], func(Key, []byte) error { return nil }); err == nil {
			whole++
		} else if !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	if whole != n {
		t.Errorf("%d beginnings are taken for whole, want %d", whole, n)
	}
	broken := errors.New("broken")
	if err := Each(b, func(Key, []byte) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// Whatever the bytes are, they are read or refused.
func FuzzEach(f *testing.F) {
	f.Add(ledgerOf(New(), renewal("worker-1", noon), serverRenewal("apiserver-x", noon)).AppendChanges(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := New()
		if Each(b, l.Put) != nil {
			return
		}
		same := New()
		if err := Each(New().mergedChanges(l), same.Put); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(dump(t, l), dump(t, same)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// mergedChanges takes in a ledger and writes it.
func (l *Ledger) mergedChanges(other *Ledger) []byte {
	l.Merge(other)
	return l.AppendChanges(nil)
}
