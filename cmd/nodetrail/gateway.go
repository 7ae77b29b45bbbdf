package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/internal/ops"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

func newGateway(std streams) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "gateway --config FILE",
		Short: "Receive the audit webhook and write its events to Kafka, keyed by node",
		Long: `gateway takes in what kube-apiservers post to their audit webhook and writes it to a Kafka topic, each node's events under one key, so
that they stay in one partition. It answers an apiserver when the brokers have acknowledged. It keeps no state: run as many as you like
behind one address. The analyzers ('nodetrail run' with sources.kafka) share the topic as a consumer group.

Everything else is in the configuration's section gateway.`,
		Example: "  nodetrail gateway --config nodetrail.yaml",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if path == "" {
				return usageError{cmd.CommandPath(), errors.New("--config is needed: the gateway's addresses and certificates are in it")}
			}
			return runGateway(cmd.Context(), path, std)
		},
	}
	cmd.Flags().StringVar(&path, "config", "", "the configuration `FILE`")
	return cmd
}

// gatewayIntake writes a webhook's events to Kafka.
type gatewayIntake struct {
	producer *kafka.Producer
	letters  source.Letters
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

// produce writes the records; what is longer than the topic takes becomes a dead letter, since it never will be shorter.
func (g *gatewayIntake) produce(ctx context.Context, records []kafka.Record) error {
	err := g.producer.Produce(ctx, records...)
	if !errors.Is(err, kafka.ErrTooLarge) {
		return err
	}
	for i := range records {
		switch err := g.producer.Produce(ctx, records[i]); {
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

func runGateway(ctx context.Context, path string, std streams) (err error) {
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	level := &levelWriter{w: std.err}
	log := zerolog.New(level).With().Timestamp().Logger()
	c, err := config.Load(path, os.LookupEnv)
	if err != nil {
		return err
	}
	if c.Gateway == nil {
		return fmt.Errorf("%s: the section gateway is missing", path)
	}
	if err := level.set(c.Log, std.err); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data, 0o750); err != nil {
		return fmt.Errorf("making the data folder: %w", err)
	}
	letters, err := source.OpenDeadLetter(dataPath(c, "gateway-dead-letters.jsonl"), 64<<20)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, letters.Close()) }()
	k := &c.Gateway.Kafka
	producer, err := kafka.NewProducer(producerOptions(k), log)
	if err != nil {
		return fmt.Errorf("gateway.kafka: %w", err)
	}
	defer func() { err = errors.Join(err, producer.Close()) }()
	o := webhookOptions(&c.Gateway.Webhook, letters, log)
	srv, err := webhook.New(o)
	if err != nil {
		return fmt.Errorf("gateway.webhook: %w", err)
	}
	m := metrics.New(metrics.Options{Version: buildVersion()})
	m.Watch(metrics.Input{
		Webhook: func() *metrics.Webhook { return webhookMetrics(srv) }, DeadLetters: func() int64 { return letters.Stats().Written },
	})
	var stopping atomic.Bool
	var topic reached
	ready := func() []string {
		var out []string
		if stopping.Load() {
			out = append(out, "stopping")
		}
		if !topic.Load() {
			out = append(out, "the topic "+k.Topic+" has not been reached yet; the log says why")
		}
		return out
	}
	server, err := ops.New(ops.Options{Listen: c.Listen, Pprof: c.Pprof, Metrics: m.Handler(), Ready: ready, Log: log})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	failed := &failures{stop: stop}
	front, rest := newStage(ctx, failed), newStage(context.WithoutCancel(ctx), failed)
	rest.start("serving metrics", server.Serve)
	rest.start("waiting for SIGHUP", func(ctx context.Context) error { tellHangup(ctx, hup, log); return nil })
	front.start("receiving", func(ctx context.Context) error {
		return srv.RunRaw(ctx, &gatewayIntake{producer: producer, letters: letters})
	})
	front.start("looking for the topic", func(ctx context.Context) error {
		topic.wait(ctx, producer, log)
		<-ctx.Done()
		return nil
	})
	log.Info().Str("version", buildVersion()).Str("listen", server.Addr()).Str("webhook", c.Gateway.Webhook.Listen).Str("topic", k.Topic).Msg("running")
	<-ctx.Done()
	log.Info().Msg("stopping")
	stopping.Store(true)
	front.wait()
	rest.end()
	log.Info().Msg("stopped")
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

func producerOptions(k *config.KafkaProducer) kafka.ProducerOptions {
	return kafka.ProducerOptions{
		Cluster: kafkaCluster(k.Brokers, k.ClientID, &k.TLS, &k.SASL), Topic: k.Topic, Compression: k.Compression,
		MaxMessageBytes: int(k.MaxMessageBytes), Linger: k.Linger.D(), Timeout: k.Timeout.D(),
	}
}
