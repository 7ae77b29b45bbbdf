package rules

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each Doc has a title of one line and the sections of a rule page, in order and none empty.
func TestDocs(t *testing.T) {
	heading := regexp.MustCompile(`(?m)^## (.*)$`)
	for _, r := range All() {
		title, body, _ := strings.Cut(r.Doc, "\n\n")
		if title == "" || strings.ContainsAny(title, "\n|#") || strings.HasSuffix(title, ".") {
			t.Errorf("%s: title %q: want a line without a full stop", r.Name, title)
		}
		var got []string
		for _, m := range heading.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff([]string{"What", "Why", "What to do", "False positives", "How to silence it"}, got); diff != "" {
			t.Errorf("%s: sections (-want +got):\n%s", r.Name, diff)
		}
		for i, text := range heading.Split(body, -1) {
			text = strings.TrimSpace(text)
			if (i == 0) != (text == "") {
				t.Errorf("%s: part %d holds %q", r.Name, i, text)
			}
			if i > 0 && !strings.HasSuffix(text, ".") && !strings.HasSuffix(text, ".\n") {
				t.Errorf("%s: section %d does not end with a full stop: %q", r.Name, i, text)
			}
		}
		if want := "--disable " + r.Name; !strings.Contains(body, want) {
			t.Errorf("%s: the doc does not say %q", r.Name, want)
		}
		for n, line := range strings.Split(r.Doc, "\n") {
			if len(line) > 140 || strings.TrimRight(line, " \t") != line {
				t.Errorf("%s: line %d is too long or ends in white space: %q", r.Name, n+1, line)
			}
		}
	}
}

// A page must not swallow text: < begins a tag unless it is code, and each quote must have found its partner.
func TestPagesAreMarkdown(t *testing.T) {
	code := regexp.MustCompile("`[^`\n]*`")
	for _, r := range All() {
		block := regexp.MustCompile("(?s)```sh\n.*?\n```").ReplaceAllStringFunc(Page(r), func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
		if first, _, _ := strings.Cut(block[strings.Index(block, "\n## ")+4:], "\n"); first != "What to do" {
			t.Errorf("%s.md starts with %s", r.Name, first)
		}
		for n, line := range strings.Split(block, "\n") {
			plain := code.ReplaceAllString(line, "")
			if strings.Contains(plain, "`") || n > 0 && strings.ContainsAny(plain, "<>*_") {
				t.Errorf("%s.md:%d: %q", r.Name, n+1, line)
			}
			if regexp.MustCompile(`(^|[\s(])'|'[\s).,;:]`).MatchString(plain) && !regexp.MustCompile(`s' `).MatchString(plain) {
				t.Errorf("%s.md:%d: a quote without a partner: %q", r.Name, n+1, line)
			}
		}
	}
}

func TestPagesAreCurrent(t *testing.T) {
	const dir = "../docs/rules"
	want := map[string]string{"README.md": Index(All())}
	for _, r := range All() {
		want[filepath.Base(r.Runbook())] = Page(r)
		if got := filepath.Dir(r.Runbook()); got != "docs/rules" {
			t.Errorf("%s: the runbook is in %s", r.Name, got)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = string(text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("documentation needs updating: run go generate ./...\n(-want +got):\n%s", diff)
	}
}

// Names are metric labels, alert names and configuration keys: they may not change.
func TestNames(t *testing.T) {
	type row struct {
		Name     string
		Severity Severity
	}
	var got []row
	for _, r := range All() {
		got = append(got, row{r.Name, r.Severity})
		if r.Check == nil && r.NewDetector == nil {
			t.Errorf("%s checks nothing", r.Name)
		}
	}
	want := []row{
		{"rbac-excess-access", Critical}, {"out-of-scope-secret-read", Critical}, {"node-identity", Critical},
		{"node-credential-misuse", Critical}, {"foreign-node-write", Critical}, {"oversized-request", High}, {"authorizer-lag", Low},
		{"node-deny-spike", High}, {"persistent-node-deny", Medium}, {"secret-enumeration", Critical},
		{"audit-coverage-gap", Medium}, {"noderestriction-bypass", Critical},
		{"node-bootstrap-impersonation", Critical}, {"bootstrap-token-misuse", Critical}, {"node-other-grant", Critical},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

func TestSeverity(t *testing.T) {
	for s := None; s <= Critical+1; s++ {
		got, err := ParseSeverity(s.String())
		if valid := s > None && s <= Critical; valid != (err == nil) || valid && got != s {
			t.Errorf("ParseSeverity(%q) = %v, %v", s, got, err)
		}
	}
	for _, text := range []string{"", "High", "HIGH", " high", "severe"} {
		if got, err := ParseSeverity(text); err == nil {
			t.Errorf("ParseSeverity(%q) = %v, want an error", text, got)
		}
	}
}

func TestAlertName(t *testing.T) {
	for rule, want := range map[string]string{"node-deny-spike": "NodeDenySpike", "": "", "--a-": "A", "a--b-": "AB", "ü-x": "ÜX"} {
		if got := AlertName(rule); got != want {
			t.Errorf("%q: %q, want %q", rule, got, want)
		}
	}
}

// What a rule can emit is listed by it, and by no other; what it lists it can emit, here or from the codes of package codes.
func TestReasons(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared, used := map[string]string{}, map[string]int{} // values by constant, and how often a constant is used
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				typed, isNamed := n.Type.(*ast.Ident)
				for i, id := range n.Names {
					if isNamed && typed.Name == "Reason" {
						declared[id.Name] = strings.Trim(n.Values[i].(*ast.BasicLit).Value, `"`)
					}
				}
				return false
			case *ast.CallExpr: // a conversion would get round this test
				if id, isName := n.Fun.(*ast.Ident); isName && id.Name == "Reason" {
					t.Errorf("%s converts to a Reason", name)
				}
			case *ast.Ident:
				used[n.Name]++
			}
			return true
		})
	}
	listed := map[Reason]string{}
	beside := []Reason{ // what sources and package coverage find, and what the state tells
		NameLetterCase, NameDomain,
		LogLost, MessagesLost, Delayed, StoreFull, StateFull, PolicyHidden, PolicyNoDecision, PolicyLateDecision, PolicyNoBodies, PolicyNoWrites, ApiserverDropped, ApiserverRejected, ApiserverUnaudited,
		OwnMatch, OwnFailed, OwnCostly,
	}
	for _, r := range append(All(), &Rule{Name: "own", Reasons: OwnReasons()}) {
		if len(r.Reasons) == 0 {
			t.Errorf("%s lists no reasons", r.Name)
		}
		for _, d := range r.Reasons {
			if other := listed[d.Reason]; other != "" {
				t.Errorf("%s is listed by %s and %s", d.Reason, other, r.Name)
			}
			listed[d.Reason] = r.Name
			if !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(d.Reason)) || len(d.Reason) > 40 {
				t.Errorf("%q is no code", d.Reason)
			}
			if d.Doc == "" || strings.ContainsAny(d.Doc, "\n|") || strings.HasSuffix(d.Doc, ".") || len(d.Doc) > 120 {
				t.Errorf("%s: want a line without a full stop: %q", d.Reason, d.Doc)
			}
		}
	}
	for name, value := range declared {
		// Once in its rule's list, and once where it is found.
		if listed[Reason(value)] == "" || used[name] < 2 && !slices.Contains(beside, Reason(value)) {
			t.Errorf("%s is listed by %q and used %d times", name, listed[Reason(value)], used[name])
		}
		delete(listed, Reason(value))
	}
	for _, r := range beside {
		delete(listed, r)
	}
	for r, rule := range listed {
		t.Errorf("%s lists %s, which is not declared", rule, r)
	}
}
