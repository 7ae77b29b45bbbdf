package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rbac"
)

// seconds are how many seconds after the beginning a time is, "" for none.
func seconds(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprint(t.Unix() - at(0).Unix())
}

func lifeWords(l *rbac.GrantLife) string {
	return fmt.Sprintf("%s %s %s %s-%s", l.Binding.Name, l.Role.Name, l.Subject.Name, seconds(l.From), seconds(l.To))
}

func TestGrantLives(t *testing.T) {
	s := rbac.NewStore()
	put(s, at(0),
		clusterRole("system:node", rule("get secrets")), clusterRole("other", rule("list secrets")),
		clusterBinding("legacy", "ClusterRole/system:node", "Group/system:nodes", "User/system:node:worker-1"),
		clusterBinding("other", "ClusterRole/other", "Group/system:nodes"),
		roleBinding("shop", "local", "Role/late", "Group/system:nodes", "ServiceAccount/shop/web"),
		roleBinding("batch", "local", "Role/late", "Group/system:nodes"),
	)
	put(s, at(10), role("shop", "late", rule("get secrets")))
	put(s, at(15), role("shop", "late", rule("get,list secrets"))) // no break
	drop(s, at(20), role("shop", "late"))
	put(s, at(30), role("shop", "late", rule("get secrets")))
	put(s, at(40), clusterBinding("legacy", "ClusterRole/system:node", "Group/system:nodes"))
	put(s, at(50), clusterBinding("legacy", "ClusterRole/other", "Group/system:nodes"))
	put(s, at(60), clusterBinding("legacy", "ClusterRole/system:node", "Group/system:nodes"))
	drop(s, at(70), clusterBinding("legacy", ""))
	var got []string
	for l := range s.GrantLives(node("worker-1", "get secrets shop/db")) {
		got = append(got, lifeWords(&l))
	}
	want := []string{
		"legacy system:node system:nodes 0-50", "legacy system:node system:nodes 60-70", "legacy system:node system:node:worker-1 0-40",
		"local late system:nodes 10-20", "local late system:nodes 30-",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	anyone := func(t time.Time) (out []string) {
		for l := range s.GrantsToAnyone(request("", nil, "get secrets shop/db"), t) {
			out = append(out, lifeWords(&l))
		}
		return out
	}
	for when, want := range map[int][]string{
		-1: nil,
		5:  {"legacy system:node system:nodes 0-50", "legacy system:node system:node:worker-1 0-40"},
		15: {"legacy system:node system:nodes 0-50", "legacy system:node system:node:worker-1 0-40", "local late system:nodes 10-20", "local late web 10-20"},
		20: {"legacy system:node system:nodes 0-50", "legacy system:node system:node:worker-1 0-40"},
		55: {"local late system:nodes 30-", "local late web 30-"},
	} {
		if diff := cmp.Diff(want, anyone(at(when))); diff != "" {
			t.Errorf("anyone at %d (-want +got):\n%s", when, diff)
		}
	}
	for range s.GrantsToAnyone(request("", nil, "get secrets shop/db"), at(15)) {
		break
	}
	for range s.GrantLives(node("worker-1", "get secrets shop/db")) {
		break
	}
	for l := range s.GrantLives(request("jane", nil, "get secrets shop/db")) {
		t.Errorf("jane has %s", lifeWords(&l))
	}
}

// TestGrantLivesAreGrants holds lives against what the store says at each instant, over random histories.
func TestGrantLivesAreGrants(t *testing.T) {
	compared := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(2, seed))
		s := rbac.NewStore()
		s.CoverFrom(at(0))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		for range 40 {
			when, name := at(r.IntN(50)), pick("a", "b", "c")
			subjects := []string{pick("Group/system:nodes", "User/system:node:worker-1", "User/jane"), pick("Group/system:nodes", "Group/all", "ServiceAccount/shop/web")}
			switch r.IntN(8) {
			case 0, 1:
				put(s, when, clusterBinding(name, "ClusterRole/"+pick("x", "y"), subjects...))
			case 2:
				put(s, when, roleBinding(pick("shop", "batch"), name, pick("Role/x", "ClusterRole/x", "Widget/x"), subjects...))
			case 3, 4:
				put(s, when, clusterRole(pick("x", "y"), rule(pick("get secrets", "list secrets", "get pods,secrets"))))
			case 5:
				put(s, when, role("shop", "x", rule(pick("get secrets", "list secrets"))))
			case 6:
				drop(s, when, clusterBinding(name, ""))
			case 7:
				drop(s, when, clusterRole(pick("x", "y")), role("shop", "x"))
			}
		}
		request := node("worker-1", "get secrets shop/db")
		for when := -1; when < 52; when++ {
			var want, got, anyone []rbac.Grant
			for g := range s.Grants(request, at(when)) {
				want = append(want, g)
			}
			for l := range s.GrantLives(request) {
				if l.Covers(at(when)) {
					got = append(got, l.Grant)
				}
			}
			for l := range s.GrantsToAnyone(request, at(when)) {
				if !l.Covers(at(when)) {
					t.Fatalf("seed %d at %d: %s", seed, when, lifeWords(&l))
				}
				anyone = append(anyone, l.Grant)
			}
			sorted := func(list []rbac.Grant) (out []string) {
				for _, g := range list {
					out = append(out, rbac.FormatReason(g))
				}
				slices.Sort(out)
				return out
			}
			if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
				t.Fatalf("seed %d at %d (-grants +lives):\n%s", seed, when, diff)
			}
			mine := slices.DeleteFunc(slices.Clone(anyone), func(g rbac.Grant) bool { return !slices.Contains(want, g) })
			if diff := cmp.Diff(sorted(want), sorted(mine)); diff != "" {
				t.Fatalf("seed %d at %d (-grants +anyone):\n%s", seed, when, diff)
			}
			compared += len(want)
		}
	}
	if compared < 5000 {
		t.Errorf("only %d grants were compared", compared)
	}
}
