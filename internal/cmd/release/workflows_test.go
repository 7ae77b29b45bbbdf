package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type workflow struct {
	Permissions *map[string]string
	Jobs        map[string]struct {
		Needs string
		Steps []struct{ Uses, Run string }
	}
}

// unpinned are what is wrong with the actions of a workflow: each is named by its commit, with its version as a comment.
func unpinned(text string) (out []string) {
	pinned := regexp.MustCompile(`^\s*- uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v[0-9]+\.[0-9]+\.[0-9]+$`)
	for line := range strings.Lines(text) {
		if line = strings.TrimRight(line, "\n"); strings.Contains(line, "uses:") && !pinned.MatchString(line) {
			out = append(out, line)
		}
	}
	return out
}

func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	makefile := string(read(t, root, "Makefile"))
	for _, file := range files {
		text := string(read(t, file))
		if bad := unpinned(text); len(bad) > 0 {
			t.Errorf("%s: %q", file, bad)
		}
		var w workflow
		if err := yaml.Unmarshal([]byte(text), &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if w.Permissions == nil || len(w.Jobs) == 0 {
			t.Errorf("%s: the token has all rights, or there is nothing to do", file)
		}
		for name, job := range w.Jobs {
			if job.Needs != "" && w.Jobs[job.Needs].Steps == nil {
				t.Errorf("%s: %s needs %s", file, name, job.Needs)
			}
			for _, step := range job.Steps {
				for _, target := range regexp.MustCompile(`\bmake ([a-z-]+)`).FindAllStringSubmatch(step.Run, -1) {
					if !strings.Contains(makefile, "\n"+target[1]+":") {
						t.Errorf("%s: make has no target %s", file, target[1])
					}
				}
				if script, ok := strings.CutPrefix(step.Run, ".ci/"); ok {
					if _, err := os.Stat(filepath.Join(root, ".ci", strings.TrimSpace(script))); err != nil {
						t.Error(err)
					}
				}
			}
		}
	}
}

func TestUnpinned(t *testing.T) {
	for line, want := range map[string]int{
		"    - uses: actions/checkout@v7":                                                1,
		"    - uses: actions/checkout@main # v7.0.1":                                     1,
		"    - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1":          1,
		"    - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1": 0,
		"    - run: make check":                                                          0,
	} {
		if got := unpinned(line); len(got) != want {
			t.Errorf("%s: %q", line, got)
		}
	}
}
