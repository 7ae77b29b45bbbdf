package app

import (
	"slices"
	"time"

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
	found     []tally.Entry
	excess    []tally.Entry // counted as soon as nothing else is
}

// advanceEvery is after how many requests the detectors' time moves on: often enough for them to keep little.
const advanceEvery = 256

func (o *overTime) observe(j *pipeline.Judgement) {
	o.detectors.Observe(&j.Request, o.state)
	if o.observed++; o.observed%advanceEvery == 0 {
		o.detectors.Advance(time.Time{}, o.state, o.add)
	}
}

// maxFound bounds what is kept of it.
const maxFound = 100_000

func (o *overTime) add(d *rules.Detection) {
	entry := pipeline.DetectionEntry(d, o.state)
	if len(o.found) >= maxFound {
		o.excess = append(o.excess, entry)
		return
	}
	o.found = append(o.found, entry)
}

// relieve counts what was found beyond what is kept.
func (o *overTime) relieve() {
	for i := range o.excess {
		o.count(&o.excess[i])
	}
	o.excess = nil
}

// flush adds all that was found to the report.
func (o *overTime) flush() {
	o.detectors.Flush(o.state, o.add)
	o.relieve()
	// A group has the message of the first finding with its severity: here that is to be the last, which knows the whole story.
	slices.Reverse(o.found)
	for i := range o.found {
		o.count(&o.found[i])
	}
	o.found = nil
}
