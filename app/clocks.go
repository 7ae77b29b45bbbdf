package app

import (
	"time"

	"github.com/nodetrail/nodetrail/pipeline"
)

// clocksApart is how far apart clocks may be for requests outside of the skew to be put down to them, and clocksObjects for how many objects there must be such requests.
const (
	clocksApart   = 10 * time.Second
	clocksObjects = 3
	// fewApart is how far apart clocks may be if fewer objects show it: little more than the skew that is usual.
	fewApart = 3 * time.Second
)

// ClocksApart is about requests that the API server decided as the state was a little later or earlier, outside of races. One or two are chance. Where there are several
// objects, the clock of an API server differs from that of the recorder or of the other API servers.
type ClocksApart struct {
	Requests int64
	// Most is how far from such a request the change is, at the most.
	Most time.Duration

	objects map[skewObject]bool // clocksObjects at most
}

func (c *ClocksApart) add(j *pipeline.Judgement) {
	d, is := j.ClockDistance()
	if !is || d > clocksApart {
		return
	}
	c.Requests, c.Most = c.Requests+1, max(c.Most, d)
	o := skewObjectOf(j)
	if len(c.objects) >= clocksObjects || c.objects[o] {
		return
	}
	if c.objects == nil {
		c.objects = map[skewObject]bool{}
	}
	c.objects[o.own()] = true
}

// several reports whether clocks explain what was added better than chance.
func (c *ClocksApart) several() bool { return len(c.objects) >= clocksObjects }

// few reports whether clocks may explain what was added, if the check agreement fails for it.
func (c *ClocksApart) few() bool { return c.Requests > 0 && c.Most <= fewApart && !c.several() }

// Skew is the '--skew' by which these requests are races, in whole seconds.
func (c *ClocksApart) Skew() time.Duration { return c.Most.Truncate(time.Second) + time.Second }
