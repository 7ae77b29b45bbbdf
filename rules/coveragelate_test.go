package rules

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Of several logs that are read from their beginnings one may be far behind: its nodes were not silent, and what nobody answered there counts.
func TestCoverageOfLateRequests(t *testing.T) {
	w := cluster(3)
	var got []string
	found := func(f *Detection) { got = append(got, string(f.Reason)) }
	d := NewDetectors([]*Rule{auditCoverageGap()}, DetectorOptions{})
	give := func(p *tale) {
		p.sort()
		for _, r := range p.requests {
			observeLent(d, r, w)
		}
		d.Advance(time.Time{}, w, found)
	}
	ahead, behind, level := &tale{}, &tale{}, &tale{}
	ahead.kubelets(2, 0, 2*hour, 10, nil)
	behind.one(10, "worker-3", lease("worker-3"))
	behind.one(20*minute, "worker-3", unanswered)
	behind.one(20*minute+1, "worker-3", unanswered)
	behind.one(30*minute, "worker-3", verdict(nodeauthz.Unknown), agent("calico-node/v3"), granted("Group system:nodes"))
	level.kubelets(3, 2*hour, 2*hour+20*minute, 10, nil)
	give(ahead)
	give(behind)
	restored := NewDetectors([]*Rule{auditCoverageGap()}, DetectorOptions{})
	if err := restored.Restore(d.Changes()); err != nil {
		t.Fatal(err)
	}
	give(level)
	if d.Late() != 4 {
		t.Errorf("%d were late", d.Late())
	}
	if diff := cmp.Diff([]string{"answers-missing", "verdicts-missing"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	d, got = restored, nil
	give(level)
	if len(got) > 0 {
		t.Errorf("after a restart: %q", got)
	}
}
