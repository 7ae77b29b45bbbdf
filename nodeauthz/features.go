package nodeauthz

import (
	"cmp"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// Features is what the reference's decision depends on besides the request and the graph: the Kubernetes minor and the feature
// gates. The zero value is not useful; see [FeaturesFor].
type Features struct {
	// Minor is the 36 of Kubernetes 1.36: that of the API server's own code.
	Minor int
	// Emulated is the 35 of --emulated-version=1.35, on which the gates depend; equal to Minor where nothing is emulated.
	Emulated int
	// AuthorizeWithSelectors lets authorizers see field selectors at all (KEP-4601).
	AuthorizeWithSelectors bool
	// AuthorizeNodeWithSelectors limits nodes to their own Node and to pods and slices selected by their name (KEP-4601).
	AuthorizeNodeWithSelectors bool
	// KubeletServiceAccountTokenForCredentialProviders lets nodes get their pods' service accounts (KEP-4412).
	KubeletServiceAccountTokenForCredentialProviders bool
	// PodCertificateRequest is KEP-4317.
	PodCertificateRequest bool
	// DynamicResourceAllocation is KEP-4381; without it the graph has no resource slices.
	DynamicResourceAllocation bool
	// ClusterTrustBundle is KEP-3257.
	ClusterTrustBundle bool
	// CSIVolumeHealth lets nodes write the status of their CSINode (KEP-1432); the authorizer asks for it since 1.37.
	CSIVolumeHealth bool
}

// The Kubernetes minors whose authorizer this package knows.
const (
	OldestMinor = 28
	NewestMinor = 37
)

// Versions returns the supported versions, such as "1.36", the oldest first.
func Versions() (list []string) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		list = append(list, fmt.Sprintf("1.%d", minor))
	}
	return list
}

// oldestEmulating is the first minor that has the flag --emulated-version, and the oldest that can be given there.
const oldestEmulating = 31

// gate is one feature gate: where it lives in Features, its default and whether it is locked to it, from an emulated minor on
// (k8s.io/kubernetes/pkg/features/kube_features.go and k8s.io/apiserver/pkg/features).
type gate struct {
	name  string
	field func(*Features) *bool
	// from is the first minor whose authorizer asks for the gate; 0 is the gate's own first.
	from int
	// gone is the first minor without the gate, which from then on is as good as true; 0 is none.
	gone  int
	steps []gateStep
}

type gateStep struct {
	minor         int
	value, locked bool
}

func gates() []gate {
	return []gate{
		{"AuthorizeWithSelectors", func(f *Features) *bool { return &f.AuthorizeWithSelectors }, 0, 37,
			[]gateStep{{31, false, false}, {32, true, false}, {34, true, true}}},
		{"AuthorizeNodeWithSelectors", func(f *Features) *bool { return &f.AuthorizeNodeWithSelectors }, 0, 37,
			[]gateStep{{31, false, false}, {32, true, false}, {34, true, true}}},
		{"KubeletServiceAccountTokenForCredentialProviders",
			func(f *Features) *bool { return &f.KubeletServiceAccountTokenForCredentialProviders }, 0, 0,
			[]gateStep{{33, false, false}, {34, true, false}}},
		{"PodCertificateRequest", func(f *Features) *bool { return &f.PodCertificateRequest }, 0, 0,
			[]gateStep{{34, false, false}, {37, true, false}}},
		{"DynamicResourceAllocation", func(f *Features) *bool { return &f.DynamicResourceAllocation }, 0, 0,
			[]gateStep{{26, false, false}, {34, true, false}, {35, true, true}}},
		{"ClusterTrustBundle", func(f *Features) *bool { return &f.ClusterTrustBundle }, 0, 0,
			[]gateStep{{27, false, false}, {37, true, false}}},
		{"CSIVolumeHealth", func(f *Features) *bool { return &f.CSIVolumeHealth }, 37, 0,
			[]gateStep{{21, false, false}}},
	}
}

// gatesOf is the minor whose gates an API server has.
func (f *Features) gatesOf() int {
	if f.Emulated == 0 {
		return f.Minor
	}
	return f.Emulated
}

// at returns the gate's setting in an API server of one minor that emulates another.
func (g gate) at(f *Features) (step gateStep, exists bool) {
	if g.gone != 0 && f.Minor >= g.gone {
		return gateStep{value: true}, false
	}
	if f.Minor < g.from {
		return gateStep{}, false
	}
	for _, s := range g.steps {
		if s.minor <= f.gatesOf() {
			step, exists = s, true
		}
	}
	return step, exists
}

// FeaturesFor returns the defaults of a Kubernetes version such as "1.36", "v1.36" or "1.36.3". An empty one means the newest. A version that
// is well-formed but not supported is an error: see [Nearest].
func FeaturesFor(version string) (Features, error) {
	minor := NewestMinor
	if version != "" {
		var err error
		if minor, err = Minor(version); err != nil {
			return Features{}, err
		}
		if minor < OldestMinor || minor > NewestMinor {
			return Features{}, fmt.Errorf("kubernetes 1.%d is not supported: 1.%d to 1.%d are", minor, OldestMinor, NewestMinor)
		}
	}
	return defaults(minor, minor), nil
}

// Nearest returns the defaults of the supported minor that is nearest to a version, and whether it is the version's own. It errs only where
// the version is not one.
func Nearest(version string) (f Features, exact bool, err error) {
	minor, err := Minor(version)
	if err != nil {
		return Features{}, false, err
	}
	nearest, _ := NearestMinors(minor)
	return defaults(nearest, nearest), nearest == minor, nil
}

// NearestMinors returns the supported minor that is nearest to a minor, and the second nearest to one that is not supported. Of one that is supported both are the
// minor itself.
func NearestMinors(minor int) (nearest, second int) {
	nearest = min(max(minor, OldestMinor), NewestMinor)
	return nearest, nearest + cmp.Compare(nearest, minor)
}

func defaults(minor, emulated int) Features {
	f := Features{Minor: minor, Emulated: emulated}
	for _, g := range gates() {
		s, _ := g.at(&f)
		*g.field(&f) = s.value
	}
	return f
}

// Emulating returns the defaults of an API server of f's minor with --emulated-version set to an older version: its code is that of its own
// minor, its feature gates are those of the older, and gates that its own minor locks may be open.
func (f Features) Emulating(version string) (Features, error) {
	minor, err := Minor(version)
	if err != nil {
		return Features{}, err
	}
	if minor > f.Minor || minor < max(oldestEmulating, f.Minor-3) {
		return Features{}, fmt.Errorf("kubernetes %s cannot emulate 1.%d", f.Version(), minor)
	}
	return defaults(f.Minor, minor), nil
}

// versionText is a version of Kubernetes: a minor, a patch, and what a distribution or `kubectl version` puts behind it.
var versionText = regexp.MustCompile(`^v?1\.(0|[1-9][0-9]{0,2})(\.[0-9]+)?([-+][0-9A-Za-z.+-]*)?$`)

// Minor is the 36 of a version such as "1.36", "v1.36", "1.36.3-eks-abc" or "1.36+", whether it is supported or not.
func Minor(version string) (int, error) {
	m := versionText.FindStringSubmatch(version)
	if m == nil {
		return 0, fmt.Errorf("%q is not a Kubernetes version such as 1.%d", version, NewestMinor)
	}
	return strconv.Atoi(m[1])
}

// Version returns the minor as "1.36", and with "emulating 1.35" after it where that is so.
func (f Features) Version() string {
	if e := f.gatesOf(); e != f.Minor {
		return fmt.Sprintf("1.%d emulating 1.%d", f.Minor, e)
	}
	return fmt.Sprintf("1.%d", f.Minor)
}

// Set changes one gate, with the refusals of the API server: a gate that the version does not have, or has locked. A gate of
// Kubernetes on which no decision depends is refused as unknown, since to accept it would be to pretend.
func (f *Features) Set(name string, value bool) error {
	for _, g := range gates() {
		if g.name != name {
			continue
		}
		s, ok := g.at(f)
		switch {
		case f.Minor < g.from:
			return fmt.Errorf("feature gate %s does not bear on node authorization in Kubernetes %s", name, f.Version())
		case !ok:
			return fmt.Errorf("kubernetes %s has no feature gate %s", f.Version(), name)
		case s.locked && value != s.value:
			return fmt.Errorf("feature gate %s is locked to %t in Kubernetes %s", name, s.value, f.Version())
		}
		*g.field(f) = value
		return nil
	}
	return UnknownGate(name, GateNames())
}

// UnknownGate is the error of a feature gate that is none of those which matter.
func UnknownGate(name string, those []string) error {
	return fmt.Errorf("feature gate %q does not bear on node authorization; those that do are %s", name, strings.Join(those, ", "))
}

// Validate reports gates that depend on others that are off: an API server so configured does not start.
func (f *Features) Validate() error {
	if f.AuthorizeNodeWithSelectors && !f.AuthorizeWithSelectors {
		return fmt.Errorf("feature gate AuthorizeNodeWithSelectors needs AuthorizeWithSelectors")
	}
	if f.Minor >= 35 && f.Minor < 37 && f.PodCertificateRequest && !f.AuthorizeNodeWithSelectors {
		return fmt.Errorf("feature gate PodCertificateRequest needs AuthorizeNodeWithSelectors")
	}
	return nil
}

// NonDefault returns the gates that differ from the version's defaults.
func (f Features) NonDefault() map[string]bool {
	out := map[string]bool{}
	for _, g := range gates() {
		if s, ok := g.at(&f); ok && *g.field(&f) != s.value {
			out[g.name] = *g.field(&f)
		}
	}
	return out
}

// GateNames returns the names of the gates that bear on a decision, sorted.
func GateNames() []string {
	var names []string
	for _, g := range gates() {
		names = append(names, g.name)
	}
	sort.Strings(names)
	return names
}
