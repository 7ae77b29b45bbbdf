package app

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/sinks/metrics"
)

// A kind that the apiserver does not serve, as pod certificate requests by default, is nothing to be alerted of; one that may not be read is.
func TestKindMetrics(t *testing.T) {
	got := kindMetrics([]cluster.KindStatus{
		{Kind: "Pod", Synced: true, Objects: 3, Judged: true},
		{Kind: "PodCertificateRequest", Absent: true, Judged: true},
		{Kind: "Node", Refused: true, Judged: true},
		{Kind: "Role", Judged: true},
	})
	if diff := cmp.Diff([]metrics.Kind{
		{Name: "Pod", Objects: 3, Synced: true}, {Name: "PodCertificateRequest", Synced: true}, {Name: "Node"}, {Name: "Role"},
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// However many objects come and go, so many are kept that have ended, and all of the last minutes.
func TestEndedObjectsAreBounded(t *testing.T) {
	const most = 100
	for name, c := range map[string]struct {
		every         time.Duration // one ends
		least, atMost int           // are kept
		early         bool
	}{
		"few":               {time.Hour, 24, 25, false},
		"just as many":      {15 * time.Minute, 96, 97, false},
		"a little too many": {14 * time.Minute, most, most, true},
		"many":              {time.Minute, most, most, true},
		"in no time":        {time.Second, int(atLeastKept / time.Second), int(atLeastKept/time.Second) + 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &stateFeed{State: cluster.NewState(), horizon: 24 * time.Hour, maxEnded: most}
			now := time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)
			stamp := func() nodeauthz.Stamp { return nodeauthz.Stamp{Time: now, Source: nodeauthz.SourceWatch} }
			var early time.Time
			for i := range 2000 {
				uid := strconv.Itoa(i)
				f.Graph.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "web", UID: uid, NodeName: "n1", Secrets: []string{"db"}}, stamp())
				now = now.Add(c.every)
				f.Graph.DeletePod("shop", "web", uid, stamp())
				early = f.prune(now)
			}
			n := f.Graph.Stats().Tenures
			if n < c.least || n > c.atMost || early.IsZero() == c.early || !f.forgotten.Equal(early) {
				t.Errorf("%d are kept; of %s, what ended by %s is forgotten early (%s)", n, now, early, f.forgotten)
			}
		})
	}
}
