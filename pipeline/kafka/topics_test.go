package kafka

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// firstOffset is where the log of a partition begins.
func firstOffset(a *kafkago.Client, topic string) int64 {
	res, err := a.ListOffsets(context.Background(), &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: {kafkago.FirstOffsetOf(0)}}})
	if err != nil || len(res.Topics[topic]) == 0 || res.Topics[topic][0].Error != nil {
		return -1
	}
	return res.Topics[topic][0].FirstOffset
}

func testRetention(t *testing.T, brokers []string) {
	createTopic(t, brokers, "retention", 1, 1, map[string]string{"retention.ms": "1", "segment.ms": "1", "file.delete.delay.ms": "1"})
	st := newStore()
	st.lane("kafka:retention/0").position = position{Offset: 3}.String()
	for i := range 10 {
		produce(t, brokers, "retention", fmt.Sprint("gone-", i))
	}
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	eventually(t, "the retention", func() bool { return firstOffset(a, "retention") == 10 })
	if res, err := a.IncrementalAlterConfigs(context.Background(), &kafkago.IncrementalAlterConfigsRequest{Resources: []kafkago.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafkago.ResourceTypeTopic, ResourceName: "retention", Configs: []kafkago.IncrementalAlterConfigsRequestConfig{
			{Name: "retention.ms", Value: "-1", ConfigOperation: kafkago.ConfigOperationSet},
		},
	}}}); err != nil || res.Resources[0].Error != nil {
		t.Fatal(err, res)
	}
	var mu sync.Mutex
	var gaps []Gap
	opt := quickOptions(brokers, "retention", "retention")
	opt.OnGap = func(g Gap) {
		mu.Lock()
		defer mu.Unlock()
		gaps = append(gaps, g)
	}
	st.consume(t, opt, nil)
	eventually(t, "the gap", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(gaps) > 0
	})
	produce(t, brokers, "retention", "kept")
	wantCounted(t, st, map[string]int{"kept": 1})
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]Gap{{Topic: "retention", From: 3, To: 10}}, gaps); d != "" {
		t.Error(d)
	}
}

// testMadeAnew is about a topic that is deleted and created again, and has more messages by then than were read of the old one: while nobody reads it, and
// while somebody does. What was not deleted is not taken for another log, be it read from another place.
func testMadeAnew(t *testing.T, brokers []string) {
	createTopic(t, brokers, "anew", 1, 1, nil)
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	var mu sync.Mutex
	var gaps []Gap
	told := func() []Gap {
		mu.Lock()
		defer mu.Unlock()
		return append([]Gap(nil), gaps...)
	}
	opt := quickOptions(brokers, "anew", "anew")
	opt.OnGap = func(g Gap) {
		mu.Lock()
		defer mu.Unlock()
		gaps = append(gaps, g)
	}
	st := newStore()
	var all []string
	write := func(prefix string, n int) {
		t.Helper()
		fresh := ids(prefix, 0, n)
		all = append(all, fresh...)
		produce(t, brokers, "anew", fresh...)
	}
	again := func(prefix string, n int) {
		t.Helper()
		eventually(t, "the deletion", func() bool {
			res, err := a.DeleteTopics(context.Background(), &kafkago.DeleteTopicsRequest{Topics: []string{"anew"}})
			return err == nil && (res.Errors["anew"] == nil || errors.Is(res.Errors["anew"], kafkago.UnknownTopicOrPartition))
		})
		eventually(t, "the topic", func() bool {
			res, err := a.CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{Topics: []kafkago.TopicConfig{{Topic: "anew", NumPartitions: 1, ReplicationFactor: 1}}})
			return err == nil && res.Errors["anew"] == nil
		})
		write(prefix, n)
	}
	write("first", 5)
	c := st.consume(t, opt, nil)
	wantCounted(t, st, once(all))
	c.shutdown(t)
	write("more", 5)
	c = st.consume(t, opt, nil)
	wantCounted(t, st, once(all))
	c.shutdown(t)
	if len(told()) > 0 {
		t.Fatalf("the same log: %v", told())
	}
	again("while stopped", 20)
	c = st.consume(t, opt, nil)
	wantCounted(t, st, once(all))
	want := []Gap{{Topic: "anew", From: 10, To: 0}}
	if d := cmp.Diff(want, told()); d != "" {
		t.Error(d)
	}
	// Often so fast that no request fails meanwhile.
	for last := 20; last < 160; last *= 2 {
		again(fmt.Sprint("while running ", last), 2*last)
		wantCounted(t, st, once(all))
		want = append(want, Gap{Topic: "anew", From: int64(last), To: 0})
		if d := cmp.Diff(want, told()); d != "" {
			t.Error(d)
		}
	}
	c.shutdown(t)
}

// transactional is a batch of messages of a transaction, as kafka-go itself cannot write it.
func transactional(t *testing.T, producer *kafkago.ProducerSession, sequence int, ids ...string) protocol.RawRecordSet {
	t.Helper()
	var records []kafkago.Record
	for _, id := range ids {
		records = append(records, kafkago.Record{Time: time.Now(), Value: kafkago.NewBytes(event(id))})
	}
	set := protocol.RecordSet{Version: 2, Attributes: protocol.Transactional, Records: kafkago.NewRecordReader(records...)}
	var buf bytes.Buffer
	if _, err := set.WriteTo(&buf); err != nil {
		t.Fatal(err)
	}
	b := buf.Bytes()
	batch := b[4:]
	binary.BigEndian.PutUint64(batch[43:], uint64(producer.ProducerID))
	binary.BigEndian.PutUint16(batch[51:], uint16(producer.ProducerEpoch))
	binary.BigEndian.PutUint32(batch[53:], uint32(sequence))
	binary.BigEndian.PutUint32(batch[17:], crc32.Checksum(batch[21:], crc32.MakeTable(crc32.Castagnoli)))
	return protocol.RawRecordSet{Reader: bytes.NewReader(b)}
}

func testTransactions(t *testing.T, brokers []string) {
	createTopic(t, brokers, "transactions", 1, 1, nil)
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	ctx := context.Background()
	st := newStore()
	c := st.consume(t, quickOptions(brokers, "transactions", "transactions"), nil)
	sessions := map[string]*kafkago.ProducerSession{}
	sequence := map[string]int{}
	begin := func(id string) {
		eventually(t, "a producer's ID", func() bool {
			if sessions[id] == nil {
				res, err := a.InitProducerID(ctx, &kafkago.InitProducerIDRequest{TransactionalID: id, TransactionTimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
				if err != nil || res.Error != nil {
					return false
				}
				sessions[id] = res.Producer
			}
			res, err := a.AddPartitionsToTxn(ctx, &kafkago.AddPartitionsToTxnRequest{
				TransactionalID: id, ProducerID: sessions[id].ProducerID, ProducerEpoch: sessions[id].ProducerEpoch,
				Topics: map[string][]kafkago.AddPartitionToTxn{"transactions": {{Partition: 0}}},
			})
			return err == nil && res.Topics["transactions"][0].Error == nil
		})
	}
	write := func(id string, events ...string) {
		set := transactional(t, sessions[id], sequence[id], events...)
		res, err := a.RawProduce(ctx, &kafkago.RawProduceRequest{Topic: "transactions", RequiredAcks: kafkago.RequireAll, TransactionalID: id, RawRecords: set})
		if err != nil || res.Error != nil {
			t.Fatalf("%v %+v", err, res)
		}
		sequence[id] += len(events)
	}
	end := func(id string, commit bool) {
		eventually(t, "the transaction's end", func() bool {
			res, err := a.EndTxn(ctx, &kafkago.EndTxnRequest{TransactionalID: id, ProducerID: sessions[id].ProducerID, ProducerEpoch: sessions[id].ProducerEpoch, Committed: commit})
			return err == nil && res.Error == nil
		})
		// Since transactions of the second version each has an epoch of its own; a new session fits all.
		sessions[id], sequence[id] = nil, 0
	}
	produce(t, brokers, "transactions", "plain-1")
	begin("one")
	write("one", "aborted-1", "aborted-2")
	begin("two")
	write("two", "committed-1")
	produce(t, brokers, "transactions", "plain-2")
	write("one", "aborted-3")
	// What follows an open transaction is not to be read yet.
	eventually(t, "the end of what may be read", func() bool { return c.src.Stats().Partitions != nil && c.src.Stats().Partitions[0].HighWatermark >= 6 })
	wantCounted(t, st, map[string]int{"plain-1": 1})
	end("one", false)
	end("two", true)
	wantCounted(t, st, map[string]int{"plain-1": 1, "committed-1": 1, "plain-2": 1})
	begin("one")
	write("one", "committed-2")
	end("one", true)
	begin("two")
	write("two", "aborted-4")
	end("two", false)
	wantCounted(t, st, map[string]int{"plain-1": 1, "committed-1": 1, "plain-2": 1, "committed-2": 1})
	// The position continues over the markers, so that nothing seems to lag.
	eventually(t, "the end of the log", func() bool {
		p := c.src.Stats().Partitions[0]
		return p.Lag == 0 && p.Stored == 12
	})
	c.shutdown(t)
	// All at once, from the middle too: from each offset the same as a plain reader in between.
	for from, want := range map[int64]int{0: 4, 1: 3, 2: 3, 3: 3, 4: 2, 5: 1, 9: 0} {
		st := newStore()
		st.lane("kafka:transactions/0").position = position{Offset: from}.String()
		c := st.consume(t, quickOptions(brokers, fmt.Sprint("transactions-", from), "transactions"), nil)
		eventually(t, "the end of the log", func() bool {
			s := c.src.Stats()
			return len(s.Partitions) == 1 && s.Partitions[0].Stored == 12
		})
		if n := st.total(); n != want {
			t.Errorf("from %d on: %v, want %d", from, st.got(), want)
		}
		c.shutdown(t)
	}
}

func testCompaction(t *testing.T, brokers []string) {
	createTopic(t, brokers, "compacted", 1, 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "0", "min.compaction.lag.ms": "0",
	})
	w := kafkago.Writer{Addr: kafkago.TCP(brokers...), Topic: "compacted", RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond}
	defer w.Close()
	write := func(key, id string) {
		var value []byte
		if id != "" {
			value = event(id)
		}
		eventually(t, "writing", func() bool {
			return w.WriteMessages(context.Background(), kafkago.Message{Key: []byte(key), Value: value}) == nil
		})
	}
	for i := range 20 {
		write(fmt.Sprint("key-", i%3), fmt.Sprint("v-", i))
	}
	write("key-0", "")
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	// New segments and so the cleaner need new messages.
	n := 0
	eventually(t, "the compaction", func() bool {
		n++
		write("late", fmt.Sprint("late-", n))
		offsets := []int64{}
		res, err := a.Fetch(context.Background(), &kafkago.FetchRequest{Topic: "compacted", Offset: 0, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond})
		if err != nil || res.Error != nil {
			return false
		}
		for {
			r, err := res.Records.ReadRecord()
			if err != nil {
				break
			}
			offsets = append(offsets, r.Offset)
		}
		return len(offsets) > 0 && offsets[0] > 5
	})
	st := newStore()
	c := st.consume(t, quickOptions(brokers, "compacted", "compacted"), nil)
	eventually(t, "the last message", func() bool { return st.got()[fmt.Sprint("late-", n)] == 1 })
	got := st.got()
	for id, count := range got {
		if count != 1 {
			t.Errorf("%s: %d", id, count)
		}
	}
	if got["v-19"] != 1 || got["v-17"] != 1 || got["v-0"] != 0 {
		t.Errorf("%v", got)
	}
	if c.src.Stats().Gaps != 0 {
		t.Error("a hole is taken for a gap")
	}
}

func testPrefetch(t *testing.T, brokers []string) {
	createTopic(t, brokers, "prefetch", 8, 1, nil)
	all := ids("prefetch", 0, 6000)
	// Short batches of messages, since brokers send whole ones.
	p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: "prefetch", Compression: "none", MaxMessageBytes: 8 << 10}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var records []Record
	for _, id := range all {
		records = append(records, Record{Key: []byte(id), Value: event(id)})
	}
	eventually(t, "writing", func() bool { return p.Produce(context.Background(), records...) == nil })
	st := newStore()
	opt := quickOptions(brokers, "prefetch", "prefetch")
	opt.FetchBytes, opt.MaxBytes, opt.MaxMessages = 16<<10, 64<<10, 150
	c := st.consume(t, opt, nil)
	c.freeze(true)
	// An answer to each partition may come on top of the bounds: one that was asked for before they were reached.
	eventually(t, "the bound", func() bool {
		return c.src.Stats().PrefetchMessages >= opt.MaxMessages || c.src.Stats().PrefetchBytes >= opt.MaxBytes/2
	})
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		s := c.src.Stats()
		if s.PrefetchBytes > opt.MaxBytes+8*(idleFetchBytes+16<<10) || s.PrefetchMessages > opt.MaxMessages+8*200 {
			t.Fatalf("%+v", s)
		}
	}
	if s := c.src.Stats(); s.PrefetchMessages > 3000 {
		t.Errorf("half of all is in memory: %+v", s)
	}
	c.freeze(false)
	wantCounted(t, st, once(all))
}

// testCompressible reads many long events that are nearly nothing when compressed, as of a client whose user agent is long: one answer holds all of them.
func testCompressible(t *testing.T, brokers []string) {
	createTopic(t, brokers, "compressible", 1, 1, nil)
	p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: "compressible", Compression: "zstd"}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	const long = 200_000
	all := ids("long", 0, 200)
	for _, id := range all {
		value := append(event(id), bytes.Repeat([]byte(" "), long)...)
		eventually(t, "writing", func() bool { return p.Produce(context.Background(), Record{Value: value}) == nil })
	}
	st := newStore()
	opt := quickOptions(brokers, "compressible", "compressible")
	opt.FetchBytes, opt.MaxBytes = 256<<10, 2<<20
	c := st.consume(t, opt, nil)
	c.freeze(true)
	eventually(t, "the bound", func() bool { return c.src.Stats().PrefetchBytes > opt.MaxBytes/2 })
	for range 20 {
		time.Sleep(10 * time.Millisecond)
		// A batch comes on top of the bound of an answer, and an answer on top of all.
		if n, most := c.src.Stats().PrefetchBytes, opt.MaxBytes+2*(int64(opt.FetchBytes)+2*long); n > most {
			t.Fatalf("%d bytes are in memory, of %d at most", n, most)
		}
	}
	c.freeze(false)
	wantCounted(t, st, once(all))
}
