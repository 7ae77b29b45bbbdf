package rules

import (
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// watchCount counts watches of nodes, of secrets and of all else: those that are known since they began, and those of which the log has nothing before their
// end, a minute later or more.
type watchCount struct {
	Begun, Ended [2]int64
}

// add counts the request, if it is a watch that was answered.
func (c *watchCount) add(r *Request) {
	if r.Attrs.Verb != "watch" || !r.Attrs.ResourceRequest || r.Event.Code == 0 || r.Event.Stage == audit.StageRequestReceived || r.Event.Derived {
		return
	}
	of := 1
	if r.Attrs.APIGroup == "" && r.Attrs.Resource == "secrets" {
		of = 0
	}
	if r.Event.StageTime.Sub(r.Time) < time.Minute {
		c.Begun[of]++
	} else {
		c.Ended[of]++
	}
}

func (c *watchCount) plus(o *watchCount) {
	for i := range c.Begun {
		c.Begun[i] += o.Begun[i]
		c.Ended[i] += o.Ended[i]
	}
}

// watchCounts are those of two hours, the one at hand and the one before.
type watchCounts struct {
	Hour        int64
	Now, Before watchCount
}

// take takes in what there was in a step.
func (c *watchCounts) take(step int64, of *watchCount) {
	switch hour := step / stepsPerHour; {
	case hour == c.Hour+1:
		c.Hour, c.Before, c.Now = hour, c.Now, watchCount{}
	case hour > c.Hour:
		c.Hour, c.Before, c.Now = hour, watchCount{}, watchCount{}
	}
	c.Now.plus(of)
}

// fewestEnded is how many watches must be known by their end alone to say that those of secrets are: one event can be lost, and a log begins with ends.
const fewestEnded = 3

// late reports whether the log has watches of secrets only when they end: by those of secrets themselves, or by all others as long as none has come.
func (c *watchCounts) late() bool {
	sum := c.Now
	sum.plus(&c.Before)
	of := 1
	if sum.Begun[0]+sum.Ended[0] > 0 {
		of = 0
	}
	return sum.Ended[of] > sum.Begun[of] && (sum.Ended[0]+sum.Ended[1] >= fewestEnded)
}
