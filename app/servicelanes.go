package app

import (
	"context"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// ownLanes gives a source's lanes names that no other process has.
type ownLanes struct {
	source.Intake
	suffix string
}

// ownSuffix is what the names of an instance's own lanes end with.
func ownSuffix(instance string) string { return "@" + instance }

func (o *ownLanes) Open(ctx context.Context, lane string, fence int64) (string, error) {
	return o.Intake.Open(ctx, lane+o.suffix, fence)
}

func (o *ownLanes) Close(lane string) { o.Intake.Close(lane + o.suffix) }

func (o *ownLanes) Take(ctx context.Context, b *source.Batch, done func(error)) error {
	lane := b.Lane
	b.Lane += o.suffix
	err := o.Intake.Take(ctx, b, done)
	if err != nil {
		b.Lane = lane // it may be tried again
	}
	return err
}

func kafkaCluster(brokers []string, client string, t *config.ClientTLS, s *config.SASL) kafka.Cluster {
	return kafka.Cluster{
		Brokers: brokers, ClientID: client,
		TLS:  kafka.TLS{Enabled: t.Enabled, CAFile: t.CAFile, CertFile: t.CertFile, KeyFile: t.KeyFile, ServerName: t.ServerName},
		SASL: kafka.SASL{Mechanism: s.Mechanism, Username: s.Username, Password: s.Password.Reveal(), PasswordFile: s.PasswordFile},
	}
}

func webhookOptions(c *config.Webhook, letters source.Letters, log zerolog.Logger) webhook.Options {
	o := webhook.Options{
		Name: c.Name, Listen: c.Listen, Path: c.Path, CertFile: c.TLS.CertFile, KeyFile: c.TLS.KeyFile, ClientCAFile: c.TLS.ClientCAFile,
		AllowedClients: c.TLS.ClientNames, Reload: c.TLS.ReloadEvery.D(), MaxBodyBytes: int64(c.MaxBodyBytes), MaxInFlight: c.MaxInFlight,
		MaxInFlightBytes: int64(c.MaxInFlightBytes), MaxConnections: c.MaxConnections, HeaderTimeout: c.HeaderTimeout.D(),
		BodyTimeout: c.BodyTimeout.D(), IdleTimeout: c.IdleTimeout.D(), CommitTimeout: c.CommitTimeout.D(),
		MaxEventBytes: int(c.MaxEventBytes), Letters: letters, Log: log,
	}
	if c.BearerTokenFile != "" {
		o.BearerTokenFiles = []string{c.BearerTokenFile}
	}
	return o
}

// envelopesOf names the envelopes that events came in.
func envelopesOf(c *audit.Counts) map[string]int64 {
	var out map[string]int64
	for e, n := range c.Envelopes {
		if n == 0 {
			continue
		}
		if out == nil {
			out = map[string]int64{}
		}
		out[audit.Envelope(e).String()] = n
	}
	return out
}

// webhookMetrics is what a webhook has to tell, nil if there is none.
func webhookMetrics(w *webhook.Server) *metrics.Webhook {
	if w == nil {
		return nil
	}
	s := w.Stats()
	return &metrics.Webhook{
		Requests: s.Requests, Handshakes: s.Handshakes, TooMany: s.RefusedConnections,
		Credentials: metrics.Credentials{Expires: s.CertificateExpires, ReloadFailures: s.ReloadFailures},
	}
}
