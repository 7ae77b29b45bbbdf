package version

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Hypotheses returns the ways in which an API server may be configured: each minor with its defaults, the newest first; each of them with one gate
// set otherwise; and each that emulates an older minor, with its defaults there, and with one gate set otherwise. The order is that of preference. Of
// those that cannot be distinguished the first is there.
func Hypotheses() []nodeauthz.Features { return HypothesesWith(nil) }

// HypothesesWith are those that have the gates given; those that cannot have them so are left out, unless none can.
func HypothesesWith(gates map[string]bool) []nodeauthz.Features {
	var plain, flipped, emulating, flippedEmulating []nodeauthz.Features
	for minor := nodeauthz.NewestMinor; minor >= nodeauthz.OldestMinor; minor-- {
		f, err := nodeauthz.FeaturesFor(versionOf(minor))
		if err != nil {
			continue // no supported minor is refused
		}
		plain = append(plain, f)
		flipped = append(flipped, flips(f)...)
		for old := minor - 1; old >= nodeauthz.OldestMinor; old-- {
			if e, err := f.Emulating(versionOf(old)); err == nil {
				emulating = append(emulating, e)
				flippedEmulating = append(flippedEmulating, flips(e)...)
			}
		}
	}
	all := slices.Concat(plain, flipped, emulating, flippedEmulating)
	if with := slices.DeleteFunc(slices.Clone(all), func(f nodeauthz.Features) bool { return !setGates(&f, gates) }); len(with) > 0 {
		all = with
	}
	for i := range all {
		setGates(&all[i], gates)
	}
	// On an emulated version nothing depends but the gates.
	known := map[nodeauthz.Features]bool{}
	return slices.DeleteFunc(all, func(f nodeauthz.Features) bool {
		f.Emulated = 0
		again := known[f]
		known[f] = true
		return again
	})
}

// setGates sets those of the gates that bear on node authorization, as far as an API server starts so.
func setGates(f *nodeauthz.Features, gates map[string]bool) bool {
	g := *f
	for name, on := range gates {
		if slices.Contains(nodeauthz.GateNames(), name) && g.Set(name, on) != nil {
			return false
		}
	}
	if g.Validate() != nil {
		return false
	}
	*f = g
	return true
}

func versionOf(minor int) string { return fmt.Sprintf("1.%d", minor) }

// flips are the features with one gate set otherwise, as far as an API server starts so.
func flips(f nodeauthz.Features) (out []nodeauthz.Features) {
	for _, name := range nodeauthz.GateNames() {
		for _, value := range []bool{false, true} {
			g := f
			if g.Set(name, value) == nil && g != f && g.Validate() == nil {
				out = append(out, g)
			}
		}
	}
	return out
}

// Name says a hypothesis in the words of the API server's flags, such as "1.33 AuthorizeNodeWithSelectors=false".
func Name(f nodeauthz.Features) string {
	s := f.Version()
	gates := f.NonDefault()
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		s += fmt.Sprintf(" %s=%t", name, gates[name])
	}
	return s
}
