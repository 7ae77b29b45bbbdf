package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/pipeline/source"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

const (
	laneOne = "kafka:audit/0"
	laneTwo = "kafka:audit/1"
)

// renewed is a log in which worker-2 renews its lease for two hours.
func renewed() []logLine {
	var lines []logLine
	for s := 0; s < 7200; s += 20 {
		at := epoch.Add(time.Duration(s) * time.Second)
		lines = append(lines, logLine{counts: audit.Counts{Read: 1}, events: []audit.Event{{
			AuditID: fmt.Sprintf("renewed-%05d", len(lines)), Stage: audit.StageResponseComplete, Verb: "update", HasObjectRef: true,
			RequestURI: "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-2",
			ObjectRef:  audit.ObjectRef{Resource: "leases", Namespace: "kube-node-lease", Name: "worker-2", APIGroup: "coordination.k8s.io", APIVersion: "v1"},
			User:       audit.User{Username: "system:node:worker-2", Groups: []string{"system:nodes"}}, UserAgent: "kubelet/v1",
			RequestReceived: at, StageTime: at.Add(time.Millisecond), Decision: "allow", Code: 200,
		}}})
	}
	return lines
}

// upTo are the lines of the first minutes.
func upTo(lines []logLine, minutes int) []logLine {
	end := epoch.Add(time.Duration(minutes) * time.Minute)
	return lines[:slices.IndexFunc(append(lines[:len(lines):len(lines)], logLine{events: []audit.Event{{RequestReceived: end}}}), func(l logLine) bool {
		return !l.events[0].RequestReceived.Before(end)
	})]
}

func (h *harness) startsAnew() (*Engine, func()) {
	h.opt = EngineOptions{Settle: time.Millisecond, CommitEvery: time.Millisecond, Detectors: newDetectors()}
	e, _, stop := h.start()
	return e, stop
}

func gaps(sum *tally.Tally) (out []string) {
	for k, g := range sum.Groups {
		if k.Rule == rules.CoverageGap {
			out = append(out, fmt.Sprint(k.Reason, " ", k.Node, " ", g.Count))
		}
	}
	return out
}

// Of two processes with one store one is done with its lane before the other one begins with its own, or continues after a restart: neither is late for that,
// and each finds in its lane what one process finds.
func TestLanesKeepTheirTime(t *testing.T) {
	once := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	e, stop := once.startsAnew()
	if !tailUnder(t.Context(), t, e, laneTwo, 1, searched(), rand.New(rand.NewPCG(1, 1))) {
		t.Fatal("not stored")
	}
	stop()
	want := overTime(once.store.sum)
	if len(want) != 1 {
		t.Fatalf("%d groups", len(want))
	}
	for _, parts := range []int{1, 2, 5} {
		h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
		first, stopFirst := h.startsAnew()
		if !tailUnder(t.Context(), t, first, laneOne, 1, renewed(), rand.New(rand.NewPCG(1, 2))) {
			t.Fatal("not stored")
		}
		for part := 1; part <= parts; part++ {
			second, stopSecond := h.startsAnew()
			if !tailUnder(t.Context(), t, second, laneTwo, int64(part), upTo(searched(), 120*part/parts), rand.New(rand.NewPCG(1, 3))) {
				t.Fatal("not stored")
			}
			stopSecond()
		}
		stopFirst()
		if diff := cmp.Diff(want, overTime(h.store.sum)); diff != "" {
			t.Errorf("in %d parts (-one process +two):\n%s", parts, diff)
		}
		if all := gaps(h.store.sum); len(all) > 0 {
			t.Errorf("in %d parts: %v", parts, all)
		}
	}
}

// A lane goes from one process to another, back, and comes to a third one, while the first continues with its other lane. No node is silent for that, and what is known of a node goes
// with its lane: a search that takes as long as each process has it for is found as by one process, but for the last minutes before a change of hands.
func TestLanesChangeHands(t *testing.T) {
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	a, stopA := h.startsAnew()
	b, stopB := h.startsAnew()
	fence := int64(0)
	have := func(e *Engine, lane string, lines []logLine, minutes int) {
		t.Helper()
		fence++
		if !tailUnder(t.Context(), t, e, lane, fence, upTo(lines, minutes), rand.New(rand.NewPCG(2, uint64(fence)))) {
			t.Fatal("not stored")
		}
	}
	owner := a
	for minutes := 1; minutes <= 120; minutes++ { // both lanes at a time, as the log is
		have(owner, laneTwo, searched(), minutes)
		have(a, laneOne, renewed(), minutes)
		owner.Close(laneTwo)
		a.Close(laneOne) // and opens it again, as in each generation of a group
		if minutes%20 == 0 && owner == a {
			owner = b
		} else if minutes%20 == 0 {
			owner = a
		}
	}
	stopA()
	stopB()
	if all := gaps(h.store.sum); len(all) > 0 {
		t.Errorf("silent: %v", all)
	}
	found := overTime(h.store.sum)
	if len(found) != 1 {
		t.Fatalf("%d groups", len(found))
	}
	for k, g := range found {
		if k.Rule != "secret-enumeration" || k.Node != "worker-1" || g.Count < 80 || g.Severity != rules.Critical {
			t.Errorf("%+v: %+v", k, g)
		}
	}
	// What is stored of a node is its lane's.
	for _, m := range h.store.memory {
		if strings.HasPrefix(m.Kind, laneKind) && strings.HasSuffix(m.Key, "\x00worker-1") && !strings.HasPrefix(m.Key, laneTwo) ||
			strings.HasSuffix(m.Key, "\x00worker-2") && !strings.HasPrefix(m.Key, laneOne) || m.Key == "worker-1" || m.Key == "worker-2" {
			t.Errorf("%s %q", m.Kind, m.Key)
		}
	}
}

// searchedFor is how many objects are stored of worker-1's search.
func (h *harness) searchedFor() int {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	for _, m := range h.store.memory {
		if m.Kind == laneKind+"enumeration" && m.Key == laneTwo+"\x00worker-1" {
			var of struct {
				Objects []json.RawMessage `json:"o"`
			}
			if err := json.Unmarshal(m.Value, &of); err != nil {
				h.t.Error(err)
			}
			return len(of.Objects)
		}
	}
	return 0
}

// Two processes have a lane in turns, and nothing else, so that the time of the one stands still while the other has it. Each continues with what the other
// one remembers.
func TestLaneGoesBackAndForth(t *testing.T) {
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	a, stopA := h.startsAnew()
	b, stopB := h.startsAnew()
	for turn := 1; turn <= 6; turn++ {
		e := []*Engine{b, a}[turn%2]
		if !tailUnder(t.Context(), t, e, laneTwo, int64(turn), upTo(searched(), 10*turn), rand.New(rand.NewPCG(4, uint64(turn)))) {
			t.Fatal("not stored")
		}
		e.Close(laneTwo)
	}
	stopA()
	stopB()
	if n := h.searchedFor(); n < 50 {
		t.Errorf("%d of 60 objects are remembered", n)
	}
}

// A process that does not know yet that its lane is another one's does not change what is stored of the lane.
func TestFencedLaneKeepsItsMemory(t *testing.T) {
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	a, stopA := h.startsAnew()
	b, stopB := h.startsAnew()
	rnd := rand.New(rand.NewPCG(5, 5))
	if !tailUnder(t.Context(), t, a, laneTwo, 1, upTo(searched(), 15), rnd) || !tailUnder(t.Context(), t, b, laneTwo, 2, upTo(searched(), 60), rnd) {
		t.Fatal("not stored")
	}
	stopB()
	want := h.searchedFor()
	late := batchOf(upTo(searched(), 30)[len(upTo(searched(), 15)):])
	late.Lane, late.Position, late.Wait = laneTwo, "900", true
	ended := make(chan error, 1)
	if err := a.Take(t.Context(), late, func(err error) { ended <- err }); err != nil {
		t.Fatal(err)
	}
	if !tailUnder(t.Context(), t, a, laneOne, 1, renewed(), rnd) {
		t.Fatal("not stored")
	}
	if err := <-ended; !errors.Is(err, source.ErrFenced) {
		t.Errorf("the lane that another process has: %v", err)
	}
	stopA()
	if got := h.searchedFor(); got != want || want < 50 {
		t.Errorf("%d objects are remembered, were %d", got, want)
	}
}

// What a process remembered of its own log is not that of a lane which it has later.
func TestLaneHasNoMemoryOfOthers(t *testing.T) {
	h := &harness{t: t, store: newModelStore(), mode: "Node,RBAC"}
	e, stop := h.startsAnew()
	if !tail(t.Context(), t, e, "file:a", upTo(renewed(), 60), rand.New(rand.NewPCG(6, 1))) {
		t.Fatal("not stored")
	}
	stop()
	e, stop = h.startsAnew()
	if !tailUnder(t.Context(), t, e, laneTwo, 1, searched(), rand.New(rand.NewPCG(6, 2))) {
		t.Fatal("not stored")
	}
	stop()
	if all := gaps(h.store.sum); len(all) > 0 {
		t.Errorf("silent: %v", all)
	}
}

// What is stored for the lanes comes back for each as it was, and that of a lane which the process does not have is not stored.
func TestPlaced(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	names := []string{"kafka:audit/0", "kafka:audit/1", "kafka:audit/10", "file:a", "file:\x00"}
	for range 300 {
		e := &Engine{parts: &partitions{open: map[string]*partition{noteLane: {name: noteLane}}}, fenced: true}
		stays, home := false, ""
		for _, name := range names {
			if rnd.IntN(2) == 0 {
				continue
			}
			l := &partition{name: name}
			if strings.HasPrefix(name, "kafka") {
				l.fence = 1 + rnd.Int64N(5)
				if home == "" {
					home = name
				}
			}
			stays = stays || l.fence == 0
			e.parts.open[name] = l
		}
		if stays {
			home = ""
		}
		got, open := e.home()
		if got != home || open != (stays || home != "") {
			t.Fatalf("home %q %t, want %q", got, open, home)
		}
		want := map[string][]rules.Remembered{}
		var all []rules.Remembered
		for i := range rnd.IntN(20) {
			m := rules.Remembered{Kind: []string{"x", rules.RememberedWatermark}[rnd.IntN(2)], Key: fmt.Sprint(names[rnd.IntN(len(names))], "\x00", i), Value: []byte{byte(i)}}
			stored := m
			switch {
			case m.Kind == rules.RememberedWatermark:
				for _, l := range e.parts.open {
					if l.fence != 0 || l.name != noteLane && stays && !slices.ContainsFunc(want[""], func(o rules.Remembered) bool { return o.Key == m.Key }) {
						lane := ""
						if l.fence != 0 {
							lane = l.name
						}
						want[lane] = append(want[lane], stored)
					}
				}
			case rnd.IntN(2) == 0:
				m.OfNode, m.Lane = true, []string{"", names[0], names[1], names[2]}[rnd.IntN(4)]
				if m.Lane == "" && stays || m.Lane != "" && e.parts.open[m.Lane] != nil {
					want[m.Lane] = append(want[m.Lane], stored)
				}
			default:
				want[home] = append(want[home], stored)
			}
			all = append(all, m)
		}
		if !open {
			continue
		}
		stored := e.placed(home, all)
		for _, lane := range append([]string{""}, names[:3]...) {
			if diff := cmp.Diff(want[lane], remembersOf(lane, stored), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("lane %q (-want +got):\n%s", lane, diff)
			}
			if rest := without(lane, slices.Clone(stored)); lane != "" && len(rest) != len(stored)-len(want[lane]) {
				t.Fatalf("%d of %d are not of lane %q, which has %d", len(rest), len(stored), lane, len(want[lane]))
			}
		}
	}
}
