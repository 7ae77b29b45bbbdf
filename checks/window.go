package checks

import (
	"math"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
)

const (
	// jitter is by how much a renewal comes later than planned, in the mean: client-go's lease controller adds up to 4 %.
	jitter = 1.02
	// latest is the longest time between two renewals as a share of the planned one.
	latest = 1.04
	// leastReady is how long a node must be Ready in an hour for its renewals to be missed.
	leastReady = time.Minute
	// faster is how much shorter than expected a measured cadence must be to count.
	faster = 0.9
	// leastSteps is how many renewals of an hour tell the kubelet's cadence.
	leastSteps = 10
	// longestStart is how far apart a starting kubelet creates its Node and renews its Lease.
	longestStart = 10 * time.Second
	// longestRestart bounds what an API server's start explains: a longer silence may be a part of the log that is missing.
	longestRestart = 2 * time.Minute
)

// hourLoss is what is missing of a node, or of all, in one hour.
type hourLoss struct {
	seen, missing int64
	// short is how many are missing in the longest gap that a kubelet without a connection explains.
	short int64
	// What explains others.
	notReady, vanished, brief, restart, started int64
	tooShort                                    bool
}

// mayGoUnnoticed is how long a node can be silent until its condition Ready is Unknown: --node-monitor-grace-period of kube-controller-manager, and one of the periods of five seconds in which it looks.
// The grace period is 50 s from Kubernetes 1.32 on, and was 40 s (pkg/controller/nodelifecycle/config/v1alpha1/defaults.go).
const mayGoUnnoticed = 55 * time.Second

// coverage measures the renewals of nodes.
type coverage struct {
	in      *Input
	w       window
	outages []Span
	unseen  time.Duration // how long a gap the cluster may not notice, if that is longer than a lease duration
	all     []hourLoss
	slots   []int64
}

func windowCovered(in *Input) Result {
	p := proof{}
	c := coverage{in: in, w: windowOf(in), unseen: mayGoUnnoticed}
	if !c.w.known(in, &p) {
		return p.done(NextGetLog)
	}
	if !in.NodesKnown {
		p.unproven(Item{Code: CodeNodesUnknown})
		return p.done(NextRecordState)
	}
	c.w.whole(in, &p, evidence.OverNodes)
	c.outages = outages(in.Ledger, &c.w)
	c.all = make([]hourLoss, c.w.last-c.w.first+1)
	for i := range in.Nodes {
		c.node(&in.Nodes[i], &p)
	}
	c.sum(&p)
	return p.done(NextGetLog)
}

// node measures one node and says what is missing of it.
func (c *coverage) node(n *Node, p *proof) {
	if playsNode(c.in, &c.w, n) {
		p.list(Item{Code: CodeVirtualNode, Node: n.Name})
		return
	}
	hours := c.measure(n)
	for i := range hours {
		h, sum := &hours[i], &c.all[i]
		p.count(h.seen+h.missing, h.seen)
		sum.seen += h.seen
		sum.missing += h.missing
	}
	c.tell(p, hours, Unproven, Item{Code: CodeRenewalsMissing, Node: n.Name}, func(h *hourLoss) bool {
		return c.tooMany(h.missing-h.short, h.seen+h.missing)
	})
	c.tell(p, hours, Unproven, Item{Code: CodeCadenceTooShort, Node: n.Name}, func(h *hourLoss) bool { return h.tooShort })
	for _, x := range []struct {
		code Code
		n    func(*hourLoss) int64
	}{
		{CodeNodeNotReady, func(h *hourLoss) int64 { return h.notReady }},
		{CodeNodeVanished, func(h *hourLoss) int64 { return h.vanished }},
		{CodeNodeBrief, func(h *hourLoss) int64 { return h.brief }},
		{CodeServerRestart, func(h *hourLoss) int64 { return h.restart }},
		{CodeKubeletRestart, func(h *hourLoss) int64 { return h.started }},
		{CodeShortGap, func(h *hourLoss) int64 { return h.short }},
	} {
		c.tell(p, hours, Passed, Item{Code: x.code, Node: n.Name}, func(h *hourLoss) bool { return x.n(h) > 0 })
	}
}

func (c *coverage) tooMany(missing, expected int64) bool {
	return float64(missing) > c.in.MaxLoss*float64(expected)
}

// tell adds an item for each run of hours of which is says so.
func (c *coverage) tell(p *proof, hours []hourLoss, s State, item Item, is func(*hourLoss) bool) {
	c.w.runs(func(h evidence.Hour) bool { return is(&hours[h-c.w.first]) }, func(first, last evidence.Hour) {
		i := item
		i.State, i.From, i.To = s, first.Start(), last.End()
		for h := first; h <= last; h++ {
			x := &hours[h-c.w.first]
			i.Expected += x.seen + x.missing
			i.Seen += x.seen
		}
		p.r.Evidence = append(p.r.Evidence, i)
	})
}

// sum judges each hour of all nodes together, where single gaps are not excused: nodes are not cut off all at once.
func (c *coverage) sum(p *proof) {
	worst, share := -1, -1.0
	for i := range c.all {
		h := &c.all[i]
		if expected := h.seen + h.missing; expected > 0 {
			if s := float64(h.missing) / float64(expected); s > share {
				worst, share = i, s
			}
		}
	}
	if worst >= 0 {
		h, at := &c.all[worst], c.w.first+evidence.Hour(worst)
		p.list(Item{Code: CodeLossMeasured, From: at.Start(), To: at.End(), Expected: h.seen + h.missing, Seen: h.seen})
	}
	c.tell(p, c.all, Unproven, Item{Code: CodeLossOfAll}, func(h *hourLoss) bool { return c.tooMany(h.missing, h.seen+h.missing) })
}

// measure goes through the node's renewals. Its result has an entry for each hour of the window.
func (c *coverage) measure(n *Node) []hourLoss {
	c.slots = slices.AppendSeq(c.slots[:0], c.in.Ledger.Renewals(n.Name, c.w.first, c.w.last))
	return c.loss(n)
}

// loss judges the renewals in c.slots.
func (c *coverage) loss(n *Node) []hourLoss {
	hours := make([]hourLoss, c.w.last-c.w.first+1)
	lease := n.LeaseDuration
	if lease <= 0 {
		lease = c.in.LeaseDuration
	}
	planned := c.cadences(hours, float64(lease)/4)
	lives := clip(n.Lives, c.w.from, c.w.to)
	for _, life := range lives {
		g := gaps{c: c, node: n.Name, hours: hours, planned: planned, lease: lease, life: life}
		g.ready = subtract(life, clip(n.Silent, life.From, life.To))
		g.blind = clip(widen(n.Silent, c.in.NodeGrace, lease), c.w.from, c.w.to)
		if life.From.After(c.w.from) {
			g.life.From = life.From.Add(lease) // a kubelet makes its Lease after its Node
		}
		g.vanishes = lifeEnds(n, life.To)
		g.walk(c.slots)
	}
	return hours
}

// cadences returns for each hour the planned time between renewals: the one that the Lease's duration gives, or a shorter one that is measured. A
// longer one would hide what is missing.
func (c *coverage) cadences(hours []hourLoss, planned float64) []float64 {
	out := make([]float64, len(hours))
	var steps histogram
	at := 0 // the hour that steps are of
	flush := func() {
		out[at] = planned * jitter
		if median, mean := steps.middle(); median > 0 {
			hours[at].tooShort = median < 2
			if measured := mean * float64(evidence.SlotLength); measured < faster*out[at] {
				out[at] = measured
			}
		}
		steps = histogram{}
		at++
	}
	for i, slot := range c.slots {
		for at < c.hourOf(slot) {
			flush()
		}
		if i > 0 {
			steps.add(slot - c.slots[i-1])
		}
	}
	for at < len(hours) {
		flush()
	}
	return out
}

// perHour is how many slots an hour has.
const perHour = int64(time.Hour / evidence.SlotLength)

// hourOf returns the place of a slot's hour in the window.
func (c *coverage) hourOf(slot int64) int { return int(slot/perHour - int64(c.w.first)) }

// histogram counts the steps between renewals of an hour, in slots; its last entry those that are as long or longer.
type histogram struct {
	of    [64]int32
	count int32
}

func (x *histogram) add(step int64) {
	x.of[min(step, int64(len(x.of)-1))]++
	x.count++
}

// middle returns the median step, and the mean of those that are not much longer. Of few steps it is 0.
func (x *histogram) middle() (median int, mean float64) {
	if x.count < leastSteps {
		return 0, 0
	}
	for before := x.of[0]; before <= x.count/2; before += x.of[median] {
		median++
	}
	sum, n := 0, 0
	for step := range min(3*median/2+1, len(x.of)) {
		sum += step * int(x.of[step])
		n += int(x.of[step])
	}
	return median, float64(sum) / float64(n)
}

// gaps finds what is missing in one life of a node.
type gaps struct {
	c        *coverage
	node     string
	hours    []hourLoss
	planned  []float64 // by hour
	lease    time.Duration
	life     Span
	vanishes bool // the Node object went
	ready    []Span
	blind    []Span // in which the node is not Ready, or about to be found so
	started  int64  // the part of an hour whose start of the kubelet explained a gap, counted from 1970
	looked   *hourLoss
	brief    bool // whether the node was Ready too briefly in the hour that was looked at last
}

func (g *gaps) walk(slots []int64) {
	if !g.life.From.Before(g.life.To) {
		return
	}
	before, last, renewed := g.life.From, int64(0), false
	first, end := g.slotFrom(g.life.From), g.slotFrom(g.life.To)
	for _, slot := range slots {
		if slot < first {
			continue
		}
		if slot >= end {
			break
		}
		h := g.c.hourOf(slot)
		g.hours[h].seen++
		// Most steps are far from a gap.
		if length := float64(slot-last) * float64(evidence.SlotLength); !renewed || length >= 1.4*min(g.planned[h], g.planned[g.c.hourOf(last)]) {
			if renewed {
				before = middle(last)
			}
			g.gap(before, middle(slot), renewed, true)
		}
		last, renewed = slot, true
	}
	if renewed {
		before = middle(last)
	}
	g.gap(before, g.life.To, renewed, false)
}

// middle is the time that stands for a slot.
func middle(slot int64) time.Time { return evidence.SlotStart(slot).Add(evidence.SlotLength / 2) }

// slotFrom returns the first slot whose middle is not before t.
func (g *gaps) slotFrom(t time.Time) int64 {
	slot := evidence.SlotOf(t)
	if middle(slot).Before(t) {
		slot++
	}
	return slot
}

func (g *gaps) hour(t time.Time) *hourLoss { return &g.hours[evidence.HourOf(t)-g.c.w.first] }

// gap judges the time between two renewals, or between one and the beginning or end of the life.
func (g *gaps) gap(from, to time.Time, afterRenewal, toRenewal bool) {
	length := float64(to.Sub(from))
	planned := min(g.planned[evidence.HourOf(from)-g.c.w.first], g.planned[evidence.HourOf(to.Add(-1))-g.c.w.first])
	var lost int
	if afterRenewal && toRenewal {
		lost = int(math.Round(length/planned)) - 1
	} else {
		lost = int((length - float64(evidence.SlotLength)) / planned)
	}
	if lost <= 0 {
		return
	}
	brief := length <= max(latest*float64(g.lease), float64(g.c.unseen))+float64(evidence.SlotLength)
	// After a longer gap the cluster has noticed, and the state says that the node was silent.
	unnoticed := brief || length <= float64(g.c.in.NodeGrace)
	if afterRenewal && toRenewal && unnoticed && g.restarted(to) {
		g.hour(from).started += int64(lost)
		return
	}
	short, first := int64(0), (*hourLoss)(nil) // those that are missing in the hour of the first one
	for k := 1; k <= lost; k++ {
		at := from.Add(time.Duration(float64(k) * planned))
		if !afterRenewal {
			at = to.Add(-time.Duration(float64(lost+1-k) * planned))
		}
		h := g.hour(at)
		if g.explained(at, h) {
			continue
		}
		h.missing++
		if first == nil {
			first = h
		}
		if first == h {
			short++
		}
	}
	if first != nil && brief {
		first.short = max(first.short, short)
	}
}

// restarted reports whether the kubelet started at about the given time, by its own word. A start explains one gap.
func (g *gaps) restarted(at time.Time) bool {
	for _, t := range []time.Time{at.Add(-longestStart), at, at.Add(longestStart)} {
		x, part := g.c.in.Ledger.Node(g.node, evidence.HourOf(t)), t.Unix()/int64(evidence.PartLength/time.Second)
		if x != nil && x.Started.Has(t) && part != g.started {
			g.started = part
			return true
		}
	}
	return false
}

// explained says whether a renewal is not missed, and counts why.
func (g *gaps) explained(at time.Time, h *hourLoss) bool {
	holds := func(spans []Span) bool {
		return slices.ContainsFunc(spans, func(s Span) bool { return s.Holds(at) })
	}
	switch {
	case holds(g.blind):
		h.notReady++
	case g.vanishes && !at.Before(g.life.To.Add(-g.c.in.NodeGrace)):
		h.vanished++
	case g.briefly(at, h):
		h.brief++
	case holds(g.c.outages):
		h.restart++
	default:
		return false
	}
	return true
}

// briefly looks once at each hour: where Leases are not logged, every node misses hundreds in an hour.
func (g *gaps) briefly(at time.Time, h *hourLoss) bool {
	if g.looked != h {
		hour := evidence.HourOf(at)
		g.looked, g.brief = h, total(clip(g.ready, hour.Start(), hour.End())) < leastReady
	}
	return g.brief
}

// parts are those of the hour that the window has a moment of.
func (w *window) parts(h evidence.Hour) (p evidence.Parts) {
	at := h.Start()
	for i := 0; at.Before(h.End()); i++ {
		next := at.Add(evidence.PartLength)
		if !at.After(w.to) && next.After(w.from) {
			p |= 1 << i
		}
		at = next
	}
	return p
}
