package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// TestReadinessWithinASecond holds that a Node which became Ready in the second in which it was made is Ready, whatever is read first: its journal, or the bodies of
// an audit log. Times of conditions have whole seconds.
func TestReadinessWithinASecond(t *testing.T) {
	node := func(status string) string {
		return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u","creationTimestamp":%q},"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`,
			at(t, "0s").Format(time.RFC3339), status, at(t, "0s").Format(time.RFC3339))
	}
	journal := event(t, "0.2s", "ADDED", node("False")) + event(t, "0.5s", "MODIFIED", node("True"))
	created := request(t, "0.2s", "create", "nodes", "w1", node("False"), node("False"))
	created.ObjectRef.Namespace, created.RequestURI = "", "/api/v1/nodes"
	deleted := event(t, "9s", "DELETED", node("True"))
	for name, s := range map[string]*State{
		"journal": load(t, journal), "deletion": load(t, deleted), "journal first": load(t, journal), "deletion first": load(t, deleted),
	} {
		if strings.HasSuffix(name, "first") {
			s.ApplyAudit(created)
		}
		lives := s.Nodes.Lives(at(t, "1s"), at(t, "8s"))
		if len(lives) != 1 {
			t.Fatalf("%s: %+v", name, lives)
		}
		if n := lives[0].NotReady; len(n) > 1 || len(n) == 1 && n[0].To.IsZero() {
			t.Errorf("%s: not Ready in %v", name, n)
		}
	}
}

// TestReadinessInAnyOrder holds that what is known of a Node does not depend on the order in which the same sights of it are read.
func TestReadinessInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	together := 0
	for range effort.Of(2000, 200) {
		var sights []readiness
		now, ready := base.UnixNano(), false
		for range 2 + r.IntN(12) {
			now += r.Int64N(int64(1500*time.Millisecond)) + 1
			ready = !ready
			since := now - now%second
			if n := len(sights); n > 0 && sights[n-1].since == since {
				together++
			}
			for range 1 + r.IntN(2) {
				sights = append(sights, readiness{since: since, seen: now, ready: ready})
				now++
			}
		}
		read := func(sights []readiness) []readiness {
			l := &nodeLife{}
			for _, s := range sights {
				l.see(s)
			}
			return l.ready
		}
		want := read(sights)
		shuffled := slices.Clone(sights)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if d := cmp.Diff(want, read(shuffled), cmp.AllowUnexported(readiness{})); d != "" {
			t.Fatalf("%v (-in order +shuffled):\n%s", shuffled, d)
		}
		if last := want[len(want)-1]; last.ready != ready {
			t.Fatalf("%v: the last one is lost: %v", sights, want)
		}
	}
	if together < 100 {
		t.Errorf("only %d transitions were in the second of the one before", together)
	}
}
