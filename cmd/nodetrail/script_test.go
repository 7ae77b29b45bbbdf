package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"nodetrail": main, "kubectl-nodetrail": main})
}

// The captures of a real cluster that all tests here read.
const (
	capture  = "../../internal/demo/capture"
	rbacOnly = "../../internal/demo/capture-rbac-only"
)

// TestScripts runs the program as its users do. The scripts have these commands in addition to testscript's own:
//
//	status N COMMAND…      runs a command, which must end with status N
//	lines FROM TO SRC DST  writes lines FROM to TO (from 1, 0 is the last) of a file, gzipped or not, to a file, gzipped if named .gz
//	cut N SRC DST          writes the first N bytes of a file
//	noise N DST            writes N bytes that are always the same and look random
//	long N DST             writes one line of N bytes that is an audit event
//
// and those of services, see scriptservice_test.go.
func TestScripts(t *testing.T) {
	abs := func(dir string) string {
		path, err := filepath.Abs(dir)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	day := t.TempDir()
	writeDay(t, day)
	files, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(files) < 30 {
		t.Fatal(files, err)
	}
	// Each starts the program many times. Under the race detector those with a service are run, and one in ten of the others, as with -short.
	all := files
	files = nil
	for i, file := range all {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if i%effort.Of(1, 10) == 0 || !testing.Short() && bytes.Contains(text, []byte("\nserve ")) {
			files = append(files, file)
		}
	}
	testscript.Run(t, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LOG", filepath.Join(abs(capture), "audit.log.gz"))
			env.Setenv("JOURNAL", filepath.Join(abs(capture), "journal.jsonl.gz"))
			env.Setenv("DAY", day)
			env.Setenv("GORACE", os.Getenv("GORACE"))
			env.Setenv("DEPLOY", abs("../../deploy"))
			env.Values[servicesKey{}] = services{}
			env.Values[holdKey{}] = new([]*os.File)
			env.Defer(func() { env.Values[servicesKey{}].(services).stop() })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "lines": lines, "cut": cut, "noise": noise, "long": long,
			"serve": serve, "await": await, "hangup": hangup, "finish": finish, "get": get, "post": post, "reported": reported, "hold": hold, "samejson": sameJSON,
		},
	})
}

func status(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	var exit *exec.ExitError
	if err := ts.Exec(args[1], args[2:]...); errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

func lines(ts *testscript.TestScript, _ bool, args []string) {
	from, err := strconv.Atoi(args[0])
	ts.Check(err)
	to, err := strconv.Atoi(args[1])
	ts.Check(err)
	all, err := plainLines(ts.MkAbs(args[2]))
	ts.Check(err)
	if to == 0 {
		to = len(all)
	}
	write(ts, args[3], bytes.Join(all[from-1:to], nil))
}

func cut(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	write(ts, args[2], []byte(ts.ReadFile(args[1])[:n]))
}

func noise(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	write(ts, args[1], b)
}

func long(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	head, tail := `{"kind":"Event","apiVersion":"audit.k8s.io/v1","auditID":"long","requestURI":"/`, `"}`+"\n"
	write(ts, args[1], []byte(head+strings.Repeat("x", n-len(head)-len(tail))+tail))
}

// write writes a file, gzipped if it is named so and holds lines.
func write(ts *testscript.TestScript, name string, b []byte) {
	if strings.HasSuffix(name, ".gz") && bytes.HasSuffix(b, []byte("\n")) {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(b)
		ts.Check(errors.Join(err, z.Close()))
		b = packed.Bytes()
	}
	ts.Check(os.WriteFile(ts.MkAbs(name), b, 0o600))
}

// plainLines reads the lines of a file, gzipped or not, with their ends.
func plainLines(path string) ([][]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	r := bufio.NewReader(f)
	var src io.Reader = r
	if head, _ := r.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		if src, err = gzip.NewReader(r); err != nil {
			return nil, err
		}
	}
	b, err := io.ReadAll(src)
	return bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")), err
}

// writeDay writes half an hour of a made-up cluster of which everything is proven into a folder: its log, its journal and its audit policy.
func writeDay(t *testing.T, folder string) {
	t.Helper()
	d, err := days.Clean(1, days.Options{Span: 30 * time.Minute, Nodes: 2, Minor: 36})
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"audit.log": d.Log(), "journal.jsonl": d.Journal(), "policy.yaml": []byte(d.Policy)} {
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
