package days

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// Of a node that has been dead since before the log, only the state tells that a kubelet's request from elsewhere is not the kubelet's.
func TestTheftOfADeadNode(t *testing.T) {
	day := clean(t, 31, Options{Span: leastSpan})
	own := func(e *Event) bool {
		return e.Stage == StageComplete && e.Code == 201 && e.Ref != nil && e.Ref.Subresource == "token" && e.Received.Before(day.To.Add(-6*minute))
	}
	tried := 0
	for _, like := range day.Events {
		if tried == 3 || !own(like) {
			continue
		}
		node := nodeOf(like.User)
		if node == "" {
			continue
		}
		for _, address := range []string{"198.51.100.7", like.SourceIPs[0]} {
			d := day.copyOf()
			m := &mutator{newRand(7, d.Seed), d}
			theft := *like
			theft.SourceIPs = []string{address}
			d.Events = slices.DeleteFunc(d.Events, func(e *Event) bool { return nodeOf(e.User) == node })
			m.add(&theft)
			m.dead(node)
			got := slices.ContainsFunc(analyze(t, d).Findings, func(f report.Finding) bool {
				return f.Severity == rules.Critical.String() && f.Node == node && f.Name == theft.Ref.Name && f.Reason == rules.SecretTaken
			})
			if want := address != like.SourceIPs[0]; got != want {
				t.Errorf("%s/%s of node %s from %s: found %t, want %t", theft.Ref.Namespace, theft.Ref.Name, node, address, got, want)
			}
		}
		tried++
	}
	if tried == 0 {
		t.Fatal("no kubelet asks for a token")
	}
}

// dead has the control plane hear nothing of the node from before the day on.
func (m *mutator) dead(node string) {
	for i, e := range m.State {
		if e.Kind != "Node" || e.Name != node || e.Object == nil {
			continue
		}
		o := maps.Clone(e.Object)
		status := maps.Clone(o["status"].(map[string]any))
		status["conditions"] = []map[string]any{{"type": "Ready", "status": "Unknown", "lastTransitionTime": m.From.Add(-time.Hour).UTC().Format(time.RFC3339)}}
		o["status"] = status
		m.State[i] = entry(e.At, e.Type, o)
	}
}
