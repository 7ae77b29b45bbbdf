package app

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// overTime gathers what the detectors find in a log.
type overTime struct {
	detectors *rules.Detectors
	state     rules.State
	count     func(*tally.Entry)
	observed  int
	found     []tally.Entry // counted as soon as nothing else is
	// missed are the requests that the detectors left out since the log is not in order, missedOfNodes those of nodes.
	missed, missedOfNodes leftOut
}

// leftOut are requests that the detectors left out. The zero value is none.
type leftOut struct {
	requests    int64
	first, last time.Time
	auditIDs    []string
}

// maxLeftOut bounds the audit IDs of requests that were left out.
const maxLeftOut = 5

func (l *leftOut) add(j *pipeline.Judgement) {
	l.requests++
	if l.first.IsZero() || j.Time.Before(l.first) {
		l.first = j.Time
	}
	l.last = later(l.last, j.Time)
	if len(l.auditIDs) < maxLeftOut {
		l.auditIDs = append(l.auditIDs, strings.Clone(tally.Bounded(j.Event.AuditID)))
	}
}

// doubt says that a check lacks the requests, if some are from that time or later.
func (l *leftOut) doubt(out *checks.Findings, since time.Time) {
	if l.requests > 0 && !l.last.Before(since) {
		out.Doubt(checks.Item{Code: checks.CodeLeftOut, From: l.first, To: l.last, AuditIDs: l.auditIDs, Count: l.requests})
	}
}

// advanceEvery is after how many requests the detectors' time moves on: often enough for them to keep little.
const advanceEvery = 256

func (o *overTime) observe(j *pipeline.Judgement) {
	if o.detectors.Observe(&j.Request, o.state) && o.detectors.Disordered(&j.Request) {
		if o.missed.add(j); j.IsNode {
			o.missedOfNodes.add(j)
		}
	}
	if o.observed++; o.observed%advanceEvery == 0 {
		o.detectors.Advance(time.Time{}, o.state, o.add)
	}
}

func (o *overTime) add(d *rules.Detection) {
	o.found = append(o.found, pipeline.DetectionEntry(d, o.state))
}

// relieve counts what was found.
func (o *overTime) relieve() {
	for i := range o.found {
		o.count(&o.found[i])
	}
	clear(o.found)
	o.found = o.found[:0]
}

// flush adds all that was found to the report.
func (o *overTime) flush() {
	o.detectors.Flush(o.state, o.add)
	o.relieve()
}
