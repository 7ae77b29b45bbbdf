package explain

import "time"

// The bounds of an answer.
const (
	// MaxNodes bounds Others.Nodes and Reach.Rows.
	MaxNodes = 200
	// MaxGrants bounds each list of Grants and Subjects.
	MaxGrants = 100
	// MaxChanges bounds History.Changes.
	MaxChanges = 100
	// MaxConsequences bounds Explanation.Consequences.
	MaxConsequences = 10
)

// Explanation says why a request is allowed or not, who else can do the same, and what would become of it without bindings.
type Explanation struct {
	Request Request `json:"request"`
	// At is the instant of the request, UTC.
	At time.Time `json:"at"`
	// Event is what the audit log says of the request; nil for one that was only asked about.
	Event *Event `json:"event"`
	// Outcome is what became of the requests of the finding that is explained; nil where none is.
	Outcome *Outcome `json:"outcome"`
	// Verdict is the Node authorizer's: allow, deny, unknown, or none where who asks is no node.
	Verdict string `json:"verdict"`
	// Race is true when the verdict would be another one within the skew of the instant.
	Race bool `json:"race"`
	// StateEnd is when the state ends, if the instant is later; nil otherwise. The answer then holds only if nothing has changed since.
	StateEnd *time.Time `json:"stateEnd,omitempty"`
	// Static is true when the verdict does not depend on the graph.
	Static bool `json:"static"`
	// Reason is the reference's, byte for byte; empty unless the verdict is deny, and then too where the reference gives none.
	Reason string `json:"reason"`
	// Detail says, for a race, which edge began or ended and the time between; for unknown, what is missing.
	Detail string `json:"detail"`
	// Summary says in one sentence who lets the request through, Node and RBAC taken together.
	Summary string `json:"summary"`
	// Words say in sentences what the Node authorizer goes by: what allows the request or what is missing, the most important first.
	Words []string `json:"words"`
	// Object is what the request names, nil when the verdict does not depend on the graph.
	Object *Step `json:"object"`
	// Path is how the object led to the node at the instant; of several the one that lasts longest. Nil where none did.
	Path *Path `json:"path"`
	// Last is the latest path to the node that had ended before the instant, Next the earliest that began after it; nil where there is none, and
	// where Path is set.
	Last *Path `json:"last"`
	Next *Path `json:"next"`
	// History is what began and ended around the instant.
	History History `json:"history"`
	// Others are the other nodes to which the object led at the instant.
	Others Others `json:"others"`
	// NodeRestriction is what the admission plugin says, nil where it is not asked.
	NodeRestriction *NodeRestriction `json:"nodeRestriction"`
	// RBAC is what bindings gave to this request.
	RBAC RBAC `json:"rbac"`
	// Subjects are all who had access through RBAC at the instant, whoever asked.
	Subjects Subjects `json:"subjects"`
	// Consequences say what becomes of the request when bindings go: first when all go that give anything to nodes, then each binding that
	// lets it through by itself.
	Consequences []Consequence `json:"consequences"`
	// Notes are what is to be known about the answer, such as a field selector that was not stored.
	Notes []string `json:"notes"`
}

// Request is what was asked, and by whom.
type Request struct {
	// Node is the node's name; empty for an identity that is no node's.
	Node string `json:"node"`
	// User and Groups are the identity.
	User        string   `json:"user"`
	Groups      []string `json:"groups"`
	Verb        string   `json:"verb"`
	APIGroup    string   `json:"apiGroup"`
	Resource    string   `json:"resource"`
	Subresource string   `json:"subresource"`
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name"`
	// Path is that of a request for no resource.
	Path string `json:"path"`
	// FieldSelector is the request's, as in spec.nodeName=worker-1.
	FieldSelector string `json:"fieldSelector"`
}

// Event is what an audit event says in addition to the request.
type Event struct {
	AuditID   string   `json:"auditID"`
	UserAgent string   `json:"userAgent"`
	SourceIPs []string `json:"sourceIPs"`
	// Code is the HTTP status, 0 where there was none.
	Code int32 `json:"code"`
	// Decision is the API server's own: allow, forbid, or empty; Reason is the one it gave.
	Decision string `json:"decision"`
	Reason   string `json:"reason"`
	// Authorizer says whose Decision it was: node, rbac, other, or empty where nothing tells.
	Authorizer string `json:"authorizer"`
	// NodeVerdict is what that implies that the Node authorizer said: allow, deny, or empty.
	NodeVerdict string `json:"nodeVerdict"`
}

// Step is an object on a path, or the node at its end.
type Step struct {
	// Kind is in words: secret, configmap, service account, persistent volume claim, persistent volume, resource claim, pod, volume attachment,
	// resource slice, pod certificate request, or node.
	Kind string `json:"kind"`
	// Namespace is empty for what is in none.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Path is a way from an object to a node, with the time in which it was there.
type Path struct {
	// Steps begin with the object and end with the node.
	Steps []Step `json:"steps"`
	// From is nil when no beginning is known, To when the path has not ended.
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
}

// Others are nodes to which an object led, in the order of their names.
type Others struct {
	// Nodes are at most [MaxNodes].
	Nodes []NodePath `json:"nodes"`
	// More is how many nodes are not listed.
	More int `json:"more"`
	// Known is false when there may be others, as the state does not know all of the instant.
	Known bool `json:"known"`
}

// NodePath is a node with a path to it.
type NodePath struct {
	Node string `json:"node"`
	Path Path   `json:"path"`
	// Paths is how many there were; Path is the one that lasts longest.
	Paths int `json:"paths"`
}

// History is what began and ended of the edges that touch an object or its ways to nodes.
type History struct {
	// From and To bound the window.
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Changes are in the order of time: those nearest to the instant, at most [MaxChanges]; always with the nearest before and after the instant,
	// of all nodes and of the one that asks, even if they are outside the window.
	Changes []Change `json:"changes"`
	// Earlier and Later count the changes of the window before and after the instant that are not listed.
	Earlier int `json:"earlier"`
	Later   int `json:"later"`
}

// Change is a beginning or an end of edges.
type Change struct {
	// Time is when it happened: at some instant from Time to Until, which are the same when it is known exactly.
	Time  time.Time `json:"time"`
	Until time.Time `json:"until"`
	// Source is where the time comes from: audit (the API server's own clock), watch (when a watcher saw it), or object (a timestamp in the object,
	// in whole seconds).
	Source string `json:"source"`
	// Began is true for a beginning, false for an end.
	Began bool `json:"began"`
	// Steps are two or more objects in a row: the edges between them began or ended at once.
	Steps []Step `json:"steps"`
	// Node is to which node the edges lead; Own is true when that is the one that asks.
	Node string `json:"node"`
	Own  bool   `json:"own"`
	// Nearest is before or after, for the nearest to the instant; else empty.
	Nearest string `json:"nearest"`
	// Outside is true for what is not in the window.
	Outside bool `json:"outside"`
	// Words are the change in words, without its time.
	Words string `json:"words"`
}

// RBAC is what RBAC says of a request.
type RBAC struct {
	// Known is false when nothing is found that allows the request and the state does not know all bindings of then.
	Known bool `json:"known"`
	// Allowed is true when a binding let the request through.
	Allowed bool `json:"allowed"`
	// Grants are all ways by which RBAC let it through at the instant, in RBAC's own order, at most [MaxGrants]; first of all the one that the
	// API server named, where the state does not have it.
	Grants []Grant `json:"grants"`
	// More is how many are not listed.
	More int `json:"more"`
	// Before are the grants that ended at or before the instant, the latest first; After those that began after it, the earliest first; at most
	// 10 each, of whatever time.
	Before []Grant `json:"before"`
	After  []Grant `json:"after"`
}

// Grant is a way by which RBAC allows a request: the binding, its role, and the subject of the binding.
type Grant struct {
	Binding Binding `json:"binding"`
	Role    Role    `json:"role"`
	Subject Subject `json:"subject"`
	// From is since when it allowed the request without a break, nil for always; To until when, nil for not ended.
	From *time.Time `json:"from"`
	To   *time.Time `json:"to"`
	// ForNodes is true when the subject is the group of all nodes or a node; [Grant.Ambient] when it is all users, authenticated or not.
	ForNodes bool `json:"forNodes"`
	Ambient  bool `json:"ambient"`
	// Named is true for the one that the API server itself named in the audit event. The state may not know it: then From and To are nil.
	Named bool `json:"named"`
}

// Binding names a binding. Namespace is empty for a ClusterRoleBinding.
type Binding struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Role names a role as a binding does.
type Role struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Subject names whom a binding binds. Only a ServiceAccount has a namespace.
type Subject struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Subjects are those who may do something through RBAC.
type Subjects struct {
	// Known is false when the state does not know all bindings of then.
	Known bool `json:"known"`
	// Grants are by binding and then by subject; at most [MaxGrants].
	Grants []Grant `json:"grants"`
	// More is how many are not listed.
	More int `json:"more"`
}

// Consequence is what becomes of a request when bindings go.
type Consequence struct {
	// Without says what goes, in words.
	Without string `json:"without"`
	// Binding is what goes, nil when it is everything that is given to nodes.
	Binding *Binding `json:"binding"`
	// Outcome is as in the report of what-if: node, rbac, other, breaks, fruitless, race, unknown, refused, gained.
	Outcome string `json:"outcome"`
	// By is the binding that still allows it, for the outcome rbac.
	By *Binding `json:"by"`
	// Uncertain is true for what breaks as far as is known, while the state does not know all bindings of then.
	Uncertain bool `json:"uncertain"`
	// Words are the outcome in words.
	Words string `json:"words"`
}

// ObjectRef names an object of the cluster as a request does.
type ObjectRef struct {
	APIGroup  string `json:"apiGroup"`
	Resource  string `json:"resource"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Reach says who can reach an object in a span of time.
type Reach struct {
	Object ObjectRef `json:"object"`
	// Kind is that of the object in the graph, in words as in [Step]; empty for objects that are not there.
	Kind string    `json:"kind"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	// Rows are the paths that were there at any time of the span: those there at its end first, then the latest to end; at most [MaxNodes].
	Rows []ReachRow `json:"rows"`
	// More is how many paths are not listed.
	More int `json:"more"`
	// Nodes is to how many nodes the object led in the span.
	Nodes int `json:"nodes"`
	// Words say what is to be known in addition to the rows: a static rule for nodes, or what is missing of the state.
	Words []string `json:"words"`
	// Known is false when paths may be missing, as the state does not know all of the span.
	Known bool `json:"known"`
	// Subjects are those who had access to the object through RBAC at To.
	Subjects Subjects `json:"subjects"`
}

// ReachRow is a path to a node, and whether it was there at the end of the span.
type ReachRow struct {
	Node string `json:"node"`
	Path Path   `json:"path"`
	// Now is true when the path was there at Reach.To.
	Now bool `json:"now"`
}
