package docs

import (
	"go/scanner"
	"go/token"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const root = "../../.."

// tracked are the files of the repository, those that are not committed yet included.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"}, patterns...)...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range strings.SplitSeq(string(out), "\x00") {
		if _, err := os.Stat(root + "/" + name); name != "" && err == nil {
			names = append(names, name)
		}
	}
	return names
}

func repository(t *testing.T) *Site {
	t.Helper()
	s, err := ReadAll(os.DirFS(root), tracked(t, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLinks(t *testing.T) {
	s := repository(t)
	if len(s.pages) < 100 {
		t.Fatalf("%d pages", len(s.pages))
	}
	for _, broken := range s.Broken() {
		t.Error(broken)
	}
	for _, name := range s.Unreached("docs/README.md", "docs") {
		t.Errorf("%s cannot be reached from docs/README.md", name)
	}
	if links := s.pages["README.md"].Links; !slices.Contains(links, "docs/README.md") {
		t.Error("README.md does not lead to docs/README.md")
	}
}

// TestBroken plants what TestLinks looks for.
func TestBroken(t *testing.T) {
	files := fstest.MapFS{
		"docs/README.md": {Data: []byte("# Top\n[a](a.md) [b](sub) ![p](p.png) [other](https://example.com/none) [self](#top)\n" +
			"```\n[code](none.md)\n```\n`[code](none.md)` | [gone](gone.md) | [h](a.md#no-such) [outside](../../x.md) [bad](%zz)\n\n[ref]\n\n[ref]: missing.md\n")},
		"docs/a.md":          {Data: []byte("# `A` thing: 1.2\n## Same\n## Same\n[1](#a-thing-12) [2](#same-1) [3](#same-2)\n\n| t |\n|---|\n| [x](nowhere.md) |\n")},
		"docs/sub/README.md": {Data: []byte("[up](../a.md#same)\n")},
		"docs/lost.md":       {Data: []byte("[a](a.md)\n")},
		"docs/p.png":         {},
	}
	s, err := ReadAll(files, []string{"docs/README.md", "docs/a.md", "docs/sub/README.md", "docs/lost.md"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"docs/README.md: gone.md: there is no docs/gone.md",
		"docs/README.md: a.md#no-such: there is no heading #no-such in docs/a.md",
		"docs/README.md: ../../x.md: there is no ../x.md",
		`docs/README.md: %zz: parse "%zz": invalid URL escape "%zz"`,
		"docs/README.md: missing.md: there is no docs/missing.md",
		"docs/a.md: #same-2: there is no heading #same-2 in docs/a.md",
		"docs/a.md: nowhere.md: there is no docs/nowhere.md",
	}
	if diff := cmp.Diff(want, s.Broken()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"docs/lost.md"}, s.Unreached("docs/README.md", "docs")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRunbooks holds that each runbook, and each page of a rule, has commands under "What to do".
func TestRunbooks(t *testing.T) {
	n := 0
	for _, p := range repository(t).Pages() {
		if !strings.HasPrefix(p.Name, "docs/runbooks/") && !strings.HasPrefix(p.Name, "docs/rules/") || strings.HasSuffix(p.Name, "/README.md") {
			continue
		}
		n++
		for _, section := range []string{"what", "why", "what-to-do", "how-to-silence-it"} {
			if !p.anchors[section] {
				t.Errorf("%s has no section %s", p.Name, section)
			}
		}
		if !slices.ContainsFunc(p.Blocks, func(b Block) bool { return b.Section == "What to do" && b.Language == "sh" }) {
			t.Errorf("%s has no commands", p.Name)
		}
	}
	if n < 50 {
		t.Errorf("%d runbooks and rules", n)
	}
}

// TestGlossary holds that each term is explained once, in the order of the alphabet.
func TestGlossary(t *testing.T) {
	var terms []string
	for _, term := range repository(t).pages["docs/glossary.md"].Strong {
		terms = append(terms, term.Text)
	}
	for _, term := range []string{
		"Node identity", "Graph", "Edge", "State", "Journal", "Verdict", "Race", "Skew", "Finding", "Group", "Check", "Gap", "Exception",
		"READY", "CONFINED", "Blocker", "Incident", "Waiver", "Baseline", "Envelope", "Reach",
	} {
		if !slices.Contains(terms, term) {
			t.Errorf("%s is not explained", term)
		}
	}
	for i := 1; i < len(terms); i++ {
		if strings.ToLower(terms[i-1]) >= strings.ToLower(terms[i]) {
			t.Errorf("%q stands before %q", terms[i-1], terms[i])
		}
	}
}

// TestMessages holds that the messages of docs/troubleshooting.md are texts of the program. "…" stands for what differs. Those of the first section are made by
// the program itself in cmd/nodetrail.
func TestMessages(t *testing.T) {
	texts := strings.Join(literals(t), "\x00")
	found := 0
	for _, message := range repository(t).pages["docs/troubleshooting.md"].Messages {
		if message.Section == "A command fails" {
			continue
		}
		found++
		for _, part := range missing(message.Text, texts) {
			t.Errorf("%q: the program has no text %q", message.Text, part)
		}
	}
	if found < 3 {
		t.Errorf("%d messages", found)
	}
	if got := missing("…: the log is empty…: the log is fulll", texts); !slices.Equal(got, []string{": the log is fulll"}) {
		t.Errorf("planted messages: %q", got)
	}
}

// TestFlags holds that the pages of rules, checks and alerts name only flags that exist. A flag of another program has to be listed here.
func TestFlags(t *testing.T) {
	known := map[string]bool{}
	for name := range strings.FieldsSeq("as audit-log-path audit-policy-file authorization-config audit-webhook-batch-buffer-size audit-webhook-config-file " +
		"audit-webhook-truncate-max-event-size enable-admission-plugins hostname-override raw tail") {
		known[name] = true
	}
	for _, name := range tracked(t, "cmd/nodetrail/*.go", ":!cmd/nodetrail/*_test.go") {
		for _, m := range regexp.MustCompile(`Var\w*\([^"\n]*"([a-z-]+)"`).FindAllStringSubmatch(readFile(t, name), -1) {
			known[m[1]] = true
		}
	}
	if !known["min-window"] || known["max-loss"] || known["kept"] {
		t.Error("the flags of the program were not recognized")
	}
	flags := 0
	for _, name := range tracked(t, "docs/rules/*.md", "docs/checks/*.md", "docs/runbooks/*.md") {
		for _, m := range regexp.MustCompile(`(?:^|[\s`+"`"+`(])--([a-z][a-z-]+)`).FindAllStringSubmatch(readFile(t, name), -1) {
			if flags++; !known[m[1]] {
				t.Errorf("%s names --%s, which is no flag", name, m[1])
			}
		}
	}
	if flags < 50 {
		t.Errorf("%d flags", flags)
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(root + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// missing are the parts of a message that no text has.
func missing(message, texts string) []string {
	var out []string
	for part := range strings.SplitSeq(message, "…") {
		if !strings.Contains(texts, part) {
			out = append(out, part)
		}
	}
	return out
}

// literals are the strings of the program's sources.
func literals(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, name := range tracked(t, "*.go", ":!*_test.go", ":!e2e", ":!conformance", ":!internal/test", ":!internal/cmd") {
		b := []byte(readFile(t, name))
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(name, -1, len(b)), b, nil, 0)
		for {
			_, tok, lit := s.Scan()
			if tok == token.EOF {
				break
			}
			if text, err := strconv.Unquote(lit); tok == token.STRING && err == nil {
				all = append(all, text)
			}
		}
	}
	return all
}
