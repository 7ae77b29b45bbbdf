package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Who has had an address for longest comes first, and who has it for a moment does not count.
func TestNodesWith(t *testing.T) {
	from := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	n := newNodes()
	has := func(name string, after time.Duration, addresses ...string) {
		at := from.Add(after)
		n.set(name, name, nodeauthz.Stamp{Time: at, Source: nodeauthz.SourceWatch}, readiness{})
		n.locateAll(name, addresses, at.UnixNano(), 0)
	}
	has("victim", 0, "10.0.0.1", "fd00::1", "victim")
	has("thief", 0, "10.0.0.2", "thief")
	has("thief", time.Hour, "10.0.0.2", "thief", "10.0.0.1", "FD00:0::1", "victim")
	has("heir", time.Hour, "10.0.0.3")
	has("heir", 3*time.Hour, "10.0.0.4")
	has("heir", 4*time.Hour, "10.0.0.3")
	n.remove("victim", "victim", nodeauthz.Stamp{Time: from.Add(5 * time.Hour)})
	for _, c := range []struct {
		address string
		after   time.Duration
		want    []string
	}{
		{"10.0.0.1", 0, []string{"victim"}},
		{"10.0.0.1", time.Hour + 9*time.Minute, []string{"victim"}},
		{"10.0.0.1", time.Hour + 10*time.Minute, []string{"victim", "thief"}},
		{"::ffff:10.0.0.1", 2 * time.Hour, []string{"victim", "thief"}},
		{"FD00::0001", 2 * time.Hour, []string{"victim"}},
		{"VICTIM.", 2 * time.Hour, []string{"victim", "thief"}},
		{"10.0.0.1", 6 * time.Hour, []string{"thief"}},
		{"10.0.0.3", 2 * time.Hour, []string{"heir"}},
		{"10.0.0.3", 3*time.Hour + 30*time.Minute, nil},
		{"10.0.0.3", 4*time.Hour + 30*time.Minute, []string{"heir"}},
		{"10.9.9.9", time.Hour, nil},
	} {
		if got := n.With(c.address, from.Add(c.after)); !slices.Equal(got, c.want) {
			t.Errorf("%s after %s: %q, want %q", c.address, c.after, got, c.want)
		}
	}
}
