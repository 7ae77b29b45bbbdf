package scenarios

import (
	"fmt"
	"testing"

	"github.com/nodetrail/nodetrail/report"
)

type (
	clientOf = report.Client
	holeOf   = report.Hole
)

// identity waits until the report lists a kubelet with a wrong user or group, with the reason.
func (w *world) identity(t *testing.T, name, reason string) {
	t.Helper()
	w.eventually(t, fmt.Sprintf("the report says of %s: %s", name, reason), func() error {
		r, err := w.trail.Report(w.ctx)
		if err != nil {
			return err
		}
		for _, i := range r.Readiness.Identities {
			if i.Identity == name && i.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it has %+v", r.Readiness.Identities)
	})
}
