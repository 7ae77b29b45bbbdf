package store

import "context"

// turn is a lock for which nobody waits longer than his context lasts: whoever has it may wait for a server that does not answer. It must be made by newTurn.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take returns the context's error if that ends first.
func (t turn) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() { <-t }
