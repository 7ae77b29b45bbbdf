package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// message is one message's place in a fetched buffer.
type message struct {
	offset   int64
	at       time.Time
	from, to int // of its value
	key      []byte
}

// fetched is the answer to one request. buf is not changed after.
type fetched struct {
	buf      []byte
	messages []message
	// next is the offset to resume at.
	next int64
	// end is where the messages end that may be read by now: the high watermark, or the first open transaction.
	end int64
	// start is the first offset that the log still has; high is the high watermark.
	start, high int64
	// bytes counts keys and values.
	bytes int64
	// used is how many bytes of the answer, as the log has them, were read, and cut whether there were more.
	used int
	cut  bool
}

// fetchMargin is how much longer than the broker's own wait an answer is waited for.
const fetchMargin = 10 * time.Second

// fetch asks the partition's leader for messages from offset on. Only what is committed, in transactions too, is returned. maxBytes bounds what is asked for,
// and limit what is read of it, decompressed: both but for one batch.
func (s *Source) fetch(ctx context.Context, topic string, partition int, offset int64, maxBytes int, limit int64, buf []byte) (*fetched, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.MaxWait+fetchMargin)
	defer cancel()
	client := s.client()
	m, err := client.Transport.RoundTrip(ctx, client.Addr, &fetchRequest{clientID: s.opt.clientID(), Request: &fetch.Request{
		ReplicaID: -1, MaxWaitTime: int32(s.opt.MaxWait.Milliseconds()), MinBytes: 1, MaxBytes: int32(maxBytes),
		IsolationLevel: int8(kafkago.ReadCommitted), SessionID: 0, SessionEpoch: -1,
		Topics: []fetch.RequestTopic{{Topic: topic, Partitions: []fetch.RequestPartition{{
			Partition: int32(partition), CurrentLeaderEpoch: -1, FetchOffset: offset, LogStartOffset: -1, PartitionMaxBytes: int32(maxBytes),
		}}}},
	}})
	if err != nil {
		return nil, err
	}
	res, ok := m.(*fetchAnswer)
	if !ok {
		return nil, fmt.Errorf("an answer of type %T", m)
	}
	if res.ErrorCode != 0 {
		return nil, kafkago.Error(res.ErrorCode)
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer is not about the one partition that was asked for")
	}
	p := &res.Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return nil, kafkago.Error(p.ErrorCode)
	}
	f := &fetched{buf: buf[:0], next: offset, end: p.HighWatermark, high: p.HighWatermark, start: p.LogStartOffset}
	if p.LastStableOffset >= 0 {
		f.end = min(f.end, p.LastStableOffset)
	}
	f.used, f.cut, err = f.readRaw(res.records, limit, offset, p.AbortedTransactions)
	return f, err
}

// aborted are transactions that were not committed.
type aborted struct {
	next []fetch.ResponseTransaction // by their first offset
	open map[int64]bool              // producers, by ID
}

// newAborted takes those of an answer. Brokers list each once, a producer's markers are in the log.
func newAborted(transactions []fetch.ResponseTransaction) *aborted {
	slices.SortFunc(transactions, func(a, b fetch.ResponseTransaction) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return &aborted{next: transactions, open: map[int64]bool{}}
}

// read copies the messages out of the records. Aborted transactions, markers and what lies before the offset are left out. Offsets may have
// holes, where a topic is compacted.
func (f *fetched) read(records kafkago.RecordReader, offset int64, not *aborted) error {
	for _, batch := range batches(records) {
		keep := true
		switch b := batch.(type) {
		case *protocol.ControlBatch:
			if err := f.control(b, not.open); err != nil {
				return err
			}
			continue
		case *protocol.RecordBatch:
			for len(not.next) > 0 && not.next[0].FirstOffset <= b.BaseOffset {
				not.open[not.next[0].ProducerID] = true
				not.next = not.next[1:]
			}
			keep = !b.Attributes.Transactional() || !not.open[b.ProducerID]
			// All before this batch was given, be it that compaction has left nothing of it.
			f.next = max(f.next, b.BaseOffset)
		}
		for {
			r, err := batch.ReadRecord()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("reading a batch of messages: %w", err)
			}
			if err := f.record(r, keep && r.Offset >= offset); err != nil {
				return err
			}
		}
	}
	return nil
}

// batches returns the batches of an answer.
func batches(records kafkago.RecordReader) []protocol.RecordReader {
	switch r := records.(type) {
	case nil:
		return nil
	case *protocol.RecordStream:
		return r.Records
	default:
		return []protocol.RecordReader{r}
	}
}

// control steps over a batch of markers and takes note of those that end aborted transactions.
func (f *fetched) control(b *protocol.ControlBatch, aborted map[int64]bool) error {
	for {
		r, err := b.ReadRecord()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading a transaction's marker: %w", err)
		}
		f.next = max(f.next, r.Offset+1)
		// A marker's key is its version and its type, of which 0 is an abort.
		key, err := protocol.ReadAll(r.Key)
		if err := errors.Join(err, closeRecord(r)); err != nil {
			return fmt.Errorf("reading a transaction's marker: %w", err)
		}
		if len(key) >= 4 && key[2] == 0 && key[3] == 0 {
			delete(aborted, b.ProducerID)
		}
	}
}

// record takes one message in, if it is to be kept.
func (f *fetched) record(r *kafkago.Record, keep bool) error {
	f.next = max(f.next, r.Offset+1)
	if !keep {
		return closeRecord(r)
	}
	m := message{offset: r.Offset, at: r.Time, from: len(f.buf)}
	if r.Value != nil {
		n := r.Value.Len()
		f.buf = slices.Grow(f.buf, n)[:len(f.buf)+n]
		if _, err := io.ReadFull(r.Value, f.buf[m.from:]); err != nil {
			return errors.Join(fmt.Errorf("reading the message at offset %d: %w", r.Offset, err), closeRecord(r))
		}
	}
	m.to = len(f.buf)
	if r.Key != nil {
		key, err := protocol.ReadAll(r.Key)
		if err != nil {
			return errors.Join(fmt.Errorf("reading the key at offset %d: %w", r.Offset, err), closeRecord(r))
		}
		m.key = key
	}
	f.bytes += int64(m.to - m.from + len(m.key))
	f.messages = append(f.messages, m)
	return closeRecord(r)
}

func closeRecord(r *kafkago.Record) error {
	var errs [2]error
	if r.Key != nil {
		errs[0] = r.Key.Close()
	}
	if r.Value != nil {
		errs[1] = r.Value.Close()
	}
	return errors.Join(errs[:]...)
}

// bounds asks for the first offset of a partition and the one after its last.
func (s *Source) bounds(ctx context.Context, topic string, partition int) (first, last int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, fetchMargin)
	defer cancel()
	res, err := s.client().ListOffsets(ctx, &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{
		topic: {kafkago.FirstOffsetOf(partition), kafkago.LastOffsetOf(partition)},
	}})
	if err != nil {
		return 0, 0, fmt.Errorf("asking for the bounds of %s/%d: %w", topic, partition, err)
	}
	for _, p := range res.Topics[topic] {
		if p.Partition != partition {
			continue
		}
		if p.Error != nil {
			return 0, 0, fmt.Errorf("asking for the bounds of %s/%d: %w", topic, partition, p.Error)
		}
		if p.FirstOffset < 0 || p.LastOffset < p.FirstOffset {
			break
		}
		return p.FirstOffset, p.LastOffset, nil
	}
	return 0, 0, fmt.Errorf("asking for the bounds of %s/%d: the answer does not tell", topic, partition)
}

// committed asks for the offset that the group has committed, -1 if there is none.
func (s *Source) committed(ctx context.Context, topic string, partition int) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchMargin)
	defer cancel()
	res, err := s.client().OffsetFetch(ctx, &kafkago.OffsetFetchRequest{GroupID: s.opt.Group, Topics: map[string][]int{topic: {partition}}})
	if err == nil {
		err = res.Error
	}
	if err != nil {
		return 0, fmt.Errorf("asking for the group's offset of %s/%d: %w", topic, partition, err)
	}
	for _, p := range res.Topics[topic] {
		if p.Partition != partition {
			continue
		}
		if p.Error != nil {
			return 0, fmt.Errorf("asking for the group's offset of %s/%d: %w", topic, partition, p.Error)
		}
		return p.CommittedOffset, nil
	}
	return 0, fmt.Errorf("asking for the group's offset of %s/%d: the answer does not tell", topic, partition)
}
