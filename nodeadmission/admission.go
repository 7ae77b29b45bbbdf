package nodeadmission

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/fields"
)

// Admission answers for any instant over a State, as the plugin of one version with one setting of its gates.
type Admission struct {
	version Version
	state   State
	skew    time.Duration
}

// New returns the plugin of the version over the state. Answers that would differ within skew of a request's time are races.
func New(v Version, state State, skew time.Duration) *Admission {
	return &Admission{version: v, state: state, skew: max(skew, 0)}
}

// operation is what a verb is for the plugin.
type operation uint8

const (
	opNone operation = iota
	opCreate
	opUpdate
	opDelete
)

var operationNames = [...]string{opCreate: "CREATE", opUpdate: "UPDATE", opDelete: "DELETE"}

// String returns the operation as the plugin's messages have it.
func (o operation) String() string { return operationNames[o] }

func operationOf(verb string) operation {
	switch verb {
	case "create":
		return opCreate
	case "update", "patch":
		return opUpdate
	case "delete", "deletecollection":
		return opDelete
	}
	return opNone
}

// connects reports whether requests for the subresource open a connection, which the plugin is not asked about.
func connects(resource, subresource string) bool {
	switch subresource {
	case "proxy":
		return true
	case "exec", "attach", "portforward":
		return resource == "pods"
	}
	return false
}

// eval is one evaluation for one instant.
type eval struct {
	a   *Admission
	req *Request
	at  time.Time

	op                                 operation
	verb, group, resource, subresource string
	namespace, name                    string
	from, to                           int64 // what was looked up is the same in [from, to); 0 is no bound
	unsure                             bool  // a change that it depends on lies somewhere in that time
	sampled                            bool  // something was asked that cannot say for how long it holds
	effect                                   // of a request that was carried out
}

// maxSteps bounds the evaluations before and after the instant: more changes than that within the skew are a race anyhow.
const maxSteps = 32

// Decide answers for the request as of t. An allow that needs no body allocates nothing.
func (a *Admission) Decide(r *Request, t time.Time) Answer {
	attrs := r.Attributes
	if !r.IsNode || r.Refused || !attrs.IsResourceRequest() {
		return Answer{}
	}
	e := eval{a: a, req: r, at: t, verb: attrs.GetVerb()}
	e.op = operationOf(e.verb)
	e.resource, e.subresource = attrs.GetResource(), attrs.GetSubresource()
	if e.op == opNone || connects(e.resource, e.subresource) || r.NotFound && (e.op != opCreate) {
		return Answer{}
	}
	e.group, e.namespace, e.name = attrs.GetAPIGroup(), attrs.GetNamespace(), attrs.GetName()
	if e.name == "" && e.op == opCreate {
		e.name = e.createdName()
	}
	ans := e.decide()
	if r.Done && e.mayBeItself(&ans) {
		ans = e.beforeItself(ans)
	}
	if ans.Verdict != Unknown {
		ans.Race = e.raced(&ans)
	}
	return ans
}

// PodElsewhere reports whether the write is of a pod that the state has, as of t, on another node or on none.
func (a *Admission) PodElsewhere(r *Request, t time.Time) bool {
	attrs := r.Attributes
	if a.state.Pods == nil || attrs.GetAPIGroup() != "" || attrs.GetResource() != "pods" || attrs.GetName() == "" {
		return false
	}
	e := eval{a: a, req: r, at: t, namespace: attrs.GetNamespace(), name: attrs.GetName()}
	on, _, known := e.podOn()
	return known && !on
}

// BoundPod returns the name and the UID of the pod in the namespace of the request for which a token or a certificate is asked; "" for any other request, and where the body
// is not known. They may share memory with the body.
func BoundPod(r *Request) (name, uid string) {
	attrs := r.Attributes
	switch {
	case attrs.GetVerb() != "create":
	case attrs.GetAPIGroup() == "" && attrs.GetResource() == "serviceaccounts" && attrs.GetSubresource() == "token":
		if t, ok := readToken(r.Body); ok && t.bound && t.ref.Kind == "Pod" {
			return t.ref.Name, t.ref.UID
		}
	case attrs.GetAPIGroup() == "certificates.k8s.io" && attrs.GetResource() == "podcertificaterequests" && attrs.GetSubresource() == "":
		var c certificateBody
		if decode(r.Body, &c) {
			return c.Spec.PodName, c.Spec.PodUID
		}
	}
	return "", ""
}

// createdName is the name of the object that a request creates, as upstream has it when the plugin is asked.
func (e *eval) createdName() string {
	if e.req.Name != "" || e.req.Body == nil {
		return e.req.Name
	}
	var body struct {
		Metadata namedRef `json:"metadata"`
	}
	decode(e.req.Body, &body)
	return body.Metadata.Name
}

// raced reports whether the answer is another one at an instant within the skew. It goes from change to change of what the answer depends on.
func (e *eval) raced(ans *Answer) bool {
	now, skew := e.at.UnixNano(), int64(e.a.skew)
	lo, hi := now-skew, now+skew
	from, to, own := e.from, e.to, e.effect
	if e.unsure {
		if from != 0 {
			lo = min(lo, from-1)
		}
		hi = max(hi, to)
	}
	if e.sampled && skew > 0 && (e.differs(ans, lo) || e.differs(ans, hi)) {
		return true
	}
	for range maxSteps {
		if from == 0 || from <= lo {
			break
		}
		if e.differs(ans, from-1) {
			return true
		}
		from = e.from
	}
	for range maxSteps {
		if to == 0 || to > hi {
			break
		}
		if e.differs(ans, to) {
			return !own.made(&e.effect)
		}
		to = e.to
	}
	return false
}

// differs evaluates for another instant. What is unknown there is not another answer, but for the refusal of a request that was carried out: then the
// plugin may have looked at the object as it was at that instant, unless the object itself is what the state lacks.
func (e *eval) differs(ans *Answer, at int64) bool {
	other := e.decideAt(at)
	if e.req.Done && other.absent() {
		return false
	}
	if e.req.Done && other.Verdict == Unknown {
		return ans.Verdict == Deny && !e.lacksObject(other.Missing)
	}
	return other.Verdict != Unknown && (other.Verdict != ans.Verdict || other.Code != ans.Code || other.Message != ans.Message)
}

// decideAt evaluates for another instant.
func (e *eval) decideAt(at int64) Answer {
	e.at, e.from, e.to, e.unsure, e.sampled, e.effect = time.Unix(0, at).UTC(), 0, 0, false, false, effect{}
	return e.decide()
}

// saw narrows the time for which the evaluation holds.
func (e *eval) saw(s *Sight) {
	if s.From != 0 && (e.from == 0 || s.From > e.from) {
		e.from = s.From
	}
	if s.To != 0 && (e.to == 0 || s.To < e.to) {
		e.to = s.To
	}
	e.unsure = e.unsure || s.Unsure
}

// decide is the switch of the plugin's Admit.
func (e *eval) decide() Answer {
	if e.req.Node == "" {
		return e.forbid(formIdentity, e.req.Attributes.GetUser().GetName())
	}
	switch e.group {
	case "":
		switch e.resource {
		case "pods":
			return e.pods()
		case "nodes":
			return e.nodes()
		case "persistentvolumeclaims":
			return e.claims()
		case "serviceaccounts":
			return e.serviceAccounts()
		}
	case "coordination.k8s.io":
		if e.resource == "leases" {
			return e.leases()
		}
	case "storage.k8s.io":
		if e.resource == "csinodes" {
			return e.csiNodes()
		}
	case "resource.k8s.io":
		if e.resource == "resourceslices" && e.a.version.Minor >= 30 {
			return e.slices()
		}
	case "certificates.k8s.io":
		switch {
		case e.resource == "podcertificaterequests" && e.a.version.Minor >= 34:
			return e.podCertificates()
		case e.resource == "certificatesigningrequests" && e.a.version.Minor >= 31:
			return e.signingRequests()
		}
	}
	return allowed()
}

// pods is admitPod and its kin.
func (e *eval) pods() Answer {
	switch e.subresource {
	case "":
		switch {
		case e.op == opCreate:
			return e.podCreate()
		case e.verb == "deletecollection":
			return unknown(MissingCollection)
		case e.op == opDelete:
			return e.podDelete()
		}
		return e.forbid(formPodOperation, e.op.String(), e.req.Node)
	case "status":
		return e.podStatus()
	case "eviction":
		return e.podEvict()
	}
	return e.forbid(formPodSubresource, e.subresource)
}

// pod looks a pod up. Without one the answer says why.
func (e *eval) pod(name string) (*Pod, bool) {
	if e.a.state.Pods == nil {
		return nil, false
	}
	p, s := e.a.state.Pods.Pod(e.namespace, name, e.at)
	e.saw(&s)
	return p, p != nil || s.Known
}

// podOn says whether the pod is bound to the node, whether there is such a pod, and whether both are known.
func (e *eval) podOn() (on, exists, known bool) {
	pods, ok := e.a.state.Pods.(NodePods)
	if !ok {
		p, known := e.pod(e.name)
		return p != nil && p.Node == e.req.Node, p != nil, known
	}
	on, exists, s := pods.PodOn(e.namespace, e.name, e.req.Node, e.at)
	e.saw(&s)
	return on, exists, exists || s.Known
}

func (e *eval) podDelete() Answer {
	switch on, exists, known := e.podOn(); {
	case !known:
		return unknown(MissingPod)
	case !exists:
		return Answer{}
	case !on:
		return e.forbid(formPodDelete, e.req.Node)
	}
	return allowed()
}

func (e *eval) podEvict() Answer {
	if e.op != opCreate {
		return e.forbid(formOperation, e.op.String())
	}
	switch on, exists, known := e.podOn(); {
	case !known:
		return unknown(MissingPod)
	case !exists:
		return notFound("pod", e.name)
	case !on:
		return e.forbid(formPodEvict, e.req.Node)
	}
	return allowed()
}

// leases is admitLease.
func (e *eval) leases() Answer {
	const system = "kube-node-lease"
	switch {
	case e.namespace != system:
		return e.forbid(formLeaseNamespace, system)
	case e.verb == "deletecollection":
		return unknown(MissingCollection)
	case e.name != e.req.Node:
		return e.forbid(formLease)
	}
	return allowed()
}

// csiNodes is admitCSINode.
func (e *eval) csiNodes() Answer {
	switch {
	case e.verb == "deletecollection":
		return unknown(MissingCollection)
	case e.name != e.req.Node:
		return e.forbid(formCSINode)
	case e.subresource != "status" || e.a.version.Minor < 37:
		return allowed()
	case !e.a.version.gates.volumeHealth:
		return e.forbid(formCSINodeGate)
	case e.op != opUpdate:
		return e.forbid(formOperation, strconv.Quote(e.op.String()))
	}
	return e.csiNodeStatus()
}

// slices is admitResourceSlice.
func (e *eval) slices() Answer {
	switch {
	case e.op == opCreate:
		var body struct {
			NodeName string `json:"nodeName"` // resource.k8s.io/v1alpha2, of Kubernetes 1.30
			Spec     struct {
				NodeName string `json:"nodeName"`
			} `json:"spec"`
		}
		if !decode(e.req.Body, &body) {
			return unknown(MissingBody)
		}
		node := body.Spec.NodeName
		if e.a.version.Minor == 30 {
			node = body.NodeName
		}
		if node != e.req.Node {
			return e.forbid(formSliceCreate)
		}
	case e.op == opDelete && e.a.version.Minor >= 31:
		return e.sliceDelete()
	}
	return allowed()
}

func (e *eval) sliceDelete() Answer {
	if e.verb == "deletecollection" {
		if e.ownSlices() {
			return allowed()
		}
		return unknown(MissingCollection)
	}
	if e.a.state.Slices == nil {
		return unknown(MissingSlice)
	}
	node, s := e.a.state.Slices.SliceNode(e.name, e.at)
	e.saw(&s)
	switch {
	case node == nil && s.Known:
		return Answer{}
	case node == nil:
		return unknown(MissingSlice)
	case *node != e.req.Node:
		return e.forbid(formSliceDelete)
	}
	return allowed()
}

// ownSlices reports whether a collection is selected by the node's own name, as kubelets do: the plugin sees each object of it.
func (e *eval) ownSlices() bool {
	selecting, ok := e.req.Attributes.(interface { // of k8s.io/apiserver since 0.31
		GetFieldSelector() (fields.Requirements, error)
	})
	if !ok {
		return false
	}
	requirements, err := selecting.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, r := range requirements {
		if r.Field == "spec.nodeName" && (r.Operator == "=" || r.Operator == "==") && r.Value == e.req.Node {
			return true
		}
	}
	return false
}
