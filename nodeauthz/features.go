package nodeauthz

import (
	"fmt"
	"sort"
	"strings"
)

// Features is what the reference's decision depends on besides the request and the graph: the Kubernetes minor and the feature
// gates. The zero value is not useful; see [FeaturesFor].
type Features struct {
	// Minor is the 36 of Kubernetes 1.36.
	Minor int
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
}

// The Kubernetes minors whose authorizer this package knows.
const (
	OldestMinor = 33
	NewestMinor = 36
)

// gate is one feature gate: where it lives in Features, its default and whether it is locked to it, from a minor on
// (k8s.io/kubernetes/pkg/features/kube_features.go and k8s.io/apiserver/pkg/features).
type gate struct {
	name  string
	field func(*Features) *bool
	steps []gateStep
}

type gateStep struct {
	minor         int
	value, locked bool
}

func gates() []gate {
	return []gate{
		{"AuthorizeWithSelectors", func(f *Features) *bool { return &f.AuthorizeWithSelectors },
			[]gateStep{{33, true, false}, {34, true, true}}},
		{"AuthorizeNodeWithSelectors", func(f *Features) *bool { return &f.AuthorizeNodeWithSelectors },
			[]gateStep{{33, true, false}, {34, true, true}}},
		{"KubeletServiceAccountTokenForCredentialProviders",
			func(f *Features) *bool { return &f.KubeletServiceAccountTokenForCredentialProviders },
			[]gateStep{{33, false, false}, {34, true, false}}},
		{"PodCertificateRequest", func(f *Features) *bool { return &f.PodCertificateRequest },
			[]gateStep{{34, false, false}}},
		{"DynamicResourceAllocation", func(f *Features) *bool { return &f.DynamicResourceAllocation },
			[]gateStep{{33, false, false}, {34, true, false}, {35, true, true}}},
		{"ClusterTrustBundle", func(f *Features) *bool { return &f.ClusterTrustBundle },
			[]gateStep{{33, false, false}}},
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

// FeaturesFor returns the defaults of a Kubernetes version such as "1.36", "v1.36" or "1.36.3". An empty one means the newest.
func FeaturesFor(version string) (Features, error) {
	minor := NewestMinor
	if version != "" {
		var err error
		if minor, err = parseMinor(version); err != nil {
			return Features{}, err
		}
	}
	f := Features{Minor: minor}
	for _, g := range gates() {
		if s, ok := g.at(minor); ok {
			*g.field(&f) = s.value
		}
	}
	return f, nil
}

func parseMinor(version string) (int, error) {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(version, "v"), "1.")
	digits, _, _ := strings.Cut(rest, ".")
	minor := 0
	for _, c := range digits {
		if c < '0' || c > '9' || minor > 999 {
			ok = false
			break
		}
		minor = minor*10 + int(c-'0')
	}
	if !ok || digits == "" {
		return 0, fmt.Errorf("%q is not a Kubernetes version such as 1.%d", version, NewestMinor)
	}
	if minor < OldestMinor || minor > NewestMinor {
		return 0, fmt.Errorf("kubernetes 1.%d is not supported: 1.%d to 1.%d are", minor, OldestMinor, NewestMinor)
	}
	return minor, nil
}

// Version returns the minor as "1.36".
func (f Features) Version() string { return fmt.Sprintf("1.%d", f.Minor) }

// Set changes one gate, with the refusals of the apiserver: a gate that the version does not have, or has locked. A gate of
// Kubernetes on which no decision depends is refused as unknown, since to accept it would be to pretend.
func (f *Features) Set(name string, value bool) error {
	for _, g := range gates() {
		if g.name != name {
			continue
		}
		s, ok := g.at(f.Minor)
		if !ok {
			return fmt.Errorf("kubernetes %s has no feature gate %s", f.Version(), name)
		}
		if s.locked && value != s.value {
			return fmt.Errorf("feature gate %s is locked to %t in Kubernetes %s", name, s.value, f.Version())
		}
		*g.field(f) = value
		return nil
	}
	return fmt.Errorf("feature gate %q does not bear on node authorization; those that do are %s", name, strings.Join(GateNames(), ", "))
}

// Validate reports gates that depend on others that are off: an apiserver so configured does not start.
func (f *Features) Validate() error {
	if f.AuthorizeNodeWithSelectors && !f.AuthorizeWithSelectors {
		return fmt.Errorf("feature gate AuthorizeNodeWithSelectors needs AuthorizeWithSelectors")
	}
	if f.Minor >= 35 && f.PodCertificateRequest && !f.AuthorizeNodeWithSelectors {
		return fmt.Errorf("feature gate PodCertificateRequest needs AuthorizeNodeWithSelectors")
	}
	return nil
}

// NonDefault returns the gates that differ from the version's defaults.
func (f Features) NonDefault() map[string]bool {
	out := map[string]bool{}
	for _, g := range gates() {
		if s, ok := g.at(f.Minor); ok && *g.field(&f) != s.value {
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
