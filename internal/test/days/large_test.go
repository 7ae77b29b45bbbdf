package days

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// Large clean clusters, with all that ordinary ones do, have no finding above low and no incident, so no alert. NODETRAIL_DAYS is how many days of 500 nodes
// there are, which make attack sets. A day is twelve clusters of two hours each: all of it at once would need the memory of a larger machine.
func TestLargeClustersAreQuiet(t *testing.T) {
	opts := Options{Nodes: effort.Of(24, 12), Servers: 3, Scaled: 8, Span: 2 * time.Hour}
	parts := uint64(2)
	if text := os.Getenv("NODETRAIL_DAYS"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		opts.Nodes, opts.Scaled, parts = 500, 17, 12*n
	}
	features := []Features{
		Windows | DHCP | DualStack | ControlPlane | Autoscaling | Spot | Deployments | Drains | Rotation,
		Windows | KubeadmJoin | Upgrade | DHCP | ControlPlane | Autoscaling | Spot | NotReady | ServerRestart,
	}
	for seed := range parts {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			o := opts
			o.Features, o.Minor = features[seed%2], 33+int(seed%4)
			checkClean(t, clean(t, 700+seed, o))
		})
	}
}
