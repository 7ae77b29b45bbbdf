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
				sights = append(sights, readiness{since: since, seen: now, first: now, live: r.IntN(2) == 0, ready: ready})
				now++
			}
		}
		read := func(sights []readiness) []readiness {
			l := &nodeLife{}
			for _, s := range sights {
				l.see(s)
			}
			return l.ordered()
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

// TestReadinessByWrongClocks holds that the end of Unknown is right though the kubelet, which writes since when it is Ready, has a wrong clock.
func TestReadinessByWrongClocks(t *testing.T) {
	node := func(status, since string) string {
		return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u","creationTimestamp":%q},"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`,
			at(t, "-9000s").Format(time.RFC3339), status, at(t, since).Format(time.RFC3339))
	}
	begins := event(t, "0s", "ADDED", node("True", "-8000s")) + event(t, "1000s", "MODIFIED", node("Unknown", "1000s"))
	unwatched := func(e string) string {
		return strings.Replace(e, `{`, `{"notBefore":"`+at(t, "1100s").Format(time.RFC3339)+`",`, 1)
	}
	for name, c := range map[string]struct {
		journal string
		want    []Interval
	}{
		"right":               {event(t, "3001s", "MODIFIED", node("True", "3001s")), []Interval{{at(t, "1000s"), at(t, "3001s")}}},
		"behind":              {event(t, "3001s", "MODIFIED", node("True", "2901s")), []Interval{{at(t, "1000s"), at(t, "3001s")}}},
		"behind the silence":  {event(t, "3001s", "MODIFIED", node("True", "900s")), []Interval{{at(t, "1000s"), at(t, "3001s")}}},
		"ahead":               {event(t, "3001s", "MODIFIED", node("True", "3301s")), []Interval{{at(t, "1000s"), at(t, "3001s")}}},
		"not Ready, behind":   {event(t, "3001s", "MODIFIED", node("False", "2901s")), []Interval{{at(t, "1000s"), at(t, "3001s")}}},
		"while nobody looked": {unwatched(event(t, "3001s", "MODIFIED", node("True", "1500s"))), []Interval{{at(t, "1000s"), at(t, "1500s")}}},
		"behind, and nobody looked": {
			unwatched(event(t, "3001s", "MODIFIED", node("True", "900s"))), []Interval{{at(t, "1000s"), at(t, "1000s")}},
		},
		"behind, and silent again": {
			event(t, "1060s", "MODIFIED", node("True", "760s")) + event(t, "3000s", "MODIFIED", node("Unknown", "3000s")) + event(t, "3060s", "MODIFIED", node("True", "2760s")),
			[]Interval{{at(t, "1000s"), at(t, "1060s")}, {at(t, "3000s"), at(t, "3060s")}},
		},
		"ahead, and silent again": {
			event(t, "1060s", "MODIFIED", node("True", "1360s")) + event(t, "1200s", "MODIFIED", node("Unknown", "1200s")), []Interval{{at(t, "1000s"), at(t, "1060s")}, {From: at(t, "1200s")}},
		},
	} {
		if d := cmp.Diff(c.want, load(t, begins+c.journal).Nodes.Lives(at(t, "0s"), at(t, "4000s"))[0].Silent); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

// TestNodeIsMadeWhenItIsSeen holds that a Node was not there before it was made, in the same second: bodies of later writes have its creation in whole seconds. It is the
// same in each order in which they are read.
func TestNodeIsMadeWhenItIsSeen(t *testing.T) {
	node := fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":"w1","uid":"u","creationTimestamp":%q}}`, at(t, "5s").Format(time.RFC3339))
	write := func(when, verb string) func(*State) {
		ev := request(t, when, verb, "nodes", "w1", "", node)
		ev.ObjectRef.Namespace, ev.RequestURI = "", "/api/v1/nodes/w1"
		return func(s *State) { s.ApplyAudit(ev) }
	}
	r := rand.New(rand.NewPCG(9, 10))
	for _, journal := range []string{"", event(t, "5.82s", "ADDED", node)} {
		for range 20 {
			s := NewState()
			if journal != "" {
				s = load(t, journal)
			}
			writes := []func(*State){write("5.81s", "create"), write("5.83s", "patch"), write("7s", "patch"), write("90s", "update")}
			r.Shuffle(len(writes), func(i, j int) { writes[i], writes[j] = writes[j], writes[i] })
			for _, f := range writes {
				f(s)
			}
			for when, want := range map[string]bool{"4.9s": false, "5.2s": false, "5.79s": false, "5.9s": true, "80s": true} {
				if exists, _ := s.Nodes.Known("w1", at(t, when)); exists != want {
					t.Fatalf("with the journal %q, at %s: exists is %v", journal, when, exists)
				}
			}
		}
	}
	// Where nothing saw it being made, its own timestamp is all that there is.
	s := load(t, event(t, "60s", "ADDED", node))
	write("90s", "update")(s)
	if exists, _ := s.Nodes.Known("w1", at(t, "5.2s")); !exists {
		t.Error("a Node that was first seen a minute later was not there")
	}
}
