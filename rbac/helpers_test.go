package rbac_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/rbac"
)

// at is an instant so many seconds after the beginning of these tests' world.
func at(seconds int) time.Time { return time.Unix(1_800_000_000+int64(seconds), 0) }

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

// clusterBinding binds subjects such as "User/alice" and
// "ServiceAccount/ns/name" to a role such as "ClusterRole/view".
func clusterBinding(name, to string, subjects ...string) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: roleRef(to), Subjects: subjectsOf(subjects)}
}

func roleBinding(namespace, name, to string, subjects ...string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: roleRef(to), Subjects: subjectsOf(subjects)}
}

func roleRef(to string) rbacv1.RoleRef {
	kind, name, _ := strings.Cut(to, "/")
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func subjectsOf(subjects []string) (out []rbacv1.Subject) {
	for _, s := range subjects {
		kind, name, _ := strings.Cut(s, "/")
		subject := rbacv1.Subject{Kind: kind, Name: name}
		if kind == rbacv1.ServiceAccountKind {
			subject.Namespace, subject.Name, _ = strings.Cut(name, "/")
		}
		out = append(out, subject)
	}
	return out
}

// rule reads "get,list pods,secrets", of the core group unless a third word
// names others, and "get /healthz".
func rule(s string) rbacv1.PolicyRule {
	words := strings.Fields(s)
	if strings.HasPrefix(words[1], "/") {
		return rbacv1.PolicyRule{Verbs: strings.Split(words[0], ","), NonResourceURLs: strings.Split(words[1], ",")}
	}
	r := rbacv1.PolicyRule{Verbs: strings.Split(words[0], ","), Resources: strings.Split(words[1], ","), APIGroups: []string{""}}
	if len(words) > 2 {
		r.APIGroups = strings.Split(words[2], ",")
	}
	return r
}

// put puts objects into the store, each to be so from t on.
func put(s *rbac.Store, t time.Time, objects ...any) {
	for _, o := range objects {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			s.SetClusterRole(o, t)
		case *rbacv1.Role:
			s.SetRole(o, t)
		case *rbacv1.ClusterRoleBinding:
			s.SetClusterRoleBinding(o, t)
		case *rbacv1.RoleBinding:
			s.SetRoleBinding(o, t)
		default:
			panic("not an RBAC object")
		}
	}
}

// drop is put for objects that are no more.
func drop(s *rbac.Store, t time.Time, objects ...any) {
	for _, o := range objects {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			s.DeleteClusterRole(o.Name, t)
		case *rbacv1.Role:
			s.DeleteRole(o.Namespace, o.Name, t)
		case *rbacv1.ClusterRoleBinding:
			s.DeleteClusterRoleBinding(o.Name, t)
		case *rbacv1.RoleBinding:
			s.DeleteRoleBinding(o.Namespace, o.Name, t)
		default:
			panic("not an RBAC object")
		}
	}
}

// request reads "get pods/log ns/name", "list pods ns/" and "get /healthz".
func request(name string, groups []string, s string) *authorizer.AttributesRecord {
	words := strings.Fields(s)
	a := &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: name, Groups: groups}, Verb: words[0]}
	if strings.HasPrefix(words[1], "/") {
		a.Path = words[1]
		return a
	}
	a.ResourceRequest = true
	a.Resource, a.Subresource, _ = strings.Cut(words[1], "/")
	if r, group, ok := strings.Cut(a.Resource, "."); ok {
		a.Resource, a.APIGroup = r, group
	}
	if len(words) > 2 {
		a.Namespace, a.Name, _ = strings.Cut(words[2], "/")
	}
	return a
}

func node(name, s string) *authorizer.AttributesRecord {
	return request("system:node:"+name, []string{"system:nodes", "system:authenticated"}, s)
}

// capturedEvent is a line of testdata/journal.jsonl.
type capturedEvent struct {
	ObservedAt time.Time
	Type       string
	Object     json.RawMessage
}

func readLines[T any](tb testing.TB, file string) (out []T) {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", file))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			tb.Fatalf("%s: %v", file, err)
		}
		out = append(out, v)
	}
	if err := lines.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}

// capturedStore holds the RBAC objects of a real control plane, Kubernetes 1.36
// with the default roles, over the 50 s in which it was watched. What was there
// at first is so from `first` on, at which coverage begins.
func capturedStore(tb testing.TB) (s *rbac.Store, first, last time.Time) {
	tb.Helper()
	s = rbac.NewStore()
	events := readLines[capturedEvent](tb, "journal.jsonl")
	first = slices.MinFunc(events, func(a, b capturedEvent) int { return a.ObservedAt.Compare(b.ObservedAt) }).ObservedAt
	for _, e := range events {
		if last = e.ObservedAt; e.ObservedAt.Before(first.Add(time.Second)) {
			e.ObservedAt = first
		}
		var meta metav1.TypeMeta
		decode(tb, e.Object, &meta)
		var o any
		switch meta.Kind {
		case "ClusterRole":
			o = &rbacv1.ClusterRole{}
		case "Role":
			o = &rbacv1.Role{}
		case "ClusterRoleBinding":
			o = &rbacv1.ClusterRoleBinding{}
		case "RoleBinding":
			o = &rbacv1.RoleBinding{}
		}
		decode(tb, e.Object, o)
		if e.Type == "DELETED" {
			drop(s, e.ObservedAt, o)
		} else {
			put(s, e.ObservedAt, o)
		}
	}
	s.CoverFrom(first)
	return s, first, last
}

func decode(tb testing.TB, data []byte, v any) {
	tb.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		tb.Fatal(err)
	}
}
