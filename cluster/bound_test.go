package cluster

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// What a watch sees bound was bound. If the pod's own word is later, it was bound between the two times.
func TestBoundBySeveralClocks(t *testing.T) {
	seen := time.Date(2026, 11, 29, 12, 0, 10, 200_000_000, time.UTC)
	for _, c := range []struct {
		name    string
		change  change
		granted time.Duration // after it was seen
		from    time.Duration
		to      time.Duration
		source  nodeauthz.Source
	}{
		{"the same second", change{clocked: true}, -200 * time.Millisecond, 0, 0, nodeauthz.SourceWatch},
		{"long before", change{clocked: true}, -10 * time.Second, -10 * time.Second, -9 * time.Second, nodeauthz.SourceObject},
		{"later", change{clocked: true}, 5 * time.Second, 0, 6 * time.Second, nodeauthz.SourceWatch},
		{"later, and seen in an interval", change{clocked: true, notBefore: seen.Add(-3 * time.Second).UnixNano()}, 5 * time.Second, -3 * time.Second, 6 * time.Second, nodeauthz.SourceWatch},
		{"later than a list", change{}, 5 * time.Second, 5 * time.Second, 6 * time.Second, nodeauthz.SourceObject},
	} {
		c.change.at, c.change.granted = seen.UnixNano(), seen.Add(c.granted).UnixNano()
		c.change.pod = &nodeauthz.Pod{NodeName: "n1"}
		got := c.change.bound()
		if from, to := got.Time.Sub(seen), got.Time.Add(got.Slop).Sub(seen); from != c.from || to != c.to || got.Source != c.source {
			t.Errorf("%s: from %s to %s by %v, want from %s to %s by %v", c.name, from, to, got.Source, c.from, c.to, c.source)
		}
	}
}
