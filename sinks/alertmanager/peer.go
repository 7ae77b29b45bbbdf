package alertmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/http"
)

// maxBatch is how many alerts one request has at most.
const maxBatch = 100

// peer is one Alertmanager. Only its goroutine sends.
type peer struct {
	sink    *Sink
	index   int
	name    string
	options http.Options
	sender  *http.Sender
	wakeUp  chan struct{} // has room for one

	// Of sink.mu. The first says that run has not yet looked at what it was woken for, pausing that it looks by itself after a failure's pause.
	stats         sinks.QueueStats
	told, pausing bool
}

func newPeer(s *Sink, index int, address string) (*peer, error) {
	p := &peer{sink: s, index: index, name: s.o.Name + ":" + hostOf(address), options: s.o.HTTP, wakeUp: make(chan struct{}, 1)}
	p.options.Name, p.options.URL, p.options.Format = p.name, strings.TrimRight(address, "/")+path, sinks.JSON
	var err error
	p.sender, err = http.New(p.options)
	return p, err
}

func (p *peer) signal() {
	p.sink.mu.Lock()
	p.told = true
	p.sink.mu.Unlock()
	select {
	case p.wakeUp <- struct{}{}:
	default:
	}
}

// run sends what is due until the sink is closed or ctx ends.
func (p *peer) run(ctx context.Context) {
	s := p.sink
	const firstWait = time.Second
	wait := firstWait
	s.awaitStart(ctx)
	for ctx.Err() == nil {
		now := s.o.Clock.Now()
		s.mu.Lock()
		closing := s.closing
		p.told, p.pausing = false, false
		batch, next := s.book.due(p.index, now, maxBatch, closing)
		s.mu.Unlock()
		wake := p.wakeUp
		if len(batch) > 0 {
			err := p.send(ctx, batch)
			if err == nil {
				wait = firstWait
				continue
			}
			if ctx.Err() != nil {
				return
			}
			pause := wait - wait/3 + rand.N(wait/3+1)
			var later *sinks.RetryError
			if errors.As(err, &later) {
				pause = max(pause, min(later.After, s.o.Resend))
			}
			p.failed(err, pause)
			if closing {
				return
			}
			wait = min(2*wait, s.o.MaxBackoff)
			next, wake = s.o.Clock.Now().Add(pause), nil
		} else if closing {
			return
		}
		c, stop := s.o.Clock.At(next)
		select {
		case <-c:
		case <-wake:
		case <-s.stopped:
		case <-ctx.Done():
		}
		stop()
	}
}

// send posts alerts, and notes what became of each. Where the peer refuses some, they are looked for by halves: it has taken the others.
func (p *peer) send(ctx context.Context, batch []sending) error {
	wire := make([]alertJSON, len(batch))
	for i := range batch {
		wire[i] = batch[i].wire
	}
	body, err := json.Marshal(wire)
	if err != nil {
		err = sinks.Permanent(fmt.Errorf("encoding alerts: %w", err))
	} else {
		err = p.sender.Post(ctx, body)
	}
	var refused *sinks.PermanentError
	switch {
	case err == nil:
		p.took(batch)
		return nil
	case !errors.As(err, &refused):
		p.renew()
		return err
	case len(batch) == 1:
		p.refused(&batch[0], err)
		return nil
	}
	half := len(batch) / 2
	if err := p.send(ctx, batch[:half]); err != nil {
		return err
	}
	return p.send(ctx, batch[half:])
}

// renew reads the authorities again, which may have been replaced.
func (p *peer) renew() {
	if p.options.CAFile == "" {
		return
	}
	fresh, err := http.New(p.options)
	if err != nil {
		return // the file is being written, or gone: those read before stay
	}
	_ = p.sender.Close() // it drops idle connections only
	p.sender = fresh
}

func (p *peer) took(batch []sending) {
	s := p.sink
	now := s.o.Clock.Now()
	s.mu.Lock()
	for i := range batch {
		s.book.sent(p.index, &batch[i], now, false)
	}
	since := p.stats.FailingSince
	p.stats.FailingSince = time.Time{}
	p.stats.Sent += int64(len(batch))
	p.stats.LastSuccess = now
	hurry := s.book.hurry
	s.mu.Unlock()
	s.hasten(hurry)
	if !since.IsZero() {
		s.o.Log.Info().Str("peer", p.name).Msg("Alertmanager takes alerts again")
	}
}

func (p *peer) refused(one *sending, err error) {
	s := p.sink
	now := s.o.Clock.Now()
	s.mu.Lock()
	first := s.book.sent(p.index, one, now, true)
	p.stats.Failures++
	p.stats.Refused++
	s.mu.Unlock()
	if first {
		s.o.Log.Error().Err(err).Str("peer", p.name).Str("rule", one.alert.key.rule).Msg("Alertmanager refuses an alert")
	}
}

func (p *peer) failed(err error, pause time.Duration) {
	s := p.sink
	s.mu.Lock()
	p.pausing = true
	p.stats.Failures++
	first := p.stats.FailingSince.IsZero()
	if first {
		p.stats.FailingSince = s.o.Clock.Now()
		// It may have been started anew, and Alertmanager has alerts in memory alone.
		s.book.forget(p.index)
	}
	s.mu.Unlock()
	level := zerolog.DebugLevel // the first says it; metrics have the rest
	if first {
		level = zerolog.WarnLevel
	}
	s.o.Log.WithLevel(level).Err(err).Str("peer", p.name).Stringer("retryIn", pause).Msg("Alertmanager does not take alerts; they wait")
}
