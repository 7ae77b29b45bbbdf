package app

import (
	"maps"
	"slices"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// admissionOf is the admission plugin of a version, such as 1.36 or 1.36.3, with feature gates. Gates that the plugin does not know are left to
// whoever knows them.
func admissionOf(f *nodeauthz.Features, version string, gates map[string]bool) nodeadmission.Version {
	out := judging.AdmissionOf(f)
	if exact, err := nodeadmission.VersionOf(version); err == nil && exact.Minor == out.Minor {
		out.Patch = exact.Patch
	}
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		_ = out.SetGate(name, gates[name])
	}
	return out
}
