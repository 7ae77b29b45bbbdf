package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/nodetrail/nodetrail/app"
)

// What is no terminal gets nothing, and the bytes that are read of files are those that they have, compressed or not.
func TestProgressReads(t *testing.T) {
	dir := t.TempDir()
	writeDay(t, dir)
	log := filepath.Join(dir, "audit.log")
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := os.ReadFile(capture + "/audit.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{log}, {capture + "/audit.log.gz"}, {log, capture + "/audit.log.gz"}, {"-"}} {
		in := app.Input{Logs: args, Stdin: bytes.NewReader(text)}
		var b bytes.Buffer
		var read int64
		var whole []string
		_, err := metered(streams{err: &b}, &in, func() (*app.Analysis, error) {
			add := in.Progress
			in.Progress = func(n int) {
				add(n)
				atomic.AddInt64(&read, int64(n))
			}
			begin := in.Begin
			in.Begin = func(logs []string) error {
				whole = logs
				return begin(logs)
			}
			return app.Analyze(t.Context(), app.AnalyzeOptions{Input: in, Authorization: app.Authorization{Skew: app.DefaultSkew}})
		})
		want := int64(0)
		for _, a := range args {
			switch a {
			case log, "-":
				want += int64(len(text))
			default:
				want += int64(len(journal))
			}
		}
		if err != nil || read != want || !slices.Equal(whole, args) || b.Len() > 0 {
			t.Errorf("%s: %d bytes of %q, want %d, %q, %v", args, read, whole, want, b.String(), err)
		}
	}
}
