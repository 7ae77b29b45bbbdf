package coverage

import (
	"os"
	"strings"
	"testing"
)

func TestLogsOfNodes(t *testing.T) {
	const report, pod = "patch nodes/status", "get pods"
	for rules, want := range map[string]map[string]bool{
		"- level: Metadata": {report: true, pod: true},
		"- level: None\n  verbs: [\"get\"]\n- level: Metadata":                                                                                     {report: true, pod: false},
		"- level: None\n  verbs: [\"get\"]\n  namespaces: [\"shop\"]\n- level: Metadata":                                                           {report: true, pod: false},
		"- level: None\n  userGroups: [\"system:nodes\"]\n  resources: [{group: \"\", resources: [\"nodes/status\"]}]\n- level: Metadata":          {report: false, pod: true},
		"- level: None\n  users: [\"system:serviceaccount:a:b\"]\n- level: Metadata\n  omitStages: [RequestReceived]":                              {report: true, pod: true},
		"- level: Request\n  userGroups: [\"system:nodes\"]\n  resources: [{group: \"\", resources: [\"pods\", \"nodes/status\"]}]\n- level: None": {report: true, pod: true},
	} {
		p, err := ParsePolicy([]byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n" + rules + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		for request, logs := range want {
			verb, resource, _ := strings.Cut(request, " ")
			if got := p.LogsOfNodes(verb, resource); got != logs {
				t.Errorf("%s: %s: %t", rules, request, got)
			}
		}
	}
}

// The project's policy logs all that tells how a node's credential came to be; one that leaves some of it out does not.
func TestLogsBirths(t *testing.T) {
	text, err := os.ReadFile("../deploy/audit-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f := func(name, policy string, want bool) {
		t.Helper()
		p, err := ParsePolicy([]byte(policy))
		if err != nil {
			t.Fatal(err)
		}
		if got := p.LogsBirths(); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
	own := string(text)
	f("deploy/audit-policy.yaml", own, true)
	f("without the approval", strings.Replace(own, `, "certificatesigningrequests/approval"`, "", 1), false)
	f("without bodies", strings.Replace(own, "- level: Request\n  verbs: [\"create\", \"update\", \"patch\"]\n  resources:\n  - group: certificates.k8s.io", "- level: Metadata\n  verbs: [\"create\", \"update\", \"patch\"]\n  resources:\n  - group: certificates.k8s.io", 1), false)
	for _, who := range []string{`users: ["jane"]`, `userGroups: ["dev"]`, `userGroups: ["system:bootstrappers"]`} {
		f(who, strings.Replace(own, "rules:\n", "rules:\n- level: None\n  "+who+"\n", 1), false)
	}
}
