package app

import (
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
	found     []tally.Entry // counted as soon as nothing else is
}

// advanceEvery is after how many requests the detectors' time moves on: often enough for them to keep little.
const advanceEvery = 256

func (o *overTime) observe(j *pipeline.Judgement) {
	o.detectors.Observe(&j.Request, o.state)
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
