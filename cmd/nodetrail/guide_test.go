package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMigrationGuide runs the commands of docs/migration.md and compares what they print, line by line; "..." stands for any lines.
func TestMigrationGuide(t *testing.T) {
	page, err := os.ReadFile("../../docs/migration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```console\n")[1:]
	if len(blocks) < 5 {
		t.Fatalf("the page has %d commands", len(blocks))
	}
	printed := map[string]string{}
	for _, block := range blocks {
		block, _, ended := strings.Cut(block, "\n```")
		command, want, _ := strings.Cut(block, "\n")
		args, ours := strings.CutPrefix(command, "$ nodetrail ")
		if !ended || !ours {
			t.Fatalf("not a command of nodetrail: %q", command)
		}
		got, known := printed[command]
		if !known {
			actual := strings.NewReplacer("before/", rbacOnly+"/", "after/", capture+"/").Replace(args)
			code, out, errs := invoke(t, "", strings.Fields(actual)...)
			if fails := strings.Contains(args, "--fail-on"); code != 0 && !(fails && code == 2) {
				t.Fatalf("%s: exit status %d, standard error %q", command, code, errs)
			}
			got = strings.ReplaceAll(strings.ReplaceAll(out, filepath.ToSlash(rbacOnly)+"/", "before/"), filepath.ToSlash(capture)+"/", "after/")
			printed[command] = got
		}
		if diff := cmp.Diff(want, elided(want, strings.TrimRight(got, "\n"))); diff != "" {
			t.Errorf("%s (-page +printed):\n%s", command, diff)
		}
	}
}

// elided is what was printed, with the lines left out that want leaves out. Where it does not fit it ends in what came instead.
func elided(want, got string) string {
	var out []string
	lines := strings.Split(got, "\n")
	skip := false
	for _, w := range strings.Split(want, "\n") {
		if w == "..." {
			out, skip = append(out, w), true
			continue
		}
		for skip && len(lines) > 1 && lines[0] != w {
			lines = lines[1:]
		}
		skip = false
		if len(lines) == 0 {
			return strings.Join(append(out, "(the end)"), "\n")
		}
		out, lines = append(out, lines[0]), lines[1:]
		if out[len(out)-1] != w {
			return strings.Join(out, "\n")
		}
	}
	if !skip && len(lines) > 0 {
		out = append(out, lines[0])
	}
	return strings.Join(out, "\n")
}
