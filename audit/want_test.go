package audit_test

import (
	"testing"

	"github.com/nodetrail/nodetrail/audit"
)

// Who asks for all events gets those that nothing needs, too, which are passed over otherwise without being decoded.
func TestWantAll(t *testing.T) {
	const log = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"a1","stage":"ResponseComplete","requestURI":"/healthz","verb":"get","user":{"username":"jane"}}` + "\n"
	for _, c := range []struct {
		want             audit.Want
		emitted, skipped int64
	}{{audit.Want{}, 0, 1}, {audit.Want{State: true}, 0, 1}, {audit.Want{All: true}, 1, 0}} {
		d := audit.Decoder{Want: c.want}
		emitted := int64(0)
		counts := d.Chunk([]byte(log), 1, func(*audit.Event) { emitted++ }, func(m audit.Malformed) { t.Error(m) })
		if emitted != c.emitted || counts.Skipped != c.skipped || counts.Read != 1 {
			t.Errorf("%+v: %d emitted, %+v", c.want, emitted, counts)
		}
	}
}
