package rules

import "math/bits"

// beside reports whether in the minute before the given one both were used, and one of them in the minutes before and after that too. A
// change from one to the other and, later, back does not look like this.
func beside(a, b *habit, minute int64) bool {
	m := minute - 1
	if !a.at(m) || !b.at(m) {
		return false
	}
	return a.at(m-1) && a.at(m+1) || b.at(m-1) && b.at(m+1)
}

// outlasts reports whether the given minute is the first in which an old certificate is in use although its rotation was over, and it was in use next to the new
// one before. That is so once: the new one may not have been used for ten minutes.
func outlasts(old, other *habit, minute int64) bool {
	over := minuteAt(other.First) + rotation + 1
	if minute < over || !old.at(minute) {
		return false
	}
	both := false
	for m := minute - 1; m > minute-60; m-- {
		if m >= over && old.at(m) {
			return false
		}
		both = both || beside(old, other, m+1)
	}
	return both
}

// turns is how often in the hour up to the minute, which is one of them, use went over from one to the other.
func turns(a, b *habit, minute int64) (n int) {
	if !a.at(minute) && !b.at(minute) || bits.OnesCount64(a.Minutes) < 2 || bits.OnesCount64(b.Minutes) < 2 {
		return 0
	}
	was := 0
	for m := minute - 59; m <= minute; m++ {
		var is int
		switch {
		case a.at(m) && b.at(m):
			continue
		case a.at(m):
			is = 1
		case b.at(m):
			is = 2
		default:
			continue
		}
		if was != 0 && is != was {
			n++
		}
		was = is
	}
	return n
}
