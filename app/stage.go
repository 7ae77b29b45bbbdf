package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// failures are the errors that the stages of a command ended with, the first of which stops it. Safe for concurrent use.
type failures struct {
	stop context.CancelFunc
	mu   sync.Mutex
	all  []error
}

func (f *failures) add(err error) {
	f.mu.Lock()
	f.all = append(f.all, err)
	f.mu.Unlock()
	f.stop()
}

// err joins them, the cause first and then what went wrong in stopping.
func (f *failures) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return errors.Join(f.all...)
}

// stage is a group of goroutines that are stopped together.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	failed *failures
	wg     sync.WaitGroup
}

// newStage returns one whose goroutines end with ctx.
func newStage(ctx context.Context, failed *failures) *stage {
	s := &stage{failed: failed}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// start starts f. If it returns before it was asked to, or with an error, that is a failure.
func (s *stage) start(what string, f func(context.Context) error) {
	s.wg.Go(func() {
		err := f(s.ctx)
		switch {
		case s.ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		case err == nil:
			s.failed.add(fmt.Errorf("%s ended by itself", what))
		default:
			s.failed.add(fmt.Errorf("%s: %w", what, err))
		}
	})
}

// wait waits for all to end.
func (s *stage) wait() { s.wg.Wait() }

// end asks all to end and waits.
func (s *stage) end() {
	s.cancel()
	s.wg.Wait()
}
