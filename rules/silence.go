package rules

import (
	"math"
	"math/bits"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/floor"
)

// surprise is how unlikely a silence must be, as -ln of its probability: one in a billion. Requests are not independent of each other,
// so that the true probability is greater.
const surprise = 20.7

const (
	// leastSilence is the shortest silence of the whole log that is reported, in steps: three minutes. A restart of the API server takes less.
	leastSilence = 18
	// leastHistory is for how long the log must have been seen before, in steps: five minutes.
	leastHistory = 30
	// certainSilence needs no such history, in steps: six hours. No kubelet is silent for so long, and two parts of a log that lie days apart, or
	// one request with a wrong time, must not pass for a log of days.
	certainSilence = 6 * stepsPerHour
	// stepsPerMinute and stepsPerHour are in steps of DetectStep.
	stepsPerMinute = int64(time.Minute / DetectStep)
	stepsPerHour   = 60 * stepsPerMinute
	// retell is how often what continues is reported again, in minutes, and retellFor for how long.
	retell, retellFor = 10, 24 * 60
)

// busy is the last hour, a bit for each step in which there was a request; the lowest is the latest.
type busy [6]uint64

const busySteps = 360

func (b *busy) push(silent int64) {
	for ; silent > 0 && *b != (busy{}); silent-- {
		b.shift()
	}
	b.shift()
	b[0] |= 1
}

func (b *busy) shift() {
	for i := len(b) - 1; i > 0; i-- {
		b[i] = b[i]<<1 | b[i-1]>>63
	}
	b[0] <<= 1
	b[len(b)-1] &= 1<<(busySteps-5*64) - 1
}

func (b *busy) count() (n int64) {
	for _, w := range b {
		n += int64(bits.OnesCount64(w))
	}
	return n
}

// longest is the longest silence among the latest n steps.
func (b *busy) longest(n int64) (most int64) {
	run := int64(0)
	for i := range min(n, busySteps) {
		if b[i/64]>>(i%64)&1 == 1 {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	return most
}

// improbable is the test for a silence: of n spans of time before, some had requests; now k spans have none. If spans were independent, with the
// probability (had)/(n+2) of a request in each, the silence would have a probability of less than one in a billion. It must also be
// more than three times as long as the longest one before, since requests come in bunches.
func improbable(had, n, k, longest int64) bool {
	if had <= 0 || k <= 3*longest {
		return false
	}
	p := float64(had) / float64(n+2)
	return -float64(k)*math.Log1p(-p) > surprise
}

// logSilence watches for silences of the whole log. Steps are counted from 1970.
type logSilence struct {
	first, last int64 // the first and the last step with a request; last 0: none yet
	resumed     int64 // the step in which requests came again after the last silence of a minute or more
	hour        busy
	nodes       int  // how many nodes spoke in the hour before, counted when a silence is suspected
	told        bool // the silence since last
}

// silent judges the silence at the end of a minute, and returns what is found. nodes counts those that spoke lately.
func (l *logSilence) silent(step int64, nodes func() int, found func(*Detection)) {
	k := step - l.last - 1
	if l.last == 0 || k < leastSilence {
		return
	}
	n := max(1, min(l.last-l.first+1, busySteps))
	if !l.told {
		if n < leastHistory && k < certainSilence || !improbable(l.hour.count(), n, k, l.hour.longest(n)) {
			return
		}
		// One node alone may be down, or asleep with its cluster.
		if l.nodes = nodes(); l.nodes < 2 {
			return
		}
		l.told = true
	} else if minute := step/stepsPerMinute - (l.last+1)/stepsPerMinute; minute%retell != 0 || minute > retellFor {
		return
	}
	found(l.detection(step, k, "", codes.Int(ParamNodes, l.nodes), codes.Int(ParamPercent, 100*l.hour.count()/n)))
}

// spoke takes in a step with requests, and tells of the end of a silence.
func (l *logSilence) spoke(step int64, found func(*Detection)) {
	if l.last == 0 {
		l.first, l.resumed = step, step
		l.hour.push(0)
		l.last = step
		return
	}
	k := step - l.last - 1
	switch {
	case k < 0: // before a restart it was taken to have been later
		return
	case l.told:
		found(l.detection(step, k, "end", codes.Time(ParamUntil, stepTime(step))))
		// What was found does not become the custom.
		l.told, l.resumed, k = false, step, 0
	case k >= stepsPerMinute:
		l.resumed = step
	}
	l.hour.push(min(k, busySteps))
	l.last = step
}

// detection is about a silence of k steps.
func (l *logSilence) detection(step, k int64, phase string, more ...codes.Param) *Detection {
	since := stepTime(l.last + 1)
	p := append(codes.Params{codes.Time(ParamSince, since), codes.Duration(ParamFor, lasting(k))}, more...)
	return &Detection{
		Finding: Finding{Rule: CoverageGap, Reason: LogSilent, Severity: Medium, Params: p},
		Time:    stepTime(step), Phase: phase, First: since, Last: stepTime(step),
	}
}

func stepTime(step int64) time.Time { return time.Unix(step*int64(DetectStep/time.Second), 0).UTC() }

func stepOf(t time.Time) int64 { return floor.Div(t.Unix(), int64(DetectStep/time.Second)) }

// lasting is a number of steps as a duration, of which 292 years is the longest.
func lasting(steps int64) time.Duration {
	return time.Duration(min(steps, math.MaxInt64/int64(DetectStep))) * DetectStep
}
