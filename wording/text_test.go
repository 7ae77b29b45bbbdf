package wording

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// JSON says what it said before, and no character in it moves the cursor or turns the direction of writing.
func FuzzAttack15EscapeJSON(f *testing.F) {
	for _, s := range []string{"", "plain é 節", "\u0085\u009b31m\x7f\x1b[2J", "\u202eevil\u2066", "\u2028\u2029\ufeff", "\U000e0001", "\xff\xfe", `\\u202e"`, "\u00ad\u061c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		was := map[string]string{s: s}
		plain, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		var want, got map[string]string
		escaped := EscapeJSON(bytes.Clone(plain))
		if err := json.Unmarshal(plain, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(escaped, &got); err != nil {
			t.Fatalf("%q: %v", escaped, err)
		}
		for k, v := range want {
			if got[k] != v || len(got) != len(want) {
				t.Errorf("%q became %q", v, got)
			}
		}
		if bytes.ContainsFunc(escaped, Hidden) {
			t.Errorf("%q holds what is not shown", escaped)
		}
		var b strings.Builder
		if err := WriteJSON(&b, want); err != nil || strings.ContainsFunc(strings.ReplaceAll(b.String(), "\n", ""), Hidden) {
			t.Errorf("%q, %v", b.String(), err)
		}
	})
}
