package app

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/pipeline/file"
	"github.com/nodetrail/nodetrail/pipeline/kafka"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/pipeline/webhook"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/web"
)

// sourceSet is the sources of a service. They are opened once there is an engine to give batches to, end before it, and close what they hold
// when they end; letters is closed by whoever opened it.
type sourceSet struct {
	all     []*runningSource
	webhook *webhook.Server // nil without one
	letters *source.DeadLetter
	gaps    *gapTeller
	log     zerolog.Logger
}

// runningSource is a source in a sourceSet.
type runningSource struct {
	name string
	run  func(context.Context, source.Intake) error
	// sources are its figures; one that reads several topics or logs is several to those who look at metrics.
	sources func() []metrics.Source
}

// open makes every source, but starts none.
func (s *sourceSet) open(c *config.Config, engine *court, instance string) error {
	want := audit.Want{State: c.State.FromAudit, Aside: true}
	// Several analyzers on one store may have logs of one name, each its own. Kafka's partitions are shared.
	own := func(s *runningSource) *runningSource {
		if c.Store.Postgres == nil {
			return s
		}
		run := s.run
		s.run = func(ctx context.Context, in source.Intake) error { return run(ctx, &ownLanes{in, ownSuffix(instance)}) }
		return s
	}
	for i := range c.Sources.Files {
		s.all = append(s.all, own(s.fileSource(&c.Sources.Files[i], want)))
	}
	if w := c.Sources.Webhook; w != nil {
		o := webhookOptions(w, s.letters, s.log)
		o.Want = want
		srv, err := webhook.New(o)
		if err != nil {
			return fmt.Errorf("sources.webhook: %w", err)
		}
		s.webhook = srv
		s.all = append(s.all, own(&runningSource{name: srv.Lane(), run: srv.Run, sources: func() []metrics.Source {
			lag := time.Duration(0)
			if at := engine.Stats().Oldest; !at.IsZero() {
				lag = max(0, time.Since(at))
			}
			return []metrics.Source{{Name: srv.Lane(), Up: true, Lanes: []metrics.LaneLag{{Lane: srv.Lane(), Lag: lag}}}}
		}}))
	}
	if k := c.Sources.Kafka; k != nil {
		src, err := s.kafkaSource(k, want)
		if err != nil {
			return fmt.Errorf("sources.kafka: %w", err)
		}
		s.all = append(s.all, src)
	}
	return nil
}

func (s *sourceSet) names() []string {
	var names []string
	for _, one := range s.all {
		names = append(names, one.name)
	}
	return names
}

// start starts them all.
func (s *sourceSet) start(in *stage, engine source.Intake) {
	for _, one := range s.all {
		in.start("reading "+one.name, func(ctx context.Context) error { return one.run(ctx, engine) })
	}
}

// notReady says which source does not take events yet: an API server drops what nobody accepts.
func (s *sourceSet) notReady() []string {
	if s.webhook == nil || s.webhook.Listens() {
		return nil
	}
	return []string{notListening}
}

const notListening = "the audit webhook does not listen yet"

// metrics are the sources' figures.
func (s *sourceSet) metrics() []metrics.Source {
	var out []metrics.Source
	for _, one := range s.all {
		out = append(out, one.sources()...)
	}
	return out
}

// lateAfter is from when on a source's lag is a gap in what a report can say.
const lateAfter = 5 * time.Minute

// tellLate tells of sources that are far behind.
func (s *sourceSet) tellLate() {
	for _, src := range s.metrics() {
		for _, l := range src.Lanes {
			if l.Lag > lateAfter {
				s.gaps.lost(rules.Delayed, l.Lane, codes.Duration(rules.ParamFor, lateAfter))
			}
		}
	}
}

// pages are the sources as the overview shows them.
func (s *sourceSet) pages(l *ledger) []web.Source {
	var out []web.Source
	for _, src := range s.metrics() {
		kind, _, _ := strings.Cut(src.Name, ":")
		if kind != "file" && kind != "kafka" {
			kind = "webhook"
		}
		one := web.Source{Name: src.Name, Kind: kind, Healthy: src.Up}
		lag, worst := time.Duration(0), ""
		for _, lane := range src.Lanes {
			if lane.Lag > lag {
				lag, worst = lane.Lag, lane.Lane
			}
			sum := l.lane(lane.Lane)
			one.Events += sum.events
			if !sum.latest.IsZero() && (one.Last == nil || sum.latest.After(*one.Last)) {
				one.Last = &sum.latest
			}
		}
		switch {
		case src.Why != "":
			one.Message = src.Why
		case !src.Up:
			one.Message = "it cannot be read"
		case lag > lateAfter:
			one.Healthy, one.Message = false, fmt.Sprintf("%s is %s behind", worst, lag.Round(time.Second))
		case lag >= time.Second:
			one.Message = fmt.Sprintf("%s behind", lag.Round(time.Second))
		default:
			one.Message = "up to date"
		}
		out = append(out, one)
	}
	return out
}

func (s *sourceSet) fileSource(c *config.FileSource, want audit.Want) *runningSource {
	from := file.Beginning
	if c.From == "end" {
		from = file.End
	}
	f := file.NewFollow(file.FollowOptions{
		Paths: c.Paths, Want: want, From: from, MaxEventBytes: int(c.MaxEventBytes), Poll: c.Poll.D(), PollOnly: c.PollOnly, FollowLinks: c.FollowLinks,
		Gap: func(lane, cause string) { s.gaps.lost(rules.LogLost, lane, codes.Text(rules.ParamTrouble, cause)) },
	}, s.log)
	return &runningSource{name: "file:" + strings.Join(c.Paths, ","), run: f.Run, sources: func() []metrics.Source {
		var out []metrics.Source
		for _, l := range f.Stats() {
			lag := time.Duration(0)
			if l.Behind > 0 { // nothing of a log that is new may be stored yet
				lag = max(0, time.Since(cmp.Or(l.LastEvent, l.Since)))
			}
			out = append(out, metrics.Source{Name: l.Lane, Up: l.Trouble == "", Why: l.Trouble, Lanes: []metrics.LaneLag{{Lane: l.Lane, Lag: lag}}})
		}
		return out
	}}
}

func (s *sourceSet) kafkaSource(c *config.KafkaSource, want audit.Want) (*runningSource, error) {
	o := kafka.Options{
		Cluster: kafkaCluster(c.Brokers, c.ClientID, &c.TLS, &c.SASL), Topics: c.Topics, Group: c.Group, StartOffset: c.StartOffset,
		Want: want, MaxEventBytes: int(c.MaxEventBytes), FetchBytes: int(c.FetchBytes), MaxBytes: int64(c.MaxBytes),
		MaxMessages: int64(c.MaxMessages), MaxWait: c.MaxWait.D(), SessionTimeout: c.SessionTimeout.D(),
		RebalanceTimeout: c.RebalanceTimeout.D(), DeadLetterTopic: c.DeadLetterTopic,
		OnGap: func(g kafka.Gap) {
			s.gaps.lost(rules.MessagesLost, fmt.Sprintf("kafka:%s/%d", g.Topic, g.Partition), codes.Text(rules.ParamTrouble, g.String()))
		},
	}
	if c.DeadLetterTopic == "" {
		o.DeadLetters = s.letters
	}
	src, err := kafka.New(o, s.log)
	if err != nil {
		return nil, err
	}
	return &runningSource{name: "kafka:" + strings.Join(c.Topics, ","), run: src.Run, sources: func() []metrics.Source {
		stats := src.Stats()
		byTopic := map[string]*metrics.Source{}
		var out []metrics.Source
		for _, topic := range c.Topics {
			out = append(out, metrics.Source{Name: "kafka:" + topic, Up: stats.Up})
		}
		for i := range out {
			byTopic[out[i].Name] = &out[i]
		}
		for _, p := range stats.Partitions {
			src := byTopic["kafka:"+p.Topic]
			if src == nil {
				continue
			}
			src.Up = src.Up && p.Up
			if p.Owned {
				src.Lanes = append(src.Lanes, metrics.LaneLag{
					Lane: fmt.Sprintf("kafka:%s/%d", p.Topic, p.Partition), Lag: time.Duration(p.LagSeconds * float64(time.Second)),
				})
			}
		}
		return out
	}}, nil
}
