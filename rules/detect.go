package rules

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Detector finds what no single request shows. It is not safe for concurrent use.
//
// Time is the requests'. What a detector finds must not depend on the order in which requests came between two calls of Advance, nor
// on how often Advance is called: it collects sums in buckets of event time, and judges a bucket when Advance has passed its end.
type Detector interface {
	// Advance says that no request from before t will come, with t a whole number of [DetectStep]; t never goes back and may leap. What is
	// found is given to found, in an order that depends on nothing but the requests.
	Advance(t time.Time, s State, found func(*Detection))
	// Changes returns what changed since the last call, in entries of kinds that no other detector has.
	Changes() []Remembered
	// Restore puts back an entry that Changes returned. It reports whether the kind is its own; what it holds already it leaves alone.
	Restore(r *Remembered) (own bool, err error)
}

// follower is a detector that looks at requests of nodes, and keeps something of each node. All of them share one look-up of the node; other
// detectors receive what was denied ([denialReader]), or how credentials come to be ([birthReader]).
type follower interface {
	Detector
	// follow takes in a judged request of a node that is not before the last Advance. It must keep neither the request nor its strings. n is the
	// node, step is that of the request's time. s may be nil.
	follow(r *Request, n *followed, step int64, s State)
	// forgot reports whether something of a node was dropped since the last call: no followed may be used again.
	forgot() bool
}

// followed is a node. In addition to its name, and the hash of it that begins those of its objects, it has what detectors keep of it, each its own; nil
// before they do.
type followed struct {
	name  string
	lane  string
	hash  uint64
	track *nodeTrack
	creds *credentials
	spike *spikeSubject
	birth *birthNode
}

// dropping is a follower's word on what it dropped.
type dropping struct{ dropped bool }

func (d *dropping) forgot() bool {
	was := d.dropped
	d.dropped = false
	return was
}

// DetectStep is the step in which time advances for detectors.
const DetectStep = 10 * time.Second

// DefaultLateness is how much later than others a request may come, by its time, and still count for detectors.
const DefaultLateness = 2 * time.Minute

// storeEvery is how often at most what changed in detectors is stored, unless something was found.
const storeEvery = 10 * time.Second

// storeStep is how far time moves on, when much of a log is there at once, until what changed is stored in any case.
const storeStep = time.Minute

// leap is how far ahead of all others a single request may be. One that is further ahead does not move time on until a second one does:
// a clock that is wrong once must not make all that follows late.
const leap = time.Hour

// Detection is a finding that several requests show together. All its strings are its own.
type Detection struct {
	Finding
	// Time is that of which it is found, within the current bucket: what continues is found again, with a later one.
	Time time.Time
	// Phase tells apart detections of one Time, rule, subject and detail, such as "end".
	Phase string
	// First and Last are the times of the requests, Count is how many.
	First, Last time.Time
	Count       int64
	// AuditIDs are of requests that show it, at most five.
	AuditIDs []string
	// The object, where there is one; Product is the user agent's.
	Verb, APIGroup, Resource, Subresource, Namespace, Name, Product string
}

// DetectorOptions are what detectors are made with.
type DetectorOptions struct {
	// Lateness is how much later than others a request may come. Default DefaultLateness.
	Lateness time.Duration
	// Kubelets are further user agents that count as a kubelet's, without version.
	Kubelets []string
	// Bootstrap says what is usual when nodes join.
	Bootstrap Bootstrap
}

// Detectors are the detectors of a set of rules. Not safe for concurrent use.
type Detectors struct {
	all      []Detector
	follow   []follower
	births   []birthReader
	parting  []parting
	nodes    map[string]*followed // MaxNodes at most
	denials  *denials             // nil if no detector reads them
	lateness time.Duration

	latest    time.Time // of the requests
	reach     time.Time // until then, at least, a request is no leap
	ahead     time.Time // a request that is further ahead than leap
	watermark time.Time // zero before the first Advance
	resumed   bool      // the watermark is a restored one, or was left out for a lane that has none
	late      int64
	lanes     map[string]string    // by node, the lane that its requests came by last; none of the unnamed lane; MaxNodes at most
	parted    map[string]time.Time // the lanes that were passed on, with the watermark of then

	found   bool      // since what changed was stored
	stored  time.Time // the watermark then
	storeAt time.Time
	moved   bool // the watermark, since it was stored
}

// RememberedWatermark is the kind of the entry that says how far the detectors are: of each lane.
const RememberedWatermark = "watermark"

// parting is a detector that keeps something of each node, in entries of one kind whose keys are the nodes' names.
type parting interface {
	Detector
	// release forgets a node, and does not have what is stored of it changed: from now on somebody else follows it.
	release(node string)
	// nodeKind is the kind of those entries.
	nodeKind() string
}

// NewDetectors returns the detectors of those rules that have one.
func NewDetectors(rules []*Rule, opt DetectorOptions) *Detectors {
	if opt.Lateness <= 0 {
		opt.Lateness = DefaultLateness
	}
	d := &Detectors{lateness: opt.Lateness, nodes: map[string]*followed{}, lanes: map[string]string{}, parted: map[string]time.Time{}}
	for _, r := range rules {
		if r.NewDetector == nil {
			continue
		}
		one := r.NewDetector(opt)
		d.all = append(d.all, one)
		if reader, is := one.(denialReader); is {
			if d.denials == nil {
				d.denials = newDenials()
			}
			d.denials.readers = append(d.denials.readers, reader)
		}
	}
	if d.denials != nil {
		d.all = append([]Detector{d.denials}, d.all...)
	}
	for _, one := range d.all {
		if f, is := one.(follower); is {
			d.follow = append(d.follow, f)
		}
		if b, is := one.(birthReader); is {
			d.births = append(d.births, b)
		}
		if p, is := one.(parting); is {
			d.parting = append(d.parting, p)
		}
	}
	return d
}

// Configure changes the options from here on; time does not go back for them.
func (d *Detectors) Configure(opt DetectorOptions) {
	if opt.Lateness <= 0 {
		opt.Lateness = DefaultLateness
	}
	d.lateness = opt.Lateness
	for _, one := range d.all {
		if c, is := one.(interface{ configure(DetectorOptions) }); is {
			c.configure(opt)
		}
	}
}

// Observe takes in a judged request, in any order. What comes too late is left out and counted.
func (d *Detectors) Observe(r *Request, s State) { d.ObserveIn(Lane{}, r, s) }

// Lane is a part of the log that this process may pass on to another one, with what is remembered of the nodes whose requests come by it. The part
// without a name stays.
type Lane struct {
	Name string
	// Since is up to when its requests were judged by whoever had it before: those from before are too late.
	Since time.Time
}

// ObserveIn is Observe for a request that came by a lane.
func (d *Detectors) ObserveIn(lane Lane, r *Request, s State) {
	t := r.Time
	switch {
	case len(d.all) == 0 || t.IsZero():
		return
	case t.Before(d.watermark) || t.Before(lane.Since):
		d.late++
		d.straggles(r)
		return
	case len(r.Node) > maxRemembered: // no node has such a name
		return
	}
	switch {
	case !t.After(d.latest):
	case d.latest.IsZero():
		d.latest = t
		if d.denials != nil && !d.watermark.IsZero() {
			d.denials.Advance(d.watermark, nil, nil) // nothing of before is in it
		}
	case !t.After(d.reach):
		d.latest = t
	case t.Sub(d.latest) <= leap:
		d.latest, d.reach = t, t.Add(leap)
	case d.ahead.IsZero():
		d.ahead = t
	default:
		if t.After(d.ahead) {
			t, d.ahead = d.ahead, t
		}
		d.latest, d.ahead = t, d.onlyIfAhead(t)
	}
	step := stepOf(r.Time)
	if len(d.births) > 0 && ofBirth(r) {
		for _, one := range d.births {
			one.bear(r, step)
		}
	}
	if !r.IsNode || r.Node == "" {
		return
	}
	n := d.nodes[r.Node]
	if n == nil {
		n = &followed{name: strings.Clone(r.Node), hash: hash(hashSeed, r.Node)}
		if len(d.nodes) < MaxNodes {
			d.nodes[n.name] = n
		}
	}
	if n.lane != lane.Name {
		n.lane = lane.Name
		d.place(n.name, lane.Name)
	}
	if d.denials != nil {
		d.denials.observe(r, n, step)
	}
	for _, one := range d.follow {
		one.follow(r, n, step, s)
	}
}

// straggler is a follower that has a use for what comes too late.
type straggler interface {
	// straggle is given such a request of a node, and of the step at which time is.
	straggle(r *Request, step int64)
}

func (d *Detectors) straggles(r *Request) {
	if !r.IsNode || r.Node == "" || len(r.Node) > maxRemembered {
		return
	}
	for _, one := range d.follow {
		if f, is := one.(straggler); is {
			f.straggle(r, stepOf(d.watermark))
		}
	}
}

// onlyIfAhead keeps the time that is ahead if it is so of the new latest, too.
func (d *Detectors) onlyIfAhead(latest time.Time) time.Time {
	if d.ahead.Sub(latest) > leap {
		return d.ahead
	}
	return time.Time{}
}

// Late is how many requests came too late.
func (d *Detectors) Late() int64 { return d.late }

// Advance moves time on to the latest request less the lateness. Where the log has been silent the clock, less the lateness, moves it on so far
// that what came in is judged, and no farther: when the log advances it may be from there, and should not be late. The zero clock is none.
func (d *Detectors) Advance(clock time.Time, s State, found func(*Detection)) {
	if d.latest.IsZero() {
		return
	}
	t := d.latest.Add(-d.lateness)
	if c := clock.Add(-d.lateness); c.After(t) {
		t = c
		if most := d.latest.Add(flushBy); t.After(most) {
			t = most
		}
	}
	d.advance(t, s, found)
}

// Flush says that the log is at its end. what continues then is found without its end.
func (d *Detectors) Flush(s State, found func(*Detection)) {
	end := d.latest
	if d.ahead.After(end) {
		end = d.ahead
	}
	if !end.IsZero() {
		d.advance(end.Add(flushBy), s, found)
	}
}

// flushBy is enough for the bucket of a minute to end and for a denial in it to be followed by no allow.
const flushBy = time.Minute + 3*DetectStep

func (d *Detectors) advance(t time.Time, s State, found func(*Detection)) {
	t = t.UTC().Truncate(DetectStep)
	if !t.After(d.watermark) {
		return
	}
	d.watermark, d.moved = t, true
	for lane, at := range d.parted {
		if t.Sub(at) > partedFor {
			d.Release(lane)
		}
	}
	for _, one := range d.all {
		one.Advance(t, s, func(f *Detection) {
			d.found = true
			found(f)
		})
	}
	for _, one := range d.follow {
		if one.forgot() {
			clear(d.nodes)
		}
	}
}

// Changes returns what changed, if something was found, or if it is some time ago that it was asked for, by the clock or by the requests; all
// means in any case. What changed since is lost when the process is killed: those requests are not judged again.
func (d *Detectors) Changes(now time.Time, all bool) []Remembered {
	if !all && !d.found && now.Before(d.storeAt) && d.watermark.Sub(d.stored) < storeStep {
		return nil
	}
	d.found, d.storeAt, d.stored = false, now.Add(storeEvery), d.watermark
	var out []Remembered
	for _, one := range d.all {
		changed := one.Changes()
		if p, is := one.(parting); is {
			for i := range changed {
				if m := &changed[i]; m.Kind == p.nodeKind() && m.Key != "" {
					m.OfNode, m.Lane = true, d.lanes[m.Key]
				}
			}
		}
		out = append(out, changed...)
	}
	if d.moved {
		d.moved = false
		if text, err := d.watermark.MarshalText(); err == nil {
			out = append(out, Remembered{Kind: RememberedWatermark, Value: text})
		}
	}
	return out
}

// place notes by which lane a node's requests come.
func (d *Detectors) place(node, lane string) {
	switch _, known := d.lanes[node]; {
	case lane == "":
		delete(d.lanes, node)
	case known || len(d.lanes) < MaxNodes:
		d.lanes[node] = lane
	}
}

// partedFor is how far time moves on until a lane that was passed on is forgotten. No silence of a node is as short.
const partedFor = time.Minute

// Part says that another process may have the lane from now on. Unless it comes back soon, the nodes whose requests came by it are forgotten, so that they
// do not seem to be silent, and what is stored of them stays as it is. The lane without a name is not parted with.
func (d *Detectors) Part(lane string) { d.parted[lane] = d.watermark }

// Keep says that a lane is back, and that no other process had it. It reports whether its nodes are known; else they are to be restored.
func (d *Detectors) Keep(lane string) bool {
	_, is := d.parted[lane]
	delete(d.parted, lane)
	return is
}

// Release forgets the nodes whose requests came by a lane.
func (d *Detectors) Release(lane string) {
	delete(d.parted, lane)
	for node, of := range d.lanes {
		if of != lane {
			continue
		}
		for _, one := range d.parting {
			one.release(node)
		}
		delete(d.lanes, node)
	}
	clear(d.nodes)
}

// Restore puts back what Changes returned of the unnamed lane. Entries of other kinds are left alone; one that cannot be read is an error, after the others
// were taken.
func (d *Detectors) Restore(all []Remembered) error {
	_, err := d.RestoreLane("", all)
	return err
}

// RestoreLane puts back what Changes returned of a lane, which is to come next. Before the first request, time is that of the lane which is the furthest
// behind, and one of which nothing is stored may be at any time. After it, time does not go back.
func (d *Detectors) RestoreLane(name string, all []Remembered) (lane Lane, failed error) {
	lane.Name = name
	for i := range all {
		if all[i].Kind != RememberedWatermark {
			continue
		}
		var t time.Time
		if err := t.UnmarshalText(all[i].Value); err != nil {
			failed = errors.Join(failed, fmt.Errorf("reading how far the detectors are: %w", err))
			continue
		}
		lane.Since = t.UTC().Truncate(DetectStep)
	}
	if d.latest.IsZero() && (!d.resumed || lane.Since.Before(d.watermark)) {
		d.watermark, d.resumed = lane.Since, true
	}
	if d.denials != nil {
		d.denials.since = lane.Since
	}
	for i := range all {
		r := &all[i]
		for _, one := range d.all {
			own, err := one.Restore(r)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("reading what is remembered of %s %q: %w", r.Kind, r.Key, err))
			}
			if p, is := one.(parting); own && is && r.Kind == p.nodeKind() && name != "" && r.Key != "" && d.lanes[r.Key] == "" {
				d.place(strings.Clone(r.Key), name)
			}
			if own {
				break
			}
		}
	}
	return lane, failed
}
