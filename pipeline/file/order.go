package file

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// inOrder puts the events of a document in the order of time. Log stores answer with the newest first, or with one stream after the other.
func inOrder(events []audit.Event) {
	var o order
	for i := range events {
		o.see(&events[i])
	}
	if o.down == 0 {
		return
	}
	if o.down > o.up {
		slices.Reverse(events) // so that events of one instant are in order, too
	}
	sort.SliceStable(events, func(a, b int) bool { return stageTime(&events[a]).Before(stageTime(&events[b])) })
}

// order counts how often the next event is later, and how often it is earlier, and knows the farthest way back.
type order struct {
	first, last time.Time
	up, down    int
	// least and most bound the times. After an event of from, the latest so far, comes one of to: this is the farthest way back.
	least, most, from, to time.Time
}

func (o *order) see(ev *audit.Event) {
	t := stageTime(ev)
	switch {
	case t.IsZero():
		return
	case !o.most.IsZero() && t.After(o.most): // as most are
		o.up++
		o.last, o.most = t, t
		return
	}
	o.add(&order{first: t, last: t, least: t, most: t})
}

// add adds the order of events that follow.
func (o *order) add(next *order) {
	if next.last.IsZero() {
		return
	}
	if o.last.IsZero() {
		*o = *next
		return
	}
	switch c := next.first.Compare(o.last); {
	case c > 0:
		o.up++
	case c < 0:
		o.down++
	}
	o.up, o.down, o.last = o.up+next.up, o.down+next.down, next.last
	if next.from.Sub(next.to) > o.from.Sub(o.to) {
		o.from, o.to = next.from, next.to
	}
	if o.most.Sub(next.least) > o.from.Sub(o.to) {
		o.from, o.to = o.most, next.least
	}
	if next.least.Before(o.least) {
		o.least = next.least
	}
	if next.most.After(o.most) {
		o.most = next.most
	}
}

// backward is the error of a log whose events go back in time; nil of one that only has some out of order.
func (o *order) backward(name string) error {
	if o.down < 2 || o.down <= 3*o.up {
		return nil
	}
	return fmt.Errorf("%s: the log goes from the newest event to the oldest, and was judged in that order: give it in the order of time (tac, logcli --forward, gcloud --order=asc)", name)
}
