package kafka

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/sinktest"
)

// topic is a Writer in memory. The suite runs on a real broker too, in pipeline/kafka.
type topic struct {
	mu           sync.Mutex
	failing      bool
	refusing     bool
	hanging      chan struct{}
	closed       bool
	keys, values [][]byte
}

type refusal struct{}

func (refusal) Error() string   { return "longer than the topic takes" }
func (refusal) Permanent() bool { return true }

func (w *topic) Write(ctx context.Context, keys, values [][]byte) error {
	w.mu.Lock()
	hanging := w.hanging
	w.mu.Unlock()
	if hanging != nil {
		select {
		case <-hanging:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case w.closed:
		return errors.New("closed")
	case w.failing:
		return errors.New("no leader")
	}
	for i := range values {
		if w.refusing && bytes.Contains(values[i], []byte(`"message":"`+sinktest.Poison+`"`)) {
			return refusal{}
		}
	}
	w.keys, w.values = append(w.keys, keys...), append(w.values, values...)
	return nil
}

func (w *topic) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return nil
}

func (w *topic) received(t *testing.T) []sinks.Finding {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []sinks.Finding
	for _, v := range w.values {
		var ev sinks.CloudEvent
		if err := json.Unmarshal(v, &ev); err != nil {
			t.Errorf("%v in %s", err, v)
			continue
		}
		if ev.SpecVersion != "1.0" || ev.ID == "" || ev.Source == "" || ev.Type != sinks.EventType || ev.DataContentType != "application/json" {
			t.Errorf("no CloudEvent: %s", v)
		}
		out = append(out, *ev.Data)
	}
	return out
}

func TestSuite(t *testing.T) {
	sinktest.Run(t, func(*testing.T) *sinktest.Sink {
		w := &topic{}
		set := func(f func()) {
			w.mu.Lock()
			defer w.mu.Unlock()
			f()
		}
		return &sinktest.Sink{
			Sender: NewSender("findings", w, sinks.CloudEvents), Received: w.received,
			Fail:   func(on bool) { set(func() { w.failing = on }) },
			Refuse: func() { set(func() { w.refusing = true }) },
			Hang: func(on bool) {
				set(func() {
					if on {
						w.hanging = make(chan struct{})
					} else if w.hanging != nil {
						close(w.hanging)
						w.hanging = nil
					}
				})
			},
		}
	})
}

func TestKeys(t *testing.T) {
	w := &topic{}
	findings := sinktest.Findings(2)
	findings[1].Node = ""
	if err := NewSender("findings", w, sinks.CloudEvents).Send(context.Background(), findings); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]byte{[]byte("worker-0"), nil}, w.keys); d != "" {
		t.Error(d)
	}
}
