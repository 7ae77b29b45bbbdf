package app

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// A node comes back, and a pod of its was deleted by force meanwhile. The binding lets its kubelet through, which continues as it would without the binding and gets nothing
// that it did not have. What no kubelet does then, or not from there, is still critical.
func TestNodeReturnsWithTheBinding(t *testing.T) {
	const (
		secret = "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Donly-bank"
		other  = "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Danother"
	)
	for _, c := range []struct {
		name, verb, uri, resource, object string
		code                              int
		change                            func(e *days.Event)
		critical                          bool
	}{
		{"the pod is gone", "get", "/api/v1/namespaces/shop/pods/bank-0", "pods", "bank-0", 404, nil, false},
		{"so is its token", "create", "/api/v1/namespaces/shop/serviceaccounts/bank/token", "serviceaccounts/token", "bank", 404, nil, false},
		{"a watch", "watch", secret + "&watch=true", "secrets", "only-bank", 200, nil, false},
		{"a list", "list", secret, "secrets", "only-bank", 200, nil, false},
		{"its claim", "get", "/api/v1/namespaces/shop/persistentvolumeclaims/data-bank-0", "persistentvolumeclaims", "data-bank-0", 200, nil, false},
		{"in vain", "get", "/api/v1/namespaces/shop/secrets/only-bank", "secrets", "only-bank", 503, nil, false},
		{"to a busy API server", "get", "/api/v1/namespaces/shop/pods/bank-0", "pods", "bank-0", 429, func(e *days.Event) { e.Decision, e.DecisionReason = "", "" }, false},
		{"a get", "get", "/api/v1/namespaces/shop/secrets/only-bank", "secrets", "only-bank", 200, nil, true},
		{"all secrets", "list", "/api/v1/namespaces/shop/secrets", "secrets", "", 200, nil, true},
		{"a secret that the node never had", "watch", other + "&watch=true", "secrets", "another", 200, nil, true},
		{"another client", "watch", secret + "&watch=true", "secrets", "only-bank", 200, func(e *days.Event) { e.UserAgent = "curl/8.5.0" }, true},
		{"from elsewhere", "watch", secret + "&watch=true", "secrets", "only-bank", 200, func(e *days.Event) { e.SourceIPs = []string{"203.0.113.9"} }, true},
		{"long after it came back", "watch", secret + "&watch=true", "secrets", "only-bank", 200, func(e *days.Event) {
			e.Received, e.Staged = e.Received.Add(15*time.Minute), e.Staged.Add(15*time.Minute)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, like := cutOffDay(t)
			e := *like
			resource, sub, _ := strings.Cut(c.resource, "/")
			e.AuditID, e.Verb, e.URI, e.Code = "aaaaaaaa-0000-4000-8000-000000000000", c.verb, c.uri, c.code
			e.Ref = &days.Ref{Version: "v1", Resource: resource, Subresource: sub, Namespace: "shop", Name: c.object}
			e.Request, e.Level, e.Decision = nil, days.LevelMetadata, "allow"
			e.DecisionReason = `RBAC: allowed by ClusterRoleBinding "legacy:system:node" of ClusterRole "system:node" to Group "system:nodes"`
			if c.code == 404 {
				e.Message, e.Reason = "not found", "NotFound"
			}
			if c.change != nil {
				c.change(&e)
			}
			at, _ := slices.BinarySearchFunc(d.Events, e.Staged, func(e *days.Event, t time.Time) int { return e.Staged.Compare(t) })
			d.Events = slices.Insert(d.Events, at, &e)
			a := analyzedDay(t, d)
			if critical := slices.ContainsFunc(a.Report.Findings, func(f report.Finding) bool { return f.Severity == rules.Critical.String() }); critical != c.critical {
				t.Errorf("critical findings: %t", critical)
			}
			if ready := checks.Conclude(checks.Ready, a.Facts.Checks, nil).Answer == "ready"; ready == c.critical {
				t.Errorf("ready: %t, open: %v", ready, open(a.Facts.Checks))
			}
			if n := len(a.Report.Incidents); !c.critical && n > 0 {
				t.Errorf("%d incidents", n)
			}
		})
	}
}

// cutOffDay is a day with the binding in which a node is cut off for an hour and loses the pod shop/bank-0 meanwhile, and a request of its kubelet after that.
func cutOffDay(t *testing.T) (d *days.Day, after *days.Event) {
	t.Helper()
	d = threeHours(t, 13, days.Options{Servers: 1, Features: days.NotReady})
	last := map[string]*days.Event{}
	var from *days.Event
	for _, e := range d.Events {
		if !e.IsNode() || e.Ref == nil || e.Ref.Resource != "leases" || e.Verb != "update" {
			continue
		}
		if was := last[e.User.Username]; was != nil && (from == nil || e.Received.Sub(was.Received) > after.Received.Sub(from.Received)) {
			from, after = was, e
		}
		last[e.User.Username] = e
	}
	node := strings.TrimPrefix(after.User.Username, "system:node:")
	var object map[string]any
	if err := json.Unmarshal([]byte(`{"kind":"Pod","apiVersion":"v1","metadata":{"name":"bank-0","namespace":"shop","uid":"11111111-2222-4333-8444-555555555555"},
		"spec":{"nodeName":"`+node+`","serviceAccountName":"bank","volumes":[
			{"name":"s","secret":{"secretName":"only-bank"}},{"name":"d","persistentVolumeClaim":{"claimName":"data-bank-0"}}]}}`), &object); err != nil {
		t.Fatal(err)
	}
	object["metadata"].(map[string]any)["creationTimestamp"] = from.Received.Add(-time.Hour).UTC().Format(time.RFC3339)
	for _, e := range []days.Entry{{At: from.Received.Add(-time.Hour), Type: "ADDED"}, {At: from.Received.Add(15 * time.Minute), Type: "DELETED"}} {
		e.Kind, e.Namespace, e.Name, e.Object = "Pod", "shop", "bank-0", object
		d.State = append(d.State, &e)
	}
	slices.SortStableFunc(d.State, func(a, b *days.Entry) int { return a.At.Compare(b.At) })
	soon := *after
	soon.Received, soon.Staged = after.Received.Add(2*time.Second), after.Staged.Add(2*time.Second)
	return d, &soon
}
