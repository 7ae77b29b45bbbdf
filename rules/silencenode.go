package rules

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
)

// nodeTrack is what is known of one node's requests over time.
type nodeTrack struct {
	name        string
	minutes     uint64 // a bit for each minute in which there was a request, the lowest is the last one
	first, last int64  // steps
	secrets     int64  // the step of the last read of a secret, 0: none
	fresh       *freshSecret
	unread      int64 // the day for which it was found that its reads are missing
	tested      int64 // the day on which it was last seen whether its reads are there
	told        bool  // its silence since last
	group       bool  // with those of others
	// In which steps it was put into the pending one: itself, its reads, its pods where its reads are there.
	seen, readSeen, testSeen seenSteps
	stored                   int64 // last, as stored
	late                     int64 // the step in which a request of it last came too late, 0: none
	dirty                    bool
}

// seenSteps tells the first time in a step from further ones, whatever the order, among steps within ten minutes of each other.
type seenSteps struct {
	step   int64  // the latest, or one that is far from all before
	before uint64 // a bit for each step up to it, itself the lowest
}

func (s *seenSteps) first(step int64) bool {
	switch ago := s.step - step; {
	case ago >= 0 && ago < 64:
		bit := uint64(1) << ago
		was := s.before&bit != 0
		s.before |= bit
		return !was
	case ago < 0 && ago > -64:
		s.before <<= -ago
		s.step, s.before = step, s.before|1
	default:
		s.step, s.before = step, 1
	}
	return true
}

// freshSecret is a secret that the node must read soon.
type freshSecret struct {
	bound       int64 // the step
	pod, secret string
}

const (
	hourBits = 1<<60 - 1
	// leastNodeSilence is the shortest silence of one node that is reported, in minutes. A reboot takes less.
	leastNodeSilence = 10
	// leastNodeHistory is for how many minutes a node must have been seen before for its silence to be tested, and leastShyness how many
	// minutes of silence are reported of one that was seen for less: a kubelet that is well reports its status every five minutes.
	leastNodeHistory = 10
	leastShyness     = 60
	// leastOthers is in how many intervals of the last hour others must have spoken before a node that has not is missed.
	leastOthers = 10
	// atOnce is how many nodes that fall silent in one minute are reported together.
	atOnce = 5
)

func (n *nodeTrack) spoke(step int64) {
	minute, last := step/stepsPerMinute, n.last/stepsPerMinute
	switch {
	case n.last == 0:
		n.first, n.minutes = step, 1
	case minute > last:
		n.minutes = n.minutes<<min(minute-last, 63)&hourBits | 1
	}
	n.last = max(n.last, step)
	n.told, n.group = false, false
	if n.last-n.stored >= 5*stepsPerMinute {
		n.dirty = true
	}
}

// longest is the longest silence among the latest minutes.
func (n *nodeTrack) longest(minutes int64) (most int64) {
	run := int64(0)
	for i := range minutes {
		if run++; n.minutes>>i&1 == 1 {
			run = 0
		}
		most = max(most, run)
	}
	return most
}

// silent reports whether the node's silence at the end of a minute is improbable, given that the log advanced since the given step.
func (n *nodeTrack) silent(step, since int64) bool {
	last := n.last / stepsPerMinute
	k := step/stepsPerMinute - max(last, since/stepsPerMinute) - 1
	history := min(last-n.first/stepsPerMinute+1, 60)
	if history < leastNodeHistory {
		return n.last > 0 && k >= leastShyness
	}
	return k >= leastNodeSilence && improbable(int64(bits.OnesCount64(n.minutes)), history, k, n.longest(history))
}

// came tells of a node that speaks for the first time, though it was there while others spoke.
func (d *coverageDetector) came(n *nodeTrack, step int64, s State, found func(*Detection)) {
	since := max(d.log.first, step-2*stepsPerDay) // what was silent for longer may have been forgotten
	if s == nil || d.log.first == 0 || step-since < leastNodeSilence*stepsPerMinute || d.log.hour.count() < leastOthers {
		return
	}
	from, to := stepTime(since), stepTime(step)
	if was, known := s.NodeExists(n.name, from); !was || !known || s.NodeCreatedBetween(n.name, from, to) {
		return
	}
	found(&Detection{
		Finding: Finding{
			Rule: CoverageGap, Reason: NodeSilent, Severity: Low, Subject: n.name,
			Params: codes.Params{
				codes.Time(ParamSince, from), codes.Duration(ParamFor, lasting((step-since)/stepsPerMinute*stepsPerMinute)), codes.Time(ParamUntil, to),
			},
		},
		Time: to, First: from, Last: to,
	})
}

// nodesSilent judges the silences of single nodes at the end of a minute, while the log advances.
func (d *coverageDetector) nodesSilent(step int64, s State, found func(*Detection)) {
	if s == nil {
		return
	}
	single, group := d.fellSilent(step, s)
	byName := func(a, b *nodeTrack) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(single, byName)
	slices.SortFunc(group, byName)
	for _, n := range single {
		found(&Detection{
			Finding: Finding{
				Rule: CoverageGap, Reason: NodeSilent, Severity: Low, Subject: n.name,
				Params: codes.Params{
					codes.Time(ParamSince, stepTime(n.last+1)), codes.Duration(ParamFor, lasting((step-n.last-1)/stepsPerMinute*stepsPerMinute)),
				},
			},
			Time: stepTime(step), First: stepTime(n.last + 1), Last: stepTime(step),
		})
	}
	if len(group) == 0 {
		return
	}
	since, heard := group[0].last, 0
	var names []string
	for _, n := range group {
		since = min(since, n.last)
		names = append(names, n.name)
		if s.SilentSince(n.name, stepTime(step)).IsZero() {
			heard++
		}
	}
	severity := Medium
	if heard < atOnce {
		severity = Low // the log lacks nothing of nodes of which the control plane hears nothing, either
	}
	found(&Detection{
		Finding: Finding{
			Rule: CoverageGap, Reason: NodesSilent, Severity: severity,
			Params: append(codes.Params{codes.Int(ParamNodes, len(group)), codes.Time(ParamSince, stepTime(since+1))},
				codes.List(ParamNode, names[:min(len(names), mostNamed)])...),
		},
		Time: stepTime(step), First: stepTime(since + 1), Last: stepTime(step),
	})
}

// fellSilent returns the nodes whose silence is to be reported now, for the first time or again: one by one, or together where many began at once.
func (d *coverageDetector) fellSilent(step int64, s State) (single, group []*nodeTrack) {
	var fresh []*nodeTrack
	for _, n := range d.nodes {
		if step-n.last < leastNodeSilence*stepsPerMinute {
			continue
		}
		minutes := step/stepsPerMinute - (n.last+1)/stepsPerMinute
		switch {
		case n.told && (minutes%retell != 0 || minutes > retellFor), !n.told && !n.silent(step, d.log.resumed):
			continue
		}
		if was, _ := s.NodeExists(n.name, stepTime(n.last)); !was {
			continue
		}
		if is, known := s.NodeExists(n.name, stepTime(step)); !is || !known {
			continue
		}
		switch {
		case n.group:
			group = append(group, n)
		case n.told:
			single = append(single, n)
		default:
			fresh = append(fresh, n)
		}
		n.dirty = n.dirty || !n.told
		n.told = true
	}
	if len(fresh) < atOnce {
		return append(single, fresh...), group
	}
	for _, n := range fresh {
		n.group = true
	}
	return single, append(group, fresh...)
}

// mostNamed bounds the nodes that a finding names.
const mostNamed = 5
