package store

import (
	"context"
	"errors"
	"testing"
)

// Who waits behind a writer that hangs waits no longer than his context lasts.
func TestTurn(t *testing.T) {
	s := must(OpenSQLite(context.Background(), t.TempDir()+"/nodetrail.db", Options{}))(t)
	ok(t, s.turn.take(context.Background()))
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := s.Commit(ctx, killed(0)); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if _, err := s.Acquire(ctx, "file:a", 0, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("acquire: %v", err)
	}
	s.turn.give()
	ok(t, s.Close())
}
