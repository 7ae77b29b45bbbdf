package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/internal/demo"
)

// tree is what the files of a folder hold.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		out[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// No command writes over a file that it reads, by whatever name, nor two outputs into one file. Nothing changes then.
func TestOutputsAreNoInputs(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	lines := func(packed []byte, n int) string {
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.Join(bytes.SplitAfterN(b, []byte("\n"), n+1)[:n], nil))
	}
	files := map[string]string{
		"audit.log": lines(demo.AuditLog(), 300), "journal.jsonl": lines(demo.Journal(), 300), "folder/state.jsonl": lines(demo.Journal(), 300),
		"apiserver.log": `I1121 06:03:57.603813       1 node_authorizer.go:235] "NODE DENY" err="node 'worker-2' cannot get unknown secret batch/secret-10"` + "\n",
		"waive.yaml":    "waivers: []\n", "except.yaml": "exceptions: []\n", "rules.yaml": "rules: []\n",
		"policy.yaml":       "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Metadata\n",
		"nodetrail.yaml":    "data: data\nsources: {files: [{paths: [audit.log, other.log]}]}\nstate: {files: [journal.jsonl, folder]}\nrules: {files: [rules.yaml]}\ncoverage: {policyFile: policy.yaml}\n",
		"data/nodetrail.db": "store", "data/nodetrail.db-wal": "store", "data/dead-letters.jsonl": "store", "data/state/00001.jsonl": "store",
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var report bytes.Buffer
	if status := run(t.Context(), []string{"analyze", "-o", "json", "audit.log"}, nil, &report, os.Stderr); status != 0 {
		t.Fatal(status)
	}
	if err := os.WriteFile("baseline.json", report.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	analyze := []string{"--state", "journal.jsonl", "--state", "folder", "--waive", "waive.yaml", "--exceptions", "except.yaml", "--rules", "rules.yaml", "--audit-policy", "policy.yaml",
		"--baseline", "baseline.json", "--apiserver-log", "apiserver.lo?", "audit.log"}
	stored := []string{"--config", "nodetrail.yaml", "--waive", "waive.yaml", "--exceptions", "except.yaml", "--baseline", "baseline.json"}
	both := []string{"waive.yaml", "except.yaml", "baseline.json", "rules.yaml", "policy.yaml", "journal.jsonl", "folder/state.jsonl", "audit.log"}
	played := []string{"play", "--no-wait", "--state", "journal.jsonl", "audit.log"}
	for _, c := range []struct {
		outputs []string // flags of outputs
		command []string
		inputs  []string
	}{
		{[]string{"--out", "--verdicts"}, append([]string{"analyze"}, analyze...), append(both, "apiserver.log")},
		{[]string{"--out"}, append([]string{"report"}, stored...), append(both, "nodetrail.yaml", "data/nodetrail.db", "data/nodetrail.db-wal", "data/dead-letters.jsonl", "data/state/00001.jsonl")},
		{[]string{"--out"}, append(played, "--journal", "new.jsonl"), []string{"audit.log", "journal.jsonl"}},
		{[]string{"--journal"}, append(played, "--out", "new.log"), []string{"audit.log", "journal.jsonl"}},
	} {
		for _, input := range c.inputs {
			if err := os.Symlink(input, "link"); err != nil {
				t.Fatal(err)
			}
			if err := os.Link(input, "hard"); err != nil {
				t.Fatal(err)
			}
			before := tree(t, dir)
			for _, output := range c.outputs {
				for _, name := range []string{input, "./folder/../" + input, filepath.Join(dir, input), "link", "hard"} {
					if name == "hard" && strings.HasPrefix(input, "data/state") {
						continue // another name of what is in a folder is not looked for
					}
					var stdout, stderr bytes.Buffer
					status := run(t.Context(), append(c.command[:len(c.command):len(c.command)], output, name), nil, &stdout, &stderr)
					if want := fmt.Sprintf("nodetrail: %s: %s is ", output, name); status != 1 || stdout.Len() > 0 || !strings.HasPrefix(stderr.String(), want) {
						t.Errorf("%s %s %s: status %d, %q, %q", c.command[0], output, name, status, stdout.String(), stderr.String())
					}
				}
			}
			if !maps.Equal(before, tree(t, dir)) {
				t.Fatalf("%s changed something with %s", c.command[0], input)
			}
			if err := os.Remove("link"); err != nil {
				t.Fatal(err)
			}
			if err := os.Remove("hard"); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := tree(t, dir)
	for _, args := range [][]string{
		{"analyze", "--out", "same", "--verdicts", "./same", "audit.log"}, {"analyze", "--out", "-", "--verdicts", "-", "audit.log"},
		{"play", "--no-wait", "--state", "journal.jsonl", "--out", "same", "--journal", "same", "audit.log"},
	} {
		var stdout, stderr bytes.Buffer
		if status := run(t.Context(), args, nil, &stdout, &stderr); status != 1 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "too") {
			t.Errorf("%q: status %d, %q, %q", args, status, stdout.String(), stderr.String())
		}
	}
	if !maps.Equal(before, tree(t, dir)) {
		t.Error("something changed")
	}
	// What is no file takes both.
	if status := run(t.Context(), []string{"analyze", "--out", os.DevNull, "--verdicts", os.DevNull, "audit.log"}, nil, &bytes.Buffer{}, &bytes.Buffer{}); status != 0 {
		t.Error(status)
	}
	var stdout bytes.Buffer
	if status := run(t.Context(), []string{"analyze", "-o", "json", "--out", "-", "audit.log"}, nil, &stdout, os.Stderr); status != 0 || !bytes.Equal(stdout.Bytes(), report.Bytes()) {
		t.Errorf("- is standard output: %d, %d bytes", status, stdout.Len())
	}
}

// No sink writes into what a service reads or keeps.
func TestSinksAreNoInputs(t *testing.T) {
	t.Chdir(t.TempDir())
	for path, good := range map[string]bool{
		"src.log": false, "logs/a.log": false, "data/nodetrail.db": false, "./data/dead-letters.jsonl": false, "data/state/x.jsonl": false, "state.jsonl": false, "n.yaml": false,
		"rules.yaml": false, "policy.yaml": false, "one.jsonl": false, "data/findings.jsonl": true, "findings.jsonl": true, os.DevNull: true,
	} {
		config := "data: data\nsources: {files: [{paths: [src.log, logs/*.log]}]}\nstate: {files: [state.jsonl]}\nrules: {files: [rules.yaml]}\ncoverage: {policyFile: policy.yaml}\n" +
			"sinks:\n  jsonl:\n  - path: one.jsonl\n  - path: " + path + "\n"
		if err := os.WriteFile("n.yaml", []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		status := run(t.Context(), []string{"config", "check", "--config", "n.yaml"}, nil, &stdout, &stderr)
		if (status == 0) != good || !good && !strings.HasPrefix(stderr.String(), "nodetrail: n.yaml:9: sinks.jsonl[1].path: "+strconv.Quote(path)+" is ") {
			t.Errorf("%s: status %d, %q", path, status, stderr.String())
		}
	}
}
