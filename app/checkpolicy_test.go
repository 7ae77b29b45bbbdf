package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

// grant is a ClusterRole with the rules, if there are any, bound to a subject.
func grant(role, kind, name string, rules ...map[string]any) []*days.Entry {
	const group = "rbac.authorization.k8s.io"
	object := func(kind, name string, more map[string]any) *days.Entry {
		more["apiVersion"], more["kind"] = group+"/v1", kind
		more["metadata"] = map[string]any{"name": name, "uid": "u-" + kind + name, "creationTimestamp": "2020-01-01T00:00:00Z"}
		return &days.Entry{Type: "ADDED", Kind: kind, Name: name, Object: more}
	}
	out := []*days.Entry{object("ClusterRoleBinding", "extra", map[string]any{
		"roleRef":  map[string]any{"apiGroup": group, "kind": "ClusterRole", "name": role},
		"subjects": []map[string]any{{"apiGroup": group, "kind": kind, "name": name}},
	})}
	if len(rules) > 0 {
		out = append(out, object("ClusterRole", role, map[string]any{"rules": rules}))
	}
	return out
}

// Who has what a binding of nodes gives and is no node, as he is in their group under another name or may act so, is in the log, or policy-known is unproven.
func TestPolicyHidesMembersThatAreNoNodes(t *testing.T) {
	mayActAs := func(resource, name string) map[string]any {
		return map[string]any{"verbs": []string{"impersonate"}, "apiGroups": []string{""}, "resources": []string{resource}, "resourceNames": []string{name}}
	}
	const none, nodes = "- {level: None, users: ['%']}\n", "- {level: Metadata, userGroups: ['system:nodes']}\n"
	hides := func(user string) string { return strings.ReplaceAll(none, "%", user) }
	actsBy := func(kind, name, group string) []*days.Entry {
		return grant("acts", kind, name, mayActAs("users", "ci"), mayActAs("groups", group))
	}
	acts := func(group string) []*days.Entry { return actsBy("User", "ci-bot", group) }
	const others, noOther = "- {level: Metadata, userGroups: ['system:authenticated']}\n", "- {level: None, resources: [{group: '', resources: [pods]}]}\n"
	const noServices = "- {level: None, userGroups: ['system:nodes'], verbs: [get], resources: [{group: '', resources: [services]}]}\n"
	logs := func(namespace string) string {
		return "- {level: Metadata, userGroups: ['system:serviceaccounts:" + namespace + "']}\n"
	}
	noReads := func(group string) string {
		return "- {level: None, userGroups: ['" + group + "'], verbs: [get, list, watch]}\n"
	}
	mayAct := map[string]any{"verbs": []string{"impersonate"}, "apiGroups": []string{""}, "resources": []string{"serviceaccounts"}}
	toApps := func(rule map[string]any) []*days.Entry { // the accounts of apps have what nodes have, and ci-bot has the rule
		more := grant("system:node", "Group", "system:serviceaccounts:apps")
		more[0].Name, more[0].Object["metadata"].(map[string]any)["name"] = "apps", "apps"
		return append(more, grant("acts", "User", "ci-bot", rule)...)
	}
	everything := map[string]any{"verbs": []string{"*"}, "apiGroups": []string{"*"}, "resources": []string{"*"}}
	for _, c := range []struct {
		name, rules string
		options     days.Options
		more        []*days.Entry
		want        checks.State
	}{
		{name: "a user in the group", rules: hides("cni-agent"), want: checks.Unproven},
		{name: "of whom some is hidden", rules: "- {level: None, users: [cni-agent], verbs: [list], resources: [{group: '', resources: [pods]}]}\n", want: checks.Unproven},
		{name: "of whom nothing that nodes may do is hidden", rules: "- {level: None, users: [cni-agent], resources: [{group: apps}]}\n", want: checks.Passed},
		{name: "who is in the log as one of the group", rules: nodes + hides("cni-agent"), want: checks.Passed},
		{name: "without a binding", rules: hides("cni-agent"), options: days.Options{NoBinding: true}, want: checks.Passed},
		{name: "a user of Kubernetes", rules: hides("system:kube-scheduler"), want: checks.Passed},
		{name: "who is in another group, too", rules: "- {level: None, userGroups: ['example:agents']}\n", want: checks.Unproven},
		{name: "who may act as one of the group", rules: nodes + hides("ci-bot"), more: acts("system:nodes"), want: checks.Unproven},
		{name: "who may act as one of another group", rules: nodes + hides("ci-bot"), more: acts("example:agents"), want: checks.Passed},
		{name: "whom a rule names with another group", rules: "- {level: None, users: [cni-agent], userGroups: ['example:agents']}\n", want: checks.Unproven},
		{name: "who may act so as a member of a group", rules: nodes + hides("ci-bot"), more: actsBy("Group", "example:ci", "system:nodes"), want: checks.Unproven},
		{name: "an account that may act so as all of its namespace", rules: nodes + hides("system:serviceaccount:ops:deployer"), more: actsBy("Group", "system:serviceaccounts:ops", "system:nodes"), want: checks.Unproven},
		{name: "an account of another namespace", rules: nodes + hides("system:serviceaccount:ops:deployer") + logs("dev"), more: actsBy("Group", "system:serviceaccounts:dev", "system:nodes"), want: checks.Passed},
		{name: "a user who is no account of the namespace", rules: nodes + hides("ci-bot") + logs("dev"), more: actsBy("Group", "system:serviceaccounts:dev", "system:nodes"), want: checks.Passed},
		{name: "a user who may be an administrator", rules: nodes + hides("ci-bot"), more: grant("everything", "Group", "example:admins", everything), want: checks.Passed},
		{name: "a member of another group that has it", rules: nodes + "- {level: None, users: [jane], userGroups: ['example:ops']}\n", more: grant("system:node", "Group", "example:staff"), want: checks.Unproven},
		{name: "what any node may do", rules: noServices, want: checks.Passed},
		{name: "what a node may do as somebody else", rules: noServices, more: grant("acts", "Group", "system:nodes", mayActAs("users", "jane")), want: checks.Unproven},
		{name: "who does not say who he is, and the log has others", rules: others + noOther, more: grant("system:node", "Group", "system:unauthenticated"), want: checks.Unproven},
		{name: "the same by his name", rules: others + noOther, more: grant("system:node", "User", "system:anonymous"), want: checks.Unproven},
		{name: "who does not say who he is, whom the log has", rules: hides("jane"), more: grant("system:node", "Group", "system:unauthenticated"), options: days.Options{NoBinding: true}, want: checks.Passed},
		{name: "a user named as a node", rules: nodes + hides("system:node:w9"), more: grant("system:node", "User", "system:node:w9"), want: checks.Unproven},
		{name: "a user named as a node to whom nothing is bound", rules: nodes + hides("system:node:w9"), want: checks.Passed},
		{name: "accounts of a namespace, and reads of all accounts are hidden", rules: noReads("system:serviceaccounts"), more: grant("system:node", "Group", "system:serviceaccounts:apps"), want: checks.Unproven},
		{name: "accounts of a namespace, and reads of another one's are hidden", rules: noReads("system:serviceaccounts:ops") + logs("apps"), more: grant("system:node", "Group", "system:serviceaccounts:apps"), want: checks.Passed},
		{name: "all accounts, and reads of a namespace's are hidden", rules: noReads("system:serviceaccounts:ops"), more: grant("system:node", "Group", "system:serviceaccounts"), want: checks.Unproven},
		{name: "an account by its user name, and reads of all accounts are hidden", rules: noReads("system:serviceaccounts"), more: grant("system:node", "User", "system:serviceaccount:apps:t"), want: checks.Unproven},
		{name: "a user who is no account", rules: noReads("system:serviceaccounts"), more: grant("system:node", "User", "kubelet"), want: checks.Passed},
		{name: "who may act as an account of a namespace", rules: nodes + hides("ci-bot") + logs("apps"), more: toApps(mayAct), want: checks.Unproven},
		{name: "who may act as a named account of a namespace", rules: nodes + hides("ci-bot") + logs("apps"), more: toApps(mayActAs("serviceaccounts", "t")), want: checks.Unproven},
		{name: "who may act as one user", rules: nodes + hides("ci-bot") + logs("apps"), more: toApps(mayActAs("users", "jane")), want: checks.Passed},
		{name: "an account that may do everything", rules: noReads("system:serviceaccounts"), more: grant("everything", "User", "system:serviceaccount:flux:kustomize", everything), want: checks.Passed},
		{name: "accounts of a namespace that may do everything", rules: noReads("system:serviceaccounts"), more: grant("everything", "Group", "system:serviceaccounts:flux", everything), want: checks.Passed},
		{name: "an account that may act as a node", rules: noReads("system:serviceaccounts"), more: actsBy("User", "system:serviceaccount:flux:kustomize", "system:nodes"), want: checks.Unproven},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.options.Minor = 36
			d := threeHours(t, 13, c.options)
			d.Policy = strings.Replace(d.Policy, "rules:\n", "rules:\n"+c.rules, 1)
			for _, e := range c.more {
				e.At = d.From.Add(-80 * time.Minute)
			}
			d.State = append(d.State, c.more...)
			slices.SortStableFunc(d.State, func(a, b *days.Entry) int { return a.At.Compare(b.At) })
			results := provenDay(t, d)
			if s, codes := codesOf(results, "policy-known"); s != c.want {
				t.Errorf("%s, %q, want %s", s, codes, c.want)
			}
		})
	}
}
