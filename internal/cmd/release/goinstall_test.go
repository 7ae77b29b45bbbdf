package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
)

// TestGoInstall installs the program as docs/install.md says, from nowhere: a module proxy has this tree as a release, and a module cache of its own begins
// empty. What it needs of others comes from the cache of this machine. A replace line in go.mod, a file that a module cannot have, and a file that is
// embedded from another module would all fail it.
func TestGoInstall(t *testing.T) {
	of := module.Version{Path: "github.com/nodetrail/nodetrail", Version: "v" + version}
	proxy, bin, cache := t.TempDir(), t.TempDir(), t.TempDir()
	t.Cleanup(func() { run(t, t.TempDir(), []string{"GOMODCACHE=" + cache}, "clean", "-modcache") }) // its files are read-only
	dir := filepath.Join(proxy, of.Path, "@v")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	if err := modzip.CreateFromDir(&files, of, copied(t)); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"list": []byte(of.Version + "\n"), of.Version + ".info": []byte(fmt.Sprintf(`{"Version":%q,"Time":"2026-11-21T06:00:00Z"}`, of.Version)),
		of.Version + ".mod": read(t, root, "go.mod"), of.Version + ".zip": files.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := strings.TrimSpace(run(t, root, nil, "env", "GOMODCACHE"))
	from := []string{"file://" + filepath.ToSlash(proxy), "file://" + filepath.ToSlash(filepath.Join(here, "cache", "download")), strings.TrimSpace(run(t, root, nil, "env", "GOPROXY"))}
	run(t, t.TempDir(), []string{
		"GOPROXY=" + strings.Join(from, ","), "GOSUMDB=off", "GOMODCACHE=" + cache, "GOBIN=" + bin, "GOFLAGS=-trimpath", "CGO_ENABLED=0", "GOWORK=off",
	}, "install", of.Path+"/cmd/nodetrail@"+of.Version)
	runs(t, filepath.Join(bin, "nodetrail"), says, "version")
	capture := filepath.Join(root, "internal", "demo", "capture")
	runs(t, filepath.Join(bin, "nodetrail"), `"agree": 1401,`, "analyze", "--output", "json", "--state", filepath.Join(capture, "journal.jsonl.gz"), filepath.Join(capture, "audit.log.gz"))
}

// run runs the go command and returns what it prints.
func run(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %q: %v\n%s", args, err, stderr.Bytes())
	}
	return string(out)
}
