package rules

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
)

// nodeAgent is a program that a provider runs on nodes with the kubelet's credential, by its sources.
type nodeAgent struct {
	product  string // of its user agent
	nodes    string // how the names of the provider's nodes begin
	provider string
	source   string
	does     func(r *Request) bool
	// perhaps is for requests of which the log does not tell whether they are such; it may be nil.
	perhaps func(r *Request) bool
	// sparing says that it looks up nothing of what an API server serves, but for what does has.
	sparing bool
	// drains says that it evicts the node's own pods, and gets each again until it is gone.
	drains bool
}

// nodeAgents are the agents that are known. What another program does under their names, or they do beyond this, is a program that is no kubelet.
//
// GKE's gke-exec-auth-plugin is not among them: it requests the node's certificate with a bootstrap credential, not with the node's
// (github.com/kubernetes/cloud-provider-gcp, cmd/gke-exec-auth-plugin/request.go). Nor is acr-nodemon of AKS (Azure/AKS#5370), which sends no user agent,
// nor Bottlerocket's update operator, which has a service account (github.com/bottlerocket-os/bottlerocket-update-operator), nor the kubectl of MicroK8s, which
// nothing distinguishes from any other (github.com/canonical/microk8s, scripts/kill-host-pods.py).
var nodeAgents = []nodeAgent{
	{
		product: "kubectl", nodes: "aks-", provider: "AKS", does: annotatesItsNode,
		source: "github.com/Azure/AgentBaker, parts/linux/cloud-init/artifacts/mariner/mariner-package-update.sh",
	},
	{
		product: "eks-node-monitoring-agent", provider: "EKS, with Bottlerocket or Amazon Linux", does: reportsItsNode,
		source: "github.com/aws/eks-node-monitoring-agent, cmd/eks-node-monitoring-agent/restconfig.go",
	},
	{
		product: "node-problem-detector", provider: "GCE and whoever runs it standalone", does: detectsProblems,
		source: "github.com/kubernetes/kubernetes/pull/85014, cluster/gce/gci/configure-helper.sh",
	},
	{
		product: "machined", provider: "Talos", does: managesItsNode, drains: true,
		source: "github.com/siderolabs/talos, pkg/kubernetes/kubernetes.go (NewClientFromKubeletKubeconfig)",
	},
	{
		product: "Talos", provider: "Talos in newer releases", does: managesItsNode, drains: true,
		source: "github.com/siderolabs/talos, pkg/httpdefaults/useragent.go",
	},
	{
		product: "ovnkube", provider: "OVN-Kubernetes, as on OpenShift", does: asksForSecond("OVN-Kubernetes"), perhaps: asksWithoutBody,
		source: "github.com/ovn-kubernetes/ovn-kubernetes, go-controller/pkg/util/kube.go (StartNodeCertificateManager)",
	},
	{
		product: "multus-daemon", provider: "Multus, as on OpenShift", does: asksForSecond("Multus"), perhaps: asksWithoutBody,
		source: "github.com/k8snetworkplumbingwg/multus-cni, pkg/k8sclient/kubeconfig.go (PerNodeK8sClient)",
	},
	{
		product: "kube-proxy", provider: "EKS and AKS on Windows", does: proxiesServices,
		source: "github.com/aws/aws-k8s-tester/pull/242; github.com/Azure/aks-engine, staging/provisioning/windows/kubeproxystart.ps1",
	},
	{
		product: "kube-rbac-proxy", provider: "OpenShift (kube-rbac-proxy-crio)", does: reviews,
		source: "github.com/openshift/machine-config-operator, 'templates/master/01-master-kubelet/_base/files/criometricsproxy.yaml'",
	},
	{
		product: "machine-config-daemon", provider: "OpenShift", does: configuresItsNode, sparing: true,
		source: "github.com/openshift/machine-config-operator, pkg/daemon/writer.go (newNodeWriter)",
	},
	{
		product: "aks-secure-tls-bootstrap-client", provider: "AKS", does: asksVersion, sparing: true,
		source: "github.com/Azure/aks-secure-tls-bootstrap, client/internal/kubeconfig/validator.go",
	},
	{
		product: "nodeadm", provider: "EKS Hybrid Nodes", does: looksAfterItsNode, sparing: true,
		source: "github.com/aws/eks-hybrid, internal/node/validations.go and internal/kubernetes/validate.go",
	},
}

// managesItsNode reports whether the request is one of Talos's: it reads, annotates, cordons and labels the node's own Node, lists and evicts the node's own
// pods to drain it, and reads the Nodes, the addresses of the API servers and the certificate requests. What the Node authorizer denies is none of it, but for
// the addresses, which Talos gives nodes by a binding of its own.
func managesItsNode(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest {
		return false
	}
	read := !writes(a.Verb)
	switch a.APIGroup + "/" + a.Resource {
	case "/nodes":
		own := a.Name == r.Node && (read || a.Verb == "patch" || a.Verb == "update")
		return a.Subresource == "" && (own || read && a.Name == "" && !r.NodeDenies())
	case "/pods":
		if r.NodeDenies() {
			return false
		}
		if a.Verb == "list" && a.Subresource == "" {
			return selectsOwn(r)
		}
		return a.Name != "" && (a.Verb == "get" && a.Subresource == "" || a.Verb == "create" && a.Subresource == "eviction")
	case "/endpoints", "discovery.k8s.io/endpointslices":
		return read && a.Namespace == "default" && a.Subresource == ""
	case "certificates.k8s.io/certificatesigningrequests":
		return read && a.Subresource == ""
	}
	return false
}

// asksForSecond returns whether the request is one for the second certificate of the provider for the node itself, or looks after such requests. A creation
// whose body is not in the log is none: it may be one for anybody's certificate.
func asksForSecond(provider string) func(r *Request) bool {
	return func(r *Request) bool {
		a := r.Attrs
		if !ofRequests(a) {
			return false
		}
		if a.Verb == "create" {
			s, whole := r.Signing()
			c := secondOf(s)
			return whole && c != nil && c.provider == provider
		}
		return !writes(a.Verb)
	}
}

// looksUp reports whether the request is one by which clients find out what an API server serves. Everybody may make it.
func looksUp(r *Request) bool {
	return !r.Attrs.ResourceRequest && r.Attrs.Verb == "get" && public(r.Attrs.Path)
}

// asksWithoutBody reports whether the request is for a certificate, and the log does not tell for which: it has no body.
func asksWithoutBody(r *Request) bool {
	if !ofRequests(r.Attrs) || r.Attrs.Verb != "create" {
		return false
	}
	_, whole := r.Signing()
	return !whole
}

// ofRequests reports whether a request is for CertificateSigningRequests themselves.
func ofRequests(a *authorizer.AttributesRecord) bool {
	return a.ResourceRequest && a.APIGroup == "certificates.k8s.io" && a.Resource == "certificatesigningrequests" && a.Subresource == ""
}

// agentOf is the known agent that the request is an ordinary one of, or perhaps one of; nil if there is none.
func agentOf(product string, r *Request, s State) *nodeAgent {
	for i := range nodeAgents {
		a := &nodeAgents[i]
		if a.product != program(product) || !strings.HasPrefix(r.Node, a.nodes) {
			continue
		}
		if a.does(r) || !a.sparing && looksUp(r) || a.perhaps != nil && a.perhaps(r) || a.drains && getsGone(r, s) {
			return a
		}
	}
	return nil
}

// getsGone reports whether the request gets a pod that was on the node until lately. Since Kubernetes 1.32 the Node authorizer refuses that, and Talos takes the refusal for
// the end of the pod (pkg/kubernetes/kubernetes.go, waitForPodDeleted).
func getsGone(r *Request, s State) bool {
	a := r.Attrs
	return s != nil && r.getsPod() && !r.Succeeded() && s.PodWasOn(a.Namespace, a.Name, r.Node, r.Time.Add(-asksAfter), r.Time)
}

// asksVersion reports whether the request asks for the version of the API server, by which the bootstrapping of AKS tries a certificate.
func asksVersion(r *Request) bool {
	return !r.Attrs.ResourceRequest && r.Attrs.Verb == "get" && r.Attrs.Path == "/version"
}

// looksAfterItsNode reports whether the request is one of nodeadm's for a hybrid node: it gets the node's own Node and lists the node's own pods before it is upgraded or
// uninstalled, and tries the credential by the addresses of the API servers and a review of itself.
func looksAfterItsNode(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource != "" {
		return false
	}
	switch a.APIGroup + "/" + a.Resource {
	case "/nodes":
		return a.Verb == "get" && a.Name == r.Node
	case "/pods":
		return a.Verb == "list" && selectsOwn(r)
	case "/endpoints":
		return a.Verb == "get" && a.Namespace == "default" && a.Name == "kubernetes"
	case "authentication.k8s.io/selfsubjectreviews":
		return ofOneself(a)
	}
	return false
}

// configuresItsNode reports whether the request is one of OpenShift's machine-config-daemon: it reads the node's own Node, writes annotations of it, and records events of it. The
// events are in the namespace of the operator, those of older releases in default.
func configuresItsNode(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.APIGroup != "" || a.Subresource != "" {
		return false
	}
	switch a.Resource {
	case "nodes":
		return a.Name == r.Node && (reads(a.Verb) || a.Verb == "patch" && patchesAnnotations(r.Event.RequestObject))
	case "events":
		object := eventObject(r)
		return (a.Namespace == "openshift-machine-config-operator" || a.Namespace == "default") &&
			(a.Verb == "create" && (object == "" || object == r.Node) || a.Verb == "patch" && object == r.Node)
	}
	return false
}

// patchesAnnotations reports whether a patch that is merged changes annotations alone. A body that is not in the log counts as such.
func patchesAnnotations(body []byte) bool {
	if len(body) == 0 {
		return true
	}
	var object, metadata map[string]json.RawMessage
	if json.Unmarshal(body, &object) != nil || len(object) != 1 || json.Unmarshal(object["metadata"], &metadata) != nil {
		return false
	}
	_, annotates := metadata["annotations"]
	return annotates && len(metadata) == 1
}

// annotatesItsNode reports whether the request reads or annotates the node's own Node.
func annotatesItsNode(r *Request) bool {
	a := r.Attrs
	return a.ResourceRequest && a.APIGroup == "" && a.Resource == "nodes" && a.Subresource == "" && a.Name == r.Node && (a.Verb == "get" || a.Verb == "patch")
}

// reportsItsNode reports whether the request reads the node's own Node or writes conditions of it.
func reportsItsNode(r *Request) bool {
	a := r.Attrs
	return a.ResourceRequest && a.APIGroup == "" && a.Resource == "nodes" && a.Name == r.Node &&
		(a.Verb == "get" && a.Subresource == "" || (a.Verb == "patch" || a.Verb == "update") && a.Subresource == "status")
}

// detectsProblems reports whether the request reads the node's own Node, writes conditions of it, or writes an event.
func detectsProblems(r *Request) bool {
	a := r.Attrs
	return reportsItsNode(r) || a.ResourceRequest && a.Resource == "events" && a.Subresource == "" && (a.Verb == "create" || a.Verb == "patch" || a.Verb == "update")
}

// reviews reports whether the request asks whose token something is, or what somebody may do, as a proxy does before it lets a request through.
func reviews(r *Request) bool {
	a := r.Attrs
	return a.ResourceRequest && a.Verb == "create" && a.Subresource == "" &&
		(a.APIGroup == "authentication.k8s.io" && a.Resource == "tokenreviews" || a.APIGroup == "authorization.k8s.io" && a.Resource == "subjectaccessreviews")
}

// proxiesServices reports whether the request is one of kube-proxy's: it reads services and what is behind them, and its own Node, and writes events.
func proxiesServices(r *Request) bool {
	a := r.Attrs
	if !a.ResourceRequest || a.Subresource != "" {
		return false
	}
	switch a.Resource {
	case "services", "endpoints":
		return a.APIGroup == "" && reads(a.Verb)
	case "nodes":
		return a.APIGroup == "" && reads(a.Verb) && a.Name == r.Node
	case "endpointslices":
		return a.APIGroup == "discovery.k8s.io" && reads(a.Verb)
	case "servicecidrs":
		return a.APIGroup == "networking.k8s.io" && reads(a.Verb)
	case "events":
		return a.Verb == "create" || a.Verb == "patch" || a.Verb == "update"
	}
	return false
}

// finding is the one on such a request. An agent runs on its node: it is excused where it comes from an address of the Node. It is not where it comes from one of another
// node. What comes from an address that no Node has may have passed a gateway.
func (a *nodeAgent) finding(f *Finding, r *Request, s State) {
	text, logged := r.Event.Address()
	address, ok := audit.PlainAddress(text)
	if s != nil && logged && (!ok || !address.IsLoopback()) {
		if sets := s.NodeAddressSets(r.Node, r.Time); len(sets) > 0 && !slices.ContainsFunc(sets, func(all []string) bool { return hasAddress(all, address.String()) }) {
			if s.NodeAt(text) == "" {
				f.Severity = Medium
			}
			return
		}
	}
	if a.perhaps != nil && a.perhaps(r) {
		f.Severity = Medium
		return
	}
	f.Severity, f.Reason, f.Params = Low, ProviderAgent, codes.Params{codes.Text(ParamProvider, a.provider)}
}

// agentsDoc lists the agents for the page of the rule.
func agentsDoc() string {
	var lines []string
	for i := range nodeAgents {
		a := &nodeAgents[i]
		line := "- '" + a.product + "' of " + a.provider
		if a.nodes != "" {
			line += ", on nodes whose names begin with '" + a.nodes + "'"
		}
		lines = append(lines, line+":\n  "+a.source)
	}
	return strings.Join(lines, "\n")
}
