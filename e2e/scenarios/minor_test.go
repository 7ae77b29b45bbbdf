package scenarios

import (
	"fmt"
	"os"
	"strings"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// ofMinor tells nodetrail of the older minor, if one is asked for. What a test says itself of versions stays.
func ofMinor(config string) string {
	minor := os.Getenv(plane.MinorEnv)
	if minor == "" || strings.Contains(config, "kubernetesVersion") {
		return config
	}
	return config + fmt.Sprintf("authorization: {kubernetesVersion: %q}\n", minor)
}
