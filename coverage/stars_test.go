package coverage

import (
	"slices"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
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

// A request counts as logged where each version logs it, and an event contradicts the policy where no version writes it.
func TestStarsInOtherAnswers(t *testing.T) {
	const births = "certificates.k8s.io, resources: [certificatesigningrequests, certificatesigningrequests/approval, certificatesigningrequests/status]"
	watch := authorizer.AttributesRecord{
		User: nodeUser(anyNode), Verb: "watch", APIGroup: "discovery.k8s.io", APIVersion: "v1", Resource: "endpointslices", ResourceRequest: true,
	}
	for _, c := range []struct {
		rules          string
		births, writes bool
	}{
		{"- {level: Request}\n", true, true},
		{"- {level: Request, resources: [{group: " + births + "}]}\n- {level: Metadata}\n", true, true},
		{"- {level: Request, resources: [{group: '*'}]}\n- {level: Metadata}\n", false, true},
		{"- {level: Request, resources: [{group: '*'}]}\n", false, true},
		{"- {level: None, resources: [{group: '*'}]}\n- {level: Request}\n", false, true},
		{"- {level: Request, resources: [{group: '*'}]}\n- {level: Request}\n", true, true},
		{"- {level: None}\n", false, false},
		{"- {level: None, resources: [{group: discovery.k8s.io}]}\n- {level: Request}\n", true, false},
		{"- {level: Request, omitStages: [ResponseStarted], resources: [{group: '*'}]}\n- {level: Request, omitStages: [ResponseStarted]}\n", true, false},
	} {
		p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n" + c.rules))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.LogsBirths(); got != c.births {
			t.Errorf("logs births %t, by\n%s", got, c.rules)
		}
		if _, got := p.Writes(&watch, "ResponseStarted"); got != c.writes {
			t.Errorf("writes %t, by\n%s", got, c.rules)
		}
		lacks := slices.ContainsFunc(p.Lacks(Harmless{}), func(l Lack) bool { return l.Check == "birth-guarded" })
		if lacks == c.births {
			t.Errorf("birth-guarded lacks requests %t, by\n%s", lacks, c.rules)
		}
	}
}
