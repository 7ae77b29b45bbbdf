package killtest

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
)

// topic makes a topic.
func topic(t *testing.T, brokers []string, name string, partitions int) {
	t.Helper()
	client := &kafkago.Client{Addr: kafkago.TCP(brokers...), Timeout: 30 * time.Second}
	resp, err := client.CreateTopics(context.Background(), &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err == nil {
		err = resp.Errors[name]
	}
	if err != nil {
		t.Fatal(err)
	}
}

// key is the key under which a gateway writes the event.
func key(t *testing.T, line []byte) []byte {
	t.Helper()
	var k string
	(&audit.Decoder{}).Split(line, func(ev *audit.Event, _ []byte) { k = audit.PartitionKey(ev) },
		func(m audit.Malformed, _ []byte) { t.Error(m.Cause) })
	return []byte(k)
}

// produce writes the lines over so long a time, some of them twice, as a gateway does whose answer was lost.
func produce(ctx context.Context, t *testing.T, brokers []string, topic string, lines [][]byte, over time.Duration) {
	w := &kafkago.Writer{
		Addr: kafkago.TCP(brokers...), Topic: topic, Balancer: kafkago.Murmur2Balancer{}, RequiredAcks: kafkago.RequireAll, BatchTimeout: time.Millisecond,
	}
	defer w.Close()
	rnd := rand.New(rand.NewPCG(6, 6))
	for at := 0; at < len(lines) && ctx.Err() == nil; {
		n := min(1+rnd.IntN(60), len(lines)-at)
		var messages []kafkago.Message
		for _, line := range lines[at : at+n] {
			m := kafkago.Message{Key: key(t, line), Value: line}
			messages = append(messages, m)
			if rnd.IntN(20) == 0 {
				messages = append(messages, m)
			}
		}
		if err := w.WriteMessages(ctx, messages...); err != nil && ctx.Err() == nil {
			t.Error(err)
			return
		}
		at += n
		time.Sleep(over * time.Duration(n) / time.Duration(len(lines)))
	}
}

func kafkaConfig(brokers []string, topic string) string {
	list, _ := json.Marshal(brokers) //nolint:errchkjson // strings
	return fmt.Sprintf("sources: {kafka: {brokers: %s, topics: [%q], group: nodetrail, sessionTimeout: 6s, maxWait: 100ms}}", list, topic)
}

// Partitions that are assigned anew each time the program starts, and go back to the group when its session has timed out.
func TestKafkaWithRebalances(t *testing.T) {
	brokers := kafkatest.Start(t, kafkatest.Options{}).Addresses()
	topic(t, brokers, "audit", 6)
	want, lines := analyze(t), capture(t)
	rnd := rand.New(rand.NewPCG(7, 7))
	conf := config(t, kafkaConfig(brokers, "audit"))
	sent := background(t, func(ctx context.Context) { produce(ctx, t, brokers, "audit", lines, 20*time.Second) })
	for range 20 {
		p := start(t, "run", "--config", conf)
		pause(rnd, 200*time.Millisecond, 3*time.Second)
		p.kill()
	}
	p := start(t, "run", "--config", conf)
	sent()
	waitFor(t, conf, want, p)
	p.stop()
	compare(t, want, report(t, conf), false)
}

// Two analyzers of one group share a PostgreSQL store. They are killed in turn, and one stalls for longer than its session lasts: what it had
// in hand the other one counts.
func TestTwoAnalyzersOnPostgres(t *testing.T) {
	pg := postgres.Shared(t)
	brokers := kafkatest.Start(t, kafkatest.Options{}).Addresses()
	topic(t, brokers, "audit", 6)
	want, lines := analyze(t), capture(t)
	rnd := rand.New(rand.NewPCG(8, 8))
	dsn, err := url.QueryUnescape(pg.DSN())
	if err != nil {
		t.Fatal(err)
	}
	var confs []string
	for range 2 {
		confs = append(confs, config(t, kafkaConfig(brokers, "audit"), fmt.Sprintf("store: {postgres: {dsn: %q, schema: killtest}}", strings.ReplaceAll(dsn, "$", "$$"))))
	}
	sent := background(t, func(ctx context.Context) { produce(ctx, t, brokers, "audit", lines, 30*time.Second) })
	var wg sync.WaitGroup
	last := make([]*process, 2)
	for i, conf := range confs {
		seed := rnd.Uint64()
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, 9))
			for n := range 12 {
				p := start(t, "run", "--config", conf)
				pause(rnd, 300*time.Millisecond, 4*time.Second)
				if i == 0 && n == 5 {
					p.stall(8 * time.Second)
				}
				p.kill()
			}
			last[i] = start(t, "run", "--config", conf)
		})
	}
	wg.Wait()
	sent()
	waitFor(t, confs[0], want, last...)
	for i, p := range last {
		p.stop()
		compare(t, want, report(t, confs[i]), false)
	}
}
