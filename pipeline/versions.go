package pipeline

import (
	"encoding/json"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/version"
)

// Versions says by which Kubernetes version and feature gates requests are judged: by those that the log tells, at each request's own time, or by
// those that are given, which the log is held against. Most requests are asked of one authorizer; of several where the log tells versions apart, and
// while API servers of two versions write it. Not safe for concurrent use.
type Versions struct {
	told    *version.Accumulator
	graph   *nodeauthz.Graph
	skew    time.Duration
	auths   []*nodeauthz.Authorizer // by hypothesis; nil until it is asked
	settled bool
	given   bool
	latest  int    // in force at the request that was judged last
	release string // of the API servers then
	use     func(a *nodeauthz.Authorizer, release string)

	// Of the request in hand; implied is the API server's verdict, NotNode before that counts.
	attrs   authorizer.Attributes
	at, to  time.Time // to is the latest that it can have been authorized
	implied nodeauthz.Verdict
	asked   func(hypothesis int) nodeauthz.Answer
}

// NewVersions returns one over a graph. gates are what is known of feature gates, nil for nothing. use is called with the authorizer that is in force
// and with the release of the API servers (see [version.Force]), when one of them changes; nil for nothing.
func NewVersions(graph *nodeauthz.Graph, skew time.Duration, gates map[string]bool, use func(a *nodeauthz.Authorizer, release string)) *Versions {
	v := &Versions{told: version.NewAccumulator(version.HypothesesWith(gates)), graph: graph, skew: skew, latest: -1, use: use}
	v.asked = func(i int) nodeauthz.Answer { return v.eased(i, v.auth(i).Decide(v.attrs, v.at)) }
	return v
}

// Given has requests judged by features whatever the log tells, which is held against them. beyond is the minor that was given where nodeauthz does
// not know it and f is the nearest, else 0.
func (v *Versions) Given(f nodeauthz.Features, beyond int) {
	v.told.Given(f, beyond)
	v.settled, v.given = true, true
}

// Asked says which minor the API server reported when asked. Requests need not wait for the log to tell one.
func (v *Versions) Asked(minor int) {
	v.told.Asked(minor)
	v.settled = true
}

// Conclusions are what each hour of the log told.
func (v *Versions) Conclusions() []version.Conclusion { return v.told.Conclusions() }

// Features are those in force at a time, as far as the log shows.
func (v *Versions) Features(t time.Time) nodeauthz.Features {
	return v.told.List()[v.told.InForce(t).Members[0]]
}

// At returns the authorizer in force at a time.
func (v *Versions) At(t time.Time) *nodeauthz.Authorizer { return v.auth(v.told.InForce(t).Members[0]) }

func (v *Versions) auth(i int) *nodeauthz.Authorizer {
	if i >= len(v.auths) {
		v.auths = append(v.auths, make([]*nodeauthz.Authorizer, len(v.told.List())-len(v.auths))...)
	}
	a := v.auths[i]
	if a == nil {
		a = nodeauthz.NewAuthorizer(v.graph, v.told.List()[i], v.skew)
		v.auths[i] = a
	}
	return a
}

// eased makes an answer a race that contradicts the API server's if the request may have waited in a queue until the state gave the API server's answer, or
// if an API server of that version gives it once it has started anew. The log does not show when API servers start.
func (v *Versions) eased(i int, ans nodeauthz.Answer) nodeauthz.Answer {
	decided := func(x nodeauthz.Verdict) bool { return x == nodeauthz.Allow || x == nodeauthz.Deny }
	if ans.Race || ans.Static || ans.Verdict == v.implied || !decided(ans.Verdict) || !decided(v.implied) {
		return ans
	}
	ans.Race = v.to.After(v.at) && v.auth(i).Others(v.attrs, v.at, v.to) || v.auth(i).Anew().Decide(v.attrs, v.at).Verdict == v.implied
	return ans
}

// see takes in the user agent of an event.
func (v *Versions) see(ev *audit.Event) {
	if ev.Stage != audit.StageRequestReceived && ev.Stage != audit.StageResponseStarted {
		v.told.Agent(ev.RequestReceived, ev.UserAgent, ev.User.Username)
		if (ev.Verb == "get" || ev.Verb == "create") && audit.KeepsServer(ev) { // it looks for its identity
			v.told.Started(ev.RequestReceived)
		}
	}
}

// sole is the authorizer that has answered the latest request, if a node's request of that time would be asked of it alone; else nil.
func (v *Versions) sole(at time.Time) *nodeauthz.Authorizer {
	if f, ok := v.told.Stands(at); !ok || v.latest < 0 || f.N != 1 || f.Members[0] != v.latest || f.Release != v.release {
		return nil
	}
	return v.auth(v.latest)
}

// decide answers a node's request by what is in force.
func (v *Versions) decide(out *Judgement) {
	v.attrs, v.at, v.to, v.implied = out.Attrs, out.Time, out.Time, nodeauthz.NotNode
	force := v.told.InForce(v.at)
	v.answer(out, force, nil)
}

// observe holds the answer to a node's request against the API server's, and answers again where that puts another version in force or tells which of
// two the API server has.
func (v *Versions) observe(out *Judgement, plain bool) {
	v.attrs, v.at, v.to, v.implied = out.Attrs, out.Time, authorizedBy(out), out.Observed.NodeVerdict
	r := compared(out, plain)
	before := v.told.InForce(v.at)
	out.Answer = v.eased(before.Members[0], out.Answer)
	first := out.Answer
	v.told.Observe(&r, func(i int) nodeauthz.Answer {
		if i == before.Members[0] && before.N == 1 {
			return first
		}
		return v.asked(i)
	})
	now := v.told.InForce(v.at)
	if now != before || now.N > 1 {
		v.answer(out, now, &r)
	}
	if ans := &out.Answer; now.N > 1 || ans.Race || ans.Static || ans.Verdict == nodeauthz.Unknown || r.Fits(*ans) || byRBAC(out) {
		return
	}
	if i, doubt := v.told.Doubts(&r, v.asked); doubt {
		list := v.told.List()
		out.Answer.Race, out.between = true, [2]string{version.Name(list[i]), version.Name(list[now.Members[0]])}
	}
}

// expect finds out what observe would do with an answer that is the API server's. It may be called concurrently, while nothing is observed.
func (v *Versions) expect(out *Judgement, plain bool) version.Expected {
	r := compared(out, plain)
	if !r.Fits(out.Answer) {
		return version.Expected{}
	}
	return v.told.Expect(&r)
}

// compared is the request as the answer to it is held against the API server's. plain says that the API server's reasons are those of Node and RBAC.
func compared(out *Judgement, plain bool) version.Request {
	a := out.Attrs
	r := version.Request{
		AuditID: out.Event.AuditID, Time: out.Time, Implied: out.Observed.NodeVerdict,
		Shape: version.Shape{Verb: a.Verb, APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource},
	}
	if out.Observed.Decision == "forbid" && plain {
		r.Forbidden, r.Reason = true, out.Observed.Reason
	}
	return r
}

// byRBAC reports whether RBAC let through what the API server's Node authorizer did not. Which version that was of does not matter then: the request
// needs the binding.
func byRBAC(out *Judgement) bool {
	return out.Observed.Authorizer == rules.ByRBAC && out.Observed.NodeVerdict == nodeauthz.Deny
}

// answer is by what is in force; r is what the API server said, nil if that is not to count.
func (v *Versions) answer(out *Judgement, force version.Force, r *version.Request) {
	i := force.Members[0]
	out.Answer, out.between = v.asked(i), [2]string{}
	if force.N > 1 {
		j := force.Members[1]
		first, second := out.Answer, v.asked(j)
		right := r != nil && r.Fits(second) && !r.Fits(first)
		if right && !force.Beyond {
			i, out.Answer = j, second
		}
		if first.Verdict != second.Verdict {
			out.between = [2]string{v.told.List()[force.Members[1]].Version(), v.told.List()[force.Members[0]].Version()}
			if out.Answer.Race = out.Answer.Race || r == nil || !byRBAC(out); force.Beyond {
				out.Answer = nodeauthz.Answer{Verdict: nodeauthz.Unknown, Reason: first.Reason}
			}
		}
	}
	out.node = v.auth(i)
	if i = force.Members[0]; i != v.latest || force.Release != v.release {
		v.latest, v.release = i, force.Release
		if v.use != nil {
			v.use(v.auth(i), v.release)
		}
	}
}

// again has what was observed so far observed once more, by what it showed.
func (v *Versions) again() {
	v.told.Again()
	v.settled = true
}

// Changed returns the hours of the log that changed since it was called last, to be stored. What programs of the control plane claim is taken in as events come
// in, and may be counted once more when their batch comes again; what requests show is not, as long as the engine knows them again.
func (v *Versions) Changed() []version.Saved { return v.told.Changed() }

// Unsaved has Changed return an hour again, which could not be stored.
func (v *Versions) Unsaved(hour int64) { v.told.Unsaved(hour) }

// RestoreHour puts an hour back that Changed returned; it is false where that cannot be, see [version.Accumulator.Restore]. What requests showed is there
// then, and none of them comes again: nothing waits to be seen before the first judgement.
func (v *Versions) RestoreHour(hour int64, value []byte) bool {
	is := v.told.Restore(hour, value)
	v.settled = v.settled || is && v.told.Observed()
	return is
}

// Forget forgets the hours before a time, and returns what they told.
func (v *Versions) Forget(before time.Time) []version.Conclusion { return v.told.Forget(before) }

// savedVersions is what is stored of what the log showed.
type savedVersions struct {
	Minor, Emulated int
	Gates           map[string]bool
}

// Save returns what was in force at the latest judgement, to be stored; nil for a version that was given.
func (v *Versions) Save() []byte {
	if v.given || !v.settled || v.latest < 0 {
		return nil
	}
	f := v.told.List()[v.latest]
	b, err := json.Marshal(&savedVersions{Minor: f.Minor, Emulated: f.Emulated, Gates: f.NonDefault()})
	if err != nil {
		return nil
	}
	return b
}

// Restore puts back what Save returned, to be in force until the log tells more. What cannot be read, or is not known any more, changes nothing.
func (v *Versions) Restore(saved []byte) {
	var s savedVersions
	if v.given || json.Unmarshal(saved, &s) != nil {
		return
	}
	for i, f := range v.told.List() {
		if f.Minor == s.Minor && f.Emulated == s.Emulated && slices.Equal(sorted(f.NonDefault()), sorted(s.Gates)) {
			v.told.Prior(i)
			v.settled = true
		}
	}
}

func sorted(gates map[string]bool) (out []string) {
	for name, on := range gates {
		if !on {
			name = "-" + name
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
