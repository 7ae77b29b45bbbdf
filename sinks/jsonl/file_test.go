package jsonl

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/sinktest"
)

func received(t *testing.T, paths ...string) []sinks.Finding {
	t.Helper()
	var out []sinks.Finding
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			var f sinks.Finding
			d := json.NewDecoder(bytes.NewReader(line))
			d.DisallowUnknownFields()
			if err := d.Decode(&f); err != nil {
				t.Fatalf("%v: %q", err, line)
			}
			out = append(out, f)
		}
	}
	return out
}

func TestSuite(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) *sinktest.Sink {
		dir := filepath.Join(t.TempDir(), "a")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "findings.jsonl")
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		moved := dir + "-moved"
		return &sinktest.Sink{
			Sender: NewSender("file", f, sinks.JSON),
			Received: func(t *testing.T) []sinks.Finding {
				if _, err := os.Stat(moved); err == nil {
					return received(t, filepath.Join(moved, "findings.jsonl"), path)
				}
				return received(t, path)
			},
			// Without its folder the file can be neither found nor made.
			Fail: func(on bool) {
				var err error
				if on {
					err = os.Rename(dir, moved)
				} else {
					err = os.Mkdir(dir, 0o700)
				}
				if err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

func TestFileFollowsRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.jsonl")
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write := func(s string) {
		t.Helper()
		if n, err := f.Write([]byte(s)); err != nil || n != len(s) {
			t.Fatalf("%d, %v", n, err)
		}
	}
	want := func(name, text string) {
		t.Helper()
		b, err := os.ReadFile(name)
		if err != nil || string(b) != text {
			t.Errorf("%s holds %q (%v), want %q", filepath.Base(name), b, err, text)
		}
	}
	write("1\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("2\n")
	want(path+".1", "1\n")
	want(path, "2\n")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("3\n")
	want(path, "3\n")
	if err := os.Truncate(path, 0); err != nil { // copytruncate
		t.Fatal(err)
	}
	write("4\n")
	want(path, "4\n")
	if err := f.Reopen(); err != nil {
		t.Fatal(err)
	}
	write("5\n")
	want(path, "4\n5\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	write("6\n")
	want(path, "4\n5\n6\n")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// A line that a killed process left unfinished does not swallow the next one.
func TestTornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.jsonl")
	if err := os.WriteFile(path, []byte("{}\n{\"a\":"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := NewSender("x", f, sinks.JSON).Send(context.Background(), sinktest.Findings(1)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(b), "{}\n{\"a\":\n{\"id\":") || !bytes.HasSuffix(b, []byte("}\n")) {
		t.Errorf("%q, %v", b, err)
	}
	f.takeBack([]byte("}\n")) // as after a write that the disk cut off
	if b, _ = os.ReadFile(path); bytes.HasSuffix(b, []byte("\n")) || f.torn {
		t.Errorf("%q, torn %t", b, f.torn)
	}
	f.takeBack([]byte("not its end"))
	if !f.torn {
		t.Error("what another wrote was taken back")
	}
}

func TestOpenFileWhereThereIsNoFolder(t *testing.T) {
	if _, err := OpenFile(filepath.Join(t.TempDir(), "none", "f")); err == nil {
		t.Error("no error")
	}
}

// A full disk fails the write and is tried again; nothing is reported as written.
func TestDiskFull(t *testing.T) {
	const full = "/dev/full" // Linux: each write fails with ENOSPC
	if _, err := os.Stat(full); err != nil {
		t.Logf("there is no %s", full)
		return
	}
	f, err := OpenFile(full)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := f.Write([]byte("{}\n")); n != 0 || err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("%d, %v", n, err)
	}
}
