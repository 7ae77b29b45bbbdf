package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rs/zerolog"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks/metrics"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// gapTeller tells of input that may be missing: in the log, in a metric, and as a finding. Safe for concurrent use, as long as the engine runs.
type gapTeller struct {
	engine  *court
	metrics *metrics.Metrics
	config  func() *config.Config
	log     zerolog.Logger
}

// lost tells that something of a lane was lost or is late.
func (t *gapTeller) lost(reason rules.Reason, lane string, p ...codes.Param) {
	t.metrics.Gap(string(reason))
	f := tally.Finding{
		Key: tally.Key{Rule: rules.CoverageGap, Name: lane, Reason: reason}, Reason: reason, Severity: rules.Medium, Params: p,
	}
	t.log.Warn().Str("partition", lane).Str("rule", rules.CoverageGap).Str("reason", string(reason)).
		Msg(wording.English{}.Finding(&f.Key, &tally.Group{Reason: reason, Params: p}))
	if err := t.note(f); err != nil {
		t.log.Warn().Err(err).Str("partition", lane).Msg("cannot store that input may be missing")
	}
}

// coverage stores a gap as a finding.
func (t *gapTeller) coverage(g *codes.Gap) {
	if err := t.note(coverageFinding(g)); err != nil {
		t.log.Warn().Err(err).Str("where", g.Params.Text(codes.ParamWhere)).Msg("cannot store that the log has a gap")
	}
}

// note stores a finding, unless the rule is disabled.
func (t *gapTeller) note(f tally.Finding) error {
	if slices.Contains(t.config().Rules.Disable, rules.CoverageGap) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return t.engine.Note(ctx, time.Now(), f)
}

// coverageWatch tells, in addition to the log, what it cannot contain. It runs with the sources, and there is nothing to close.
type coverageWatch struct {
	policy  string            // the file of the audit policy, "" for none
	scraper *coverage.Scraper // nil without one
	options coverage.PolicyOptions
	gaps    *gapTeller
}

// openCoverage reads the audit policy, whose errors are the configuration's, and makes what reads the API servers' metrics.
func openCoverage(c *config.Config, state *stateFeed, gaps *gapTeller) (*coverageWatch, error) {
	w := &coverageWatch{
		policy: c.Coverage.PolicyFile, options: coverage.PolicyOptions{StateFromAudit: c.State.FromAudit && !state.given}, gaps: gaps,
	}
	if w.policy != "" {
		if _, err := coverage.ReadPolicy(w.policy); err != nil {
			return nil, fmt.Errorf("coverage.policyFile: %w", err)
		}
	}
	a := c.Coverage.ApiserverMetrics
	if a == nil {
		return w, nil
	}
	credentials := coverage.Credentials{
		CAFile: a.TLS.CAFile, ServerName: a.TLS.ServerName, CertFile: a.TLS.CertFile, KeyFile: a.TLS.KeyFile, BearerTokenFile: a.BearerTokenFile,
	}
	client, err := credentials.Client()
	if err != nil {
		return nil, fmt.Errorf("coverage.apiserverMetrics: %w", err)
	}
	w.scraper, err = coverage.NewScraper(coverage.ScrapeOptions{
		URLs: a.URLs, Client: client, Authorize: credentials.Authorize, Every: a.Every.D(), Timeout: a.Timeout.D(), MaxBytes: int64(a.MaxBytes),
		Gap: func(g codes.Gap) { w.tell(&g, "apiserver", g.Params.Text(codes.ParamWhere)) },
	}, gaps.log)
	if err != nil {
		return nil, fmt.Errorf("coverage.apiserverMetrics: %w", err)
	}
	return w, nil
}

// tell tells of a gap in full.
func (w *coverageWatch) tell(g *codes.Gap, key, where string) {
	w.gaps.metrics.Gap(string(g.Code))
	w.gaps.log.Warn().Str(key, where).Str("rule", rules.CoverageGap).Str("reason", string(g.Code)).Msg(wording.English{}.Say(g.Code, g.Params))
	w.gaps.coverage(g)
}

// start starts what there is to watch.
func (w *coverageWatch) start(s *stage) {
	if w.policy != "" {
		s.start("watching the audit policy", w.watchPolicy)
	}
	if w.scraper != nil {
		s.start("reading metrics of apiservers", w.scraper.Run)
	}
}

// tellPolicyEvery is how often what the audit policy hides is reported again: it continues.
const tellPolicyEvery = 10 * time.Minute

// watchPolicy tells what the audit policy hides, again and again, and notices when the file changes.
func (w *coverageWatch) watchPolicy(ctx context.Context) error {
	tick := time.NewTicker(tellPolicyEvery)
	defer tick.Stop()
	var told []codes.Gap
	failing := false
	for {
		var gaps []codes.Gap
		p, err := coverage.ReadPolicy(w.policy)
		if err == nil {
			gaps = p.Gaps(w.options)
		} else if !failing {
			w.gaps.log.Warn().Err(err).Msg("cannot read the audit policy any more: gaps that it causes are not reported")
		}
		failing = err != nil
		for i := range gaps {
			g := &gaps[i]
			if slices.ContainsFunc(told, func(t codes.Gap) bool { return t.Equal(g) }) {
				w.gaps.coverage(g)
				continue
			}
			told = append(told, *g)
			w.tell(g, "policy", w.policy)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// metrics are the figures of the API servers whose metrics are read.
func (w *coverageWatch) metrics() []metrics.Apiserver {
	if w.scraper == nil {
		return nil
	}
	var out []metrics.Apiserver
	for _, s := range w.scraper.Stats() {
		out = append(out, metrics.Apiserver{Name: s.URL, Up: s.Up, LastSuccess: s.LastSuccess, Failures: s.Failures, Lost: s.Lost})
	}
	return out
}
