package days

import (
	"hash/fnv"
	"math/rand/v2"
)

// Effect is what a mutation does to the answer whether the binding can go.
type Effect string

// Effects of mutations.
const (
	// Breaks: a client depends on a binding that goes, and the log shows it. No removal of other things may make the day READY.
	Breaks Effect = "breaks"
	// Hides: what proves the answer is missing.
	Hides Effect = "hides"
	// Harmless: the day stays READY.
	Harmless Effect = "harmless"
)

// Mutation changes a day. It is data: the same mutation does the same to the same day.
type Mutation struct {
	Name string
	Seed uint64
	// Description says in general what is done; Applied.What says what was done to a certain day.
	Description string
	Effect      Effect
	// Checks are the names of checks of readiness, one of which at least must not pass afterwards.
	Checks []string
	// Confined are checks of whether a credential is confined that must not pass afterwards; they say nothing of readiness.
	Confined []string
	// Needs are features without which a day has nothing to change.
	Needs Features

	apply func(m *mutator) string
}

// joining is a mutation of a day on which machines join.
func joining(m Mutation) Mutation {
	m.Needs = KubeadmJoin
	return m
}

// mutator is a day while it is changed.
type mutator struct {
	*rand.Rand
	*Day
}

// Apply makes the mutated day and leaves the given one as it is. The second result is false where the mutation does not apply to the day, such as the
// removal of one API server of one; the day is then the given one.
func (m Mutation) Apply(day *Day) (*Day, bool) {
	c := day.copyOf()
	name := fnv.New64a()              // kinds of mutations with one seed differ in their choices
	_, _ = name.Write([]byte(m.Name)) // it never fails
	what := m.apply(&mutator{newRand(m.Seed, day.Seed^name.Sum64()), c})
	if what == "" {
		return day, false
	}
	c.Applied = append(c.Applied, Applied{m, what})
	return c, true
}

// Compose applies several mutations in turn, leaving out those that do not apply.
func Compose(day *Day, mutations ...Mutation) *Day {
	for _, m := range mutations {
		day, _ = m.Apply(day)
	}
	return day
}

// Mutations are all kinds of mutations, each with the given seed.
func Mutations(seed uint64) []Mutation {
	var out []Mutation
	for _, list := range [][]Mutation{plants(), disguises(), removals(), others(), grants(), unread(), births(), holders(), overlooked(), examined(), damaged(), missed(), verbs(), unseen(), slipped(), alsoAsked(), spares(), dropped(), reviewed()} {
		for _, m := range list {
			m.Seed = seed
			out = append(out, m)
		}
	}
	return out
}

// Named is the mutation of a name, with a seed.
func Named(name string, seed uint64) (Mutation, bool) {
	for _, m := range Mutations(seed) {
		if m.Name == name {
			return m, true
		}
	}
	return Mutation{}, false
}
