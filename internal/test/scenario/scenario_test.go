package scenario_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/internal/test/golden"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/internal/test/scenario/analyzed"
)

func TestScenarios(t *testing.T) {
	all, err := scenario.Load(os.DirFS("testdata"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		s := &all[i]
		t.Run(s.Name, func(t *testing.T) {
			out, err := analyzed.Run(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			got := analyzed.Summarize(out.Report)
			if golden.Writing() { // review them by upstream's code, not by trusting the program
				if err := os.WriteFile(filepath.Join("testdata", s.Path), s.Rewritten(out.Verdicts, got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(s.Want, out.Verdicts, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("verdicts (-want +got):\n%s", d)
			}
			if d := cmp.Diff(s.Report, got); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
		})
	}
}

// The embedded corpus is the one on disk, and stays large enough to be worth its name.
func TestCorpus(t *testing.T) {
	all, err := scenario.Load(scenario.Corpus())
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Errorf("only %d scenarios", len(all))
	}
	for i := range all {
		if len(all[i].Want) == 0 || len(all[i].Report) == 0 {
			t.Errorf("%s expects nothing", all[i].Path)
		}
	}
}

func TestBadFiles(t *testing.T) {
	const head = "What it shows.\n-- audit --\n"
	for _, c := range []struct{ name, text, want string }{
		{"no comment", "-- audit --\n", "x.txtar:1: there is no comment"},
		{"no audit", "A.\n-- flags --\nskew: 1s\n", "x.txtar:4: there is no section audit"},
		{"section", "A.\n\n-- autid --\n", `x.txtar:3: section "autid" is none of`},
		{"order", "A.\n-- audit --\n-- flags --\n", `x.txtar:3: section "flags" comes twice or too late`},
		{"two states", "A.\n-- cluster --\n-- cluster.yaml --\n-- audit --\n", `x.txtar:3: section "cluster.yaml" comes twice`},
		{"flag", "A.\n-- flags --\n# one\nskew: 1s\nspeed: 3\n-- audit --\n", "x.txtar:5: speed: there is no such flag"},
		{"flag twice", "A.\n-- flags --\nskew: 1s\nskew: 1s\n-- audit --\n", "x.txtar:4: "},
		{"version", "A.\n-- flags --\nskew: 1s\nkubernetes-version: 1.12\n-- audit --\n", "x.txtar:4: kubernetes-version: "},
		{"gate", "A.\n-- flags --\nfeature-gates: Nope=true\n-- audit --\n", `x.txtar:3: feature-gates: feature gate "Nope"`},
		{"locked gate", "A.\n-- flags --\nfeature-gates: AuthorizeWithSelectors=false\n-- audit --\n", "x.txtar:3: feature-gates: feature gate AuthorizeWithSelectors is locked"},
		{"skew", "A.\n-- flags --\nskew: soon\n-- audit --\n", "x.txtar:3: skew: "},
		{"envelope", "A.\n-- flags --\nenvelope: box\n-- audit --\n", `x.txtar:3: envelope: "box" is none of`},
		{"damage", "A.\n-- flags --\ndamage: crlf,fire\n-- audit --\n", `x.txtar:3: damage: "fire" is none of`},
		{"cluster time", "A.\n-- cluster --\n\nnoon + node a\n-- audit --\n", `x.txtar:4: "noon" is not a time`},
		{"cluster verb", "A.\n-- cluster --\n06:00:00 ! node a\n-- audit --\n", `x.txtar:3: "!" is none of`},
		{"cluster kind", "A.\n-- cluster --\n06:00:00 + knot a\n-- audit --\n", `x.txtar:3: there is no kind "knot"`},
		{"cluster name", "A.\n-- cluster --\n06:00:00 + pod a\n-- audit --\n", `x.txtar:3: "a" is not the name of a pod`},
		{"cluster field", "A.\n-- cluster --\n06:00:00 + pod a/b at=c\n-- audit --\n", `x.txtar:3: a pod has no field "at"`},
		{"not there", "A.\n-- cluster --\n06:00:00 - pod a/b\n-- audit --\n", `x.txtar:3: "-" does not fit`},
		{"there already", "A.\n-- cluster --\n06:00:00 + node a\n06:00:00 + node a\n-- audit --\n", `x.txtar:4: "+" does not fit`},
		{"rule", "A.\n-- cluster --\n06:00:00 + clusterrole a allow=get\n-- audit --\n", `x.txtar:3: allow=get is not`},
		{"binding", "A.\n-- cluster --\n06:00:00 + clusterrolebinding a group=b\n-- audit --\n", `x.txtar:3: a binding has a role`},
		{"audit time", head + "06:00 n get pods a/b allow\n", `x.txtar:3: "06:00" is not a time`},
		{"audit short", head + "06:00:00 n get pods allow\n", "x.txtar:3: a request has a time, who"},
		{"audit code", head + "06:00:00 n get pods a/b allow ok\n", "x.txtar:3: the code is no number"},
		{"audit too much", head + "06:00:00 n get pods a/b allow 200 300\n", `x.txtar:3: "300" is one word too many`},
		{"audit key", head + "06:00:00 n get pods a/b allow uA=x\n", "x.txtar:3: "},
		{"audit unknown key", head + "06:00:00 n get pods a/b allow agent=x\n", `x.txtar:3: a request has no key "agent"`},
		{"audit quote", head + "06:00:00 n get pods a/b allow `x\n", "x.txtar:3: a quote that does not end"},
		{"audit json", head + "{\"kind\":\n", "x.txtar:3: a line that begins with { and is not JSON"},
		{"audit body", head + "06:00:00 n get pods a/b allow body=`{`\n", "x.txtar:3: body is not JSON"},
		{"audit repeat", head + "06:00:00 n get pods a/b allow repeat=many\n", "x.txtar:3: repeat=many is no number"},
		{"audit copies", head + strings.Repeat("06:00:00 n get pods a/b allow repeat=1000\n", 6), "x.txtar:8: more than 5000 lines"},
		{"audit group", head + "06:00:00 n get leases.coordination.k8s.io/status a/b allow\n", "x.txtar:3: "},
		{"want", head + "06:00:00 n get pods a/b allow\n-- want --\n\ne1 deny\n", `x.txtar:6: "e1 deny" is not as in`},
		{"want word", head + "06:00:00 n get pods a/b allow\n-- want --\ne1: deny maybe\n", `x.txtar:5: a verdict has no`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := scenario.Load(fstest.MapFS{"x.txtar": {Data: []byte(c.text)}})
			var at *scenario.Error
			if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %s…", err, c.want)
			}
		})
	}
}

func TestVerdictLine(t *testing.T) {
	for _, line := range []string{
		`e1: allow`,
		`e1: none findings=node-identity(high)`,
		`e1#*: deny race observed=deny reason="no relationship found between node 'a' and this object" detail="x \"y\"" findings=a(low),b(high)`,
		`c7f8: unknown observed=allow detail="no complete state was given"`,
	} {
		v, err := scenario.ParseVerdict(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
		} else if got := v.String(); got != line {
			t.Errorf("%s became %s", line, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scenario.Parse("x.txtar", data)
		var at *scenario.Error
		if err != nil && (!errors.As(err, &at) || at.Line < 1) {
			t.Fatalf("an error without a place: %v", err)
		}
		if err == nil {
			if _, err := scenario.Parse("x.txtar", s.Rewritten(s.Want, s.Report)); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
		}
	})
}
