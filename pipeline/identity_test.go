package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
)

// A client chooses the auditID, and many a log has times in whole seconds, or none of when a request was received. What differs in anything that two events of one request
// share is another request, and is judged. Copies of one event are not.
func TestOneAuditIDForDifferentRequests(t *testing.T) {
	for name, change := range map[string]func(*audit.Event){
		"answered otherwise":        func(ev *audit.Event) { ev.Code = 403 },
		"as somebody else":          func(ev *audit.Event) { ev.IsImpersonated, ev.Impersonated.Username = true, "somebody" },
		"as somebody without name":  func(ev *audit.Event) { ev.IsImpersonated = true },
		"by another user":           func(ev *audit.Event) { ev.User.Username = "system:node:n2" },
		"from another address":      func(ev *audit.Event) { ev.SourceIPs = []string{"10.0.0.9"} },
		"by another program":        func(ev *audit.Event) { ev.UserAgent = "curl/8" },
		"in the log of a provider":  nil,
		"without the time received": nil,
	} {
		for order := range 2 {
			for _, stages := range [][]audit.Stage{
				{audit.StageResponseComplete},
				{audit.StageRequestReceived, audit.StageResponseComplete},
				{audit.StageRequestReceived, audit.StageResponseStarted, audit.StageResponseComplete},
			} {
				var events []audit.Event
				for i := range 2 {
					for _, stage := range stages {
						ev := get("same", stage, 1000, "allow", "")
						ev.StageTime = at(1000)
						switch {
						case name == "in the log of a provider":
							ev.Derived, ev.RequestURI, ev.ObjectRef.Name = true, "", fmt.Sprint("db-", i)
						case name == "without the time received":
							ev.RequestReceived, ev.StageTime = time.Time{}, at(1000+60_000*i)
						case i == order && stage != audit.StageRequestReceived:
							change(&ev)
						}
						events = append(events, ev)
					}
				}
				if (name == "in the log of a provider" || name == "without the time received") && len(stages) > 2 {
					continue // which of the two an event between belongs to, nothing tells
				}
				var got []seenJudgement
				s, _ := newTestStream(t, "Node,RBAC", Options{}, collect(&got))
				feed(t, s, 3, slices.Concat(events, events, events)...)
				if len(got) != 2 || s.Counts().Judged > 2 {
					t.Errorf("%s, %v, the other %d: judged %d times, want 2: %v", name, stages, order, len(got), got)
				}
			}
		}
	}
}

// Whatever the stages and copies of requests that have nothing but the auditID in common with others, and in whatever order their events come, each is judged once.
func TestStagesAndCopiesAreOneRequest(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 2))
	for round := range 200 {
		var events []audit.Event
		n := 1 + rng.IntN(8)
		for i := range n {
			of := get("same", audit.StageRequestReceived, 1000*i, "", "")
			for _, stage := range []audit.Stage{audit.StageRequestReceived, audit.StageResponseStarted, audit.StageResponseComplete} {
				if stage != audit.StageResponseComplete && rng.IntN(2) == 0 {
					continue
				}
				ev := get("same", stage, 1000*i, "allow", "")
				ev.RequestReceived = of.RequestReceived
				if ev.Stage != audit.StageRequestReceived {
					ev.Code = int32(200 + i%3)
				}
				for range 1 + rng.IntN(3) {
					events = append(events, ev)
				}
			}
		}
		rng.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		var got []seenJudgement
		s, _ := newTestStream(t, "Node,RBAC", Options{Slack: time.Minute}, collect(&got))
		if feed(t, s, 1+rng.IntN(9), events...); len(got) != n {
			t.Errorf("round %d: %d requests were judged %d times", round, n, len(got))
		}
	}
}
