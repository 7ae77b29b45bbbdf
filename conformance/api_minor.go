//go:build !k8s1_30

package conformance

import (
	"strconv"
	"strings"

	"k8s.io/component-base/version"
)

// Minor is the 36 of the Kubernetes 1.36 that this was built with.
func Minor() int {
	n, err := strconv.Atoi(strings.TrimPrefix(version.DefaultKubeBinaryVersion, "1."))
	if err != nil {
		return 0
	}
	return n
}
