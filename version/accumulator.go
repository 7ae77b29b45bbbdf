package version

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Request is an annotated request of a node.
type Request struct {
	AuditID string
	Time    time.Time
	// Shape is the verb and the resource: of each shape some are asked of all hypotheses although they fit.
	Shape string
	// Implied is what the annotations say the Node authorizer said: Allow, Deny, or NotNode where they imply nothing.
	Implied nodeauthz.Verdict
	// Forbidden is true where nobody allowed the request; then Reason holds the reasons of all authorizers, a line each.
	Forbidden bool
	Reason    string
}

// Bounds of what is kept and done for an hour.
const (
	sampled  = 3   // requests of a shape and an outcome that are asked of all hypotheses although they fit
	shapes   = 256 // shapes and outcomes of an hour
	examples = 5   // requests of an hour that are kept by name
	hours    = 24 * 32
	agents   = 64
)

// Accumulator holds hypotheses against requests, by hour. It is not safe for concurrent use. Its memory is bounded: beyond a month of hours nothing
// is taken in.
type Accumulator struct {
	list  []nodeauthz.Features
	best  int // in force: what requests are first held against
	hours map[int64]*hour
}

type hour struct {
	requests int64
	sample   map[shape]int
	against  []int64 // by hypothesis; of requests that were asked of all
	first    [][]string
	asked    int64
	agents   map[Agent]int64
}

type shape struct {
	name      string
	implied   nodeauthz.Verdict
	forbidden bool
}

// NewAccumulator returns an empty one over hypotheses in the order of preference, such as those of [Hypotheses].
func NewAccumulator(hypotheses []nodeauthz.Features) *Accumulator {
	return &Accumulator{list: hypotheses, hours: map[int64]*hour{}}
}

// InForce returns the hypothesis that fits best so far.
func (a *Accumulator) InForce() nodeauthz.Features { return a.list[a.best] }

func (a *Accumulator) hour(t time.Time) *hour {
	k := t.Truncate(time.Hour).Unix()
	h := a.hours[k]
	if h == nil && len(a.hours) < hours {
		h = &hour{sample: map[shape]int{}, against: make([]int64, len(a.list)), first: make([][]string, len(a.list)), agents: map[Agent]int64{}}
		a.hours[k] = h
	}
	return h
}

// Agent takes in the user agent of any request. user is the name of who made it.
func (a *Accumulator) Agent(t time.Time, userAgent, user string) {
	agent, _, ok := agentOf(userAgent, user)
	if !ok {
		return
	}
	h := a.hour(t)
	if h == nil {
		return
	}
	if _, known := h.agents[agent]; known || len(h.agents) < agents {
		h.agents[agent]++
	}
}

// Observe takes in a request. answer says what the Node authorizer says of it under a hypothesis, by its place in the list; it is called once for a
// request that fits what is in force, and for all hypotheses where one does not.
func (a *Accumulator) Observe(r *Request, answer func(hypothesis int) nodeauthz.Answer) {
	if r.Implied != nodeauthz.Allow && r.Implied != nodeauthz.Deny {
		return
	}
	h := a.hour(r.Time)
	if h == nil {
		return
	}
	h.requests++
	if !contradicts(answer(a.best), r) {
		if !h.take(r) {
			return
		}
	}
	h.asked++
	for i := range a.list {
		if !contradicts(answer(i), r) {
			continue
		}
		h.against[i]++
		if len(h.first[i]) < examples {
			h.first[i] = append(h.first[i], strings.Clone(r.AuditID))
		}
	}
	for i, n := range h.against {
		if n < h.against[a.best] {
			a.best = i
		}
	}
}

// take reports whether a request that fits is one of the sample.
func (h *hour) take(r *Request) bool {
	s := shape{r.Shape, r.Implied, r.Forbidden}
	n, known := h.sample[s]
	if n >= sampled || !known && len(h.sample) >= shapes {
		return false
	}
	s.name = strings.Clone(s.name)
	h.sample[s] = n + 1
	return true
}

// contradicts holds an answer against the apiserver's. A race may be either, and what is unknown says nothing.
func contradicts(ans nodeauthz.Answer, r *Request) bool {
	switch {
	case ans.Race, ans.Verdict != nodeauthz.Allow && ans.Verdict != nodeauthz.Deny:
		return false
	case ans.Verdict != r.Implied:
		return true
	}
	return ans.Verdict == nodeauthz.Deny && r.Forbidden && !hasReason(r.Reason, ans.Reason)
}

// hasReason reports whether a line of the apiserver's reasons is the one given. The names of authorizers, which are configured, need not be equal, but
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
