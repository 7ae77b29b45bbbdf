package app

import (
	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// admissionOf is the admission plugin of a version, such as 1.36 or 1.36.3, with feature gates.
func admissionOf(f *nodeauthz.Features, version string, gates map[string]bool) nodeadmission.Version {
	out := judging.AdmissionOf(f, gates)
	if exact, err := nodeadmission.VersionOf(version); err == nil && exact.Minor == out.Minor {
		out.Patch, out.Vendor = exact.Patch, exact.Vendor
	}
	return out
}
