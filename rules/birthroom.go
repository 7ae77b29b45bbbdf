package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// makeRoom forgets some of the requests that are followed: those that are over, and then those of whoever has most. So nobody's requests, however many
// they are, keep those of others from being followed. Of one user's those are forgotten first of which nothing more is to be found: that were judged for good,
// that are for a name which no node uses, and that are not signed.
func (d *birthDetector) makeRoom() {
	const some = maxOpenBirths / 16
	by := map[string]int{}
	for _, b := range d.open {
		by[b.User]++
	}
	rank := func(b *birth) (n int) {
		for i, is := range [...]bool{!b.Signed.IsZero(), d.nodes[b.Node] != nil, !b.Judged || b.Doubt, len(b.Old) > 0} { // each outweighs those before it
			if is {
				n |= 1 << i
			}
		}
		return n
	}
	over := func(b *birth) int {
		if b.settled() {
			return 0
		}
		return 1
	}
	all := slices.SortedFunc(maps.Values(d.open), func(a, b *birth) int {
		return cmp.Or(over(a)-over(b), by[b.User]-by[a.User], rank(a)-rank(b), a.At.Compare(b.At), strings.Compare(a.Key, b.Key))
	})
	for _, b := range all[:some] {
		d.close(b)
		delete(d.open, b.Key)
	}
}
