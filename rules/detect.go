package rules

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/audit"
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
	hash  uint64
	track *nodeTrack
	creds *credentials
	spike *spikeSubject
	birth *birthNode
	// nth is the node's number in the minute of denials that has this serial number.
	minute int64
	nth    int32
}

// kubeletNames are further user agents that count as a kubelet's, for detectors that look at clients.
type kubeletNames struct{ kubelets []string }

// configure takes what may change while it runs.
func (k *kubeletNames) configure(o DetectorOptions) { k.kubelets = o.Kubelets }

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
	// Finished says that the log is, and is read as a whole: what comes late counts as long as time was not moved on past it. A short log may be in any order.
	Finished bool
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
	nodes    map[string]*followed // MaxNodes at most
	last     *followed            // the one of them whose request was the last; nil for none
	denials  *denials             // nil if no detector reads them
	lateness time.Duration

	clock
	watermark time.Time // zero before the first Advance
	late      int64

	rules []*Rule
	opt   DetectorOptions
}

// RememberedWatermark is the kind of the entry that says how far the detectors are.
const RememberedWatermark = "watermark"

// NewDetectors returns the detectors of those rules that have one.
func NewDetectors(rules []*Rule, opt DetectorOptions) *Detectors {
	if opt.Lateness <= 0 {
		opt.Lateness = DefaultLateness
	}
	d := &Detectors{lateness: opt.Lateness, nodes: map[string]*followed{}, rules: rules, opt: opt}
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
	}
	return d
}

// Configure changes the options from here on; time does not go back for them.
func (d *Detectors) Configure(opt DetectorOptions) {
	if opt.Lateness <= 0 {
		opt.Lateness = DefaultLateness
	}
	d.lateness, d.opt = opt.Lateness, opt
	for _, one := range d.all {
		if c, is := one.(interface{ configure(DetectorOptions) }); is {
			c.configure(opt)
		}
	}
}

// Forget has the detectors begin anew, as they were made and configured.
func (d *Detectors) Forget() {
	late := d.late
	*d = *NewDetectors(d.rules, d.opt)
	d.late = late
}

// Observe takes in a judged request, in any order. What comes too late is left out and counted, and Observe reports it.
func (d *Detectors) Observe(r *Request, s State) (leftOut bool) {
	t := r.Time
	switch {
	case len(d.all) == 0 || t.IsZero():
		return false
	case t.Before(d.watermark), !d.opt.Finished && d.isLate(t, d.lateness):
		d.late++
		d.straggles(r)
		return true
	case len(r.Node) > maxRemembered: // no node has such a name
		return false
	}
	d.see(t)
	d.show(r, s)
	return false
}

// Disordered reports whether a request that was left out stands too late in its log. Otherwise the request lasted, or its answer was waited for in vain:
// its log may be in order.
func (d *Detectors) Disordered(r *Request) bool {
	at := cmp.Or(r.Event.StageTime, r.Time)
	if r.Event.Stage == audit.StageRequestReceived {
		at = at.Add(time.Minute) // it was waited for until the lateness was over, and a little longer
	}
	return at.Before(d.watermark)
}

// see takes in the time of a request.
func (d *Detectors) see(t time.Time) {
	if d.latest.IsZero() && d.denials != nil && !d.watermark.IsZero() {
		d.denials.Advance(d.watermark, nil, nil) // nothing of before is in it
	}
	d.clock.see(t)
}

// show gives the request to the detectors.
func (d *Detectors) show(r *Request, s State) {
	step := stepOf(r.Time)
	if len(d.births) > 0 && ofBirth(r) {
		for _, one := range d.births {
			one.bear(r, step)
		}
	}
	if !r.IsNode || r.Node == "" {
		return
	}
	n := d.last
	if n == nil || n.name != r.Node {
		n = d.node(r.Node)
	}
	if d.denials != nil {
		d.denials.observe(r, n, step)
	}
	for _, one := range d.follow {
		one.follow(r, n, step, s)
	}
}

// node is what the detectors share of a node.
func (d *Detectors) node(name string) *followed {
	n := d.nodes[name]
	if n == nil {
		n = &followed{name: strings.Clone(name), hash: hash(hashSeed, name)}
		if len(d.nodes) >= MaxNodes {
			return n // and forgotten with the request
		}
		d.nodes[n.name] = n
	}
	d.last = n
	return n
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

// Due reports whether time should be moved on: detectors look back for so many steps, and what is sparse must not be beyond that.
func (d *Detectors) Due() bool { return d.latest.Sub(d.watermark)-d.lateness >= time.Minute }

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
	d.watermark = t
	for _, one := range d.all {
		one.Advance(t, s, found)
	}
	for _, one := range d.follow {
		if one.forgot() {
			clear(d.nodes)
			d.last = nil
		}
	}
}

// Changes returns what changed since it was called last. With what it returned before, that is all that detectors know of the requests from before the
// watermark, if the watermark is the beginning of a minute and no later request was shown.
func (d *Detectors) Changes() []Remembered {
	var out []Remembered
	for _, one := range d.all {
		out = append(out, one.Changes()...)
	}
	if text, err := d.watermark.MarshalText(); err == nil {
		out = append(out, Remembered{Kind: RememberedWatermark, Value: text})
	}
	return out
}

// Restore puts back what Changes returned. Entries of other kinds are left alone; one that cannot be read is an error, after the others were taken.
func (d *Detectors) Restore(all []Remembered) (failed error) {
	for i := range all {
		if all[i].Kind != RememberedWatermark {
			continue
		}
		var t time.Time
		if err := t.UnmarshalText(all[i].Value); err != nil {
			failed = errors.Join(failed, fmt.Errorf("reading how far the detectors are: %w", err))
			continue
		}
		d.watermark = t.UTC().Truncate(DetectStep)
	}
	if d.denials != nil {
		d.denials.since = d.watermark
	}
	for i := range all {
		r := &all[i]
		for _, one := range d.all {
			own, err := one.Restore(r)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("reading what is remembered of %s %q: %w", r.Kind, r.Key, err))
			}
			if own {
				break
			}
		}
	}
	return failed
}
