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
			{Reason: LiveNodeSigned, Doc: "somebody else got a certificate of a node whose kubelet was running (critical)"},
			{Reason: LiveNodeAsked, Doc: "somebody else asked for a certificate of a node whose kubelet was running, and it is not signed (high)"},
			{Reason: KnownNodeAgain, Doc: "somebody else asked for a certificate of a node that exists and was silent, as when it is made anew (low)"},
			{Reason: OtherNodeAsked, Doc: "a node asked for a certificate of another node (critical, or high if it was refused)"},
			{Reason: RequestOdd, Doc: "a node or a bootstrap token asked for a certificate that is not a kubelet's (high, or medium)"},
			{Reason: RequestOddSigned, Doc: "a certificate that is not a kubelet's was approved for a node or a bootstrap token (critical, or high)"},
			{Reason: SecondAsked, Doc: "a node or a bootstrap token asked for a second certificate of a form that is known (low)"},
			{Reason: SecondApproved, Doc: "a certificate of a known form was approved by somebody who is not known to do so (low)"},
			{Reason: ApproverUnknown, Doc: "a certificate of a node was not approved by the controller (high)"},
			{Reason: ApproverUnclear, Doc: "somebody else than the controller approved a request, and the log does not show which (low)"},
			{Reason: ApproverNode, Doc: "a node approved a certificate request (critical)"},
			{Reason: ServingNames, Doc: "a kubelet's serving certificate has names that its Node does not have (medium, high if it was approved)"},
			{Reason: CertificateMoved, Doc: "a certificate was first used from another address than it was requested from (medium)"},
			{Reason: CertificateNoBirth, Doc: "a node changed to a certificate that no request in the log asked for (low)"},
			{Reason: TokenElsewhere, Doc: "a token of a service account that one node got is used from another node's address (high)"},
		},
		Doc: `A credential of a node was issued to somebody else

## What
nodetrail follows each CertificateSigningRequest from its creation by its approval to its certificate, and that certificate to its first
use. One of these is flagged:

- a client certificate of a node is requested by another user while the node's kubelet renews its Lease with its old credential:
  critical if it was signed, high as long as it is not. The kubelet counts as running if one credential renewed the Lease in the 40
  seconds before and again 10 to 60 seconds after. If the node was silent, or its old credential is not used any more, the node is made anew
  (low);
- a node requests a certificate of another node: critical, or high if it was refused;
- a node or a bootstrap token requests a certificate that is not a kubelet's: from the signer 'kubernetes.io/kube-apiserver-client', for
  other groups than 'system:nodes', or a client certificate with alternative names (high; critical once it is approved, whoever approves
  it), or from another signer than kubelets ask, such as one of your own (medium; high once it is approved). It is low if it has one of
  the forms below and the node's own name. Then the approval is no finding if the user who is named there approves it, or one in
  'bootstrap.trusted', and low otherwise. A bootstrap token has no node of its own: there only who is in 'bootstrap.trusted' counts;
- a client certificate of a node is approved by somebody else than kube-controller-manager (high), or any request by a node (critical). Who
  impersonates kube-controller-manager, a node or a user in 'bootstrap.trusted' is somebody else;
- a serving certificate of a kubelet has names or addresses that its Node never had (medium; high once it is approved);
- a certificate is first used from another address than it was requested from (medium);
- a node changes to a certificate that no request in the log asked for, while others were issued by requests in the log (low);
- a token of a service account that one node got is used from an address that is another node's (high). This needs the requests of service
  accounts, which nodetrail reads only with 'nodetrail analyze --all-requests', and the annotation
  'authentication.kubernetes.io/issued-credential-id' of Kubernetes 1.30 and later.

These forms of a second certificate are known:

` + secondsDoc() + `

Each of these findings is about who made the request: the node whose credential was used, or the user. It is not about the node that is
named in the certificate, in the name of the object or in the body, for the client chooses these. An approval of a certificate that is
not a kubelet's is about who asked for it. Two are about the node whose certificate it is: that it was signed for somebody else while the
node's kubelet was running, and that the node is made anew.

What can be seen depends on how nodes get their certificates:

- kubeadm, and other TLS bootstrapping with bootstrap tokens: all of the above;
- certificates that somebody requests and approves with kubectl: all of the above. List who does so in 'bootstrap.trusted';
- kops since 1.20 and EKS: kops-controller and EKS issue client credentials outside of the Kubernetes API, so no request arises, and nothing
  of their issue is in the log. Serving certificates are requested, and are followed;
- certificates made by hand with the CA's key: only their use is in the log. Where other nodes' certificates are requested through the
  API, a change to one that was not is flagged (low).

## Why
Whoever gets a certificate with 'CN=system:node:<nodeName>' is that node: it reads the secrets of all pods there and takes tokens of their
service accounts. With kubeadm's defaults, kube-controller-manager approves and signs such a request of anyone with a bootstrap token,
whether or not the node exists: kubeadm binds the role for it ('certificatesigningrequests/nodeclient') to the group of its tokens.

## What to do
Look at who made the request, from which address, and what the certificate was used for since. Kubernetes cannot revoke a certificate:
cordon and drain the node, then delete its Node. Rotate what its pods used, and replace the CA if you cannot wait until the certificate
expires. Delete the bootstrap token and find out where it was read.

## False positives
Two machines with the same host name are reported: each can act as the other. Before Kubernetes 1.32 the log has no ID of certificates: then
the address tells two users of a name apart, and behind a load balancer nothing does. A log that ends within a minute after the request does
not show whether the old kubelet continued: then the 40 seconds before decide. Behind a NAT with several addresses the first use can come
from another one.

## How to silence it
List users that approve requests or ask for certificates of nodes in 'bootstrap.trusted' ('--bootstrap-trusted USER'). That says nothing of
a certificate that is neither a kubelet's nor of a known form: write an exception for it, or run with
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
- A bootstrap token (user 'system:bootstrap:<id>') is used for something that kubeadm's join does not do: critical where it got an answer,
  medium where it did not. A join reads and makes certificate requests, reads Nodes by name, the ConfigMaps kubeadm-config, kubelet-config,
  kube-proxy and cluster-info, the Secret kubeadm-certs, and what everybody may read. The group 'system:bootstrappers' alone says
  nothing: on EKS all nodes have it.
- One bootstrap token asks for certificates of more nodes in a day than 'bootstrap.maxNodes' (1000; medium), or of more than one with
  'bootstrap.singleUse' (high).
- A node reads the Secret of a bootstrap token (critical; medium where it was refused).
- Somebody makes such a Secret who is not in the group 'system:masters' or 'kubeadm:cluster-admins', nor in 'bootstrap.trusted' (medium).
  What the user impersonates does not count.

## Why
A bootstrap token lies in the user data of machines, in images and in scripts, and is rarely deleted. Whoever has it can ask for a
certificate of any node.

## What to do
Delete the token ('kubeadm token delete'), and look at each certificate that was requested with it (see node-bootstrap-impersonation). Give
tokens a short life, and one to each machine.

## False positives
Installers other than kubeadm may use a bootstrap token for more. Autoscalers that use one token for all machines stay below the limit
unless they make more than 1000 nodes a day.

## How to silence it
List who makes tokens in 'bootstrap.trusted', raise 'bootstrap.maxNodes', or run with '--disable bootstrap-token-misuse'.`,
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
	switch odd, second := oddity(s), secondOf(s); {
	case whole && !s.Approved: // it is denied
		return false
	case byNode(r):
		f.Reason, f.Severity = ApproverNode, Critical
		f.Params = append(f.Params, signed(r, s, whole)...)
	case strings.HasPrefix(by, nodeid.UserPrefix):
		f.Reason, f.Severity = ApproverNode, Critical
		f.Params = append(codes.Params{codes.Text(ParamUser, by)}, signed(r, s, whole)...)
	case odd != "" && second != nil:
		if second.approvedBy(by, s, m.Bootstrap.Trusted) {
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
	case signs(by), slices.Contains(m.Bootstrap.Trusted, by), whole && (!s.Client() || !s.ofNode()):
		return false
	case !whole:
		f.Reason, f.Severity = ApproverUnclear, Low
		f.Params = codes.Params{codes.Text(ParamUser, by), codes.Text(ParamObject, codes.Bound(r.Event.ObjectRef.Name, maxAsked))}
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
		return r.JoinsBy() || a.Verb == "get" && (a.Namespace == kubeSystem && a.Name == "kube-proxy" || a.Namespace == "kube-public" && a.Name == "cluster-info")
	case "/secrets":
		return a.Verb == "get" && a.Namespace == kubeSystem && a.Name == "kubeadm-certs"
	}
	return false
}
