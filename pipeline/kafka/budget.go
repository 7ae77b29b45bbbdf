package kafka

import (
	"context"
	"sync"
)

// budget bounds what is read and not stored yet.
type budget struct {
	maxBytes, maxMessages int64

	mu              sync.Mutex
	bytes, messages int64
	freed           chan struct{} // closed and replaced when something is given back
}

func newBudget(maxBytes, maxMessages int64) *budget {
	return &budget{maxBytes: maxBytes, maxMessages: maxMessages, freed: make(chan struct{})}
}

// reserve waits until n bytes fit, or nothing is taken at all, and takes them.
func (b *budget) reserve(ctx context.Context, n int64) error {
	for {
		b.mu.Lock()
		if b.bytes == 0 || b.bytes+n <= b.maxBytes && b.messages < b.maxMessages {
			b.bytes += n
			b.mu.Unlock()
			return nil
		}
		freed := b.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add takes what is there already, or with negative numbers gives it back.
func (b *budget) add(bytes, messages int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes += bytes
	b.messages += messages
	if bytes < 0 || messages < 0 {
		close(b.freed)
		b.freed = make(chan struct{})
	}
}

func (b *budget) used() (bytes, messages int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes, b.messages
}
