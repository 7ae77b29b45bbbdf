package cluster

import (
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// agreement is how far apart a watcher's clock and an object's own timestamp may be and still speak of the same moment: a busy
// watcher is late, and its clock is not the API server's.
const agreement = 2 * second

func timeOf(ns int64) time.Time { return time.Unix(0, ns).UTC() }

// seen is when a change was seen to have happened.
func (c *change) seen() nodeauthz.Stamp {
	switch {
	case !c.clocked:
		return nodeauthz.Stamp{Time: timeOf(c.at), Slop: c.slop, Source: nodeauthz.SourceObject}
	case c.notBefore != 0 && c.notBefore < c.at:
		return nodeauthz.Stamp{Time: timeOf(c.notBefore), Slop: time.Duration(c.at - c.notBefore), Source: nodeauthz.SourceWatch}
	}
	return nodeauthz.Stamp{Time: timeOf(c.at), Source: nodeauthz.SourceWatch}
}

// ownTime is an object's own timestamp as an estimate: it was cut off to whole seconds.
func ownTime(ns int64) nodeauthz.Stamp {
	return nodeauthz.Stamp{Time: timeOf(ns), Slop: time.Second, Source: nodeauthz.SourceObject}
}

// agrees reports whether the watcher saw the change at about the time that the object itself names.
func (c *change) agrees(own int64) bool {
	return c.clocked && (c.notBefore == 0 || c.at-c.notBefore < second) && own-agreement <= c.at && c.at < own+second+agreement
}

// began is when something began for which the object has a timestamp of its own: as it was seen where that agrees, else by the timestamp.
func (c *change) began(own int64) nodeauthz.Stamp {
	if own == 0 || c.agrees(own) {
		return c.seen()
	}
	return ownTime(own)
}

// restored reports whether an object that is new to its source was made before a moment of which the source knows all: etcd was restored from a backup, which brings
// back what was deleted since, with its UID.
func (c *change) restored() bool {
	return c.verb == verbAdded && c.clocked && c.notBefore != 0 && c.created != 0 && c.created+second+agreement < c.notBefore
}

// bound is when a pod was bound, zero where nothing says it.
//
// The binding sets the condition PodScheduled in the same write as spec.nodeName. A pod that has a node and no such condition therefore
// had its node from its creation on: mirror pods, and others that were made with a node, until their kubelet sets the condition.
func (c *change) bound() nodeauthz.Stamp {
	if c.pod.NodeName == "" {
		return nodeauthz.Stamp{}
	}
	own := c.granted
	if own == 0 || c.pod.Mirror && c.created != 0 {
		own = c.created
	}
	switch {
	case own == 0:
		return nodeauthz.Stamp{}
	case c.agrees(own):
		return c.seen()
	case c.clocked && own > c.at: // what is seen bound was bound: the clocks differ, and it was between the two
		s := c.seen()
		s.Slop = ownTime(own).Time.Add(time.Second).Sub(s.Time)
		return s
	}
	return ownTime(own)
}

// volumeSince is since when a volume is known to be as it is. Its last change of phase comes with the binding or after it, so it never
// claims more than is known. A volume that was there already when its source began is taken as known from that beginning on.
func (c *change) volumeSince(first bool, start int64) nodeauthz.Stamp {
	if !first {
		return c.seen()
	}
	if own := c.granted; own != 0 {
		return c.began(own)
	}
	return c.firstSeen(start)
}

// firstSeen is when an object was first seen, moved back to the beginning of its source if it is older: the initial list takes its time.
func (c *change) firstSeen(start int64) nodeauthz.Stamp {
	s := c.seen()
	if c.created != 0 && c.created+second <= start && start < c.at {
		s.Time = timeOf(start)
		s.Slop = 0
	}
	return s
}

// roleSince is since when a role or a binding is known to have its content. It changes, so that its creation says nothing, but the
// latest entry of managedFields does where there is one: it is older than the content. (Not for an object without rules or subjects: whoever
// took them away leaves no entry. The decoder leaves changed empty then.)
func (c *change) roleSince(first bool, start int64) time.Time {
	if !first {
		if own := c.changed; c.notBefore != 0 && c.notBefore <= own+second && own < c.at {
			return timeOf(max(own, c.notBefore))
		}
		return timeOf(c.at) // of an interval its end: only then is the content known
	}
	if own := c.changed; own != 0 && !c.agrees(own) && own < c.at {
		return timeOf(own)
	}
	return c.firstSeen(start).Time
}

// gone is when an object was deleted. For one that went while nobody looked only an interval is known. Its deletionTimestamp may cut that
// interval short at the beginning: once there is no grace left, it is when the deletion was asked for.
func (c *change) gone() nodeauthz.Stamp {
	s := c.seen()
	if own := c.deletion; c.clocked && c.graceless && s.Slop > 0 && own > c.notBefore && own < c.at {
		s.Time, s.Slop = timeOf(own), time.Duration(c.at-own)
	}
	return s
}
