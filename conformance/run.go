package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Count is what a run did.
type Count struct {
	Histories, Steps, Requests int
	// Later is how often a request was asked again for its instant, once the history had advanced.
	Later int
	// Known counts the disagreements that are bugs of the reference, by bug.
	Known map[Bug]int
}

// Add adds another run's figures.
func (c *Count) Add(o Count) {
	c.Histories += o.Histories
	c.Steps += o.Steps
	c.Requests += o.Requests
	c.Later += o.Later
	if c.Known == nil {
		c.Known = map[Bug]int{}
	}
	for k, n := range o.Known {
		c.Known[k] += n
	}
}

// Failure is a disagreement.
type Failure struct {
	// Step is the index of the step after which the request was asked for, and Phase how.
	Step         int
	Any          bool // see Options
	Phase        string
	Request      Request
	Theirs, Ours string
}

// Error says what differed.
func (f *Failure) Error() string {
	return fmt.Sprintf("after step %d, %s: %s\nreference: %s\nnodeauthz: %s", f.Step, f.Phase, f.Request.String(), f.Theirs, f.Ours)
}

// asked is a request and the answers of its instant.
type asked struct {
	step         int
	at           time.Time
	request      *Request
	attrs        *authorizer.AttributesRecord
	theirs, ours outcome
}

// runner plays one history.
type runner struct {
	w     *World
	count Count
	asked []asked
}

// Options say what a run checks besides the answers of now.
type Options struct {
	Features nodeauthz.Features
	// Shuffle gives the same observations to a second graph in another order, which must then answer the same: those of one object
	// keep their order, unless Any.
	Shuffle *rand.Rand
	Any     bool
	// Twice gives the same observations to a second graph twice over, as two overlapping journals do.
	Twice bool
	// Prune forgets what ended before a step and asks again. Negative: not.
	Prune int
}

// Run plays a history with its own requests, each after each step.
func Run(h *History, o Options) (Count, *Failure) {
	r := &runner{w: NewWorld(o.Features)}
	for i := range h.Steps {
		r.w.Apply(&h.Steps[i])
		r.count.Steps++
		for k := range h.Requests {
			if f := r.ask(i, &h.Requests[k]); f != nil {
				return r.count, f
			}
		}
	}
	return r.count, r.finish(o)
}

// RunSeed makes a history from the source and plays it, with random requests after each step.
func RunSeed(src rand.Source, o Options, steps, perStep int) (h *History, c Count, f *Failure) {
	g := newGenerator(src)
	h = generate(g, steps)
	r := &runner{w: NewWorld(o.Features)}
	for i := range h.Steps {
		r.w.Apply(&h.Steps[i])
		r.count.Steps++
		n := perStep
		if i < g.gathered {
			n = (i / 10) % 2
		}
		for range n {
			q := g.request()
			if f := r.ask(i, &q); f != nil {
				return h, r.count, f
			}
		}
	}
	if !g.lawful {
		o.Any, o.Twice = false, false
	}
	if o.Prune == 0 {
		o.Prune = len(h.Steps) / 2
	}
	return h, r.count, r.finish(o)
}

func (r *runner) ask(step int, q *Request) *Failure {
	a := q.Attributes()
	// Half of the questions are for the instant of the step itself.
	at := r.w.now
	if len(r.asked)%2 == 0 {
		at = at.Add(tick / 2)
	}
	theirs := r.w.up.ask(a)
	ans := r.w.ours.Decide(a, at)
	ours, ok := asOutcome(ans)
	r.count.Requests++
	if !ok {
		return &Failure{Step: step, Phase: phaseNow, Request: *q, Theirs: words(theirs), Ours: fmt.Sprintf("%+v", ans)}
	}
	if theirs != ours {
		bug := r.w.explain(a, theirs, ours)
		if bug == BugNone {
			return &Failure{Step: step, Phase: phaseNow, Request: *q, Theirs: words(theirs), Ours: words(ours)}
		}
		if r.count.Known == nil {
			r.count.Known = map[Bug]int{}
		}
		r.count.Known[bug]++
	}
	r.asked = append(r.asked, asked{step, at, q, a, theirs, ours})
	return nil
}

func words(o outcome) string {
	if o.allowed {
		return fmt.Sprintf("allow %q", o.reason)
	}
	return fmt.Sprintf("no opinion %q", o.reason)
}

// finish asks everything again, now that the history has advanced.
func (r *runner) finish(o Options) *Failure {
	r.count.Histories++
	if f := r.again(phaseLater, r.w.ours); f != nil {
		return f
	}
	if f := r.races(o); f != nil {
		return f
	}
	if f := r.explained(); f != nil {
		return f
	}
	if o.Shuffle != nil {
		if f := r.retold(phaseShuffled, shuffle(r.w.sightings, o.Shuffle, o.Any), o); f != nil {
			f.Any = o.Any
			return f
		}
	}
	if o.Twice {
		if f := r.retold(phaseTwice, slices.Concat(r.w.sightings, r.w.sightings), o); f != nil {
			return f
		}
	}
	if o.Prune > 0 {
		return r.pruned(epoch().Add(time.Duration(o.Prune) * tick))
	}
	return nil
}

// The phases of a comparison.
const (
	phaseNow      = "now"
	phaseLater    = "later"
	phaseShuffled = "in another order"
	phaseTwice    = "given twice"
	phaseRaces    = "with a skew"
	phaseExplain  = "explained"
	phasePruned   = "after a prune"
)

// retold asks everything of a graph that was given the same in another way.
func (r *runner) retold(phase string, list []sighting, o Options) *Failure {
	g := nodeauthz.NewGraph()
	g.CoverFrom(epoch())
	for _, s := range list {
		s.tell(g, s.at)
	}
	return r.again(phase, nodeauthz.NewAuthorizer(g, o.Features, 0))
}

// shuffle mixes the observations, those of one object staying in order unless anyOrder.
func shuffle(list []sighting, r *rand.Rand, anyOrder bool) []sighting {
	out := slices.Clone(list)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	if anyOrder {
		return out
	}
	of := map[string][]sighting{}
	for _, s := range list {
		of[s.object] = append(of[s.object], s)
	}
	for i := range out {
		next := of[out[i].object]
		of[out[i].object], out[i] = next[1:], next[0]
	}
	return out
}

func (r *runner) again(phase string, a *nodeauthz.Authorizer) *Failure {
	for i := range r.asked {
		q := &r.asked[i]
		ans := a.Decide(q.attrs, q.at)
		r.count.Later++
		if got, ok := asOutcome(ans); !ok || got != q.ours {
			return &Failure{Step: q.step, Phase: phase, Request: *q.request, Theirs: words(q.ours), Ours: fmt.Sprintf("%+v", ans)}
		}
	}
	return nil
}

// pruned forgets what had ended by then: later answers stay, earlier ones may become unknown but not wrong.
func (r *runner) pruned(before time.Time) *Failure {
	r.w.graph.Prune(before)
	for i := range r.asked {
		q := &r.asked[i]
		ans := r.w.ours.Decide(q.attrs, q.at)
		r.count.Later++
		got, ok := asOutcome(ans)
		if ok && got == q.ours {
			continue
		}
		if q.at.Before(before) && ans.Verdict == nodeauthz.Unknown && !ans.Race {
			continue
		}
		return &Failure{Step: q.step, Phase: phasePruned, Request: *q.request, Theirs: words(q.ours), Ours: fmt.Sprintf("%+v", ans)}
	}
	return nil
}
