package coverage

import (
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

// A * that is no wildcard matches no request. The group * is a wildcard from Kubernetes 1.36 on: what is hidden only before, or only from then on, is hidden.
func TestStarsThatAreNoWildcards(t *testing.T) {
	const hides = "- {level: None, resources: [{group: discovery.k8s.io, resources: [endpointslices]}]}\n- {level: Metadata}\n"
	for _, c := range []struct {
		rules string
		want  bool
	}{
		{"- {level: Metadata}\n", false},
		{hides, true},
		{"- {level: Metadata, userGroups: ['system:nodes']}\n" + hides, false},
		{"- {level: Metadata, userGroups: ['system:nodes'], resources: [{group: discovery.k8s.io, resources: ['*']}]}\n" + hides, false},
		{"- {level: Metadata, userGroups: ['system:nodes'], resources: [{group: '*', resources: ['*']}]}\n" + hides, true},
		{"- {level: Metadata, userGroups: ['system:nodes'], resources: [{group: '*'}]}\n" + hides, true},
		{"- {level: Metadata, userGroups: ['system:nodes'], verbs: ['*']}\n" + hides, true},
		{"- {level: Metadata, userGroups: ['system:nodes'], namespaces: ['*']}\n" + hides, true},
		{"- {level: None, userGroups: ['system:nodes'], resources: [{group: '*', resources: [leases]}]}\n- {level: Metadata}\n", true},
		{"- {level: None, userGroups: ['system:nodes'], verbs: ['*']}\n- {level: Metadata}\n", false},
		{"- {level: None, userGroups: ['system:nodes'], namespaces: ['*']}\n- {level: Metadata}\n", false},
		{"- {level: None, userGroups: ['system:nodes'], resources: [{group: '', resources: [secrets], resourceNames: ['*']}]}\n- {level: Metadata}\n", false},
		{"- {level: None, userGroups: ['system:nodes'], verbs: ['*', get]}\n- {level: Metadata}\n", true},
	} {
		p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n" + c.rules))
		if err != nil {
			t.Fatal(err)
		}
		h := p.Hides(&user.DefaultInfo{Name: "system:node:worker-1", Groups: []string{user.NodesGroup, user.AllAuthenticated}}, Harmless{})
		if got := len(h.Requests)+h.More > 0 || h.TooMany; got != c.want {
			t.Errorf("hides %t, want %t: %+v, by\n%s", got, c.want, h.Requests, c.rules)
		}
	}
}
