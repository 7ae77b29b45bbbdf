package rules

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
)

// readWithin is how long after a pod's binding its secrets must have been read, in steps: ten minutes. A kubelet reads them, in the
// mode Watch by a list and a watch for each, when it starts the pod.
const readWithin = 10 * stepsPerMinute

// podUse is a pod whose status a node has written: it is there.
type podUse struct {
	node            *nodeTrack
	namespace, name string
}

const stepsPerDay = 24 * stepsPerHour

// test notes that the node's reads are there.
func (n *nodeTrack) test(step int64) {
	today := step/stepsPerDay + 1
	n.tested, n.dirty = today, n.dirty || n.tested != today
}

// started takes note of pods that came to a node lately with a secret that the node did not need before.
func (d *coverageDetector) started(step int64, pods map[podUse]struct{}, s State) {
	if s == nil || len(pods) == 0 {
		return
	}
	var all []podUse
	today := step/stepsPerDay + 1
	for p := range pods {
		switch n := p.node; {
		case n.secrets > step-stepsPerHour && n.secrets > 0:
			n.test(step) // its reads are there, whatever it needs
		case n.unread != today && n.fresh == nil:
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b podUse) int {
		return cmp.Or(strings.Compare(a.node.name, b.node.name), strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	for _, p := range all {
		n := p.node
		if n.fresh != nil {
			continue
		}
		secret, bound, ok := s.FreshSecret(p.namespace, p.name, n.name, stepTime(step+1))
		if at := stepOf(bound); ok && step-at <= readWithin/2 && at >= n.first {
			n.fresh = &freshSecret{bound: at, pod: p.namespace + "/" + p.name, secret: secret}
		}
	}
}

// unread tells of nodes that must have read a secret by now, and of which no such read is in the log.
func (d *coverageDetector) unread(step int64, found func(*Detection)) {
	today := step/stepsPerDay + 1
	var missing []*nodeTrack
	for _, n := range d.nodes {
		f := n.fresh
		if f == nil || step < f.bound+readWithin {
			continue
		}
		switch {
		case n.secrets >= f.bound-stepsPerHour && n.secrets > 0:
			n.tested, n.fresh, n.dirty = today, nil, true
		case n.last < f.bound+readWithin/2:
			n.fresh = nil // it fell silent: that is another thing
		case d.watches.late():
			n.fresh = nil // the watch by which it reads the secret is in the log when it ends, up to an hour later
		default:
			n.tested, n.unread, n.dirty = today, today, true
			missing = append(missing, n)
		}
	}
	if len(missing) == 0 {
		return
	}
	slices.SortFunc(missing, func(a, b *nodeTrack) int { return strings.Compare(a.name, b.name) })
	tested, without := 0, 0
	for _, n := range d.nodes {
		if n.tested >= today-1 && n.tested > 0 {
			tested++
			if n.unread >= today-1 && n.unread > 0 {
				without++
			}
		}
	}
	f := missing[0].fresh
	defer func() {
		for _, n := range missing {
			n.fresh = nil
		}
	}()
	if without >= 3 && 2*without > tested {
		if d.unreadDay == today {
			return
		}
		d.unreadDay = today
		found(&Detection{
			Finding: Finding{
				Rule: CoverageGap, Reason: SecretReadsMissing, Severity: Medium,
				Params: codes.Params{
					codes.Int(ParamNodes, without), codes.Int(ParamTested, tested), codes.Text(ParamSecret, f.secret), codes.Text(ParamPod, f.pod),
					codes.Text(ParamNode, missing[0].name),
				},
			},
			Time: stepTime(step), First: stepTime(f.bound), Last: stepTime(step),
		})
		return
	}
	for _, n := range missing {
		found(&Detection{
			Finding: Finding{
				Rule: CoverageGap, Reason: SecretReadsMissing, Severity: Medium, Subject: n.name,
				Params: codes.Params{
					codes.Text(ParamPod, n.fresh.pod), codes.Time(ParamSince, stepTime(n.fresh.bound)), codes.Text(ParamSecret, n.fresh.secret),
				},
			},
			Time: stepTime(step), First: stepTime(n.fresh.bound), Last: stepTime(step),
		})
	}
}
