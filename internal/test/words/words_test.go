package words_test

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/test/words"
)

const root = "../../.."

func list(t *testing.T) (*words.List, string) {
	t.Helper()
	banned, err := os.ReadFile("banned.txt")
	if err != nil {
		t.Fatal(err)
	}
	allowed, err := os.ReadFile("allowed.txt")
	if err != nil {
		t.Fatal(err)
	}
	list, err := words.ParseList(string(banned), string(allowed))
	if err != nil {
		t.Fatal(err)
	}
	return list, string(banned)
}

// read says whether a file's text is for readers.
func read(name string) bool {
	switch path.Ext(name) {
	case ".go", ".md", ".yaml", ".yml", ".tmpl", ".html", ".js", ".css", ".mk", ".sh", ".flags", ".kubeconfig":
	case ".json":
		return path.Dir(name) == "web" || strings.HasPrefix(name, "dashboards/")
	default:
		return path.Base(name) == "Makefile" || path.Base(name) == "Dockerfile"
	}
	return true
}

func TestTree(t *testing.T) {
	list, _ := list(t)
	files := 0
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir():
			if base := path.Base(name); len(base) > 1 && base[0] == '.' || base == "bin" || base == "dist" || base == "node_modules" || base == "testdata" {
				return fs.SkipDir
			}
		case read(name):
			files++
			content, err := fs.ReadFile(os.DirFS(root), name)
			if err != nil {
				return err
			}
			for _, hit := range list.Find(name, content) {
				t.Errorf("%s:%d: %q in %q: write %s", name, hit.Line, hit.Phrase, hit.Reads, hit.Instead)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("read %d files, which is not the tree", files)
	}
	for _, unused := range list.Unused() {
		t.Errorf("allowed.txt: occurs nowhere: %s", unused)
	}
}

// Each banned phrase is found wherever text for readers is, also across the ends of lines, and not in what names something in code.
func TestPlanted(t *testing.T) {
	list, banned := list(t)
	phrases := 0
	for line := range strings.Lines(banned) {
		bars, _, ok := strings.Cut(line, "\t")
		if !ok || line[0] == '#' {
			continue
		}
		for phrase := range strings.SplitSeq(bars, "|") {
			phrases++
			first, rest, _ := strings.Cut(phrase, " ")
			wrapped := func(by string) string { return strings.TrimSuffix(first+by+rest, by) }
			for _, planted := range []struct{ name, content string }{
				{"docs/page.md", "One.\n\nIt is " + phrase + ", or so.\n"},
				{"docs/page.md", "# " + strings.ToUpper(phrase) + "\n"},
				{"docs/page.md", "> It is " + wrapped("\n> ") + ".\n"},
				{"docs/page.md", "| " + phrase + " | x |\n"},
				{"rules.yaml", "# It is " + wrapped("\n  # ") + "\nkey: 1\n"},
				{"rules.yaml", "summary: it is " + phrase + "\n"},
				{"dashboards/a.json", `{"title": "It is ` + phrase + `."}`},
				{"dashboards/a.json", `{"title": "` + strings.ToUpper(phrase) + `"}`},
				{"web/templates/page.tmpl", "<p>It is " + phrase + "</p>"},
				{"a.go", "package a\n\n// F is " + wrapped("\n// ") + ".\nfunc F() {}\n"},
				{"a.go", "package a\n\n/* F is\n" + phrase + " */\nfunc F() {}\n"},
				{"a.go", "package a\n\nvar f = 1 // it is " + phrase + "\n"},
				{"a.go", "package a\n\nvar f = \"it is " + wrapped(" \" +\n\t\"") + "\"\n"},
				{"a.go", "package a\n\nvar f = `it is " + wrapped("\n") + "`\n"},
			} {
				if len(list.Find(planted.name, []byte(planted.content))) == 0 {
					t.Errorf("%q is not found in %s:\n%s", phrase, planted.name, planted.content)
				}
			}
			if strings.Contains(phrase, " ") {
				continue
			}
			for _, named := range []struct{ name, content string }{
				{"a.go", "package a\n\n// " + phrase + " says nothing.\nvar " + phrase + " = 1\n"},
				{"a.go", "package a\n\nvar f = g(\"" + phrase + "\", \"a/" + phrase + "-b\", `json:\"" + phrase + "\"`)\n"},
				{"docs/page.md", "The member `" + phrase + "`, `readiness." + phrase + "` or a-" + phrase + ".\n"},
				{"web/openapi.json", `{"` + phrase + `": {}, "required": ["` + phrase + `"]}`},
			} {
				if hits := list.Find(named.name, []byte(named.content)); len(hits) != 0 {
					t.Errorf("a name is taken for text in %s:\n%s%+v", named.name, named.content, hits)
				}
			}
		}
	}
	if phrases < 40 {
		t.Errorf("%d phrases, which is not the list", phrases)
	}
}

func TestAllowed(t *testing.T) {
	list, err := words.ParseList("bad|very bad\tgood\n", "docs/*.md\tFROM bad\ndocs/*.md\tnowhere\n")
	if err != nil {
		t.Fatal(err)
	}
	for content, want := range map[string]int{"SELECT 1 FROM bad;": 0, "FROM bad, and bad": 1, "a bad one, FROM bad": 1} {
		if hits := list.Find("docs/a.md", []byte(content)); len(hits) != want {
			t.Errorf("%q: %+v", content, hits)
		}
	}
	if hits := list.Find("web/a.md", []byte("FROM bad\n\nvery\nbad.\n")); len(hits) != 3 || hits[0].Line != 1 || hits[1].Line != 4 || hits[2].Line != 3 {
		t.Errorf("%+v", hits)
	}
	if unused := list.Unused(); len(unused) != 1 || unused[0] != "docs/*.md\tnowhere" {
		t.Errorf("%q", unused)
	}
	for _, bad := range [][2]string{{"no tab\n", ""}, {"a\tb\tc\n", ""}, {"", "no tab\n"}, {"", "[\tx\n"}} {
		if _, err := words.ParseList(bad[0], bad[1]); err == nil {
			t.Errorf("%q is a list", bad)
		}
	}
}
