package pipeline

import "time"

// frontiers are the times up to which the log was known to be, and when this process learned them.
//
// They put in order what several processes do, without a comparison of their clocks. The process that judges for all stores how far the log is (the
// frontier, see [rules.Lanes.Frontier]). The owner of a partition reads the frontier, and after that reads its partition to the end. What is written to
// the partition later belongs to a later time of the log. So the owner may store that the partition is as far as the frontier, although no request of the
// partition shows it. Without an owner a partition stays where it is, and time waits for it.
type frontiers struct {
	// after is for how long the process must have known a frontier, by its clock, when it saw the end of the partition. A producer may write to one
	// partition so much later than to another.
	after time.Duration
	known []frontier
}

type frontier struct {
	log time.Time
	at  time.Time // by this process's clock
}

// keptFrontiers bounds how long ago the end was seen that a commit uses.
const keptFrontiers = time.Minute

// learn adds the frontier log, which the process learned now. The zero time is none.
func (f *frontiers) learn(log, now time.Time) {
	if n := len(f.known); log.IsZero() || n > 0 && f.known[n-1].log.Equal(log) {
		return
	}
	f.known = append(f.known, frontier{log, now})
	for len(f.known) > 1 && now.Sub(f.known[1].at) >= f.after+keptFrontiers {
		f.known = f.known[1:]
	}
}

// latest returns the frontier that was learned last, zero before the first one.
func (f *frontiers) latest() time.Time {
	if len(f.known) == 0 {
		return time.Time{}
	}
	return f.known[len(f.known)-1].log
}

// at returns how far a partition is whose end was seen at that time; the zero time if that is not known.
func (f *frontiers) at(end time.Time) time.Time {
	for i := len(f.known) - 1; i >= 0 && !end.IsZero(); i-- {
		if end.Sub(f.known[i].at) >= f.after {
			return f.known[i].log
		}
	}
	return time.Time{}
}
