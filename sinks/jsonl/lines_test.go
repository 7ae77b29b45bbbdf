package jsonl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// eventually polls until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func lines(from, to int) [][]byte {
	var out [][]byte
	for i := from; i < to; i++ {
		out = append(out, []byte(fmt.Sprintf("{\"n\":%d}\n", i)))
	}
	return out
}

func TestLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "verdicts.jsonl")
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLines("jsonl:x", file, 1<<20, zerolog.Nop())
	l.Add(append(lines(0, 500), nil))
	l.Add(lines(500, 1000))
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := bytes.Join(lines(0, 1000), nil); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	if s := l.Stats(); s.Sent != 1000 || s.Length != 0 || s.Bytes != 0 || s.Dropped() != 0 || l.Name() != "jsonl:x" {
		t.Errorf("stats %+v", s)
	}
}

// While the file takes nothing, what waits is bounded, and the oldest go. Everything is either written or counted.
func TestLinesWithoutRoom(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "verdicts.jsonl")
	if err := os.Symlink("/dev/full", path); err != nil {
		t.Fatal(err)
	}
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const most = 1000
	l := NewLines("jsonl:x", file, most, zerolog.Nop())
	l.Add(lines(0, 10))
	eventually(t, "a failure", func() bool { return l.Stats().Failures > 0 })
	l.Add(lines(10, 1000))
	s := l.Stats()
	if s.Bytes > most || s.Length == 0 || s.Overflowed+int64(s.Length) != 1000 || s.FailingSince.IsZero() || s.Sent != 0 {
		t.Errorf("stats %+v", s)
	}
	// The link now leads to a file that takes them.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := file.Reopen(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "everything written", func() bool { return l.Stats().Length == 0 })
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s = l.Stats()
	if n := int64(bytes.Count(got, []byte("\n"))); n != s.Sent || s.Sent+s.Overflowed != 1000 || !bytes.HasSuffix(got, []byte("{\"n\":999}\n")) {
		t.Errorf("%d lines, stats %+v", n, s)
	}
}
