package wording

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Visible makes a string from a log safe to show: control characters, line ends and the marks that turn the direction of writing are
// written as escapes, so that a hostile name cannot move the cursor or hide another.
func Visible(s string) string {
	bad := func(r rune) bool { return Hidden(r) || r == unicode.ReplacementChar }
	if strings.IndexFunc(s, bad) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if bad(r) {
			fmt.Fprintf(&b, "\\u{%x}", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Hidden reports whether a character is not shown, but moves the cursor or changes how others are shown: control characters, those of C1 included,
// line separators, and marks of formats such as the direction of writing. So do characters that are not shown at all, which make two names look alike. What Unicode says is no character, such as U+FFFF, counts too: some formats have no place for it.
func Hidden(r rune) bool {
	return r >= 0x7f && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		unicode.IsControl(r)
}

// AppendEscape appends a character as JSON escapes it.
func AppendEscape(b []byte, r rune) []byte {
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		return fmt.Appendf(b, "\\u%04x\\u%04x", high, low)
	}
	return fmt.Appendf(b, "\\u%04x", r)
}

// EscapeJSON escapes in JSON, which has such characters in strings alone, those above ASCII that are Hidden, and DEL: encoding/json leaves them as they
// are, and a terminal or an editor that shows the text obeys them. It may change b.
func EscapeJSON(b []byte) []byte {
	ascii := 0
	for ascii < len(b) && b[ascii] < 0x7f {
		ascii++
	}
	hidden := func(r rune) bool { return r >= 0x7f && Hidden(r) }
	if bytes.IndexFunc(b[ascii:], hidden) < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+64)
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		if hidden(r) {
			out = AppendEscape(out, r)
		} else {
			out = append(out, b[:size]...)
		}
		b = b[size:]
	}
	return out
}

// List is a member of a JSON object: a long list, which is encoded element by element, so that it is never in memory as a whole.
type List struct {
	Key string
	// Elements are those of the list. The object has null in its place.
	Elements iter.Seq[any]
}

// ListOf is a list with pointers to the elements.
func ListOf[T any](key string, all []T) List {
	return List{key, func(yield func(any) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}}
}

// WriteJSON writes a value as indented JSON with a line end, with the escapes of EscapeJSON and without those for HTML. The lists are those of the value,
// which is then an object, in its order and none of them empty. After an error, part of it may have been written.
func WriteJSON(w io.Writer, v any, lists ...List) error {
	rest, err := newIndenter("").encode(v)
	if err != nil {
		return err
	}
	elements := newIndenter(indent + indent)
	out := bufio.NewWriterSize(w, 1<<16)
	for _, l := range lists {
		before, after, found := bytes.Cut(rest, []byte("\n"+indent+`"`+l.Key+`": null`)) // no text has a line end
		if !found {
			return fmt.Errorf("encoding: no list %q", l.Key)
		}
		rest = after
		_, _ = out.Write(before) // Flush returns the error
		_, _ = fmt.Fprintf(out, "\n%s%q: [", indent, l.Key)
		separator := ""
		for e := range l.Elements {
			text, err := elements.encode(e)
			if err != nil {
				return err
			}
			_, _ = out.WriteString(separator + "\n" + indent + indent)
			if _, err := out.Write(bytes.TrimSuffix(text, []byte("\n"))); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
			separator = ","
		}
		_, _ = out.WriteString("\n" + indent + "]")
	}
	_, _ = out.Write(rest)
	if err := out.Flush(); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

const indent = "  "

// indenter writes values as indented JSON.
type indenter struct {
	buf bytes.Buffer
	enc *json.Encoder
}

// newIndenter has lines after the first one begin with prefix.
func newIndenter(prefix string) *indenter {
	in := &indenter{}
	in.enc = json.NewEncoder(&in.buf)
	in.enc.SetIndent(prefix, indent)
	in.enc.SetEscapeHTML(false)
	return in
}

// encode returns the value with a line end. The next call overwrites it.
func (in *indenter) encode(v any) ([]byte, error) {
	in.buf.Reset()
	if err := in.enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	return EscapeJSON(in.buf.Bytes()), nil
}

// VisibleLines is Visible of each line.
func VisibleLines(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = Visible(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Bounded is Visible, cut to so many characters; what is cut ends with an ellipsis.
func Bounded(s string, most int) string {
	s = Visible(s)
	if len(s) <= most {
		return s
	}
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// Plural counts things: "1 request", "2 identities".
func Plural(n int64, what string) string { return PluralOf(fmt.Sprint(n), n, what) }

// PluralOf is Plural with the number in a form of the caller's.
func PluralOf(number string, n int64, what string) string {
	switch {
	case n == 1:
		return number + " " + what
	case strings.HasSuffix(what, "ity"):
		return number + " " + strings.TrimSuffix(what, "y") + "ies"
	}
	return number + " " + what + "s"
}

// Thousands groups digits: 12,345.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Percent rounds towards the middle, to a tenth: what is not all is never "100.0 %", and what is something never "0.0 %".
func Percent(n, of int64) string {
	if of == 0 {
		return "0 %"
	}
	p := 100 * float64(n) / float64(of)
	switch {
	case n < of && p > 99.9:
		p = 99.9
	case n > 0 && p < 0.1:
		p = 0.1
	}
	return fmt.Sprintf("%.1f %%", p)
}

// Spell writes a duration as people do: 24h, 1h30m, 17s.
func Spell(d time.Duration) string {
	if d = d.Round(time.Second); d == 0 {
		return "less than a second"
	}
	s := d.String()
	if rest, is := strings.CutSuffix(s, "m0s"); is {
		s = rest + "m"
	}
	if rest, is := strings.CutSuffix(s, "h0m"); is {
		s = rest + "h"
	}
	return s
}

// lasting writes how long a silence lasted.
func lasting(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d minutes", d/time.Minute)
	}
	return d.String()
}

// stamp is a time in a sentence, to the second.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05Z") }

// Stamp is a time to the millisecond.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// Qualified is [namespace/]name.
func Qualified(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}

// Some names the first few of many, of which names may hold only the first.
func Some(names []string, many, most int) string {
	var all []string
	for _, s := range names[:min(most, len(names))] {
		if s = Visible(s); s == "" {
			s = `""`
		}
		all = append(all, s)
	}
	s := strings.Join(all, ", ")
	if n := max(many, len(names)) - len(all); n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
