package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
)

// stage is a group of goroutines that are stopped together.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	fail   context.CancelCauseFunc
	wg     sync.WaitGroup
}

// newStage returns one whose goroutines end with ctx. The first error of any is given to fail.
func newStage(ctx context.Context, fail context.CancelCauseFunc) *stage {
	s := &stage{fail: fail}
	s.ctx, s.cancel = context.WithCancel(ctx)
	return s
}

// start starts f. If it returns before it was asked to, that is a failure.
func (s *stage) start(what string, f func(context.Context) error) {
	s.wg.Go(func() {
		err := f(s.ctx)
		switch {
		case s.ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
		case err == nil:
			s.fail(fmt.Errorf("%s ended by itself", what))
		default:
			s.fail(fmt.Errorf("%s: %w", what, err))
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

// atomicLevel is a log level that may change.
type atomicLevel struct{ v atomic.Int32 }

func (l *atomicLevel) get() zerolog.Level  { return zerolog.Level(l.v.Load()) }
func (l *atomicLevel) set(v zerolog.Level) { l.v.Store(int32(v)) }
