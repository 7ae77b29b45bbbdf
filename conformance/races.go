package conformance

import (
	"fmt"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// races asks half of the requests again with a skew: the answer is that of the instant, and it is a race if and only if somewhere
// within the skew the answer is another one. Nothing changes between two steps, so the steps' instants are enough to look at.
func (r *runner) races(o Options) *Failure {
	const skew = 5 * tick / 2
	blurred := nodeauthz.NewAuthorizer(r.w.graph, o.Features, skew)
	for i := range r.asked {
		if i%4 > 1 { // of the rest half are for a step's instant, half for one between steps
			continue
		}
		q := &r.asked[i]
		race := false
		for at := q.at.Add(-skew); !at.After(q.at.Add(skew)); at = nextStep(at) {
			if at.Before(epoch()) {
				continue // nothing was there yet
			}
			ans := r.w.ours.Decide(q.attrs, at)
			race = race || (ans.Verdict == nodeauthz.Allow) != q.ours.allowed
		}
		race = race || q.ours.allowed && q.at.Add(-skew).Before(epoch()) && r.w.dependsOnGraph(q)
		got := blurred.Decide(q.attrs, q.at)
		r.count.Later++
		want := outcome{q.ours.allowed, q.ours.reason}
		if (outcome{got.Verdict == nodeauthz.Allow, got.Reason}) != want || got.Race != race {
			return &Failure{Step: q.step, Phase: phaseRaces, Request: *q.request, Theirs: fmt.Sprintf("%s, race %t", words(want), race), Ours: fmt.Sprintf("%+v", got)}
		}
	}
	return nil
}

// nextStep is the instant of the first step after t.
func nextStep(t time.Time) time.Time {
	return epoch().Add(t.Sub(epoch()).Truncate(tick) + tick)
}

// dependsOnGraph says whether a request was allowed for a path in the graph.
func (w *World) dependsOnGraph(q *asked) bool {
	return w.ours.Decide(q.attrs, epoch().Add(-time.Hour)).Verdict == nodeauthz.Unknown
}

// explained sees that now and then an explanation fits its answer.
func (r *runner) explained() *Failure {
	for i := 0; i < len(r.asked); i += 8 {
		q := &r.asked[i]
		ex := r.w.ours.Explain(q.attrs, q.at)
		r.count.Later++
		if problem := explanationProblem(&ex, q); problem != "" {
			return &Failure{Step: q.step, Phase: phaseExplain, Request: *q.request, Theirs: words(q.ours), Ours: problem}
		}
	}
	return nil
}

func explanationProblem(ex *nodeauthz.Explanation, q *asked) string {
	got, ok := asOutcome(ex.Answer)
	switch {
	case !ok || got != q.ours:
		return fmt.Sprintf("answers %+v", ex.Answer)
	case ex.Object == nil:
		if ex.Path != nil || len(ex.Leads) > 0 {
			return "has a path without an object"
		}
		return ""
	case ex.Path == nil:
		if q.ours.allowed {
			return "allows without a path"
		}
		return ""
	case !q.ours.allowed:
		return "denies with the path " + ex.Path.String()
	}
	p := ex.Path
	node, _ := nodeauthz.NodeIdentity(q.attrs.GetUser())
	switch last := p.Steps[len(p.Steps)-1]; {
	case p.Steps[0] != *ex.Object || last.Kind != nodeauthz.KindNone || last.Name != node || len(p.Steps) < 2:
		return "the path " + p.String() + " does not lead from the object to the node"
	case !p.From.IsZero() && p.From.After(q.at) || !p.To.IsZero() && !p.To.After(q.at):
		return fmt.Sprintf("the path %s was there from %s to %s, not at %s", p, p.From, p.To, q.at)
	}
	return ""
}
