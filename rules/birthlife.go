package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// made is a Node that was made with a credential, in a time that is not judged yet.
type made struct {
	node    *birthNode
	h       *holder
	address string
	at      time.Time
	audit   string
}

// lives notes from where it renewed the Lease.
func (h *holder) lives(address string, t time.Time) {
	switch {
	case address == "" || address == h.Home && !t.Before(h.Since):
	case address == h.Home:
		h.Since = t
	case t.Before(h.Since):
		h.Was = cmp.Or(h.Was, address)
	default:
		h.Home, h.Since, h.Was = address, t, h.Home
	}
}

// home is where it renewed the Lease from before an instant; "" for nowhere.
func (h *holder) home(t time.Time) string {
	if h.Since.Before(t) {
		return h.Home
	}
	return h.Was
}

// nodesMade judges the Nodes that were made a minute ago. The key of a certificate does not leave its machine: where one made a Node that came from another machine before, as after the Node
// was deleted, somebody has copied it, or the machine has another address.
func (d *birthDetector) nodesMade(now int64, found func(*Detection)) {
	due := taken(&d.made, func(m made) bool { return now > stepOf(m.at)+settled })
	slices.SortFunc(due, func(a, b made) int { return cmp.Or(a.at.Compare(b.at), strings.Compare(a.audit, b.audit)) })
	for i := range due {
		m := &due[i]
		home := m.h.home(m.at)
		if !d.apart(home, m.address, stepOf(m.at)+settled) {
			continue
		}
		found(&Detection{
			Finding: Finding{
				Rule: BootstrapImpersonation, Reason: NodeMadeElsewhere, Severity: Medium, Subject: m.node.name, Allowed: true, Apart: m.h.ID,
				Params: codes.Params{codes.Text(ParamAddress, m.address), codes.Text(ParamHome, home)},
			},
			Time: m.at, First: m.at, Last: m.at, Count: 1, AuditIDs: idsOf(m.audit), Verb: "create", Resource: "nodes", Product: "kubelet",
		})
	}
}

// alive reports whether the node's kubelet continued with a credential of before, or with one that it got for that: a kubelet renews its certificate at a time that
// others can see coming.
func (d *birthDetector) alive(b *birth, at time.Time) bool {
	n := d.nodes[b.Node]
	if n == nil {
		return false
	}
	step := stepOf(at)
	before, after := false, []*holder(nil)
	for _, h := range n.holders {
		if h.ID != "" && h.ID == b.ID || h.ID == "" && (h.Address == "" || b.Address == "" || h.Address == b.Address) {
			continue // what was issued now, or what cannot be distinguished from who asked
		}
		was, is := h.First.Before(at) && h.at(step-aliveBefore, step), d.latest < step+aliveAfter || h.at(step+aliveFrom, step+aliveAfter)
		if was && is {
			return true
		}
		if before = before || was; is {
			after = append(after, h)
		}
	}
	return before && slices.ContainsFunc(after, func(h *holder) bool { return d.askedFor(h, b.Node) })
}

// askedFor reports whether the node asked for the certificate itself.
func (d *birthDetector) askedFor(h *holder, node string) bool {
	if h.ID == "" {
		return false
	}
	if i := d.issued.get(h.ID); i != nil {
		return i.At.IsZero() && i.Node == node
	}
	for _, o := range d.open {
		if o.ID == h.ID {
			return o.Node == node && strings.HasPrefix(o.User, nodeid.UserPrefix)
		}
	}
	return false
}
