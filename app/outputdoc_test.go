package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
)

// jsonKeys are the keys of a struct in JSON, those of embedded structs included.
func jsonKeys(t reflect.Type) (out []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			out = append(out, jsonKeys(f.Type)...)
		case f.IsExported() && name != "-":
			out = append(out, name)
		}
	}
	return out
}

// docs/output.md has each key of a report, of a finding and of a verdict line, and no other.
func TestOutputPage(t *testing.T) {
	page, err := os.ReadFile("../docs/output.md")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := jsonl.NewWriter(&b)
	if err := errors.Join(w.Write(&jsonl.Verdict{Admission: &jsonl.Admission{}}), w.Flush()); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if err := json.Unmarshal(b.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for title, want := range map[string][]string{
		"Fields of a finding": jsonKeys(reflect.TypeFor[report.Finding]()), "Keys of the JSON report": jsonKeys(reflect.TypeFor[report.Report]()),
		"Lines of --verdicts": slices.Collect(maps.Keys(line)),
	} {
		_, section, found := strings.Cut(string(page), "\n## "+title+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		var got []string
		for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]*) \\|").FindAllStringSubmatch(section, -1) {
			for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(row[1], -1) {
				got = append(got, m[1])
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !found || !slices.Equal(got, want) {
			t.Errorf("%s: the page has %q, the type %q", title, got, want)
		}
	}
}
