package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rbac"
)

// rightsText is all that a store has of bindings and of what they give.
func rightsText(s *rbac.Store) (out string) {
	for b := range s.BindingsDuring(time.Unix(0, 0), time.Unix(1<<32, 0)) {
		out += fmt.Sprintf("%+v\n", b)
	}
	for r := range s.RightsDuring(time.Time{}, time.Time{}) {
		out += fmt.Sprintf("%+v\n", r)
	}
	return out
}

// Whatever changes what a store has changes the count of its changes, and reading changes nothing.
func TestChanges(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test's
	for range 200 {
		s := rbac.NewStore()
		for step := range 40 {
			count, text := s.Changes(), rightsText(s)
			when, name := at(step+random.IntN(20)-10), fmt.Sprint("o", random.IntN(2))
			verb := []string{"get", "list"}[random.IntN(2)]
			kind := random.IntN(9)
			switch kind {
			case 0:
				put(s, when, clusterRole(name, rule(verb+" secrets")))
			case 1:
				put(s, when, role("shop", name, rule(verb+" secrets")))
			case 2:
				put(s, when, clusterBinding(name, "ClusterRole/"+name, "Group/"+verb))
			case 3:
				put(s, when, roleBinding("shop", name, "Role/"+name, "Group/"+verb))
			case 4:
				drop(s, when, clusterRole(name))
			case 5:
				drop(s, when, role("shop", name))
			case 6:
				drop(s, when, clusterBinding(name, ""))
			case 7:
				drop(s, when, roleBinding("shop", name, ""))
			default:
				s.Prune(when)
			}
			if s.Changes() == count && rightsText(s) != text {
				t.Fatalf("operation %d changed the store, and is not counted", kind)
			}
		}
		count := s.Changes()
		if rightsText(s); s.Changes() != count {
			t.Fatal("reading is counted")
		}
	}
}
