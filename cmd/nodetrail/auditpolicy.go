package main

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// readPolicy reads the audit policy that a flag names.
func (a *analysis) readPolicy() error {
	if a.auditPolicy == "" {
		return nil
	}
	p, err := coverage.ReadPolicy(a.auditPolicy)
	if err != nil {
		return fmt.Errorf("--audit-policy: %w", err)
	}
	stderr := a.std.err
	for _, w := range p.Warnings {
		_, _ = fmt.Fprintf(stderr, "nodetrail: %s: the apiserver would warn of this policy: %s\n", a.auditPolicy, report.Visible(w))
	}
	a.gaps = p.Gaps(coverage.PolicyOptions{StateFromAudit: a.fromAudit && len(a.state) == 0})
	return nil
}

// addGaps adds what the audit policy keeps out of the log to the findings, as of the log's end.
func (a *analysis) addGaps(b *report.Builder, end time.Time) {
	if !slices.ContainsFunc(a.rules, func(r *rules.Rule) bool { return r.Name == rules.CoverageGap }) {
		return
	}
	for i := range a.gaps {
		g := &a.gaps[i]
		sum := sha256.Sum256([]byte(g.Cause + "\x00" + g.Message))
		e := tally.Entry{Time: end.UTC(), Findings: []tally.Finding{coverageFinding(g)}}
		copy(e.ID[:], sum[:])
		b.AddEntry(&e)
	}
}
