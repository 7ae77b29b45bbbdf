package checks

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

// powers are the rights that lead from one service account to the credentials or the pods of others: those with which a node gets beyond itself, to read
// or write secrets, to make tokens, to say what runs where, to empty other nodes, to answer for API servers, and to give rights. A write is answered with
// the object, and a deletion with what it deletes or would delete, so that both read as well. ConfigMaps are in configMapPower.
//
// The logs of machines count (/var/log, from their kubelets, and of API servers with --enable-logs-handler): cloud-init writes there with which token a machine
// joins. Logs of pods do not.
//
// Who may only create Secrets makes a bootstrap token, in kube-system (plugin/pkg/auth/authenticator/token/bootstrap). In any namespace he makes a token of
// an account of it (pkg/controller/serviceaccount): a node may read it if a pod on the node names a Secret that is not there, as optional ones and
// imagePullSecrets often are.
func powers() []atom {
	out := slices.DeleteFunc(dangers(), func(a atom) bool { return a == approval() })
	for _, verb := range requestVerbs() {
		out = append(out, atom{verb: verb, resource: "secrets"})
	}
	for _, resource := range []string{"serviceaccounts/token", "bindings", "pods/binding", "pods/eviction"} {
		out = append(out, atom{verb: "create", resource: resource})
	}
	// The API server asks only nodes whether the pod that is named runs on them (plugin/pkg/admission/noderestriction), and the signer believes it.
	out = append(out, atom{verb: "create", group: certificatesGroup, resource: "podcertificaterequests"})
	out = append(out, atom{verb: "get", resource: "nodes/log"}, atom{verb: "get", url: "/logs/"})
	// It attaches a volume of any pod, or of none, to a node.
	out = append(out, atom{verb: "create", group: "storage.k8s.io", resource: "volumeattachments"})
	// The pods of other nodes are made again, maybe here. A Deployment makes its ReplicaSets again, and operators the others. The pods of a DaemonSet
	// come to the nodes where they were, and a CronJob does not make its Jobs again.
	for _, of := range []struct{ group, resource string }{
		{"", "pods"}, {"", "nodes"}, {"", "replicationcontrollers"}, {"apps", "replicasets"}, {"apps", "deployments"}, {"apps", "statefulsets"},
	} {
		out = append(out, atom{verb: "delete", group: of.group, resource: of.resource}, atom{verb: "deletecollection", group: of.group, resource: of.resource})
	}
	const access = rbacv1.GroupName
	for _, verb := range []string{"create", "update", "patch"} {
		for _, of := range []struct{ group, resource string }{
			{"", "pods"}, {"", "pods/ephemeralcontainers"}, {"", "replicationcontrollers"}, {"", "nodes"}, {"", "nodes/status"}, {"", "persistentvolumes"},
			{"apps", "deployments"}, {"apps", "daemonsets"}, {"apps", "replicasets"}, {"apps", "statefulsets"}, {"batch", "jobs"}, {"batch", "cronjobs"},
			{"apps.openshift.io", "deploymentconfigs"},
			// These run what they say on machines, or in pods with any rights, by the controllers of OpenShift and of k3s and RKE2.
			{"machineconfiguration.openshift.io", "machineconfigs"}, {"machineconfiguration.openshift.io", "kubeletconfigs"},
			{"machineconfiguration.openshift.io", "containerruntimeconfigs"}, {"helm.cattle.io", "helmcharts"}, {"helm.cattle.io", "helmchartconfigs"},
			{access, "roles"}, {access, "rolebindings"}, {access, "clusterroles"}, {access, "clusterrolebindings"},
			{"admissionregistration.k8s.io", "mutatingwebhookconfigurations"}, {"admissionregistration.k8s.io", "validatingwebhookconfigurations"},
			{"admissionregistration.k8s.io", "mutatingadmissionpolicies"}, {"admissionregistration.k8s.io", "mutatingadmissionpolicybindings"},
			{"apiregistration.k8s.io", "apiservices"}, {"resource.k8s.io", "devicetaintrules"}, {"resource.k8s.io", "resourceslices"}, // a taint of a device evicts, and devices bring pods
			{"node.k8s.io", "runtimeclasses"},    // scheduling.nodeSelector is that of pods (plugin/pkg/admission/runtimeclass)
			{"storage.k8s.io", "csidrivers"},     // tokenRequests are audiences that nodes may ask for (plugin/pkg/admission/noderestriction)
			{"storage.k8s.io", "storageclasses"}, // allowedTopologies may change (ValidateStorageClassUpdate), and say where the volumes and pods of new claims are
			{"resource.k8s.io", "deviceclasses"}, // selectors may change (ValidateDeviceClassUpdate), and say whose devices the pods of new claims get
		} {
			out = append(out, atom{verb: verb, group: of.group, resource: of.resource})
		}
	}
	// More of the pods that there are already come here as well, and an account's imagePullSecrets are those of its next pods. A pod whose status says that
	// it failed is made again, as one that is deleted, and Services send traffic to the address in a pod's status. An agent that reports about the pods of
	// its node may write to those of all: NodeRestriction does not limit service accounts.
	//
	// An annotation of a namespace is the node selector of its new pods (plugin/pkg/admission/podnodeselector, and on OpenShift by default). The webhook by which
	// a definition converts custom resources reads and changes all of them; a definition that is new has none that were there before.
	// An annotation of a claim that is not bound yet (volume.kubernetes.io/selected-node) is where its pod has to run (pkg/scheduler/framework/plugins/volumebinding,
	// FindPodVolumes), and its status can be written with the annotations (pkg/registry/core/persistentvolumeclaim).
	for _, verb := range []string{"update", "patch"} {
		for _, of := range []struct{ group, resource string }{
			{"", "serviceaccounts"}, {"", "pods/status"}, {"", "namespaces"}, {"apiextensions.k8s.io", "customresourcedefinitions"}, {"", "replicationcontrollers/scale"}, {"apps", "deployments/scale"}, {"apps", "replicasets/scale"}, {"apps", "statefulsets/scale"},
			{"", "persistentvolumeclaims"}, {"", "persistentvolumeclaims/status"}, {"apps.openshift.io", "deploymentconfigs/scale"},
		} {
			out = append(out, atom{verb: verb, group: of.group, resource: of.resource})
		}
	}
	for _, verb := range []string{"create", "update", "patch"} {
		out = append(out, atom{verb: verb, group: "autoscaling", resource: "horizontalpodautoscalers"})
	}
	return out
}

// configMapsNamespace is where those ConfigMaps are that give power.
const configMapsNamespace = "kube-system"

// givesPower reports whether who writes this ConfigMap of kube-system gets beyond a node: it makes users members of system:masters (aws-auth and
// aws-iam-authenticator), says whose certificates and headers aggregated API servers trust, and names what kubeadm and k0s run on machines, with what
// configuration kubelets start, and what kube-proxy executes for its credentials on each node.
func givesPower(configMap string) bool {
	switch configMap {
	case "aws-auth", "aws-iam-authenticator", "extension-apiserver-authentication", "kube-proxy", "kubeadm-config", "kubelet-config":
		return true
	}
	return strings.HasPrefix(configMap, "kubelet-config-1.") || strings.HasPrefix(configMap, "worker-config-") // of kubeadm before 1.24, and of k0s
}

// configMapPower returns the right of a binding to write such a ConfigMap, all of them or one by its name; "" if there is none. A right to create counts, as
// aws-auth need not be there, and as the name of what is created is not asked about.
func configMapPower(b *rbac.BindingInfo, given map[atom]bool) string {
	if b.Binding.Kind != rbac.KindClusterRoleBinding && b.Binding.Namespace != configMapsNamespace {
		return ""
	}
	least := ""
	for x := range given {
		if x.name != "" && !givesPower(x.name) {
			continue
		}
		for _, verb := range []string{"create", "update", "patch"} {
			right := atom{verb: verb, resource: "configmaps", name: x.name}
			if text := strings.TrimSpace(right.String() + " " + x.name); x.gives(right) && (least == "" || text < least) {
				least = text
			}
		}
	}
	return least
}

// Powers are what a binding gives that reaches beyond a node. A right on some names only counts as well.
type Powers struct {
	// Right is the first that does so by itself, such as "get secrets"; "" if there is none.
	Right string
	// Requests and Approved do so together: the right to request certificates, and the one for which requests for a node's are approved.
	Requests, Approved bool
}

// PowersOf returns what a binding gives.
func PowersOf(b *rbac.BindingInfo) (p Powers) {
	given := atomsOf(b.Rules)
	inForce(b, given)
	if right, is := firstGiven(given, possible(b, powers())); is {
		p.Right = right.String()
	} else {
		p.Right = configMapPower(b, given)
	}
	if b.Binding.Kind == rbac.KindClusterRoleBinding { // the requests are in no namespace
		_, p.Requests = firstGiven(given, []atom{{verb: "create", group: certificatesGroup, resource: certificateRequests}})
		_, p.Approved = firstGiven(given, []atom{approval()})
	}
	return p
}

// OfEverybody is the first right that reaches beyond a node if everybody has it: everybody may then request certificates, too. It is "" if there is none.
func (p *Powers) OfEverybody() string {
	if p.Right == "" && p.Approved {
		return Approval()
	}
	return p.Right
}

// Approval names the right for which requests for the certificate of a node are approved.
func Approval() string { return approval().String() }

// String returns the right as requests are written.
func (a atom) String() string {
	switch {
	case a.url != "":
		return a.verb + " path " + a.url // which may be "*"
	case a.group == "":
		return a.verb + " " + a.resource
	}
	return a.verb + " " + a.resource + "." + a.group
}
