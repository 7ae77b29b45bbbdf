package incidents

import (
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// An incident is about the credential that was used: not about a node that somebody acts as, nor about one that has a user's name.
//
// Seen to fail where the subject of the finding alone says whose credential it is.
func TestWhoseCredential(t *testing.T) {
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, subject string
		users, as     []string
		credential    string
		kind          Kind
	}{
		{"a node", "worker-1", []string{"system:node:worker-1"}, nil, "worker-1", OfNode},
		{"nobody is known", "worker-1", nil, nil, "worker-1", OfNode},
		{"a bootstrap token", "system:bootstrap:abcdef", []string{"system:bootstrap:abcdef"}, nil, "system:bootstrap:abcdef", OfBootstrap},
		{"a user", "jane", []string{"jane"}, nil, "jane", OfUser},
		{"a user with a node's name", "worker-1", []string{"worker-1"}, nil, "worker-1", OfUser},
		{"a user who acts as a node", "worker-1", []string{"admin"}, []string{"system:node:worker-1"}, "admin", OfUser},
		{"a node that acts as another", "worker-1", []string{"system:node:worker-2"}, []string{"system:node:worker-1"}, "worker-2", OfNode},
		{"a node, and a user who acts as it", "worker-1", []string{"admin", "system:node:worker-1"}, []string{"system:node:worker-1"}, "worker-1", OfNode},
		{"a node that acts as an admin", "worker-1", []string{"system:node:worker-1"}, []string{"admin"}, "worker-1", OfNode},
		{"who acts as a bootstrap token", "system:bootstrap:abcdef", []string{"jane"}, []string{"system:bootstrap:abcdef"}, "jane", OfUser},
		{"a certificate that another approved", "worker-1", []string{"system:serviceaccount:a:b"}, nil, "worker-1", OfNode},
	} {
		b := NewBook("c")
		b.Add(&tally.Key{Rule: rules.CredentialMisuse, Node: c.subject}, &tally.Group{
			Severity: rules.High, Reason: rules.EscalationRefused, Count: 1, First: at, Last: at, Origins: tally.Origins{Users: c.users, Impersonated: c.as},
		}, false)
		all := b.Incidents(at)
		if len(all) != 1 || all[0].Credential != c.credential || all[0].Kind != c.kind {
			t.Errorf("%s: %+v, want %s %s", c.name, all, c.kind, c.credential)
			continue
		}
		if drains := all[0].Contain[0].Code == Drain; drains != (c.kind == OfNode) {
			t.Errorf("%s: to drain a node is advised %t", c.name, drains)
		}
	}
	node, user := (&holder{"worker-1", OfNode}).id(), (&holder{"worker-1", OfUser}).id()
	if node == user || node != "worker-1" {
		t.Errorf("a node and a user of one name have the IDs %q and %q", node, user)
	}
}
