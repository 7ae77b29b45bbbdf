package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	kafkago "github.com/segmentio/kafka-go"
)

// position is where a lane continues, as the store keeps it.
type position struct {
	Offset int64 `json:"offset"`
	// Last is the offset of the last message before Offset, and Sum a hash of what it is: by it a log is recognized. Sum is empty if none was read yet.
	Last int64  `json:"last,omitzero"`
	Sum  string `json:"sum,omitzero"`
}

func parsePosition(s string) (position, error) {
	p := position{Offset: -1}
	switch err := json.Unmarshal([]byte(s), &p); {
	case err != nil:
		return position{}, fmt.Errorf("the stored position %.60q: %w", s, err)
	case p.Offset < 0:
		return position{}, fmt.Errorf("the stored position %.60q has no offset", s)
	case p.Sum != "" && (p.Last < 0 || p.Last >= p.Offset):
		return position{}, fmt.Errorf("the stored position %.60q has its last message at offset %d", s, p.Last)
	}
	return p, nil
}

func (p position) String() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and a text
	}
	return string(b)
}

// after is the position after what was fetched.
func (p position) after(f *fetched) position {
	p.Offset = f.next
	if n := len(f.messages); n > 0 {
		p.Last, p.Sum = f.messages[n-1].offset, f.sum(n-1)
	}
	return p
}

// filled is how long it takes at the least to fill another log up to the position, at a message in a microsecond, which no partition takes.
func (p position) filled() time.Duration { return time.Duration(min(p.Offset, 1e9)) * time.Microsecond }

// sum is a hash of a message's time, key and value.
func (f *fetched) sum(nth int) string {
	m := &f.messages[nth]
	h := fnv.New64a()
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(m.at.UnixMilli()))
	binary.BigEndian.PutUint64(b[8:], uint64(len(m.key)))
	for _, part := range [][]byte{b[:], m.key, f.buf[m.from:m.to]} {
		_, _ = h.Write(part)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// errAnew says that the log is not the one that was read.
var errAnew = errors.New("the topic was deleted and created again, or its log truncated")

// recognize returns errAnew if another message is in the place of the last one that was read. A message that is no longer there, by retention or
// compaction, shows nothing. It asks for messages, and so must be called after an answer for the position itself: then the log is that long.
func (l *lane) recognize(ctx context.Context, at *position) error {
	if at.Sum == "" {
		return nil
	}
	buf := l.buffer()
	defer func() { l.recycle(buf, nil) }()
	f, err := l.s.fetch(ctx, l.topic, l.partition, at.Last, idleFetchBytes, 0, buf)
	if errors.Is(err, kafkago.OffsetOutOfRange) {
		first, last, err := l.s.bounds(ctx, l.topic, l.partition)
		if err == nil && at.Last >= first {
			err = fmt.Errorf("offset %d was out of range, but the log goes from %d to %d", at.Last, first, last)
		}
		return err
	}
	if err != nil {
		return err
	}
	buf = f.buf
	if len(f.messages) > 0 && f.messages[0].offset == at.Last && f.sum(0) != at.Sum {
		return errAnew
	}
	return nil
}
