package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"
)

// fetchRequest asks for messages and leaves them compressed. kafka-go decompresses an answer as a whole, and whoever writes long events that compress
// well, such as a client with a long user agent, decides how much memory that takes.
type fetchRequest struct {
	*fetch.Request
	clientID string
	version  int16
}

// Required implements [protocol.RawExchanger].
func (r *fetchRequest) Required(versions map[protocol.ApiKey]int16) bool {
	r.version = versions[protocol.Fetch]
	return true
}

// fetchAnswer is an answer with its messages as the log has them.
type fetchAnswer struct {
	*fetch.Response
	records []byte
}

// RawExchange implements [protocol.RawExchanger]. A connection has one request at a time, so any number does for it.
func (r *fetchRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	const id = 1
	if err := protocol.WriteRequest(rw, r.version, id, r.clientID, r.Request); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	n := int64(binary.BigEndian.Uint32(head[:]))
	var all bytes.Buffer // it grows with what comes, whatever length is said
	all.Grow(int(min(n, int64(r.MaxBytes)+1<<10)))
	if _, err := io.CopyN(&all, rw, n); err != nil {
		return nil, err
	}
	d := &wire{b: all.Bytes()}
	if got := d.int32(); d.err == nil && got != id {
		return nil, fmt.Errorf("the answer to request %d, not %d", got, id)
	}
	answer := d.fetchAnswer(r.version)
	return answer, d.err
}

// wire reads the fields of an answer.
type wire struct {
	b   []byte
	err error
}

func (d *wire) next(n int) []byte {
	if n < 0 || n > len(d.b) {
		d.b, d.err = nil, errors.New("the answer is cut off")
	}
	if d.err != nil {
		return make([]byte, 8)
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

func (d *wire) int16() int16 { return int16(binary.BigEndian.Uint16(d.next(2))) }
func (d *wire) int32() int32 { return int32(binary.BigEndian.Uint32(d.next(4))) }
func (d *wire) int64() int64 { return int64(binary.BigEndian.Uint64(d.next(8))) }

// fetchAnswer reads the answer of a version from 4 to 11, about one partition.
func (d *wire) fetchAnswer(version int16) *fetchAnswer {
	a := &fetchAnswer{Response: &fetch.Response{ThrottleTimeMs: d.int32()}}
	if version >= 7 {
		a.ErrorCode, a.SessionID = d.int16(), d.int32()
	}
	if d.int32() == 0 || d.err != nil {
		return a
	}
	topic := fetch.ResponseTopic{Topic: string(d.next(int(d.int16())))}
	if d.int32() == 0 || d.err != nil {
		return a
	}
	p := fetch.ResponsePartition{Partition: d.int32(), ErrorCode: d.int16(), HighWatermark: d.int64(), LastStableOffset: d.int64()}
	if version >= 5 {
		p.LogStartOffset = d.int64()
	}
	for n := d.int32(); n > 0 && d.err == nil; n-- {
		p.AbortedTransactions = append(p.AbortedTransactions, fetch.ResponseTransaction{ProducerID: d.int64(), FirstOffset: d.int64()})
	}
	if version >= 11 {
		p.PreferredReadReplica = d.int32()
	}
	if n := int(d.int32()); n > 0 {
		a.records = d.next(n)
	}
	topic.Partitions = []fetch.ResponsePartition{p}
	a.Topics = []fetch.ResponseTopic{topic}
	return a
}

// readRaw reads the batches of an answer one after the other, until all they hold is more than so many bytes. used is how many of the bytes were read, and
// cut whether there are more.
func (f *fetched) readRaw(raw []byte, limit, offset int64, transactions []fetch.ResponseTransaction) (used int, cut bool, err error) {
	const head = 8 + 4 // the first offset, and the length of the rest
	a := newAborted(transactions)
	for len(raw)-used >= head {
		n := int(binary.BigEndian.Uint32(raw[used+8:])) + head
		if n > len(raw)-used {
			break // brokers may cut the last batch off
		}
		if f.bytes > limit {
			return used, true, nil
		}
		var one protocol.RecordSet
		length := binary.BigEndian.AppendUint32(make([]byte, 0, 4), uint32(n))
		if _, err := one.ReadFrom(io.MultiReader(bytes.NewReader(length), bytes.NewReader(raw[used:used+n]))); err != nil {
			return used, false, fmt.Errorf("reading a batch of messages: %w", err)
		}
		if err := f.read(one.Records, offset, a); err != nil {
			return used, false, err
		}
		used += n
	}
	return used, false, nil
}

var _ interface {
	kafkago.Request
	protocol.RawExchanger
	protocol.BrokerMessage
} = (*fetchRequest)(nil)
