package jsonl

import (
	"context"

	"github.com/nodetrail/nodetrail/sinks"
)

// Sender writes findings to a File, a line each, in a format of its own.
type Sender struct {
	name   string
	file   *File
	format sinks.Format
	buf    []byte
}

// NewSender returns a Sender to the file, which it closes with itself.
func NewSender(name string, file *File, format sinks.Format) *Sender {
	return &Sender{name: name, file: file, format: format}
}

// Name is the sink's.
func (s *Sender) Name() string { return s.name }

// Send appends the findings, all or none.
func (s *Sender) Send(ctx context.Context, findings []sinks.Finding) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.buf = s.buf[:0]
	for i := range findings {
		b, err := s.format.Encode(&findings[i])
		if err != nil {
			return sinks.Permanent(err)
		}
		s.buf = append(append(s.buf, b...), '\n')
	}
	_, err := s.file.Write(s.buf)
	return err
}

// Close closes the file.
func (s *Sender) Close() error { return s.file.Close() }
