package nodeauthz

import "strings"

// gens is a set of generations of the reference's updatePod (graph_populator.go), which differ in what makes it look at a pod again. A graph holds
// the edges of all of them, so that one graph answers for any version. Nearly all edges are the same in all.
type gens uint8

const (
	genClaims    gens = 1 << iota // until 1.32: changed claim statuses
	genEphemeral                  // 1.33 to 1.36: more ephemeral containers too
	genExtended                   // since 1.37: a changed status of the extended claim too

	allGens = genClaims | genEphemeral | genExtended
)

// gensOf is the generation of a minor.
func gensOf(minor int) gens {
	switch {
	case minor < 33:
		return genClaims
	case minor < 37:
		return genEphemeral
	}
	return genExtended
}

// lookAgain says which generations look at a pod again whose claims were one and are another, with more ephemeral containers or not.
func (g *Graph) lookAgain(was, is uint32, more bool) gens {
	switch {
	case g.claims[was].statuses != g.claims[is].statuses:
		return allGens
	case was != is && !more:
		return genExtended
	case more:
		return genEphemeral | genExtended
	}
	return 0
}

// claimState is what a pod's status says of resource claims.
type claimState struct{ statuses, extended string }

func (g *Graph) claimState(p *Pod) uint32 {
	s := claimState{p.ClaimStatuses, p.ExtendedClaimStatus}
	id, ok := g.claimSigs[s]
	if !ok {
		id = uint32(len(g.claims))
		s = claimState{strings.Clone(s.statuses), strings.Clone(s.extended)}
		g.claims = append(g.claims, s)
		g.claimSigs[s] = id
	}
	return id
}
