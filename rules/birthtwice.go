package rules

import (
	"cmp"
	"strings"
	"time"
)

// joined notes the certificate as the latest of its node that somebody else asked for, if it is.
func (d *birthDetector) joined(i *issue) {
	if was := d.joins.get(i.Node); !i.At.IsZero() && (was == nil || cmp.Or(was.At.Compare(i.At), strings.Compare(was.ID, i.ID)) < 0) {
		d.joins.add(i.Node, i)
	}
}

// twice reports whether the request and the one for the certificate before it are of two machines, and no Node of the name existed between them: one of both is not the node's.
func (d *birthDetector) twice(b *birth, before *issue, at time.Time, s State) bool {
	if before == nil || before.ID == b.ID || !d.apart(before.Address, b.Address, stepOf(at)+settled) {
		return false
	}
	from, to := before.At, b.At
	if to.Before(from) {
		from, to = to, from
	}
	if s != nil {
		if was, known := s.NodeExists(b.Node, from); was || s.NodeCreatedBetween(b.Node, from, to) {
			return false
		} else if known {
			return true
		}
	}
	return to.Sub(from) <= openBirthFor && !d.known(b.Node, to, nil)
}
