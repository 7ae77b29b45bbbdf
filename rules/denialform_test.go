package rules

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What is stored of denials is read as it was, also as earlier versions stored it. What is torn is an error.
func TestDenialForm(t *testing.T) {
	rnd := rand.New(rand.NewPCG(26, 11))
	text := func() string {
		return []string{"", "get", "a b", "\x00\n", "é", "\ufffd", strings.Repeat("x", 300), "6f0f9f9e-0000-4000-8000-000000000001", "6F0f9f9e-0000-4000-8000-000000000001"}[rnd.IntN(9)]
	}
	number := func() int64 { return []int64{0, 1, -1, 12345, -1 << 63, 1<<63 - 1}[rnd.IntN(6)] }
	is := func() bool { return rnd.IntN(2) == 0 }
	when := func() time.Time {
		return []time.Time{{}, at(1), at(1).Add(time.Microsecond), time.Unix(0, 0).UTC(), time.Date(1, 1, 2, 3, 4, 5, 6, time.UTC), time.Date(9999, 1, 2, 3, 4, 5, 999_999_999, time.UTC)}[rnd.IntN(6)]
	}
	denied := func() *denial {
		return &denial{
			Node: text(), ID: rnd.Uint64(), Count: number(), First: when(), Last: when(), AuditID: text(), Reason: text(), Product: text(),
			Object: &deniedObject{text(), text(), text(), text(), text(), text(), text()},
			Lagged: number(), Allowed: is(), Known: is(), Wide: is(),
		}
	}
	same := cmpopts.EquateEmpty()
	unexported := gocmp.AllowUnexported(watched{}, denial{})
	for range 2000 {
		step, objects := &storedStep{Step: number()}, []*watched(nil)
		for range rnd.IntN(4) {
			step.Denied = append(step.Denied, denied())
			step.Allowed = append(step.Allowed, text()...)
			w := &watched{denial: *denied(), Windows: number(), Window: number(), FoundAt: when(), PassedNow: is()}
			for range rnd.IntN(4) {
				w.AuditIDs = append(w.AuditIDs, text())
			}
			objects = append(objects, w)
		}
		form, watchedForm := step.append(nil), appendWatched(nil, objects)
		older, err := json.Marshal(step)
		olderWatched, wrong := json.Marshal(objects)
		if err != nil || wrong != nil {
			t.Fatal(err, wrong)
		}
		for _, b := range [][]byte{form, older, earlierStep(step)} {
			var got storedStep
			if err := got.read(b); err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(step, &got, same, unexported); diff != "" {
				t.Fatalf("-stored +read:\n%s", diff)
			}
		}
		for _, b := range [][]byte{watchedForm, olderWatched, earlierWatched(objects), appendWatched(nil, objects)} {
			got, err := readWatched(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := gocmp.Diff(objects, got, same, unexported, cmpopts.IgnoreFields(watched{}, "of", "fixed")); diff != "" {
				t.Fatalf("-stored +read:\n%s", diff)
			}
		}
		if n := len(form) - len(step.Allowed); n > 1 {
			torn := form[:1+rnd.IntN(n-1)]
			if err := new(storedStep).read(torn); err == nil && len(step.Denied) > 0 {
				t.Fatalf("%d of %d bytes are read as a step", len(torn), len(form))
			}
		}
		if len(objects) == 1 {
			torn := watchedForm[:1+rnd.IntN(len(watchedForm)-1)]
			if _, err := readWatched(torn); err == nil && len(torn) > 1 {
				t.Fatalf("%d of %d bytes are read as an object", len(torn), len(watchedForm))
			}
		}
	}
}

// earlier is a denial in the form of before.
func earlier(b []byte, d *denial) []byte {
	fixed := d.appendFixed(nil)
	whole := d.append(nil)
	last := whole[len(fixed):]
	at := 1 + len(appendString(nil, d.Node)) + 8 // flags, node and ID
	count := last[:len(binary.AppendVarint(nil, d.Count))]
	b = append(append(b, fixed[:at]...), count...)
	first := len(appendTime(nil, d.First))
	b = append(b, fixed[at:at+first]...)
	b = append(b, last[len(count):]...)
	return append(b, fixed[at+first:]...)
}

func earlierStep(s *storedStep) []byte {
	b := binary.AppendVarint([]byte{earlierForm}, s.Step)
	b = binary.AppendUvarint(b, uint64(len(s.Denied)))
	for _, d := range s.Denied {
		b = earlier(b, d)
	}
	return append(b, s.Allowed...)
}

func earlierWatched(all []*watched) []byte {
	b := []byte{earlierForm}
	for _, w := range all {
		b = binary.AppendUvarint(earlier(b, &w.denial), uint64(len(w.AuditIDs)))
		for _, id := range w.AuditIDs {
			b = appendString(b, id)
		}
		b = binary.AppendVarint(binary.AppendVarint(b, w.Windows), w.Window)
		b = appendTime(b, w.FoundAt)
		passed := byte(0)
		if w.PassedNow {
			passed = 1
		}
		b = append(b, passed)
	}
	return b
}

// What is made once of a watched object is made anew when that changes.
func TestWatchedAgain(t *testing.T) {
	w := &watched{denial: denial{Node: "w1", ID: 7, Count: 1, First: at(0), Last: at(0), Object: &deniedObject{Verb: "get"}}}
	for i := range 8 {
		w.Count, w.Last, w.Windows, w.FoundAt, w.PassedNow = w.Count+1, at(i), int64(i), at(i), i%2 == 0
		w.note(fmt.Sprint("id-", i))
		got, err := readWatched(appendWatched(nil, []*watched{w}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff([]*watched{w}, got, cmpopts.EquateEmpty(), gocmp.AllowUnexported(watched{}, denial{}), cmpopts.IgnoreFields(watched{}, "of", "fixed")); diff != "" {
			t.Fatalf("-is +read:\n%s", diff)
		}
	}
}
