package conformance

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// TestGates holds our table of the gates against the reference's: which there are, their defaults, which are locked.
func TestGates(t *testing.T) {
	all := utilfeature.DefaultMutableFeatureGate.GetAll()
	for _, name := range nodeauthz.GateNames() {
		spec, exists := all[featuregate.Feature(name)]
		for _, value := range []bool{false, true} {
			f, err := Defaults()
			if err != nil {
				t.Fatal(err)
			}
			err = f.Set(name, value)
			if name == "CSIVolumeHealth" && Minor() < 37 {
				if err == nil {
					t.Errorf("%s=%t is let be set, though the authorizer of 1.%d does not ask for it", name, value, Minor())
				}
				continue // TestNoOtherGate sees that it changes nothing
			}
			if settable := exists && (!spec.LockToDefault || spec.Default == value); settable != (err == nil) {
				t.Errorf("%s=%t: the reference lets it be set: %t; ours says %v", name, value, settable, err)
			}
			if exists && err == nil && (len(f.NonDefault()) == 0) != (spec.Default == value) {
				t.Errorf("%s: the reference's default is %t", name, spec.Default)
			}
		}
	}
}

// TestDependencies holds our refusals of settings that depend on each other against the reference's.
func TestDependencies(t *testing.T) {
	names := nodeauthz.GateNames()
	for bits := range 1 << len(names) {
		f, err := Defaults()
		if err != nil {
			t.Fatal(err)
		}
		gates, ok := map[string]bool{}, true
		for i, name := range names {
			value := bits>>i&1 == 1
			if _, exists := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(name)]; !exists {
				ok = ok && !value
				continue
			}
			ok = ok && f.Set(name, value) == nil
			gates[name] = value
		}
		if !ok {
			continue
		}
		gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		theirs := gate.SetFromMap(withDependents(gates))
		if ours := f.Validate(); (theirs == nil) != (ours == nil) && !knownDependency(f) {
			t.Errorf("%v: the reference says %v, ours %v", gates, theirs, ours)
		}
	}
}

// knownDependency is the one that the reference does not check when gates are set, but when the API server starts: before 1.35 gates
// had no dependencies (k8s.io/kubernetes/pkg/controlplane/apiserver/options).
func knownDependency(f nodeauthz.Features) bool {
	return f.Minor < 35 && f.AuthorizeNodeWithSelectors && !f.AuthorizeWithSelectors
}

// TestNoOtherGate sets all of the reference's gates that we do not know, on and off, and sees that its static rules stay the same.
func TestNoOtherGate(t *testing.T) {
	for _, value := range []bool{true, false} {
		ours, others, before := map[string]bool{}, map[string]bool{}, map[string]bool{}
		for name, spec := range utilfeature.DefaultMutableFeatureGate.GetAll() {
			if spec.LockToDefault || name == "AllAlpha" || name == "AllBeta" {
				continue
			}
			before[string(name)] = utilfeature.DefaultFeatureGate.Enabled(name)
			others[string(name)] = value
			if slices.Contains(nodeauthz.GateNames(), string(name)) {
				ours[string(name)] = value
			}
		}
		set := func(gates map[string]bool) {
			if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(withDependents(gates)); err != nil {
				t.Fatal(err)
			}
		}
		set(others)
		with := bootstrappolicy.NodeRules()
		set(before)
		set(ours)
		without := bootstrappolicy.NodeRules()
		set(before)
		if d := cmp.Diff(without, with); d != "" {
			t.Errorf("a feature gate that is not one of %v changes the reference's rules (all %t):\n%s", nodeauthz.GateNames(), value, d)
		}
		t.Logf("%d gates %t", len(others), value)
	}
}

// TestRulesHaveNoWildcards sees that the reference's static rules are of the plain kind that ours can be: no wildcards, names, paths.
func TestRulesHaveNoWildcards(t *testing.T) {
	for _, v := range variants(t) {
		use(t, v, func() {
			for _, r := range bootstrappolicy.NodeRules() {
				if len(r.ResourceNames)+len(r.NonResourceURLs) > 0 || slices.ContainsFunc(slices.Concat(r.Verbs, r.APIGroups, r.Resources), func(s string) bool { return s == "*" || len(s) > 1 && s[:2] == "*/" }) {
					t.Errorf("%s: %s", v.Name, ruleWords(r))
				}
			}
		})
	}
}

func ruleWords(r rbacv1.PolicyRule) string { return fmt.Sprintf("%+v", r) }

func variants(t testing.TB) []Variant {
	t.Helper()
	vs, err := Variants()
	if err != nil {
		t.Fatal(err)
	}
	return vs
}

// use runs f with the reference's gates set.
func use(t testing.TB, v Variant, f func()) {
	t.Helper()
	restore, err := v.Use()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := restore(); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}
