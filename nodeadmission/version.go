package nodeadmission

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The Kubernetes minors whose plugin this package knows.
const (
	OldestMinor = 28
	NewestMinor = 37
)

// AnyPatch stands for a patch that is not known.
const AnyPatch = -1

// Version is the version and the feature gates of an API server, as far as the plugin depends on them. The zero value is not useful; see
// [VersionOf].
type Version struct {
	// Minor is the 36 of Kubernetes 1.36.3, Patch the 3, or AnyPatch.
	Minor, Patch int
	// Vendor says that the version has a suffix such as the -eks-1a2b3c4 of 1.31.9-eks-1a2b3c4: a vendor may have taken over what only a later patch has.
	Vendor bool
	gates  gateSet
}

type gateSet struct {
	nodeAudience, insecureCSR, expansionRecovery, podCertificates, volumeHealth bool
}

// gate is a feature gate: where it lives, and its default and lock from a minor on (k8s.io/kubernetes/pkg/features).
type gate struct {
	name  string
	field func(*gateSet) *bool
	steps []gateStep
}

type gateStep struct {
	minor         int
	value, locked bool
}

func gates() []gate {
	return []gate{
		{"ServiceAccountNodeAudienceRestriction", func(g *gateSet) *bool { return &g.nodeAudience },
			[]gateStep{{32, false, false}, {33, true, false}}},
		{"AllowInsecureKubeletCertificateSigningRequests", func(g *gateSet) *bool { return &g.insecureCSR },
			[]gateStep{{31, false, false}}},
		{"RecoverVolumeExpansionFailure", func(g *gateSet) *bool { return &g.expansionRecovery },
			[]gateStep{{28, false, false}, {32, true, false}, {34, true, true}}},
		{"PodCertificateRequest", func(g *gateSet) *bool { return &g.podCertificates },
			[]gateStep{{34, false, false}, {37, true, false}}},
		{"CSIVolumeHealth", func(g *gateSet) *bool { return &g.volumeHealth },
			[]gateStep{{28, false, false}}},
	}
}

func (g gate) at(minor int) (step gateStep, exists bool) {
	for _, s := range g.steps {
		if s.minor <= minor {
			step, exists = s, true
		}
	}
	return step, exists
}

// GateNames returns the feature gates that the plugin depends on.
func GateNames() []string {
	var names []string
	for _, g := range gates() {
		names = append(names, g.name)
	}
	slices.Sort(names)
	return names
}

// VersionOf reads a version such as "1.36.3", "v1.36" or "1.36.3-gke.100" and sets the defaults of its feature gates. Without a patch
// the version has AnyPatch.
func VersionOf(text string) (Version, error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(text, "v"), "1.")
	minorText, patchText, _ := strings.Cut(rest, ".")
	minor, err := strconv.ParseUint(digits(minorText), 10, 16)
	if !ok || err != nil {
		return Version{}, fmt.Errorf("%q is not a Kubernetes version such as 1.%d.0", text, NewestMinor)
	}
	if minor < OldestMinor || minor > NewestMinor {
		return Version{}, fmt.Errorf("kubernetes 1.%d is not supported: 1.%d to 1.%d are", minor, OldestMinor, NewestMinor)
	}
	v := Version{Minor: int(minor), Patch: AnyPatch}
	if patch, err := strconv.ParseUint(digits(patchText), 10, 16); err == nil {
		v.Patch, v.Vendor = int(patch), len(digits(patchText)) < len(patchText)
	}
	for _, g := range gates() {
		if s, ok := g.at(v.Minor); ok {
			*g.field(&v.gates) = s.value
		}
	}
	return v, nil
}

// digits returns the digits that the text begins with.
func digits(text string) string {
	for i, c := range []byte(text) {
		if c < '0' || c > '9' {
			return text[:i]
		}
	}
	return text
}

// SetGate changes a feature gate, with the refusals of the API server: a gate that the version does not have, or has locked.
func (v *Version) SetGate(name string, value bool) error {
	for _, g := range gates() {
		if g.name != name {
			continue
		}
		s, ok := g.at(v.Minor)
		if !ok {
			return fmt.Errorf("kubernetes 1.%d has no feature gate %s", v.Minor, name)
		}
		if s.locked && value != s.value {
			return fmt.Errorf("feature gate %s is locked to %t in Kubernetes 1.%d", name, s.value, v.Minor)
		}
		*g.field(&v.gates) = value
		return nil
	}
	return fmt.Errorf("NodeRestriction does not depend on feature gate %q, but on %s", name, strings.Join(GateNames(), ", "))
}

// AnyAudience reports whether a node gets tokens for whatever audience it asks for, of the service accounts of its pods.
func (v *Version) AnyAudience() bool { return !v.gates.nodeAudience }

// certainty says whether a version has a check.
type certainty uint8

const (
	no certainty = iota
	yes
	maybe // depends on the patch, which is not known
)

// since reports whether the version has what came with a patch of its minor.
func (v *Version) since(patch int) certainty {
	switch {
	case v.Patch == AnyPatch:
		return maybe
	case v.Patch >= patch:
		return yes
	case v.Vendor:
		return maybe
	}
	return no
}

// checksOwners reports whether a node may not change the owner references of its Node (CVE-2025-5187).
func (v *Version) checksOwners() certainty {
	switch {
	case v.Minor >= 34:
		return yes
	case v.Minor == 33:
		return v.since(4)
	case v.Minor == 32:
		return v.since(8)
	case v.Minor == 31:
		return v.since(12)
	case v.Vendor:
		return maybe
	}
	return no
}

// checksClaims reports whether a mirror pod may not name resource claims (CVE-2025-4563).
func (v *Version) checksClaims() certainty {
	switch {
	case v.Minor >= 34:
		return yes
	case v.Minor == 33:
		return v.since(2)
	case v.Minor == 32:
		return v.since(6)
	}
	return no
}
