package rules

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// The names of the rules on how credentials of nodes come to be.
const (
	BootstrapImpersonation = "node-bootstrap-impersonation"
	BootstrapTokenMisuse   = "bootstrap-token-misuse"
)

// The reasons of the rule node-bootstrap-impersonation.
const (
	LiveNodeSigned     Reason = "live-node-signed"
	LiveNodeAsked      Reason = "live-node-asked"
	KnownNodeAgain     Reason = "known-node-again"
	IssuedTwice        Reason = "issued-twice"
	OtherNodeAsked     Reason = "other-node-asked"
	RequestOdd         Reason = "request-odd"
	RequestOddSigned   Reason = "request-odd-approved"
	SecondAsked        Reason = "second-certificate"
	SecondApproved     Reason = "second-certificate-approved"
	ApproverUnknown    Reason = "approver-unknown"
	ApproverUnclear    Reason = "approver-unclear"
	ApproverNode       Reason = "approver-node"
	ServingNames       Reason = "serving-names"
	CertificateMoved   Reason = "certificate-moved"
	NodeMadeElsewhere  Reason = "node-made-elsewhere"
	TokenElsewhere     Reason = "token-elsewhere"
	CertificateNoBirth Reason = "certificate-not-issued"
)

// The reasons of the rule bootstrap-token-misuse.
const (
	BeyondJoin    Reason = "beyond-join"
	BeyondRefused Reason = "beyond-join-refused"
	ManyNames     Reason = "many-names"
	TokenRead     Reason = "token-read"
	TokenMade     Reason = "token-made"
)

// Bootstrap says what is usual when nodes join a cluster. The zero value is the default.
type Bootstrap struct {
	// Trusted are users that may approve certificate requests, ask for certificates of nodes, and make bootstrap tokens.
	Trusted []string
	// SingleUse says that a bootstrap token is for one node.
	SingleUse bool
	// MaxNodes is for how many nodes one token may ask for certificates within a day, 1000 by default.
	MaxNodes int
}

const defaultMaxNodes = 1000

func (b *Bootstrap) maxNodes() int {
	switch {
	case b.SingleUse:
		return 1
	case b.MaxNodes <= 0:
		return defaultMaxNodes
	}
	return b.MaxNodes
}

func bootstrapImpersonation() *Rule {
	return &Rule{
		Name:     BootstrapImpersonation,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: LiveNodeSigned, Doc: "somebody else got a certificate of a node whose kubelet was running, or used its old credential again (critical)"},
			{Reason: LiveNodeAsked, Doc: "somebody else asked for a certificate of a node whose kubelet was running, and it is not signed (high)"},
			{Reason: KnownNodeAgain, Doc: "somebody else asked for a certificate of a node that exists, as when it is set up again (low)"},
			{Reason: IssuedTwice, Doc: "two machines got a certificate of one node before its Node existed (medium)"},
			{Reason: OtherNodeAsked, Doc: "a node asked for a certificate of another node (critical, or high if it was refused)"},
			{Reason: RequestOdd, Doc: "a node or a bootstrap token asked for a certificate that is not a kubelet's (high, or medium)"},
			{Reason: RequestOddSigned, Doc: "a certificate that is not a kubelet's was approved for a node or a bootstrap token (critical, or high)"},
			{Reason: SecondAsked, Doc: "a node or a bootstrap token asked for a second certificate of a form that is known (low)"},
			{Reason: SecondApproved, Doc: "a certificate of a known form was approved by somebody who is not known to do so (low)"},
			{Reason: ApproverUnknown, Doc: "a certificate of a node was not approved by the controller, or by another known approver (high)"},
			{Reason: ApproverUnclear, Doc: "somebody else than the controller approved a request, and its event does not show which (low, or high)"},
			{Reason: ApproverNode, Doc: "a node approved a certificate request (critical)"},
			{Reason: ServingNames, Doc: "a kubelet's serving certificate has names that its Node does not have (medium, or high)"},
			{Reason: CertificateMoved, Doc: "a certificate was first used from another address than it was requested from (medium)"},
			{Reason: NodeMadeElsewhere, Doc: "a node's certificate made its Node anew from another address than that of its machine before (medium, or low)"},
			{Reason: CertificateNoBirth, Doc: "a node changed to a certificate that no request in the log asked for (low)"},
			{Reason: TokenElsewhere, Doc: "a token of a service account that one node got is used from another node's address (high, or low)"},
		},
		Doc: `A credential of a node was issued to somebody else

## What
nodetrail follows each CertificateSigningRequest from its creation to its approval and its certificate, and the certificate to its first
use. The rule flags these cases:

- Another user requests a client certificate of a node while the node's kubelet renews its Lease with its old credential: critical if the
  certificate was signed, high as long as it is not. The kubelet counts as running if one credential renewed the Lease in the 40 seconds
  before and again 10 to 60 seconds after, or a certificate that the node asked for itself did so after. Otherwise the severity is low: it
  can be that somebody sets up the node again. The severity is also low if the user is in 'bootstrap.trusted'.
- The certificate of such a request was signed, and the node's kubelet uses a credential of before the request again, within 25 hours
  (critical). A node that is set up again gets a new credential and never uses the old one: somebody else has the new one. The kubelet uses
  a credential if it renews the Lease, or if a request with a kubelet's user agent succeeds. The first 10 to 20 seconds after the
  certificate was signed do not count, because the clocks of API servers differ.
- Two client certificates of a node are signed for requests from different addresses, and no Node of that name existed between the requests
  (medium). One of both may be somebody who knew the name of a machine that was about to join. Users in 'bootstrap.trusted', and addresses
  through which several nodes come, do not count.
- A node requests a certificate of another node: critical, or high if the request was refused.
- A node or a bootstrap token requests a certificate that is not a kubelet's: from the signer 'kubernetes.io/kube-apiserver-client', for
  other groups than 'system:nodes', or a client certificate with alternative names. The severity is high, and critical once the request is
  approved, whoever approves it. If the request is for a signer of your own, that is for none of the three of Kubernetes for clients and
  kubelets, the severity is medium, and high once the request is approved. It is low if the certificate has one of the forms below and the
  node's own name. The approval of such a request is no finding if a user who is named there, or one in 'bootstrap.trusted', approves it,
  and is low otherwise. A bootstrap token has no node of its own, so only users in 'bootstrap.trusted' may approve its requests.
- Somebody else than kube-controller-manager, one of the approvers below or a user in 'bootstrap.trusted' approves a client certificate of a
  node (high). Somebody who impersonates one of them counts as somebody else. What the request is for is taken from all events of the same
  object: from its creation, and from what a known approver or signer writes. What another approver's own event says of it does not count.
  If its creation or its approval was too long for the log and no other event shows the request, the severity is high, too.
- A node, or somebody who impersonates a node, approves any request (critical).
- A serving certificate of a kubelet has names or addresses that are not its Node's: medium, and high once it is approved if the state
  covers the time of the request. A name counts as the Node's if the Node has it for ten minutes, beginning ten minutes after the request
  at the latest: whoever holds the node's credential can write it into the Node's status, and take it back. If the Node had an IP address
  for a shorter time, the severity is medium. The names of services ('kubernetes', 'kubernetes.default', '*.svc', '*.svc.cluster.local'),
  wildcards, and what another Node had first and has, never count. The kubelet of that other node must have sent a request since, and two
  Nodes at most have the name.
- A certificate is first used from another address than the address that it was requested from (medium).
- A Node is made with a certificate that comes from another address than the one from which it renewed the Lease before, as after the Node
  was deleted (medium). A certificate that the node asked for itself counts as the ones before it. Renewals from another address count once
  they came at a kubelet's rate in four minutes, twice in each, from nowhere else. Renewals of a time without a Node never count. The key of
  a certificate stays on its machine: somebody has copied it, or the machine has another address. An address is that of a gateway, and no
  finding, if several nodes come from there and the kubelet of another node lives there, but not if that is the machine of that one node.
- A node changes to a certificate that no request in the log asked for, while requests in the log asked for others (low).
- A token of a service account that one node got is used from the address of another node (high). It is low for requests that only create
  a TokenReview or a review of oneself: a service to which a pod logs in, such as Vault, may authenticate with the token of the pod. An
  address that is no node's is no finding: a gateway or a proxy may have it. This case needs the requests of service
  accounts, which nodetrail reads only with 'nodetrail analyze --all-requests'. It also needs the annotation
  'authentication.kubernetes.io/issued-credential-id' of Kubernetes 1.30 and later.

These forms of a second certificate are known:

` + secondsDoc() + `

These users approve certificates of kubelets by a provider's default. Only the whole name counts. Whoever can act as one of them can have a
certificate of any node:

` + approversDoc() + `

Each finding is about the user who made the request: the node whose credential was used, or another user. It is not about the node that is
named in the certificate, in the name of the object or in the body, because the client chooses these names. There are three exceptions:

- An approval of a certificate that is not a kubelet's is about the user who asked for the certificate.
- If a certificate was signed for somebody else while the node's kubelet was running, the finding is about the node of the certificate.
- If somebody sets up a node again, or two machines got a certificate of one node, the finding is about that node.

It depends on how nodes get their certificates what nodetrail can see:

- With kubeadm, and other TLS bootstrapping with bootstrap tokens, it sees all cases.
- If somebody requests and approves certificates with kubectl, it sees all cases. List these users in 'bootstrap.trusted'.
- On kops since 1.20 and on EKS, kops-controller and EKS issue client credentials outside of the Kubernetes API. There is no request, and
  the log does not show how they were issued. Serving certificates are requested, and nodetrail follows them.
- If certificates are made by hand with the CA's key, the log shows only their use. If other nodes request their certificates through the
  API, a change to a certificate that was not requested is flagged (low).

## Why
Whoever gets a certificate with 'CN=system:node:<nodeName>' is that node, and can read the secrets of all pods there and take tokens of
their service accounts. With kubeadm's defaults, kube-controller-manager approves and signs such a request from anyone with a bootstrap
token, whether or not the node exists. The reason is that kubeadm binds the role for it ('certificatesigningrequests/nodeclient') to the
group of its tokens.

## What to do
Look at who made the request, from which address, and what the certificate was used for since. Kubernetes cannot revoke a certificate:
cordon and drain the node, then delete its Node. Rotate what its pods used, and replace the CA if you cannot wait until the certificate
expires. Delete the bootstrap token, and find out where it was read.

## False positives
Two machines with the same host name are reported, because each can act as the other. That includes a machine that still runs, or is
started again, after another one was set up under its name. It also includes a machine that was set up again and is then restored from a
snapshot of before.

A machine that is created again under its name, with another address, before its Node existed is reported as two machines.

Before Kubernetes 1.32, the log has no ID of certificates. Then nodetrail distinguishes two users of a name by their addresses. Behind a
load balancer, it cannot distinguish them, and it does not find an old credential that is used again. Two addresses count as one machine
if the Node has both, or if it has that of the request and its kubelet comes from a loopback address. The state must show that the Node
had them for ten minutes, and no other Node or node may have them. So a machine that joins again from an address that its Node does not
have, or from a loopback address, is flagged.

If a log ends within a minute after the request, it does not show whether the old kubelet continued. Then the 40 seconds before decide.

Behind a NAT with several addresses, the first use of a certificate can come from another address. So can a Node that is made anew.

A machine that gets another address while its Node is deleted makes its Node anew from there. So does one whose Node was deleted within
four minutes after it moved. nodetrail knows the address of a certificate for as long as the log was followed, however long the Node is
gone. An address of the other family (IPv6 in place of IPv4) counts as another machine, unless another node comes from that family, or a
Node has an address of it. If more than 32,768 nodes are gone, nodetrail drops the oldest of them. From then on, a certificate whose address
it does not know is flagged as well (low), if nodes request their certificates through the API.

If two Nodes in a cluster report one address that is on both machines, such as that of a bridge, the serving certificate of the second one
is flagged. If three Nodes or more report it, it is not.

## How to silence it
List users that approve requests or ask for certificates of nodes in 'bootstrap.trusted' ('--bootstrap-trusted USER'). This does not apply
to a certificate that is neither a kubelet's nor of a known form. Write an exception for such a certificate, or run with
'--disable node-bootstrap-impersonation'.`,
		Check:       checkBirth,
		NewDetector: newBirthDetector,
	}
}

func bootstrapTokenMisuse() *Rule {
	return &Rule{
		Name:     BootstrapTokenMisuse,
		Severity: Critical,
		Reasons: []ReasonDoc{
			{Reason: BeyondJoin, Doc: "a bootstrap token was used for more than to join (critical)"},
			{Reason: BeyondRefused, Doc: "a bootstrap token asked for more than it takes to join, and got nothing (medium)"},
			{Reason: ManyNames, Doc: "one bootstrap token asked for certificates of too many nodes (medium, high for a token that is for one)"},
			{Reason: TokenRead, Doc: "a node read the Secret of a bootstrap token (critical, or medium if it got nothing)"},
			{Reason: TokenMade, Doc: "a bootstrap token was made by somebody who is not known to do so (medium)"},
		},
		Doc: `A token by which nodes join is misused

## What
The rule flags these cases:

- A bootstrap token (user 'system:bootstrap:<id>') is used for something that kubeadm's join does not do: critical if it got an answer,
  medium if it did not. A join reads and creates certificate requests. It reads Nodes by name, the ConfigMaps kubeadm-config,
  kubelet-config, kube-proxy and cluster-info, the Secret kubeadm-certs, and what everybody may read. The group 'system:bootstrappers' alone
  means nothing: on EKS all nodes have it.
- One bootstrap token asks for certificates of more nodes in a day than 'bootstrap.maxNodes' (1000; medium), or, with 'bootstrap.singleUse',
  of more than one node (high).
- A node reads the Secret of a bootstrap token: critical, or medium if the request failed.
- Somebody creates or changes such a Secret (medium). These may do so: the groups 'system:masters' and 'kubeadm:cluster-admins', the users
  in 'bootstrap.trusted', kube-controller-manager, and the service account token-cleaner. If the user impersonates one of them, this does
  not count.

## Why
Bootstrap tokens are in the user data of machines, in images and in scripts, and are rarely deleted. Whoever has one can ask for a
certificate of any node.

## What to do
Delete the token ('kubeadm token delete'), and look at each certificate that was requested with it
(see node-bootstrap-impersonation). Give tokens a short life, and use one token for each
machine.

## False positives
Installers other than kubeadm may use a bootstrap token for more. Autoscalers that use one token for all machines stay below the limit
unless they create more than 1000 nodes a day.

## How to silence it
List those who create tokens in 'bootstrap.trusted', raise 'bootstrap.maxNodes', or run with '--disable bootstrap-token-misuse'.`,
		Check:       checkToken,
		NewDetector: newTokenDetector,
	}
}

// checkBirth looks at what one request shows.
func checkBirth(r *Request, _ State, m *Memory, f *Finding) bool {
	if !audit.Signs(r.Event) || DryRun(r.Event) {
		return false
	}
	s, whole := r.Signing()
	*f = Finding{Rule: BootstrapImpersonation, Subject: whose(r.Event), Allowed: r.Allowed}
	f.Params = codes.Params{codes.Text(ParamUser, r.Event.Effective().Username)}
	switch r.Event.ObjectRef.Subresource {
	case "approval":
		return r.Succeeded() && approval(r, s, whole, m, f)
	case "":
		return whole && r.Event.Verb == "create" && asked(r, s, f)
	}
	return false
}

// asked judges the creation of a request by who asks for what.
func asked(r *Request, s *Signing, f *Finding) bool {
	switch what, second := oddity(s), secondOf(s); {
	case byNode(r) && s.Node() != "" && nodeid.UserPrefix+s.Node() != r.Event.Effective().Username:
		f.Reason, f.Severity = OtherNodeAsked, Critical
		if !r.Succeeded() {
			f.Severity = High
		}
		f.Params = append(f.Params, s.subject()...)
	case what != "" && second != nil:
		f.Reason, f.Severity = SecondAsked, Low
		f.Params = append(append(f.Params, codes.Text(ParamProvider, second.provider)), s.subject()...)
	case what != "":
		if f.Reason, f.Severity = RequestOdd, High; s.private() {
			f.Severity = Medium
		}
		f.Params = append(append(f.Params, codes.Text(ParamObject, what)), s.subject()...)
	default:
		return false
	}
	return true
}

// oddity says what makes a request of a node or a bootstrap token one that is not a kubelet's; empty for nothing.
func oddity(s *Signing) string {
	if !strings.HasPrefix(s.User, nodeid.UserPrefix) && !strings.HasPrefix(s.User, audit.BootstrapUserPrefix) {
		return ""
	}
	if s.private() || s.Signer == signerClient {
		return "signer " + codes.Bound(s.Signer, maxAsked)
	}
	if len(s.Organizations) != 1 || s.Organizations[0] != user.NodesGroup {
		return "groups other than " + user.NodesGroup
	}
	if s.Signer == signerKubelet && len(s.Names) > 0 {
		return "names " + strings.Join(someOf(s.Names), ", ")
	}
	return ""
}

// approval judges one that succeeded.
func approval(r *Request, s *Signing, whole bool, m *Memory, f *Finding) bool {
	by := r.Event.User.Username // who acts as the controller is not the controller
	switch {
	case !s.Approved && !s.Absent: // it is denied
		return false
	case byNode(r):
		f.Reason, f.Severity = ApproverNode, Critical
		f.Params = append(f.Params, signed(r, s, whole)...)
	case strings.HasPrefix(by, nodeid.UserPrefix):
		f.Reason, f.Severity = ApproverNode, Critical
		f.Params = append(codes.Params{codes.Text(ParamUser, by)}, signed(r, s, whole)...)
	case whole:
		return approved(by, s, m.Bootstrap.Trusted, f)
	case approvesNodes(by), slices.Contains(m.Bootstrap.Trusted, by):
		return false
	default: // the other events of the object may show it, see signingObjects
		f.Reason, f.Severity = ApproverUnclear, Low
		f.Params = codes.Params{codes.Text(ParamUser, by), codes.Text(ParamObject, codes.Bound(r.Event.ObjectRef.Name, maxAsked))}
	}
	return true
}

// approved judges the approval, by a user who is no node, of a request whose content is known.
func approved(by string, s *Signing, trusted []string, f *Finding) bool {
	switch odd, second := oddity(s), secondOf(s); {
	case odd != "" && second != nil:
		if second.approvedBy(by, s, trusted) {
			return false
		}
		f.Reason, f.Severity, f.Subject = SecondApproved, Low, plainNode(s.User)
		f.Params = append(codes.Params{codes.Text(ParamUser, by), codes.Text(ParamProvider, second.provider)}, s.subject()...)
	case odd != "":
		f.Reason, f.Severity, f.Subject = RequestOddSigned, Critical, plainNode(s.User) // who got it, and not who approved what he asked for
		if s.private() {
			f.Severity = High
		}
		f.Params = append(append(f.Params, codes.Text(ParamObject, odd)), s.subject()...)
	case approvesNodes(by), slices.Contains(trusted, by), !s.Client() || !s.ofNode():
		return false
	default:
		f.Reason, f.Severity = ApproverUnknown, High
		f.Params = append(codes.Params{codes.Text(ParamUser, by)}, s.subject()...)
	}
	return true
}

// signed are the parameters of what is approved: the object's name where the log does not show what it is for.
func signed(r *Request, s *Signing, whole bool) codes.Params {
	if !whole {
		return codes.Params{codes.Text(ParamObject, codes.Bound(r.Event.ObjectRef.Name, maxAsked))}
	}
	return s.subject()
}

// signs reports whether the user is kube-controller-manager, whose controllers may have a service account each.
func signs(name string) bool {
	return name == user.KubeControllerManager || name == "system:serviceaccount:kube-system:certificate-controller"
}

// byNode reports whether the user has a node's name, in the group of nodes or not: a certificate without the group is still that node's.
func byNode(r *Request) bool {
	return strings.HasPrefix(r.Event.Effective().Username, nodeid.UserPrefix)
}

// checkToken looks at what one request shows.
func checkToken(r *Request, _ State, m *Memory, f *Finding) bool {
	a := r.Attrs
	name := r.Event.Effective().Username
	of := func(subject string, reason Reason, severity Severity, about codes.Param) {
		*f = Finding{Rule: BootstrapTokenMisuse, Reason: reason, Severity: severity, Subject: subject, Allowed: r.Allowed, Params: codes.Params{about}}
	}
	isSecret := a.ResourceRequest && a.APIGroup == "" && a.Resource == "secrets" && a.Subresource == "" && a.Namespace == kubeSystem
	switch {
	case isSecret && r.IsNode && r.Node != "" && strings.HasPrefix(a.Name, audit.BootstrapSecretPrefix) && !writes(a.Verb):
		if of(r.Node, TokenRead, Critical, codes.Text(ParamSecret, a.Name)); !r.Succeeded() {
			f.Severity = Medium
		}
	case isSecret && (a.Verb == "create" || a.Verb == "update" || a.Verb == "patch") && strings.HasPrefix(r.Event.ObjectRef.Name, audit.BootstrapSecretPrefix):
		if !r.Succeeded() || makesTokens(r, m) || DryRun(r.Event) {
			return false
		}
		of(r.Event.User.Username, TokenMade, Medium, codes.Text(ParamSecret, r.Event.ObjectRef.Name))
	case strings.HasPrefix(name, audit.BootstrapUserPrefix) && !joins(r):
		what := deniedObject{APIGroup: a.APIGroup, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name, Path: a.Path}
		if of(name, BeyondRefused, Medium, codes.Text(ParamObject, a.Verb+" "+what.String())); r.Succeeded() && r.Event.Code != 0 {
			f.Reason, f.Severity = BeyondJoin, Critical
		}
	default:
		return false
	}
	return true
}

func reads(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func writes(verb string) bool { return !reads(verb) }

// makesTokens reports whether the user, and not only who it acts as, is known to make bootstrap tokens.
func makesTokens(r *Request, m *Memory) bool {
	u := &r.Event.User
	return slices.Contains(u.Groups, user.SystemPrivilegedGroup) || slices.Contains(u.Groups, "kubeadm:cluster-admins") ||
		signs(u.Username) || u.Username == "system:serviceaccount:kube-system:token-cleaner" || slices.Contains(m.Bootstrap.Trusted, u.Username)
}

// joins reports whether the request is one that a bootstrap token makes when a node joins: by the kubelet, or by kubeadm (cmd/kubeadm/app/cmd/join.go and
// app/phases/copycerts upstream).
func joins(r *Request) bool {
	a := r.Attrs
	if ambient(r) || r.Event.Code == http.StatusUnauthorized || r.Event.Code == http.StatusTooManyRequests {
		return true
	}
	if !a.ResourceRequest || a.Subresource != "" {
		return false
	}
	switch a.APIGroup + "/" + a.Resource {
	case "certificates.k8s.io/certificatesigningrequests":
		return a.Verb == "create" || reads(a.Verb)
	case "/nodes":
		return a.Verb == "get"
	case "/configmaps":
		return r.kubeadmConfig() || a.Verb == "get" && (a.Namespace == kubeSystem && a.Name == "kube-proxy" || a.Namespace == "kube-public" && a.Name == "cluster-info")
	case "/secrets":
		return a.Verb == "get" && a.Namespace == kubeSystem && a.Name == "kubeadm-certs"
	}
	return false
}
