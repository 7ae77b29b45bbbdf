package checks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Names are labels of metrics and keys of waivers: they may not change.
func TestNames(t *testing.T) {
	want := map[Question][]string{
		Ready: {
			"window-covered", "reads-logged", "policy-known", "every-event-judged", "servers-seen", "node-authorizer-on", "version-known", "nothing-depends",
			"bindings-inventoried", "identities-conform", "races-decided", "agreement", "rare-paths-seen", "state-complete", "rules-on",
		},
		Confined: {
			"node-authorizer-on", "identities-conform", "node-restriction-on", "no-excess-rights", "tokens-on-node", "no-excess-use", "one-holder", "birth-guarded",
		},
	}
	for q, names := range want {
		var got []string
		for _, c := range Of(q) {
			got = append(got, c.Name)
		}
		if diff := cmp.Diff(names, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", q, diff)
		}
	}
	states := map[State]string{Unproven: "unproven", Waived: "waived", Passed: "passed", Failed: "failed", 77: "unproven"}
	for s, want := range states {
		if s.String() != want {
			t.Errorf("state %d is %q, want %q", s, s, want)
		}
	}
}

// Each Doc has a title of one line and the sections of a page, in order and none empty.
func TestDocs(t *testing.T) {
	sections := []string{"What it claims", "What proves it", "What defeats it", "What to do"}
	heading := regexp.MustCompile(`(?m)^## (.*)$`)
	for _, c := range All() {
		title, body, _ := strings.Cut(c.Doc, "\n\n")
		if title == "" || strings.ContainsAny(title, "\n|#") || strings.HasSuffix(title, ".") {
			t.Errorf("%s: title %q: want a line without a full stop", c.Name, title)
		}
		var got []string
		for _, m := range heading.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1])
		}
		if diff := cmp.Diff(sections, got); diff != "" {
			t.Errorf("%s: sections (-want +got):\n%s", c.Name, diff)
		}
		for i, text := range heading.Split(body, -1) {
			text = strings.TrimSpace(text)
			if (i == 0) != (text == "") || i > 0 && !strings.HasSuffix(text, ".") {
				t.Errorf("%s: part %d holds %q", c.Name, i, text)
			}
		}
		for n, line := range strings.Split(c.Doc, "\n") {
			if len(line) > 145 || strings.TrimRight(line, " \t") != line {
				t.Errorf("%s: line %d is too long or ends in white space: %q", c.Name, n+1, line)
			}
		}
	}
}

// A page must not swallow text: < begins a tag unless it is code, and each quote must have found its partner.
func TestPagesAreMarkdown(t *testing.T) {
	code := regexp.MustCompile("`[^`\n]*`")
	quote := regexp.MustCompile(`(^|[\s(])'|'[\s).,;:]`)
	for _, c := range All() {
		for n, line := range strings.Split(Page(&c), "\n") {
			plain := code.ReplaceAllString(line, "")
			if strings.Contains(plain, "`") || n > 0 && strings.ContainsAny(plain, "<>*_") {
				t.Errorf("%s.md:%d: %q", c.Name, n+1, line)
			}
			if quote.MatchString(plain) && !strings.Contains(plain, "s' ") {
				t.Errorf("%s.md:%d: a quote without a partner: %q", c.Name, n+1, line)
			}
		}
	}
}

func TestPagesAreCurrent(t *testing.T) {
	const dir = "../docs/checks"
	want := map[string]string{"README.md": Index(All())}
	for _, c := range All() {
		want[filepath.Base(c.Page())] = Page(&c)
		if got := filepath.Dir(c.Page()); got != "docs/checks" {
			t.Errorf("%s: the page is in %s", c.Name, got)
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
