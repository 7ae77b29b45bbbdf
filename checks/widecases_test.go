package checks

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// wideCases have bindings that are documented, and that are for more subjects or give more than is documented.
func wideCases(bindAs func(name, role string, rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) func(*Input)) []kase {
	const rights, joins = "no-excess-rights", "system:bootstrappers:kubeadm:default-node-token"
	get := func(resource string, names ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}}
	}
	local := func(name string, rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) func(*Input) {
		return all(bindAs(name, name, rules, subjects...), func(in *Input) {
			b := &in.Bindings[len(in.Bindings)-1]
			b.Binding.Kind, b.Binding.Namespace, b.Role.Kind = rbac.KindRoleBinding, "kube-system", rbac.KindRole
		})
	}
	alsoJoining := func(in *Input) { in.NodeGroups = append(in.NodeGroups, joins) }
	return []kase{
		{rights, "kubeadm's right to all Nodes, for nodes", bindAs("kubeadm:get-nodes", "kubeadm:get-nodes", get("nodes"), group(joins), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "kubeadm's right to all Nodes, and nodes are in the group of machines that join", alsoJoining, Failed, CodeExcessRight},
		{rights, "kubeadm's right to all Nodes, which is kept and for nodes", all(alsoJoining, func(in *Input) {
			in.Keep = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "kubeadm:get-nodes"}}
		}), Failed, CodeDangerousRight},
		{rights, "kubeadm's ConfigMap", local("kubeadm:nodes-kubeadm-config", get("configmaps", "kubeadm-config"), group(joins), group("system:nodes")), Passed, CodeBindingStays},
		{rights, "all ConfigMaps, by kubeadm's name", local("kubeadm:nodes-kubeadm-config", get("configmaps"), group(joins), group("system:nodes")), Failed, CodeExcessRight},
		{rights, "service accounts, by OpenShift's binding, which stays", bindAs("node-credential-providers-binding", "node-credential-providers", get("serviceaccounts"), group("system:nodes")), Failed, CodeExcessRight},
		{"bindings-inventoried", "the API server's own audience, by OpenShift's binding", bindAs("node-credential-providers-binding", "node-credential-providers", []rbacv1.PolicyRule{
			{Verbs: []string{verbAudience}, APIGroups: []string{""}, Resources: []string{"https://kubernetes.default.svc"}},
		}, group("system:nodes")), Passed, CodeBindingStays},
		{rights, "all ConfigMaps, by the name of an old minor", local("kubeadm:kubelet-config-1.23", get("configmaps"), group("system:nodes")), Failed, CodeExcessRight},
	}
}

// anonymousCases have a binding that goes and gives those who do not say who they are what others have by another one.
func anonymousCases() []kase {
	metrics := []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/metrics"}}}
	const inventory = "bindings-inventoried"
	gives := func(others []rbac.SubjectRef, subjects ...rbac.SubjectRef) func(*Input) {
		return func(in *Input) {
			in.OthersJudged = true
			in.Bindings = append(in.Bindings, clusterBinding("x", "x", metrics, append(subjects, group("system:nodes"))...), clusterBinding("y", "y", metrics, others...))
		}
	}
	all, nobody, anonymous := []rbac.SubjectRef{group("system:authenticated")}, group("system:unauthenticated"), userOf("system:anonymous")
	return []kase{
		{inventory, "a path that everybody has", gives(all), Passed, CodeBindingGoes},
		{inventory, "a path that everybody has, for those who do not say who they are", gives(all, nobody), Unproven, CodeRightUnseen},
		{inventory, "a path that everybody has, for the user that they are", gives(all, anonymous), Unproven, CodeRightUnseen},
		{inventory, "a path that they have as well", gives(append(all, nobody), nobody), Passed, CodeBindingGoes},
		{inventory, "a path that they have as well, for their user", gives(append(all, nobody), anonymous), Passed, CodeBindingGoes},
		{inventory, "a path that their user has", gives(append(all, anonymous), nobody), Unproven, CodeRightUnseen},
		{inventory, "a path that only they have", gives([]rbac.SubjectRef{nobody, anonymous}, nobody), Unproven, CodeRightUnseen},
	}
}

// reviewCases have a binding that goes, for nodes and others, and somebody who asks for reviews of access. Nodes have what system:node gives in any case.
func reviewCases(bindAs func(name, role string, rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) func(*Input)) (out []kase) {
	const inventory = "bindings-inventoried"
	account := rbac.SubjectRef{Kind: rbacv1.ServiceAccountKind, Namespace: "monitoring", Name: "agent"}
	nodes, bootstrap := group("system:nodes"), group("system:bootstrappers:edge")
	pods := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}}
	add := func(what, role string, rules []rbacv1.PolicyRule, want State, more func(*Input), subjects ...rbac.SubjectRef) {
		code := CodeBindingGoes
		if want == Unproven {
			code = CodeRightUnseen
		}
		out = append(out, kase{inventory, "somebody asks, and " + what, all(func(in *Input) { in.SystemNode, in.OthersJudged = systemNode, true }, bindAs("x", role, rules, subjects...), more), want, code})
	}
	asks, joined := asksReview("jane", false), registers("worker-2", at(14, 0, 0), 201)
	add("a right of system:node is an account's, too", "svc", pods, Unproven, asks, account, nodes)
	add("a right of system:node is a user's, too", "svc", pods, Unproven, asks, nodes, userOf("jane"))
	add("system:node is an account's", "system:node", systemNode, Unproven, asks, account)
	add("a copy of system:node is an account's and nodes'", "copy", systemNode, Unproven, asks, account, nodes)
	add("a right of system:node is for nodes and one of them", "svc", pods, Passed, asks, nodes, userOf("system:node:worker-1"))
	add("a right of system:node is for nodes that join", "svc", pods, Passed, all(asks, joined), nodes, bootstrap)
	add("the account has it otherwise", "svc", pods, Passed, all(asks, bindAs("y", "y", pods, account)), account, nodes)
	add("all accounts have it otherwise", "svc", pods, Passed, all(asks, bindAs("y", "y", pods, group("system:serviceaccounts"))), account, nodes)
	add("another account has it otherwise", "svc", pods, Unproven, all(asks, bindAs("y", "y", pods, userOf("jane"))), account, nodes)
	add("the policy does not log it", "svc", pods, Unproven, func(in *Input) { in.Policy.OmitsReviews = true }, account, nodes)
	out = append(out, kase{inventory, "nobody asks about a right of system:node that is an account's, too", all(func(in *Input) { in.SystemNode, in.OthersJudged = systemNode, true }, bindAs("x", "svc", pods, account, nodes)), Passed, CodeBindingGoes})
	return out
}

// everybodyCases have bindings for everybody. Those that clusters have by default give nothing that the Node authorizer allows a node for its own objects only.
func everybodyCases(rights string, rule func(verb, group, resource string) []rbacv1.PolicyRule, bind func([]rbacv1.PolicyRule, ...rbac.SubjectRef) func(*Input)) (out []kase) {
	everybody := group("system:authenticated")
	add := func(what string, rules []rbacv1.PolicyRule, want State, more func(*Input), subjects ...rbac.SubjectRef) {
		code := Code("")
		if want == Failed {
			code = CodeDangerousRight
		}
		out = append(out, kase{rights, "everybody: " + what, all(bind(rules, subjects...), more), want, code})
	}
	none := func(*Input) {}
	local := func(namespace string) func(*Input) {
		return func(in *Input) {
			in.Bindings[len(in.Bindings)-1].Binding = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: namespace, Name: "x"}
		}
	}
	named := func(rules []rbacv1.PolicyRule, name string) []rbacv1.PolicyRule {
		rules[0].ResourceNames = []string{name}
		return rules
	}
	for _, k := range nodeKinds() {
		add("list all "+k.resource, rule("list", k.group, k.resource), Failed, none, everybody)
	}
	add("all Leases", rule("*", "coordination.k8s.io", "leases"), Failed, none, everybody)
	add("logs of pods", rule("get", "", "pods/log"), Failed, none, everybody)
	add("ConfigMaps, without saying who he is", rule("get", "", "configmaps"), Failed, none, group("system:unauthenticated"))
	add("ConfigMaps, as the user that those are", rule("get", "", "configmaps"), Failed, none, userOf("system:anonymous"))
	add("a ConfigMap by its name", named(rule("get", "", "configmaps"), "settings"), Passed, none, everybody)
	add("cluster-info of kubeadm", named(rule("get", "", "configmaps"), "cluster-info"), Passed, local("kube-public"), userOf("system:anonymous"))
	add("ConfigMaps of a namespace that is published", rule("list", "", "configmaps"), Passed, local("kube-public"), everybody)
	add("images of KubeVirt", rule("list", "", "persistentvolumeclaims"), Passed, local("kubevirt-os-images"), everybody)
	add("system:basic-user", rule("create", "authorization.k8s.io", "selfsubjectaccessreviews"), Passed, none, everybody)
	add("system:discovery", []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis/*", "/openapi/*", "/healthz"}}}, Passed, none, everybody)
	add("system:public-info-viewer", []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/livez", "/version"}}}, Passed, none, everybody, group("system:unauthenticated"))
	add("a policy of pods on EKS", named(rule("use", "policy", "podsecuritypolicies"), "eks.privileged"), Passed, none, everybody)
	add("basic-user of OpenShift", append(rule("list", "storage.k8s.io", "storageclasses"), rule("list", "rbac.authorization.k8s.io", "clusterroles")...), Passed, none, everybody)
	add("projects of OpenShift", rule("create", "project.openshift.io", "projectrequests"), Passed, none, everybody)
	add("builds of OpenShift", rule("create", "build.openshift.io", "builds/docker"), Passed, none, everybody)
	add("definitions", rule("list", "apiextensions.k8s.io", "customresourcedefinitions"), Passed, none, everybody)
	return out
}
