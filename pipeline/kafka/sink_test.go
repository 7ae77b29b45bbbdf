package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/sinks"
	sink "github.com/nodetrail/nodetrail/sinks/kafka"
	"github.com/nodetrail/nodetrail/sinks/sinktest"
)

// testSink runs the suite of sinks with the Producer.
func testSink(t *testing.T, brokers []string) {
	var n atomic.Int64
	sinktest.Run(t, func(t *testing.T) *sinktest.Sink {
		topic := fmt.Sprint("findings-", n.Add(1))
		createTopic(t, brokers, topic, 1, 1, nil)
		p, err := NewProducer(ProducerOptions{
			Cluster: Cluster{Brokers: brokers}, Topic: topic, Linger: time.Millisecond, Headers: []Header{{"content-type", sink.ContentType(sinks.CloudEvents)}},
		}, testLog(t))
		if err != nil {
			t.Fatal(err)
		}
		return &sinktest.Sink{Sender: sink.NewSender("findings", p, sinks.CloudEvents), Received: func(t *testing.T) []sinks.Finding { return findings(t, brokers, topic) }}
	})
}

// findings reads all that a topic holds.
func findings(t *testing.T, brokers []string, topic string) []sinks.Finding {
	t.Helper()
	a := admin(brokers)
	defer a.Transport.(*kafkago.Transport).CloseIdleConnections()
	var last int64
	eventually(t, "the end of "+topic, func() bool {
		res, err := a.ListOffsets(context.Background(), &kafkago.ListOffsetsRequest{Topics: map[string][]kafkago.OffsetRequest{topic: {kafkago.LastOffsetOf(0)}}})
		if err != nil || len(res.Topics[topic]) == 0 || res.Topics[topic][0].Error != nil {
			return false
		}
		last = res.Topics[topic][0].LastOffset
		return true
	})
	var out []sinks.Finding
	r := kafkago.NewReader(kafkago.ReaderConfig{Brokers: brokers, Topic: topic, MinBytes: 1, MaxBytes: 10 << 20, MaxWait: time.Second})
	defer r.Close()
	for next := int64(0); next < last; {
		m, err := r.ReadMessage(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		next = m.Offset + 1
		var ev sinks.CloudEvent
		if err := json.Unmarshal(m.Value, &ev); err != nil {
			t.Fatal(err)
		}
		// What is no UTF-8 is replaced in JSON, and kept in the key.
		if string([]rune(string(m.Key))) != ev.Data.Node || ev.SpecVersion != "1.0" || len(m.Headers) != 1 || string(m.Headers[0].Value) != sink.ContentType(sinks.CloudEvents) {
			t.Errorf("key %q, headers %v: %s", m.Key, m.Headers, m.Value)
		}
		out = append(out, *ev.Data)
	}
	return out
}
