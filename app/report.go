package app

import (
	"context"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/report"
)

// ReportOptions are those of Report.
type ReportOptions struct {
	StoreOptions
	// Window is the time that ends with the last request that is stored, and is so long; 0 is all that there is. Counts are kept by the
	// hour, so it begins with one.
	Window time.Duration
	// Waivers say who answers for what the log cannot show, as of the time of the call.
	Waivers []checks.Waiver
}

// Report makes the report of what Run has stored, also while it is running.
//
// Errors are the configuration's, a *NoStoreError, and the store's. It reads the configuration and the store, and writes nothing.
func Report(ctx context.Context, o ReportOptions) (*report.Report, error) {
	c, err := o.load()
	if err != nil {
		return nil, err
	}
	s, err := openToRead(ctx, c, o.Config != "")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	stored, err := s.Facts(ctx)
	if err != nil {
		return nil, err
	}
	var from, newest time.Time
	if o.Window > 0 {
		if newest, err = s.Newest(ctx, time.Now()); err != nil {
			return nil, err
		}
		if !newest.IsZero() {
			from = newest.Add(-o.Window)
		}
	}
	t, err := s.Tally(ctx, from, time.Time{})
	if err != nil {
		return nil, err
	}
	t.Events.Judged = t.Sums.Allow + t.Sums.Deny + t.Sums.Unknown
	f, err := fromStore(stored)
	if err != nil {
		return nil, err
	}
	f.Lacks = append(f.Lacks, report.Uncovered(t.From, newest, o.Window)...)
	f.Events, f.MinWindow = report.EventsOf(&t.Events), c.Readiness.MinWindow.D()
	proven := proof{minWindow: f.MinWindow, tally: t, facts: &f, kubelets: c.Rules.KubeletUserAgents, to: t.To}
	begin := t.To.Add(-f.MinWindow)
	if f.MinWindow <= 0 {
		begin = t.From
	}
	if proven.ledger, err = s.Evidence(ctx, begin, t.To); err != nil {
		return nil, err
	}
	if p, err := coverage.ReadPolicy(c.Coverage.PolicyFile); err == nil { // a report is made elsewhere, too, where nobody has the policy
		proven.policy = p
	}
	f.Checks, f.Waivers = checks.Apply(checks.Run(proven.input()), o.Waivers, time.Now())
	return report.Make(t, f), nil
}
