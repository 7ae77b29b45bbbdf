package checks

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// staying is a binding that nodes need whoever authorizes them, with the most that its role gives. Without a name it is any binding of the role.
type staying struct {
	binding rbac.BindingRef
	prefix  bool // of the name, which a minor follows
	role    string
	rules   []rbacv1.PolicyRule
	why     Code
	joins   bool // its subjects are machines that join, and no nodes
	excess  bool // it gives nodes more than they need
	// names is how the names begin of the objects that its role may give; the names are those of the rules, if it is empty.
	names string
}

// allows reports whether the rules give no more than the role may.
func (s *staying) allows(rules []rbacv1.PolicyRule) bool {
	given := atomsOf(rules)
	for a := range given {
		if !strings.HasPrefix(a.name, s.names) {
			return false
		}
	}
	return !beyond(given, atomsOf(s.rules))
}

func (s *staying) is(b *rbac.BindingInfo) bool {
	if b.Binding.Kind != s.binding.Kind || b.Binding.Namespace != s.binding.Namespace {
		return false
	}
	if s.joins && slices.ContainsFunc(b.Subjects, rbac.SubjectRef.ForNodes) {
		return false
	}
	if s.binding.Name == "" {
		return b.Role == rbac.RoleRef{Kind: rbac.KindClusterRole, Name: s.role}
	}
	if s.prefix {
		return strings.HasPrefix(b.Binding.Name, s.binding.Name) && b.Role.Name == b.Binding.Name
	}
	return b.Binding.Name == s.binding.Name && b.Role.Name == s.role
}

// stayingAs is that on the list which the binding is by its names and subjects; nil if it is none.
func stayingAs(b *rbac.BindingInfo) *staying {
	all := stays()
	if i := slices.IndexFunc(all, func(s staying) bool { return s.is(b) }); i >= 0 {
		return &all[i]
	}
	return nil
}

// staysInExcess reports whether a binding that stays gives nodes more than they need: it is for machines that join, and nodes have it by another group, or the
// provider's own gives them more.
func staysInExcess(b *rbac.BindingInfo) bool {
	s := stayingAs(b)
	return s != nil && (s.joins || s.excess)
}

// stays is the list: what kubeadm makes (cmd/kubeadm/app/phases/bootstraptoken/node, uploadconfig, kubelet, addons/proxy and copycerts of
// k8s.io/kubernetes), what the Kubernetes documentation makes for TLS bootstrapping, what Amazon EKS documents, and what k0s and
// OpenShift make.
func stays() []staying {
	const certificates, requests = certificatesGroup, certificateRequests
	const k0sProfiles = "system:bootstrappers:worker-config"
	cluster := func(name string) rbac.BindingRef {
		return rbac.BindingRef{Kind: rbac.KindClusterRoleBinding, Name: name}
	}
	local := func(name string) rbac.BindingRef {
		return rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: "kube-system", Name: name}
	}
	rule := func(group, resource string, names []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names, Verbs: verbs}
	}
	maps := func(name string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{rule("", "configmaps", []string{name}, "get")}
	}
	allMaps := []rbacv1.PolicyRule{rule("", "configmaps", nil, "get", "list", "watch")}
	bootstrap := []rbacv1.PolicyRule{rule(certificates, requests, nil, "create", "get", "list", "watch")}
	// A node that has a certificate renews it by selfnodeclient, and nodeclient is only for machines that join.
	approved := func(name, sub string, why Code) staying {
		return staying{
			binding: cluster(name), role: "system:certificates.k8s.io:certificatesigningrequests:" + sub, rules: []rbacv1.PolicyRule{rule(certificates, requests+"/"+sub, nil, "create")}, why: why,
			joins: sub == "nodeclient",
		}
	}
	out := []staying{
		{binding: cluster("kubeadm:kubelet-bootstrap"), role: "system:node-bootstrapper", rules: bootstrap, why: WhyKubeadm},
		approved("kubeadm:node-autoapprove-bootstrap", "nodeclient", WhyKubeadm),
		approved("kubeadm:node-autoapprove-certificate-rotation", "selfnodeclient", WhyKubeadm),
		// The Kubernetes documentation on TLS bootstrapping makes the same under other names.
		{binding: cluster("create-csrs-for-bootstrapping"), role: "system:node-bootstrapper", rules: bootstrap, why: WhyDocumented},
		approved("auto-approve-csrs-for-group", "nodeclient", WhyDocumented),
		approved("auto-approve-renewals-for-nodes", "selfnodeclient", WhyDocumented),
		{binding: cluster("kubeadm:get-nodes"), role: "kubeadm:get-nodes", rules: []rbacv1.PolicyRule{rule("", "nodes", nil, "get")}, why: WhyKubeadm, joins: true},
		{binding: local("kubeadm:nodes-kubeadm-config"), role: "kubeadm:nodes-kubeadm-config", rules: maps("kubeadm-config"), why: WhyKubeadm},
		{binding: local("kubeadm:kubelet-config"), role: "kubeadm:kubelet-config", rules: maps("kubelet-config"), why: WhyKubeadm},
		{binding: local("kubeadm:kubelet-config-1."), prefix: true, rules: []rbacv1.PolicyRule{rule("", "configmaps", nil, "get")}, why: WhyKubeadm, names: "kubelet-config-1."},
		{binding: local("kube-proxy"), role: "kube-proxy", rules: maps("kube-proxy"), why: WhyKubeadm, joins: true},
		{binding: local("kubeadm:kubeadm-certs"), role: "kubeadm:kubeadm-certs", rules: []rbacv1.PolicyRule{rule("", "secrets", []string{"kubeadm-certs"}, "get")}, why: WhyKubeadm, joins: true},
		{
			binding: cluster("eks:node-bootstrapper"), role: "eks:node-bootstrapper", why: WhyProvider,
			rules: []rbacv1.PolicyRule{rule(certificates, requests, nil, "create"), rule(certificates, requests+"/selfnodeserver", nil, "create")},
		},
		// GKE and cluster/gce of Kubernetes have a role of this name in place of the API server's.
		{binding: cluster("gce:beta:kubelet-certificate-rotation"), role: "gce:beta:kubelet-certificate-rotation", rules: []rbacv1.PolicyRule{rule(certificates, requests+"/selfnodeclient", nil, "create")}, why: WhyProvider},
		// k0s makes this for its workers, and since 1.31 one for each minor (pkg/component/controller/workerconfig/reconciler.go of github.com/k0sproject/k0s).
		{binding: local(k0sProfiles), role: k0sProfiles, rules: allMaps, why: WhyK0s, names: "worker-config-"},
		{binding: local(k0sProfiles + "-1."), prefix: true, rules: allMaps, why: WhyK0s, names: "worker-config-"},
		// The API server makes these roles for TLS bootstrapping, and each distribution has names of its own for their bindings.
		{binding: cluster(""), role: "system:node-bootstrapper", rules: bootstrap, why: WhyBootstrapRole},
		approved("", "nodeclient", WhyBootstrapRole),
		approved("", "selfnodeclient", WhyBootstrapRole),
	}
	// OpenShift's operator makes these again when somebody deletes them (install/0000_80_machine-config_00_rbac.yaml of github.com/openshift/machine-config-operator).
	out = append(out, staying{
		binding: cluster("node-credential-providers-binding"), role: "node-credential-providers", why: WhyProvider, excess: true,
		rules: []rbacv1.PolicyRule{rule("", "serviceaccounts", nil, "get", "list"), rule("", "https://kubernetes.default.svc", nil, verbAudience)},
	})
	for _, platform := range []string{"kni", "nutanix", "openstack", "vsphere"} {
		out = append(out, staying{
			binding: rbac.BindingRef{Kind: rbac.KindRoleBinding, Namespace: "openshift-" + platform + "-infra", Name: "host-networking-system-node"},
			role:    "host-networking-services", rules: allMaps, why: WhyProvider, excess: true,
		})
	}
	return out
}
