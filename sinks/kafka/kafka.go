// Package kafka writes findings to a Kafka topic, one message each: as CloudEvents 1.0 in structured form (JSON), or in the terms of OCSF.
//
// What goes in: the findings of a queue; what comes out: messages, keyed by node so that one node's are in order, each delivered when the
// brokers have acknowledged it. The package imports sinks. The client is passed in: pipeline/kafka has one.
package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/nodetrail/nodetrail/sinks"
)

// ContentType is what the header content-type of each message in a format has to be, which is the Writer's to set: by it receivers know the form.
func ContentType(f sinks.Format) string {
	if f == sinks.CloudEvents {
		return "application/cloudevents+json; charset=UTF-8"
	}
	return "application/json"
}

// Writer writes messages to one topic.
type Writer interface {
	// Write writes messages with these keys and values and returns nil once the brokers have acknowledged all of them. After an error some may be
	// there. An error that has a method Permanent, which says true, is one that comes again however often the call is repeated.
	Write(ctx context.Context, keys, values [][]byte) error
	Close() error
}

// Sender writes to one topic. Its methods may be called concurrently.
type Sender struct {
	name   string
	w      Writer
	format sinks.Format
}

// NewSender returns a Sender of that name, which closes the Writer when it is closed.
func NewSender(name string, w Writer, format sinks.Format) *Sender {
	return &Sender{name: name, w: w, format: format}
}

// Name is the sink's.
func (s *Sender) Name() string { return s.name }

// Close closes the Writer.
func (s *Sender) Close() error { return s.w.Close() }

// Send writes the findings. Where some are refused for good, those alone are lost; the others may then be written twice, with the same id.
func (s *Sender) Send(ctx context.Context, findings []sinks.Finding) error {
	if len(findings) == 0 {
		return ctx.Err()
	}
	keys, values := make([][]byte, len(findings)), make([][]byte, len(findings))
	for i := range findings {
		b, err := s.format.Encode(&findings[i])
		if err != nil {
			return sinks.Permanent(fmt.Errorf("sink %s: %w", s.name, err))
		}
		// Without a node any partition will do.
		if findings[i].Node != "" {
			keys[i] = []byte(findings[i].Node)
		}
		values[i] = b
	}
	err := s.w.Write(ctx, keys, values)
	if err == nil || !permanent(err) || len(findings) == 1 {
		return s.wrap(err)
	}
	refused, why := 0, error(nil)
	for i := range findings {
		switch err := s.w.Write(ctx, keys[i:i+1], values[i:i+1]); {
		case err == nil:
		case permanent(err):
			refused, why = refused+1, err
		default:
			return s.wrap(err)
		}
	}
	if refused == 0 {
		return nil
	}
	return &sinks.PermanentError{Err: fmt.Errorf("sink %s: %w", s.name, why), Refused: refused}
}

// wrap says whose error it is, and whether it is for good.
func (s *Sender) wrap(err error) error {
	if err == nil {
		return nil
	}
	named := fmt.Errorf("sink %s: %w", s.name, err)
	if permanent(err) {
		return sinks.Permanent(named)
	}
	return named
}

func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}
