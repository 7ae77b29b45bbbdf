package version

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Basis is what a conclusion rests on.
type Basis string

const (
	// Nothing means that no request showed anything: what was in force before, or the first hypothesis, is assumed.
	Nothing Basis = "nothing"
	// Decisions means that decisions and reasons leave no other minor.
	Decisions Basis = "decisions"
	// UserAgent means that decisions and reasons leave several minors, and a program of the control plane says which.
	UserAgent Basis = "user-agent"
	// Asked means that they leave several, and that the API server said which when it was asked.
	Asked Basis = "asked"
	// Preference means that decisions and reasons leave several, and nothing else tells: the first is assumed.
	Preference Basis = "preference"
	// Given means that a flag says it.
	Given Basis = "given"
	// Contradicted means that every hypothesis contradicts the API server: the one that does the least is taken.
	Contradicted Basis = "contradicted"
)

// Conclusion is what an hour of a log says.
type Conclusion struct {
	Hour  time.Time
	Basis Basis
	// Features are those that fit; of several the first by preference. Also are those of other API servers that wrote the log in the same hour, or
	// with Beyond the second nearest.
	Features nodeauthz.Features
	Also     []nodeauthz.Features
	// Beyond is the API server's minor if nodeauthz does not support it; otherwise 0. Features are then the nearest.
	Beyond int
	// Fits are all that fit as well, those above included.
	Fits []nodeauthz.Features
	// Requests is how many requests showed what the Node authorizer said, Held how many of them were held against all hypotheses, Open how many
	// requests showed nothing.
	Requests, Held, Open int64
	// Servers are the minors of the API servers that were seen.
	Servers []int
	// Agent and AgentRequests are who said which version it is, where Basis is UserAgent, and how often.
	Agent         Agent
	AgentRequests int64
	// Against is how many of the requests that were held against all hypotheses contradict the features; Examples are some of their audit IDs.
	Against  int64
	Examples []string
	// Moved says that no version and gates fit all hours since an API server started, or until one did: they cannot change in between.
	Moved bool
	// Doubts is how many requests fit only another version than those in force; Doubted are some of their audit IDs.
	Doubts  int64
	Doubted []string
}

// Conclusions returns what each hour says, in their order.
func (a *Accumulator) Conclusions() []Conclusion {
	var out []Conclusion
	for _, k := range slices.Sorted(maps.Keys(a.hours)) {
		h := a.hours[k]
		if h.fresh&unconcluded != 0 {
			h.concluded = a.conclude(h)
			h.fresh &^= unconcluded
		}
		out = append(out, h.concluded)
	}
	a.lives(out)
	return out
}

// lives finds the hours between two starts of API servers that no version and gates fit alike. A start shows by the server's own look at its Lease, or by its
// release; what is not in the log may have one.
func (a *Accumulator) lives(all []Conclusion) {
	if a.given >= 0 {
		return
	}
	for first := 0; first < len(all); {
		common, last := slices.Clone(all[first].Fits), first+1
		apart := a.apart(&all[first])
		for ; last < len(all) && a.sameLife(&all[last-1], &all[last]); last++ {
			fits := all[last].Fits
			common = slices.DeleteFunc(common, func(f nodeauthz.Features) bool { return !slices.Contains(fits, f) })
			apart = apart || a.apart(&all[last])
		}
		for i := first; i < last; i++ {
			all[i].Moved = len(common) == 0 || apart
		}
		first = last
	}
}

// apart reports whether the hour is one of two sets of gates of one minor, though no API server started in it.
func (a *Accumulator) apart(c *Conclusion) bool {
	h := a.hours[hourOf(c.Hour)]
	return len(c.Also) > 0 && c.Beyond == 0 && c.Also[0].Minor == c.Features.Minor && !h.started && len(h.releases()) < 2
}

// sameLife reports whether two hours follow each other, and no API server started in either.
func (a *Accumulator) sameLife(x, y *Conclusion) bool {
	before, after := a.hours[hourOf(x.Hour)], a.hours[hourOf(y.Hour)]
	return after.start == before.start+1 && !before.started && !after.started && slices.Equal(before.releases(), after.releases())
}

// releases are those of API servers.
func (h *hour) releases() (out []string) {
	for agent := range h.agents {
		if agent.Program == apiserver {
			out = append(out, agent.Version)
		}
	}
	slices.Sort(out)
	return out
}

func (a *Accumulator) conclude(h *hour) Conclusion {
	force := a.choose(h, nil)
	c := Conclusion{Hour: time.Unix(h.start*3600, 0).UTC(), Requests: h.requests, Held: h.held, Open: h.open, Features: a.list[force.Members[0]]}
	members := force.Members[:force.N]
	for _, i := range slices.Sorted(maps.Keys(h.doubts)) {
		if of := h.doubts[i]; !slices.Contains(members, i) { // else it came into force only later in the hour
			c.Doubts += of.requests
			c.Doubted = append(c.Doubted, of.ids[:min(len(of.ids), examples-len(c.Doubted))]...)
		}
	}
	c.Servers = a.servers(h, nil)
	switch {
	case force.Beyond && a.given >= 0:
		c.Beyond = a.beyond
	case force.Beyond:
		c.Beyond = c.Servers[0]
	}
	if force.N > 1 {
		c.Also = []nodeauthz.Features{a.list[force.Members[1]]}
	}
	fits, _ := a.fits(h, ^uint64(0), 0)
	for _, i := range fits {
		c.Fits = append(c.Fits, a.list[i])
	}
	a.against(h, members, &c)
	switch _, ok := h.agentOf(members, a.list, c.Beyond); {
	case a.given >= 0:
		c.Basis = Given
	case c.Against > 0:
		c.Basis = Contradicted
	case len(c.Also) > 0 && len(h.masks) > 0, len(c.Also) == 0 && oneMinor(c.Fits):
		c.Basis = Decisions
	case ok:
		c.Basis = UserAgent
	case h.reported == c.Features.Minor, h.reported != 0 && h.reported == c.Beyond:
		c.Basis = Asked
	case h.held == 0:
		c.Basis = Nothing
	default:
		c.Basis = Preference
	}
	if agent, ok := h.agentOf(members, a.list, c.Beyond); ok {
		c.Agent, c.AgentRequests = agent, h.agents[agent].requests
	}
	c.Examples, c.Doubted, c.Fits = slices.Clip(c.Examples), slices.Clip(c.Doubted), slices.Clip(c.Fits) // it is handed out more than once
	return c
}

// against counts the requests that contradict all members. Where a version is given only those count that another one explains, or none.
func (a *Accumulator) against(h *hour, members []int, c *Conclusion) {
	list := slices.SortedFunc(maps.Keys(h.masks), func(x, y against) int {
		return cmp.Or(cmp.Compare(h.masks[x].first[0], h.masks[y].first[0]), slices.Compare(x.set[:], y.set[:]))
	})
	for _, k := range list {
		if k.soft || slices.ContainsFunc(members, func(i int) bool { return !k.set.has(i) }) {
			continue
		}
		m := h.masks[k]
		c.Against += m.requests
		c.Examples = append(c.Examples, m.first[:min(len(m.first), examples-len(c.Examples))]...)
	}
}

func oneMinor(fits []nodeauthz.Features) bool {
	return !slices.ContainsFunc(fits, func(f nodeauthz.Features) bool { return f.Minor != fits[0].Minor })
}

// said are the agents of the hour: the API server's word before the others', the more frequent before the rarer.
func (h *hour) said() []Agent {
	return slices.SortedFunc(maps.Keys(h.agents), func(a, b Agent) int {
		return cmp.Or(cmp.Compare(b.weight(), a.weight()), cmp.Compare(h.agents[b].requests, h.agents[a].requests), cmp.Compare(a.Version, b.Version))
	})
}

// agentOf is who says that the minor of the first member, or the one beyond what is known, is the version.
func (h *hour) agentOf(members []int, list []nodeauthz.Features, beyond int) (Agent, bool) {
	minor := cmp.Or(beyond, list[members[0]].Minor)
	for _, agent := range h.said() {
		if h.agents[agent].minor == minor {
			return agent, true
		}
	}
	return Agent{}, false
}

// byAgent picks what fits of the minor that programs of the control plane claim, where no API server was seen.
func (a *Accumulator) byAgent(h *hour, fits []int) (chosen int, agent Agent, ok bool) {
	for _, agent := range h.said() {
		var list []int
		for _, i := range fits {
			if a.list[i].Minor == h.agents[agent].minor {
				list = append(list, i)
			}
		}
		if len(list) > 0 {
			return a.prefer(list, h), agent, true
		}
	}
	return 0, Agent{}, false
}
