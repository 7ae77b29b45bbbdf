package scenarios

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

// A hundred refused reads of secrets that are none of the node's, each in a namespace of its own: how long it takes from the request to the receiver.
// The first three namespaces have alerts of their own, the rest of the node's refused requests share one.
//
// Seen to fail with alerts that do not name the namespace.
func testLatency(t *testing.T, w *world) {
	const n, own = 100, 3
	node := w.plane.Node("node-3")
	var took []time.Duration
	for i := range n {
		ns := fmt.Sprintf("probe-%03d", i)
		r := plane.Must(node.Do(w.ctx, http.MethodGet, "/api/v1/namespaces/"+ns+"/secrets/token", nil))(t)
		if r.Code != http.StatusForbidden {
			t.Fatalf("%s: %d", ns, r.Code)
		}
		labels := map[string]string{"alertname": "OutOfScopeSecretRead", "node": "node-3", "namespace": ns}
		switch {
		case i == own:
			labels = map[string]string{"alertname": "OutOfScopeSecretRead", "node": "node-3", "reason": "many-refused"}
			fallthrough
		case i < own:
			took = append(took, w.alerted(t, labels).At.Sub(r.Sent))
		}
		w.later(150 * time.Millisecond)
	}
	w.result.Alerts = result.LatencyOf(took)
	t.Logf("from the request to the alert: %+v", w.result.Alerts)
}

// That was an enumeration, too, which the minutes show.
//
// Seen to fail with a rule that begins at a thousand times as many objects.
func testEnumeration(t *testing.T, w *world) {
	w.alerted(t, map[string]string{"alertname": "SecretEnumeration", "node": "node-3", "severity": "critical"})
}
