package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/wording"
)

func TestGolden(t *testing.T) {
	r := sample(t)
	check(t, "report.json", asJSON(t, r))
	check(t, "report.txt", []byte(text(t, r, Text{All: true})))
	check(t, "colour.txt", []byte(text(t, r, Text{All: true, Colour: true})))
	check(t, "report.html", []byte(asHTML(t, r)))
	check(t, "report.md", []byte(asMarkdown(t, r)))
	empty := NewBuilder().Report(Facts{})
	check(t, "empty.json", asJSON(t, empty))
	check(t, "empty.txt", []byte(text(t, empty, Text{All: true})))
}

// Colours are all that tells the coloured report from the plain one.
func TestColour(t *testing.T) {
	r := sample(t)
	coloured := text(t, r, Text{All: true, Colour: true})
	if got := regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(coloured, ""); got != text(t, r, Text{All: true}) {
		t.Errorf("without its colours the report is another:\n%s", cmp.Diff(text(t, r, Text{All: true}), got))
	}
	if strings.Contains(text(t, r, Text{All: true}), "\x1b") {
		t.Error("the plain report holds escapes")
	}
}

// contractReport is the example of section 6 of the contract.
const contractReport = `{"cluster":"","window":{"from":"…","to":"…"},
 "events":{"read":0,"node":0,"judged":0,"duplicates":0,"malformed":0,"skipped":0},
 "state":{"objects":{},"from":"…","to":"…","warnings":[]},
 "authorization":{"mode":"Node,RBAC","inferred":true,"kubernetesVersion":"1.36","featureGates":{}},
 "verdicts":{"allow":0,"deny":0,"unknown":0,"races":{"allow":0,"deny":0}},
 "agreement":{"compared":0,"agree":0,"disagree":[],"races":{"compared":0,"agree":0}},
 "nodes":[{"name":"worker-1","requests":0,"deny":0,"excess":0}],
 "findings":[{"rule":"rbac-excess-access","severity":"high","node":"worker-1","count":0,"first":"…","last":"…","verb":"get","apiGroup":"","resource":"secrets",
   "subresource":"","namespace":"shop","name":"secret-3","userAgent":"…","binding":{},"allowed":true,"message":"…","auditIDs":["…"],"runbook":"…"}],
 "readiness":{"ready":false,"blockers":[],"warnings":[]}}`

// within reports what of the contract's value the report's lacks.
func within(path string, want, got any) []string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return []string{fmt.Sprintf("%s is a %T", path, got)}
		}
		var out []string
		for k, v := range w {
			if _, ok := g[k]; !ok {
				out = append(out, path+"."+k+" is missing")
				continue
			}
			out = append(out, within(path+"."+k, v, g[k])...)
		}
		return out
	case []any:
		g, ok := got.([]any)
		if !ok {
			return []string{fmt.Sprintf("%s is a %T, want a list", path, got)}
		}
		var out []string
		for i := range g {
			if len(w) > 0 {
				out = append(out, within(path+"[]", w[0], g[i])...)
			}
		}
		return out
	}
	if got != nil && reflect.TypeOf(want) != reflect.TypeOf(got) {
		return []string{fmt.Sprintf("%s is a %T, want a %T", path, got, want)}
	}
	return nil
}

// Every key of the contract is there, of its type, and no list or map is ever null.
func TestContract(t *testing.T) {
	parse := func(text string) (v any) {
		t.Helper()
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	want := parse(contractReport)
	bindings := 0
	r := sample(t)
	for i := range r.Findings {
		if r.Findings[i].Binding == nil {
			r.Findings[i].Binding = &Binding{} // null where none is to blame
		} else {
			bindings++
		}
	}
	if bindings == 0 {
		t.Error("no finding names a binding")
	}
	for name, x := range map[string]*Report{"sample": r, "empty": NewBuilder().Report(Facts{})} {
		text := string(asJSON(t, x))
		for _, problem := range within(name, want, parse(text)) {
			t.Error(problem)
		}
		nulls := regexp.MustCompile(`"(\w+)": null`).FindAllStringSubmatch(text, -1)
		for _, m := range nulls {
			if name != "empty" || m[1] != "from" && m[1] != "to" {
				t.Errorf("%s: %s is null", name, m[1])
			}
		}
		if !strings.HasSuffix(text, "}\n") {
			t.Errorf("%s: no line end", name)
		}
	}
}

type broken struct{}

var errBroken = errors.New("disk full")

func (broken) Write([]byte) (int, error) { return 0, errBroken }

func TestWriteErrors(t *testing.T) {
	r := sample(t)
	for name, write := range map[string]func(io.Writer) error{
		"text": func(w io.Writer) error { return Text{All: true}.Write(w, r) }, "json": r.WriteJSON,
		"html": func(w io.Writer) error { return r.WriteHTML(w, false) }, "markdown": func(w io.Writer) error { return r.WriteMarkdown(w, false) },
	} {
		if err := write(broken{}); !errors.Is(err, errBroken) || !strings.HasPrefix(err.Error(), "writing the report: ") {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// The findings and incidents are written one by one, which changes nothing.
func TestJSONByElements(t *testing.T) {
	r := sample(t)
	empty := *r
	empty.Findings, empty.Incidents = nil, []incidents.Incident{}
	if len(r.Findings) < 2 {
		t.Fatalf("%d findings", len(r.Findings))
	}
	for _, r := range []*Report{r, {}, &empty} {
		var want, got bytes.Buffer
		if err := errors.Join(wording.WriteJSON(&want, r), r.WriteJSON(&got)); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want.Bytes(), got.Bytes()) {
			t.Errorf("by elements %d bytes, as a whole %d: %s", got.Len(), want.Len(), cmp.Diff(want.String(), got.String()))
		}
	}
}
