package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// GatewayOptions are what Gateway is started with. Everything else is in the configuration's section gateway.
type GatewayOptions struct {
	// Config is the configuration file.
	Config string
	// Log is where the gateway logs.
	Log LogTo
	// Version is the program's, as metrics and logs tell it.
	Version string
	// Hangup is answered in the log: a gateway reads its configuration at start only. Nil for never.
	Hangup <-chan os.Signal
}

// Gateway takes in what kube-apiservers post to their audit webhook and writes it to a Kafka topic, each node's events under one key, until ctx
// ends; then it answers what it has taken and returns nil. It answers an API server when the brokers have acknowledged, and keeps no state: many
// gateways may run behind one address.
//
// It writes events longer than the topic takes to a file in the configuration's data folder, which it makes. It returns an error if a part
// cannot be opened, or ends by itself.
func Gateway(ctx context.Context, o GatewayOptions) (err error) {
	level := &levelWriter{w: o.Log.W}
	c, err := config.Load(o.Config, os.LookupEnv)
	if err != nil {
		return err
	}
	if c.Gateway == nil {
		return fmt.Errorf("%s: the section gateway is missing", o.Config)
	}
	log := level.logger()
	if err := level.set(c.Log, o.Log); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			log.Error().Err(err).Msg(stopsBecause)
		}
	}()
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	letters, err := source.OpenDeadLetter(c.DataPath(config.GatewayDeadLetters), 64<<20)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, letters.Close()) }()
	producer, err := kafka.NewProducer(producerOptions(&c.Gateway.Kafka), log)
	if err != nil {
		return fmt.Errorf("gateway.kafka: %w", err)
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	srv, err := webhook.New(webhookOptions(&c.Gateway.Webhook, letters, log))
	if err != nil {
		return fmt.Errorf("gateway.webhook: %w", err)
	}
	g := &gateway{o: o, letters: letters, producer: producer, srv: srv, log: log}
	return g.run(ctx, c)
}

// gateway is one Gateway, its parts put together. Whoever makes it closes what it was given.
type gateway struct {
	o        GatewayOptions
	letters  *source.DeadLetter
	producer *kafka.Producer
	srv      *webhook.Server
	log      zerolog.Logger
	topic    reached
	stopping atomic.Bool
}

// run serves until ctx ends.
func (g *gateway) run(ctx context.Context, c *config.Config) error {
	m := metrics.New(metrics.Options{Cluster: c.Cluster, Version: g.o.Version})
	m.Watch(metrics.Input{
		Webhook: func() *metrics.Webhook { return webhookMetrics(g.srv) }, DeadLetters: func() int64 { return g.letters.Stats().Written },
	})
	topic := c.Gateway.Kafka.Topic
	ready := func() []string {
		var out []string
		if g.stopping.Load() {
			out = append(out, "stopping")
		}
		if !g.srv.Listens() {
			out = append(out, notListening)
		}
		if !g.topic.Load() {
			out = append(out, "the topic "+topic+" has not been reached yet; the log says why")
		}
		return out
	}
	server, err := ops.New(ops.Options{Listen: c.Listen, Health: c.Health, Pprof: c.Pprof, Metrics: m.Handler(), Ready: ready, Log: g.log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := &failures{stop: stop}
	front, rest := newStage(ctx, failed), newStage(context.WithoutCancel(ctx), failed)
	rest.start("serving metrics", server.Serve)
	rest.start("waiting for SIGHUP", func(ctx context.Context) error { tellHangup(ctx, g.o.Hangup, g.log); return nil })
	front.start("receiving", func(ctx context.Context) error {
		return g.srv.RunRaw(ctx, &gatewayIntake{g.producer, g.letters, int(c.Gateway.Kafka.MaxMessageBytes)})
	})
	front.start("looking for the topic", func(ctx context.Context) error {
		g.topic.wait(ctx, g.producer, g.log)
		<-ctx.Done()
		return nil
	})
	g.log.Info().Str("version", g.o.Version).Str("listen", server.Addr()).Str("webhook", c.Gateway.Webhook.Listen).Str("topic", topic).Msg("running")
	<-ctx.Done()
	g.log.Info().Msg("stopping")
	g.stopping.Store(true)
	front.wait()
	rest.end()
	g.log.Info().Msg("stopped")
	return failed.err()
}

// tellHangup answers SIGHUP, which would end the process otherwise.
func tellHangup(ctx context.Context, hup <-chan os.Signal, log zerolog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			log.Warn().Msg("a gateway reads its configuration at start only: restart it to change that; certificates and tokens are read anew by themselves")
		}
	}
}

// gatewayIntake writes a webhook's events to Kafka.
type gatewayIntake struct {
	producer *kafka.Producer
	letters  source.Letters
	bound    int // bytes of a record
}

// reached is whether the topic was there once since the start. A gateway that never got so far is set up wrongly, and must not take the place
// of one that works; later the brokers are away for all gateways, and 503 with Retry-After is a better answer than none.
type reached struct{ atomic.Bool }

// retry is how long to wait before the topic is looked for again.
const retry = time.Second

// wait looks for the topic until it is there, or ctx ends.
func (r *reached) wait(ctx context.Context, p *kafka.Producer, log zerolog.Logger) {
	said := ""
	for {
		err := p.Reach(ctx)
		if err == nil {
			r.Store(true)
			log.Info().Msg("the brokers have the topic: the gateway is ready")
			return
		}
		if ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			log.Warn().Err(err).Msg("the gateway is not ready: no batch can be written before the topic is reached")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(retry):
		}
	}
}

// TakeRaw implements webhook.RawIntake: the events are the gateway's until the brokers have them.
func (g *gatewayIntake) TakeRaw(ctx context.Context, events []webhook.RawEvent, done func(error)) error {
	records := make([]kafka.Record, len(events))
	for i := range events {
		records[i] = kafka.Record{Key: []byte(events[i].Key), Value: events[i].Value}
	}
	go func() { done(g.produce(ctx, records)) }()
	return nil
}

// produce writes the records. An event that is longer than the topic takes is reduced: a client chooses the length of its requests. What cannot be reduced
// becomes a dead letter, since it never will be shorter.
func (g *gatewayIntake) produce(ctx context.Context, records []kafka.Record) error {
	err := g.producer.Produce(ctx, records...)
	if !errors.Is(err, kafka.ErrTooLarge) {
		return err
	}
	for i := range records {
		err := g.producer.Produce(ctx, records[i])
		if errors.Is(err, kafka.ErrTooLarge) {
			if event, ok := audit.Reduced(records[i].Value, g.bound); ok {
				err = g.producer.Produce(ctx, kafka.Record{Key: records[i].Key, Value: event, Headers: records[i].Headers})
			}
		}
		switch {
		case errors.Is(err, kafka.ErrTooLarge):
			letter := source.Letter{Source: "gateway", Cause: "the event is longer than the topic takes", Data: records[i].Value}
			if err := g.letters.Put(letter); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
	return nil
}

func producerOptions(k *config.KafkaProducer) kafka.ProducerOptions {
	return kafka.ProducerOptions{
		Cluster: kafkaCluster(k.Brokers, k.ClientID, &k.TLS, &k.SASL), Topic: k.Topic, Compression: k.Compression,
		MaxMessageBytes: int(k.MaxMessageBytes), Linger: k.Linger.D(), Timeout: k.Timeout.D(),
	}
}
