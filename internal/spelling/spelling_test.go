package spelling

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNearest(t *testing.T) {
	all := []string{"pods", "podtemplates", "nodes", "Secrets", "secret", "leases"}
	for word, want := range map[string][]string{
		"pod": {"pods", "podtemplates"}, "PODS": {"pods"}, "nods": {"pods", "nodes"}, "secrt": {"secret"}, "secretz": {"Secrets", "secret"},
		"x": nil, "frobnicators": nil, "leses": {"leases"},
	} {
		if diff := cmp.Diff(want, Nearest(word, all)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", word, diff)
		}
	}
	kinds := []string{"clusterrolebinding/system:node", "clusterrolebinding/nodes"}
	if got := Nearest("clusterrolebinding/nope", kinds); len(got) > 0 {
		t.Errorf("what is before the slash is no likeness: %q", got)
	}
	if diff := cmp.Diff(kinds[:1], Nearest("clusterrolebinding/system:nod3", kinds)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := Meant("pod", all); got != "did you mean pods or podtemplates?" {
		t.Error(got)
	}
	if got := Meant("n", []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7"}); got != "did you mean n1, n2, n3, n4, n5, or one of 2 more?" {
		t.Error(got)
	}
	if got := Meant("x", all); got != "" {
		t.Error(got)
	}
	for n, want := range []string{"", "a", "a or b", "a, b or c"} {
		if got := OneOf([]string{"a", "b", "c"}[:n]); got != want {
			t.Errorf("%d words: %q", n, got)
		}
	}
}

// Of random words the nearest are those that a search through all of them finds.
func TestNearestOfMany(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, 1+rng.IntN(6))
		for i := range b {
			b[i] = "abc"[rng.IntN(3)]
		}
		return string(b)
	}
	for range 2000 {
		w, all := word(), []string{word(), word(), word(), word(), word()}
		want := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return len(s) < len(w) || s[:len(w)] != w })
		for most := 1; len(want) == 0 && most <= (len(w)+1)/3; most++ {
			want = slices.DeleteFunc(slices.Clone(all), func(s string) bool { return edits(w, s) != most })
		}
		if got := Nearest(w, all); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q among %q: %q, want %q", w, all, got, want)
		}
	}
}

// edits is distance by its definition.
func edits(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	if a[0] == b[0] {
		return edits(a[1:], b[1:])
	}
	return 1 + min(edits(a[1:], b), edits(a, b[1:]), edits(a[1:], b[1:]))
}
