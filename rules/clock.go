package rules

import "time"

// leap is how far ahead of all others a single request may be. One that is further ahead does not move time on until a second one does:
// a clock that is wrong once must not make all that follows late.
const leap = time.Hour

// clock is the time of a log, or of a lane, by its requests. It never goes back.
type clock struct {
	latest time.Time // of the requests
	ahead  time.Time // a request that was further ahead than leap; once latest is near it, it is none any more
}

// see takes in the time of a request.
func (c *clock) see(t time.Time) {
	switch {
	case !t.After(c.latest):
	case c.latest.IsZero(), t.Sub(c.latest) <= leap:
		c.latest = t
	case c.ahead.Sub(c.latest) <= leap:
		c.ahead = t
	default:
		if t.After(c.ahead) {
			t, c.ahead = c.ahead, t
		}
		c.latest = t
	}
}

// isLate reports whether a request comes too late after those that were seen. Whether time was moved on meanwhile makes no difference, so that it is the
// same wherever the log is read.
func (c *clock) isLate(t time.Time, lateness time.Duration) bool {
	return stepOf(t) < stepOf(c.latest.Add(-lateness))
}
