package kafka

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/test/kafkatest"
)

// BenchmarkSource reads events of nodes, about 700 bytes each, from four partitions of a broker on the same machine: from the broker to Intake.
func BenchmarkSource(b *testing.B) {
	k := kafkatest.Start(b, kafkatest.Options{})
	createTopic(b, k.Addresses(), "bench", 4, 1, nil)
	p, err := NewProducer(ProducerOptions{Cluster: Cluster{Brokers: k.Addresses()}, Topic: "bench"}, testLog(b))
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	const events = 100_000
	var size int64
	for i := 0; i < events; i += 1000 {
		records := make([]Record, 1000)
		for j := range records {
			id := fmt.Sprintf("bench-%06d", i+j)
			records[j] = Record{Key: []byte(id), Value: event(id)}
			size += int64(len(records[j].Value))
		}
		if err := p.Produce(context.Background(), records...); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(size)
	b.ReportAllocs()
	round := 0
	for b.Loop() {
		round++
		st := newStore()
		opt := quickOptions(k.Addresses(), fmt.Sprint("bench-", round), "bench")
		opt.Want = audit.Want{State: true}
		c := st.consume(b, opt, nil)
		for st.total() < events {
			time.Sleep(time.Millisecond)
		}
		c.shutdown(b)
	}
	b.ReportMetric(events*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
