package app

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
)

// slowIntake opens a lane when it is let.
type slowIntake struct {
	source.Intake
	asked, let chan struct{}
}

func (i *slowIntake) Open(ctx context.Context, _ string, _ int64) (string, error) {
	close(i.asked)
	select {
	case <-i.let:
	case <-ctx.Done():
	}
	return "", ctx.Err()
}

func (i *slowIntake) Close(string) {}

// An API server that sends to a Pod that is ready must find the webhook listening, however long its lane takes to open.
func TestNotReadyUntilTheWebhookListens(t *testing.T) {
	lines := make(signalWriter, 100)
	letters, err := source.OpenDeadLetter(filepath.Join(t.TempDir(), "letters"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = letters.Close() }()
	srv, err := webhook.New(webhook.Options{Name: "a", Listen: "127.0.0.1:0", Letters: letters, Log: zerolog.New(lines)})
	if err != nil {
		t.Fatal(err)
	}
	s := &sourceSet{webhook: srv}
	is := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, s.notReady()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	is("before it runs", notListening)
	intake := &slowIntake{asked: make(chan struct{}), let: make(chan struct{})}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(ctx, intake) }()
	<-intake.asked
	is("while its lane is opened", notListening)
	close(intake.let)
	for line := ""; !strings.Contains(line, "the audit webhook listens"); {
		line = <-lines
	}
	is("when it listens")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	is("when it has ended", notListening)
}
