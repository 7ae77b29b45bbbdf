package rbac_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rbac"
)

// change is a line such as "5 + object" of an object's life.
type change struct {
	at     time.Time
	gone   bool
	object any
}

func apply(s *rbac.Store, changes ...change) {
	for _, c := range changes {
		if c.gone {
			drop(s, c.at, c.object)
		} else {
			put(s, c.at, c.object)
		}
	}
}

func TestTime(t *testing.T) {
	r := clusterRole("r", rule("get pods"))
	empty := clusterRole("r")
	b := clusterBinding("b", "ClusterRole/r", "Group/system:nodes")
	others := clusterBinding("b", "ClusterRole/r", "Group/others")
	set := func(seconds int, o any) change { return change{at(seconds), false, o} }
	del := func(seconds int, o any) change { return change{at(seconds), true, o} }

	// want has a letter for each second from 0 on: "+" for allowed.
	f := func(name, want string, changes ...change) {
		t.Helper()
		s := rbac.NewStore()
		apply(s, changes...)
		var got strings.Builder
		for i := range len(want) {
			d := s.Authorize(node("w1", "get pods ns/x"), at(i))
			if before := s.Authorize(node("w1", "get pods ns/x"), at(i+1).Add(-time.Nanosecond)); before.Allowed != d.Allowed {
				t.Errorf("%s: changes within second %d", name, i)
			}
			got.WriteByte(map[bool]byte{true: '+', false: '-'}[d.Allowed])
		}
		if got.String() != want {
			t.Errorf("%s: got %s, want %s", name, got.String(), want)
		}
	}
	f("before and after", "--++++", set(0, r), set(2, b))
	f("role later", "---+++", set(1, b), set(3, r))
	f("deleted", "-++---", set(0, r), set(1, b), del(3, b))
	f("deleted and made again", "-++-++", set(0, r), set(1, b), del(3, b), set(4, b))
	f("role deleted and made again", "-++-++", set(0, b), set(1, r), del(3, r), set(4, r))
	f("changed", "-++-+-", set(0, r), set(1, b), set(3, others), set(4, b), set(5, others))
	f("role changed", "-++-++", set(0, b), set(1, r), set(3, empty), set(4, r))
	f("deleted and made again at once", "-+++++", set(0, r), set(1, b), del(3, b), set(3, b))
	f("made and deleted at once", "------", set(0, r), set(1, b), del(1, b))
	f("the last at a time counts", "-++++-", set(0, r), set(1, others), set(1, b), del(5, b))
	f("the last at a time counts, the other way", "------", set(0, r), set(1, b), set(1, others))
	f("again and again", "-++++-", set(0, r), set(1, b), set(2, b), set(2, b), set(4, b), del(5, b))
	f("a late one", "--++++", set(0, r), set(4, b), set(2, b))
	f("a late one that differs", "--++--", set(0, r), set(4, others), set(2, b))
	f("a late deletion", "-+-+++", set(0, r), set(1, b), set(3, b), del(2, b))
	f("a late deletion between the same", "-+-+++", set(0, r), set(1, b), set(5, b), set(3, b), del(2, b))
	f("deleted without having been seen", "----++", set(0, r), del(3, b), set(4, b))
	f("seen after its deletion", "-++---", set(0, r), del(3, b), set(1, b))
	f("other objects' deletions", "++++++", set(0, r), set(0, b), del(1, clusterBinding("c", "")), del(1, clusterRole("q")), del(1, role("ns", "r")), del(1, roleBinding("ns", "b", "")))
}

func TestTimeIsBounded(t *testing.T) {
	s := rbac.NewStore()
	put(s, time.Time{}, clusterRole("r", rule("get pods")))
	put(s, time.Time{}, clusterBinding("b", "ClusterRole/r", "Group/system:nodes"))
	drop(s, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), clusterBinding("b", ""))
	s.CoverFrom(time.Time{})
	for _, c := range []struct {
		t    time.Time
		want bool
	}{
		{time.Time{}, true},
		{time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC), true},
		{time.Unix(-9223372036, 0), true},
		{at(0), true},
		{time.Unix(9223372035, 0), true},
		{time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), false},
	} {
		d := s.Authorize(node("w1", "get pods ns/x"), c.t)
		if d.Allowed != c.want || !d.Known {
			t.Errorf("%v: allowed %v, known %v", c.t, d.Allowed, d.Known)
		}
	}
}

func TestCoverage(t *testing.T) {
	s := rbac.NewStore()
	f := func(seconds int, request string, allowed, known bool) {
		t.Helper()
		d := s.Authorize(node("w1", request), at(seconds))
		if d.Allowed != allowed || d.Known != known {
			t.Errorf("%s at %d: allowed %v, known %v", request, seconds, d.Allowed, d.Known)
		}
		if !allowed && s.Covers(at(seconds)) != known {
			t.Errorf("Covers(%d) = %v", seconds, !known)
		}
	}
	put(s, at(0), clusterRole("r", rule("get pods")), clusterBinding("b", "ClusterRole/r", "Group/system:nodes"))
	f(5, "get pods", true, true)
	f(-1, "get pods", false, false)
	f(5, "get secrets", false, false)

	s.CoverFrom(at(10))
	f(9, "get secrets", false, false)
	f(9, "get pods", true, true)
	f(10, "get secrets", false, true)

	s.CoverFrom(at(12)) // what was known stays so
	f(10, "get secrets", false, true)
	s.CoverFrom(at(8))
	f(8, "get secrets", false, true)
	f(7, "get secrets", false, false)

	s.Prune(at(20))
	f(19, "get secrets", false, false)
	f(19, "get pods", true, true)
	f(20, "get secrets", false, true)
	s.CoverFrom(at(0)) // what was forgotten stays so
	s.Prune(at(15))
	f(19, "get secrets", false, false)
	f(20, "get secrets", false, true)
}

// world makes random changes of a few objects, no two of one object at one
// time.
type world struct {
	rnd   *rand.Rand
	taken map[string]bool
}

var (
	worldNames      = []string{"a", "b", "c"}
	worldNamespaces = []string{"ns", "ms"}
	worldSubjects   = []string{"User/u", "Group/g", "Group/h", "ServiceAccount/ns/s", "ServiceAccount//s", "User/system:serviceaccount:ns:s", "Robot/u", "User/v"}
	worldRules      = []string{"get pods", "list pods", "* secrets", "get */log", "get *", "get /a", "get /b*"}
)

func (w *world) change(seconds int) change {
	pick := func(list []string) string { return list[w.rnd.IntN(len(list))] }
	for {
		c := change{at: at(w.rnd.IntN(seconds)), gone: w.rnd.IntN(3) == 0}
		name, namespace := pick(worldNames), pick(worldNamespaces)
		var rules []rbacv1.PolicyRule
		for range w.rnd.IntN(3) {
			rules = append(rules, rule(pick(worldRules)))
		}
		var subjects []string
		for range []int{0, 1, 2, 3, 20}[w.rnd.IntN(5)] {
			subjects = append(subjects, pick(worldSubjects))
		}
		for i := range w.rnd.IntN(2) * 30 {
			subjects = append(subjects, fmt.Sprintf("User/%d", i))
		}
		to := pick([]string{"ClusterRole/", "ClusterRole/", "Role/", "Rolle/"}) + pick(worldNames)
		kind := w.rnd.IntN(4)
		switch kind {
		case 0:
			c.object, namespace = clusterRole(name, rules...), ""
		case 1:
			c.object = role(namespace, name, rules...)
		case 2:
			c.object, namespace = clusterBinding(name, to, subjects...), ""
		case 3:
			c.object = roleBinding(namespace, name, to, subjects...)
		}
		key := fmt.Sprint(kind, namespace, name, c.at)
		if !w.taken[key] {
			w.taken[key] = true
			return c
		}
	}
}

func worldRequests() (out []*authorizer.AttributesRecord) {
	for _, u := range []struct {
		name   string
		groups []string
	}{{"u", nil}, {"x", []string{"g"}}, {"u", []string{"h", "g", "g"}}, {"system:serviceaccount:ns:s", []string{"h"}}} {
		for _, r := range []string{"get pods ns/x", "list pods", "get pods/log ms/x", "delete secrets ns/x", "get /b"} {
			out = append(out, request(u.name, u.groups, r))
		}
	}
	return out
}

// answers is all that a store says of the world, from a time on.
func answers(s *rbac.Store, from, to int) (out []string) {
	for i := from; i < to; i++ {
		for _, a := range worldRequests() {
			d := s.Authorize(a, at(i))
			out = append(out, fmt.Sprint(i, " ", a.User.GetName(), " ", a.Verb, ": ", reasonOf(d)))
			for g := range s.Grants(a, at(i)) {
				out = append(out, fmt.Sprint("  ", g))
			}
		}
		for b := range s.Bindings(at(i)) {
			out = append(out, fmt.Sprint(i, " ", b))
		}
	}
	return out
}

// TestAnyOrder holds that the order in which changes come does not show, and
// that the answers at an instant are those of a store that only ever held what
// was in force at it.
func TestAnyOrder(t *testing.T) {
	const seconds = 25
	for seed := range effort.Of(uint64(25), 6) {
		w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), taken: map[string]bool{}}
		var changes []change
		for range 120 {
			changes = append(changes, w.change(seconds))
		}
		slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
		inOrder := rbac.NewStore()
		apply(inOrder, changes...)
		want := answers(inOrder, 0, seconds)

		for i := range seconds {
			now := rbac.NewStore()
			for _, c := range changes {
				if !c.at.After(at(i)) {
					c.at = at(0)
					apply(now, c)
				}
			}
			if diff := cmp.Diff(answers(now, i, i+1), answers(inOrder, i, i+1)); diff != "" {
				t.Fatalf("seed %d: at %d (-held alone +over time):\n%s", seed, i, diff)
			}
		}
		for range 3 {
			w.rnd.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
			shuffled := rbac.NewStore()
			apply(shuffled, changes...)
			apply(shuffled, changes[:20]...) // seen twice
			if diff := cmp.Diff(want, answers(shuffled, 0, seconds)); diff != "" {
				t.Fatalf("seed %d (-in order +shuffled):\n%s", seed, diff)
			}
		}
	}
}

// TestPrune holds that nothing shows of what was forgotten before an instant,
// from it on, also when later changes come.
func TestPrune(t *testing.T) {
	const seconds, horizon = 30, 15
	for seed := range effort.Of(uint64(25), 6) {
		w := &world{rnd: rand.New(rand.NewPCG(seed, 2)), taken: map[string]bool{}}
		pruned, whole := rbac.NewStore(), rbac.NewStore()
		var later []change
		for range 150 {
			c := w.change(seconds)
			if c.at.After(at(horizon)) && w.rnd.IntN(2) == 0 {
				later = append(later, c)
				continue
			}
			apply(whole, c)
			apply(pruned, c)
		}
		pruned.Prune(at(horizon - 5))
		pruned.Prune(at(horizon))
		if diff := cmp.Diff(answers(whole, horizon, seconds), answers(pruned, horizon, seconds)); diff != "" {
			t.Fatalf("seed %d (-whole +pruned):\n%s", seed, diff)
		}
		apply(whole, later...)
		apply(pruned, later...)
		pruned.Prune(at(horizon))
		if diff := cmp.Diff(answers(whole, horizon, seconds), answers(pruned, horizon, seconds)); diff != "" {
			t.Fatalf("seed %d, later (-whole +pruned):\n%s", seed, diff)
		}
	}
}

// TestReadersAndWriters is for the race detector, and holds that a reader never
// sees what was never so: the binding exists throughout, under changing roles.
func TestReadersAndWriters(t *testing.T) {
	s := rbac.NewStore()
	put(s, at(0), clusterRole("r", rule("get pods")), clusterBinding("m", "ClusterRole/r", "Group/system:nodes"))
	s.CoverFrom(at(0))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			a := node("w1", "get pods ns/x")
			for {
				select {
				case <-stop:
					return
				default:
				}
				if d := s.Authorize(a, at(1_000_000)); !d.Allowed {
					t.Errorf("not allowed: %+v", d)
					return
				}
				last := ""
				for g := range s.Grants(a, at(1_000_000)) {
					if g.Binding.Kind == rbac.KindRoleBinding {
						if last > g.Binding.Name {
							t.Errorf("%s comes after %s", g.Binding.Name, last)
							return
						}
						last = g.Binding.Name
					}
				}
				for b := range s.Bindings(at(1_000_000)) {
					_ = b.ForNodes()
				}
			}
		})
	}
	for i := range 600 {
		put(s, at(i), clusterBinding("m", "ClusterRole/r", "Group/system:nodes", fmt.Sprintf("User/%d", i)))
		put(s, at(i), clusterRole("r", rule("get pods"), rule(fmt.Sprintf("get r%d", i))))
		put(s, at(i), roleBinding("ns", fmt.Sprintf("b%03d", i*7919%200), "ClusterRole/r", "User/system:node:w1", "Group/system:nodes"))
		drop(s, at(i), roleBinding("ns", fmt.Sprintf("b%03d", i%200), ""))
		if i%100 == 99 {
			s.Prune(at(i - 50))
		}
	}
	close(stop)
	readers.Wait()
}
