package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// signalWriter hands on each line of a log.
type signalWriter chan string

func (w signalWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}

// await waits for a line that has what, of a program that must not end before.
func (w signalWriter) await(t *testing.T, what string, ended <-chan error) {
	t.Helper()
	for {
		select {
		case line := <-w:
			if strings.Contains(line, what) {
				return
			}
		case err := <-ended:
			t.Fatalf("it ended before it said %q: %v", what, err)
		}
	}
}

// Run follows a log and stores what it judges; Report has it while it runs; and a hangup takes over what has changed of the configuration, sinks
// included. When ctx ends it stops in order.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	configure := func(sinks string) string {
		path := filepath.Join(dir, "nodetrail.yaml")
		text := fmt.Sprintf("data: %s/data\nlisten: 127.0.0.1:0\nreload: {watch: false}\nstate: {files: [%s/journal.jsonl.gz]}\nsinks: {jsonl: [%s]}\n", dir, capture, sinks)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := configure("")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	lines, hup, ended := make(signalWriter, 1000), make(chan os.Signal), make(chan error, 1)
	await := func(what string) {
		t.Helper()
		lines.await(t, what, ended)
	}
	running := make(chan string, 1)
	go func() {
		ended <- Run(ctx, RunOptions{
			StoreOptions: StoreOptions{Config: path}, Logs: []string{filepath.Join(dir, "audit.log")}, Log: LogTo{W: lines}, Version: "v9", Hangup: hup,
			Running: func(pages string) { running <- pages },
		})
	}()
	await(`"version":"v9"`)
	if pages := <-running; !strings.HasPrefix(pages, "http://127.0.0.1:") {
		t.Errorf("pages at %q", pages)
	}
	if _, err := Report(t.Context(), ReportOptions{StoreOptions: StoreOptions{Config: path}}); err != nil {
		t.Error(err)
	}
	sink := filepath.Join(dir, "findings.jsonl")
	configure("{path: " + sink + "}")
	hup <- syscall.SIGHUP
	await("the configuration is in force")
	if _, err := os.Stat(sink); err != nil {
		t.Errorf("the sink is not there: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var missing *NoStoreError
	if _, err := Report(t.Context(), ReportOptions{StoreOptions: StoreOptions{Data: dir}}); !errors.As(err, &missing) || missing.Path != filepath.Join(dir, "nodetrail.db") {
		t.Errorf("%v", err)
	}
	if err := Run(t.Context(), RunOptions{Log: LogTo{W: new(bytes.Buffer)}}); !errors.Is(err, ErrNothingToRead) {
		t.Errorf("%v", err)
	}
}

// A store that hangs does not keep the process from ending, and one that is slow is waited for.
func TestEndWithin(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	hang := make(chan struct{})
	defer close(hang)
	stop()
	err := endWithin(ctx, 10*time.Millisecond, func() error { <-hang; return nil })
	if err == nil || !strings.Contains(err.Error(), "the store does not answer") {
		t.Errorf("%v", err)
	}
	want := errors.New("its own")
	if err := endWithin(ctx, time.Minute, func() error { time.Sleep(20 * time.Millisecond); return want }); !errors.Is(err, want) {
		t.Errorf("%v", err)
	}
	if err := endWithin(t.Context(), 0, func() error { time.Sleep(20 * time.Millisecond); return want }); !errors.Is(err, want) {
		t.Errorf("before it is to stop: %v", err)
	}
}
