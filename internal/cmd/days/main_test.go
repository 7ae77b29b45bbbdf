package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func files(t *testing.T, args ...string) map[string]string {
	t.Helper()
	dir := t.TempDir()
	if err := run(append(args, "-out", dir, "-span", "30m"), io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(text)
	}
	return out
}

func TestFiles(t *testing.T) {
	got := files(t, "-seed", "4", "-features", "drains,windows", "-from", "2026-11-21T00:00:00Z")
	for name, want := range map[string]string{
		"audit.log": `"requestReceivedTimestamp":"2026-11-21T00:`, "journal.jsonl": `{"observedAt":"2026-11-20T22:30:00Z","type":"ADDED"`,
		"audit-policy.yaml": "kind: Policy", "README.md": "features: drains, windows",
	} {
		if !strings.Contains(got[name], want) {
			t.Errorf("%s: no %s", name, want)
		}
	}
	if !strings.Contains(got["README.md"], "Nothing is planted") {
		t.Errorf("README.md:\n%s", got["README.md"])
	}
	if diff := cmp.Diff(got, files(t, "-seed", "4", "-features", "drains,windows", "-from", "2026-11-21T00:00:00Z")); diff != "" {
		t.Errorf("not the same twice: %s", diff)
	}
}

func TestMutationIsPlanted(t *testing.T) {
	got := files(t, "-mutate", "plant-request,remove-policy")
	if got["audit-policy.yaml"] != "" {
		t.Error("the policy is there")
	}
	for _, want := range []string{"`plant-request`, seed 1", "`remove-policy`, seed 1", "nothing-depends", "policy-known"} {
		if !strings.Contains(got["README.md"], want) {
			t.Errorf("README.md has no %s:\n%s", want, got["README.md"])
		}
	}
}

func TestSplitAndCompressed(t *testing.T) {
	got, whole := files(t, "-servers", "2", "-split", "-gzip"), files(t, "-servers", "2")
	var lines []string
	for _, name := range []string{"audit-1.log.gz", "audit-2.log.gz"} {
		zr, err := gzip.NewReader(strings.NewReader(got[name]))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(zr)
		if err != nil || len(text) == 0 {
			t.Fatalf("%s: %d bytes, %v", name, len(text), err)
		}
		lines = append(lines, strings.SplitAfter(string(text), "\n")...)
	}
	want := strings.SplitAfter(whole["audit.log"], "\n")
	slices.Sort(lines)
	slices.Sort(want)
	if diff := cmp.Diff(want[1:], lines[2:]); diff != "" {
		t.Errorf("split logs are not the whole: %.500s", diff)
	}
}

func TestArguments(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", "use -out FOLDER"}, {"-out x y", "use -out FOLDER"}, {"-out x -features snow", `no feature "snow"`},
		{"-out x -mutate snow", `no mutation "snow"`}, {"-out x -mutate remove-server -span 30m", "does not apply"},
		{"-out x -from today", "cannot parse"}, {"-out x -minor 12", "Kubernetes 1.12 is"}, {"-snow", "not defined"},
	} {
		err := run(strings.Fields(c.args), io.Discard, io.Discard)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a refused call made its folder")
	}
	var out bytes.Buffer
	if err := run([]string{"-list"}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kubeadm-join", "plant-request", "remove-node-hour", "state-cut", "addon-404"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("-list has no %s", want)
		}
	}
}
