package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/tally"
)

// runningSource is a source of the command run.
type runningSource struct {
	name string
	run  func(context.Context, source.Intake) error
	// sources are its figures; one that reads several topics or logs is several to those who look at metrics.
	sources func() []metrics.Source
}

func (r *runner) sourceNames() []string {
	var names []string
	for _, s := range r.sources {
		names = append(names, s.name)
	}
	return names
}

// gap tells of input that may be missing: in the log, in a metric, and as a finding.
func (r *runner) gap(cause, lane, detail string) {
	r.metrics.Gap(cause)
	r.log.Warn().Str("lane", lane).Str("rule", rules.CoverageGap).Msg(detail)
	if slices.Contains(r.reloader.Current().Rules.Disable, rules.CoverageGap) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := r.engine.Note(ctx, time.Now(), tally.Finding{
		Key: tally.Key{Rule: rules.CoverageGap, Name: lane, Detail: cause}, Severity: rules.Medium, Message: lane + ": " + detail,
	})
	if err != nil {
		r.log.Warn().Err(err).Str("lane", lane).Msg("cannot store that input may be missing")
	}
}

// lateAfter is from when on a source's lag is a gap in what a report can say.
const lateAfter = 5 * time.Minute

// tellLate tells of sources that are far behind.
func (r *runner) tellLate() {
	for _, s := range r.sources {
		for _, src := range s.sources() {
			for _, l := range src.Lanes {
				if l.Lag > lateAfter {
					r.gap("delayed", l.Lane, "more than "+lateAfter.String()+" behind")
				}
			}
		}
	}
}

func (r *runner) openSources(c *config.Config) error {
	want := audit.Want{State: c.State.FromAudit}
	// Several analyzers on one store may have logs of one name, each its own. Kafka's partitions are shared.
	own := func(s *runningSource) *runningSource {
		if c.Store.Postgres == nil {
			return s
		}
		run := s.run
		s.run = func(ctx context.Context, in source.Intake) error { return run(ctx, &ownLanes{in, "@" + r.instance}) }
		return s
	}
	for i := range c.Sources.Files {
		r.sources = append(r.sources, own(r.fileSource(&c.Sources.Files[i], want)))
	}
	if w := c.Sources.Webhook; w != nil {
		o := webhookOptions(w, r.letters, r.log)
		o.Want = want
		srv, err := webhook.New(o)
		if err != nil {
			return fmt.Errorf("sources.webhook: %w", err)
		}
		r.webhook = srv
		r.sources = append(r.sources, own(&runningSource{name: srv.Lane(), run: srv.Run, sources: func() []metrics.Source {
			lag := time.Duration(0)
			if at := r.engine.Stats().Oldest; !at.IsZero() {
				lag = max(0, time.Since(at))
			}
			return []metrics.Source{{Name: srv.Lane(), Up: true, Lanes: []metrics.LaneLag{{Lane: srv.Lane(), Lag: lag}}}}
		}}))
	}
	if k := c.Sources.Kafka; k != nil {
		s, err := r.kafkaSource(k, want)
		if err != nil {
			return fmt.Errorf("sources.kafka: %w", err)
		}
		r.sources = append(r.sources, s)
	}
	return nil
}

// ownLanes gives a source's lanes names that no other process has.
type ownLanes struct {
	source.Intake
	suffix string
}

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

func (r *runner) fileSource(c *config.FileSource, want audit.Want) *runningSource {
	from := file.Beginning
	if c.From == "end" {
		from = file.End
	}
	f := file.NewFollow(file.FollowOptions{
		Paths: c.Paths, Want: want, From: from, MaxEventBytes: int(c.MaxEventBytes), Poll: c.Poll.D(), PollOnly: c.PollOnly,
		Gap: func(lane, cause string) { r.gap("log-lost", lane, cause) },
	}, r.log)
	return &runningSource{name: "file:" + strings.Join(c.Paths, ","), run: f.Run, sources: func() []metrics.Source {
		var out []metrics.Source
		for _, l := range f.Stats() {
			lag := time.Duration(0)
			if l.Behind > 0 && !l.LastEvent.IsZero() {
				lag = max(0, time.Since(l.LastEvent))
			}
			out = append(out, metrics.Source{Name: l.Lane, Up: l.Trouble == "", Why: l.Trouble, Lanes: []metrics.LaneLag{{Lane: l.Lane, Lag: lag}}})
		}
		return out
	}}
}

func (r *runner) kafkaSource(c *config.KafkaSource, want audit.Want) (*runningSource, error) {
	o := kafka.Options{
		Cluster: kafkaCluster(c.Brokers, c.ClientID, &c.TLS, &c.SASL), Topics: c.Topics, Group: c.Group, StartOffset: c.StartOffset,
		Want: want, MaxEventBytes: int(c.MaxEventBytes), FetchBytes: int(c.FetchBytes), MaxBytes: int64(c.MaxBytes),
		MaxMessages: int64(c.MaxMessages), MaxWait: c.MaxWait.D(), SessionTimeout: c.SessionTimeout.D(),
		RebalanceTimeout: c.RebalanceTimeout.D(), DeadLetterTopic: c.DeadLetterTopic,
		OnGap: func(g kafka.Gap) {
			r.gap("messages-lost", fmt.Sprintf("kafka:%s/%d", g.Topic, g.Partition), g.String())
		},
	}
	if c.DeadLetterTopic == "" {
		o.DeadLetters = r.letters
	}
	s, err := kafka.New(o, r.log)
	if err != nil {
		return nil, err
	}
	return &runningSource{name: "kafka:" + strings.Join(c.Topics, ","), run: s.Run, sources: func() []metrics.Source {
		stats := s.Stats()
		byTopic := map[string]*metrics.Source{}
		var out []metrics.Source
		for _, topic := range c.Topics {
			out = append(out, metrics.Source{Name: "kafka:" + topic, Up: stats.Generation > 0})
		}
		for i := range out {
			byTopic[out[i].Name] = &out[i]
		}
		for _, p := range stats.Partitions {
			if src := byTopic["kafka:"+p.Topic]; src != nil && p.Owned {
				src.Lanes = append(src.Lanes, metrics.LaneLag{
					Lane: fmt.Sprintf("kafka:%s/%d", p.Topic, p.Partition), Lag: time.Duration(p.LagSeconds * float64(time.Second)),
				})
			}
		}
		return out
	}}, nil
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

// input is what the other parts tell the metrics.
func (r *runner) input() metrics.Input {
	return metrics.Input{
		Sources: func() []metrics.Source {
			var out []metrics.Source
			for _, s := range r.sources {
				out = append(out, s.sources()...)
			}
			return out
		},
		Engine: func() metrics.Engine {
			s := r.engine.Stats()
			return metrics.Engine{Waiting: s.Waiting, Held: s.Held, MaxHeld: int64(r.reloader.Current().Pipeline.MaxBytes), Early: s.Early, Late: s.Late, CommitFailures: s.Failures}
		},
		Webhook: func() *metrics.Webhook { return webhookMetrics(r.webhook) },
		Pages: func() *metrics.Pages {
			if r.site == nil {
				return nil
			}
			s := r.site.Stats()
			return &metrics.Pages{Refused: s.Refused, Credentials: metrics.Credentials{Expires: s.CertificateExpires, ReloadFailures: s.ReloadFailures}}
		},
		DeadLetters: func() int64 { return r.letters.Stats().Written },
		State:       r.stateMetrics,
		Apiservers:  r.apiserverMetrics,
		Sinks:       r.sinks.stats,
		Alerts:      r.sinks.alertStats,
		Config: func() metrics.Config {
			s := r.reloader.Stats()
			return metrics.Config{Applied: s.Applied, Refused: s.Refused, NeedRestart: s.NeedRestart, LastSuccess: s.LastSuccess, OK: s.OK}
		},
	}
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

func (r *runner) stateMetrics() metrics.State {
	var out metrics.State
	if r.live == nil {
		for kind, n := range r.state.Summary().Objects {
			out.Kinds = append(out.Kinds, metrics.Kind{Name: kind, Objects: n, Synced: true})
		}
		return out
	}
	out.Watched = true
	now := time.Now()
	if mark := r.live.Watermark(now); !mark.IsZero() {
		out.Lag = max(0, now.Sub(mark))
	} else {
		out.Lag = now.Sub(r.started)
	}
	out.Kinds = kindMetrics(r.live.Status())
	return out
}

// kindMetrics takes a kind that is not served for synced: that there is none of it is all there is to know.
func kindMetrics(kinds []cluster.KindStatus) []metrics.Kind {
	var out []metrics.Kind
	for i := range kinds {
		k := &kinds[i]
		out = append(out, metrics.Kind{Name: k.Kind, Objects: k.Objects, Synced: k.Synced || k.Absent})
	}
	return out
}
