package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/sinks/http"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// verdictLines is the kind of sinks of verdicts.
const verdictLines = "verdicts"

// part is one sink but those of alerts: a queue of findings and changes of incidents, or lines of verdicts.
type part struct {
	kind, name string
	of         any // its configuration, to compare it
	format     sinks.Format
	queue      *sinks.Queue
	lines      *jsonl.Lines
	file       *jsonl.File // nil if it writes to none

	open    func(p *part) (sinks.Sender, error) // not of lines
	batch   int
	timeout time.Duration
	sender  sinks.Sender // that is opened and in no queue yet
}

// takes reports whether the sink has a form for what waits.
func (p *part) takes(f *sinks.Finding) bool {
	if f.Incident != nil {
		return p.format.Incidents()
	}
	return p.format.Findings()
}

func (p *part) stats() []metrics.Sink {
	if p.lines != nil {
		return []metrics.Sink{{Name: p.name, Stats: p.lines.Stats()}}
	}
	return []metrics.Sink{{Name: p.name, Stats: p.queue.Stats()}}
}

func (p *part) close(ctx context.Context) error {
	if p.lines != nil {
		return p.lines.Close(ctx)
	}
	return p.queue.Close(ctx)
}

// sinkChange puts the sinks of a configuration in place of those of a set.
type sinkChange struct {
	set    *sinkSet
	config *config.Config
	log    zerolog.Logger
	parts  []*part // with those of the set that stay as they are
	alerts []*alerting
	commit chan struct{} // closed when the change is made
}

// wanted lists the sinks of the configuration.
func (c *sinkChange) wanted() []*part {
	var out []*part
	add := func(p *part, of any) {
		p.of = []any{of, c.config.Sinks.Queue}
		out = append(out, p)
	}
	for i := range c.config.Sinks.JSONL {
		j := &c.config.Sinks.JSONL[i]
		p := &part{kind: "jsonl", name: "jsonl:" + j.Path, format: sinks.Format(j.Format)}
		if j.Verdicts {
			p.kind, p.format = verdictLines, ""
		}
		p.open = func(p *part) (sinks.Sender, error) {
			var err error
			if p.file, err = jsonl.OpenFile(j.Path); err != nil {
				return nil, fmt.Errorf("sinks.jsonl[%d]: %w", i, err)
			}
			return jsonl.NewSender(p.name, p.file, p.format), nil
		}
		add(p, *j)
	}
	for i := range c.config.Sinks.HTTP {
		h := &c.config.Sinks.HTTP[i]
		p := &part{kind: "http", name: h.Name, format: sinks.Format(h.Format), batch: h.MaxBatch, timeout: 2 * h.Timeout.D()}
		if p.format == sinks.Slack {
			p.batch = 1 // what was taken of a batch would come again with what was not
		}
		pages := cmp.Or(h.ExternalURL, pagesURL(c.config))
		p.open = func(*part) (sinks.Sender, error) {
			sender, err := httpSink(h, pages)
			if err != nil {
				return nil, fmt.Errorf("sinks.http[%d]: %w", i, err)
			}
			return sender, nil
		}
		add(p, []any{*h, pages})
	}
	for i := range c.config.Sinks.Kafka {
		k := &c.config.Sinks.Kafka[i]
		p := &part{kind: "kafka", name: k.Name, format: sinks.Format(k.Format)}
		p.open = func(*part) (sinks.Sender, error) {
			sender, err := kafkaSink(k, c.log)
			if err != nil {
				return nil, fmt.Errorf("sinks.kafka[%d]: %w", i, err)
			}
			return sender, nil
		}
		add(p, *k)
	}
	return out
}

func httpSink(h *config.HTTPSink, pages string) (sinks.Sender, error) {
	headers := map[string]string{}
	for k, v := range h.Headers {
		headers[k] = v.Reveal()
	}
	return http.New(http.Options{
		Name: h.Name, URL: h.URL, Format: sinks.Format(h.Format), Pages: pages, Headers: headers, Username: h.Username,
		Password: h.Password.Reveal(), PasswordFile: h.PasswordFile, BearerToken: h.BearerToken.Reveal(), BearerTokenFile: h.BearerTokenFile,
		CAFile: h.TLS.CAFile, ServerName: h.TLS.ServerName, CertFile: h.TLS.CertFile, KeyFile: h.TLS.KeyFile, Timeout: h.Timeout.D(),
	})
}

// plan opens what is new, without a change to the set.
func (c *sinkChange) plan() error {
	for _, p := range c.wanted() {
		if was := c.before(p); was != nil && (was.lines != nil || reflect.DeepEqual(was.of, p.of)) {
			p = was
		} else {
			sender, err := p.open(p)
			if err != nil {
				return err
			}
			p.sender = sender
		}
		c.parts = append(c.parts, p)
	}
	for i := range c.config.Sinks.Alertmanager {
		if err := c.alertmanager(&c.config.Sinks.Alertmanager[i]); err != nil {
			return fmt.Errorf("sinks.alertmanager[%d]: %w", i, err)
		}
	}
	return nil
}

// before is the sink of the set with the kind and name.
func (c *sinkChange) before(p *part) *part {
	i := slices.IndexFunc(c.set.parts, func(was *part) bool { return was.kind == p.kind && was.name == p.name })
	if i < 0 {
		return nil
	}
	return c.set.parts[i]
}

// undo closes what was opened.
func (c *sinkChange) undo() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var errs []error
	for _, p := range c.parts {
		if closer, is := p.sender.(io.Closer); is {
			errs = append(errs, closer.Close())
		}
	}
	for _, a := range c.alerts {
		if !slices.Contains(c.set.alerts, a) {
			errs = append(errs, a.close(ctx, false))
		}
	}
	return errors.Join(errs...)
}

// apply makes the change, and returns what is to be closed. The set is locked.
func (c *sinkChange) apply() (gone []*leaver) {
	s := c.set
	var targets []*sinks.Queue
	for _, p := range c.parts {
		c.begin(p)
		if p.queue != nil && p.format.Findings() {
			targets = append(targets, p.queue)
		}
	}
	if s.grouper != nil && (len(targets) == 0 || c.config.Sinks.Findings != s.every) {
		s.grouper.Close() // what it has is for the sinks before
		s.grouper = nil
	}
	s.targets.Store(&targets)
	if s.grouper == nil && len(targets) > 0 {
		s.every = c.config.Sinks.Findings
		s.grouper = sinks.NewGrouper(sinks.GrouperOptions{Cluster: c.config.Cluster, Every: s.every.Every.D(), MaxGroups: s.every.MaxGroups}, s.give)
	}
	for _, was := range s.parts {
		if !slices.ContainsFunc(c.parts, func(p *part) bool { return p.queue == was.queue && p.lines == was.lines }) {
			gone = append(gone, &leaver{close: was.close, stats: was.stats})
		}
	}
	for _, was := range s.alerts {
		if !slices.Contains(c.alerts, was) {
			successor := slices.ContainsFunc(c.alerts, func(a *alerting) bool { return a.name() == was.name() })
			gone = append(gone, &leaver{close: func(ctx context.Context) error { return was.close(ctx, successor) }, stats: was.stats, alerts: was.alertStats})
		}
	}
	s.parts, s.alerts = c.parts, c.alerts
	s.leaving = append(s.leaving, gone...)
	return gone
}

// begin starts a sink that is new, and gives a changed one its sender.
func (c *sinkChange) begin(p *part) {
	q := &c.config.Sinks.Queue
	if p.kind == verdictLines {
		if p.lines == nil {
			p.lines = jsonl.NewLines(p.name, p.file, int64(q.MaxBytes), c.log)
		}
		p.lines.Bound(int64(q.MaxBytes))
		return
	}
	sender := p.sender
	if sender == nil {
		return
	}
	if p.format.Incidents() && c.set.announced != nil {
		sender = &announcingSender{sender, c.set.announced}
	}
	o := sinks.QueueOptions{
		MaxFindings: q.MaxFindings, MaxBytes: int64(q.MaxBytes), MaxBackoff: q.MaxBackoff.D(), MaxBatch: p.batch, Timeout: p.timeout, Log: c.log,
	}
	p.sender = nil
	if was := c.before(p); was != nil {
		p.queue = was.queue
		p.queue.Exchange(sender, o, p.takes)
		return
	}
	p.queue = sinks.NewQueue(sender, o)
}
