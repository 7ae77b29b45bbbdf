package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodetrail/nodetrail/rbac"
)

// TestBindingsAreIdentified puts versions, repeated sightings and deletions of a binding in any order: from the latest change on its UID and
// resource version are known, and before it none is said, since a deletion must not meet another version than the one that was looked at.
func TestBindingsAreIdentified(t *testing.T) {
	type sighting struct {
		at           int
		uid, version string // no uid is a deletion
	}
	known, unknown := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		var all []sighting
		var last, now sighting // since when it is as it is in the end
		for i := range 12 {
			was := now
			now.at = 2 * (i + 1)
			switch r.IntN(6) {
			case 0:
				now.uid, now.version = "", ""
			case 1:
				now.uid, now.version = fmt.Sprint("u", i), fmt.Sprint(100+i)
			case 2: // from a body that has none
				now.uid, now.version = "u", ""
			case 3:
				if now.uid != "" {
					now.version = fmt.Sprint(100 + i)
				}
			}
			if now.uid != was.uid || now.version != was.version || now.version == "" {
				last = now
			}
			all = append(all, now)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		s := rbac.NewStore()
		s.SetClusterRole(clusterRole("system:node"), at(0))
		for _, x := range all {
			if x.uid == "" {
				s.DeleteClusterRoleBinding("nodes", at(x.at))
				continue
			}
			b := clusterBinding("nodes", "ClusterRole/system:node", "Group/system:nodes")
			b.UID, b.ResourceVersion = types.UID(x.uid), x.version
			s.SetClusterRoleBinding(b, at(x.at))
		}
		for second := range 30 {
			for b := range s.Bindings(at(second)) {
				want := last
				if second < last.at {
					want = sighting{}
					unknown++
				} else if want.version != "" {
					known++
				}
				if b.UID != want.uid || b.ResourceVersion != want.version {
					t.Fatalf("seed %d: at %d it is %q %q, want %+v of %+v", seed, second, b.UID, b.ResourceVersion, want, all)
				}
			}
		}
	}
	if known < 100 || unknown < 100 {
		t.Errorf("known %d times, unknown %d times", known, unknown)
	}
}
