package listfile

import (
	"errors"
	"strings"
	"testing"
	"time"
)

type fruit struct {
	Name  string    `yaml:"name"`
	Until time.Time `yaml:"until"`
	Of    []string  `yaml:"of"`
	In    *fruit    `yaml:"in"`
	N     int       `yaml:"n"`
	Ripe  bool      `yaml:"ripe"`
}

// Whatever is wrong with a file is said in one line, with the path and the line, and with no type of Go.
func TestWrong(t *testing.T) {
	for text, want := range map[string]string{
		"fruits: 7":            "f.yaml:1: fruits is not a list",
		"\n- name: a":          "f.yaml:2: there is no key fruits: the file has this one key, and a list in it",
		"a,b,c\n1,2,3\n":       "f.yaml:1: there is no key fruits: the file has this one key, and a list in it",
		"fruits: []\nnuts: []": "f.yaml:2: unknown key nuts: the file has one key, fruits",
		"fruits:\n- name: a\n- name: b\n  nam: c\n  x: y\n": "f.yaml:4: unknown key nam (and 1 more)",
		"fruits:\n- name: [a]":                              "f.yaml:2: a list is not text",
		"fruits:\n- in: 7":                                  "f.yaml:2: `7` is not a mapping",
		"fruits:\n- 7":                                      "f.yaml:2: `7` is not a mapping",
		"fruits:\n- until: soon":                            "f.yaml:2: \"soon\" is not a date such as 2026-12-31",
		"fruits:\n- of: a":                                  "f.yaml:2: `a` is not a list",
		"fruits:\n- n: a":                                   "f.yaml:2: `a` is not a whole number",
		"fruits:\n- ripe: a":                                "f.yaml:2: `a` is not true or false",
		"fruits:\n- name: a\n  name: b":                     "f.yaml:3: mapping key \"name\" already defined at line 2",
		"fruits: []\n---\nfruits: []":                       "f.yaml:2: more than one document",
		"fruits:\n\t- a":                                    "f.yaml:2: found character that cannot start any token",
	} {
		_, _, err := Decode[fruit]([]byte(text), "fruits")
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		if got := In("f.yaml", err).Error(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestRight(t *testing.T) {
	all, lines, err := Decode[fruit]([]byte("# two\nfruits:\n- name: a\n\n- {name: b}\n"), "fruits")
	if err != nil || len(all) != 2 || all[1].Name != "b" || len(lines) != 2 || lines[0] != 3 || lines[1] != 5 {
		t.Errorf("%+v, %v, %v", all, lines, err)
	}
	if got := In("f.yaml", At(lines, 1, errors.New("not ripe"))).Error(); got != "f.yaml:5: not ripe" {
		t.Error(got)
	}
	for _, none := range []string{"", "# nothing", "fruits:", "fruits: []", "null"} {
		if all, _, err := Decode[fruit]([]byte(none), "fruits"); err != nil || len(all) != 0 {
			t.Errorf("%q: %v, %v", none, all, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("fruits:\n- name: a\n"))
	f.Add([]byte("fruits: &a\n- *a\n"))
	f.Add([]byte("<<: {fruits: []}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, lines, err := Decode[fruit](b, "fruits")
		if err == nil && len(lines) < len(all) {
			t.Errorf("%d entries, %d lines", len(all), len(lines))
		}
		if err != nil && strings.Contains(In("f", err).Error(), "listfile.") {
			t.Error(err)
		}
	})
}
