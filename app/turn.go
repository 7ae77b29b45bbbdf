package app

import (
	"context"
	"fmt"
)

// turns has what reads much of a store done one after the other: reports, checks and incidents each hold all findings while they are made, and several at
// a time would take several times the memory. Judging does not wait for a turn.
type turns chan struct{}

func newTurns() turns { return make(turns, 1) }

// turnKey is under which a context says whose turn it is.
type turnKey struct{}

// take waits for the turn, and returns a context of whoever has it. Who has it already does not wait.
func (t turns) take(ctx context.Context) (held context.Context, end func(), err error) {
	if had, _ := ctx.Value(turnKey{}).(turns); t == nil || had == t {
		return ctx, func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return context.WithValue(ctx, turnKey{}, t), func() { <-t }, nil
	case <-ctx.Done():
		return ctx, nil, fmt.Errorf("waiting for other reports: %w", ctx.Err())
	}
}
