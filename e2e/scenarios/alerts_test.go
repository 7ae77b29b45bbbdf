package scenarios

import (
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/receiver"
)

// alerted waits for an alert with these labels.
func (w *world) alerted(t *testing.T, labels map[string]string) *receiver.Alert {
	t.Helper()
	return plane.Must(w.alerts.Await(w.ctx, labels))(t)
}
