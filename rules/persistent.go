package rules

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/floor"
)

// What makes a denial persistent. A kubelet that waits for the graph to catch up tries again within seconds and is through in a minute, in
// bad cases in a few; its back-off for a pod that cannot start ends at two minutes and a bit. So five denials within ten minutes and more
// are what a kubelet makes of an object that it will never get, and three windows of five minutes are not one burst seen twice.
const (
	persistentDenials = 5
	persistentFor     = 10 * time.Minute
	persistentWindow  = 5 * time.Minute
	persistentWindows = 3
	// persistentAgain is how often it is found while it continues.
	persistentAgain = 10 * time.Minute
	// persistentGap is how long after the last denial a further one begins anew: what a daily job is denied is persistent, too.
	persistentGap = 26 * time.Hour
	// persistentObjects is how many objects of a node are watched, those that were denied least recently left out; all nodes together have
	// persistentTotal, above which a node that has more than persistentShare has to make room itself.
	persistentObjects = 256
	persistentTotal   = 24_576
	persistentShare   = 8
)

// PersistentDeny is the name of the rule on denials that last.
const PersistentDeny = "persistent-node-deny"

// The reasons of the rule persistent-node-deny.
const (
	DeniedThroughout Reason = "denied-throughout"
	DeniedByNodeOnly Reason = "denied-by-node-only"
)

func persistentNodeDeny() *Rule {
	rule := &Rule{
		Name:     PersistentDeny,
		Severity: Medium,
		Reasons: []ReasonDoc{
			{Reason: DeniedThroughout, Doc: "the Node authorizer denies the object again and again, and nothing else allows it"},
			{Reason: DeniedByNodeOnly, Doc: "the Node authorizer denies the object again and again, and another authorizer let the last requests through"},
		},
		Doc: `A node is denied the same thing again and again

## What
The Node authorizer denied one node the same object at least 5 times over at least 10 minutes, in at least 3 different windows of 5 minutes,
and never allowed it in between. Reads (get, list, watch) of an object count as one. While it continues, it is found again every 10 minutes.

Three kinds of denials do not count:

- Races, which are requests near a change of the state.
- Denials after which the same node was allowed the same object within 10 to 20 seconds.
- Denials of a get of a pod that was on the node within 24 hours, and is there no more. The kubelet asks for such a pod again and again if
  it was deleted by force and does not end.

## Why
The Kubernetes documentation gives "No persistent NODE DENY" as the condition for deleting the binding of 'system:node'. A denial that
repeats is not a race. Either the client needs RBAC for the object, and breaks without it, or the client does not work today either.

## What to do
The user agent says which program makes the requests. If it is an agent on the node that uses the kubelet's credential, create a service
account for it. If it is the kubelet itself, look for a static pod that names a secret or a configmap, which never works, or for an object
whose name the node has wrong (see node-identity). 'nodetrail explain' shows which nodes can reach the object.

If RBAC allowed the requests, the rule rbac-excess-access names the binding.

## False positives
A graph of the API server that lags for more than ten minutes looks the same. The rule authorizer-lag then
names the requests, too.

## How to silence it
Run with '--disable persistent-node-deny', or add the rule to 'rules.disable' in the configuration.`,
	}
	rule.NewDetector = func(DetectorOptions) Detector {
		return &persistent{rule: rule, nodes: map[string]*persistentNode{}, byID: map[uint64]*watched{}, changed: map[string]struct{}{}}
	}
	return rule
}

// persistent watches the objects that nodes are denied.
type persistent struct {
	rule    *Rule
	nodes   map[string]*persistentNode
	byID    map[uint64]*watched
	changed map[string]struct{} // the names of the nodes that are marked so, and of those that are gone
	swept   time.Time
}

type persistentNode struct {
	objects []*watched
	changed bool
}

// watched is an object that a node is denied.
type watched struct {
	denial    // the first; Count is of all
	of        *persistentNode
	AuditIDs  []string `json:"ids,omitempty"` // of the first of each window
	Windows   int64    `json:"ws"`
	Window    int64    `json:"win"` // the last
	FoundAt   time.Time
	fixed     []byte // what is stored of it again and again; nil if that is still to be made
	PassedNow bool   `json:"pn,omitzero"` // the last were let through
}

// Advance implements Detector.
func (p *persistent) Advance(t time.Time, _ State, _ func(*Detection)) {
	t = t.Add(-flushBy) // the minutes before it were given
	if hour := t.Truncate(time.Hour); hour.After(p.swept) {
		p.swept = hour
		for name, n := range p.nodes {
			before := len(n.objects)
			n.objects = slices.DeleteFunc(n.objects, func(w *watched) bool {
				if t.Sub(w.Last) <= persistentGap {
					return false
				}
				delete(p.byID, w.ID)
				return true
			})
			if len(n.objects) != before {
				p.change(n, name)
			}
			if len(n.objects) == 0 {
				delete(p.nodes, name)
			}
		}
	}
}

func (p *persistent) minute(m *denialMinute, s State, found func(*Detection)) {
	var due []*watched // some of them twice
	for _, step := range m.steps {
		p.allow(step.allowed)
		for _, d := range step.denied {
			if getsFormer(d, s) {
				continue
			}
			if w := p.deny(d); w != nil && w.isPersistent() && (w.FoundAt.IsZero() || w.Last.Sub(w.FoundAt) >= persistentAgain) {
				due = append(due, w)
			}
		}
	}
	inOrder := func(a, b *watched) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID)) }
	slices.SortStableFunc(due, inOrder)
	for _, w := range slices.Compact(due) {
		if p.byID[w.ID] == w {
			w.FoundAt = w.Last
			found(p.detection(w))
		}
	}
}

// getsFormer reports whether the node asked for a pod that it had within a day, or when it was cut off, and has no more. A kubelet does for as long as a pod hangs that was deleted
// by force, with each attempt to end it (pkg/kubelet/status, syncPod).
func getsFormer(d *denial, s State) bool {
	o := d.Object
	return s != nil && d.Known && !d.Wide && o.getsPod() && hadPod(s, o.Namespace, o.Name, d.Node, d.Last)
}

// allow forgets what was allowed.
func (p *persistent) allow(ids *idSet) {
	if len(p.byID) < ids.len { // what is in both is looked for from the smaller one
		for id, w := range p.byID {
			if ids.has(id) {
				p.drop(w)
			}
		}
		return
	}
	for id := range ids.all {
		if w := p.byID[id]; w != nil {
			p.drop(w)
		}
	}
}

func (w *watched) isPersistent() bool {
	return w.Count >= persistentDenials && w.Windows >= persistentWindows && w.Last.Sub(w.First) >= persistentFor
}

func (p *persistent) detection(w *watched) *Detection {
	f := w.detection(p.rule)
	f.Time, f.First, f.Last, f.Count, f.AuditIDs = w.Last, w.First, w.Last, w.Count, slices.Clone(w.AuditIDs)
	f.Allowed, f.Reason = w.PassedNow, DeniedThroughout
	if f.Allowed {
		f.Reason = DeniedByNodeOnly
	}
	f.Params = codes.Params{codes.Int(ParamCount, w.Count), codes.Time(ParamSince, w.First), codes.Time(ParamUntil, w.Last)}
	return f
}

func (p *persistent) deny(d *denial) *watched {
	if d.Wide {
		return nil
	}
	w := p.byID[d.ID]
	if w != nil && (d.First.Sub(w.Last) > persistentGap || w.Node != d.Node) {
		p.drop(w)
		w = nil
	}
	var n *persistentNode
	if w != nil {
		n = w.of
	} else if n = p.nodes[d.Node]; n == nil {
		if len(p.nodes) >= MaxNodes {
			return nil
		}
		n = &persistentNode{}
		p.nodes[strings.Clone(d.Node)] = n
	}
	p.change(n, d.Node)
	window := floor.Div(d.Last.Unix(), int64(persistentWindow/time.Second))
	if w == nil {
		if !p.room(n) {
			return nil
		}
		w = &watched{denial: *d, of: n, Windows: 1, Window: window, PassedNow: d.Allowed}
		w.denial.of, w.AuditID = nil, ""
		if w.note(d.AuditID); len(w.AuditIDs) > 0 {
			w.AuditID = w.AuditIDs[0]
		}
		n.objects = append(n.objects, w)
		p.byID[d.ID] = w
		return w
	}
	w.Count += d.Count
	w.PassedNow = d.Allowed
	if d.Last.After(w.Last) { // else more is remembered than how far time is
		w.Last = d.Last
	}
	if window != w.Window {
		w.Windows++
		w.Window = window
		w.note(d.AuditID)
	}
	return w
}

func (w *watched) note(auditID string) {
	if auditID != "" && len(w.AuditIDs) < 5 {
		w.AuditIDs, w.fixed = append(w.AuditIDs, strings.Clone(auditID)), nil
	}
}

// room makes place for one more object of the node, or reports that there is none.
func (p *persistent) room(n *persistentNode) bool {
	for len(n.objects) >= persistentObjects || len(p.byID) >= persistentTotal && len(n.objects) >= persistentShare {
		p.drop(slices.MinFunc(n.objects, func(a, b *watched) int { return cmp.Or(a.Last.Compare(b.Last), cmp.Compare(a.ID, b.ID)) }))
	}
	return len(p.byID) < persistentTotal+persistentShare*MaxNodes/4
}

func (p *persistent) drop(w *watched) {
	delete(p.byID, w.ID)
	p.change(w.of, w.Node)
	w.of.objects = slices.DeleteFunc(w.of.objects, func(o *watched) bool { return o == w })
}

// change says that what is known of the node has to be stored.
func (p *persistent) change(n *persistentNode, name string) {
	if !n.changed {
		n.changed = true
		p.changed[name] = struct{}{}
	}
}

const rememberedPersistent = "persistent-deny"

// Changes implements Detector.
func (p *persistent) Changes() []Remembered {
	var out []Remembered
	var b []byte
	for _, name := range slices.Sorted(maps.Keys(p.changed)) {
		var objects []*watched
		if n := p.nodes[name]; n != nil {
			objects, n.changed = n.objects, false
		}
		b = appendWatched(b[:0], objects)
		out = append(out, Remembered{Kind: rememberedPersistent, Key: name, Value: slices.Clone(b)})
	}
	clear(p.changed)
	return out
}

// Restore implements Detector.
func (p *persistent) Restore(r *Remembered) (own bool, err error) {
	if r.Kind != rememberedPersistent {
		return false, nil
	}
	if p.nodes[r.Key] != nil || len(p.nodes) >= MaxNodes {
		return true, nil
	}
	objects, err := readWatched(r.Value)
	if err != nil {
		return true, err
	}
	if len(objects) > persistentObjects {
		return true, fmt.Errorf("%d objects are watched", len(objects))
	}
	for _, w := range objects {
		if w == nil || w.Object == nil || w.Node != r.Key || w.Count < 0 || w.Last.Before(w.First) || p.byID[w.ID] != nil {
			return true, errors.New("a watched object that cannot be")
		}
	}
	n := &persistentNode{objects: objects}
	for _, w := range objects {
		w.AuditIDs = w.AuditIDs[:min(len(w.AuditIDs), 5)]
		w.of, p.byID[w.ID] = n, w
	}
	if len(objects) > 0 {
		p.nodes[strings.Clone(r.Key)] = n
	}
	return true, nil
}
