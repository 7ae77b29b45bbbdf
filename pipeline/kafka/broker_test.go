package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
	"github.com/nodetrail/nodetrail/pipeline/source"
)

// letters keeps letters in memory, after failing a few times.
type letters struct {
	mu    sync.Mutex
	fails int
	kept  []string
}

func (l *letters) Put(all ...source.Letter) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fails > 0 {
		l.fails--
		return fmt.Errorf("no space left on device")
	}
	for _, a := range all {
		l.kept = append(l.kept, a.Source+" "+string(a.Data))
	}
	return nil
}

// TestBroker runs all that one broker is enough for.
func TestBroker(t *testing.T) {
	k := kafkatest.Start(t, kafkatest.Options{})
	brokers := k.Addresses()
	for _, tc := range []struct {
		name string
		run  func(*testing.T, []string)
	}{
		{"codecs", testCodecs},
		{"poison", testPoison},
		{"resume", testResume},
		{"end", testEnd},
		{"latest and partitions added", testLatest},
		{"topic made later", testTopicLater},
		{"group reset", testGroupReset},
		{"taken over while silent", testSilent},
		{"not up while silent", testNotUp},
		{"long events that compress well", testCompressible},
		{"two groups on one store", testTwoGroups},
		{"beyond the end", testBeyondEnd},
		{"deleted by retention", testRetention},
		{"made anew", testMadeAnew},
		{"transactions", testTransactions},
		{"compaction", testCompaction},
		{"prefetch is bounded", testPrefetch},
		{"members come and go", testMembers},
		{"producer", testProducer},
		{"sink", testSink},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, brokers) })
	}
	t.Run("murmur2 is Java's", func(t *testing.T) { testMurmur2(t, k) })
}

func testCodecs(t *testing.T, brokers []string) {
	st := newStore()
	createTopic(t, brokers, "codecs-a", 2, 1, nil)
	createTopic(t, brokers, "codecs.b", 1, 1, nil)
	var all []string
	for i, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: []string{"codecs-a", "codecs.b"}[i%2], Compression: codec}, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		var records []Record
		for _, id := range ids(codec, 0, 300) {
			records = append(records, Record{Key: []byte(id), Value: event(id)})
			all = append(all, id)
		}
		eventually(t, "writing", func() bool { return p.Produce(context.Background(), records...) == nil })
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	c := st.consume(t, quickOptions(brokers, "codecs", "codecs-a", "codecs.b"), nil)
	wantCounted(t, st, once(all))
	// What is stored is committed, for others to see.
	eventually(t, "commits", func() bool {
		at, err := c.src.committed(context.Background(), "codecs.b", 0)
		return err == nil && at == 600
	})
	eventually(t, "no lag", func() bool {
		s := c.src.Stats()
		lag := int64(0)
		for _, p := range s.Partitions {
			lag += p.Lag
		}
		return len(s.Partitions) == 3 && lag == 0 && s.PrefetchBytes == 0 && s.PrefetchMessages == 0
	})
	s := c.src.Stats()
	if s.Messages != 1500 || s.Gaps != 0 || s.Fenced != 0 || s.DeadLetters != 0 {
		t.Errorf("%+v", s)
	}
	for _, p := range s.Partitions {
		if !p.Owned || p.LagSeconds != 0 || p.LastMessage.IsZero() || p.Stored != p.HighWatermark {
			t.Errorf("%+v", p)
		}
	}
	c.shutdown(t)
	st.mu.Lock()
	defer st.mu.Unlock()
	for lane, behind := range st.behind {
		if behind {
			t.Errorf("%s is behind at its end", lane)
		}
	}
	if len(st.lanes) != 3 || st.lanes["kafka:codecs.b/0"] == nil {
		t.Fatalf("%v", st.lanes)
	}
	if at, err := parsePosition(st.lanes["kafka:codecs.b/0"].position); err != nil || at.Offset != 600 || at.Last != 599 || at.Sum == "" {
		t.Errorf("%+v, %v", at, err)
	}
}

func testPoison(t *testing.T, brokers []string) {
	createTopic(t, brokers, "poison", 1, 1, nil)
	createTopic(t, brokers, "poison.dead", 1, 1, map[string]string{"max.message.bytes": "20000"})
	w := kafkago.Writer{Addr: kafkago.TCP(brokers...), Topic: "poison", RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond}
	defer w.Close()
	list := `{"kind":"EventList","items":[` + string(event("list-1")) + `,` + string(event("list-2")) + `]}`
	noise := make([]byte, 360_000) // that no codec shortens
	_, _ = rand.NewChaCha8([32]byte{4}).Read(noise)
	messages := []kafkago.Message{
		{Value: event("plain")},
		{Key: []byte("k"), Value: []byte("no event at all")},
		{Key: []byte("tombstone")},
		{Value: []byte(list)},
		{Value: []byte(`{"message":` + fmt.Sprintf("%q", event("wrapped")) + `}`)},
		{Value: append(append(event("before the tear"), '\n'), `{"kind":"Event","auditID":"to`...)},
		{Value: []byte{0xff, 0xfe, 0}},
		{Value: event("last")},
		{Key: []byte("long"), Value: noise},
	}
	eventually(t, "writing", func() bool { return w.WriteMessages(context.Background(), messages...) == nil })
	st, dead := newStore(), &letters{fails: 2}
	opt := quickOptions(brokers, "poison", "poison")
	opt.DeadLetters, opt.DeadLetterTopic = dead, "poison.dead"
	c := st.consume(t, opt, nil)
	wantCounted(t, st, once([]string{"plain", "list-1", "list-2", "wrapped", "before the tear", "last"}))
	c.shutdown(t)
	want := []string{
		"kafka:poison/0@1 no event at all",
		"kafka:poison/0@5 " + string(messages[5].Value),
		"kafka:poison/0@6 " + string(messages[6].Value),
		"kafka:poison/0@8 " + string(messages[8].Value),
	}
	if d := cmp.Diff(want, dead.kept); d != "" {
		t.Errorf("letters, -want +got:\n%s", d)
	}
	s := c.src.Stats()
	if s.DeadLetters != 4 || s.Tombstones != 1 || s.LetterErrors != 2 || s.Messages != 9 {
		t.Errorf("%+v", s)
	}
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: brokers, Topic: "poison.dead", MinBytes: 1, MaxBytes: 1 << 20, MaxWait: time.Second})
	defer r.Close()
	seen := map[int]bool{}
	for len(seen) < 4 {
		m, err := r.ReadMessage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		headers := map[string]string{}
		for _, h := range m.Headers {
			headers[h.Key] = string(h.Value)
		}
		var i int
		if _, err := fmt.Sscanf(headers["nodetrail-source"], "kafka:poison/0@%d", &i); err != nil || headers["nodetrail-cause"] == "" {
			t.Fatalf("%q %v", m.Value, headers)
		}
		seen[i] = true
		want := string(messages[i].Value)
		if i == 8 {
			want = want[:len(m.Value)]
			if headers["nodetrail-size"] != "360000" || len(m.Value) < 1000 || len(m.Value) > 20_000 {
				t.Errorf("%d bytes, %v", len(m.Value), headers)
			}
		} else if string(m.Key) != string(messages[i].Key) {
			t.Errorf("key %q", m.Key)
		}
		if string(m.Value) != want {
			t.Errorf("%q", m.Value)
		}
	}
}

func testResume(t *testing.T, brokers []string) {
	createTopic(t, brokers, "resume", 3, 1, nil)
	st := newStore()
	a, b := ids("a", 0, 500), ids("b", 0, 500)
	produce(t, brokers, "resume", a...)
	c := st.consume(t, quickOptions(brokers, "resume", "resume"), jitter(20*time.Millisecond))
	wantCounted(t, st, once(a))
	c.shutdown(t)
	produce(t, brokers, "resume", b...)
	// Another one dies in the middle; a third continues.
	c = st.consume(t, quickOptions(brokers, "resume", "resume"), jitter(20*time.Millisecond))
	eventually(t, "some of the second half", func() bool { return st.total() > 500 })
	c.die()
	st.consume(t, quickOptions(brokers, "resume", "resume"), nil)
	wantCounted(t, st, once(a, b))
}

// What was acknowledged to a producer before the time at which a partition is said to be at its end was handed on, also while consumers come and die.
// Every partition is announced before anybody opens it, and said to be at its end soon, be it empty.
func testEnd(t *testing.T, brokers []string) {
	createTopic(t, brokers, "end", 2, 1, nil)
	st := newStore()
	var mu sync.Mutex
	var acknowledged []time.Time
	said := map[string]int{}
	st.ended = func(lane, position string, when time.Time) {
		mu.Lock()
		defer mu.Unlock()
		said[lane]++
		if lane != "kafka:end/0" {
			return
		}
		next := int64(0)
		if position != "" {
			at, _ := parsePosition(position)
			next = at.Offset
		}
		if late := int64(len(acknowledged)); next < late && acknowledged[next].Before(when) {
			t.Errorf("the end is said to be at %d, and message %d was acknowledged %v before", next, next, when.Sub(acknowledged[next]))
		}
	}
	w := &kafkago.Writer{
		Addr: kafkago.TCP(brokers...), Topic: "end", RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond,
		Balancer: kafkago.BalancerFunc(func(kafkago.Message, ...int) int { return 0 }),
	}
	defer w.Close()
	rnd := rand.New(rand.NewPCG(2, 2))
	all := ids("end", 0, 1120)
	var backlog []kafkago.Message
	eventually(t, "the topic", func() bool { return w.WriteMessages(t.Context(), kafkago.Message{Value: event(all[0])}) == nil })
	for _, id := range all[1:1000] {
		backlog = append(backlog, kafkago.Message{Value: event(id)})
	}
	if err := w.WriteMessages(t.Context(), backlog...); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		acknowledged = append(acknowledged, time.Now())
	}
	st.consume(t, quickOptions(brokers, "end", "end"), nil)
	dies := st.consume(t, quickOptions(brokers, "end", "end"), jitter(50*time.Millisecond))
	for i, id := range all[1000:] {
		if err := w.WriteMessages(t.Context(), kafkago.Message{Value: event(id)}); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		acknowledged = append(acknowledged, time.Now())
		mu.Unlock()
		time.Sleep(time.Duration(rnd.Int64N(int64(60 * time.Millisecond))))
		switch i {
		case 50:
			dies.die()
		case 60:
			st.consume(t, quickOptions(brokers, "end", "end"), nil)
		}
	}
	wantCounted(t, st, once(all))
	eventually(t, "the ends", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return said["kafka:end/0"] > 5 && said["kafka:end/1"] > 1
	})
}

func testLatest(t *testing.T, brokers []string) {
	createTopic(t, brokers, "latest", 2, 1, nil)
	produce(t, brokers, "latest", ids("before", 0, 100)...)
	st := newStore()
	opt := quickOptions(brokers, "latest", "latest")
	opt.StartOffset = Latest
	c := st.consume(t, opt, nil)
	// Where reading begins is stored before any message is.
	eventually(t, "both positions", func() bool {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.lane("kafka:latest/0").position != "" && st.lane("kafka:latest/1").position != ""
	})
	c.shutdown(t)
	during := ids("during", 0, 100)
	produce(t, brokers, "latest", during...)
	c = st.consume(t, opt, nil)
	wantCounted(t, st, once(during))

	a := admin(brokers)
	res, err := a.CreatePartitions(context.Background(), &kafkago.CreatePartitionsRequest{Topics: []kafkago.TopicPartitionsConfig{{Name: "latest", Count: 4}}})
	if err != nil || res.Errors["latest"] != nil {
		t.Fatal(err, res)
	}
	after := ids("after", 0, 50)
	w := kafkago.Writer{Addr: kafkago.TCP(brokers...), Topic: "latest", RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond,
		Balancer:  kafkago.BalancerFunc(func(m kafkago.Message, partitions ...int) int { return len(partitions) - 1 }),
		Transport: a.Transport}
	defer w.Close()
	eventually(t, "the new partitions", func() bool {
		meta, err := a.Metadata(context.Background(), &kafkago.MetadataRequest{Topics: []string{"latest"}})
		return err == nil && len(meta.Topics[0].Partitions) == 4
	})
	var messages []kafkago.Message
	for _, id := range after {
		messages = append(messages, kafkago.Message{Value: event(id)})
	}
	eventually(t, "writing", func() bool { return w.WriteMessages(context.Background(), messages...) == nil })
	wantCounted(t, st, once(during, after))
	eventually(t, "all partitions", func() bool { return len(c.src.Stats().Partitions) == 4 })
}

func testTopicLater(t *testing.T, brokers []string) {
	createTopic(t, brokers, "there", 1, 1, nil)
	st := newStore()
	opt := quickOptions(brokers, "later", "there", "later")
	opt.StartOffset = Latest
	c := st.consume(t, opt, nil)
	eventually(t, "the topic that exists", func() bool {
		s := c.src.Stats()
		return len(s.Partitions) == 1 && s.Partitions[0].Stored == 0
	})
	first := ids("there", 0, 10)
	produce(t, brokers, "there", first...)
	wantCounted(t, st, once(first))
	// A topic that is missing is no reason to share out anew.
	if n := c.src.Stats().Rebalances; n != 1 {
		t.Errorf("%d rebalances", n)
	}
	createTopic(t, brokers, "later", 2, 1, nil)
	second := ids("later", 0, 100)
	produce(t, brokers, "later", second...)
	wantCounted(t, st, once(first, second))
}

// deleteGroup waits until the group is empty.
func deleteGroup(t *testing.T, brokers []string, group string) {
	t.Helper()
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	eventually(t, "deleting the group", func() bool {
		res, err := a.DeleteGroups(context.Background(), &kafkago.DeleteGroupsRequest{GroupIDs: []string{group}})
		return err == nil && res.Errors[group] == nil
	})
}

func testGroupReset(t *testing.T, brokers []string) {
	createTopic(t, brokers, "reset", 2, 1, nil)
	st := newStore()
	var all []string
	for round := range 4 {
		fresh := ids(fmt.Sprint("round", round), 0, 200)
		all = append(all, fresh...)
		produce(t, brokers, "reset", fresh...)
		owner := st.owner("kafka:reset/0")
		opt := quickOptions(brokers, "reset", "reset")
		if round%2 == 1 {
			opt.StartOffset = Latest // which the store's position must win over
		}
		var cs []*consumer
		for range 1 + round%2 {
			cs = append(cs, st.consume(t, opt, jitter(10*time.Millisecond)))
		}
		wantCounted(t, st, once(all))
		if now := st.owner("kafka:reset/0"); now == owner {
			t.Errorf("round %d: the partition is still its former owner's", round)
		}
		for _, c := range cs {
			c.shutdown(t)
		}
		// Now the generations begin at 1 again, and the group has no offsets, or wrong ones.
		deleteGroup(t, brokers, "reset")
		if round >= 2 {
			a := admin(brokers)
			if _, err := a.OffsetCommit(context.Background(), &kafkago.OffsetCommitRequest{GroupID: "reset", GenerationID: -1, Topics: map[string][]kafkago.OffsetCommit{
				"reset": {{Partition: 0, Offset: 0}, {Partition: 1, Offset: 1}},
			}}); err != nil {
				t.Fatal(err)
			}
			a.Transport.(*kafkago.Transport).CloseIdleConnections()
		}
	}
}

// testSilent takes the partitions from a process that the brokers do not hear any more but that has batches in hand, and lets it come back.
func testSilent(t *testing.T, brokers []string) {
	createTopic(t, brokers, "silent", 2, 1, nil)
	st := newStore()
	first, second := ids("first", 0, 400), ids("second", 0, 400)
	slow := st.consume(t, quickOptions(brokers, "silent", "silent"), nil)
	eventually(t, "the first owner", func() bool {
		s := slow.src.Stats()
		return len(s.Partitions) == 2 && s.Partitions[0].Stored == 0 && s.Partitions[1].Stored == 0
	})
	slow.freeze(true)
	produce(t, brokers, "silent", first...)
	eventually(t, "batches in hand", func() bool { return slow.src.Stats().PrefetchMessages == 400 })
	speak := slow.net.silence()
	other := st.consume(t, quickOptions(brokers, "silent", "silent"), nil)
	wantCounted(t, st, once(first))
	slow.freeze(false)
	eventually(t, "the refusal", func() bool {
		slow.mu.Lock()
		defer slow.mu.Unlock()
		return slow.fenced > 0
	})
	produce(t, brokers, "silent", second...)
	wantCounted(t, st, once(first, second))
	speak()
	eventually(t, "both at work", func() bool {
		return len(slow.src.Stats().Partitions) == 1 && len(other.src.Stats().Partitions) == 1
	})
	third := ids("third", 0, 100)
	produce(t, brokers, "silent", third...)
	wantCounted(t, st, once(first, second, third))
	eventually(t, "nothing in hand", func() bool { return slow.src.Stats().PrefetchMessages == 0 && slow.src.Stats().PrefetchBytes == 0 })
}

// testNotUp has the brokers of a consumer fall silent without closing a connection, as they do when their machine is gone.
func testNotUp(t *testing.T, brokers []string) {
	createTopic(t, brokers, "notup", 2, 1, nil)
	c := newStore().consume(t, quickOptions(brokers, "notup", "notup"), nil)
	for range 2 {
		eventually(t, "it to be up", func() bool { return up(c) && len(c.src.Stats().Partitions) == 2 })
		speak := c.net.silence()
		eventually(t, "it to notice", func() bool { return !up(c) })
		speak()
	}
	eventually(t, "it to be up again", func() bool { return up(c) })
}

// up says whether the consumer and its partitions are.
func up(c *consumer) bool {
	s := c.src.Stats()
	return s.Up && !slices.ContainsFunc(s.Partitions, func(p PartitionStats) bool { return !p.Up })
}

// testTwoGroups has two groups take the lanes from each other: a mistake of the operator's, after which the counts are right all the same.
func testTwoGroups(t *testing.T, brokers []string) {
	createTopic(t, brokers, "shared", 2, 1, nil)
	st := newStore()
	a := st.consume(t, quickOptions(brokers, "shared-a", "shared"), jitter(10*time.Millisecond))
	b := st.consume(t, quickOptions(brokers, "shared-b", "shared"), jitter(10*time.Millisecond))
	var all []string
	for round := range 5 {
		fresh := ids(fmt.Sprint("shared", round), 0, 100)
		all = append(all, fresh...)
		produce(t, brokers, "shared", fresh...)
		wantCounted(t, st, once(all))
	}
	if a.src.Stats().Fenced+b.src.Stats().Fenced == 0 {
		t.Error("nobody was fenced")
	}
}

func testBeyondEnd(t *testing.T, brokers []string) {
	createTopic(t, brokers, "beyond", 1, 1, nil)
	st := newStore()
	st.lane("kafka:beyond/0").position = position{Offset: 5000}.String()
	all := ids("beyond", 0, 20)
	produce(t, brokers, "beyond", all...)
	var mu sync.Mutex
	var gaps []Gap
	opt := quickOptions(brokers, "beyond", "beyond")
	opt.Patience = time.Second
	opt.OnGap = func(g Gap) {
		mu.Lock()
		defer mu.Unlock()
		gaps = append(gaps, g)
	}
	c := st.consume(t, opt, nil)
	wantCounted(t, st, once(all))
	mu.Lock()
	defer mu.Unlock()
	if d := cmp.Diff([]Gap{{Topic: "beyond", From: 5000, To: 0}}, gaps); d != "" {
		t.Error(d)
	}
	if c.src.Stats().Gaps != 1 || !strings.Contains(gaps[0].String(), "made anew") {
		t.Errorf("%+v %v", c.src.Stats(), gaps)
	}
}
