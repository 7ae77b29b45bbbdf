package scenarios

import (
	"fmt"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

// running is the N of the Kubernetes 1.N whose programs run.
func running(t *testing.T) int {
	t.Helper()
	return plane.Must(plane.Build(work.Context()))(t).Minor()
}

// left are the scenes that did not run, for the page.
var left []result.Left

// has reports whether the Kubernetes that runs has what a scene needs, which came with 1.since. What it has not is counted.
func has(t *testing.T, scene string, since int) bool {
	t.Helper()
	minor := running(t)
	if minor >= since {
		return true
	}
	t.Logf("NOT RUN on Kubernetes 1.%d: %s needs 1.%d", minor, scene, since)
	left = append(left, result.Left{Name: scene, Needs: fmt.Sprintf("1.%d", since)})
	plane.Check(t, result.Write("left", left))
	return false
}

// Minors in which the Node authorizer, or the API, changed so that scenes expect another thing.
const (
	// selectors: a node sees only its own Node and the pods and slices selected by its name.
	selectors = 32
	// audiences: NodeRestriction limits the audiences of tokens.
	audiences = 33
	// ephemeral: a secret that an ephemeral container names is the node's from then on. Before, the authorizer did not look at the pod again.
	ephemeral = 33
	// accounts: a node gets the service accounts of its pods.
	accounts = 34
)

// withDevices switches dynamic resource allocation on where it is there and off by default, which is in 1.32 and 1.33. The log shows that it is on.
func withDevices(t *testing.T, options plane.Options) plane.Options {
	if minor := running(t); minor == 32 || minor == 33 {
		// v1beta1 is what 1.33 stores.
		options.APIServer = append(options.APIServer, "--feature-gates=DynamicResourceAllocation=true", "--runtime-config=resource.k8s.io/v1beta1=true,"+devices(t)+"=true")
	}
	return options
}

// devices is the API of resource slices and claims: v1 came with 1.34, and v1beta2 of 1.33 has the same words.
func devices(t *testing.T) string {
	if running(t) == 33 {
		return "resource.k8s.io/v1beta2"
	}
	return "resource.k8s.io/v1"
}
