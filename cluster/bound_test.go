package cluster

import (
	"strings"
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

// A pod that is made with a node has no time of its binding until its kubelet sets one. If nobody watched when it was made, what its kubelet writes later is no word on when it was bound.
func TestBoundBeforeItsKubeletWrites(t *testing.T) {
	pod := func(created, scheduled string) string {
		status := ""
		if scheduled != "" {
			status = `,"status":{"conditions":[{"type":"PodScheduled","status":"True","lastTransitionTime":"` + at(t, scheduled).Format(time.RFC3339) + `"}]}`
		}
		return `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":"p","uid":"1","creationTimestamp":"` + at(t, created).Format(time.RFC3339) +
			`"},"spec":{"nodeName":"w","volumes":[{"name":"s","secret":{"secretName":"db"}}]}` + status + `}`
	}
	unseen := strings.Replace(event(t, "14s", "ADDED", pod("10s", "")), `"type"`, `"notBefore":"`+at(t, "5s").Format(time.RFC3339)+`","type"`, 1)
	bookmark := event(t, "1s", "BOOKMARK", `{"kind":"Pod","apiVersion":"v1","metadata":{"annotations":{"k8s.io/initial-events-end":"true"}}}`)
	for name, journal := range map[string]string{
		"its kubelet is late":   unseen + event(t, "16s", "MODIFIED", pod("10s", "16s")),
		"a write of the object": unseen + event(t, "12500ms", "MODIFIED", pod("10s", "10s")),
	} {
		s := load(t, bookmark+journal)
		for after, want := range map[string]bool{"9s": false, "11500ms": true, "12s": true, "15s": true, "20s": true} {
			if got := s.Graph.PodWasOn("a", "p", "w", at(t, after), at(t, after)); got != want {
				t.Errorf("%s: on its node after %s: %t, want %t", name, after, got, want)
			}
		}
	}
}
