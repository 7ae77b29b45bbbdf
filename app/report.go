package app

import (
	"context"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/internal/config"
	"github.com/nodetrail/nodetrail/report"
)

// ReportOptions are those of Report.
type ReportOptions struct {
	StoreOptions
	// Window is the time that ends with the last request that is stored, and is so long; 0 is all that there is. Counts are kept by the
	// hour, so it begins with one.
	Window time.Duration
	// Nodes are as in AnalyzeOptions.
	Nodes []string
	// Waivers say who answers for what the log cannot show, as of the time of the call.
	Waivers []checks.Waiver
	// Exceptions hide findings from alerts and --fail-on, with those of the configuration.
	Exceptions []exceptions.Exception
}

// Report makes the report of what Run has stored, also while it is running.
//
// Errors are the configuration's, a *NoStoreError, a *store.UnknownClusterError, an *UnknownError for a node that the store does not know, and the store's. It reads the configuration and the store, and writes nothing.
func Report(ctx context.Context, o ReportOptions) (*report.Report, error) {
	c, err := o.load()
	if err != nil {
		return nil, err
	}
	s, err := o.openToRead(ctx, c)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	stored, err := s.Facts(ctx)
	if err != nil {
		return nil, err
	}
	var from time.Time
	newest, err := s.Newest(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	if o.Window > 0 && !newest.IsZero() {
		from = newest.Add(-o.Window)
	}
	t, err := s.Tally(ctx, from, time.Time{})
	if err != nil {
		return nil, err
	}
	t.EndBy(newest)
	t.Events.Judged = t.Sums.Allow + t.Sums.Deny + t.Sums.Unknown
	f, err := fromStore(stored)
	if err != nil {
		return nil, err
	}
	if f.Begins, err = storedBegins(ctx, s); err != nil {
		return nil, err
	}
	f.Lacks = append(f.Lacks, report.Uncovered(f.Since(t.From), newest, o.Window)...)
	f.Lacks = append(f.Lacks, report.Together(t)...)
	f.Events, f.MinWindow = report.EventsOf(&t.Events), c.Readiness.MinWindow.D()
	only := onlyNodes(o.Nodes)
	state, err := storedState(ctx, s, time.Time{})
	if err != nil {
		return nil, err
	}
	if err := only.check(state, t); err != nil {
		return nil, err
	}
	p := prover{store: s, config: func() *config.Config { return c }, waivers: o.Waivers, only: only}
	if err := p.prove(ctx, t, o.Window, &f); err != nil {
		return nil, err
	}
	f.Only, f.Aside = o.Nodes, only.aside(state, t)
	f.Exceptions, f.Now = exceptionsOf(c, o.Exceptions), time.Now()
	book, last, err := storedBook(ctx, s, f.Cluster, f.Exceptions, f.Now)
	if err != nil {
		return nil, err
	}
	f.Incidents, f.IncidentsMore = book.First(last, func(in *incidents.Incident) bool { return !in.Last.Before(from) }, incidents.ReportMost, nodesOf(&f))
	return report.Make(t, f), nil
}
