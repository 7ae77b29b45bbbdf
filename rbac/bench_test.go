package rbac_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rbac"
)

// TestNoAllocation holds that to decide does not allocate memory.
func TestNoAllocation(t *testing.T) {
	s, first, _ := capturedStore(t)
	legacy := first.Add(20 * time.Second)
	isLegacy := func(g rbac.Grant) bool { return g.Binding.Name == "legacy:system:node" }
	for _, r := range []string{"get pods ns/x", "get secrets ns/x", "delete deployments.apps ns/x", "get /healthz", "create pods/binding ns/x"} {
		a := node("worker-1", r)
		if n := testing.AllocsPerRun(100, func() {
			s.Authorize(a, legacy)
			s.AuthorizeWithout(a, legacy, isLegacy)
		}); n != 0 {
			t.Errorf("%s: %v allocations", r, n)
		}
	}
}

func BenchmarkAuthorize(b *testing.B) {
	s, first, _ := capturedStore(b)
	legacy := first.Add(20 * time.Second)
	without := func(g rbac.Grant) bool { return g.Binding.Name == "legacy:system:node" }
	for _, c := range []struct {
		name, request string
		at            time.Time
		without       func(rbac.Grant) bool
		allowed       bool
	}{
		{"allow", "get secrets shop/db", legacy, nil, true},
		{"allow-last-rule", "get serviceaccounts ns/x", legacy, nil, true},
		{"allow-ambient", "get /healthz", legacy, nil, true},
		{"deny", "delete secrets shop/db", legacy, nil, false},
		{"deny-no-binding", "get secrets shop/db", first, nil, false},
		{"without", "get secrets shop/db", legacy, without, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			a := node("worker-1", c.request)
			if d := s.AuthorizeWithout(a, c.at, c.without); d.Allowed != c.allowed {
				b.Fatalf("%+v", d)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.AuthorizeWithout(a, c.at, c.without)
			}
		})
	}
	b.Run("parallel", func(b *testing.B) {
		b.ReportAllocs()
		b.RunParallel(func(p *testing.PB) {
			a := node("worker-1", "get secrets shop/db")
			for p.Next() {
				s.Authorize(a, legacy)
			}
		})
	})
}

// BenchmarkAuthorizeLarge decides in a cluster with 5,000 namespaces with role
// bindings of their own, and a binding of each of 5,000 nodes by name.
func BenchmarkAuthorizeLarge(b *testing.B) {
	s, first, _ := capturedStore(b)
	var nodes []string
	for i := range 5000 {
		ns := fmt.Sprintf("team-%d", i)
		put(s, first, roleBinding(ns, "edit", "ClusterRole/edit", "Group/"+ns, "ServiceAccount//default"), roleBinding(ns, "view", "ClusterRole/view", "Group/"+ns))
		nodes = append(nodes, fmt.Sprintf("User/system:node:worker-%d", i))
	}
	put(s, first, clusterBinding("each-node", "ClusterRole/system:node", nodes...))
	a := node("worker-4711", "get secrets team-4711/db")
	if d := s.Authorize(a, first); !d.Allowed {
		b.Fatalf("%+v", d)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Authorize(a, first)
	}
}

// BenchmarkSet changes a binding among 10,000, as time continues.
func BenchmarkSet(b *testing.B) {
	s, first, _ := capturedStore(b)
	for i := range 10000 {
		put(s, first, roleBinding(fmt.Sprint("ns", i%100), fmt.Sprint("b", i), "ClusterRole/edit", "Group/g"))
	}
	one, two := roleBinding("ns1", "b1", "ClusterRole/edit", "Group/g"), roleBinding("ns1", "b1", "ClusterRole/edit", "Group/g", "User/u")
	b.ReportAllocs()
	t := first
	for i := 0; b.Loop(); i++ {
		if t = t.Add(time.Millisecond); i%2 == 0 {
			s.SetRoleBinding(one, t)
		} else {
			s.SetRoleBinding(two, t)
		}
	}
}

func BenchmarkParseReason(b *testing.B) {
	const reason = `RBAC: allowed by ClusterRoleBinding "legacy:system:node" of ClusterRole "system:node" to Group "system:nodes"`
	b.ReportAllocs()
	b.SetBytes(int64(len(reason)))
	for b.Loop() {
		if _, ok := rbac.ParseReason(reason); !ok {
			b.Fatal("not parsed")
		}
	}
}
