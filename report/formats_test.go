package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// formats are reports of every kind: what is small, empty, real and hostile.
func formats(t *testing.T, f func(name string, r *Report)) {
	t.Helper()
	f("sample", sample(t))
	f("empty", NewBuilder().Report(Facts{}))
	f("capture", capture(t, "capture", "auto", func(*pipeline.Judgement) {}))
	for _, s := range longNames()[:effort.Of(len(longNames()), 6)] {
		f(fmt.Sprintf("%.20q", s), hostileReport(t, s))
	}
	for _, s := range []string{"=cmd|'/C calc'!A0", "+1", "-1", "@SUM(1)", "|x", "%0", "\t=1", "\r=1", "＝1", "'", `"=1`, ",=1", ";=1"} {
		f(s, hostileReport(t, s))
	}
}

func written(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	if out := strings.NewReplacer("\r\n", "", "\n", "").Replace(b.String()); strings.ContainsFunc(out, wording.Hidden) {
		t.Errorf("the output has characters that are not shown")
	}
	return b.Bytes()
}

func TestSARIF(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile("testdata/schemas/sarif-schema-2.1.0.json")
	if err != nil {
		t.Fatal(err)
	}
	formats(t, func(name string, r *Report) {
		out := written(t, r.WriteSARIF)
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(out))
		if err == nil {
			err = schema.Validate(v)
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var log sarifLog
		if err := json.Unmarshal(out, &log); err != nil {
			t.Fatal(err)
		}
		run := &log.Runs[0]
		for _, x := range run.Results {
			if !slices.ContainsFunc(run.Tool.Driver.Rules, func(r sarifRule) bool { return r.ID == x.RuleID }) {
				t.Errorf("%s: no rule %q", name, x.RuleID)
			}
		}
		if open := len(run.Results) - len(r.Findings); open < len(r.Readiness.Question().Open()) {
			t.Errorf("%s: %d results are not findings", name, open)
		}
	})
}

// xsd is what the schema of Apache Ant's JUnit reports asks of an element: its attributes, those that must be there first, and its children in their order.
// It says what JUnit.xsd of windyroad/JUnit-Schema says; xs:token is what has no space around it and no two in a row.
var xsd = map[string]struct {
	required, optional, children []string
}{
	"testsuites": {nil, nil, []string{"testsuite*"}},
	"testsuite": {
		[]string{"package", "id", "name", "timestamp", "hostname", "tests", "failures", "errors", "time"},
		[]string{"skipped"},
		[]string{"properties", "testcase*", "system-out", "system-err"},
	},
	"properties": {nil, nil, nil},
	"testcase":   {[]string{"name", "classname", "time"}, nil, []string{"skipped|error|failure?"}},
	"skipped":    {},
	"error":      {[]string{"type"}, []string{"message"}, nil},
	"failure":    {[]string{"type"}, []string{"message"}, nil},
	"system-out": {}, "system-err": {},
}

type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
}

func (e *element) check(t *testing.T, name string) {
	t.Helper()
	rule, known := xsd[e.XMLName.Local]
	if !known {
		t.Errorf("%s: element %s", name, e.XMLName.Local)
		return
	}
	has := map[string]string{}
	for _, a := range e.Attrs {
		has[a.Name.Local] = a.Value
		if !slices.Contains(rule.required, a.Name.Local) && !slices.Contains(rule.optional, a.Name.Local) {
			t.Errorf("%s: %s has an attribute %s", name, e.XMLName.Local, a.Name.Local)
		}
	}
	for _, a := range rule.required {
		v, ok := has[a]
		switch {
		case !ok:
			t.Errorf("%s: %s lacks %s", name, e.XMLName.Local, a)
		case slices.Contains([]string{"id", "tests", "failures", "errors", "skipped", "time"}, a):
			if _, err := strconv.Atoi(v); err != nil {
				t.Errorf("%s: %s is %q", name, a, v)
			}
		case a == "timestamp":
			if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$`).MatchString(v) {
				t.Errorf("%s: %s is %q", name, a, v)
			}
		case a != "type" && (v == "" || v != strings.Join(strings.Fields(v), " ")):
			t.Errorf("%s: %s is no token: %q", name, a, v)
		}
	}
	i := 0
	for _, want := range rule.children {
		names := strings.Split(strings.TrimRight(want, "*?"), "|")
		n := 0
		for ; i < len(e.Children) && slices.Contains(names, e.Children[i].XMLName.Local); i++ {
			n++
		}
		if n > 1 && !strings.HasSuffix(want, "*") || n == 0 && !strings.HasSuffix(want, "*") && !strings.HasSuffix(want, "?") {
			t.Errorf("%s: %s has %d of %s", name, e.XMLName.Local, n, want)
		}
	}
	if i < len(e.Children) {
		t.Errorf("%s: %s has %s out of order", name, e.XMLName.Local, e.Children[i].XMLName.Local)
	}
	for i := range e.Children {
		e.Children[i].check(t, name)
	}
}

func TestJUnit(t *testing.T) {
	formats(t, func(name string, r *Report) {
		var root element
		out := written(t, r.WriteJUnit)
		if err := xml.Unmarshal(out, &root); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		root.check(t, name)
		failed := strings.Count(string(out), "<failure ") + strings.Count(string(out), "<error ")
		if clean := r.Readiness.Good(true) && r.Confinement.Good(true) && r.Worst() <= rules.Low; clean != (failed == 0) {
			t.Errorf("%s: %d test cases fail", name, failed)
		}
	})
}

// YAML takes each character, wherever it is, and gives it back.
func TestYAMLOfEachCharacter(t *testing.T) {
	var all []rune
	for r := rune(0); r <= 0x2fff; r++ {
		all = append(all, r)
	}
	for r := rune(0xd000); r <= 0x1ffff; r++ {
		all = append(all, r)
	}
	all = append(all, 0xffffe, 0xfffff, 0x10fffe, 0x10ffff)
	for chunk := range slices.Chunk(all, effort.Of(512, 4096)) {
		in := string(chunk) // surrogates become what stands for no character
		out, err := marshalYAML(map[string]string{"a": in})
		if err != nil {
			t.Fatalf("%U: %v", chunk[0], err)
		}
		var back map[string]string
		if err := yaml.Unmarshal(out, &back); err != nil || back["a"] != in {
			t.Errorf("%U: %v, %.200q", chunk[0], err, back["a"])
		}
		if err := hostileReport(t, in).WriteYAML(io.Discard); err != nil {
			t.Errorf("%U: %v", chunk[0], err)
		}
	}
}

// implicit are the plain scalars that PyYAML, the widest resolver of YAML 1.1, takes for something else than a string, or refuses; with y and n, of which YAML 1.1
// itself says so, and the numbers of YAML 1.2.
var implicit = regexp.MustCompile(`^(?:yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF|y|Y|n|N` +
	`|[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)` +
	`|[-+]?0b[0-1_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+|[-+]?[0-9.]+[eE][-+]?[0-9]+` +
	`|<<|=|~|null|Null|NULL|[!&*].*|` +
	`\d\d\d\d-\d\d-\d\d|\d\d\d\d-\d\d?-\d\d?(?:[Tt]|[ \t]+)\d\d?:\d\d:\d\d(?:\.\d*)?(?:[ \t]*(?:Z|[-+]\d\d?(?::\d\d)?))?)$`)

// A string stays a string in any version of YAML, as a value and as a key.
//
// Seen to fail with = as the encoder writes it, and where keys are left as they are.
func TestYAMLOfStringsThatLookOtherwise(t *testing.T) {
	all := []string{
		"=", "<<", "~", "", "y", "Y", "n", "N", "yes", "Yes", "no", "NO", "on", "On", "off", "OFF", "true", "False", "null", "NULL", "1:30", "190:20:30", "-1:30.5", "0o17", "017",
		"0x1F", "0b11", "1_000", "1_0.5", "+1", "-7", ".inf", "-.INF", ".nan", ".5", "1.", "1e3", "6.02e+23", "2026-11-21", "2026-11-21T06:04:19Z", "2026-1-2 3:4:5 -5", "!x", "&x", "*x",
		"@x", "%x", "- x", "? x", ": x", "x: y", "x #y", "| x", "_1", "/api", "a", "nodes/proxy", "10.0.0.1", "::1", "#", " x", "x ", "---", "...",
	}
	const from = "0123456789_:.-+=<~eExXoObBnNyYaAifT /!&*"
	for seed := range effort.Of[uint64](3000, 500) {
		r := rand.New(rand.NewPCG(seed, 3))
		b := make([]byte, 1+r.IntN(6))
		for i := range b {
			b[i] = from[r.IntN(len(from))]
		}
		all = append(all, string(b))
	}
	for _, s := range all {
		for what, in := range map[string]any{"value": map[string]any{"a": s}, "key": map[string]any{s: "a"}, "item": map[string]any{"a": []any{s}}} {
			out, err := marshalYAML(in)
			if err != nil {
				t.Fatalf("%s %q: %v", what, s, err)
			}
			back, err := yaml.YAMLToJSON(out)
			want, _ := json.Marshal(in)
			if err != nil || string(back) != string(want) {
				t.Errorf("%s %q is read as %s in %s: %v", what, s, back, out, err)
			}
			for _, plain := range strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' }) {
				plain = strings.TrimPrefix(strings.TrimPrefix(strings.TrimPrefix(plain, "a: "), "  - "), "- ")
				if plain = strings.TrimSuffix(plain, ": a"); plain != "a:" && implicit.MatchString(plain) {
					t.Errorf("%s %q is written plain: %s", what, s, out)
				}
			}
		}
	}
}

func TestYAMLOfTabsAndNumbers(t *testing.T) {
	in := map[string]any{"a": "\t\n---", "b": "\t-yes\n", "c": "x\n\ty\r", "d": json.Number("18446744073709551615"), "e": json.Number("0.25"), "f": json.Number("-7")}
	out, err := marshalYAML(in)
	if err != nil {
		t.Fatal(err)
	}
	back, err := yaml.YAMLToJSON(out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	want, _ := json.Marshal(in)
	if string(back) != string(want) {
		t.Errorf("got %s, want %s", back, want)
	}
}

func TestYAML(t *testing.T) {
	formats(t, func(name string, r *Report) {
		back, err := yaml.YAMLToJSON(written(t, r.WriteYAML))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got, want any
		if err := json.Unmarshal(back, &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(asJSON(t, r), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(visibleAll(want), got); diff != "" {
			t.Errorf("%s (-JSON +YAML):\n%s", name, diff)
		}
	})
}

// No cell of a table begins a formula, whatever the names.
func TestCSV(t *testing.T) {
	formats(t, func(name string, r *Report) {
		rows, err := csv.NewReader(bytes.NewReader(written(t, r.WriteCSV))).ReadAll()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(rows) != len(r.Findings)+1 {
			t.Errorf("%s: %d rows of %d findings", name, len(rows), len(r.Findings))
		}
		for _, row := range rows {
			for _, cell := range row {
				if strings.IndexAny(cell, "=+-@|%＝＋－＠\t\r\n") == 0 {
					t.Errorf("%s: the cell %q", name, cell)
				}
			}
		}
	})
}

func TestNarrow(t *testing.T) {
	r := sample(t)
	head := r.Summary()
	f := func(want int, filter Filter) {
		t.Helper()
		x := *r
		x.Narrow(filter)
		if len(x.Findings) != want {
			t.Errorf("%+v: %d findings, want %d", filter, len(x.Findings), want)
		}
		if got := x.Summary(); cmp.Diff(head.Answers, got.Answers) != "" || len(got.Blockers) != len(head.Blockers) || len(got.Gaps) != len(head.Gaps) {
			t.Errorf("%+v changes the answers", filter)
		}
	}
	f(len(r.Findings), Filter{})
	f(0, Filter{Rules: []string{"none"}})
	f(0, Filter{Severity: rules.High, Clients: []string{"calico-node"}, Namespaces: []string{"kube-system"}})
	for i := range r.Findings {
		x := &r.Findings[i]
		s, err := rules.ParseSeverity(x.Severity)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for j := range r.Findings {
			y := &r.Findings[j]
			if y.Rule == x.Rule && y.UserAgent == x.UserAgent && y.Namespace == x.Namespace {
				if other, err := rules.ParseSeverity(y.Severity); err == nil && other >= s {
					n++
				}
			}
		}
		f(n, Filter{Rules: []string{"x", x.Rule}, Clients: []string{x.UserAgent}, Namespaces: []string{x.Namespace}, Severity: s})
	}
}
