package jscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree reads the next value the long way round, by every method that a caller has, as encoding/json would into an any.
func tree(s *Scanner) any {
	switch s.Peek() {
	case Null:
		s.Null()
		return nil
	case Bool:
		return s.Bool()
	case Number:
		return json.Number(s.Raw())
	case String:
		at := s.Pos()
		text := s.String()
		end := s.Pos()
		if s.Err() == nil {
			// The other way to read one.
			var again Scanner
			again.ResetAt(s.buf, at)
			raw, plain := again.Inside()
			meaning := string(AppendUnescaped([]byte("x"), raw))
			if again.Err() != nil || again.Pos() != end || meaning != "x"+text || plain && string(raw) != text {
				return fmt.Sprintf("inside of %q: %q, %v, %v; a string: %q", s.buf[at:end], raw, plain, again.Err(), text)
			}
		}
		return text
	case Array:
		a := []any{}
		for s.Array(); s.More(); {
			a = append(a, tree(s))
		}
		return a
	case Object:
		o := map[string]any{}
		var key string
		for s.Object(); s.Key(&key); {
			o[key] = tree(s)
		}
		return o
	default:
		s.Skip()
		return nil
	}
}

func reference(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

func compare(t *testing.T, data []byte) {
	t.Helper()
	before := bytes.Clone(data)
	valid := json.Valid(data)

	var s Scanner
	s.Reset(data)
	raw := s.Raw()
	s.End()
	if (s.Err() == nil) != valid {
		t.Fatalf("skipping %q: %v, but valid is %v", data, s.Err(), valid)
	}
	if valid && !bytes.Equal(raw, bytes.Trim(data, " \t\r\n")) {
		t.Fatalf("raw value of %q is %q", data, raw)
	}

	s.Reset(data)
	got := tree(&s)
	s.End()
	if (s.Err() == nil) != valid {
		t.Fatalf("reading %q: %v, but valid is %v", data, s.Err(), valid)
	}
	if valid {
		want, err := reference(data)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(want, got) {
			t.Fatalf("%q (-encoding/json +jscan):\n%s", data, cmp.Diff(want, got))
		}
		var want64 int64
		wantErr := json.Unmarshal(data, &want64)
		if s.Reset(data); s.Peek() == Number {
			if n := s.Int64(); (wantErr == nil) != (s.Err() == nil) || n != want64 {
				t.Fatalf("%q as an integer: %d, %v, want %d, %v", data, n, s.Err(), want64, wantErr)
			}
		}
	} else {
		truncated(t, data, &s)
	}
	if !bytes.Equal(before, data) {
		t.Fatalf("the text was changed from %q to %q", before, data)
	}
}

// truncated checks that an error of kind Truncated is at the end of the text and nowhere else, which is what makes it useful.
func truncated(t *testing.T, data []byte, s *Scanner) {
	t.Helper()
	f := s.Fault()
	if f.Fault == Truncated && f.Offset != len(data) {
		t.Fatalf("%q: truncated at %d", data, f.Offset)
	}
	if f.Offset < 0 || f.Offset > len(data) {
		t.Fatalf("%q: error at %d", data, f.Offset)
	}
}

var texts = []string{
	``, ` `, `null`, `true`, `false`, `nul`, `nulL`, `tru`, `truex`, `0`, `-0`, `-`, `01`, `1.`, `1.5`, `.5`, `1e5`, `1e`, `1E+5`, `1e-`, `9223372036854775807`,
	`9223372036854775808`, `-9223372036854775808`, `999999999`, `1000000000`, `""`, `"a"`, `"`, `"a`, `"\`, `"\u12`, `"\u123g"`, `"\x"`, `"\u0041\b\f\n\r\t\/\\\""`, "\"\x01\"", "\"a\nb\"",
	`"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83d"`, `"\ud83d\ud83d\ude00"`, `"\ud83dx"`, `"\ud83d\n"`, "\"\xff\"", "\"\xed\xa0\x80\"", "\"\xe2\x82\"", "\"\xf0\x9f\x98\x80 and more than eight bytes\"",
	"\"12345678\xff\"", "\"1234567\xff89012345\"", `"1234567\u0041"`, "\"\xff\\n\xff\"", "\x00", "\xef\xbb\xbf{}", `{}`, `{ }`, `[]`, `[ ]`, `[1,]`, `[,1]`, `[1 2]`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{a:1}`, `{"a":1 "b":2}`,
	`{"a":1,"a":2}`, `{"\u0061":1}`, ` { "a" : [ 1 , { "b" : null } , "c" ] , "d" : { } } `, `{"a":1}{"b":2}`, `{"a":1}]`, `[1}`, `{"a":1]`, `[[1],[2],{"x":[{}]}]`, `[[[[[`, `]`, `}`, `:`, "[1,\t2\r\n]", "[1,\v2]",
}

func TestAgainstEncodingJSON(t *testing.T) {
	for _, text := range texts {
		compare(t, []byte(text))
	}
	for _, n := range []int{1, 63, 64, 65, 127, 128, 129, 200, maxDepth - 1, maxDepth, maxDepth + 1, 100_000} {
		compare(t, []byte(strings.Repeat("[", n)+strings.Repeat("]", n)))
		compare(t, []byte(strings.Repeat(`{"a":`, n)+"1"+strings.Repeat("}", n)))
		compare(t, []byte(strings.Repeat(`[{"a":`, n/2)+"1"+strings.Repeat("}]", n/2)))
		compare(t, []byte(strings.Repeat("[", n)))
	}
}

func TestWrongType(t *testing.T) {
	f := func(text string, read func(s *Scanner)) {
		t.Helper()
		var s Scanner
		s.Reset([]byte(text))
		read(&s)
		var e *Error
		if !errors.As(s.Err(), &e) || e.Fault != WrongType {
			t.Errorf("%s: %v, want an error of kind WrongType", text, s.Err())
		}
	}
	f(`1`, func(s *Scanner) { _ = s.String() })
	f(`"1"`, func(s *Scanner) { s.Int64() })
	f(`1.0`, func(s *Scanner) { s.Int64() })
	f(`null`, func(s *Scanner) { s.Bool() })
	f(`[]`, func(s *Scanner) { s.Object() })
	f(`{}`, func(s *Scanner) { s.Array() })
}

func TestStringsDoNotShareMemory(t *testing.T) {
	var s Scanner
	s.Reset([]byte(`["a\u0062c","d\u0065f"]`))
	s.Array()
	s.More()
	first := s.String()
	s.More()
	second := s.String()
	if first != "abc" || second != "def" {
		t.Errorf("got %q and %q", first, second)
	}
}

func FuzzScanner(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) { compare(t, data) })
}

func BenchmarkSkip(b *testing.B) {
	body := `{"metadata":{"name":"worker-1","annotations":{"a":"` + strings.Repeat("text ", 200) + `"}},"list":[1,2,3,{"x":null,"y":true}]}`
	data := []byte(`[` + strings.Repeat(body+",", 50) + `{}]`)
	var s Scanner
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		s.Reset(data)
		if s.Skip(); s.Err() != nil {
			b.Fatal(s.Err())
		}
	}
}
