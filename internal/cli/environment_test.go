package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// A variable that is misspelt has no effect, and must not be silent. What Kubernetes puts into the environment of a container is not meant for the program.
func TestMisspelt(t *testing.T) {
	root, sub := &cobra.Command{Use: "x"}, &cobra.Command{Use: "sub"}
	root.AddCommand(sub)
	root.PersistentFlags().String("fail-on", "", "")
	sub.Flags().String("ports", "", "")
	sub.Flags().String("skew", "", "")
	got := misspelt(root, "X_", []string{
		"X_FAIL_ON=a", "X_SKEW=1", "X_FAILON=a", "X_SKEWS=b=c", "X_SERVICE_HOST=10.0.0.1", "X_SERVICE_PORT=1", "X_SERVICE_PORT_HTTP=1", "X_PORT=tcp://10.0.0.1:1",
		"X_PORTS_PORT=tcp://10.0.0.1:1", "X_PORT_1_TCP=a", "X_PORT_1_TCP_ADDR=10.0.0.1", "X_SKEW_SERVICE_HOST=a", "X_REQUIRE_POSTGRES=1", "Y_SKEWS=1", "X_=", "X",
	})
	want := []string{"X_FAILON: did you mean X_FAIL_ON?", "X_SKEWS: did you mean X_SKEW?"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
