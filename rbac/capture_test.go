package rbac_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/rbac"
)

// capturedRequest is a line of testdata/requests.jsonl: a request with what the
// real API server, with the authorizers Node and RBAC, said of it. It is only
// there if RBAC was asked.
type capturedRequest struct {
	Time                                          time.Time
	User                                          string
	Groups                                        []string
	Verb                                          string
	Group, Resource, Subresource, Namespace, Name string
	Path                                          string
	Decision, Reason                              string
}

func (r *capturedRequest) attributes() *authorizer.AttributesRecord {
	return &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: r.User, Groups: r.Groups}, Verb: r.Verb,
		APIGroup: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		Path: r.Path, ResourceRequest: r.Path == "",
	}
}

func TestCapture(t *testing.T) {
	s, _, _ := capturedStore(t)
	requests := readLines[capturedRequest](t, "requests.jsonl")
	allowed := 0
	for _, r := range requests {
		a := r.attributes()
		d := s.Authorize(a, r.Time)
		if !d.Known {
			t.Errorf("unknown: %+v", r)
		}
		if r.Decision == "forbid" {
			if d.Allowed {
				t.Errorf("allowed by %+v, was forbidden: %+v", d.Grant, r)
			}
			continue
		}
		allowed++
		ways := slices.Collect(s.Grants(a, r.Time))
		if !slices.ContainsFunc(ways, func(g rbac.Grant) bool { return rbac.FormatReason(g) == r.Reason }) {
			t.Errorf("not among %+v: %+v", ways, r)
		}
		g, ok := rbac.ParseReason(r.Reason)
		if !ok {
			t.Errorf("not parsed: %s", r.Reason)
		}
		if g.Binding.Name == "legacy:system:node" && !g.Ambient() {
			without := s.AuthorizeWithout(a, r.Time, func(g rbac.Grant) bool { return g.Binding.Name == "legacy:system:node" })
			if without.Allowed && !without.Grant.Ambient() {
				t.Errorf("allowed still, by %+v: %+v", without.Grant, r)
			}
		}
	}
	if allowed < 100 || len(requests)-allowed < 200 {
		t.Errorf("only %d of %d requests were allowed", allowed, len(requests))
	}
}

func TestCaptureBindings(t *testing.T) {
	s, first, last := capturedStore(t)
	f := func(t0 time.Time, want string) {
		t.Helper()
		var got []string
		for b := range s.Bindings(t0) {
			if b.ForNodes() {
				got = append(got, b.Binding.Name)
			}
			if !b.RoleExists {
				t.Errorf("%+v has no role", b.Binding)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("at %v: bindings for nodes are %v, want %s", t0, got, want)
		}
	}
	f(first, "")
	f(first.Add(20*time.Second), "legacy:system:node")
	f(last.Add(-time.Second), "kubelet-secret-get")
	f(last, "")
}
