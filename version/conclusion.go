package version

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Basis is what a conclusion rests on.
type Basis uint8

const (
	// Nothing means that no request told anything: the first hypothesis is assumed.
	Nothing Basis = iota
	// Decisions means that decisions and reasons leave no other minor.
	Decisions
	// UserAgent means that decisions and reasons leave several minors, and a program of the control plane says which.
	UserAgent
	// Preference means that decisions and reasons leave several, and nothing else tells: the first is assumed.
	Preference
	// Contradicted means that every hypothesis contradicts the apiserver: the one that does the least is taken.
	Contradicted
)

// Conclusion is what an hour of a log says.
type Conclusion struct {
	Hour  time.Time
	Basis Basis
	// Features are those that fit; of several the first by preference.
	Features nodeauthz.Features
	// Fits are all that fit as well, those above included.
	Fits []nodeauthz.Features
	// Requests is how many requests told what the Node authorizer said, Asked how many of them were held against all hypotheses.
	Requests, Asked int64
	// Agent and AgentRequests are who said which version it is, where Basis is UserAgent, and how often.
	Agent         Agent
	AgentRequests int64
	// Against is how many requests contradict the features, Examples some of their audit IDs.
	Against  int64
	Examples []string
}

// Conclusions returns what each hour says, in their order.
func (a *Accumulator) Conclusions() []Conclusion {
	var out []Conclusion
	for _, k := range slices.Sorted(maps.Keys(a.hours)) {
		out = append(out, a.hours[k].conclude(time.Unix(k, 0).UTC(), a.list))
	}
	return out
}

func (h *hour) conclude(at time.Time, list []nodeauthz.Features) Conclusion {
	c := Conclusion{Hour: at, Requests: h.requests, Asked: h.asked}
	least := slices.Min(h.against)
	var fits []int
	for i, n := range h.against {
		if n == least {
			fits = append(fits, i)
			c.Fits = append(c.Fits, list[i])
		}
	}
	chosen := fits[0]
	switch {
	case least > 0:
		c.Basis = Contradicted
	case oneMinor(c.Fits):
		c.Basis = Decisions
	default:
		c.Basis = Preference
		if h.asked == 0 {
			c.Basis = Nothing
		}
		if i, agent, ok := h.byAgent(fits, list); ok {
			chosen, c.Basis, c.Agent, c.AgentRequests = i, UserAgent, agent, h.agents[agent]
		}
	}
	c.Features, c.Against, c.Examples = list[chosen], h.against[chosen], h.first[chosen]
	return c
}

func oneMinor(fits []nodeauthz.Features) bool {
	return !slices.ContainsFunc(fits, func(f nodeauthz.Features) bool { return f.Minor != fits[0].Minor })
}

// byAgent picks the first that fits of the minor that the control plane's programs claim: the apiserver's word before the others', the more frequent
// before the rarer.
func (h *hour) byAgent(fits []int, list []nodeauthz.Features) (chosen int, agent Agent, ok bool) {
	said := slices.SortedFunc(maps.Keys(h.agents), func(a, b Agent) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(h.agents[b], h.agents[a]), cmp.Compare(a.Version, b.Version))
	})
	for _, agent := range said {
		f, exact, err := nodeauthz.Nearest(agent.Version)
		if err != nil || !exact {
			continue
		}
		for _, i := range fits {
			if list[i].Minor == f.Minor {
				return i, agent, true
			}
		}
	}
	return 0, Agent{}, false
}
