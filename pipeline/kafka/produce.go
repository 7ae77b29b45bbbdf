package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	kafkago "github.com/segmentio/kafka-go"
)

// ErrTooLarge says that a message is longer than the topic takes. Writing it again is in vain: the error has a method Permanent that says so.
var ErrTooLarge error = tooLargeError{}

type tooLargeError struct{}

func (tooLargeError) Error() string   { return "longer than the topic takes" }
func (tooLargeError) Permanent() bool { return true }

// Record is a message to be written.
type Record struct {
	// Key chooses the partition, by Java's default hash (murmur2), so that other producers agree. Records without one go to any.
	Key, Value []byte
	Headers    []Header
}

// Header is a header of a message.
type Header struct{ Key, Value string }

// size is the length of the record, about as brokers count it.
func (r *Record) size() int {
	n := len(r.Key) + len(r.Value) + 32
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value) + 8
	}
	return n
}

// ProducerOptions of a Producer. The zero value of a field means its default.
type ProducerOptions struct {
	Cluster
	// Topic is not created: that and its partitions are the operator's.
	Topic string
	// Compression is "none", "gzip", "snappy", "lz4", the default, or "zstd".
	Compression string
	// MaxMessageBytes bounds a message, 1,000,000 by default: brokers' message.max.bytes is a little more. BatchBytes bounds a batch of them
	// and is MaxMessageBytes by default.
	MaxMessageBytes int
	// Linger is how long a message waits for others to share a request with, 5 ms by default.
	Linger time.Duration
	// Timeout is how long brokers may take for one attempt, 10 s by default. Attempts that failed are repeated until the caller's context ends,
	// or so many Attempts were made, 20 by default: about half a minute without a broker.
	Timeout  time.Duration
	Attempts int
	// Headers go with each message.
	Headers []Header

	dial dialFunc
}

// Producer writes messages to one topic. It may be used concurrently.
//
// kafka-go has no idempotent producer: when an answer is lost, messages are written again and may be there twice. Audit events count once by
// their auditID all the same. Of one key, messages of one caller are written in order.
type Producer struct {
	opt    ProducerOptions
	writer *kafkago.Writer

	messages, bytes, failures, retries atomic.Int64
}

// ProducerStats says what a Producer has done.
type ProducerStats struct {
	// Messages and Bytes were acknowledged by the brokers; Failures counts the messages that were not.
	Messages, Bytes, Failures int64
	// Retries counts attempts beyond the first.
	Retries int64
}

// NewProducer returns a producer, or what is wrong with the options. It does not connect yet.
func NewProducer(opt ProducerOptions, log zerolog.Logger) (*Producer, error) {
	if err := opt.Cluster.validate(); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	if err := validTopic(opt.Topic); err != nil {
		return nil, fmt.Errorf("kafka: topic: %w", err)
	}
	if opt.Compression == "" {
		opt.Compression = "lz4"
	}
	var compression kafkago.Compression
	if opt.Compression != "none" {
		if err := compression.UnmarshalText([]byte(opt.Compression)); err != nil || compression == 0 {
			return nil, fmt.Errorf("kafka: compression: %q is none of none, gzip, snappy, lz4, zstd", opt.Compression)
		}
	}
	if opt.MaxMessageBytes == 0 {
		opt.MaxMessageBytes = 1_000_000
	}
	if opt.Linger == 0 {
		opt.Linger = 5 * time.Millisecond
	}
	if opt.Timeout == 0 {
		opt.Timeout = 10 * time.Second
	}
	if opt.Attempts == 0 {
		opt.Attempts = 20
	}
	if opt.MaxMessageBytes < 0 || opt.Linger < 0 || opt.Timeout < 0 || opt.Attempts < 0 {
		return nil, errors.New("kafka: maxMessageBytes, linger, timeout and attempts must not be negative")
	}
	if opt.dial == nil {
		opt.dial = opt.Cluster.dial
	}
	p := &Producer{opt: opt}
	p.writer = &kafkago.Writer{
		Addr: kafkago.TCP(opt.Brokers...), Topic: opt.Topic, Balancer: kafkago.Murmur2Balancer{},
		RequiredAcks: kafkago.RequireAll, Compression: compression,
		BatchSize: 10_000, BatchBytes: int64(opt.MaxMessageBytes), BatchTimeout: opt.Linger,
		ReadTimeout: opt.Timeout, WriteTimeout: opt.Timeout,
		MaxAttempts: 1, // Produce repeats them
		Transport:   opt.transport(opt.dial, []string{opt.Topic}),
		ErrorLogger: kafkago.LoggerFunc(func(format string, args ...any) { log.Debug().Msgf("kafka-go: "+format, args...) }),
	}
	return p, nil
}

// Produce writes the records and returns nil when all in-sync replicas have all of them. After an error, some may have been written; the caller
// repeats the call or tells its own caller to. If a record is longer than MaxMessageBytes it returns ErrTooLarge at once and writes none.
// The records' memory must be left alone for good: after an error an attempt may still be under way.
func (p *Producer) Produce(ctx context.Context, records ...Record) error {
	if len(records) == 0 {
		return nil
	}
	messages := make([]kafkago.Message, len(records))
	var bytes int64
	fixed := Record{Headers: p.opt.Headers}
	for i := range records {
		r := &records[i]
		if n := r.size() + fixed.size(); n > p.opt.MaxMessageBytes {
			return fmt.Errorf("kafka: message %d of %d, %d bytes long: %w", i+1, len(records), n, ErrTooLarge)
		}
		messages[i] = kafkago.Message{Key: r.Key, Value: r.Value}
		for _, h := range slices.Concat(p.opt.Headers, r.Headers) {
			messages[i].Headers = append(messages[i].Headers, kafkago.Header{Key: h.Key, Value: []byte(h.Value)})
		}
		bytes += int64(len(r.Key) + len(r.Value))
	}
	all := len(messages)
	for attempt, pause := 1, 100*time.Millisecond; ; attempt, pause = attempt+1, min(2*pause, 2*time.Second) {
		err := p.writer.WriteMessages(ctx, messages...)
		if err == nil {
			break
		}
		messages = unwritten(messages, err)
		err = first(err)
		if attempt == p.opt.Attempts || !passing(err) || !wait(ctx, pause) {
			p.failures.Add(int64(len(messages)))
			if errors.Is(err, kafkago.MessageSizeTooLarge) {
				err = fmt.Errorf("%w: %w", ErrTooLarge, err)
			}
			return fmt.Errorf("kafka: writing %d messages to %s, %d of them in vain: %w", all, p.opt.Topic, len(messages), err)
		}
		p.retries.Add(1)
	}
	p.messages.Add(int64(all))
	p.bytes.Add(bytes)
	return nil
}

// Write is Produce with keys and values apart, for callers that know no Record.
func (p *Producer) Write(ctx context.Context, keys, values [][]byte) error {
	records := make([]Record, len(values))
	for i := range values {
		records[i] = Record{Key: keys[i], Value: values[i]}
	}
	return p.Produce(ctx, records...)
}

// unwritten returns the messages that were not written.
func unwritten(messages []kafkago.Message, err error) []kafkago.Message {
	var each kafkago.WriteErrors
	if !errors.As(err, &each) || len(each) != len(messages) {
		return messages
	}
	var left []kafkago.Message
	for i, e := range each {
		if e != nil {
			left = append(left, messages[i])
		}
	}
	return left
}

// first is the first error of one message, where there is one for each.
func first(err error) error {
	var each kafkago.WriteErrors
	if errors.As(err, &each) {
		for _, e := range each {
			if e != nil {
				return e
			}
		}
	}
	return err
}

// passing is whether another attempt may end better. kafka-go itself gives up when a partition has no leader for a moment.
func passing(err error) bool {
	for _, final := range []error{
		context.Canceled, io.ErrClosedPipe, kafkago.MessageSizeTooLarge, kafkago.RecordListTooLarge, kafkago.InvalidTopic, kafkago.InvalidRecord,
		kafkago.TopicAuthorizationFailed, kafkago.ClusterAuthorizationFailed, kafkago.SASLAuthenticationFailed, kafkago.UnsupportedSASLMechanism,
		kafkago.UnsupportedCompressionType, kafkago.InvalidRequiredAcks, kafkago.PolicyViolation,
	} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// Reach asks the brokers for the topic, and returns nil when they know it and all of its partitions have a leader: only then can Produce work.
func (p *Producer) Reach(ctx context.Context) error {
	topic := p.opt.Topic
	client := &kafkago.Client{Addr: p.writer.Addr, Transport: p.writer.Transport, Timeout: p.opt.Timeout}
	meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return fmt.Errorf("kafka: looking for the topic %s: %w", topic, err)
	}
	for _, t := range meta.Topics {
		if t.Name != topic {
			continue
		}
		if t.Error != nil {
			return fmt.Errorf("kafka: looking for the topic %s: %w", topic, t.Error)
		}
		for _, part := range t.Partitions {
			if part.Leader.Host == "" {
				return fmt.Errorf("kafka: partition %d of the topic %s has no leader", part.ID, topic)
			}
		}
		if len(t.Partitions) > 0 {
			return nil
		}
	}
	return fmt.Errorf("kafka: the brokers have no topic %s", topic)
}

// Stats may be called at any time.
func (p *Producer) Stats() ProducerStats {
	return ProducerStats{
		Messages: p.messages.Load(), Bytes: p.bytes.Load(), Failures: p.failures.Load(), Retries: p.retries.Load(),
	}
}

// Close waits for messages under way and closes the connections.
func (p *Producer) Close() error {
	err := p.writer.Close()
	p.writer.Transport.(*kafkago.Transport).CloseIdleConnections()
	if err != nil {
		return fmt.Errorf("kafka: closing the producer of %s: %w", p.opt.Topic, err)
	}
	return nil
}
