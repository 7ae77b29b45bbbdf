package version

import (
	"math/bits"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Request is a request of a node.
type Request struct {
	AuditID string
	Time    time.Time
	// Shape is what was asked for: of each some requests are asked of all hypotheses although they fit.
	Shape Shape
	// Implied is what the annotations say the Node authorizer said: Allow, Deny, or NotNode where they imply nothing.
	Implied nodeauthz.Verdict
	// Forbidden is true where nobody allowed the request and the reasons are those of Node and RBAC; then Reason holds them, a line each.
	Forbidden bool
	Reason    string
}

// Shape is a kind of request.
type Shape struct{ Verb, APIGroup, Resource, Subresource string }

// Bounds of what is kept and done for an hour.
const (
	sampled  = 3   // requests of a shape and an outcome that are asked of all hypotheses although they fit
	doubted  = 64  // those of a shape and an outcome that are asked because they do not fit
	shapes   = 256 // shapes and outcomes of an hour
	masks    = 64  // sets of hypotheses that a request contradicts
	examples = 5   // requests that are kept by name
	hours    = 24 * 32
	// Bytes of what an hour keeps by name.
	shapeBytes = 512
	idBytes    = 128
)

// set is a set of hypotheses.
type set [2]uint64

func (s *set) add(i int)      { s[i>>6] |= 1 << (i & 63) }
func (s *set) has(i int) bool { return s[i>>6]>>(i&63)&1 == 1 }
func (s *set) count() int     { return bits.OnesCount64(s[0]) + bits.OnesCount64(s[1]) }

// Accumulator holds hypotheses against requests, by hour, and says which are in force. It is not safe for concurrent use. Its memory is bounded:
// beyond a month of hours nothing is taken in.
type Accumulator struct {
	list   []nodeauthz.Features
	given  int // the hypothesis that a flag says, -1 for none
	beyond int // the minor that the flag says, where given is the nearest to it
	asked  int // the minor that the API server reported when asked, 0 for none
	prior  int // in force before anything was observed
	hours  map[int64]*hour
	last   *hour
	print  string // see fingerprint; "" until that is known
	// changes counts what may put another hypothesis in force.
	changes int
	force   struct {
		minute  int64
		changes int
		set     Force
	}
}

type hour struct {
	start          int64 // in hours
	fresh          uint8 // what does not have the latest of it yet: unsaved, unconcluded
	reported       int   // the minor that the API server had reported when the hour was looked at last, 0 for none
	prior          int   // what was in force when the hour began
	guessed        bool  // the prior is from a first look at the same requests
	requests, open int64
	held           int64
	sample         map[outcome]*asked
	masks          map[against]*contradiction
	agents         map[Agent]*sighting
	started        bool            // an API server
	doubts         map[int]*doubts // by the hypothesis that the requests fit
	concluded      Conclusion      // unless it is fresh; without what other hours say of it
}

// doubts are requests that fit another hypothesis than what was in force.
type doubts struct {
	requests int64
	ids      []string // of some
}

type outcome struct {
	shape     Shape
	implied   nodeauthz.Verdict
	forbidden bool
}

// asked counts requests of an outcome, those that fit up to [sampled] at least.
type asked struct{ fit, not int }

// against is whom a request contradicts. Where it is soft, an API server that had not heard of the object yet could have answered so too.
type against struct {
	set  set
	soft bool
}

// contradiction is what requests contradict the same hypotheses.
type contradiction struct {
	requests int64
	minutes  uint64 // of the hour, in which there were any
	first    []string
}

// NewAccumulator returns an empty one over hypotheses in the order of preference, such as those of [Hypotheses].
func NewAccumulator(hypotheses []nodeauthz.Features) *Accumulator {
	return &Accumulator{list: hypotheses[:min(len(hypotheses), 128)], given: -1, hours: map[int64]*hour{}}
}

// Given has these features in force whatever the log says, which is held against them. Where they are the nearest to a minor that nodeauthz does not
// know, beyond is that minor, else 0.
func (a *Accumulator) Given(f nodeauthz.Features, beyond int) {
	a.given, a.beyond, a.print = -1, beyond, ""
	for _, h := range a.hours {
		h.fresh = changed
	}
	for i := range a.list {
		if a.list[i] == f {
			a.given = i
		}
	}
	if a.given < 0 {
		if len(a.list) == 128 {
			a.list = a.list[:127]
		}
		a.given, a.list = len(a.list), append(a.list[:len(a.list):len(a.list)], f)
	}
	a.prior = a.given
	a.changes++
}

// Asked says what the API server reported when asked: it counts as its user agent would, where no request shows that.
func (a *Accumulator) Asked(minor int) {
	a.asked, a.last = minor, nil
	a.changes++
}

// Prior has a hypothesis, by its place, in force until the log tells another.
func (a *Accumulator) Prior(hypothesis int) {
	a.prior = hypothesis
	a.changes++
}

// List returns the hypotheses by their places.
func (a *Accumulator) List() []nodeauthz.Features { return a.list }

// Again forgets the requests that were observed, which will be observed again; what is in force after them stays so until then.
func (a *Accumulator) Again() {
	if len(a.hours) > 0 && a.given < 0 {
		latest := a.latest()
		a.prior = a.choose(latest, nil).Members[0]
	}
	for _, h := range a.hours {
		h.prior, h.guessed, h.requests, h.open, h.held, h.fresh = a.prior, true, 0, 0, 0, changed
		clear(h.doubts)
		clear(h.sample)
		clear(h.masks)
	}
	a.changes++
}

func (a *Accumulator) latest() (latest *hour) {
	for _, h := range a.hours {
		if latest == nil || h.start > latest.start {
			latest = h
		}
	}
	return latest
}

func hourOf(t time.Time) int64 { return minuteOf(t.Unix()) / 60 }

func (a *Accumulator) hour(t time.Time) *hour {
	k := hourOf(t)
	if a.last != nil && a.last.start == k {
		return a.last
	}
	h := a.hours[k]
	if h == nil {
		if len(a.hours) >= hours || t.Unix() < 0 {
			return nil
		}
		h = &hour{start: k, prior: a.priorOf(k), reported: a.asked, sample: map[outcome]*asked{}, masks: map[against]*contradiction{}, agents: map[Agent]*sighting{}}
		h.fresh = changed
		a.hours[k] = h
	}
	if a.asked != 0 && h.reported != a.asked { // it was asked anew after a restart
		h.reported, h.fresh = a.asked, changed
		a.changes++
	}
	a.last = h
	return h
}

// priorOf is what was in force in the latest hour before k.
func (a *Accumulator) priorOf(k int64) int {
	var before *hour
	for _, h := range a.hours {
		if h.start < k && (before == nil || h.start > before.start) {
			before = h
		}
	}
	if before == nil {
		return a.prior
	}
	return a.choose(before, nil).Members[0]
}

// Agent takes in the user agent of any request. user is the name of who made it.
func (a *Accumulator) Agent(t time.Time, userAgent, user string) {
	if !strings.HasPrefix(userAgent, "kube-") { // as nearly all
		return
	}
	agent, minor, ok := agentOf(userAgent, user)
	if !ok {
		return
	}
	h := a.hour(t)
	if h == nil {
		return
	}
	s := h.agents[agent]
	if s == nil {
		of := 0
		for other := range h.agents {
			if other.Program == agent.Program {
				of++
			}
		}
		if of >= agents {
			return
		}
		s = &sighting{minor: minor}
		agent.Program, agent.Version = strings.Clone(agent.Program), strings.Clone(agent.Version)
		h.agents[agent] = s
	}
	s.requests++
	h.fresh = changed
	if bit := uint64(1) << (minuteOf(t.Unix()) % 60); s.minutes&bit == 0 {
		s.minutes |= bit
		a.changes++
	}
}

// Started takes in that an API server started. Gates and versions do not change otherwise.
func (a *Accumulator) Started(t time.Time) {
	if h := a.hour(t); h != nil {
		h.started, h.fresh = true, changed
	}
}

// Observe takes in a request of a node. answer says what the Node authorizer says of it under a hypothesis, by its place in the list; it is called for
// what is in force, and for all hypotheses where a request does not fit that.
func (a *Accumulator) Observe(r *Request, answer func(hypothesis int) nodeauthz.Answer) {
	h := a.hour(r.Time)
	if h == nil {
		return
	}
	h.fresh = changed
	if r.Implied != nodeauthz.Allow && r.Implied != nodeauthz.Deny {
		h.open++
		return
	}
	h.requests++
	force := a.InForce(r.Time)
	fits := true
	for _, i := range force.Members[:force.N] {
		if ans := answer(i); contradicts(&ans, r) {
			fits = false
		}
	}
	if !h.take(r, fits) {
		return
	}
	h.held++
	k := against{}
	for i := range a.list {
		ans := answer(i)
		if contradicts(&ans, r) {
			k.set.add(i)
			k.soft = k.soft || r.mayLag(&ans)
		}
	}
	switch n := k.set.count(); {
	case n == 0, k.soft && n == len(a.list): // the state or the API server's lag, which is no matter of versions
		return
	}
	c := h.masks[k]
	if c == nil {
		if len(h.masks) >= masks {
			return
		}
		c = &contradiction{}
		h.masks[k] = c
	}
	a.changes++
	c.requests++
	c.minutes |= 1 << (minuteOf(r.Time.Unix()) % 60)
	if len(c.first) < examples {
		c.first = append(c.first, keptID(r.AuditID))
	}
}

// Expected is what Observe will do with a request that fits what is in force: count it.
type Expected struct {
	hour *hour
	of   *asked
}

// Expect finds out before the turn of a request, which fits what is in force, what Observe would do with it. It changes nothing, and may be called
// concurrently.
func (a *Accumulator) Expect(r *Request) Expected {
	h := a.hours[hourOf(r.Time)]
	if h == nil || r.Implied != nodeauthz.Allow && r.Implied != nodeauthz.Deny {
		return Expected{}
	}
	_, n := h.asked(r)
	return Expected{h, n}
}

// Confirm does what Observe would do, where the same is in force as when that was expected, and Again was not called. If it is false, Observe is to be called.
func (a *Accumulator) Confirm(e *Expected) bool {
	if e.of == nil || e.of.fit < sampled {
		return false
	}
	e.hour.requests++
	e.hour.fresh = changed
	return true
}

// asked returns under what the request counts, and how many of those were asked of all hypotheses; nil for none.
func (h *hour) asked(r *Request) (outcome, *asked) {
	o := outcome{r.Shape, r.Implied, r.Forbidden}
	if o.shape.tooLong() {
		o.shape = Shape{}
	}
	n := h.sample[o]
	if n == nil && len(h.sample) >= shapes { // what is asked for in ever new ways counts together
		o.shape = Shape{}
		n = h.sample[o]
	}
	return o, n
}

// take reports whether a request is asked of all hypotheses.
func (h *hour) take(r *Request, fits bool) bool {
	o, n := h.asked(r)
	if n == nil {
		n = &asked{}
		s := &o.shape
		s.Verb, s.APIGroup, s.Resource, s.Subresource = strings.Clone(s.Verb), strings.Clone(s.APIGroup), strings.Clone(s.Resource), strings.Clone(s.Subresource)
		h.sample[o] = n
	}
	if fits {
		n.fit++
		return n.fit <= sampled
	}
	n.not++
	return n.not <= doubted
}

// contradicts holds an answer against the API server's. A race may be either, but not for another reason, and what is unknown says nothing.
func contradicts(ans *nodeauthz.Answer, r *Request) bool {
	switch {
	case ans.Verdict != nodeauthz.Allow && ans.Verdict != nodeauthz.Deny:
		return false
	case ans.Verdict != r.Implied:
		return !ans.Race
	}
	return ans.Verdict == nodeauthz.Deny && r.Forbidden && !hasReason(r.Reason, ans.Reason)
}

// mayLag reports whether an answer that contradicts the API server's would do so under the right hypothesis too, while the API server's graph lags behind
// the state: it rests on the graph, and a refusal, where its reason is known, says that there was no path.
func (r *Request) mayLag(ans *nodeauthz.Answer) bool {
	if ans.Static || ans.Verdict == r.Implied {
		return false
	}
	return r.Implied == nodeauthz.Allow || !r.Forbidden || strings.Contains(r.Reason, "no relationship found between node '")
}

// Fits reports whether an answer is the API server's, a race or not.
func (r *Request) Fits(ans nodeauthz.Answer) bool {
	ans.Race = false // ans is a copy
	return ans.Verdict == r.Implied && !contradicts(&ans, r)
}

// hasReason reports whether a line of the API server's reasons is the one given. The names of authorizers, which are configured, need not be equal, but
// there must be one where the other has one. RBAC's own lines are nobody's concern here.
func hasReason(observed, reason string) bool {
	name, want := nodeauthz.CutAuthorizer(reason)
	rest := observed
	for rest != "" {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		n, got := nodeauthz.CutAuthorizer(line)
		if strings.HasPrefix(got, "RBAC:") {
			continue
		}
		return got == want && (n == "") == (name == "")
	}
	return want == ""
}
