package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// WhatIfOptions are those of WhatIf. Only Logs is needed.
type WhatIfOptions struct {
	ChangeOptions
	// Cluster is the cluster's name, for the report.
	Cluster string
}

// Validate says what is wrong with the options, before anything is read: an *OptionError, or ErrStdinTwice.
func (o *WhatIfOptions) Validate() error { return o.validate() }

// WhatIfResult is what came of WhatIf.
type WhatIfResult struct {
	Report *report.WhatIfReport
	// Unread is why files could not be read to their end, nil if all were. What was not read may hold what breaks: the report's evidence is
	// insufficient then.
	Unread error
}

// WhatIf goes through finished logs and says what would have become of each request of a node under the change: Node allows it anyway, RBAC
// still allows it by another binding, or it breaks. Each request is judged as of its own time.
//
// The requests of others than nodes are looked at where something of Without let them through.
//
// Its errors are as Analyze's, those of manifests that cannot be read, and an *UnknownError for what Without names and neither the state nor an
// annotation of the log has, unless the log was not read to its end. It reads the logs, the state and the manifests, and writes nothing.
func WhatIf(ctx context.Context, o WhatIfOptions) (*WhatIfResult, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	c, err := o.prepare()
	if err != nil {
		return nil, err
	}
	var b *report.WhatIfBuilder
	var setup *judging.Setup
	lags := newLagBook(o.KubeletUserAgents)
	c.logs.All, c.logs.Ledger = c.everybody(), evidence.New()
	c.judged.Rules = slices.DeleteFunc(rules.All(), func(r *rules.Rule) bool { return r.Name != rules.ExcessAccess })
	res, counts, err := c.run(ctx, func(s *judging.Setup) {
		setup, b = s, report.NewWhatIfBuilder(c.over(s))
	}, func(j *pipeline.Judgement) error {
		if j.Observed.HasGrant {
			c.without.see(&j.Observed.Grant)
		}
		b.Add(j)
		lags.add(j, &tally.Entry{})
		return nil
	})
	if err != nil {
		return nil, err
	}
	lag := lags.lag(c.logs.Ledger)
	facts := c.facts(setup, res, counts, o.Cluster, nil)
	first, last := evidence.HourOf(res.First), evidence.HourOf(c.end(res))
	limited := limitedInTheEnd(&facts.Authorization, c.logs.Ledger, first, last, func(string) bool { return false })
	b.Settle(func(auditID string, at time.Time) bool { return lag.requests[lagged{auditID, at}] > 0 }, limited)
	r := b.Report(facts)
	r.Without, r.With = c.without.words(), append(r.With, o.With...)
	out := &WhatIfResult{Report: r, Unread: errors.Join(res.Errors...)}
	if out.Unread != nil {
		r.Evidence = "insufficient"
	} else if err := c.without.unknown(setup.State.RBAC); err != nil { // what was not read may name what Without does
		return nil, err
	}
	return out, nil
}
