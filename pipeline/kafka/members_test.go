package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
)

// traffic writes events until it is stopped, and tells how many.
func traffic(t *testing.T, brokers []string, topic string) (stop func() int) {
	t.Helper()
	p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: topic, Timeout: 3 * time.Second, Attempts: 1000}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	written := make(chan int, 1)
	go func() {
		n := 0
		for ctx.Err() == nil {
			var records []Record
			for range 20 {
				id := fmt.Sprintf("%s-%06d", topic, n)
				n++
				records = append(records, Record{Key: []byte(id), Value: event(id)})
			}
			// Acknowledged or not: it is written until it is, and the test looks at what the topic then holds.
			for p.Produce(context.Background(), records...) != nil {
				if !wait(ctx, 100*time.Millisecond) {
					break
				}
			}
			wait(ctx, 10*time.Millisecond)
		}
		written <- n
	}()
	var once sync.Once
	end := func() {
		once.Do(func() {
			cancel()
			written <- <-written
			_ = p.Close()
		})
	}
	t.Cleanup(end)
	return func() int {
		end()
		return <-written
	}
}

// testMembers has consumers join, leave and die at random while messages come.
func testMembers(t *testing.T, brokers []string) {
	createTopic(t, brokers, "members", 6, 1, nil)
	st := newStore()
	stop := traffic(t, brokers, "members")
	opt := func() Options {
		o := quickOptions(brokers, "members", "members")
		o.SessionTimeout = 1500 * time.Millisecond
		return o
	}
	var alive []*consumer
	kills, leaves := 0, 0
	rng := rand.New(rand.NewPCG(4, uint64(os.Getpid())))
	for round := range 14 {
		before := st.total()
		switch {
		case len(alive) < 2 || len(alive) < 3 && rng.IntN(2) == 0:
			alive = append(alive, st.consume(t, opt(), jitter(60*time.Millisecond)))
		case rng.IntN(2) == 0:
			i := rng.IntN(len(alive))
			alive[i].die()
			alive = append(alive[:i], alive[i+1:]...)
			kills++
		default:
			i := rng.IntN(len(alive))
			alive[i].shutdown(t)
			alive = append(alive[:i], alive[i+1:]...)
			leaves++
		}
		if len(alive) == 0 {
			continue
		}
		// Sometimes in the middle of the change, sometimes after it.
		more := rng.IntN(300)
		eventually(t, fmt.Sprintf("counting to continue in round %d", round), func() bool { return st.total() > before+more })
	}
	n := stop()
	if len(alive) == 0 {
		st.consume(t, opt(), nil)
	}
	want := contents(t, brokers, "members", 6)
	if len(want) != n {
		t.Errorf("%d written, the topic has %d", n, len(want))
	}
	wantCounted(t, st, want)
	t.Logf("%d events, %d kills, %d leaves", n, kills, leaves)
}

func testProducer(t *testing.T, brokers []string) {
	createTopic(t, brokers, "producer", 3, 1, nil)
	createTopic(t, brokers, "narrow", 1, 1, map[string]string{"max.message.bytes": "2000"})
	p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: "producer", MaxMessageBytes: 10_000}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	ctx := context.Background()
	eventually(t, "writing", func() bool {
		return p.Produce(ctx, Record{Key: []byte("a"), Value: []byte("1"), Headers: []Header{{"h", "v"}}}, Record{Key: []byte("a"), Value: []byte("2")}) == nil
	})
	if err := p.Produce(ctx, Record{Value: []byte("small")}, Record{Value: make([]byte, 10_000)}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%v", err)
	}
	if err := p.Produce(ctx); err != nil {
		t.Error(err)
	}
	s := p.Stats()
	if s.Messages != 2 || s.Bytes != 4 {
		t.Errorf("%+v", s)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				if err := p.Produce(ctx, Record{Key: []byte("b"), Value: []byte("x")}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	narrow, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: "narrow", Compression: "none", Attempts: 3}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer narrow.Close()
	eventually(t, "the topic's own bound", func() bool { return errors.Is(narrow.Produce(ctx, Record{Value: make([]byte, 5000)}), ErrTooLarge) })
	missing, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: brokers}, Topic: "missing", Attempts: 2}, testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	defer missing.Close()
	eventually(t, "all that there is to reach", func() bool { return p.Reach(ctx) == nil })
	if err := missing.Reach(ctx); err == nil {
		t.Error("a topic that does not exist is reached")
	}
	if err := missing.Produce(ctx, Record{Value: []byte("x")}); err == nil {
		t.Error("written to a topic that does not exist")
	}
	if s := missing.Stats(); s.Failures != 1 || s.Messages != 0 {
		t.Errorf("%+v", s)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := p.Produce(gone, Record{Value: []byte("x")}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// testMurmur2 compares the partitions with those that Kafka's own producer chooses.
func testMurmur2(t *testing.T, k *kafkatest.Cluster) {
	jars, err := k.Jars()
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for i := range 200 {
		keys = append(keys, strings.Repeat("n", i%5)+fmt.Sprint("worker-", i*i))
	}
	src := filepath.Join(t.TempDir(), "Murmur.java")
	if err := os.WriteFile(src, []byte(`
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
public class Murmur {
	public static void main(String[] keys) throws Exception {
		for (String k : keys) System.out.println(BuiltInPartitioner.partitionForKey(k.getBytes("UTF-8"), 12));
	}
}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("java", append([]string{"-cp", jars + "/*", src}, keys...)...).Output()
	if err != nil {
		t.Fatalf("%v", err)
	}
	var got strings.Builder
	partitions := make([]int, 12)
	for i := range partitions {
		partitions[i] = i
	}
	for _, key := range keys {
		fmt.Fprintln(&got, kafkago.Murmur2Balancer{}.Balance(kafkago.Message{Key: []byte(key)}, partitions...))
	}
	if d := cmp.Diff(string(out), got.String()); d != "" {
		t.Error(d)
	}
}

// TestBrokerLoss kills, stops and restarts brokers of a cluster while events are written and read. Nothing is restarted for it.
func TestBrokerLoss(t *testing.T) {
	k := kafkatest.Start(t, kafkatest.Options{Brokers: 3})
	brokers := k.Addresses()
	createTopic(t, brokers, "loss", 6, 3, nil)
	st := newStore()
	stop := traffic(t, brokers, "loss")
	opt := quickOptions(brokers, "loss", "loss")
	opt.SessionTimeout = 6 * time.Second
	consumers := []*consumer{st.consume(t, opt, jitter(50*time.Millisecond)), st.consume(t, opt, jitter(50*time.Millisecond))}
	goesOn := func(what string) {
		t.Helper()
		// All partitions: a stalled one is what other consumers had.
		stored := func() map[topicPartition]int64 {
			at := map[topicPartition]int64{}
			for _, c := range consumers {
				for _, p := range c.src.Stats().Partitions {
					at[topicPartition{p.Topic, p.Partition}] = max(at[topicPartition{p.Topic, p.Partition}], p.Stored)
				}
			}
			return at
		}
		before, began := stored(), time.Now()
		deadline, asked := began.Add(2*time.Minute), began
		for {
			now, moved := stored(), 0
			for tp, offset := range now {
				if offset > before[tp] {
					moved++
				}
			}
			if moved == 6 {
				t.Logf("%s: %v", what, time.Since(began).Round(time.Millisecond))
				return
			}
			// While the brokers cannot store offsets of groups, no consumer can continue: that time does not count.
			if time.Since(asked) > 20*time.Second && time.Since(began) < 8*time.Minute {
				if !serves(brokers, "loss") {
					t.Logf("%s: the brokers do not serve the group after %v", what, time.Since(began).Round(time.Second))
					deadline = time.Now().Add(2 * time.Minute)
				}
				asked = time.Now()
			}
			if time.Now().After(deadline) {
				for _, c := range consumers {
					t.Logf("%+v", c.src.Stats())
				}
				t.Fatalf("waited in vain: %s; from %v to %v", what, before, now)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	goesOn("reading to begin")
	settle(t, brokers, "loss")
	eventually(t, "offsets of another group to be stored", func() bool { return serves(brokers, "loss") })
	at := coordinator(t, brokers, "loss")
	for _, i := range []int{at, (at + 1) % 3} {
		k.Kill(i)
		goesOn(fmt.Sprintf("reading without broker %d", i))
		k.Restart(i)
		goesOn(fmt.Sprintf("reading with broker %d back", i))
		eventually(t, "all replicas in sync", func() bool { return inSync(brokers, "loss", 3) })
	}
	// What becomes silent is both the group's coordinator and the first to be asked by one who joins now.
	at = coordinator(t, brokers, "loss")
	k.Pause(at)
	opt.Brokers = slices.Concat(brokers[at:], brokers[:at])
	consumers = append(consumers, st.consume(t, opt, jitter(50*time.Millisecond)))
	goesOn("reading while a broker is silent")
	eventually(t, "the third to get its part", func() bool { return len(consumers[2].src.Stats().Partitions) > 0 })
	k.Resume(at)
	goesOn("reading after a broker was silent")
	eventually(t, "all to be up", func() bool { return !slices.ContainsFunc(consumers, func(c *consumer) bool { return !up(c) }) })
	n := stop()
	// The broker that was silent may believe for a while that it leads, and tell of an end that is none.
	var want map[string]int
	deadline := time.Now().Add(2 * time.Minute)
	for {
		want = contents(t, brokers, "loss", 6)
		if len(want) == n && cmp.Equal(want, st.got()) || time.Now().After(deadline) {
			break
		}
	}
	if len(want) != n {
		t.Errorf("%d acknowledged, the topic has %d", n, len(want))
	}
	wantCounted(t, st, want)
	repeated := 0
	for _, c := range want {
		repeated += c - 1
	}
	for i, c := range consumers {
		s := c.src.Stats()
		t.Logf("consumer %d: %d rebalances, %d fetch errors, %d group errors, %d commit errors, %d redials", i, s.Rebalances, s.FetchErrors, s.GroupErrors, s.CommitErrors, s.Redials)
		if s.Gaps != 0 {
			t.Errorf("%d gaps", s.Gaps)
		}
	}
	t.Logf("%d events, %d of them written again by the producer", n, repeated)
}

func inSync(brokers []string, topic string, copies int) bool {
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	meta, err := a.Metadata(context.Background(), &kafkago.MetadataRequest{Topics: []string{topic}})
	if err != nil || len(meta.Topics) != 1 || meta.Topics[0].Error != nil {
		return false
	}
	for _, p := range meta.Topics[0].Partitions {
		if len(p.Isr) != copies || p.Error != nil {
			return false
		}
	}
	return true
}

// settle waits until each broker can be missed. For six seconds after a topic was created (replica.lag.time.max.ms in kafka.sh) its replicas count as in sync,
// be it that they do not follow yet.
func settle(t *testing.T, brokers []string, topic string) {
	t.Helper()
	since := time.Now()
	eventually(t, "all replicas to follow", func() bool {
		if !inSync(brokers, topic, len(brokers)) || !inSync(brokers, "__consumer_offsets", len(brokers)) {
			since = time.Now()
		}
		return time.Since(since) > 8*time.Second
	})
}

// serves reports whether the brokers store offsets of another group that has its place in the same partition as this one. A coordinator can take minutes to
// begin after the one before was killed.
func serves(brokers []string, group string) bool {
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	other := "other"
	for i := 0; offsetsPartition(other) != offsetsPartition(group); i++ {
		other = fmt.Sprint("other", i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	res, err := a.OffsetCommit(ctx, &kafkago.OffsetCommitRequest{GroupID: other, GenerationID: -1, Topics: map[string][]kafkago.OffsetCommit{"loss": {{Partition: 0}}}})
	return err == nil && len(res.Topics["loss"]) == 1 && res.Topics["loss"][0].Error == nil
}

// offsetsPartition is the partition of __consumer_offsets, of which kafka.sh makes four, that has the group: by the hash of Java's strings.
func offsetsPartition(group string) int {
	hash := int32(0)
	for _, c := range []byte(group) {
		hash = 31*hash + int32(c)
	}
	return int(hash&0x7fffffff) % 4
}

// coordinator is the number of the broker that leads the group, from 0.
func coordinator(t *testing.T, brokers []string, group string) int {
	t.Helper()
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	at := 0
	eventually(t, "the coordinator", func() bool {
		res, err := a.FindCoordinator(context.Background(), &kafkago.FindCoordinatorRequest{Key: group, KeyType: kafkago.CoordinatorKeyTypeConsumer})
		if err != nil || res.Error != nil {
			return false
		}
		at = res.Coordinator.NodeID - 1
		return at >= 0
	})
	return at
}
