package explain

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// checkSVG reads a drawing as a page's parser would: only elements and attributes that need no leave of a strict policy, all text visible.
func checkSVG(t *testing.T, id string, b []byte) {
	t.Helper()
	elements := []string{"svg", "title", "desc", "g", "rect", "path", "text"}
	attributes := []string{
		"xmlns", "class", "role", "aria-labelledby", "viewBox", "width", "height", "font-family", "font-size", "fill", "stroke", "id", "x", "y", "rx",
		"stroke-width", "stroke-dasharray", "d",
	}
	d := xml.NewDecoder(bytes.NewReader(b))
	depth := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v in %s", id, err, b)
		}
		switch x := token.(type) {
		case xml.StartElement:
			depth++
			if !slices.Contains(elements, x.Name.Local) {
				t.Errorf("%s: element %s", id, x.Name.Local)
			}
			for _, a := range x.Attr {
				if !slices.Contains(attributes, a.Name.Local) || strings.Contains(a.Value, "url(") {
					t.Errorf("%s: attribute %s=%q", id, a.Name.Local, a.Value)
				}
			}
		case xml.EndElement:
			depth--
		case xml.CharData:
			if s := string(x); strings.TrimRight(s, "\n") != "" && s != visible(s) {
				t.Errorf("%s: %q is not visible", id, s)
			}
		default:
			t.Errorf("%s: %T", id, token)
		}
	}
	if depth != 0 || !bytes.HasPrefix(b, []byte("<svg ")) || bytes.Contains(b, []byte("NaN")) || len(b) > 200_000 {
		t.Errorf("%s: %d bytes that end %d deep", id, len(b), depth)
	}
}

// checkDOT reads a drawing by the part of Graphviz' grammar that is used: quoted strings, and words that need no quotes.
func checkDOT(t *testing.T, id string, b []byte) {
	t.Helper()
	line := regexp.MustCompile(`^  (graph|node|edge|b[0-9]+( -> b[0-9]+)?) \[(.*)\];$`)
	attribute := regexp.MustCompile(`^(class|label|style|shape|fontname|fontsize|penwidth|arrowhead|rankdir|labelloc)=([a-zA-Z0-9]+|"(?:[^"\\]|\\.)*")(, |$)`)
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if lines[0] != "digraph nodetrail {" || lines[len(lines)-1] != "}" {
		t.Errorf("%s: %s", id, b)
	}
	for _, l := range lines[1 : len(lines)-1] {
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("%s: %q is no statement", id, l)
			continue
		}
		for rest := m[3]; rest != ""; {
			a := attribute.FindString(rest)
			if a == "" {
				t.Errorf("%s: %q is no attribute", id, rest)
				break
			}
			rest = rest[len(a):]
		}
		if strings.IndexFunc(l, unicode.IsControl) >= 0 {
			t.Errorf("%s: a control character in %q", id, l)
		}
	}
}

func TestQuoted(t *testing.T) {
	for in, want := range map[string]string{
		"":                  `""`,
		`a"b`:               `"a\"b"`,
		`a\nb`:              `"a\\nb"`,
		"a\nb":              `"a\nb"`,
		`\`:                 `"\\"`,
		`"]; evil [label="`: `"\"]; evil [label=\""`,
	} {
		if got := quoted(in); got != want {
			t.Errorf("%q is quoted as %s, want %s", in, got, want)
		}
	}
}

func TestWrap(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                      {""},
		"shop/db":                               {"shop/db"},
		strings.Repeat("a", 26):                 {strings.Repeat("a", 26)},
		strings.Repeat("a", 27):                 {strings.Repeat("a", 26), "a"},
		"create serviceaccounts/token batch/sa": {"create serviceaccounts/", "token batch/sa"},
		strings.Repeat("世", 14):                 {strings.Repeat("世", 13), "世"},
	} {
		if got := wrap(in); !slices.Equal(got, want) {
			t.Errorf("%q is wrapped as %q, want %q", in, got, want)
		}
	}
	if got := strings.Join(wrap(strings.Repeat("x", 1000)), ""); len([]rune(got)) != maxName+1 {
		t.Errorf("of 1000 characters %d are drawn", len([]rune(got)))
	}
}

// TestGolden has the drawings and texts of a few requests, which were looked at.
func TestGolden(t *testing.T) {
	p := shop(t)
	for name, ask := range map[string][2]string{
		"denied":  {"worker-2 get secrets shop/db", "06:05:00"},
		"volume":  {"worker-1 get secrets storage/csi", "06:00:30"},
		"nothing": {"worker-1 get secrets shop/nothing", "06:11:00"},
		"static":  {"worker-1 get nodes worker-1", "06:11:00"},
		"unknown": {"worker-1 get secrets shop/db", "03:00:00"},
	} {
		ex := p.ask(t, ask[0], ask[1])
		check(t, name+".txt", written(t, ex.WriteText))
		check(t, name+".svg", written(t, ex.WriteSVG))
		check(t, name+".dot", written(t, ex.WriteDOT))
		if name == "denied" {
			check(t, name+".json", written(t, ex.WriteJSON))
		}
	}
	event := p.all[1].Explanation
	check(t, "event.txt", written(t, event.WriteText))
	reach := p.Object(ObjectRef{Resource: "secrets", Namespace: "shop", Name: "db"}, clockAt(t, "06:01:00"), clockAt(t, "06:05:00"))
	check(t, "reach.txt", written(t, reach.WriteText))
	check(t, "reach.svg", written(t, reach.WriteSVG))
	check(t, "reach.dot", written(t, reach.WriteDOT))
	check(t, "reach.json", written(t, reach.WriteJSON))
}
