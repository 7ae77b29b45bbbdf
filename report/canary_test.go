package report

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

// TestCanaryIsForCanariesAlone applies what is written and deletes the group's binding, for random canaries: the request of a canary is
// allowed by RBAC as if there were no binding, and that of anybody else as if nothing had been changed.
func TestCanaryIsForCanariesAlone(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		c := captured.Open(t, name, "auto")
		var legacy rbac.BindingInfo
		nodes := c.State.Nodes.Names(c.State.Summary().To)
		r := rand.New(rand.NewPCG(4, 4))
		all := make([]*trial, effort.Of(12, 4))
		for i := range all {
			all[i] = &trial{}
			for _, n := range nodes {
				if r.IntN(3) == 0 {
					all[i].canaries = append(all[i].canaries, n)
				}
			}
			all[i].builder = NewCanaryBuilder(all[i].canaries)
		}
		c.Replay(func(j *pipeline.Judgement) {
			if b, there := legacyAt(c.State.RBAC, j.Time); there {
				legacy = b
			}
			for _, x := range all {
				x.builder.Add(j)
			}
		})
		c = captured.Open(t, name, "auto")
		store := c.State.RBAC
		goes := func(g rbac.Grant) bool { return g.Binding == legacy.Binding }
		for _, x := range all {
			x.after = store.Change(goes, x.objects(t, legacy, nodes))
		}
		now, gone := store.Change(nil, nil), store.Change(goes, nil)
		broke, kept, gained := 0, 0, 0
		c.Replay(func(j *pipeline.Judgement) {
			if _, there := legacyAt(store, j.Time); !there || !ConcernsNodes(j) {
				return
			}
			allowed := func(change *rbac.Change) bool { return store.AuthorizeUnder(change, j.Attrs, j.Time).Allowed }
			asNow, without := allowed(now), allowed(gone)
			breaks := (&WhatIf{RBAC: store, Change: gone, Then: []string{"Node", "RBAC"}}).Of(j).Outcome == Breaks
			for _, x := range all {
				node, ours := strings.CutPrefix(j.Event.Effective().Username, nodeid.UserPrefix)
				canary, want := ours && slices.Contains(x.canaries, node), asNow
				if canary {
					want = without
				}
				if u := j.Event.Effective(); !slices.Contains(u.Groups, user.NodesGroup) && slices.Contains(x.gain, u.Username) {
					want = allowed(x.after) // which is said
					gained++
				}
				switch got := allowed(x.after); {
				case got != want:
					t.Fatalf("%s, canaries %q: %s %s %s of %s: allowed %t, want %t", name, x.canaries, j.Attrs.Verb, j.Attrs.Resource, j.Attrs.Name,
						j.Event.Effective().Username, got, want)
				case canary && breaks:
					broke++
				case breaks:
					kept++
				}
			}
		})
		if broke < 20 || kept < 20 || gained == 0 {
			t.Errorf("%s: %d requests of canaries break, %d of others would without the names, %d gain", name, broke, kept, gained)
		}
	}
}

// trial is a choice of canaries.
type trial struct {
	canaries []string
	builder  *CanaryBuilder
	after    *rbac.Change
	gain     []string
}

// objects are what is written, read back.
func (x *trial) objects(t *testing.T, legacy rbac.BindingInfo, nodes []string) *rbac.Objects {
	t.Helper()
	var text bytes.Buffer
	canary := x.builder.Canary([]rbac.BindingInfo{legacy}, nodes)
	x.gain = canary.Gain
	if err := canary.WriteYAML(&text); err != nil {
		t.Fatal(err)
	}
	objects, _, err := ReadManifest(&text)
	if err != nil || objects.Len() != 1 {
		t.Fatalf("%+v, %v", objects, err)
	}
	return objects
}

// legacyAt is the binding of the captures that gives the group of nodes the role system:node, where it is there.
func legacyAt(s *rbac.Store, at time.Time) (rbac.BindingInfo, bool) {
	for b := range s.Bindings(at) {
		if b.Binding.Name == "legacy:system:node" {
			return b, true
		}
	}
	return rbac.BindingInfo{}, false
}

// What binds others beyond the group still binds them, and a canary is in no binding by another subject.
func TestCanaryKeepsOtherSubjects(t *testing.T) {
	b := NewCanaryBuilder([]string{"w1"})
	for _, name := range []string{"system:node:w1", "system:node:w2", "odd"} {
		b.Add(&pipeline.Judgement{Request: rules.Request{Event: &audit.Event{User: audit.User{Username: name, Groups: []string{user.NodesGroup}}}}})
	}
	info := func(kind, namespace, name string, subjects ...rbac.SubjectRef) rbac.BindingInfo {
		return rbac.BindingInfo{
			Binding: rbac.BindingRef{Kind: kind, Namespace: namespace, Name: name}, Role: rbac.RoleRef{Kind: "ClusterRole", Name: "r"}, Subjects: subjects, RoleExists: true,
		}
	}
	group := rbac.SubjectRef{Kind: rbacv1.GroupKind, Name: user.NodesGroup}
	person := func(name string) rbac.SubjectRef { return rbac.SubjectRef{Kind: rbacv1.UserKind, Name: name} }
	c := b.Canary([]rbac.BindingInfo{
		info(rbac.KindClusterRoleBinding, "", "a", person("system:node:w1"), group, person("system:node:w2"), person("admin"),
			rbac.SubjectRef{Kind: rbacv1.ServiceAccountKind, Namespace: "n", Name: "s"}),
		info(rbac.KindRoleBinding, "shop", "b", group),
		info(rbac.KindClusterRoleBinding, "", "c", person("system:node:w3")),
	}, []string{"w1", "w2", "w3"})
	var got []string
	for _, b := range c.ClusterRoleBindings {
		for _, s := range b.Subjects {
			got = append(got, fmt.Sprintf("%s %s %s %s", b.RoleRef.Name, s.Kind, s.Namespace, s.Name))
		}
	}
	for _, b := range c.RoleBindings {
		for _, s := range b.Subjects {
			got = append(got, fmt.Sprintf("%s: %s", b.Namespace, s.Name))
		}
	}
	want := []string{"r User  odd", "r User  system:node:w2", "r User  system:node:w3", "r User  admin", "r ServiceAccount n s", "shop: odd", "shop: system:node:w2", "shop: system:node:w3"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
