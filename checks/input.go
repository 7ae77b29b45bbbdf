package checks

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/rbac"
)

// Options bound what is asked for. A zero value stands for the default.
type Options struct {
	// MinWindow is for how long before the log's end everything must be proven, 24 h by default.
	MinWindow time.Duration
	// MaxLoss is the share of an hour's renewals that may be missing, 0.01 by default. Less than zero stands for none at all.
	MaxLoss float64
	// LeaseDuration is the kubelets' nodeLeaseDurationSeconds where a Node does not say, 40 s by default. A kubelet renews four times as often.
	LeaseDuration time.Duration
	// NodeGrace is for how long a node can be silent before the cluster notices, a minute by default: kube-controller-manager's
	// --node-monitor-grace-period with what it takes to act.
	NodeGrace time.Duration
	// MaxRaces is how many races of one client on one object are ordinary, 20 by default.
	MaxRaces int64
	// Keep are the bindings for nodes that are to stay. One that gives the group system:nodes all of system:node goes all the same.
	Keep []rbac.BindingRef
	// Only names the nodes that both questions are about, empty for all: see OfOthers.
	Only []string
}

func (o Options) orDefault() Options {
	if o.MinWindow <= 0 {
		o.MinWindow = 24 * time.Hour
	}
	if o.MaxLoss == 0 {
		o.MaxLoss = 0.01
	}
	o.MaxLoss = max(o.MaxLoss, 0)
	if o.LeaseDuration <= 0 {
		o.LeaseDuration = 40 * time.Second
	}
	if o.NodeGrace <= 0 {
		o.NodeGrace = time.Minute
	}
	if o.MaxRaces <= 0 {
		o.MaxRaces = 20
	}
	return o
}

// Input is all that the checks conclude from. Its zero value proves nothing. Pointers that are nil, and what is marked as not known, are facts that
// nobody looked for: the checks that need them are unproven.
type Input struct {
	Options
	Ledger *evidence.Ledger
	Log    Log

	// Nodes are those of the state during the window, if NodesKnown.
	Nodes      []Node
	NodesKnown bool
	// Needs are the secrets and configmaps that nodes came to need, if NeedsKnown: each when a pod was bound to a node with an object that no pod there used
	// before.
	Needs      []Need
	NeedsKnown bool
	// Pods are those that came or went, or as many of them as are enough to tell what the log lacks, if NeedsKnown.
	Pods []PodLife
	// Steady are the times in which nodes needed an object that their kubelets watch all the time, or read whenever they start, if NeedsKnown.
	Steady []Steady

	Policy   Policy
	Unjudged []Unjudged
	// Unreasoned is the latest request that was allowed without a reason, and not by the Node authorizer, or with one that is not RBAC's although RBAC allows it;
	// At is zero for none.
	Unreasoned Unreasoned
	Servers    Servers
	Modes      []Mode
	Versions   []Version
	// Limited says that an API server limits nodes to their own Nodes and pods at the window's end.
	Limited bool
	// Bindings are all that exist at the window's end, if BindingsKnown.
	Bindings      []rbac.BindingInfo
	BindingsKnown bool
	// NotInState are bindings that the log names and the state never had.
	NotInState []rbac.BindingRef
	// Grown are the bindings whose rights are not what they were all the time.
	Grown []Grown
	// Ended are rights that bindings gave for a part of the window, and that no request shows in use.
	Ended []EndedRight
	// SystemNode are the rules of the ClusterRole system:node. Where they are nil, those of a binding of it serve.
	SystemNode []rbacv1.PolicyRule
	Uses       []Use
	// UnjudgedUses are requests that a binding that goes may have let through, and that nobody judged.
	UnjudgedUses int64
	// Silent are the service accounts, or groups of them, among the subjects of bindings that go for which kubelets made tokens, and of which the log has no request
	// though the policy logs what they do.
	Silent []rbac.SubjectRef
	// OthersJudged says that requests of others than nodes were judged too, where a binding that goes has such subjects.
	OthersJudged bool
	Identities   []Identity
	// Races are all, if RacesKnown.
	Races      []Races
	RacesKnown bool
	Agreement  Agreement
	State      ClusterState
	// Behind is by how much at most the clock of whoever recorded the state was behind those of the API servers; 0 where nothing shows that it was.
	Behind time.Duration
	Rules  []Rule
	// NodeGroups are the groups that node identities came with, if NodeGroupsKnown.
	NodeGroups      []string
	NodeGroupsKnown bool

	// Restriction, Tokens, Holders and Births are what later detectors find.
	Restriction, Tokens, Holders, Births *Findings
}

// Log says where the log ends.
type Log struct {
	// Until is when the last complete event was received.
	Until time.Time
	// Requests is how many requests of nodes were judged.
	Requests int64
}

// Span is a time [From, To). A zero To means that it lasts.
type Span struct{ From, To time.Time }

// Node is what the state knows of a node.
type Node struct {
	Name string
	// Lives are the times in which the Node object existed, in order.
	Lives []Span
	// NotReady are the times in which its condition Ready was not True.
	NotReady []Span
	// Silent are those of them in which it was Unknown, and nothing is heard of its kubelet. One that is not Ready by its own word makes all its requests.
	Silent []Span
	// LeaseDuration is the Lease's own, 0 where it is not known.
	LeaseDuration time.Duration
	// Virtual says that its labels or annotations are those of virtual-kubelet, Fargate or KWOK.
	Virtual bool
}

// Need is an object that a node came to need.
type Need struct {
	Node   string
	Kind   evidence.Read
	Object string
	At     time.Time
	// Until is when no pod there needed it any more; zero if that lasts.
	Until time.Time
}

// PodLife is a pod that came to a node or went from it.
type PodLife struct {
	Node string
	// Namespace and Name are its own; empty where they are not known.
	Namespace, Name string `json:",omitempty"`
	// At is when it was bound, Until when it ended or was deleted; zero if it is there. Gone says that it was deleted, had not ended before,
	// and that its kubelet may have had to delete it.
	At, Until time.Time
	Gone      bool `json:",omitempty"`
	// Token says that a token is mounted into it.
	Token bool `json:",omitempty"`
}

// Steady are the times in which a node needed an object that its kubelet watches all the time: kube-root-ca.crt, which the kubelet looks at again
// and again, as it mounts it, and which is not immutable. The times may overlap.
type Steady struct {
	Node   string
	Kind   evidence.Read
	Object string
	Spans  []Span
	// Once says that the kubelet need not watch it, as it may be immutable, but reads it after each of its own starts.
	Once bool `json:",omitempty"`
}

// Policy is what is known of the audit policy.
type Policy struct {
	// Given says that the policy in force is known: from a file, or by the name of a provider.
	Given bool
	Name  string
	// Hidden are the kinds of requests of nodes, and of those who act as nodes, that it, or one that was in force before, keeps out of the log.
	Hidden []Hidden
	// Omits are the acts of kubelets that it does not log, or not all of them: nobody can miss them.
	Omits []evidence.Act
	// OmitsOfOthers are the requests that bring pods which it does not log, or not of everybody who is no node.
	OmitsOfOthers []evidence.Coming
	// OmitsReviews says that it does not log each review of access, whoever asks for it, but for Kubernetes' own programs, of which it is known what they ask.
	OmitsReviews bool
	// Contradicted are kinds of requests of which the log has an event that the given policy would not have written.
	Contradicted []Contradiction
}

// Contradiction is an event of a kind of request that a node made, which an API server with the given policy would not have written. Line is that of the
// rule which decides; empty where none does.
type Contradiction struct {
	Request, Line, AuditID string
	At                     time.Time
}

// Hidden is a kind of request that is not logged: of any node, or of User, who is a node that the policy names, or who can act as nodes or be in their group. Code is
// CodePolicyNoStart if it is not logged while it lasts, CodePolicyNoPanic if not where the API server panics, and empty otherwise.
type Hidden struct {
	Request, Server, Line, User string
	Code                        Code
}

// Unjudged is an event, or several of one kind, that could not be judged. Its Code is one of those of every-event-judged.
type Unjudged struct {
	Code                Code
	Line, Node, Request string
	At                  time.Time
	AuditIDs            []string
	Count               int64
	// OfNoNode says that what is left shows that it is no node's, nor of somebody who acts as one.
	OfNoNode bool
}

// Servers is what the state knows of API servers.
type Servers struct {
	// Known says that identity Leases were watched; Live are theirs.
	Known bool
	Live  []Server
	// Configured is how many there are at the same time by configuration, 0 where nobody said.
	Configured int
	// Apart says that the sources of events tell API servers apart.
	Apart bool
}

// Server is an API server by its identity Lease: from its first to its last renewal.
type Server struct {
	Name  string
	Lives []Span
	// Ended is the time in which it made its last renewal: its Lease has none of later, though somebody looked. It is zero for a server that may live.
	Ended Span `json:",omitzero"`
}

// Mode is the order of authorizers that a configuration says, for one API server or, with an empty name, for all.
type Mode struct{ Server, Order string }

// Unreasoned is a request of which nobody knows which authorizer allowed it.
type Unreasoned struct {
	At                     time.Time
	User, Request, AuditID string
}

// Version is what is known of the version in one hour.
type Version struct {
	Hour   evidence.Hour
	Server string
	// Minor is such as "1.36"; empty where nothing tells it.
	Minor string
	// Given says that a flag said so; Contradicted counts requests that the API server decided as this version does not.
	Given        bool
	Contradicted int64
	// Features is the version by which requests were judged; Moved says that no version fits all hours between two starts of API servers, Doubts counts requests that
	// fit only another version, and AnyPod says that the gate is off that limits nodes to their own pods.
	Features string
	Moved    bool
	Doubts   int64
	AnyPod   bool
	// AnyAudience says that the gate is off that limits the audiences for which nodes get tokens.
	AnyAudience bool
	AuditIDs    []string
}

// Outcome is how a request ended.
type Outcome uint8

// The outcomes. The zero value is that nobody knows.
const (
	OutcomeUnknown Outcome = iota
	OutcomeSucceeded
	OutcomeNotFound
	// OutcomeRefused is a refusal by admission, after authorization.
	OutcomeRefused
	// OutcomeOther is any other answer.
	OutcomeOther
	// OutcomeFailed is that the API server failed, or was too busy.
	OutcomeFailed
)

// Use is a group of requests that RBAC let through and the Node authorizer did not, by one client with one outcome.
type Use struct {
	// Binding let it through; its zero value is one that the log does not name.
	Binding rbac.BindingRef
	// Went says that the binding, as it was then, was one that goes. What it is in the end says nothing about that.
	Went bool
	// TooMuch says that the owner keeps the binding, which then gave more than a binding that is kept may, and gives less now.
	TooMuch bool `json:",omitzero"`
	// User is the user, Node the node whose identity it is, if any.
	User, Node, Client string
	// Kubelet says that the client calls itself a kubelet.
	Kubelet         bool
	Request, Object string
	// Proxy says that the answer is a backend's: a subresource proxy.
	Proxy   bool
	Outcome Outcome
	// JustGone says that the object was a pod, or belonged to one, that was on the node until just before, and that its kubelet loses nothing if it is refused.
	JustGone bool
	// Unseen says that a kubelet asked for the object, which was not there, or which it lists or watches, and nobody watched pods just before.
	Unseen bool `json:",omitzero"`
	// Tolerated says that the client continues if it is refused.
	Tolerated bool
	// Impersonation says that the request is one to act as somebody, refused or not.
	Impersonation bool
	// Lag says that the graph allows the requests, the API server's Node refused a kubelet soon after a start, and it allowed the same ones later.
	Lag bool
	// Race says that the request was within the skew of a change.
	Race bool
	// Unlimited says that the Node authorizer allowed it, and does not where API servers limit nodes to their own Nodes and pods.
	Unlimited bool `json:",omitzero"`
	// Given says that the request gave rights to others, which the client may have by the binding: that did not allow the request itself.
	Given bool `json:",omitzero"`
	// Perhaps says that the log does not tell whether the client asked for it.
	Perhaps bool `json:",omitzero"`
	// Ended says that something else allowed it, which does not in the end, when the binding alone does.
	Ended       bool `json:",omitzero"`
	Count       int64
	First, Last time.Time
	AuditIDs    []string
}

// Identity is a kubelet with a wrong user or group. Reason is the rule's code.
type Identity struct {
	User     string
	Reason   Code
	Harmless bool // nothing was reached
	Gone     bool // of a machine whose Node was deleted
	Count    int64
	Last     time.Time
	AuditIDs []string
}

// Races are the races of one client on one object that the Node authorizer did not allow.
type Races struct {
	Node, Client, Request, Object string
	Kubelet                       bool
	// ByRBAC of them were let through by a binding that goes; of Undecided the log has no decision.
	ByRBAC, Undecided int64
	First, Last       time.Time
	AuditIDs          []string
}

// Agreement compares what nodetrail says outside of races with the API server's own decisions.
type Agreement struct {
	// Decided requests have the API server's own word, Rests rest on nodetrail's evaluation alone.
	Decided, Rests int64
	// Compared have both.
	Compared      int64
	Disagreements []Disagreement
	// More counts disagreements beyond those listed.
	More int64
}

// Disagreement is a request on which the two differ.
type Disagreement struct {
	Node, Request, Object, AuditID string
	At                             time.Time
	// Lag says that the graph allows, the API server's Node refused, and it allowed the same request soon after.
	Lag bool
	// Unwatched says that it is about an object that a pod leads to, at a time when nobody watched the cluster: the state may lack what the API server knew.
	Unwatched bool
	// Unordered says that all times of the log are whole seconds, and that both may agree on the same request a second before or after: nothing tells which
	// of the changes and the requests of a second came first.
	Unordered bool
}

// ClusterState is what is known of the cluster's state.
type ClusterState struct {
	Given bool
	// Objects is how many there are.
	Objects int64
	Gaps    []Gap
}

// Gap is something that the state lacks, by the kind and code of the rule that found it.
type Gap struct {
	Kind, Code, Value string
	From, To          time.Time
}

// Rule is a rule that decides, and whether it ran.
type Rule struct {
	Name string
	On   bool
}

// Findings is what somebody looked for: how many things, and what is wrong or not known about some.
type Findings struct {
	Looked          int64
	Wrong, NotKnown []Item
}

// Doubt adds one thing more that was looked for, of which it is not known whether it is wrong.
func (f *Findings) Doubt(i Item) {
	f.Looked++
	f.NotKnown = append(f.NotKnown, i)
}
