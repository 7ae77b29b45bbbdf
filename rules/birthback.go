package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// steps are those of the latest 64 steps in which something happened; the lowest bit is Step.
type steps struct {
	Bits uint64 `json:"r"`
	Step int64  `json:"s"`
}

func (w *steps) note(step int64) {
	switch d := step - w.Step; {
	case w.Bits == 0 || d >= 64:
		w.Bits, w.Step = 1, step
	case d >= 0:
		w.Bits, w.Step = w.Bits<<d|1, step
	case d > -64:
		w.Bits |= 1 << -d
	}
}

// at is the first of them from one step to another.
func (w *steps) at(from, to int64) (step int64, is bool) {
	for s := max(from, w.Step-63); s <= min(to, w.Step); s++ {
		if w.Bits>>(w.Step-s)&1 == 1 {
			return s, true
		}
	}
	return 0, false
}

// came notes that a kubelet used the credential: it renewed the Lease, or a request with a kubelet's user agent succeeded. Another program on the machine may
// have read the kubelet's credential, and use it for longer than the kubelet does.
func (d *birthDetector) came(h *holder, r *Request, step int64, renews bool) {
	if _, is := h.Came.at(step, step); !is && (renews || r.Succeeded() && IsKubelet(r.Client(), d.kubelets)) {
		h.Came.note(step)
	}
}

// claim keeps open what a certificate is for that somebody else got while the node's kubelet was silent. A kubelet that is set up again is a new process with
// a new certificate: it never uses a credential of before again.
func (d *birthDetector) claim(b *birth, at time.Time) {
	n := d.nodes[b.Node]
	if n == nil {
		return
	}
	for _, h := range n.holders {
		if h.ID != "" && h.ID != b.ID && h.First.Before(at) {
			b.Old = append(b.Old, h.ID)
			h.Kept = max(h.Kept, b.claimedTo())
		}
	}
	slices.Sort(b.Old)
}

// kept is 1 if the node must not forget the credential in a step, else 0.
func (h *holder) kept(step int64) int {
	if h.Kept >= step {
		return 1
	}
	return 0
}

// claimedTo is the last step in which an old credential shows that nobody set up the node again.
func (b *birth) claimedTo() int64 { return stepOf(b.At.Add(openBirthFor)) }

// back is the first of the node's old credentials that a kubelet used after the certificate was signed, and the step of that; nil if there is none by the
// given step. A certificate that the node requested before is old, too, if it was not used yet.
func (d *birthDetector) back(b *birth, to int64) (first *holder, step int64) {
	n := d.nodes[b.Node]
	if n == nil || len(b.Old) == 0 {
		return nil, 0
	}
	for _, h := range n.holders {
		i := d.issued.get(h.ID)
		if own := i != nil && i.Node == b.Node && !i.Own.IsZero() && i.Own.Before(b.At); !own && !slices.Contains(b.Old, h.ID) {
			continue
		}
		s, is := h.Came.at(stepOf(b.Signed)+aliveFrom, min(to, b.claimedTo()))
		if is && (first == nil || cmp.Or(cmp.Compare(s, step), strings.Compare(h.ID, first.ID)) < 0) {
			first, step = h, s
		}
	}
	return first, step
}

// comebacks finds the certificates of nodes whose old credentials are used again.
func (d *birthDetector) comebacks(now int64, found func(*Detection)) {
	var all []*Detection
	for _, b := range d.open {
		if h, step := d.back(b, now-1); h != nil {
			f := b.finding()
			d.comeback(b, &f, h, step)
			all = append(all, b.detection(f, stepTime(step)))
		}
	}
	slices.SortFunc(all, func(a, b *Detection) int {
		return cmp.Or(a.Time.Compare(b.Time), a.First.Compare(b.First), slices.Compare(a.AuditIDs, b.AuditIDs))
	})
	for _, one := range all {
		found(one)
	}
}

// comeback makes the finding critical: the old credential was used in the step. Then nothing is open any more.
func (d *birthDetector) comeback(b *birth, f *Finding, h *holder, step int64) {
	f.Reason, f.Severity = LiveNodeSigned, Critical
	f.Params = append(f.Params, codes.Text(ParamOld, h.ID), codes.Time(ParamSince, stepTime(step)))
	b.Old = nil
	d.touch(b)
}

// finding is what all findings on a request for a node's client certificate have.
func (b *birth) finding() Finding {
	f := Finding{
		Rule: BootstrapImpersonation, Subject: b.Node, Allowed: true, Apart: b.User,
		Params: codes.Params{codes.Text(ParamUser, b.User), codes.Text(ParamNode, b.Node)},
	}
	if b.Address != "" {
		f.Params = append(f.Params, codes.Text(ParamAddress, b.Address))
	}
	return f
}

// byNode reports whether a node asked.
func (b *birth) byNode() bool { return strings.HasPrefix(b.User, nodeid.UserPrefix) }
