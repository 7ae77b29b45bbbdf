package main

import (
	"bytes"
	"context"
	"io"
	"testing"
)

// TestInterruptedWhileWaiting holds that an interrupt ends the program although standard input never comes: whoever forgot to pipe
// something into "-" must get the prompt back.
func TestInterruptedWhileWaiting(t *testing.T) {
	f := func(args ...string) {
		t.Helper()
		stdin, feed := io.Pipe()
		defer func() { _ = feed.Close() }()
		ctx, interrupt := context.WithCancel(t.Context())
		var out, errs bytes.Buffer
		reading := lateInput{stdin, interrupt}
		if code := run(ctx, args, &reading, &out, &errs); code != 1 || errs.String() != "nodetrail: interrupted\n" || out.Len() > 0 {
			t.Errorf("%q: exit status %d, output %q, standard error %q", args, code, out.String(), errs.String())
		}
	}
	f("analyze", "-")
	f("analyze", "--state", "-", capture+"/audit.log.gz")
	f("explain", "--state", "-", "--node", "worker-1", "list", "pods")
	f("explain", "--audit-log", "-", "--node", "worker-1", "list", "pods")
}

// lateInput interrupts once somebody waits for it.
type lateInput struct {
	r         io.Reader
	interrupt func()
}

func (w *lateInput) Read(p []byte) (int, error) {
	w.interrupt()
	return w.r.Read(p)
}
