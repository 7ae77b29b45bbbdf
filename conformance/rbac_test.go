package conformance

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
	upstreamrbac "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"

	"github.com/nodetrail/nodetrail/rbac"
)

var rbacHistories = flag.Int("rbac-histories", 300, "random histories of roles and bindings to play")

// TestRBAC plays random histories of roles and bindings to the reference's RBAC authorizer and to ours.
func TestRBAC(t *testing.T) {
	var n int
	for seed := range uint64(*rbacHistories) {
		w := newRBACWorld(rand.New(SeedSource(seed)))
		for range 20 + w.r.IntN(40) {
			w.now = w.now.Add(time.Second)
			w.change()
			for range 12 {
				w.ask(t, seed)
				n++
			}
			if t.Failed() {
				return
			}
		}
		w.again(t, seed, "later", w.store)
		other := rbac.NewStore()
		other.CoverFrom(epoch())
		for _, i := range w.r.Perm(len(w.told)) {
			w.told[i](other)
		}
		w.again(t, seed, "in another order", other)
		before := epoch().Add(10 * time.Second)
		other.Prune(before)
		w.asked = slicesAfter(w.asked, before)
		w.again(t, seed, "after a prune", other)
		if t.Failed() {
			return
		}
	}
	t.Logf("%d requests", n)
	result.RBAC = n
}

// rbacWorld holds the objects of now for the reference, and their history for ours.
type rbacWorld struct {
	r        *rand.Rand
	now      time.Time
	store    *rbac.Store
	told     []func(*rbac.Store)
	asked    []rbacAsked
	roles    cache.Indexer
	clusters cache.Indexer
	// bindings in the order of their names: the reference goes by that of a map, ours by name.
	bindings        map[string]*rbacv1.RoleBinding
	clusterBindings map[string]*rbacv1.ClusterRoleBinding
	upstream        *upstreamrbac.RBACAuthorizer
}

type rbacAsked struct {
	at    time.Time
	attrs *authorizer.AttributesRecord
	want  outcome
}

func slicesAfter(list []rbacAsked, t time.Time) (out []rbacAsked) {
	for _, a := range list {
		if !a.at.Before(t) {
			out = append(out, a)
		}
	}
	return out
}

func newRBACWorld(r *rand.Rand) *rbacWorld {
	w := &rbacWorld{
		r: r, now: epoch(), store: rbac.NewStore(),
		roles:    cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc}),
		clusters: cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{}),
		bindings: map[string]*rbacv1.RoleBinding{}, clusterBindings: map[string]*rbacv1.ClusterRoleBinding{},
	}
	w.store.CoverFrom(w.now)
	w.upstream = upstreamrbac.New(
		&upstreamrbac.RoleGetter{Lister: rbaclisters.NewRoleLister(w.roles)}, bindingLists{w},
		&upstreamrbac.ClusterRoleGetter{Lister: rbaclisters.NewClusterRoleLister(w.clusters)}, bindingLists{w},
	)
	return w
}

func (w *rbacWorld) inNamespace(namespace string) (out []*rbacv1.RoleBinding) {
	for _, b := range w.bindings {
		if b.Namespace == namespace {
			out = append(out, b)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func (w *rbacWorld) all() (out []*rbacv1.ClusterRoleBinding) {
	for _, b := range w.clusterBindings {
		out = append(out, b)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func (w *rbacWorld) tell(f func(*rbac.Store, time.Time)) {
	at := w.now
	f(w.store, at)
	w.told = append(w.told, func(s *rbac.Store) { f(s, at) })
}

func (w *rbacWorld) pick(list ...string) string { return list[w.r.IntN(len(list))] }
func (w *rbacWorld) chance(percent int) bool    { return w.r.IntN(100) < percent }
func (w *rbacWorld) namespace() string          { return w.pick("a", "b") }
func (w *rbacWorld) name(kind string) string    { return kind + strconv.Itoa(w.r.IntN(4)) }

func (w *rbacWorld) change() {
	gone := w.chance(25)
	switch w.r.IntN(4) {
	case 0:
		o := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: w.name("role")}, Rules: w.rules()}
		if gone {
			must(w.roles.Delete(o))
			w.tell(func(s *rbac.Store, t time.Time) { s.DeleteRole(o.Namespace, o.Name, t) })
			return
		}
		must(w.roles.Add(o))
		w.tell(func(s *rbac.Store, t time.Time) { s.SetRole(o, t) })
	case 1:
		o := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.name("clusterrole")}, Rules: w.rules()}
		if w.chance(20) { // whatever it selects, only the rules that a controller filled in count
			o.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}
		}
		if gone {
			must(w.clusters.Delete(o))
			w.tell(func(s *rbac.Store, t time.Time) { s.DeleteClusterRole(o.Name, t) })
			return
		}
		must(w.clusters.Add(o))
		w.tell(func(s *rbac.Store, t time.Time) { s.SetClusterRole(o, t) })
	case 2:
		o := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace(), Name: w.name("binding")}, RoleRef: w.roleRef(true), Subjects: w.subjects()}
		key := o.Namespace + "/" + o.Name
		if gone {
			delete(w.bindings, key)
			w.tell(func(s *rbac.Store, t time.Time) { s.DeleteRoleBinding(o.Namespace, o.Name, t) })
			return
		}
		w.bindings[key] = o
		w.tell(func(s *rbac.Store, t time.Time) { s.SetRoleBinding(o, t) })
	case 3:
		o := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: w.name("binding")}, RoleRef: w.roleRef(false), Subjects: w.subjects()}
		if gone {
			delete(w.clusterBindings, o.Name)
			w.tell(func(s *rbac.Store, t time.Time) { s.DeleteClusterRoleBinding(o.Name, t) })
			return
		}
		w.clusterBindings[o.Name] = o
		w.tell(func(s *rbac.Store, t time.Time) { s.SetClusterRoleBinding(o, t) })
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *rbacWorld) roleRef(namespaced bool) rbacv1.RoleRef {
	ref := rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: w.name("clusterrole")}
	if w.chance(15) || namespaced && w.chance(50) {
		ref.Kind, ref.Name = "Role", w.name("role")
	}
	if w.chance(4) {
		ref.Kind = "Rule"
	}
	return ref
}

func (w *rbacWorld) subjects() (out []rbacv1.Subject) {
	for w.chance(65) {
		s := rbacv1.Subject{Name: w.pick("u0", "u1", "system:nodes", "system:authenticated", "system:node:n0", "sa0", "system:serviceaccount:a:sa0", "*")}
		s.Kind = w.pick("User", "Group", "ServiceAccount", "User", "Group", "ServiceAccount", "Machine", "group")
		if s.Kind == "ServiceAccount" || w.chance(10) {
			s.Namespace = w.pick("", "a", "b")
		}
		out = append(out, s)
	}
	if w.chance(3) {
		for i := range 30 {
			out = append(out, rbacv1.Subject{Kind: "User", Name: "u" + strconv.Itoa(i)})
		}
	}
	return out
}

func (w *rbacWorld) some(list ...string) (out []string) {
	for range w.r.IntN(3) {
		out = append(out, w.pick(list...))
	}
	return out
}

func (w *rbacWorld) rules() (out []rbacv1.PolicyRule) {
	for w.chance(60) {
		r := rbacv1.PolicyRule{Verbs: w.some("get", "list", "*", "create", "")}
		if w.chance(20) {
			r.NonResourceURLs = w.some("*", "/a", "/a/*", "/a**", "/*/a", "/", "", "a*")
		} else {
			r.APIGroups = w.some("", "*", "apps", "a*")
			r.Resources = w.some("pods", "*", "pods/log", "*/log", "pods/*", "*/*", "nodes", "", "/log", "log", "*/")
			if w.chance(30) {
				r.ResourceNames = w.some("x", "y", "*", "")
			}
		}
		if w.chance(5) {
			r.NonResourceURLs = []string{"/a"}
		}
		out = append(out, r)
	}
	return out
}

func (w *rbacWorld) attributes() *authorizer.AttributesRecord {
	u := &user.DefaultInfo{Name: w.pick("u0", "u1", "u20", "system:node:n0", "system:serviceaccount:a:sa0", "system:serviceaccount:b:sa0", "sa0", "*", "")}
	u.Groups = w.some("system:nodes", "system:authenticated", "*", "u0")
	a := &authorizer.AttributesRecord{User: u, Verb: w.pick("get", "list", "create", "delete", "*", "")}
	if w.chance(20) {
		a.Path = w.pick("/", "/a", "/a/b", "/a/", "/ab", "/x/a", "", "*", "a")
		return a
	}
	a.ResourceRequest = true
	a.Namespace = w.pick("", "a", "b", "c")
	a.APIGroup = w.pick("", "apps", "*", "a")
	a.Resource = w.pick("pods", "nodes", "*", "", "pods/log")
	a.Subresource = w.pick("", "", "log", "*", "status", "og")
	a.Name = w.pick("", "x", "y", "z", "*")
	return a
}

func (w *rbacWorld) ask(t *testing.T, seed uint64) {
	t.Helper()
	a := w.attributes()
	d, reason, err := w.upstream.Authorize(context.Background(), a)
	if err != nil {
		t.Fatal(err)
	}
	q := rbacAsked{at: w.now, attrs: a, want: outcome{d == authorizer.DecisionAllow, reason}}
	w.asked = append(w.asked, q)
	w.check(t, seed, "now", w.store, &q)
}

func (w *rbacWorld) again(t *testing.T, seed uint64, phase string, s *rbac.Store) {
	t.Helper()
	for i := range w.asked {
		w.check(t, seed, phase, s, &w.asked[i])
	}
}

func (w *rbacWorld) check(t *testing.T, seed uint64, phase string, s *rbac.Store, q *rbacAsked) {
	t.Helper()
	d := s.Authorize(q.attrs, q.at)
	if got := (outcome{d.Allowed, d.Reason()}); got != q.want || !d.Known {
		t.Errorf("seed %d, %s: %s\nreference: %s\nrbac:      %s (known %t)", seed, phase, fmt.Sprintf("%+v", *q.attrs), words(q.want), words(got), d.Known)
		return
	}
	if !d.Allowed {
		return
	}
	if g, ok := rbac.ParseReason(q.want.reason); !ok || g != d.Grant {
		t.Errorf("seed %d: the reason %q reads as %+v, not %+v", seed, q.want.reason, g, d.Grant)
	}
}
