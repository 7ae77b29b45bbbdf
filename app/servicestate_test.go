package app

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/cluster"
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
