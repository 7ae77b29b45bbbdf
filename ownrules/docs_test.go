package ownrules

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// fieldTable is the table of fields in docs/own-rules.md.
func fieldTable() string {
	var b strings.Builder
	b.WriteString("| field | type | what it is |\n|---|---|---|\n")
	for i := range fields {
		f := &fields[i]
		doc := f.Doc
		if f.Values != nil {
			var named []string
			for _, v := range f.Values {
				if v != "" {
					named = append(named, "`"+v+"`")
				}
			}
			doc += ": " + strings.Join(named, ", ")
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.Path(), f.Type(), doc)
	}
	return b.String()
}

// Each example of the page passes its tests, which have something that the rule finds and something that it does not; and the table has each field.
func TestPage(t *testing.T) {
	const page = "../docs/own-rules.md"
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		text = regexp.MustCompile(`(?s)## Fields\n\n.*?\n\n`).ReplaceAllLiteralString(text, "## Fields\n\n"+fieldTable()+"\n")
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(text, "## Fields\n\n"+fieldTable()+"\n") {
		t.Errorf("the table is not:\n%s", fieldTable())
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(text, -1)
	if len(blocks) != 11 {
		t.Errorf("%d examples, want the first and ten", len(blocks))
	}
	var all []Source
	for i, m := range blocks {
		src := Source{fmt.Sprint("example ", i), []byte(m[1])}
		all = append(all, src)
		results, err := RunTests([]Source{src})
		if err != nil {
			t.Errorf("%v", err)
			continue
		}
		finds := map[bool]int{}
		for _, r := range results {
			finds[r.finds]++
			if r.Wrong != "" {
				t.Errorf("%s: %s: %s", r.Place(), r.Name, r.Wrong)
			}
		}
		if finds[true] == 0 || finds[false] == 0 {
			t.Errorf("example %d has too few tests", i)
		}
	}
	if set, err := Load(all); err != nil || len(set.All()) != len(blocks) {
		t.Errorf("all examples together: %v", err)
	}
}
