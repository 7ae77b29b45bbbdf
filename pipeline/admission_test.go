package pipeline

import (
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/rules"
)

// writeEvent is a write of worker-1 that authorization allowed.
func writeEvent(verb, resource, name string, code int32, body string) *audit.Event {
	return &audit.Event{
		Verb: verb, Code: code, Decision: "allow", RequestObject: []byte(body), ObjectRef: audit.ObjectRef{Resource: resource, Namespace: "shop", Name: name, APIVersion: "v1"},
		User: audit.User{Username: "system:node:worker-1", Groups: []string{"system:nodes"}},
	}
}

func TestAdmissionOfJudge(t *testing.T) {
	v, err := nodeadmission.VersionOf("1.36.3")
	if err != nil {
		t.Fatal(err)
	}
	store, at := nodeadmission.NewStore(), time.Unix(1_800_000_000, 0)
	store.CoverFrom(nodeadmission.KindPod, at.Add(-time.Hour))
	store.SetPod("shop", "web", &nodeadmission.Pod{UID: "u", Node: "worker-2"}, nodeadmission.Moment{Time: at.Add(-time.Minute)})
	j := &Judge{Admission: nodeadmission.New(v, store.State(nil), 0), Blind: nodeadmission.New(v, nodeadmission.State{}, 0)}
	for _, c := range []struct {
		name  string
		ev    *audit.Event
		early bool
		want  nodeadmission.Verdict
	}{
		{"a pod of another node", writeEvent("delete", "pods", "web", 200, ""), false, nodeadmission.Deny},
		{"before the state has caught up", writeEvent("delete", "pods", "web", 200, ""), true, nodeadmission.Unknown},
		{"by names, before the state has caught up", writeEvent("patch", "nodes", "worker-2", 200, ""), true, nodeadmission.Deny},
		{"an object that is not there", writeEvent("patch", "nodes", "worker-2", 404, ""), false, nodeadmission.None},
		{"a read", writeEvent("get", "nodes", "worker-2", 200, ""), false, nodeadmission.None},
	} {
		attrs := &authorizer.AttributesRecord{Verb: c.ev.Verb, APIVersion: "v1", Resource: c.ev.ObjectRef.Resource, Namespace: "shop", Name: c.ev.ObjectRef.Name, ResourceRequest: true}
		out := &Judgement{Request: rules.Request{Event: c.ev, Attrs: attrs, Time: at, Node: "worker-1", IsNode: true}}
		j.Early = c.early
		j.admission(out)
		if out.Admission.Verdict != c.want {
			t.Errorf("%s: %+v, want %v", c.name, out.Admission, c.want)
		}
	}
}

// stays are those of one pod, whatever its name.
type stays struct {
	rules.State
	all []nodeauthz.Stay
}

func (s stays) PodStays(_, _, uid string, from, to time.Time, f func(*nodeauthz.Stay)) {
	for _, x := range s.all {
		if x.Is = uid == "u"; !x.Begin.After(to) && (x.End.IsZero() || !x.End.Before(from)) {
			f(&x)
		}
	}
}

// A token or a certificate for a pod that was on the node a moment ago may be one by a clock that is ahead.
func TestBoundByClock(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	stay := func(node string, from, to time.Duration) nodeauthz.Stay {
		return nodeauthz.Stay{Node: node, Begin: at.Add(from), End: at.Add(to), UIDKnown: true}
	}
	token := func(uid string) string {
		return `{"kind":"TokenRequest","spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"web","uid":"` + uid + `"}}}`
	}
	unknown := stay("worker-1", -time.Minute, -time.Second)
	unknown.UIDKnown = false
	for _, c := range []struct {
		name, resource, sub, body string
		stay                      nodeauthz.Stay
		want                      bool
	}{
		{"a token", "serviceaccounts", "token", token("u"), stay("worker-1", -time.Minute, -time.Second), true},
		{"a certificate", "podcertificaterequests", "", `{"spec":{"podName":"web","podUID":"u"}}`, stay("worker-1", -time.Minute, -time.Second), true},
		{"before the pod is there", "serviceaccounts", "token", token("u"), stay("worker-1", time.Second, time.Minute), true},
		{"another pod of the name", "serviceaccounts", "token", token("v"), stay("worker-1", -time.Minute, -time.Second), false},
		{"on another node", "serviceaccounts", "token", token("u"), stay("worker-2", -time.Minute, -time.Second), false},
		{"long ago", "serviceaccounts", "token", token("u"), stay("worker-1", -time.Hour, -11*time.Minute), false},
		{"while it is there", "serviceaccounts", "token", token("u"), stay("worker-1", -time.Minute, time.Minute), false},
		{"of an unknown UID", "serviceaccounts", "token", token("u"), unknown, false},
		{"no body", "serviceaccounts", "token", "", stay("worker-1", -time.Minute, -time.Second), false},
		{"a pod", "pods", "", token("u"), stay("worker-1", -time.Minute, -time.Second), false},
	} {
		group := ""
		if c.resource == "podcertificaterequests" {
			group = "certificates.k8s.io"
		}
		attrs := &authorizer.AttributesRecord{Verb: "create", APIGroup: group, Resource: c.resource, Subresource: c.sub, Namespace: "shop", ResourceRequest: true}
		j := &Judge{State: stays{all: []nodeauthz.Stay{c.stay}}}
		if got := j.boundByClock(&nodeadmission.Request{Attributes: attrs, Body: []byte(c.body)}, &rules.Request{Attrs: attrs, Time: at, Node: "worker-1"}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A request that waits keeps the body that the plugin reads, and no other.
func TestKeptBodies(t *testing.T) {
	for _, c := range []struct {
		ev   *audit.Event
		want bool
	}{
		{writeEvent("patch", "nodes", "worker-1", 200, "{}"), true},
		{writeEvent("create", "pods", "p", 201, "{}"), true},
		{writeEvent("create", "events", "e", 201, "{}"), false},
		{writeEvent("patch", "nodes", "worker-1", 200, string(make([]byte, maxBody+1))), false},
	} {
		if got := kept(c.ev).RequestObject != nil; got != c.want {
			t.Errorf("%s %s, %d bytes: kept %t", c.ev.Verb, c.ev.ObjectRef.Resource, len(c.ev.RequestObject), got)
		}
	}
	other := writeEvent("patch", "nodes", "worker-1", 200, "{}")
	other.User = audit.User{Username: "admin"}
	if kept(other).RequestObject != nil {
		t.Error("the body of somebody who is no node is kept")
	}
}
