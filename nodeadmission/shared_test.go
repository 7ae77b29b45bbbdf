package nodeadmission

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// TestStoredPod puts pods that differ in one thing or in many through the form in which they are stored: what comes out is what went in, and two that are
// stored are equal when the pods are.
func TestStoredPod(t *testing.T) {
	r := rand.New(rand.NewPCG(19, 1))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	uuid := "0a1b2c3d-4e5f-4678-9abc-def012345678"
	random := func() *Pod {
		p := &Pod{
			UID:  pick("", "u", uuid, strings.ToUpper(uuid), uuid[:35], uuid+"0", strings.Replace(uuid, "-", "0", 1), "g"+uuid[1:], "00000000-0000-0000-0000-000000000000"),
			Node: pick("", "n1", "n2"), ServiceAccount: pick("", "a", "b"), SpecUnknown: r.IntN(4) == 0, StatusUnknown: r.IntN(4) == 0, Mirror: r.IntN(4) == 0,
		}
		switch r.IntN(4) {
		case 0:
			p.Labels = map[string]string{}
		case 1:
			p.Labels = map[string]string{pick("a", "b"): pick("", "c", "bc")}
		case 2:
			p.Labels = map[string]string{"a": pick("b", "bc"), "ab": pick("", "c")}
		}
		switch r.IntN(6) {
		case 0:
			p.Uses = []Use{}
		case 1:
			p.ClaimStatuses = []byte(pick("", "{}", `{"a":1}`))
		}
		for range r.IntN(4) {
			u := Use{Kind: UseKind(r.IntN(5)), Name: pick("", "a", "b", "\x00", strings.Repeat("c", 300))}
			if u.Kind == UseInTree && r.IntN(2) == 0 {
				u.Driver = &Driver{Name: pick("d", "e"), InTree: true}
			}
			p.Uses = append(p.Uses, u)
		}
		return p
	}
	keys := newHasher()
	h := newShared(&keys)
	equal := 0
	var before *Pod
	for i := range 50_000 {
		p := random()
		if before != nil && r.IntN(2) == 0 { // one that differs in one thing, or in none
			q := *before
			switch r.IntN(6) {
			case 0:
				q.UID = p.UID
			case 1:
				q.Node = p.Node
			case 2:
				q.Labels = p.Labels
			case 3:
				q.Uses = p.Uses
			case 4:
				q.ClaimStatuses = p.ClaimStatuses
			}
			p = &q
		}
		text := fmt.Sprintf("%+v", p)
		stored := h.store(p)
		if got := h.load(&stored); !reflect.DeepEqual(got, p) {
			t.Fatalf("%+v, want %+v", got, p)
		}
		if before != nil {
			want := reflect.DeepEqual(p, before)
			if got := h.equal(stored, h.store(before)); got != want {
				t.Fatalf("%+v and %+v are equal: %t, want %t", p, before, got, want)
			}
			if want {
				equal++
			}
		}
		if i%1000 == 0 {
			h = newShared(&keys)
		}
		if now := fmt.Sprintf("%+v", p); now != text {
			t.Fatalf("the caller's pod was changed from %s to %s", text, now)
		}
		before = p
	}
	if equal < 1000 {
		t.Errorf("only %d were equal", equal)
	}
}
