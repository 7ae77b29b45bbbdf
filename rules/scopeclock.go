package rules

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// scopeDetector finds reads of secrets that would be the fault of a wrong clock, if one were wrong.
//
// A clock that is wrong makes all requests through its API server differ from the state: also those that the Node authorizer allowed, which nobody but the API
// server can bring about. Where there are none of these, no clock is wrong.
type scopeDetector struct {
	kubelets []string
	waiting  []doubtedRead // maxDoubted at most
	// witness is in which of the 64 minutes up to the last one the Node authorizer allowed a read to which the state does not lead.
	witness uint64
	last    int64
	// open are the minutes with such a read that are still to come.
	open   map[int64]struct{}
	stored bool // what is stored is not empty
	dropping
}

// doubtedRead is a read that is still to be judged.
type doubtedRead struct {
	Node    string    `json:"n"`
	At      time.Time `json:"at"`
	AuditID string    `json:"id"`
	Address string    `json:"a,omitempty"`
	Product string    `json:"c"`

	Object deniedObject `json:"o"`
}

const (
	maxDoubted = 4096
	// witnessFor is for how many minutes before a read another one may show that the clock is wrong.
	witnessFor = 60

	rememberedDoubted = "doubted-reads"
)

func newScopeDetector(o DetectorOptions) Detector {
	return &scopeDetector{kubelets: o.Kubelets, open: map[int64]struct{}{}}
}

func (d *scopeDetector) configure(o DetectorOptions) { d.kubelets = o.Kubelets }

// follow implements follower.
func (d *scopeDetector) follow(r *Request, n *followed, step int64, _ State) {
	if !r.Doubted {
		return
	}
	if r.Observed.NodeVerdict == nodeauthz.Allow {
		d.open[step/stepsPerMinute] = struct{}{}
		return
	}
	if !r.NodeDenies() || !takes(r) || !r.Succeeded() || !r.byClock(d.kubelets) || len(d.waiting) >= maxDoubted {
		return
	}
	a := r.Attrs
	clone := func(s string) string { return strings.Clone(clip(s)) }
	d.waiting = append(d.waiting, doubtedRead{
		Node: n.name, At: r.Time, AuditID: clone(r.Event.AuditID), Address: clone(lastAddress(r)), Product: clone(Product(r.Event.UserAgent)),
		Object: deniedObject{
			Verb: clone(a.Verb), APIGroup: clone(a.APIGroup), Resource: clone(a.Resource), Subresource: clone(a.Subresource), Namespace: clone(a.Namespace), Name: clone(a.Name),
		},
	})
}

// Advance implements Detector. A read is judged when the minute after it is over.
func (d *scopeDetector) Advance(t time.Time, _ State, found func(*Detection)) {
	end := stepOf(t) / stepsPerMinute
	slices.SortFunc(d.waiting, func(a, b doubtedRead) int {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.Node, b.Node), strings.Compare(a.AuditID, b.AuditID))
	})
	for _, m := range slices.Sorted(maps.Keys(d.open)) {
		if m < end {
			d.judge(m, found)
			d.see(m)
			delete(d.open, m)
		}
	}
	d.judge(end, found)
}

// judge judges the reads for which what comes from the minute on makes no difference.
func (d *scopeDetector) judge(minute int64, found func(*Detection)) {
	d.waiting = slices.DeleteFunc(d.waiting, func(r doubtedRead) bool {
		m := minuteAt(r.At)
		if m+1 >= minute {
			return false
		}
		if !d.seen(m-witnessFor, m+1) {
			found(r.detection())
		}
		return true
	})
}

// see notes a minute in which a clock was wrong.
func (d *scopeDetector) see(m int64) {
	if m > d.last {
		d.witness <<= min(uint64(m-d.last), 64)
		d.last = m
	}
	if back := d.last - m; back < 64 {
		d.witness |= 1 << back
	}
}

// seen reports whether a clock was wrong in one of the minutes.
func (d *scopeDetector) seen(from, to int64) bool {
	for m := from; m <= to; m++ {
		if back := d.last - m; back >= 0 && back < 64 && d.witness>>back&1 == 1 {
			return true
		}
	}
	return false
}

func (r *doubtedRead) detection() *Detection {
	o := &r.Object
	d := &Detection{
		Finding: Finding{Rule: "out-of-scope-secret-read", Reason: ReadSucceeded, Severity: Critical, Subject: r.Node, Allowed: true},
		Time:    r.At, First: r.At, Last: r.At, Count: 1, AuditIDs: idsOf(r.AuditID), Product: r.Product,
		Verb: o.Verb, APIGroup: o.APIGroup, Resource: o.Resource, Subresource: o.Subresource, Namespace: o.Namespace, Name: o.Name,
	}
	if r.Address != "" {
		d.Params = codes.Params{codes.Text(ParamAddress, r.Address)}
	}
	return d
}

// doubted is what is stored.
type doubted struct {
	Waiting []doubtedRead `json:"w"`
	Witness uint64        `json:"m"`
	Last    int64         `json:"l"`
}

// Changes implements Detector.
func (d *scopeDetector) Changes() []Remembered {
	if is := len(d.waiting) > 0 || d.witness != 0; is || d.stored {
		d.stored = is
		return remember(nil, rememberedDoubted, "", &doubted{d.waiting, d.witness, d.last})
	}
	return nil
}

// Restore implements Detector.
func (d *scopeDetector) Restore(r *Remembered) (own bool, err error) {
	if r.Kind != rememberedDoubted {
		return false, nil
	}
	var all doubted
	if err := json.Unmarshal(r.Value, &all); err != nil {
		return true, err
	}
	if len(d.waiting) == 0 && d.witness == 0 {
		d.waiting, d.witness, d.last = all.Waiting[:min(len(all.Waiting), maxDoubted)], all.Witness, all.Last
		d.stored = true
	}
	return true, nil
}
