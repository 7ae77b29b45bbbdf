package rules

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unsafe"

	"github.com/nodetrail/nodetrail/internal/floor"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// denialReader is a detector that is given the denials of each minute, in order, when it is known which of them were races.
type denialReader interface {
	Detector
	minute(m *denialMinute, s State, found func(*Detection))
}

// denialMinute is a minute in which nodes were denied something, or allowed what they may have been denied before.
type denialMinute struct {
	start  time.Time
	serial int64         // no two minutes have one
	steps  []*denialStep // in order, those without anything left out
	nodes  []string      // those that were denied something, by the number that their denials have
}

// denialStep holds the denials of a [DetectStep]. A denial is left out where the same node was allowed the same object in the same step or in
// the next: the order within a step is not known, and so within seconds means at most twice the step.
type denialStep struct {
	denied  []*denial // in an order that is always the same
	allowed *idSet
}

// denial sums up what one node was denied of one object within a step. All but the counts are of the earliest request.
type denial struct {
	Node string `json:"n"`
	// ID is a hash of the node and the object.
	ID      uint64        `json:"i"`
	Count   int64         `json:"c"`
	First   time.Time     `json:"f"`
	Last    time.Time     `json:"l"`
	AuditID string        `json:"a,omitzero"`
	Reason  string        `json:"r,omitzero"`
	Product string        `json:"p,omitzero"`
	Object  *deniedObject `json:"o"` // shared, and never changed
	// Lagged is how many of them the state had long allowed.
	Lagged int64 `json:"b,omitzero"`
	// Allowed says that one of the requests passed nevertheless, Known that the re-evaluated verdict of all was a deny, too.
	Allowed bool `json:"w,omitzero"`
	Known   bool `json:"k,omitzero"`
	// Wide stands for all the further objects of the node.
	Wide bool `json:"e,omitzero"`

	// own says that it asks after a pod of its own, nth is the node's number in the minute; both are known when the minute is over.
	own bool
	nth int32
	of  *followed // the node; nil for one that was restored
}

// Bounds of what is kept of a step. Objects beyond them are counted by node alone. 3,072 in ten seconds are what 5,000 nodes are denied in a
// bad hour, and what the bound on memory leaves room for; a single node cannot take more than 256 of them from the others.
const (
	maxStepDenied  = 3072
	maxNodeDenied  = 256
	maxStepWide    = 8192
	maxStepAllowed = 1 << 16
	maxDeniedText  = 128 // of a reason
	// maxSteps is how many steps there are at a time: those of the lateness, and room for times that are far off, the latest of which have to
	// give way.
	maxSteps = 1024
	// heldTexts is how many texts are held for those that come next, a power of two.
	heldTexts = 4096
	// heldObjects is how many objects are, a power of two and at least two.
	heldObjects = 4096
	// maxSpare and maxFree are how many steps and denials that are over are kept to be used again.
	maxSpare = 8
	maxFree  = 1024
)

// stepBucket is a step that is not over.
type stepBucket struct {
	slot    int // under which it is stored
	denied  *idMap[*denial]
	nodes   map[nodeDenied]int // how many objects of each; nil while no node can have many
	allowed *idSet
	changed bool
}

// nodeDenied is what shares a bound: what of a node was refused, or what passed nevertheless; of all nodes together where there is no name. So no number
// of refusals takes the room of what passed.
type nodeDenied struct {
	node   string
	passed bool
}

func newStepBucket(denied, allowed int) *stepBucket {
	return &stepBucket{denied: newIDMap[*denial](denied), allowed: newIDMap[struct{}](allowed)}
}

// allow notes an object that was allowed.
func (b *stepBucket) allow(id uint64) {
	if b.allowed.len < maxStepAllowed {
		b.allowed.add(id, struct{}{})
		b.changed = true
	}
}

// isFull reports whether a further object of the node has no room.
func (b *stepBucket) isFull(k nodeDenied) bool {
	if b.denied.len < maxNodeDenied {
		return false
	}
	if b.nodes == nil {
		b.nodes = map[nodeDenied]int{}
		for _, one := range b.denied.all {
			b.count(one)
		}
	}
	return b.nodes[nodeDenied{passed: k.passed}] >= maxStepDenied || b.nodes[k] >= maxNodeDenied
}

// count counts the object as one of the node.
func (b *stepBucket) count(one *denial) {
	if b.nodes != nil && !one.Wide {
		b.nodes[nodeDenied{one.Node, one.Allowed}]++
		b.nodes[nodeDenied{passed: one.Allowed}]++
	}
}

// denials gathers what nodes are denied, tells races apart, and gives the rest to its readers.
type denials struct {
	readers []denialReader
	steps   map[int64]*stepBucket // by number since 1970
	slots   map[int]bool          // those in use
	done    int64                 // the steps before it are over
	minutes int64                 // how many are over
	since   time.Time             // of what is restored, what was over by then is left out
	// The bucket of the last request, which is mostly the next one's too.
	last     *stepBucket
	lastStep int64
	// What is over is used again: the readers keep nothing of it.
	spare []*stepBucket
	free  []*denial
	// How many objects the step that was over last had, which the next ones may have, too.
	denied, allowed int
	// texts are those that come again and again, by their hash, so that each is mostly there once. One that comes with the same hash takes the place. Objects
	// are held likewise.
	texts   [heldTexts]string
	objects [heldObjects]*deniedObject
	reason  string // the last one
	product string // the last one
	ids     []byte // room for audit IDs
}

func newDenials() *denials {
	return &denials{steps: map[int64]*stepBucket{}, slots: map[int]bool{}}
}

// text returns a copy of s, bounded, mostly one that is there.
func (d *denials) text(s string) string {
	if s == "" {
		return ""
	}
	held := &d.texts[hash(hashSeed, s)%heldTexts]
	if *held != s {
		one := bounded(s, maxRemembered)
		if len(one) != len(s) {
			return one
		}
		*held = one
	}
	return *held
}

// nodeAllows reports whether the Node authorizer allows the request, by the API server's word where there is one.
func nodeAllows(r *Request) bool {
	if v := r.Observed.NodeVerdict; v == nodeauthz.Allow || v == nodeauthz.Deny {
		return v == nodeauthz.Allow
	}
	return r.Answer.Verdict == nodeauthz.Allow
}

// byGraph reports whether a node is allowed the object for what leads to it, which may come to be within seconds.
func byGraph(r *Request) bool {
	return ByGraph(r.Attrs.APIGroup, r.Attrs.Resource, r.Attrs.Subresource)
}

// ByGraph reports whether nodes are allowed such objects for what leads to them.
func ByGraph(group, resource, subresource string) bool {
	switch resource {
	case "secrets", "configmaps", "persistentvolumeclaims", "persistentvolumes", "pods":
		return group == ""
	case "serviceaccounts":
		return group == "" && subresource == "token"
	case "volumeattachments":
		return group == "storage.k8s.io"
	case "resourceclaims":
		return group == "resource.k8s.io"
	}
	return false
}

// observe takes in a request of a node.
func (d *denials) observe(r *Request, n *followed, step int64) {
	switch {
	case r.NodeDenies():
		if b := d.bucket(step); b != nil {
			d.deny(b, r, n)
		}
	case byGraph(r) && nodeAllows(r):
		if b := d.bucket(step); b != nil {
			b.allow(idOf(r, n.hash))
		}
	}
}

func (d *denials) bucket(n int64) *stepBucket {
	if d.last != nil && d.lastStep == n {
		return d.last
	}
	b := d.steps[n]
	if b == nil {
		if len(d.steps) >= maxSteps {
			last := n
			for other := range d.steps {
				last = max(last, other)
			}
			if last == n {
				return nil
			}
			d.drop(last)
		}
		if last := len(d.spare) - 1; last >= 0 {
			b, d.spare = d.spare[last], d.spare[:last]
		} else {
			b = newStepBucket(d.denied, d.allowed)
		}
		for d.slots[b.slot] {
			b.slot++
		}
		d.steps[n], d.slots[b.slot] = b, true
	}
	d.last, d.lastStep = b, n
	return b
}

func (d *denials) drop(n int64) {
	if d.lastStep == n {
		d.last = nil
	}
	b := d.steps[n]
	delete(d.slots, b.slot)
	delete(d.steps, n)
	d.denied, d.allowed = b.denied.len, b.allowed.len
	for _, one := range b.denied.all {
		if len(d.free) < maxFree {
			*one = denial{} // it keeps nothing
			d.free = append(d.free, one)
		}
	}
	if len(d.spare) < maxSpare && b.denied.len <= maxFree/maxSpare && b.allowed.len <= maxFree {
		b.denied.clear()
		b.allowed.clear()
		*b = stepBucket{denied: b.denied, allowed: b.allowed}
		d.spare = append(d.spare, b)
	}
}

func (d *denials) deny(b *stepBucket, r *Request, n *followed) {
	id, wide := idOf(r, n.hash), false
	one := b.denied.get(id)
	if one == nil && b.isFull(nodeDenied{n.name, r.Allowed}) {
		wide, id = true, n.hash
		if one = b.denied.get(id); one == nil && b.denied.len >= maxStepWide {
			id = 0 // of no node in particular
			one = b.denied.get(id)
		}
	}
	t := r.Time.UTC().Round(0)
	if one == nil {
		if last := len(d.free) - 1; last >= 0 {
			one, d.free = d.free[last], d.free[:last]
		} else {
			one = &denial{}
		}
		one.ID, one.Known, one.Last, one.Wide = id, true, t, wide
		one.Allowed = r.Allowed // it counts the object by that
		if id != 0 {
			one.Node, one.of = n.name, n
		}
		d.describe(one, r, t)
		b.denied.add(id, one)
		b.count(one)
	} else if t.Before(one.First) || t.Equal(one.First) && r.Event.AuditID < one.AuditID {
		d.describe(one, r, t)
	}
	one.Count++
	if t.After(one.Last) {
		one.Last = t
	}
	one.Allowed = one.Allowed || r.Allowed
	if r.Answer.Verdict == nodeauthz.Allow {
		one.Lagged++
	}
	one.Known = one.Known && r.Answer.Verdict == nodeauthz.Deny
	b.changed = true
}

// describe takes from the request what only the earliest tells.
func (d *denials) describe(one *denial, r *Request, t time.Time) {
	one.First, one.AuditID = t, d.auditID(r.Event.AuditID)
	if product := r.Client(); product != d.product {
		d.product = d.text(product)
	}
	if reason := reasonOf(r); reason != d.reason {
		d.reason = d.text(reason)
	}
	one.Product, one.Reason, one.Object = d.product, d.reason, d.object(r, one)
}

// auditID returns a copy of an audit ID, bounded. Many share their memory: who keeps one for longer than a minute has to copy it.
func (d *denials) auditID(s string) string {
	s = cut(s, maxRemembered)
	if cap(d.ids)-len(d.ids) < len(s) {
		d.ids = make([]byte, 0, 4096)
	}
	at := len(d.ids)
	d.ids = append(d.ids, s...)
	return unsafe.String(unsafe.SliceData(d.ids[at:]), len(s))
}

// noObject is that of a denial that is of no object in particular.
var noObject = &deniedObject{}

// object returns the object of the request, mostly one that is there.
func (d *denials) object(r *Request, one *denial) *deniedObject {
	if one.Wide {
		return noObject
	}
	held := d.objects[one.ID%heldObjects&^1:][:2] // two that have the place in common, the later one first
	for _, h := range held {
		if h != nil && h.is(r.Attrs) {
			return h
		}
	}
	o := objectOf(r.Attrs)
	copied := deniedObject{
		d.text(o.Verb), d.text(o.APIGroup), d.text(o.Resource), d.text(o.Subresource), d.text(o.Namespace), d.text(o.Name), d.text(o.Path),
	}
	if copied == o { // else something was cut
		held[0], held[1] = &copied, held[0]
	}
	return &copied
}

// reasonOf is why the request was denied, short and the same for all nodes.
func reasonOf(r *Request) string {
	reason := r.Answer.Reason
	if r.Answer.Verdict != nodeauthz.Deny || reason == "" {
		reason = r.Observed.Reason
	}
	reason = cut(reason, maxDeniedText)
	const relationship = "no relationship found between node '"
	if _, rest := nodeauthz.CutAuthorizer(reason); strings.HasPrefix(rest, relationship) {
		return "no relationship found between the node and this object"
	}
	return reason
}

// cut is s, cut to so many bytes.
func cut(s string, most int) string {
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// bounded is a copy of s, cut to so many bytes.
func bounded(s string, most int) string { return strings.Clone(cut(s, most)) }

// overBy is the step after the last minute that is over at a time, with the step in which an allow may follow.
func overBy(t time.Time) int64 { return floor.Div(stepOf(t)-1, stepsPerMinute) * stepsPerMinute }

// Advance implements Detector: it gives the minutes that are over, and whose denials no allow can follow any more, to the readers.
func (d *denials) Advance(t time.Time, s State, found func(*Detection)) {
	end := overBy(t)
	if end <= d.done {
		return
	}
	var minutes []int64
	for n := range d.steps {
		if n < d.done { // restored, and over long since
			d.drop(n)
		} else if n < end {
			minutes = append(minutes, floor.Div(n, stepsPerMinute))
		}
	}
	slices.Sort(minutes)
	for _, n := range slices.Compact(minutes) {
		d.minutes++
		m := &denialMinute{start: time.Unix(n*60, 0).UTC(), serial: d.minutes}
		for at := n * stepsPerMinute; at < (n+1)*stepsPerMinute; at++ {
			if b := d.steps[at]; b != nil {
				m.steps = append(m.steps, b.over(d.steps[at+1]))
			}
		}
		m.number()
		for _, r := range d.readers {
			r.minute(m, s, found)
		}
	}
	for n := range d.steps {
		if n < end {
			d.drop(n)
		}
	}
	d.done = end
}

// number gives the nodes of the minute numbers.
func (m *denialMinute) number() {
	known := map[string]int32{}
	for _, step := range m.steps {
		for _, d := range step.denied {
			of := d.of
			if of != nil && of.minute == m.serial {
				d.nth = of.nth
				continue
			}
			nth, is := known[d.Node]
			if !is {
				nth, m.nodes = int32(len(m.nodes)), append(m.nodes, d.Node)
				known[d.Node] = nth
			}
			if d.nth = nth; of != nil {
				of.minute, of.nth = m.serial, nth
			}
		}
	}
}

// byName are the numbers of the minute's nodes in the order of their names.
func (m *denialMinute) byName() []int {
	all := make([]int, len(m.nodes))
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(a, b int) int { return strings.Compare(m.nodes[a], m.nodes[b]) })
	return all
}

// over puts the step in order, without the races.
func (b *stepBucket) over(next *stepBucket) *denialStep {
	return &denialStep{allowed: b.allowed, denied: b.inOrder(func(id uint64) bool {
		return !b.allowed.has(id) && (next == nil || !next.allowed.has(id))
	})}
}

// inOrder returns the denials of those objects that are wanted, in an order that is always the same.
func (b *stepBucket) inOrder(want func(id uint64) bool) []*denial {
	all := make([]*denial, 0, b.denied.len)
	for id, one := range b.denied.all {
		if want(id) {
			all = append(all, one)
		}
	}
	return byID(all)
}

// byID returns the denials in the order of their IDs. These are hashes, so that few have the first bits in common, and little is left to be sorted.
func byID(all []*denial) []*denial {
	var ends [1 << 8]int
	for _, d := range all {
		ends[d.ID>>56]++
	}
	at := 0
	for i, n := range ends {
		ends[i], at = at, at+n
	}
	out := make([]*denial, len(all))
	for _, d := range all {
		out[ends[d.ID>>56]] = d
		ends[d.ID>>56]++
	}
	begin := 0
	for _, end := range ends {
		if end-begin > 1 {
			slices.SortFunc(out[begin:end], func(a, b *denial) int { return cmp.Compare(a.ID, b.ID) })
		}
		begin = end
	}
	return out
}
