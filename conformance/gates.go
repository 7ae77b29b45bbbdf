package conformance

import (
	"fmt"
	"maps"
	"sort"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Variant is one setting of the feature gates on which a decision depends.
type Variant struct {
	Name     string
	Gates    map[string]bool
	Features nodeauthz.Features
}

// Defaults are the features of this minor with no gate set.
func Defaults() (nodeauthz.Features, error) {
	return nodeauthz.FeaturesFor(fmt.Sprintf("1.%d", Minor()))
}

// WithGates returns the features with those gates set that the minor lets one set, and the gates that it did.
func WithGates(gates map[string]bool) (Variant, error) {
	f, err := Defaults()
	if err != nil {
		return Variant{}, err
	}
	v := Variant{Gates: map[string]bool{}}
	names := make([]string, 0, len(gates))
	for name := range gates {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if f.Set(name, gates[name]) == nil {
			v.Gates[name] = gates[name]
			v.Name += fmt.Sprintf("%s=%t,", name, gates[name])
		}
	}
	v.Features = f
	return v, f.Validate()
}

// Variants are all settings of the gates that an API server of this minor would start with, the defaults first.
func Variants() ([]Variant, error) {
	f, err := Defaults()
	if err != nil {
		return nil, err
	}
	out := []Variant{{Name: "defaults", Features: f}}
	var free []string
	for _, name := range nodeauthz.GateNames() {
		on, off := f, f
		if on.Set(name, true) == nil && off.Set(name, false) == nil {
			free = append(free, name)
		}
	}
	for bits := range 1 << len(free) {
		gates := map[string]bool{}
		for i, name := range free {
			gates[name] = bits>>i&1 == 1
		}
		if v, err := WithGates(gates); err == nil && len(v.Features.NonDefault()) > 0 {
			out = append(out, v)
		}
	}
	return out, nil
}

// withDependents adds gates that no decision depends on and that the reference lets be on only next to one that is off here: whoever sets the one
// has to set the other.
func withDependents(gates map[string]bool) map[string]bool {
	const bundle, projection = "ClusterTrustBundle", "ClusterTrustBundleProjection"
	out := maps.Clone(gates)
	if on, ok := gates[bundle]; ok && !on && enabled(projection) {
		out[projection] = false
	}
	return out
}

// Use sets the reference's gates, which are global to the process, and returns what sets them back.
func (v Variant) Use() (restore func() error, err error) {
	if len(v.Gates) == 0 {
		return func() error { return nil }, nil
	}
	gates, before := withDependents(v.Gates), map[string]bool{}
	for name := range gates {
		before[name] = enabled(name)
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return nil, fmt.Errorf("setting the reference's feature gates: %w", err)
	}
	return func() error { return utilfeature.DefaultMutableFeatureGate.SetFromMap(before) }, nil
}
