package cluster

import (
	"slices"
	"time"
)

// behind is by how much the clock of who watched a cluster is behind those of its API servers. An object is not seen before it is made, so that its
// creationTimestamp, which no client can set, shows it. The zero value knows of nothing.
type behind struct {
	seen [births]int64 // the latest, in a ring
	n    int
	by   int64 // nanoseconds
	most int64
}

const (
	// births is how many objects that were made under the watch tell it: where the clock was set right, so many show that.
	births = 16
	// fresh is for how long before it was first seen an object may have been made to tell anything; others were in a list.
	fresh = 60 * second
	// behindAtMost bounds what is believed: one object from the far future shows no clock.
	behindAtMost = int64(24 * time.Hour)
)

// correct takes in a change, and moves it to when it was seen by the API servers' clocks.
func (b *behind) correct(c *change) {
	if !c.clocked {
		return
	}
	if s := c.created - c.at; c.verb == verbAdded && c.created != 0 && s > -fresh && s < behindAtMost {
		b.seen[b.n%births] = s
		b.n++
		was := b.by
		b.by = b.estimate()
		c.moved, b.most = b.by-was, max(b.most, b.by)
	}
	c.at += b.by
	if c.notBefore != 0 {
		c.notBefore += b.by
	}
}

// few is how many objects must have been made to tell of a clock that is behind by no more than agreement.
const few = 4

// estimate is the greatest that agrees with the median: what is seen late, and the cut of a timestamp to the second, make it less. So an API server whose own
// clock is wrong counts for nothing as long as most objects are made by others. No more than agreement counts if most objects were seen before they were made.
func (b *behind) estimate() int64 {
	all := slices.Clone(b.seen[:min(b.n, births)])
	slices.Sort(all)
	median := all[(len(all)-1)/2]
	i, _ := slices.BinarySearch(all, median+agreement+1)
	if by := all[i-1]; by > agreement || median > 0 && len(all) >= few {
		return by
	}
	return 0
}
