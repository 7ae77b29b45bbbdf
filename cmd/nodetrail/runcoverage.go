package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/tally"
)

// tellPolicyEvery is how often what the audit policy hides is told again: it goes on.
const tellPolicyEvery = 10 * time.Minute

// coverageFinding is what is stored of a gap.
func coverageFinding(g *coverage.Gap) tally.Finding {
	f := tally.Finding{
		Key: tally.Key{Rule: rules.CoverageGap, Name: tally.Bounded(g.Where), Detail: g.Cause}, Severity: rules.Medium, Message: tally.Bounded(g.Message),
	}
	if g.Minor {
		f.Severity, f.Key.Detail = rules.Low, g.Cause+", minor"
	}
	return f
}

// openCoverage reads the audit policy, whose errors are the configuration's, and makes what reads the apiservers' metrics.
func (r *runner) openCoverage(c *config.Config) error {
	if path := c.Coverage.PolicyFile; path != "" {
		if _, err := r.policyGaps(c); err != nil {
			return fmt.Errorf("coverage.policyFile: %w", err)
		}
	}
	a := c.Coverage.ApiserverMetrics
	if a == nil {
		return nil
	}
	credentials := coverage.Credentials{
		CAFile: a.TLS.CAFile, ServerName: a.TLS.ServerName, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile, BearerTokenFile: a.BearerTokenFile,
	}
	client, err := credentials.Client()
	if err != nil {
		return fmt.Errorf("coverage.apiserverMetrics: %w", err)
	}
	r.scraper, err = coverage.NewScraper(coverage.ScrapeOptions{
		URLs: a.URLs, Client: client, Authorize: credentials.Authorize, Every: a.Every.D(), Timeout: a.Timeout.D(), MaxBytes: int64(a.MaxBytes),
		Gap: func(g coverage.Gap) {
			r.metrics.Gap(g.Cause)
			r.log.Warn().Str("apiserver", g.Where).Str("rule", rules.CoverageGap).Msg(g.Message)
			r.tellGap(&g)
		},
	}, r.log)
	if err != nil {
		return fmt.Errorf("coverage.apiserverMetrics: %w", err)
	}
	return nil
}

// policyGaps reads what the audit policy hides.
func (r *runner) policyGaps(c *config.Config) ([]coverage.Gap, error) {
	p, err := coverage.ReadPolicy(c.Coverage.PolicyFile)
	if err != nil {
		return nil, err
	}
	return p.Gaps(coverage.PolicyOptions{StateFromAudit: c.State.FromAudit && r.live == nil && len(c.State.Files) == 0}), nil
}

// watchPolicy tells what the audit policy hides, again and again, and notices when the file changes.
func (r *runner) watchPolicy(ctx context.Context) error {
	c := r.reloader.Current()
	tick := time.NewTicker(tellPolicyEvery)
	defer tick.Stop()
	told, failing := map[string]bool{}, false
	for {
		gaps, err := r.policyGaps(c)
		if err != nil && !failing {
			r.log.Warn().Err(err).Msg("the audit policy cannot be read any more: what it hides is not told")
		}
		failing = err != nil
		for i := range gaps {
			g := &gaps[i]
			if !told[g.Message] {
				told[g.Message] = true
				r.metrics.Gap(g.Cause)
				r.log.Warn().Str("policy", c.Coverage.PolicyFile).Str("rule", rules.CoverageGap).Msg(g.Message)
			}
			r.tellGap(g)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// tellGap stores a gap as a finding, unless the rule is disabled.
func (r *runner) tellGap(g *coverage.Gap) {
	if slices.Contains(r.reloader.Current().Rules.Disable, rules.CoverageGap) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.engine.Note(ctx, time.Now(), coverageFinding(g)); err != nil {
		r.log.Warn().Err(err).Str("where", g.Where).Msg("cannot store that the log has a gap")
	}
}

// startCoverage starts what tells, beside the log, what it cannot contain.
func (r *runner) startCoverage(s *stage) {
	if r.reloader.Current().Coverage.PolicyFile != "" {
		s.start("watching the audit policy", r.watchPolicy)
	}
	if r.scraper != nil {
		s.start("reading metrics of apiservers", r.scraper.Run)
	}
}

// apiserverMetrics are the figures of the apiservers whose metrics are read.
func (r *runner) apiserverMetrics() []metrics.Apiserver {
	if r.scraper == nil {
		return nil
	}
	var out []metrics.Apiserver
	for _, s := range r.scraper.Stats() {
		out = append(out, metrics.Apiserver{Name: s.URL, Up: s.Up, LastSuccess: s.LastSuccess, Failures: s.Failures, Lost: s.Lost})
	}
	return out
}
