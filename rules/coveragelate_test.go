package rules

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
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
	if diff := gocmp.Diff([]string{"answers-missing", "verdicts-missing"}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	d, got = restored, nil
	give(level)
	if len(got) > 0 {
		t.Errorf("after a restart: %q", got)
	}
}

// A log has the ends of watches that began before it. What is found does not depend on whether the log is read when it is finished or while it is written, nor on those watches.
func TestCoverageOfWatchesFromBeforeTheLog(t *testing.T) {
	for seed := range uint64(effort.Of(10, 3)) {
		r := rand.New(rand.NewPCG(seed, 5))
		w := cluster(3)
		p := &tale{}
		falls := hour + (12+r.IntN(30))*minute
		p.kubelets(3, hour, 2*hour+30*minute, 10, func(i, second int) bool { return i == 1 && second >= falls })
		bare := &tale{requests: slices.Clone(p.requests)}
		for range 1 + r.IntN(20) {
			began, ends := r.IntN(hour-5*minute), hour+r.IntN(9*minute)
			p.one(began, fmt.Sprintf("worker-%d", 1+r.IntN(2)), does("watch secrets shop/db"), func(q *Request) {
				q.Event.StageTime = q.Time.Add(time.Duration(ends-began) * time.Second)
			})
		}
		find := func(p *tale, o DetectorOptions) (got []string) {
			slices.SortStableFunc(p.requests, func(a, b *Request) int {
				return cmp.Or(later(a).Compare(later(b)), a.Time.Compare(b.Time))
			})
			found := func(f *Detection) { got = append(got, fmt.Sprint(f.Reason, f.Subject, f.Time, f.First, f.Params)) }
			d := NewDetectors([]*Rule{auditCoverageGap()}, o)
			for i, q := range p.requests {
				observeLent(d, q, w)
				if !o.Finished || i%256 == 255 { // as analyze does
					d.Advance(time.Time{}, w, found)
				}
			}
			d.Flush(w, found)
			return got
		}
		want := find(bare, DetectorOptions{})
		if len(want) == 0 || !strings.HasPrefix(want[0], "node-silent") {
			t.Fatalf("seed %d: %q", seed, want)
		}
		for _, finished := range []bool{false, true} {
			if diff := gocmp.Diff(want, find(p, DetectorOptions{Finished: finished})); diff != "" {
				t.Errorf("seed %d, finished %t (-without watches +with)\n%s", seed, finished, diff)
			}
		}
	}
}

// later is when the event of a request was written.
func later(r *Request) time.Time {
	if r.Event.StageTime.After(r.Time) {
		return r.Event.StageTime
	}
	return r.Time
}
