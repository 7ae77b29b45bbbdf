package pipeline

import "time"

// decideFor is how long requests wait until more of them show the mode.
const decideFor = 5 * time.Second

// clockPace is the pace of a log that grows. While a source is behind, the log's time counts; otherwise the clock does, since the log may
// stand still. The live state may lag behind both.
type clockPace struct {
	opt   *EngineOptions
	sched *scheduler
	// crowded reports whether requests cannot wait any longer, because there is no room.
	crowded func() bool
	// undecided is since when requests wait for the mode, zero if none has waited.
	undecided time.Time

	now time.Time
	// floor is the time up to which the sources that are behind have come, if behind.
	floor  time.Time
	behind bool
}

func (p *clockPace) expired(r *request) (bool, time.Time) {
	if p.behind {
		return !p.floor.Before(r.until), p.now.Add(stalledAfter)
	}
	at := r.received.Add(p.opt.OpenFor)
	return !p.now.Before(at), at
}

func (p *clockPace) ready(r *request) (ready, early bool, again time.Time) {
	// One that came late is due before all others and has to settle first: they do not wait for it longer than for themselves.
	overdue := 2*p.opt.Settle + p.opt.Skew
	switch old := p.sched.waiting.first; {
	case p.crowded():
	case p.behind:
		if p.floor.Before(r.due) {
			return false, false, p.now.Add(stalledAfter)
		}
	case p.now.Sub(old.received) > overdue && !p.now.Before(p.settledAt(old)):
	default:
		if at := p.settledAt(r); at.After(p.now) {
			return false, false, at
		}
	}
	if p.opt.CaughtUp == nil || p.opt.CaughtUp(timeOf(r.ev).Add(p.opt.Skew)) {
		return true, false, time.Time{}
	}
	if p.now.Sub(r.received) < p.opt.WaitAtMost && !p.crowded() {
		return false, false, p.now.Add(50 * time.Millisecond)
	}
	return true, true, time.Time{}
}

// settledAt is when, by the clock, nothing that matters to the request can come any more.
func (p *clockPace) settledAt(r *request) time.Time {
	at := timeOf(r.ev).Add(p.opt.Skew + p.opt.Settle)
	if most := r.received.Add(p.opt.WaitAtMost); at.After(most) { // its clock is ahead of ours
		at = most
	}
	if least := r.received.Add(p.opt.Settle); at.Before(least) {
		at = least
	}
	return at
}

func (p *clockPace) settled() (bool, time.Time) {
	if p.undecided.IsZero() {
		p.undecided = p.now
	}
	at := p.undecided.Add(decideFor)
	return !p.now.Before(at) || p.crowded(), at
}
