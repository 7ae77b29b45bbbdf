package rules

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/codes"
)

// startsWithin is for how many minutes a kubelet may come from elsewhere before it comes from its own address: a machine that starts may have another interface up first.
const startsWithin = 2

// judgeCame judges the addresses from which nodes came anew, when the ten minutes after that have been taken in; all minutes before end have. A kubelet renews its Lease
// within seconds, wherever it starts.
func (d *credentialDetector) judgeCame(end int64, s State, found func(*Detection)) {
	for _, name := range slices.Sorted(maps.Keys(d.came)) {
		n, waits := d.nodes[name], false
		if n == nil {
			delete(d.came, name)
			continue
		}
		for kind := range uint8(useCertificate) {
			list := slices.Clone(n.used[kind])
			slices.SortFunc(list, func(a, b *habit) int { return cmp.Or(cmp.Compare(a.Came, b.Came), strings.Compare(a.Value, b.Value)) })
			for _, h := range list {
				for h.Came != 0 && h.Came+movedFor < end {
					d.judgeCameFrom(n, kind, h, s, found)
				}
				waits = waits || h.Came != 0
			}
		}
		if !waits {
			delete(d.came, name)
		}
	}
}

// judgeCameFrom judges one of them: it is somebody else's where no kubelet lives, if the node's kubelet is silent and lived at an address of its Node. While that one is in use,
// the next minute in which both are not is judged instead.
func (d *credentialDetector) judgeCameFrom(n *credentials, kind uint8, h *habit, s State, found func(*Detection)) {
	m, until := h.Came, h.Came+movedFor
	h.Came, n.fresh = 0, true
	if s == nil || h.livesSince(m) {
		return
	}
	then := s.NodeAddressSets(n.name, timeOfMinute(m)) // what the Node got since, whoever holds its credential may have written
	own := slices.Concat(then...)
	if n.elsewhere(h, func(o *habit) bool {
		return o.inUse(m, m+startsWithin) && (o.livesSince(m) || hasAddress(own, o.Value))
	}) {
		for next := m + 1; next <= h.Minute; next++ {
			if h.at(next) {
				h.Came = next
				return
			}
		}
		return
	}
	t := &taking{Kind: kind, Value: h.Value, Text: h.Value, At: timeOfMinute(m)}
	if strange, _, _ := d.strange(n, t, current(then), s); !strange || !d.outside(n, t, s) {
		return
	}
	home := d.homes(n, kind, h.Value, then, s.NodeAddressSets(n.name, timeOfMinute(until)), s)
	params := codes.Params{codes.Text(ParamAddress, h.Value), codes.Text(ParamHome, home)}
	if home == "" || !d.lived(n, home) {
		silent := n.silentAround(m, s)
		if silent.IsZero() {
			return
		}
		params = codes.Params{codes.Text(ParamAddress, h.Value), codes.Time(ParamSince, silent)}
	}
	found(n.detection(h, UsedInSilence, h.Value, until, Medium, params))
}

// livesSince reports whether a kubelet renewed its Lease from there, at its rate, at the minute or later.
func (h *habit) livesSince(minute int64) bool { return h.Lived > 0 && minuteAt(h.Renewed) >= minute }

// inUse reports whether it was used in one of the minutes.
func (h *habit) inUse(from, to int64) bool {
	for m := from; m <= to; m++ {
		if h.at(m) {
			return true
		}
	}
	return false
}

// lived reports whether the log has the renewals of the node's kubelet from an address; where that is forgotten, whether it has any node's.
func (d *credentialDetector) lived(n *credentials, home string) bool {
	if h := n.at(home); h != nil {
		return h.Alive >= livesFor
	}
	for _, other := range d.nodes {
		if other.renews(useV4, true) || other.renews(useV6, true) {
			return true
		}
	}
	return false
}
