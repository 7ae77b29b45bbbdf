package pipeline

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// What a node had when it was cut off counts as known to its kubelet until ten minutes after it is back. Nothing else does, and not on a node that was not silent.
func TestHeard(t *testing.T) {
	var b strings.Builder
	at := func(clock string) time.Time {
		when, err := time.Parse(time.RFC3339, "2026-11-10T"+clock+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	write := func(clock, verb, object string, args ...any) {
		fmt.Fprintf(&b, `{"observedAt":%q,"type":%q,"object":%s}`+"\n", at(clock).Format(time.RFC3339), verb, fmt.Sprintf(object, args...))
	}
	node := func(clock, verb, name, ready string) {
		write(clock, verb, `{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"uid":"u-%s","creationTimestamp":"2026-11-09T00:00:00Z"},`+
			`"status":{"conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`, name, name, ready, at(clock).Format(time.RFC3339))
	}
	pod := func(clock, verb, name, on, secret string) {
		write(clock, verb, `{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"namespace":"db","uid":"p-%s","creationTimestamp":"2026-11-09T00:00:00Z"},`+
			`"spec":{"nodeName":%q,"volumes":[{"name":"v","secret":{"secretName":%q}}]}}`, name, name, on, secret)
	}
	node("09:00:00", "ADDED", "w1", "True")
	node("09:00:00", "ADDED", "w2", "True")
	pod("09:00:01", "ADDED", "early", "w1", "early")
	pod("09:00:01", "ADDED", "db-1", "w1", "s1")
	pod("09:00:01", "ADDED", "db-2", "w2", "s2")
	pod("09:45:00", "DELETED", "early", "w1", "early")
	node("10:00:00", "MODIFIED", "w1", "Unknown")
	pod("10:05:00", "DELETED", "db-1", "w1", "s1")
	pod("10:05:00", "DELETED", "db-2", "w2", "s2")
	node("10:40:00", "MODIFIED", "w1", "True")
	node("12:00:00", "MODIFIED", "w2", "True")
	node("10:00:00", "ADDED", "w3", "Unknown") // never back, and made again
	pod("10:00:01", "ADDED", "old", "w3", "s3")
	pod("10:05:00", "DELETED", "old", "w3", "s3")
	write("10:10:00", "DELETED", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w3","uid":"u-w3"}}`)
	write("10:20:00", "ADDED", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"w3","uid":"u-w3b","creationTimestamp":"2026-11-10T10:20:00Z"},`+
		`"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":"2026-11-10T10:20:00Z"}]}}`)
	s := cluster.NewState()
	if err := s.Load([]string{"-"}, strings.NewReader(b.String())); err != nil {
		t.Fatal(err)
	}
	f, err := nodeauthz.FeaturesFor("")
	if err != nil {
		t.Fatal(err)
	}
	v := NewView(s, nodeauthz.NewAuthorizer(s.Graph, f, time.Second))
	for _, c := range []struct {
		clock, node, pod, secret string
		had                      bool
	}{
		{"10:20:00", "w1", "db-1", "s1", true},
		{"10:41:00", "w1", "db-1", "s1", true},
		{"10:49:00", "w1", "db-1", "s1", true},
		{"10:51:00", "w1", "db-1", "s1", false},
		{"10:41:00", "w1", "early", "early", false}, // gone before
		{"10:41:00", "w1", "db-2", "s2", false},     // another node's
		{"10:12:00", "w3", "old", "s3", true},
		{"10:41:00", "w3", "old", "s3", false},
		{"13:00:00", "w3", "old", "s3", false},
		{"10:14:00", "w2", "db-2", "s2", true},
		{"10:41:00", "w2", "db-2", "s2", false},
	} {
		a := &authorizer.AttributesRecord{Verb: "watch", APIVersion: "v1", Resource: "secrets", Namespace: "db", Name: c.secret, ResourceRequest: true}
		if got := v.Had(a, c.node, at(c.clock)); got != c.had {
			t.Errorf("at %s %s had secret %s: %t", c.clock, c.node, c.secret, got)
		}
		if got := v.HadPod("db", c.pod, c.node, at(c.clock)); got != c.had {
			t.Errorf("at %s %s had pod %s: %t", c.clock, c.node, c.pod, got)
		}
	}
}
