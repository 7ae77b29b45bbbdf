package wording

import (
	"bytes"
	"encoding/json"
	"io"
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

// A list that is written by its elements reads as one that is encoded as a whole, whatever its texts and the other members hold.
func TestWriteJSONLists(t *testing.T) {
	type element struct {
		Name  string         `json:"name"`
		Inner map[string]any `json:"inner,omitempty"`
	}
	type whole struct {
		Text   string    `json:"text"`
		First  []element `json:"first"`
		Nested element   `json:"nested"`
		Second []string  `json:"second"`
		Last   int       `json:"last"`
	}
	const hostile = "\n  \"first\": null, \u202e<&>\x00\u2028"
	v := whole{
		Text: hostile, First: []element{{Name: hostile, Inner: map[string]any{"first": nil, "second": []int{1, 2}, "none": []int{}}}, {}},
		Nested: element{Inner: map[string]any{"first": nil, "second": nil}}, Second: []string{hostile, ""}, Last: 7,
	}
	var want, got strings.Builder
	if err := WriteJSON(&want, v); err != nil {
		t.Fatal(err)
	}
	rest := v
	rest.First, rest.Second = nil, nil
	if err := WriteJSON(&got, rest, ListOf("first", v.First), ListOf("second", v.Second)); err != nil {
		t.Fatal(err)
	}
	if want.String() != got.String() {
		t.Errorf("by elements\n%s\nas a whole\n%s", got.String(), want.String())
	}
	for name, lists := range map[string][]List{
		"no such member":   {ListOf("third", v.Second)},
		"not null":         {ListOf("last", v.Second)},
		"no JSON":          {ListOf("first", []any{func() {}})},
		"in another order": {ListOf("second", v.Second), ListOf("first", v.First)},
	} {
		if err := WriteJSON(io.Discard, rest, lists...); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
