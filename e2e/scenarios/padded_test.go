package scenarios

import (
	"net/http"
	"strings"
	"testing"
)

// A node pads the URI of a read as far as the API server takes it, also with characters that the audit log writes as six: the read is judged, and found.
func testPadded(t *testing.T, w *world) {
	w.namespace(t, "padded")
	w.create(t, secret("padded", "theirs"))
	w.create(t, pod("padded", "theirs", "node-2", "theirs"))
	c := w.plane.Node("node-1")
	const path = "/api/v1/namespaces/padded/secrets/theirs"
	for name, char := range map[string]string{"letters": "x", "escaped": "&"} {
		most := 0 // of characters that the API server takes
		for size := 1 << 20; size >= 1<<12; size /= 2 {
			if r, err := c.Do(w.ctx, http.MethodGet, path+"?"+strings.Repeat(char, most+size), nil); err == nil && r.Code == http.StatusForbidden {
				most += size
			}
		}
		if most < 1<<16 {
			t.Fatalf("%s: the API server takes %d characters", name, most)
		}
		a := w.settled(t, c, http.MethodGet, path+"?"+strings.Repeat(char, most), nil)
		if a.Code != http.StatusForbidden || a.verdict.Verdict != "deny" || len(a.verdict.Findings) == 0 || a.verdict.Name != "theirs" {
			t.Errorf("%s, %d characters: %d, %s, %q about %q", name, most, a.Code, a.verdict.Verdict, a.verdict.Findings, a.verdict.Name)
		}
		t.Logf("%s: the API server takes %d characters, the audit event has %d", name, most, len(a.event.RequestURI))
	}
}
