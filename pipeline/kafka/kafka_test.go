package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/nodetrail/nodetrail/pipeline/source"
)

func TestOptions(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\nsecret"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(change func(*Options), want string) {
		t.Helper()
		opt := Options{Cluster: Cluster{Brokers: []string{"127.0.0.1:9092"}}, Topics: []string{"audit"}, Group: "nodetrail"}
		change(&opt)
		_, err := New(opt, zerolog.Nop())
		switch {
		case want == "" && err != nil:
			t.Error(err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("got %v, want %s", err, want)
		}
	}
	f(func(*Options) {}, "")
	f(func(o *Options) { o.Brokers = nil }, "brokers: at least one")
	f(func(o *Options) { o.Brokers = []string{"kafka"} }, `brokers: "kafka" is not host:port`)
	f(func(o *Options) { o.Topics = nil }, "topics: at least one")
	f(func(o *Options) { o.Topics = []string{"a", "b", "a"} }, `topics: "a" is there twice`)
	f(func(o *Options) { o.Topics = []string{"a/b"} }, `topics: "a/b" is no topic's name`)
	f(func(o *Options) { o.Topics = []string{".."} }, "is no topic's name")
	f(func(o *Options) { o.Group = "" }, "group: it is missing")
	f(func(o *Options) { o.StartOffset = "newest" }, `startOffset: "newest" is neither`)
	f(func(o *Options) { o.StartOffset = Latest }, "")
	f(func(o *Options) { o.DeadLetterTopic = "audit" }, "deadLetterTopic")
	f(func(o *Options) { o.DeadLetterTopic = "audit.dead" }, "")
	f(func(o *Options) { o.MaxWait = -1 }, "maxWait")
	f(func(o *Options) { o.FetchBytes = 10 }, "fetchBytes")
	f(func(o *Options) { o.MaxBytes = 1000 }, "maxBytes: 1000 is less")
	f(func(o *Options) { o.MaxMessages = -1 }, "negative")
	f(func(o *Options) { o.SASL.Username = "a" }, "sasl.mechanism")
	f(func(o *Options) { o.SASL = SASL{Mechanism: "GSSAPI"} }, `sasl.mechanism: "GSSAPI"`)
	f(func(o *Options) { o.SASL = SASL{Mechanism: SASLPlain} }, "sasl.username")
	f(func(o *Options) { o.SASL = SASL{Mechanism: SASLPlain, Username: "a"} }, "sasl.passwordFile")
	f(func(o *Options) { o.SASL = SASL{Mechanism: SASLPlain, Username: "a", PasswordFile: "missing"} }, "sasl.passwordFile: open missing")
	f(func(o *Options) { o.SASL = SASL{Mechanism: SASLPlain, Username: "a", PasswordFile: empty} }, "begins with an empty line")
	f(func(o *Options) { o.TLS.CAFile = "x" }, "tls: it is set up but not enabled")
	f(func(o *Options) { o.TLS = TLS{Enabled: true, CAFile: "missing"} }, "tls.caFile")
	f(func(o *Options) { o.TLS = TLS{Enabled: true, CAFile: empty} }, "no certificate in it")
	f(func(o *Options) { o.TLS = TLS{Enabled: true, CertFile: "x"} }, "one is missing")

	g := func(opt ProducerOptions, want string) {
		t.Helper()
		opt.Brokers = []string{"127.0.0.1:9092"}
		if _, err := NewProducer(opt, zerolog.Nop()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	g(ProducerOptions{}, "topic")
	g(ProducerOptions{Topic: "a", Compression: "brotli"}, "compression")
	g(ProducerOptions{Topic: "a", Linger: -1}, "negative")
}

func TestShare(t *testing.T) {
	members := []kafkago.GroupMember{{ID: "b", Topics: []string{"x", "y"}}, {ID: "a", Topics: []string{"x", "y"}}, {ID: "c", Topics: []string{"y"}}}
	got := share(members, map[string]int{"x": 3, "y": 2, "z": 1, "none": 0})
	want := kafkago.GroupMemberAssignments{
		"a": {"x": {0, 2}}, "b": {"x": {1}, "y": {0}}, "c": {"y": {1}},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// Topics of one partition each are spread too.
	got = share(members[:2], map[string]int{"x": 1, "y": 1})
	if d := cmp.Diff(kafkago.GroupMemberAssignments{"a": {"x": {0}}, "b": {"y": {0}}}, got); d != "" {
		t.Error(d)
	}
	var announced map[string]int
	b := &balancer{
		look:     func(context.Context) (map[string]int, error) { return nil, errors.New("no") },
		announce: func(_ context.Context, counts map[string]int) { announced = counts },
	}
	b.AssignGroups(members, []kafkago.Partition{{Topic: "x", ID: 1}, {Topic: "x", ID: 0}})
	if d := cmp.Diff(map[string]int{"x": 2}, b.take()); d != "" || len(announced) != 1 {
		t.Error(d, announced)
	}
	if b.take() != nil {
		t.Error("taken twice")
	}
}

func TestFence(t *testing.T) {
	at := func(epoch int64, id int32, member string) int64 {
		return fence(epoch, &generation{id: id, member: member})
	}
	last := int64(0)
	for _, f := range []int64{at(0, 1, "a"), at(0, 2, "b"), at(0, 1<<31-1, "a"), at(1, 1, "z"), at(1, 2, "a"), at(maxEpoch, 1<<31-1, "a")} {
		if f <= last {
			t.Errorf("%d after %d", f, last)
		}
		last = f
	}
	if at(0, 5, "a") == at(0, 5, "b") {
		t.Error("two members have one fence")
	}
}

func TestBudget(t *testing.T) {
	b := newBudget(100, 10)
	ctx, cancel := context.WithCancel(context.Background())
	if err := b.reserve(ctx, 1000); err != nil {
		t.Fatal("what is longer than all never comes:", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- b.reserve(ctx, 50) }()
	b.add(-940, 0)
	select {
	case err := <-waited:
		t.Error(err, "but 60 and 50 are more than 100")
	case <-time.After(10 * time.Millisecond):
	}
	b.add(-20, 10)
	b.add(0, -1)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	go func() { waited <- b.reserve(ctx, 50) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if bytes, messages := b.used(); bytes != 90 || messages != 9 {
		t.Error(bytes, messages)
	}
}

// TestTenure has batches done in another order than they were handed on.
func TestTenure(t *testing.T) {
	s, err := New(Options{Cluster: Cluster{Brokers: []string{"127.0.0.1:1"}}, Topics: []string{"t"}, Group: "g"}, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	tp := topicPartition{"t", 0}
	g := &generation{dirty: map[topicPartition]int64{}}
	ten := newTenure(newLane(s, g, tp))
	one, two, three := ten.add(item{next: 1}), ten.add(item{next: 2}), ten.add(item{next: 3})
	two(nil)
	if _, ok := g.dirty[tp]; ok {
		t.Error("committed before the first is stored")
	}
	one(nil)
	if g.dirty[tp] != 2 {
		t.Error(g.dirty)
	}
	drained := make(chan struct{})
	go func() {
		ten.drain(time.Hour)
		close(drained)
	}()
	three(source.ErrFenced)
	<-drained
	if g.dirty[tp] != 2 || !errors.Is(ten.lost(), source.ErrFenced) {
		t.Error(g.dirty, ten.lost())
	}
	ten = newTenure(newLane(s, g, tp))
	late := ten.add(item{next: 9})
	ten.drain(time.Nanosecond)
	ten.end()
	late(nil)
	if g.dirty[tp] != 2 {
		t.Error("committed after the lane was closed")
	}
}

func record(offset int64, value string) kafkago.Record {
	r := kafkago.Record{Offset: offset, Key: kafkago.NewBytes([]byte("k"))}
	if value != "" {
		r.Value = kafkago.NewBytes([]byte(value))
	}
	return r
}

func TestRead(t *testing.T) {
	batch := func(producer, base int64, attributes protocol.Attributes, records ...kafkago.Record) *protocol.RecordBatch {
		return &protocol.RecordBatch{ProducerID: producer, BaseOffset: base, Attributes: attributes, Records: kafkago.NewRecordReader(records...)}
	}
	marker := func(producer, offset int64, kind int16) *protocol.ControlBatch {
		c := protocol.NewControlBatch(protocol.ControlRecord{Offset: offset, Type: kind})
		c.ProducerID, c.BaseOffset = producer, offset
		return c
	}
	const tx = protocol.Transactional
	f := func(offset int64, aborted []fetch.ResponseTransaction, want string, next int64, batches ...protocol.RecordReader) {
		t.Helper()
		got := &fetched{next: offset}
		if err := got.read(&protocol.RecordStream{Records: batches}, offset, newAborted(aborted)); err != nil {
			t.Fatal(err)
		}
		var values []string
		for _, m := range got.messages {
			values = append(values, string(got.buf[m.from:m.to]))
		}
		if s := strings.Join(values, " "); s != want || got.next != next {
			t.Errorf("%q and on at %d, want %q and %d", s, got.next, want, next)
		}
	}
	f(7, nil, "", 7)
	f(7, nil, "b c", 10, batch(-1, 6, 0, record(6, "a"), record(7, "b"), record(9, "c")))
	f(0, nil, " x", 3, batch(-1, 0, 0, record(0, ""), record(2, "x")))
	// Nothing is left of the batch at 5; all before the next one was given.
	f(5, nil, "", 8, batch(3, 5, 0), batch(3, 8, 0))
	f(5, nil, "", 5, batch(3, 2, 0))
	f(0, []fetch.ResponseTransaction{{ProducerID: 2, FirstOffset: 4}, {ProducerID: 1, FirstOffset: 0}}, "b d f", 9,
		batch(1, 0, tx, record(0, "a")), batch(2, 1, tx, record(1, "b")), batch(1, 2, tx, record(2, "c")), marker(2, 3, 1),
		batch(2, 4, tx, record(4, "-")), marker(1, 5, 0), batch(1, 6, tx, record(6, "d")), marker(2, 7, 0), batch(2, 8, tx, record(8, "f")))
	// Not all of a transaction's producer's messages are transactional.
	f(0, []fetch.ResponseTransaction{{ProducerID: 1, FirstOffset: 0}}, "a", 1, batch(1, 0, 0, record(0, "a")))
	f(1, nil, "m", 2, &protocol.MessageSet{Records: kafkago.NewRecordReader(record(0, "l"), record(1, "m"))})
	if b := batches(nil); b != nil {
		t.Error(b)
	}
}

// answer is a set of messages as the log has it, each in a batch of its own.
func answer(t testing.TB, from int64, values ...string) (raw []byte) {
	t.Helper()
	for i, v := range values {
		var b bytes.Buffer
		records := kafkago.NewRecordReader(kafkago.Record{Value: kafkago.NewBytes([]byte(v))})
		set := protocol.RecordSet{Version: 2, Attributes: protocol.Attributes(kafkago.Zstd), Records: records}
		if _, err := set.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		one := b.Bytes()[4:]
		binary.BigEndian.PutUint64(one, uint64(from)+uint64(i)) // which the checksum leaves out
		raw = append(raw, one...)
	}
	return raw
}

// An answer is read up to a bound of what it holds decompressed, and continued behind that.
func TestReadInParts(t *testing.T) {
	const long = 10_000
	var values []string
	for i := range 20 {
		values = append(values, strings.Repeat(string(rune('a'+i)), long))
	}
	raw := answer(t, 5, values...)
	next, got, parts := int64(5), []string(nil), 0
	for cut := true; cut; parts++ {
		f := &fetched{next: next}
		var used int
		var err error
		if used, cut, err = f.readRaw(raw, 3*long, next, nil); err != nil {
			t.Fatal(err)
		}
		if len(f.messages) == 0 || f.bytes > 4*long || used > len(raw) || cut == (used == len(raw)) {
			t.Fatalf("%d messages, %d bytes, %d of %d used, cut %t", len(f.messages), f.bytes, used, len(raw), cut)
		}
		for _, m := range f.messages {
			got = append(got, string(f.buf[m.from:m.to]))
		}
		raw, next = raw[used:], f.next
	}
	if !slices.Equal(got, values) || next != 25 || parts != 5 {
		t.Errorf("%d messages up to %d in %d parts", len(got), next, parts)
	}
	f := &fetched{}
	if used, cut, err := f.readRaw(answer(t, 0, "whole", "cut off")[:100], 0, 0, nil); err != nil || cut || len(f.messages) != 1 || used == 0 {
		t.Errorf("of one that is cut off: %d messages, %d used, cut %t: %v", len(f.messages), used, cut, err)
	}
}

// FuzzAnswer is about what a broker may say.
func FuzzAnswer(f *testing.F) {
	f.Add(int16(11), slices.Concat(make([]byte, 10), []byte{0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1}, make([]byte, 40)))
	f.Add(int16(4), []byte{})
	f.Fuzz(func(t *testing.T, version int16, b []byte) {
		d := &wire{b: b}
		if a := d.fetchAnswer(version); len(a.records) > len(b) {
			t.Error("more than there is")
		}
		_, _, _ = new(fetched).readRaw(b, 1<<10, 0, nil)
	})
}

func FuzzParsePosition(f *testing.F) {
	for _, s := range []string{"", "{}", `{"offset":5}`, `{"offset":-1}`, `{"offset":"5"}`, `{"offset":9223372036854775807}`, "5", `{"offset":1e3}`, `{"offset":5,"last":4,"sum":"00"}`, `{"offset":5,"last":5,"sum":"00"}`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := parsePosition(s)
		if err != nil {
			return
		}
		if at.Offset < 0 || at.Sum != "" && (at.Last < 0 || at.Last >= at.Offset) {
			t.Errorf("%q: %+v", s, at)
		}
		if again, err := parsePosition(at.String()); err != nil || again != at {
			t.Errorf("%q: %+v, then %+v, %v", s, at, again, err)
		}
	})
}

// TestUnreachable is about brokers that are not there, or accept and say nothing.
func TestUnreachable(t *testing.T) {
	deaf, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = deaf.Close() })
	go func() {
		for {
			c, err := deaf.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(io.Discard, c) }()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = gone.Close()
	for name, address := range map[string]string{"deaf": deaf.Addr().String(), "gone": gone.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newStore().consume(t, quickOptions([]string{address}, "g", "t"), nil)
			eventually(t, "the failure", func() bool { return c.src.Stats().GroupErrors > 0 })
			c.shutdown(t)
		})
	}
}
