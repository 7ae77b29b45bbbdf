package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rs/zerolog"
	kafkago "github.com/segmentio/kafka-go"

	"github.com/nodetrail/nodetrail/pipeline/kafka"
)

// broker is a real one, run by e2e/kafka/kafka.sh.
type broker struct {
	script, dir, address string
}

const (
	topic      = "audit"
	partitions = 6
)

// errNoBroker says that a broker cannot be had on this machine.
var errNoBroker = errors.New("no Kafka broker (Java 17 and Maven are needed)")

// startBroker starts a broker with an empty topic.
func startBroker(ctx context.Context, script string) (_ *broker, err error) {
	if _, err := exec.LookPath("java"); err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBroker, err)
	}
	b := &broker{script: script}
	if b.dir, err = os.MkdirTemp("", "runbench-kafka"); err != nil {
		return nil, fmt.Errorf("a folder for the broker: %w", err)
	}
	cmd := exec.CommandContext(ctx, "bash", script, "start", filepath.Join(b.dir, "cluster"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w: %s", errNoBroker, err, &stderr), b.stop())
	}
	b.address = strings.TrimSpace(stdout.String())
	client := &kafkago.Client{Addr: kafkago.TCP(b.address), Timeout: 30 * time.Second}
	resp, err := client.CreateTopics(ctx, &kafkago.CreateTopicsRequest{
		Topics: []kafkago.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	if err == nil {
		err = resp.Errors[topic]
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making the topic: %w", err), b.stop())
	}
	return b, nil
}

func (b *broker) stop() error {
	out, err := exec.Command("bash", b.script, "stop", filepath.Join(b.dir, "cluster")).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("ending the broker: %w: %s", err, out)
	}
	return errors.Join(err, os.RemoveAll(b.dir))
}

func (b *broker) producer() (*kafka.Producer, error) {
	return kafka.NewProducer(kafka.ProducerOptions{Cluster: kafka.Cluster{Brokers: []string{b.address}}, Topic: topic}, zerolog.Nop())
}

// probe writes one event of a node of its own again and again, and measures how long it takes until /metrics has it.
func probe(ctx context.Context, c *child, ids *serials, post send) (delays []time.Duration, err error) {
	const node = "probe"
	text := strings.ReplaceAll(refusal(0), "system:node:storm-0", "system:node:"+node)
	l, _, _, err := parse([]byte(text))
	if err != nil {
		return nil, err
	}
	b, o := newBatch([]line{l}), &outcome{}
	count := func() (n float64, err error) {
		body, err := c.get(ctx, "/metrics")
		if err != nil {
			return 0, err
		}
		_, series := parseMetrics(body, "")
		for name, v := range series {
			if strings.HasPrefix(name, `nodetrail_node_requests_total{node="`+node+`"`) {
				n += v
			}
		}
		return n, nil
	}
	seen, err := count()
	if err != nil {
		return nil, err
	}
	for ctx.Err() == nil {
		ids.renew(b)
		begin := time.Now()
		post(ctx, b, o)
		if o.err != nil {
			break
		}
		for {
			n, err := count()
			if err != nil {
				return delays, err
			}
			if n > seen {
				delays, seen = append(delays, time.Since(begin)), n
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	return delays, o.err
}
