package cluster

import (
	"fmt"
	"testing"
	"time"
)

// A Node that is deleted while nobody hears of its kubelet is silent until there is one of its name again.
func TestSilentSinceOfADeletedNode(t *testing.T) {
	node := func(uid, status, since string) string {
		return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":%q},"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`,
			uid, status, at(t, since).Format(time.RFC3339))
	}
	const grace = 10 * time.Minute
	ready := event(t, "1s", "ADDED", node("u", "True", "0s"))
	silent := ready + event(t, "1000s", "MODIFIED", node("u", "Unknown", "1000s"))
	gone := event(t, "2000s", "DELETED", node("u", "Unknown", "1000s"))
	for _, c := range []struct {
		name, journal, asked, since string
	}{
		{"silent", silent, "1500s", "1000s"},
		{"deleted", silent + gone, "9000s", "1000s"},
		{"before it was silent", silent + gone, "900s", ""},
		{"there again", silent + gone + event(t, "5000s", "ADDED", node("v", "True", "5000s")), "5500s", "1000s"},
		{"there again for long", silent + gone + event(t, "5000s", "ADDED", node("v", "True", "5000s")), "5700s", ""},
		{"deleted when it was Ready", ready + event(t, "2000s", "DELETED", node("u", "True", "0s")), "9000s", ""},
		{"Ready before it was deleted", silent + event(t, "1100s", "MODIFIED", node("u", "True", "1100s")) + event(t, "2000s", "DELETED", node("u", "True", "1100s")), "9000s", ""},
	} {
		want := time.Time{}
		if c.since != "" {
			want = at(t, c.since)
		}
		if got := load(t, c.journal).Nodes.SilentSince("w1", at(t, c.asked), grace); !got.Equal(want) {
			t.Errorf("%s: since %v, want %v", c.name, got, want)
		}
	}
}
