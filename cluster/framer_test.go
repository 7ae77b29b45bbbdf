package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// frames lists what the framer makes of a text: values, and errors with the lines on which they are.
func frames(r io.Reader) []string {
	f := newFramer(r, 1<<20)
	var out []string
	for len(out) < 10_000 {
		v, err := f.next()
		if errors.Is(err, io.EOF) {
			return append(out, "end")
		}
		if err != nil {
			out = append(out, fmt.Sprintf("%d: %v", f.atLine, err))
			var syntax *syntaxError
			if !errors.As(err, &syntax) || !f.resync() {
				return out
			}
			continue
		}
		out = append(out, fmt.Sprintf("%d %d %s %s", v.line, v.form, v.raw, bytes.Join(v.fields[:], []byte("|"))))
	}
	return out
}

var framerTexts = []string{
	`{"type":"ADDED","object":{"kind":"Pod"},"observedAt":"x"}` + "\n" + `{"type":"A\"B\\","object":[[],{}]}`,
	"{\n \"a\": [ 1, -2.5e3, true, null, \"}{\" ]\n}\n{\n}\n",
	`{"kind":"List","items":[{"a":1},{"b":[2]} , 3],"apiVersion":"v1"}{"x":0}`,
	`{"\u006bind":"List","it\u0065ms":[{"\u0061":1}]}`, `{"\q":1}` + "\n{}",
	`{"items":[],"items":[{}]}`, `{"items":null}`, `{"items":{"a":1}}`, `[{"a":1},[2],"c"]`, `[[]]`, `{"a":{"items":[1]}}`,
	"{\"a\":\n{\"b\":1}\n", "{\"a\":[1,\n{\"b\":1}\n", "{\"a\":\"x\n{\"b\":1}\n", "x\n{\"b\":1}", "{\"a\" 1}\n{}", "{,}\n{}", "{\"a\":1 \"b\":2}", "{\"a\":}\n{}", "]", "{\"a\":]}\n{}",
}

// TestFramerInPieces reads texts byte by byte, which must make no difference.
func TestFramerInPieces(t *testing.T) {
	long := `{"type":"ADDED","object":{"s":"` + strings.Repeat("abc\\n", 60_000) + `"}}` + "\n"
	for _, text := range append([]string{long + long}, framerTexts...) {
		want := frames(strings.NewReader(text))
		if d := cmp.Diff(want, frames(iotest.OneByteReader(strings.NewReader(text)))); d != "" {
			t.Errorf("%.60q (-whole +in pieces):\n%.1000s", text, d)
		}
	}
}

// Names of members may have escapes.
func TestEscapedNames(t *testing.T) {
	pod := podJSON(t, "web-1", "u1", "w1", "0s", "0s", "")
	for _, text := range []string{event(t, "9s", "ADDED", pod), `{"kind":"PodList","apiVersion":"v1","items":[` + pod + `],"metadata":{}}`} {
		want := load(t, text).Summary()
		for _, name := range []string{"type", "object", "observedAt", "items", "kind", "apiVersion"} {
			escaped := strings.ReplaceAll(text, `"`+name+`":`, fmt.Sprintf(`"\u%04x%s":`, name[0], name[1:]))
			if d := cmp.Diff(want, load(t, escaped).Summary()); d != "" || want.Objects["Pod"] != 1 {
				t.Errorf("%.60s (-plain +escaped):\n%s", escaped, d)
			}
		}
	}
}

// FuzzFramer holds the framer against encoding/json: a stream of objects that this reads comes out value by value, the same bytes.
func FuzzFramer(f *testing.F) {
	for _, text := range framerTexts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got := frames(bytes.NewReader(data))
		if d := cmp.Diff(got, frames(iotest.HalfReader(bytes.NewReader(data)))); d != "" {
			t.Fatalf("%q (-whole +in pieces):\n%s", data, d)
		}
		var want []string
		for d := json.NewDecoder(bytes.NewReader(data)); ; {
			var raw json.RawMessage
			err := d.Decode(&raw)
			if errors.Is(err, io.EOF) {
				break
			}
			var members map[string]json.RawMessage
			if err != nil || json.Unmarshal(raw, &members) != nil || members == nil || members["items"] != nil {
				return
			}
			want = append(want, string(raw))
		}
		fr := newFramer(bytes.NewReader(data), 1<<20)
		for _, w := range want {
			v, err := fr.next()
			if err != nil || string(v.raw) != w {
				t.Fatalf("%q: %v %+v, want %s", data, err, v, w)
			}
		}
		if v, err := fr.next(); !errors.Is(err, io.EOF) {
			t.Fatalf("%q: %v, %v at the end", data, v, err)
		}
	})
}

// TestFramerBoundsNesting reads what nests as deep as decoders take, and deeper; what follows on lines of its own is read.
func TestFramerBoundsNesting(t *testing.T) {
	nested := func(depth int) string {
		return `{"a":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}\n"
	}
	for depth, deep := range map[int]bool{maxNesting: false, maxNesting + 1: true, 20 * maxNesting: true} {
		got := frames(strings.NewReader(nested(depth) + "{}\n"))
		if len(got) != 3 || strings.HasPrefix(got[0], "1: ") != deep || strings.Contains(got[0], "nested too deeply") != deep || !strings.HasPrefix(got[1], "2 ") {
			t.Errorf("%d: %.200q", depth, got)
		}
	}
	f := newFramer(strings.NewReader(nested(20*maxNesting)), 1<<20)
	if _, err := f.next(); err == nil || cap(f.stack) > 2*maxNesting {
		t.Errorf("%v, with a stack of %d", err, cap(f.stack))
	}
}
