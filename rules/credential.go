package rules

import (
	"net/http"
	"strings"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/nodeadmission"
)

// CredentialMisuse is the name of the rule on credentials of nodes that something else uses.
const CredentialMisuse = "node-credential-misuse"

// The reasons of the rule node-credential-misuse.
const (
	Impersonation     Reason = "impersonation"
	RefusedToActAs    Reason = "impersonation-refused"
	ForeignClient     Reason = "foreign-client"
	SharedCertificate Reason = "shared-certificate"
	TwoCertificates   Reason = "two-certificates"
	SecondAddress     Reason = "second-address"
	// MovedAddress is about a credential that is used from where its node is not.
	MovedAddress Reason = "moved-address"
	// UsedInSilence is about a credential that is used from where no kubelet lives, while its own is silent.
	UsedInSilence     Reason = "used-in-silence"
	EscalationRefused Reason = "escalation-refused"
	// PodsOfAll is about a read of all pods of a namespace or of the cluster, or of those of one name in all namespaces.
	PodsOfAll Reason = "pods-of-all-nodes"
	// LongWatch is about a watch of an object that may last for longer than a kubelet asks for.
	LongWatch Reason = "long-watch"
	// PodOfAnother is about a read of a pod that is on another node.
	PodOfAnother Reason = "pod-of-another-node"
	// ForeignReadRefused is about a read that no kubelet makes, and that was refused.
	ForeignReadRefused Reason = "foreign-read-refused"
	// ForeignReadGranted is about a read that no kubelet makes, and that a binding allowed which is not for nodes, or another authorizer.
	ForeignReadGranted Reason = "foreign-read-granted"
	// UnusedReadRefused is about a read of a claim or a service account that no pod on the node uses, and that was refused.
	UnusedReadRefused Reason = "unused-read-refused"
	// OddWriteRefused is about a write that no kubelet makes, and that was refused.
	OddWriteRefused Reason = "odd-write-refused"
	// OddWrite is about a write that no kubelet makes, and that was carried out.
	OddWrite Reason = "odd-write"
	// RestrictionRefused and AdmissionStopped are about writes that were authorized, and that admission refused.
	RestrictionRefused Reason = "restriction-refused"
	AdmissionStopped   Reason = "admission-stopped"
	// Forwarded is about a request with the node's client certificate that says that a proxy forwarded it.
	Forwarded Reason = "forwarded"
	// ProviderAgent is about an agent of the provider that is known to use the credential.
	ProviderAgent Reason = "provider-agent"
	// SecretTaken is about a secret or a token that something else than the kubelet got, and that a pod on the node uses: no other rule names it.
	SecretTaken Reason = "secret-taken"
	// TakenWithoutGroup is about one that a user with a node's name got who is not in the group of nodes, and that no pod on the node uses.
	TakenWithoutGroup Reason = "secret-taken-without-group"
)

func nodeCredentialMisuse() *Rule {
	return &Rule{
		Name:     CredentialMisuse,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: SecretTaken, Doc: "another client, an impersonator or a second address got a secret, a token or a pod's certificate (critical)"},
			{Reason: TakenWithoutGroup, Doc: "a user with a node's name, not in 'system:nodes', got a secret that no pod on the node uses (critical)"},
			{Reason: Impersonation, Doc: "somebody impersonates the node"},
			{Reason: RefusedToActAs, Doc: "somebody tried to impersonate the node and was refused (medium)"},
			{Reason: ForeignClient, Doc: "the user agent is not a kubelet's"},
			{Reason: ProviderAgent, Doc: "an agent of the provider that is known to use the credential, doing what it is known to do (low)"},
			{Reason: EscalationRefused, Doc: "a request by which a node would gain the rights of others was refused (medium)"},
			{Reason: PodsOfAll, Doc: "the node read pods of all nodes, as the feature gate AuthorizeNodeWithSelectors lets it where it is off (medium)"},
			{Reason: LongWatch, Doc: "the node watched a secret (critical) or another object for longer than an hour, which no kubelet asks for"},
			{Reason: PodOfAnother, Doc: "the node read a pod that is on another node, and no binding let it (medium)"},
			{Reason: ForeignReadRefused, Doc: "a read that no kubelet makes was refused, such as of other Nodes or of all pods (medium)"},
			{Reason: ForeignReadGranted, Doc: "a read that no kubelet makes was allowed by a binding that is not for nodes, or by another authorizer (medium)"},
			{Reason: UnusedReadRefused, Doc: "a get of a claim or a service account that no pod on the node uses was refused (low)"},
			{Reason: OddWriteRefused, Doc: "a write that no kubelet makes was refused, such as of secrets or workloads (medium)"},
			{Reason: OddWrite, Doc: "a write that no kubelet makes was carried out, such as of the spec of its Node (medium)"},
			{Reason: RestrictionRefused, Doc: "NodeRestriction refused a write of the node (medium)"},
			{Reason: AdmissionStopped, Doc: "admission refused a write of the node: another plugin, or NodeRestriction what a kubelet may try (low)"},
			{Reason: SharedCertificate, Doc: "the client certificate is one that another node used first"},
			{Reason: TwoCertificates, Doc: "two client certificates of the node are in use at once"},
			{Reason: SecondAddress, Doc: "a second address is in use next to the kubelet's, or in turn with it (medium)"},
			{Reason: Forwarded, Doc: "a request with the node's client certificate has a header of proxies, which kubelets do not send (medium)"},
			{Reason: MovedAddress, Doc: "an address that the Node does not have took the place of one that it has (medium)"},
			{Reason: UsedInSilence, Doc: "the kubelet is silent, and an address that the Node had not had for ten minutes is used, where no kubelet lives (medium)"},
		},
		Doc: `A node's credential is used by something that is not its kubelet

## What
A secret, a token of a service account or a pod's certificate (by a PodCertificateRequest) that something else than the
kubelet got (critical), although the Node authorizer allows it or nothing shows that it does not: a pod on the node uses it. It was read by
a client with another user agent, by somebody who impersonates the node, or from a second address while the kubelet used its own. An address
that the Node object has is never such a second one, once it has had the address for ten minutes: whoever holds the node's credential can
write it into the Node's status, and the kubelet takes it out again. While the kubelet is silent, an address counts as a second one if the
Node object does not have it then, or has not had it for ten minutes, and if the kubelet otherwise comes from an address of the Node. What
the Node object had before may be another machine's by then. It does not count if the
Node gets it and the kubelet lives there, as after a new lease of DHCP, or if the log has no renewals by this kubelet. If the kubelet
comes from an address of the Node only later, within 48 hours, it must live there, and nowhere else since; until then, the finding waits.
It does not wait if the Node's condition Ready was Unknown before the request and stays so: no kubelet started there.
A machine may choose any IPv6 address of its network (/64): there, only an address that another Node has had for ten minutes counts as a
second one. The same holds for a request that comes more than two minutes late by its own time, such as all of an API server whose clock is
behind. A secret that no pod on the node uses is flagged, too, where a user with the node's name who is not in the group 'system:nodes' got
it: the Node authorizer says nothing about such a user. What the Node authorizer does not allow is in out-of-scope-secret-read.

A single request with a node's identity for which one of these holds, the first of which is named:

- somebody else impersonates the node, or tries to and is refused. The finding is about him, not about the node: its credential was not
  used. A service account that impersonates the node of its own pod by
  constrained impersonation (the verb 'impersonate:associated-node', Kubernetes 1.36 and later) is not flagged: it stays within the
  node's scope;
- its user agent is not a kubelet's. The severity is low for agents of providers that are known to use the credential, as far as they
  do what their sources say and come from an address of the Node. It is medium where they come from an address that no Node has, such as
  one of a gateway, and where they ask for a certificate and the log does not have the body that says which;
- it watches a secret (critical) or another object (high), and says by 'timeoutSeconds' that the watch may last for longer than an hour. The
  API server authorizes a watch only when it begins. Kubelets ask for an hour at most;
- it was refused and would have given the node the rights of others (medium): exec and the like in pods, the proxy of pods, services and
  nodes, roles and bindings, the approval of certificates, impersonation, bootstrap tokens;
- it lists or watches pods of all nodes, and was let through without a binding (medium). Kubelets ask for their own by a field selector.
  The Node authorizer allows it before Kubernetes 1.32, and in 1.32 and 1.33 with the feature gate AuthorizeNodeWithSelectors off;
- it gets, lists or watches by its name a pod that is on another node, and was let through without a binding (medium). No pod of that
  name was on the node within the day before: a kubelet asks after the pods that it had;
- it was refused, and is one that no kubelet makes (medium), whatever is on its node. Kubelets ask for what upstream's rules for nodes (the
  ClusterRole 'system:node') have in any supported version and with any feature gate. Beyond that, those of Kubernetes 1.30 read and write
  ResourceSlices of v1alpha2, and those up to 1.31 watch a volume attachment by its name. Any other read, write or path is flagged: of
  custom resources, roles, workloads, namespaces, storage classes, admission webhooks, of subresources such as 'pods/log', of Leases
  elsewhere than in 'kube-node-lease', of secrets, ConfigMaps, persistent volumes and claims without a name, of '/metrics'. Not flagged are
  what everybody may ask for, such as '/version', '/apis' and reviews of oneself, and what k0s reads for its own updates;
- it was refused, and is for what other nodes have (medium): a list or a watch of pods without the node's own field selector, of another
  Node, CSINode or Lease of a node, or of all of them, of the ResourceSlices of all nodes, or a get of such a pod of another node. If
  there never was a Node with the name in the user name, it is no finding (see node-identity);
- it is a read of one of these two kinds, and was allowed by a binding that is not for nodes, such as one for 'system:authenticated', or by
  another authorizer (medium). What a binding for nodes allowed is in rbac-excess-access;
- it is a write that was carried out, and that no kubelet makes (medium), although the Node authorizer and NodeRestriction allow it. There
  are five of them. The first is an event in a namespace in which the node has and had no pod, or of another Node. Kubelets record events
  of their own Node and of their pods, also later. This case needs a state that covers the ten minutes before, and the name of the event,
  which begins with that of its object.
  The second is a change of its own Node: any patch or update of it with the user agent 'kubelet', a patch of the 'spec', such as one
  that undoes a cordon, if the log has its body, and a patch of the labels by kubeadm. A kubelet writes labels and 'spec' when it makes its
  Node, and then only its status. Labels may bring pods to the node. k0s, which cordons its node, is not flagged.
  The third is a mirror pod with an ephemeral volume, a resource claim, or a projected token or certificate, which no static pod can use,
  if the log has the body. NodeRestriction refuses them since Kubernetes 1.34.
  The fourth is an eviction ('pods/eviction') of a pod that is not on another node. A kubelet that is short of memory or disk ends pods
  itself, and asks for no eviction. k0s, which drains its node, is not flagged.
  The fifth is the deletion of the Lease of its own node. Kubelets only make and renew it;
- it was refused, and gets a persistent volume claim or a service account that no pod uses which is on the node, or was within ten minutes
  or when the node was cut off (low). A journal or a watch of all namespaces covers these ten minutes. Kubelets before 1.34 do so for a
  static pod that names one, again and again;
- it is a write that was authorized and that admission refused with 403. Where NodeRestriction refused it the severity is medium:
  kubelets do not ask for labels, taints, pods and tokens that it refuses. Where another plugin did, or nothing tells which one, it is
  low: admission refuses events of a namespace that is being deleted, and mirror pods beyond a quota. It is also low where NodeRestriction
  refuses what a kubelet may try: a write within the skew, the mirror pod of a static pod that names ConfigMaps, secrets or other objects,
  which kubelets before 1.34 try to create again and again, and what names the UID of a Node or pod that was made anew under its name. A
  write of another node's object is in foreign-node-write;
- it came with the node's X.509 client certificate and with the header 'X-Forwarded-For' or 'X-Real-Ip' (medium), whatever addresses the
  header has. Kubelets send no such header, and a proxy that adds one cannot pass a client certificate on. A request that another API
  server forwarded, with an address of the Node, is not flagged.

Several requests together, those whose user agent is a kubelet's, by their own times and whatever the order in which they come; for
addresses also those by which another client reads a secret or gets a token:

- an address is used while another one of the same family (IPv4 or IPv6) is in use: both in one minute, and one of the two in the minutes
  before and after. One request from elsewhere is enough, a minute after it. A secret or a token that is taken by the other family is a
  finding if the Node has no address of it, and no other node lives at one;
- a watch whose beginning is not in the log, as with an audit policy that omits 'ResponseStarted', came from an address that the Node object
  never had and that nothing else came from (high, a minute after its end);
- where requests are so few that no minute shows both: two addresses took turns at least four times within an hour (medium);
- an address that the Node object never had takes the place of one that it has, for ten minutes (medium): nothing comes from the node's own
  address any more, as after somebody stopped the kubelet whose key he took. The same holds for one that it had not had for ten minutes, if
  the kubelet does not live there;
- an address that the Node object had not had for ten minutes is used, once or more, while the kubelet is silent, and no kubelet starts
  there (medium): within ten minutes the Lease of the node is not renewed from there at a kubelet's rate, twice in a minute, and for two
  minutes nothing comes from an address of the Node. The kubelet renewed the Lease from an address of the Node in four minutes, before or
  after;
- two certificates in use at once in the same way, the old one ten minutes or more after the new one's first use;
- the client certificate is one that another node used before.

None of these is a finding: an address to which the connections of a kubelet go for less than four minutes and come back: the Lease is
renewed from there twice or more, and in that time from nowhere else, as when a load balancer fails over. Two nodes or more must do so, or
another kubelet lives there, or it is an address of the Node; several addresses that the Node object has had for ten minutes, or from the
first; addresses in an IPv6 network (/64) that no other Node is in;
another address of the Node from some time on (a lease of
DHCP, a reboot, a node made anew under its name), also if it comes back later; a loopback address in addition to another one, as on
control-plane nodes; kubeadm when it joins or upgrades a node (it reads its two ConfigMaps, that of kube-proxy, and its own Node,
annotates that, and asks who it is); a new certificate that takes the old one's place; addresses of a gateway, a proxy or a load balancer:
three nodes or more come from there, and the kubelet of a node lives there, unless the log shows of no kubelet where it lives. An address of
the node itself is one if the kubelet of another node lives there. A secret that is taken from there is a finding all the same if the node's
kubelet does not live there. So is one that is taken from elsewhere while a kubelet is silent that lived behind a gateway, if no kubelet of
the node lives anywhere else within ten minutes.

A kubelet lives at an address if it renewed the Lease of its node from there in four minutes, twice in each or more. Renewals that
were refused do not count, nor do loopback addresses.

Six cases are medium at most, because addresses prove too little there:

- the connections of one node went elsewhere for less than four minutes and came back, and those of no other node;
- a watch of a secret began before the log, at an address where no kubelet lives;
- a secret or a token was taken after the end of the state, or in its last minute, from an address that the Node does not have in it, and
  not while the kubelet was elsewhere: the Node may have got that address since, for example from DHCP;
- a secret or a token was taken from an address that the Node had just got, or got since. Either the Lease was renewed from there at a
  kubelet's rate, but in fewer than four minutes, or the log ends within ten minutes;
- an address that no Node has moves from one node to another, such as the address of the control plane that kube-vip or keepalived moves:
  the kubelet on the machine that has it comes from there. The node that had it stopped to come from there at most ten minutes before, all
  renewals of the other node come from there since, and connections from its old address end within ten minutes. The first of these nodes
  was never seen at another address before;
- no kubelet of the cluster comes from an address of its own Node, and most nodes come from several addresses at once, for ten minutes or
  since the log began, such as behind a NAT or a load balancer with many. Once each of these addresses is used by several nodes, six on
  average, another one is a stranger's.

## Why
A kubelet's key lies on the node's disk. Programs on the node that borrow it break when its rights shrink. An attacker who copied it uses
it from elsewhere or with another tool, while the kubelet continues as before.

## What to do
If it is a program of yours, give it a service account. Otherwise find out what runs at that address with that user agent, and
rotate what it read. A client certificate cannot be revoked, and a new one does not end the old one. Until it expires, the holder reads
what the pods of the node use, and can make its Node anew: cordon and drain the node, delete its Node, block the address, and replace the
CA if you cannot wait.

One certificate on several nodes comes from an image or an installer that copies it: issue one for each node. Where
somebody impersonates nodes, look at who may: the verb 'impersonate' in RBAC.

## False positives
A node with several addresses from which it comes in turn is flagged where the Node object does not have both, and so are one or two
nodes alone behind a gateway that has several. So is one whose new address the state does not have because it has gaps, and
one that is the first to get the address of the control plane after it came from its own. A kubelet that starts on a new address and stops
again before it renewed its Lease twice looks like somebody who uses its credential while it is silent. So does one that moves to a new
address where the log does not have all of its renewals, such as the log of one of several API servers.
All nodes are flagged whose kubelets move together from their own addresses to those of several NAT gateways, each with two nodes. So is a
node with IPv6 privacy addresses in the network of other nodes, one that was made twice within ten minutes under the same name, with other
addresses, and one whose connections are elsewhere for so short a time that it renews its Lease only once.
Behind a proxy or a load balancer the address is the proxy's, and says nothing. The events of a static pod whose mirror pod is refused are
flagged if its node has no other pod in the namespace. Distributions that compile the kubelet into one
program send a name of their own: k3s, rke2, kubelite, k0s, microshift and hyperkube are known. These agents of providers are known:

` + agentsDoc() + `

A log from which something cut the user agents, so that no event had one for ten minutes, tells nothing of clients: then addresses
alone count. Where only the log of one of several API servers lacks them, its kubelets are flagged.

A proxy that authenticates nodes and names them in headers, as API servers accept from a front proxy, is not flagged for that: such a
request has no ID of a client certificate. If an aggregated API server writes a log, do not give it to nodetrail: the API server adds
'X-Forwarded-For' for it.

Nodes that reach some API servers directly and others through a gateway are flagged: so is a thief behind that gateway.

A program with a kubelet's user agent that loaded the node's
certificate once continues with the old one after its rotation.

The user agent is the client's own claim, so the rule on clients finds programs that do not hide. One that calls itself a kubelet and runs
on the node, with its present certificate, is not found. Nor is one elsewhere that renews the Lease as a kubelet does, while the kubelet is
silent, until ten minutes are over, or at all if he also writes his address into the Node. Where a kubelet reaches its API server by
loopback alone, a second address is not found: nothing distinguishes it from the node's own.

## How to silence it
Run with '--kubelet-user-agent NAME' for a kubelet with another user agent, or with '--disable node-credential-misuse'.`,
		Check:       checkCredential,
		NewDetector: newCredentialDetector,
	}
}

func checkCredential(r *Request, s State, m *Memory, f *Finding) bool {
	if node, refused := audit.RefusedImpersonation(r.Event); refused {
		*f = Finding{
			Rule: CredentialMisuse, Reason: RefusedToActAs, Severity: Medium, Subject: whose(r.Event),
			Params: codes.Params{codes.Text(ParamUser, r.Event.User.Username), codes.Text(ParamNode, codes.Bound(node, maxAsked))},
		}
		return true
	}
	if !r.IsNode {
		return tookWithoutGroup(r, s, f)
	}
	if r.Node == "" {
		return false
	}
	product := r.product()
	*f = Finding{Rule: CredentialMisuse, Reason: ForeignClient, Severity: High, Subject: r.Node, Allowed: r.Allowed}
	if r.Event.IsImpersonated {
		if actsAsItsNode(r.Event) {
			return false
		}
		f.Subject, f.Reason = whose(r.Event), Impersonation
		f.Params = codes.Params{codes.Text(ParamUser, r.Event.User.Username), codes.Text(ParamNode, codes.Bound(r.Node, maxAsked))}
		stolen(r, f)
		return true
	}
	if IsKubelet(product, m.Kubelets) || program(product) == "kubeadm" && kubeadms(r) {
		if r.Allowed && r.Event.Code == http.StatusForbidden && writes(r.Attrs.Verb) && !writesForeign(r, s) {
			refusedByAdmission(r, f)
			if f.Severity == Low {
				forwarded(r, s, f) // is worse
			}
			return true
		}
		if watchesTooLong(r) {
			f.Reason, f.Params = LongWatch, codes.Params{codes.Text(ParamObject, askedFor(r))}
			if r.Attrs.Resource == "secrets" {
				f.Severity = Critical
			}
			return true
		}
		f.Severity, f.Reason = Medium, EscalationRefused
		what, refused := refusedToImpersonate(r)
		if !refused {
			switch f.Reason = odd(r, s); f.Reason {
			case "":
				return forwarded(r, s, f)
			case PodsOfAll:
				return true
			case UnusedReadRefused:
				f.Severity = Low
			}
			what = askedFor(r)
		}
		f.Params = codes.Params{codes.Text(ParamObject, what)}
		return true
	}
	stolen(r, f)
	if a := agentOf(product, r, s); a != nil && podsRead(r, s) == "" && !(r.refusedForGood() && asksForOthers(r, s)) {
		a.finding(f, r, s)
	}
	return true
}

// stolen has the finding on a request of something else than the kubelet say that a secret or a token was taken, if one was.
func stolen(r *Request, f *Finding) {
	if !took(r) {
		return
	}
	f.Reason, f.Severity = SecretTaken, Critical
	if r.HasGrant {
		f.Binding = r.Grant.Binding
	}
}

// tookWithoutGroup is the finding on a user with a node's name who is not in the group of nodes and got what the Node authorizer would not give the node.
func tookWithoutGroup(r *Request, s State, f *Finding) bool {
	if !takes(r) || !r.Succeeded() || r.Event.IsImpersonated {
		return false
	}
	node, named := strings.CutPrefix(r.Event.User.Username, nodeid.UserPrefix)
	if !named || node == "" || s != nil && s.Leads(r.Attrs, node, r.Time) {
		return false
	}
	*f = Finding{
		Rule: CredentialMisuse, Reason: TakenWithoutGroup, Severity: Critical, Subject: node, Allowed: true, Binding: r.Observed.Grant.Binding,
	}
	return true
}

// refusedByAdmission is the finding on a write that was authorized.
func refusedByAdmission(r *Request, f *Finding) {
	f.Severity, f.Reason, f.Params = Low, AdmissionStopped, codes.Params{codes.Text(ParamObject, askedFor(r))}
	a := r.Attrs
	if r.Admission.Observed == nodeadmission.ObservedDeny && !r.Admission.Race &&
		(a.Verb != "create" || a.APIGroup != "" || !nodeadmission.KubeletGets(a.Resource, a.Subresource, r.Event.StatusMessage)) {
		f.Severity, f.Reason = Medium, RestrictionRefused
	}
}

// askedFor is the verb and the object of the request.
func askedFor(r *Request) string {
	a := r.Attrs
	what := deniedObject{APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, Path: codes.Bound(a.Path, maxAsked)}
	if what.Name == "" {
		what.Name = r.Event.ObjectRef.Name // on create, from the body
	}
	if what.Resource == "" {
		return a.Verb + " " + what.Path
	}
	b := append(make([]byte, 0, 128), a.Verb...)
	return string(what.append(append(b, ' ')))
}

// actsAsItsNode reports whether a service account acts as the node that its token is bound to, by constrained impersonation (KEP-5284): the API server
// compares the two, and the request stays within the node's scope.
func actsAsItsNode(ev *audit.Event) bool {
	return ev.Constraint == "impersonate:associated-node" && strings.HasPrefix(ev.User.Username, "system:serviceaccount:")
}

// kubeadms reports whether the request is one that kubeadm makes with kubelet.conf when a node joins or is upgraded: it reads its configuration by its own
// bindings, reads and annotates the Node (k8s.io/kubernetes/cmd/kubeadm/app/phases/patchnode), and asks for the node's name (app/util/config/cluster.go, since 1.32).
func kubeadms(r *Request) bool {
	a := r.Attrs
	if a.Resource == "selfsubjectreviews" && ofOneself(a) || looksUp(r) {
		return true
	}
	own := a.ResourceRequest && a.APIGroup == "" && a.Resource == "nodes" && a.Subresource == "" && a.Name == r.Node && (a.Verb == "get" || a.Verb == "patch")
	return own || r.kubeadmConfig() || r.kubeadmTolerates()
}
