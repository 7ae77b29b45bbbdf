package app

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	source "github.com/nodetrail/nodetrail/pipeline/kafka"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/kafka"
)

// kafkaSink makes the sink of a topic of findings.
func kafkaSink(c *config.KafkaSink, log zerolog.Logger) (sinks.Sender, error) {
	p, err := source.NewProducer(producerOptions(&c.KafkaProducer), log)
	if err != nil {
		return nil, err
	}
	format := sinks.Format(c.Format)
	return kafka.NewSender(c.Name, &findingsWriter{p, kafka.ContentType(format)}, format), nil
}

// findingsWriter is a producer as the sink wants it.
type findingsWriter struct {
	*source.Producer
	contentType string
}

// Write implements kafka.Writer.
func (w *findingsWriter) Write(ctx context.Context, keys, values [][]byte) error {
	records := make([]source.Record, len(values))
	for i := range values {
		records[i] = source.Record{Key: keys[i], Value: values[i], Headers: []source.Header{{Key: "content-type", Value: w.contentType}}}
	}
	return w.Produce(ctx, records...)
}
