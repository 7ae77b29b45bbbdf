package days

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// thiefAddress is where somebody is who has copied a credential.
const thiefAddress = "198.51.100.9"

// holders are the mutations in which somebody else than its kubelet uses a node's credential for what the node may do, or the log does not show that nobody
// does. No binding depends on any of them.
func holders() []Mutation {
	holder := func(name, what string, f func(m *mutator) string) Mutation {
		return Mutation{Name: name, Description: what, Effect: Harmless, Confined: []string{"one-holder"}, apply: func(m *mutator) string {
			if slices.ContainsFunc(m.Events, func(e *Event) bool { return e.ownAddress }) {
				return "" // those would come from elsewhere, and be harmless no more
			}
			return f(m)
		}}
	}
	// every changes all requests of nodes, or of one, from a time on, and does not apply where there is none.
	every := func(m *mutator, node string, from time.Time, what string, how func(e *Event)) string {
		return some(m.change(func(e *Event) bool {
			return e.IsNode() && (node == "" || nodeOf(e.User) == node) && !e.Received.Before(from)
		}, how), what)
	}
	lease := func(m *mutator, how func(e, like *Event)) string {
		p := m.late(10 * minute)
		name := m.busy(p)
		like := m.like(name, p.from.Add(5*minute))
		if name == "" || like == nil {
			return ""
		}
		e := m.ownLease(like, p.from.Add(5*minute))
		how(e, like)
		m.add(e)
		return fmt.Sprintf("%s from %v by %s", name, e.SourceIPs, e.UserAgent)
	}
	silent := holder("holder-claims-silent", "while a kubelet is silent, somebody reads the Lease of its node from another address, which the Node has had for a minute", func(m *mutator) string {
		return lease(m, func(e, like *Event) {
			e.SourceIPs = []string{thiefAddress}
			m.claim(nodeOf(like.User), thiefAddress, e.Received.Add(-minute), 17*minute)
			m.drop(func(o *Event) bool {
				return nodeOf(o.User) == nodeOf(like.User) && o.Received.After(e.Received.Add(-4*minute)) && o.Received.Before(e.Received.Add(16*minute))
			})
		})
	})
	silent.Effect, silent.Checks = Hides, []string{"window-covered", "reads-logged"} // nothing tells that the kubelet was silent, and the log is whole
	return []Mutation{
		holder("holder-elsewhere", "somebody reads the Lease of a node with its credential, from another address, as a kubelet does", func(m *mutator) string {
			return lease(m, func(e, _ *Event) { e.SourceIPs = []string{thiefAddress} })
		}),
		holder("holder-kubeadm", "somebody reads the Node of a node with its credential, from another address, as kubeadm does", func(m *mutator) string {
			return lease(m, func(e, like *Event) { asKubeadm(e, nodeOf(like.User)) })
		}),
		holder("holder-kubeadm-claims", "and the Node has that address for some seconds", func(m *mutator) string {
			return lease(m, func(e, like *Event) {
				asKubeadm(e, nodeOf(like.User))
				m.claim(nodeOf(like.User), thiefAddress, e.Received.Add(-5*second), 10*second)
			})
		}),
		holder("holder-other-node", "somebody on one node uses the credential of another one", func(m *mutator) string {
			return lease(m, func(e, like *Event) {
				e.SourceIPs = []string{thiefAddress}
				for _, o := range m.Events {
					if o.IsNode() && nodeOf(o.User) != nodeOf(like.User) && len(o.SourceIPs) > 0 && o.SourceIPs[0] != "127.0.0.1" {
						e.SourceIPs = o.SourceIPs
						break
					}
				}
			})
		}),
		holder("holder-client", "a program on the node uses its kubelet's credential", func(m *mutator) string {
			return lease(m, func(e, _ *Event) { e.UserAgent = "curl/8.5.0" })
		}),
		holder("holder-probes", "somebody on the node tries, as its kubelet, what no kubelet does, and is refused", func(m *mutator) string {
			return lease(m, func(e, _ *Event) { m.probe(e, probes[m.IntN(len(probes))]) })
		}),
		holder("holder-agent", "the proxy before the metrics of CRI-O, as on OpenShift, asks with the node's credential who its callers are", func(m *mutator) string {
			return lease(m, func(e, _ *Event) {
				of := [...]apiResource{resTokenReview, resAccess}[m.IntN(2)]
				e.Verb, e.Code, e.URI, e.UserAgent = "create", 201, of.path("", "", ""), "kube-rbac-proxy/v0.0.0 (linux/amd64) kubernetes/$Format"
				e.Ref = &Ref{Group: of.group, Version: of.version, Resource: of.name}
			})
		}),
		holder("holder-open-watch", "somebody watches a secret of a pod with the credential of its node, from another address, until after the log ends", func(m *mutator) string {
			for _, i := range m.Perm(len(m.pods)) {
				p := m.pods[i]
				at := p.bound.Add(minute)
				if len(p.secrets) == 0 || at.Before(m.From.Add(10*minute)) || at.After(p.end().Add(-minute)) || at.After(m.To.Add(-10*minute)) {
					continue
				}
				like := m.like(p.node.name, at)
				if like == nil || like.Received.Sub(at).Abs() > 20*second {
					continue
				}
				e := m.ownLease(like, at)
				e.Verb, e.Stage, e.SourceIPs, e.UserAgent = "watch", StageStarted, []string{thiefAddress}, "curl/8.5.0"
				e.URI = resSecrets.path(p.namespace, "", "") + "?fieldSelector=" + query("metadata.name="+p.secrets[0]) + "&watch=true"
				e.Ref = &Ref{Version: resSecrets.version, Resource: resSecrets.name, Namespace: p.namespace, Name: p.secrets[0]}
				m.add(e)
				return "watches " + p.namespace + "/" + p.secrets[0] + " of " + p.node.name
			}
			return ""
		}),
		holder("holder-forwards", "somebody on the node uses its kubelet's credential, as a kubelet, and names another address in a header of proxies", func(m *mutator) string {
			return lease(m, func(e, like *Event) {
				e.SourceIPs = slices.Concat([][]string{{thiefAddress}, like.SourceIPs}[m.IntN(2)], like.SourceIPs)
			})
		}),
		holder("holder-moves", "from some time on all requests of a node come from where somebody copied its credential to", func(m *mutator) string {
			node := m.node()
			return every(m, node, m.late(time.Hour).from, node, func(e *Event) { e.SourceIPs = []string{thiefAddress} })
		}),
		holder("holder-gateway", "all nodes come through one gateway", func(m *mutator) string {
			const gateway = "10.0.3.1"
			return every(m, "", m.From, gateway, func(e *Event) { e.SourceIPs = []string{gateway} })
		}),
		holder("holder-vip-moves", "the address of the control plane moves from one node to another, and the kubelets on them come from it", vipMoves),
		joining(holder("holder-made-node", "somebody makes the Node of a machine that joins, with his own address next to its kubelet's, and uses its credential from there an hour later", madeNode)),
		holder("holder-no-address", "the log has no addresses of a node's requests for some time", func(m *mutator) string {
			node := m.node()
			return every(m, node, m.late(time.Hour).from, node, func(e *Event) { e.SourceIPs = nil })
		}),
		holder("holder-no-id", "the log names no credentials of a node for some time", func(m *mutator) string {
			node := m.node()
			return every(m, node, m.late(time.Hour).from, node, func(e *Event) {
				u := *e.User
				u.CredentialID = ""
				e.User = &u
			})
		}),
		holder("holder-claims-later", "somebody reads the Lease of a node from another address, which the Node has for twelve minutes a quarter of an hour later", func(m *mutator) string {
			return lease(m, func(e, like *Event) {
				e.SourceIPs = []string{thiefAddress}
				m.claim(nodeOf(like.User), thiefAddress, e.Received.Add(15*minute), 12*minute)
			})
		}),
		silent,
	}
}

// asKubeadm makes of a request one of kubeadm for the node's own Node, from where somebody has copied the credential to.
func asKubeadm(e *Event, node string) {
	e.SourceIPs, e.UserAgent, e.URI = []string{thiefAddress}, "kubeadm/v1.36.3 (linux/amd64) kubernetes/2d0a3e2", resNodes.path("", node, "")
	e.Ref = &Ref{Version: resNodes.version, Resource: resNodes.name, Name: node}
}

// probes are requests that no kubelet makes, whatever is on its node, and that the role system:node does not have either.
var probes = []ask{
	{verb: "delete", apiResource: resSecrets, path: "shop/db-root"},
	{verb: "update", apiResource: resSecrets, path: "shop/db-root"},
	{verb: "create", apiResource: resSecrets, path: "shop/"},
	{verb: "deletecollection", apiResource: resSecrets, path: "shop/"},
	{verb: "deletecollection", apiResource: resPods, path: "shop/"},
	{verb: "create", apiResource: apiResource{"apps", "v1", "daemonsets"}, path: "kube-system/"},
	{verb: "create", apiResource: apiResource{"batch", "v1", "cronjobs"}, path: "kube-system/"},
	{verb: "create", apiResource: apiResource{"admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations"}},
	{verb: "patch", apiResource: resServices, path: "shop/web"},
	{verb: "patch", apiResource: resVolumes, path: "/pv-1"},
	{verb: "patch", apiResource: resAttachments, path: "/csi-1"},
	{verb: "update", apiResource: resConfigMaps, path: "kube-system/kube-root-ca.crt"},
	{verb: "get", apiResource: resPods, path: "shop/web", sub: "log"},
	{verb: "create", apiResource: resPods, path: "shop/web", sub: "exec"},
	{verb: "list", apiResource: apiResource{"apiextensions.k8s.io", "v1", "customresourcedefinitions"}},
	{verb: "list", apiResource: apiResource{"apiregistration.k8s.io", "v1", "apiservices"}},
	{verb: "list", apiResource: apiResource{"storage.k8s.io", "v1", "storageclasses"}},
	{verb: "list", apiResource: apiResource{"cert-manager.io", "v1", "certificates"}},
	{verb: "list", apiResource: apiResource{"metrics.k8s.io", "v1beta1", "pods"}},
	{verb: "watch", apiResource: resEvents, path: "shop/"},
	{verb: "list", apiResource: apiResource{"discovery.k8s.io", "v1", "endpointslices"}},
	{verb: "get", path: "/logs/"},
	{verb: "get", path: "/debug/pprof/heap"},
}

// probe makes the request of a kubelet another one, which is refused, with the Node authorizer's reason.
func (m *mutator) probe(e *Event, as ask) {
	e.Verb, e.URI, e.Ref, e.Decision = as.verb, as.path, nil, "forbid"
	if as.name != "" {
		namespace, name, _ := strings.Cut(as.path, "/")
		e.URI = as.apiResource.path(namespace, name, as.sub)
		e.Ref = &Ref{Group: as.group, Version: as.version, Resource: as.name, Subresource: as.sub, Namespace: namespace, Name: name}
	}
	switch as.apiResource {
	case resSecrets, resConfigMaps:
		e.DecisionReason = "can only read resources of this type"
	case resVolumes, resAttachments:
		e.DecisionReason = "can only get individual resources of this type"
	}
	if e.DecisionReason != "" && m.Options.Minor >= 37 {
		e.DecisionReason = "node: " + e.DecisionReason
	}
	e.fail(403)
}

// ownLease is a read of the Lease of the node that made another request, as its kubelet makes it.
func (m *mutator) ownLease(like *Event, at time.Time) *Event {
	const namespace = "kube-node-lease"
	node := nodeOf(like.User)
	return &Event{
		Level: LevelMetadata, AuditID: uuid(m.Rand), Stage: StageComplete, Verb: "get", URI: resLeases.path(namespace, node, ""), User: like.User,
		SourceIPs: like.SourceIPs, UserAgent: like.UserAgent, Server: like.Server, Received: at, Staged: at.Add(2 * milli), Decision: "allow", Code: 200,
		Ref: &Ref{Group: resLeases.group, Version: resLeases.version, Resource: resLeases.name, Namespace: namespace, Name: node},
	}
}
