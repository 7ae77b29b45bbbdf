package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// searched is a log in which worker-1 looks for a new secret every minute of two hours, and is refused each time.
func searched() []logLine {
	var lines []logLine
	add := func(at time.Time, edit func(*audit.Event)) {
		ev := audit.Event{
			AuditID: fmt.Sprintf("search-%05d", len(lines)), Stage: audit.StageResponseComplete, Verb: "update", HasObjectRef: true,
			RequestURI: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1",
			ObjectRef:  audit.ObjectRef{Resource: "leases", Namespace: "kube-node-lease", Name: "worker-1", APIGroup: "coordination.k8s.io", APIVersion: "v1"},
			User:       audit.User{Username: "system:node:worker-1", Groups: []string{"system:nodes"}}, UserAgent: "kubelet/v1",
			RequestReceived: at, StageTime: at.Add(time.Millisecond), Decision: "allow", Code: 200,
		}
		if edit != nil {
			edit(&ev)
		}
		lines = append(lines, logLine{events: []audit.Event{ev}, counts: audit.Counts{Read: 1}})
	}
	for s := 0; s < 7200; s += 20 {
		add(epoch.Add(time.Duration(s)*time.Second), nil)
		if s%60 == 0 {
			add(epoch.Add(time.Duration(s+1)*time.Second), func(ev *audit.Event) {
				name := fmt.Sprintf("s-%d", s/60)
				ev.Verb, ev.RequestURI = "get", "/api/v1/namespaces/shop/secrets/"+name
				ev.ObjectRef = audit.ObjectRef{Resource: "secrets", Namespace: "shop", Name: name, APIVersion: "v1"}
				ev.Decision, ev.Code = "forbid", 403
				ev.Reason = "no relationship found between node 'worker-1' and this object"
			})
		}
	}
	return lines
}

// overTime are the groups of the rules that need several requests.
func groupsOverTime(sum *tally.Tally) map[tally.Key]tally.Group {
	out := map[tally.Key]tally.Group{}
	for k, g := range sum.Groups {
		if i := slices.IndexFunc(rules.All(), func(r *rules.Rule) bool { return r.Name == k.Rule }); i >= 0 && rules.All()[i].NewDetector != nil &&
			k.Rule != rules.CoverageGap && k.Rule != "node-credential-misuse" {
			c := *g
			c.AuditIDs = nil
			out[k] = c
		}
	}
	return out
}

// groupsNow are those of what is stored by now.
func (h *harness) groupsNow() map[tally.Key]tally.Group {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return groupsOverTime(h.store.sum)
}

func newDetectors() *rules.Detectors { return rules.NewDetectors(rules.All(), rules.DetectorOptions{}) }

// What engines find, stopped and started again and given what they have again, is what detectors find that see the log once.
func TestEngineDetects(t *testing.T) {
	lines := searched()
	want := tally.New()
	d, judge := newDetectors(), judgeOf(t, loaded(t, captureJournal), "Node,RBAC")
	for i := range lines {
		j := judge.Judge(&lines[i].events[0])
		d.Observe(&j.Request, judge.State)
		d.Advance(time.Time{}, judge.State, func(f *rules.Detection) {
			e := DetectionEntry(f, nil)
			want.Add(&e)
		})
	}
	found := groupsOverTime(want)
	for k, g := range found {
		if k.Rule != "secret-enumeration" || k.Node != "worker-1" || g.Count < 100 || g.Severity != rules.Critical {
			t.Errorf("%+v: %+v", k, g)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d groups", len(found))
	}

	rnd := rand.New(rand.NewPCG(5, 6))
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	for begin := 0; begin < len(lines); {
		h.opt = EngineOptions{
			Settle: 5 * time.Millisecond, CommitEvery: time.Millisecond, LeaseEvery: time.Millisecond, HoldFor: time.Millisecond, Detectors: newDetectors(),
		}
		e, _, stop := h.start()
		end := min(begin+20+rnd.IntN(100), len(lines))
		if !tail(t.Context(), t, e, fmt.Sprint("file:", begin), lines[max(0, begin-10):end], rnd) { // some come again, by another lane
			t.Fatal("not stored")
		}
		if end == len(lines) {
			h.until(func() bool { return len(cmp.Diff(found, h.groupsNow())) == 0 })
		}
		stop()
		begin = end
	}
	if diff := cmp.Diff(found, groupsOverTime(h.store.sum)); diff != "" {
		t.Errorf("(-once +engines):\n%s", diff)
	}
	if got := h.store.sum.Sums.Allow + h.store.sum.Sums.Deny + h.store.sum.Sums.Unknown; got != int64(len(lines)) {
		t.Errorf("%d requests, want %d", got, len(lines))
	}
}

// A rule that is disabled finds nothing over time either, and in a silent log the clock moves time on until what came in is judged.
func TestEngineDetectsInSilence(t *testing.T) {
	lines := searched()[:40] // the last denial is ten seconds from the end
	for _, disabled := range []bool{false, true} {
		h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
		var later atomic.Int64
		h.opt = EngineOptions{
			Settle: 5 * time.Millisecond, CommitEvery: time.Millisecond, LeaseEvery: time.Millisecond, Detectors: newDetectors(),
			Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
		}
		e, _, stop := h.start()
		err := e.Do(t.Context(), func() {
			if disabled {
				e.opt.Judge.Rules = slices.DeleteFunc(e.opt.Judge.Rules, func(r *rules.Rule) bool { return r.Name == "secret-enumeration" })
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if !tail(t.Context(), t, e, "file:a", lines, rand.New(rand.NewPCG(1, 1))) {
			t.Fatal("not stored")
		}
		h.silence(&later, e)
		stop()
		groups := groupsOverTime(h.store.sum)
		if disabled && len(groups) > 0 || !disabled && len(groups) != 1 {
			t.Errorf("disabled %t: %+v", disabled, groups)
		}
		for _, g := range groups {
			if want := epoch.Add(9*time.Minute + time.Second); !g.Last.Equal(want) {
				t.Errorf("the last is of %v, want %v", g.Last, want)
			}
		}
	}
}
