package checks

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

func TestInventory(t *testing.T) {
	// The rules of system:node, written in another way.
	rewritten := []rbacv1.PolicyRule{
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"subjectaccessreviews"}},
		{Verbs: []string{"watch", "list"}, APIGroups: []string{""}, Resources: []string{"pods", "secrets"}},
		{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
		{Verbs: []string{"get", "get"}, APIGroups: []string{""}, Resources: []string{"pods"}},
	}
	named := slices.Clone(rewritten)
	named[2].ResourceNames = []string{"db"}
	getMaps := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"kubeadm-config"}}}
	getAll := []rbacv1.PolicyRule{{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	local := func(name, role string, rules []rbacv1.PolicyRule, subjects ...rbac.SubjectRef) rbac.BindingInfo {
		b := clusterBinding(name, role, rules, subjects...)
		b.Binding.Kind, b.Binding.Namespace, b.Role.Kind = rbac.KindRoleBinding, "kube-system", rbac.KindRole
		return b
	}
	get := func(resource string, names ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}, ResourceNames: names}}
	}
	const joins = "system:bootstrappers:kubeadm:default-node-token"
	config := get("configmaps", "kubelet-config")
	elsewhere := local("kubeadm:kubelet-config", "kubeadm:kubelet-config", config, group("system:nodes"))
	elsewhere.Binding.Namespace = "shop"
	profile := func(verbs []string, names ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: verbs, APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names}}
	}
	workers := func(name, role string, rules []rbacv1.PolicyRule) rbac.BindingInfo {
		return local(name, role, rules, group("system:bootstrappers"), group("system:nodes"))
	}
	networking := func(namespace string, rules []rbacv1.PolicyRule) rbac.BindingInfo {
		b := local("host-networking-system-node", "host-networking-services", rules, group("system:nodes"))
		b.Binding.Namespace = namespace
		return b
	}
	providers := []rbacv1.PolicyRule{
		{Verbs: []string{"get", "list"}, APIGroups: []string{""}, Resources: []string{"serviceaccounts"}},
		{Verbs: []string{verbAudience}, APIGroups: []string{""}, Resources: []string{"https://kubernetes.default.svc"}},
	}
	const k0s = "system:bootstrappers:worker-config"
	reading := []string{"get", "list", "watch"}
	csr := func(resource string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{"certificates.k8s.io"}, Resources: []string{resource}}}
	}
	for name, c := range map[string]struct {
		b    rbac.BindingInfo
		fate Fate
		why  Code
	}{
		"system:node, to nobody":        {clusterBinding("system:node", "system:node", systemNode), Empty, WhyNoSubjects},
		"a copy, to nobody":             {clusterBinding("x", "copy", rewritten), Empty, WhyNoSubjects},
		"system:node, to nodes":         {clusterBinding("x", "system:node", systemNode, group("system:nodes")), Goes, WhyRole},
		"system:node, to bootstrappers": {clusterBinding("x", "system:node", systemNode, group("system:bootstrappers")), Goes, WhyRole},
		"system:node, to a user":        {clusterBinding("x", "system:node", systemNode, userOf("jane")), Goes, WhyRole},
		"system:node, not there":        {clusterBinding("x", "system:node", nil, userOf("jane")), Goes, WhyRole},
		"system:node, in a namespace":   {local("x", "system:node", systemNode, userOf("jane")), Goes, WhyCopy},
		"a copy, to an account":         {clusterBinding("x", "copy", rewritten, rbac.SubjectRef{Kind: "ServiceAccount", Namespace: "a", Name: "b"}), Goes, WhyCopy},
		"a copy for one name":           {clusterBinding("x", "copy", named, userOf("jane")), Unrelated, ""},
		"a part of it":                  {clusterBinding("x", "part", systemNode[:1], userOf("jane")), Unrelated, ""},
		"a broader role":                {clusterBinding("x", "more", slices.Concat(systemNode, getAll), userOf("jane")), Unrelated, ""},
		"a Role of that name":           {local("x", "system:node", getMaps, userOf("jane")), Unrelated, ""},
		"nodes among others":            {clusterBinding("x", "view", getAll, userOf("jane"), group("system:nodes")), Goes, WhySubject},
		"one node":                      {clusterBinding("x", "view", getAll, userOf("system:node:worker-1")), Goes, WhySubject},
		"a group named like a node":     {clusterBinding("x", "view", getAll, group("system:node:worker-1")), Unrelated, ""},
		"a user named like the group":   {clusterBinding("x", "view", getAll, userOf("system:nodes")), Unrelated, ""},
		"bootstrappers":                 {clusterBinding("x", "view", getAll, group("system:bootstrappers")), Goes, WhyBootstrap},
		"a kind of bootstrappers":       {clusterBinding("x", "view", getAll, group("system:bootstrappers:worker")), Goes, WhyBootstrap},
		"no bootstrappers":              {clusterBinding("x", "view", getAll, group("system:bootstrappersX")), Unrelated, ""},
		"everybody":                     {clusterBinding("x", "view", getAll, group("system:authenticated")), Unrelated, ""},
		"kept":                          {clusterBinding("keep", "view", getAll, group("system:nodes")), Stays, WhyKeep},
		"the question itself, kept":     {clusterBinding("keep", "system:node", systemNode, group("system:nodes")), Goes, WhyRole},
		"a copy of it, kept":            {clusterBinding("keep", "copy", systemNode, userOf("x"), group("system:nodes")), Goes, WhyCopy},
		"a canary that is kept":         {clusterBinding("keep", "system:node", systemNode, userOf("system:node:a")), Stays, WhyKeep},
		"kubeadm's ConfigMap":           {local("kubeadm:nodes-kubeadm-config", "kubeadm:nodes-kubeadm-config", getMaps, group("system:nodes")), Stays, WhyKubeadm},
		"of an old minor":               {local("kubeadm:kubelet-config-1.23", "kubeadm:kubelet-config-1.23", get("configmaps", "kubelet-config-1.23"), group("system:nodes")), Stays, WhyKubeadm},
		"of an old minor, all maps":     {local("kubeadm:kubelet-config-1.23", "kubeadm:kubelet-config-1.23", get("configmaps"), group("system:nodes")), Goes, WhyRulesChanged},
		"of an old minor, another map":  {local("kubeadm:kubelet-config-1.23", "kubeadm:kubelet-config-1.23", getMaps, group("system:nodes")), Goes, WhyRulesChanged},
		"kubeadm's, of all ConfigMaps":  {local("kubeadm:nodes-kubeadm-config", "kubeadm:nodes-kubeadm-config", get("configmaps"), group("system:nodes")), Goes, WhyRulesChanged},
		"kubeadm's, of one more":        {local("kubeadm:nodes-kubeadm-config", "kubeadm:nodes-kubeadm-config", get("configmaps", "kubeadm-config", "db"), group("system:nodes")), Goes, WhyRulesChanged},
		"kubelets' configuration":       {local("kubeadm:kubelet-config", "kubeadm:kubelet-config", config, group(joins), group("system:nodes")), Stays, WhyKubeadm},
		"of all ConfigMaps":             {local("kubeadm:kubelet-config", "kubeadm:kubelet-config", get("configmaps"), group("system:nodes")), Goes, WhyRulesChanged},
		"kubeadm's Nodes":               {clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", get("nodes"), group(joins)), Stays, WhyKubeadm},
		"kubeadm's Nodes, for nodes":    {clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", get("nodes"), group(joins), group("system:nodes")), Goes, WhySubject},
		"kubeadm's Nodes, for one node": {clusterBinding("kubeadm:get-nodes", "kubeadm:get-nodes", get("nodes"), userOf("system:node:worker-1")), Goes, WhySubject},
		"with another role":             {local("kubeadm:kubelet-config-1.23", "another", get("configmaps", "kubelet-config-1.23"), group("system:nodes")), Goes, WhySubject},
		"that gives more":               {local("kubeadm:kubelet-config", "kubeadm:kubelet-config", getAll, group("system:nodes")), Goes, WhyRulesChanged},
		"whose role is not there":       {local("kubeadm:kubelet-config", "kubeadm:kubelet-config", nil, group("system:nodes")), Stays, WhyKubeadm},
		"in another namespace":          {elsewhere, Goes, WhySubject},
		"kubeadm's kube-proxy":          {local("kube-proxy", "kube-proxy", get("configmaps", "kube-proxy"), group(joins)), Stays, WhyKubeadm},
		"kube-proxy for all maps":       {local("kube-proxy", "kube-proxy", get("configmaps"), group(joins)), Goes, WhyRulesChanged},
		"kubeadm's certificates":        {local("kubeadm:kubeadm-certs", "kubeadm:kubeadm-certs", get("secrets", "kubeadm-certs"), group(joins)), Stays, WhyKubeadm},
		"the bootstrap role under any name": {
			clusterBinding("system-bootstrap-node-bootstrapper", "system:node-bootstrapper", csr("certificatesigningrequests"), group("system:bootstrappers:nodes"), group("system:nodes")), Stays, WhyBootstrapRole,
		},
		"the bootstrap role, changed":               {clusterBinding("x", "system:node-bootstrapper", getAll, group("system:bootstrappers:nodes")), Goes, WhyRulesChanged},
		"the bootstrap role's name in another role": {clusterBinding("system:node-bootstrapper", "mine", csr("certificatesigningrequests"), group("system:bootstrappers:nodes")), Goes, WhyBootstrap},
		"the bootstrap role in a namespace":         {local("x", "system:node-bootstrapper", csr("certificatesigningrequests"), group("system:bootstrappers:nodes")), Goes, WhyBootstrap},
		"approval for those that join": {
			clusterBinding("x", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", csr("certificatesigningrequests/nodeclient"), group("system:bootstrappers:nodes")), Stays, WhyBootstrapRole,
		},
		"approval of any node's for nodes": {
			clusterBinding("x", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", csr("certificatesigningrequests/nodeclient"), group("system:nodes")), Goes, WhySubject,
		},
		"approval of any node's for nodes, by kubeadm's name": {
			clusterBinding("kubeadm:node-autoapprove-bootstrap", "system:certificates.k8s.io:certificatesigningrequests:nodeclient", csr("certificatesigningrequests/nodeclient"), group(joins), group("system:nodes")), Goes, WhySubject,
		},
		"renewal for nodes": {
			clusterBinding("x", "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", csr("certificatesigningrequests/selfnodeclient"), group("system:nodes")), Stays, WhyBootstrapRole,
		},
		"its name for nodes": {
			local("kubeadm:kubeadm-certs", "kubeadm:kubeadm-certs", get("secrets", "kubeadm-certs"), group("system:nodes")), Goes, WhySubject,
		},
		"its name for all secrets": {
			local("kubeadm:kubeadm-certs", "kubeadm:kubeadm-certs", get("secrets"), group(joins)), Goes, WhyRulesChanged,
		},
		"kubeadm's rotation": {clusterBinding("kubeadm:node-autoapprove-certificate-rotation",
			"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", csr("certificatesigningrequests/selfnodeclient"), group("system:nodes")), Stays, WhyKubeadm},
		"the documentation's rotation": {clusterBinding("auto-approve-renewals-for-nodes",
			"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", csr("certificatesigningrequests/selfnodeclient"), group("system:nodes")), Stays, WhyDocumented},
		"the documentation's rotation with more": {clusterBinding("auto-approve-renewals-for-nodes",
			"system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", csr("*"), group("system:nodes")), Goes, WhyRulesChanged},
		"its name with another role": {clusterBinding("kubeadm:node-autoapprove-certificate-rotation", "cluster-admin", csr("*"), group("system:nodes")), Goes, WhySubject},
		"EKS": {clusterBinding("eks:node-bootstrapper", "eks:node-bootstrapper", csr("certificatesigningrequests/selfnodeserver"),
			group("system:bootstrappers"), group("system:nodes")), Stays, WhyProvider},
		"OpenShift's credentials": {clusterBinding("node-credential-providers-binding", "node-credential-providers", providers, group("system:nodes")), Stays, WhyProvider},
		"OpenShift's credentials, with secrets": {clusterBinding("node-credential-providers-binding", "node-credential-providers",
			slices.Concat(providers, get("secrets")), group("system:nodes")), Goes, WhyRulesChanged},
		"OpenShift's credentials, with any audience": {clusterBinding("node-credential-providers-binding", "node-credential-providers",
			[]rbacv1.PolicyRule{{Verbs: []string{verbAudience}, APIGroups: []string{""}, Resources: []string{"*"}}}, group("system:nodes")), Goes, WhyRulesChanged},
		"OpenShift's networking":                      {networking("openshift-kni-infra", profile(reading)), Stays, WhyProvider},
		"OpenShift's networking on vSphere":           {networking("openshift-vsphere-infra", profile(reading)), Stays, WhyProvider},
		"OpenShift's networking, to write":            {networking("openshift-kni-infra", profile([]string{"update"})), Goes, WhyRulesChanged},
		"OpenShift's networking in another namespace": {networking("kube-system", profile(reading)), Goes, WhySubject},
		"GKE's rotation":                              {clusterBinding("gce:beta:kubelet-certificate-rotation", "gce:beta:kubelet-certificate-rotation", csr("certificatesigningrequests/selfnodeclient"), group("system:nodes")), Stays, WhyProvider},
		"GKE's rotation with more":                    {clusterBinding("gce:beta:kubelet-certificate-rotation", "gce:beta:kubelet-certificate-rotation", csr("certificatesigningrequests/nodeclient"), group("system:nodes")), Goes, WhyRulesChanged},
		"k0s's profiles":                              {workers(k0s, k0s, profile(reading, "worker-config-default-1.36", "worker-config-x-1.36")), Stays, WhyK0s},
		"of one minor":                                {workers(k0s+"-1.36", k0s+"-1.36", profile(reading, "worker-config-default-1.36")), Stays, WhyK0s},
		"k0s's, without its role":                     {workers(k0s, k0s, nil), Stays, WhyK0s},
		"k0s's, of another ConfigMap":                 {workers(k0s, k0s, profile(reading, "worker-config-default-1.36", "db")), Goes, WhyRulesChanged},
		"k0s's, of all ConfigMaps":                    {workers(k0s, k0s, profile(reading)), Goes, WhyRulesChanged},
		"k0s's, to write":                             {workers(k0s, k0s, profile([]string{"get", "update"}, "worker-config-default-1.36")), Goes, WhyRulesChanged},
		"k0s's name, of secrets":                      {workers(k0s, k0s, get("secrets", "worker-config-default-1.36")), Goes, WhyRulesChanged},
		"k0s's, with another role":                    {workers(k0s, "another", profile(reading, "worker-config-default-1.36")), Goes, WhySubject},
		"of a minor, another's role":                  {workers(k0s+"-1.36", k0s+"-1.35", profile(reading, "worker-config-default-1.36")), Goes, WhySubject},
		"a name like k0s's":                           {workers(k0s+"s", k0s+"s", profile(reading, "worker-config-default-1.36")), Goes, WhySubject},
		"k0s's name, cluster-wide":                    {clusterBinding(k0s, k0s, profile(reading, "worker-config-default-1.36"), group("system:nodes")), Goes, WhySubject},
		"EKS with more":                               {clusterBinding("eks:node-bootstrapper", "eks:node-bootstrapper", csr("*"), group("system:nodes")), Goes, WhyRulesChanged},
	} {
		keep := []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "keep"}}
		got := Inventory([]rbac.BindingInfo{c.b}, systemNode, keep)
		if c.fate == Unrelated {
			if len(got) > 0 {
				t.Errorf("%s: %s, %s", name, got[0].Fate, got[0].Why)
			}
			continue
		}
		if len(got) != 1 || got[0].Fate != c.fate || got[0].Why != c.why {
			t.Errorf("%s: %+v, want %s, %s", name, got, c.fate, c.why)
		}
	}
}

// A rule gives what RBAC says that it does.
func TestAtoms(t *testing.T) {
	pods := atom{verb: "get", resource: "pods"}
	for name, c := range map[string]struct {
		a, b atom
		want bool
	}{
		"the same":              {pods, pods, true},
		"another verb":          {atom{verb: "list", resource: "pods"}, pods, false},
		"all verbs":             {atom{verb: "*", resource: "pods"}, pods, true},
		"all groups":            {atom{verb: "get", group: "*", resource: "pods"}, pods, true},
		"another group":         {atom{verb: "get", group: "apps", resource: "pods"}, pods, false},
		"all resources":         {atom{verb: "get", resource: "*"}, atom{verb: "get", resource: "pods/log"}, true},
		"all of a subresource":  {atom{verb: "get", resource: "*/log"}, atom{verb: "get", resource: "pods/log"}, true},
		"another subresource":   {atom{verb: "get", resource: "*/log"}, atom{verb: "get", resource: "pods/exec"}, false},
		"no subresource":        {atom{verb: "get", resource: "*/"}, pods, false},
		"the resource alone":    {pods, atom{verb: "get", resource: "pods/log"}, false},
		"one name":              {atom{verb: "get", resource: "pods", name: "a"}, pods, false},
		"of all names":          {pods, atom{verb: "get", resource: "pods", name: "a"}, true},
		"a path":                {atom{verb: "get", url: "/api"}, atom{verb: "get", url: "/api"}, true},
		"paths below":           {atom{verb: "get", url: "/api/*"}, atom{verb: "get", url: "/api/v1"}, true},
		"paths elsewhere":       {atom{verb: "get", url: "/api/*"}, atom{verb: "get", url: "/apis"}, false},
		"a path is no resource": {atom{verb: "*", url: "*"}, pods, false},
		"nor the other way":     {atom{verb: "*", group: "*", resource: "*"}, atom{verb: "get", url: "/api"}, false},
	} {
		if got := c.a.gives(c.b); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if own := clusterBinding("x", "x", systemNode); dangerous(&own) {
		t.Error("system:node counts as dangerous")
	}
	one := []rbacv1.PolicyRule{{Verbs: []string{"impersonate"}, APIGroups: []string{""}, Resources: []string{"users"}, ResourceNames: []string{"jane"}}}
	b := clusterBinding("x", "x", one)
	if !dangerous(&b) {
		t.Error("the right to impersonate one user is not dangerous")
	}
	if diff := cmp.Diff("goes", Goes.String()); diff != "" || Fate(77).String() != "unknown" {
		t.Error(diff)
	}
}

// Every verb on a resource is a right to the audience or the signer of its name, and of its service account, unless the name is one of Kubernetes' own.
func TestEveryVerbGivesWhatIsAskedByName(t *testing.T) {
	audience := func(resource, name string) atom { return atom{verb: verbAudience, resource: resource, name: name} }
	signer := func(resource string) atom {
		return atom{verb: verbSigner, group: certificatesGroup, resource: resource}
	}
	for name, c := range map[string]struct {
		a    atom
		want []atom
	}{
		"an audience":            {atom{verb: "*", resource: "registry.example"}, []atom{audience("registry.example", "")}},
		"of an account":          {atom{verb: "*", resource: "vault", name: "web"}, []atom{audience("vault", "web")}},
		"a URL":                  {atom{verb: "*", resource: "https://registry.example/v2"}, []atom{audience("https://registry.example/v2", "")}},
		"the API server's":       {atom{verb: "*"}, []atom{audience("", "")}},
		"every audience":         {atom{verb: "*", resource: "*"}, []atom{audience("*", "")}},
		"a signer":               {atom{verb: "*", group: certificatesGroup, resource: "example.com:mesh"}, []atom{signer("example.com:mesh")}},
		"every signer":           {atom{verb: "*", group: certificatesGroup, resource: "*"}, []atom{signer("*")}},
		"all groups":             {atom{verb: "*", group: "*", resource: "example.com:mesh"}, []atom{audience("example.com:mesh", ""), signer("example.com:mesh")}},
		"all groups, no signer":  {atom{verb: "*", group: "*", resource: "registry.example"}, []atom{audience("registry.example", "")}},
		"another group":          {atom{verb: "*", group: "apps", resource: "example.com:mesh"}, nil},
		"a resource":             {atom{verb: "*", resource: "configmaps"}, nil},
		"of another group":       {atom{verb: "*", resource: "deployments"}, nil},
		"a subresource":          {atom{verb: "*", resource: "pods/log"}, nil},
		"a subresource of all":   {atom{verb: "*", resource: "*/status"}, nil},
		"one verb":               {atom{verb: "get", resource: "registry.example"}, nil},
		"the verb that is asked": {audience("registry.example", ""), nil},
		"a path":                 {atom{verb: "*", url: "*"}, nil},
	} {
		if diff := cmp.Diff(c.want, c.a.namedAside(), cmp.AllowUnexported(atom{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What usual agents on nodes have does not reach beyond a node, and neither do the parts of other rights.
func TestUsualAgentsHaveNoPowers(t *testing.T) {
	const certificates = "certificates.k8s.io"
	for name, rules := range map[string][][3]string{
		"kube-proxy": {{"list watch", "", "endpoints services"}, {"get list watch", "", "nodes"}, {"create patch update", "", "events"}, {"list watch", "discovery.k8s.io", "endpointslices"}},
		"a CNI": {
			{"get list watch", "", "pods nodes namespaces configmaps"}, {"get", "", "pods/status"},
			{"create get list update watch", "crd.projectcalico.org", "ippools ipamblocks"}, {"get list watch", "networking.k8s.io", "networkpolicies"},
		},
		"node-exporter":  {{"create", "authentication.k8s.io", "tokenreviews"}, {"create", "authorization.k8s.io", "subjectaccessreviews"}},
		"metrics-server": {{"get", "", "nodes/metrics nodes/stats"}, {"get list watch", "", "pods nodes"}},
		"coredns":        {{"list watch", "", "endpoints services pods namespaces"}},
		"a CSI driver":   {{"get list watch create patch", "storage.k8s.io", "csinodes"}, {"get list watch patch", "storage.k8s.io", "volumeattachments volumeattachments/status"}, {"get list watch", "storage.k8s.io", "csidrivers"}, {"get list watch", "", "persistentvolumes"}},
		"a driver that publishes capacity": {
			{"get list watch", "storage.k8s.io", "storageclasses csinodes volumeattachments volumeattributesclasses"}, {"get list watch", "", "persistentvolumes nodes persistentvolumeclaims"},
			{"get list watch create update patch delete", "storage.k8s.io", "csistoragecapacities"}, {"get", "apps", "replicasets daemonsets"}, {"get", "", "pods"},
			{"get list watch", "snapshot.storage.k8s.io", "volumesnapshots volumesnapshotcontents"},
		},
		"a registrar of a CSI driver":   {{"get list watch create update patch", "", "events"}, {"get list watch create update patch delete", "storage.k8s.io", "csinodes"}},
		"an agent that defines its own": {{"get list watch create", "apiextensions.k8s.io", "customresourcedefinitions"}, {"get list watch create delete", "", "namespaces"}},
		"a reader of classes":           {{"get list watch", "resource.k8s.io", "deviceclasses resourceclaims"}, {"get list watch", "apiextensions.k8s.io", "customresourcedefinitions"}},
		"a log collector":               {{"get list watch", "", "pods pods/log namespaces nodes"}},
		"a leader":                      {{"get create update patch delete", "coordination.k8s.io", "leases"}, {"create update patch delete", "", "events endpoints services"}},
		"a job cleaner":                 {{"get list watch delete deletecollection", "batch", "jobs cronjobs"}, {"delete", "apps", "daemonsets"}},
		"reads of ConfigMaps":           {{"get list watch delete", "", "configmaps"}},
		"a node's own":                  {{"create get list watch", certificates, "certificatesigningrequests"}, {"create", certificates, "certificatesigningrequests/selfnodeclient"}},
		"approval without it":           {{"create", certificates, "certificatesigningrequests/nodeclient"}},
	} {
		b := clusterBinding("x", "x", nil)
		for _, r := range rules {
			b.Rules = append(b.Rules, rbacv1.PolicyRule{Verbs: strings.Fields(r[0]), APIGroups: []string{r[1]}, Resources: strings.Fields(r[2])})
		}
		if p := PowersOf(&b); p.Right != "" {
			t.Errorf("%s reaches beyond a node by %s", name, p.Right)
		}
	}
}

// Who writes the ConfigMaps of kube-system that others trust reaches beyond a node; who writes those of his own namespace does not.
func TestConfigMapPowers(t *testing.T) {
	role := func(verb, names string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{{Verbs: strings.Fields(verb), APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: strings.Fields(names)}}
	}
	for _, c := range []struct {
		namespace, verbs, names, want string // of the binding; "" of all
	}{
		{"", "update", "", "update configmaps"},
		{"", "patch", "", "patch configmaps"},
		{"", "create", "", "create configmaps"}, // aws-auth need not be there
		{"kube-system", "create", "", "create configmaps"},
		{"kube-system", "*", "", "create configmaps"},
		{"", "update", "aws-auth", "update configmaps aws-auth"},
		{"kube-system", "patch", "mine extension-apiserver-authentication", "patch configmaps extension-apiserver-authentication"},
		{"kube-system", "update", "kubelet-config-1.23", "update configmaps kubelet-config-1.23"},
		{"kube-system", "update", "kubeadm-config kube-proxy", "update configmaps kube-proxy"},
		{"kube-system", "patch", "worker-config-default-1.36", "patch configmaps worker-config-default-1.36"}, // of k0s
		{"kube-system", "update patch", "cluster-autoscaler-status", ""},
		{"kube-system", "get list watch delete", "", ""},
		{"kube-system", "get", "extension-apiserver-authentication", ""},
		{"monitoring", "create update patch", "", ""}, // for the election of a leader
		{"monitoring", "update", "aws-auth", ""},
	} {
		b := clusterBinding("x", "x", role(c.verbs, c.names))
		if c.namespace != "" {
			b.Binding = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: c.namespace, Name: "x"}
		}
		if got := PowersOf(&b).Right; got != c.want {
			t.Errorf("%s configmaps %q in %q: %q, not %q", c.verbs, c.names, c.namespace, got, c.want)
		}
	}
}

// Each of these rights alone reaches beyond a node, because of what it empties or shows of others.
func TestPowersOverOtherNodes(t *testing.T) {
	for _, a := range []atom{
		{verb: "delete", group: "apps", resource: "replicasets"}, {verb: "deletecollection", group: "apps", resource: "replicasets"},
		{verb: "delete", group: "apps", resource: "deployments"}, {verb: "delete", group: "apps", resource: "statefulsets"}, {verb: "delete", resource: "replicationcontrollers"},
		{verb: "create", group: "resource.k8s.io", resource: "devicetaintrules"}, {verb: "patch", group: "resource.k8s.io", resource: "resourceslices"}, {verb: "get", resource: "nodes/log"},
		{verb: "update", resource: "pods/status"}, {verb: "patch", resource: "pods/status"},
		{verb: "create", group: "certificates.k8s.io", resource: "podcertificaterequests"}, {verb: "create", group: "storage.k8s.io", resource: "volumeattachments"},
		{verb: "create", group: "node.k8s.io", resource: "runtimeclasses"}, {verb: "patch", group: "node.k8s.io", resource: "runtimeclasses"},
		{verb: "create", group: "storage.k8s.io", resource: "csidrivers"}, {verb: "patch", group: "storage.k8s.io", resource: "csidrivers"},
		{verb: "create", group: "storage.k8s.io", resource: "storageclasses"}, {verb: "update", group: "storage.k8s.io", resource: "storageclasses"}, {verb: "patch", group: "storage.k8s.io", resource: "storageclasses"},
		{verb: "create", group: "resource.k8s.io", resource: "deviceclasses"}, {verb: "patch", group: "resource.k8s.io", resource: "deviceclasses"},
		{verb: "update", group: "apiextensions.k8s.io", resource: "customresourcedefinitions"}, {verb: "patch", group: "apiextensions.k8s.io", resource: "customresourcedefinitions"},
		{verb: "update", resource: "namespaces"}, {verb: "patch", resource: "namespaces"},
		{verb: "update", resource: "persistentvolumeclaims"}, {verb: "patch", resource: "persistentvolumeclaims"}, {verb: "patch", resource: "persistentvolumeclaims/status"},
		{verb: "create", group: "apps.openshift.io", resource: "deploymentconfigs"}, {verb: "patch", group: "apps.openshift.io", resource: "deploymentconfigs/scale"},
		{verb: "create", group: "machineconfiguration.openshift.io", resource: "machineconfigs"}, {verb: "patch", group: "machineconfiguration.openshift.io", resource: "kubeletconfigs"},
		{verb: "update", group: "machineconfiguration.openshift.io", resource: "containerruntimeconfigs"},
		{verb: "create", group: "helm.cattle.io", resource: "helmcharts"}, {verb: "patch", group: "helm.cattle.io", resource: "helmchartconfigs"},
	} {
		b := clusterBinding("x", "x", []rbacv1.PolicyRule{{Verbs: []string{a.verb}, APIGroups: []string{a.group}, Resources: []string{a.resource}}})
		if got := PowersOf(&b).Right; got != a.String() {
			t.Errorf("%s is no power: %q", a, got)
		}
	}
}

// A RoleBinding gives nothing of what is in no namespace, in whatever words, and all else that a ClusterRoleBinding gives.
func TestPowersInNamespace(t *testing.T) {
	const inNone = "nodes persistentvolumes users groups clusterroles clusterrolebindings mutatingwebhookconfigurations validatingwebhookconfigurations mutatingadmissionpolicies " +
		"mutatingadmissionpolicybindings apiservices devicetaintrules resourceslices runtimeclasses csidrivers storageclasses deviceclasses customresourcedefinitions volumeattachments " +
		"certificatesigningrequests signers"
	none := strings.Fields(inNone)
	kinds := map[bool]int{}
	for _, a := range powers() {
		resource, _, _ := strings.Cut(a.resource, "/")
		want := a.url == "" && !slices.Contains(none, resource)
		kinds[want]++
		for _, group := range []string{a.group, "*"} {
			b := clusterBinding("x", "x", []rbacv1.PolicyRule{{Verbs: []string{a.verb}, APIGroups: []string{group}, Resources: []string{a.resource}}})
			if a.url != "" {
				b.Rules = []rbacv1.PolicyRule{{Verbs: []string{a.verb}, NonResourceURLs: []string{a.url}}}
			}
			if PowersOf(&b).Right == "" {
				t.Errorf("%s of group %q is no power in the cluster", a, group)
			}
			b.Binding = rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: "shop", Name: "x"}
			if got := PowersOf(&b).Right; (got != "") != want {
				t.Errorf("%s of group %q in a namespace: %q", a, group, got)
			}
		}
	}
	if kinds[true] < 50 || kinds[false] < 50 {
		t.Errorf("%v", kinds)
	}
	for right, want := range map[[3]string]bool{
		{"update", "", "namespaces"}:                                       false, // about which the API server asks with its own namespace
		{"bind", "rbac.authorization.k8s.io", "clusterroles"}:              false, // in the namespace of the RoleBinding
		{"*", "rbac.authorization.k8s.io", "clusterroles"}:                 false,
		{"escalate", "rbac.authorization.k8s.io", "clusterroles"}:          true,
		{"use", "policy", "podsecuritypolicies"}:                           false, // in the namespace of the pod
		{verbAudience, "", "persistentvolumes"}:                            false,
		{"impersonate:user-info", "authentication.k8s.io", "userextras/s"}: true,
		{"impersonate", "", "serviceaccounts"}:                             false,
		{"get", "example.com", "users"}:                                    false,
		{"get", "", "*"}:                                                   false,
		{"get", "", "componentstatuses"}:                                   true,
	} {
		if a := (atom{verb: right[0], group: right[1], resource: right[2]}); a.cluster() != want {
			t.Errorf("%s is in no namespace: %t", a, !want)
		}
	}
}

// An API server with --enable-logs-handler shows the logs of its machine below this path. A rule without an asterisk at its end is of one path.
func TestPowerOverLogs(t *testing.T) {
	for _, c := range []struct {
		verb, url string
		power     bool
	}{
		{"get", "/logs/", true}, {"get", "/logs/*", true}, {"get", "/logs*", true}, {"get", "/l*", true}, {"*", "/logs/*", true}, {"get", "*", true},
		{"get", "/metrics", false}, {"get", "/healthz/*", false}, {"get", "/log", false}, {"post", "/logs/*", false},
	} {
		b := clusterBinding("x", "x", []rbacv1.PolicyRule{{Verbs: []string{c.verb}, NonResourceURLs: []string{c.url}}})
		if got := PowersOf(&b).Right; (got != "") != c.power {
			t.Errorf("%s %s: power %q, want one: %t", c.verb, c.url, got, c.power)
		}
	}
}

// A binding stays because it is kept whether all bindings are known or not, and no other does.
func TestKept(t *testing.T) {
	getAll := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	getMaps := []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}
	for _, known := range []bool{true, false} {
		in := Input{BindingsKnown: known, Bindings: []rbac.BindingInfo{
			clusterBinding("keep", "view", getMaps, group("system:nodes")), clusterBinding("other", "view", getMaps, group("system:nodes")),
			clusterBinding("node", "system:node", getAll, group("system:nodes")),
		}}
		for i := range in.Bindings {
			if ref := in.Bindings[i].Binding; ref.Name != "other" {
				in.Keep = append(in.Keep, ref)
			}
		}
		r := bindingsInventoried(&in)
		r.Check = nameInventoried
		stays := Staying([]Result{r})
		for i := range in.Bindings {
			if ref := in.Bindings[i].Binding; stays(ref) != map[string]Code{"keep": WhyKeep}[ref.Name] {
				t.Errorf("all are known: %t; %s stays: %q", known, ref, stays(ref))
			}
		}
	}
}

// A binding that goes is not known to be unused if its subject has tokens and makes no request. Those that stay do not matter.
func TestSilentAccountsOfBindings(t *testing.T) {
	agent := rbac.SubjectRef{Kind: "ServiceAccount", Namespace: "kube-system", Name: "node-agent"}
	for role, want := range map[string]int{"system:node": 1, "view": 0, "system:node, kept": 0} {
		in := clean()
		var kept bool
		if role, kept = strings.CutSuffix(role, ", kept"); kept {
			in.Keep = []rbac.BindingRef{{Kind: rbac.KindClusterRoleBinding, Name: "agent"}}
		}
		in.OthersJudged, in.Silent = true, []rbac.SubjectRef{agent}
		in.Bindings = append(in.Bindings, clusterBinding("agent", role, []rbacv1.PolicyRule{{Verbs: []string{"list"}, APIGroups: []string{""}, Resources: []string{"pods"}}}, agent))
		r, n := resultOf(in, "bindings-inventoried"), 0
		for _, item := range r.Evidence {
			if item.Code == CodeAccountSilent {
				n++
				if item.State != Unproven || item.Object != "ClusterRoleBinding agent" || item.Value != "kube-system/node-agent" {
					t.Errorf("%s: %+v", role, item)
				}
			}
		}
		if n != want || (r.State == Passed) != (want == 0) {
			t.Errorf("%s: %d, %s", role, n, r.State)
		}
	}
}
