package scenarios

import (
	"os"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// minor is the older minor whose own programs run, such as 1.33; empty: the newest's do.
func minor() string { return os.Getenv(plane.MinorEnv) }

// withDevices switches dynamic resource allocation on where it is off by default, which is in 1.33, and tells nodetrail.
func withDevices(options plane.Options) (plane.Options, string) {
	if minor() != "1.33" {
		return options, ""
	}
	// v1beta1 is what 1.33 stores.
	options.APIServer = append(options.APIServer, "--feature-gates=DynamicResourceAllocation=true", "--runtime-config=resource.k8s.io/v1beta1=true,"+devices()+"=true")
	return options, "authorization: {featureGates: {DynamicResourceAllocation: true}}\n"
}

// devices is the API of resource slices and claims: v1 came with 1.34, and v1beta2 of 1.33 has the same words.
func devices() string {
	if minor() == "1.33" {
		return "resource.k8s.io/v1beta2"
	}
	return "resource.k8s.io/v1"
}
