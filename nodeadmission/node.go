package nodeadmission

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeBody is what the plugin reads of a Node.
type nodeBody struct {
	Metadata struct {
		Labels          map[string]string       `json:"labels,omitempty"`
		OwnerReferences []metav1.OwnerReference `json:"ownerReferences,omitempty"`
	} `json:"metadata"`
	Spec struct {
		Taints       []corev1.Taint           `json:"taints,omitempty"`
		ConfigSource *corev1.NodeConfigSource `json:"configSource,omitempty"`
	} `json:"spec"`
}

var nodeParts = objectParts{
	metadata: []string{"labels", "ownerReferences"},
	spec:     []string{"taints", "configSource"},
	names:    []needle{{`metadata"`, 4}, {`spec"`, 3}},
	typed:    corev1.Node{},
}

// nodes is admitNode.
func (e *eval) nodes() Answer {
	switch {
	case e.verb == "deletecollection":
		return unknown(MissingCollection)
	case e.name != e.req.Node:
		return e.forbid(formNodeOther, e.req.Node, e.name)
	case e.op == opCreate:
		return e.nodeCreate()
	case e.op == opUpdate:
		return e.nodeUpdate()
	}
	return allowed()
}

func (e *eval) nodeCreate() Answer {
	var node nodeBody
	if !decode(e.req.Body, &node) {
		return unknown(MissingBody)
	}
	if node.Spec.ConfigSource != nil {
		return e.forbid(formNodeCreateConfig, e.req.Node)
	}
	if labels := forbidden(node.Metadata.Labels, nil); labels != "" {
		return e.forbid(formNodeCreateLabels, e.req.Node, labels)
	}
	return allowed()
}

func (e *eval) nodeUpdate() Answer {
	node, known := e.node(e.name)
	if known && node == nil {
		return Answer{}
	}
	if e.verb == "patch" && nodeParts.leaves(e.req.Body) {
		return allowed()
	}
	if e.req.Body == nil {
		return unknown(MissingBody)
	}
	if !known || node.MetaUnknown {
		return unknown(MissingOldObject)
	}
	old := bodyOf(node)
	if e.verb == "patch" && len(e.req.Body) <= maxPatch && mayLabel(e.req.Body, node.Labels) {
		if e.req.Done {
			e.found, e.labels = &old, e.req.Body
		}
		return allowed()
	}
	if e.req.Done {
		e.found = &old
	}
	ans := e.nodeChanged(&old)
	if ans.Verdict == Unknown && e.verb == "patch" && e.req.Done {
		return e.nodeMade(ans)
	}
	return ans
}

// nodeMade is what the Node just after a patch that was carried out tells, where the patch alone does not. The patch must name what the plugin refuses: somebody else may have
// changed the Node in the same moment.
func (e *eval) nodeMade(ans Answer) Answer {
	at, skew := e.at, e.a.skew
	for _, after := range [...]time.Duration{0, skew / 4, skew / 2, skew} { // so far the state is known
		node, s := e.a.state.Nodes.Node(e.name, at.Add(after))
		if node == nil || node.MetaUnknown || s.From < at.Add(-skew).UnixNano() {
			continue
		}
		before, _ := e.a.state.Nodes.Node(e.name, time.Unix(0, s.From-1))
		if before == nil || before.MetaUnknown || before.UID != node.UID {
			continue
		}
		old, made, found := bodyOf(before), bodyOf(node), e.effect
		if change := e.nodeChange(&old, &made); change.Verdict == Deny && namesChange(e.req.Body, &old, &made) {
			return change
		}
		e.effect = found
	}
	return ans
}

// bodyOf is what the plugin reads of a Node.
func bodyOf(node *Node) (b nodeBody) {
	b.Metadata.Labels, b.Metadata.OwnerReferences = node.Labels, node.Owners
	b.Spec.Taints, b.Spec.ConfigSource = node.Taints, node.ConfigSource
	return b
}

// namesChange reports whether a patch says what is different: it has the labels as they became, the taints that came, or the members that changed. Somebody else changes a
// Node at the same time, most of all when it starts.
func namesChange(patch []byte, old, made *nodeBody) bool {
	var p nodePatch
	if !p.read(patch) {
		return false
	}
	for key, value := range made.Metadata.Labels {
		if was, is := old.Metadata.Labels[key]; (!is || was != value) && forbiddenLabel(key) && p.sets(key, value) {
			return true
		}
	}
	for key := range old.Metadata.Labels {
		if _, is := made.Metadata.Labels[key]; !is && forbiddenLabel(key) && p.removes(key) {
			return true
		}
	}
	return !equality.Semantic.DeepEqual(old.Spec.Taints, made.Spec.Taints) && p.taints(old.Spec.Taints, made.Spec.Taints) ||
		!equality.Semantic.DeepEqual(old.Metadata.OwnerReferences, made.Metadata.OwnerReferences) && p.has("metadata", "ownerReferences") ||
		!equality.Semantic.DeepEqual(old.Spec.ConfigSource, made.Spec.ConfigSource) && p.has("spec", "configSource")
}

// nodePatch is a patch of a Node: an object, or the operations of a JSON patch.
type nodePatch struct {
	object document
	ops    []patchOperation
}

type patchOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p *nodePatch) read(patch []byte) bool {
	if isJSONPatch(patch) {
		return json.Unmarshal(patch, &p.ops) == nil
	}
	return json.Unmarshal(patch, &p.object) == nil
}

// member is what the object of a patch has in metadata or spec. It is nil where the patch takes away what it is in.
func (p *nodePatch) member(top, name string) (value any, is bool) {
	outer, there := p.object[top]
	inner, ok := outer.(document)
	if there && !ok {
		return nil, true
	}
	value, is = inner[name]
	return value, is
}

// drops reports whether a directive of a strategic merge patch may take a member away that the patch does not name: one on what it is in, or on all.
func (p *nodePatch) drops(top string) bool {
	inner, _ := p.object[top].(document)
	return takesAway(p.object) || takesAway(inner)
}

// takesAway reports whether the object of a strategic merge patch replaces or deletes what it is merged with, or lists what remains of it.
func takesAway(object document) bool {
	_, retains := object["$retainKeys"]
	return retains || object["$patch"] == "replace" || object["$patch"] == "delete"
}

// reaches reports whether an operation that changes something leads to the member or to what it is in; in then is what it leads to in the member, "" for all of it.
func (o *patchOperation) reaches(top, name string) (in string, is bool) {
	if o.Op == "test" {
		return "", false
	}
	rest := strings.TrimPrefix("/"+top+"/"+name, o.Path)
	if rest != "/"+top+"/"+name || o.Path == "" {
		return "", rest == "" || rest[0] == '/' // of the member or above it
	}
	in, is = strings.CutPrefix(o.Path, "/"+top+"/"+name+"/")
	return unescape.Replace(in), is
}

// has reports whether the patch says anything of a member.
func (p *nodePatch) has(top, name string) bool {
	_, is := p.member(top, name)
	return is || p.drops(top) || slices.ContainsFunc(p.ops, func(o patchOperation) bool {
		_, is := o.reaches(top, name)
		return is
	})
}

// sets reports whether the patch gives a label the value, or copies one there.
func (p *nodePatch) sets(key, value string) bool {
	if all, _ := p.member("metadata", "labels"); all != nil {
		labels, _ := all.(document)
		return labels[key] == value
	}
	return slices.ContainsFunc(p.ops, func(o patchOperation) bool {
		in, is := o.reaches("metadata", "labels")
		switch {
		case !is || in != "" && in != key:
			return false
		case in == key && (o.Op == "add" || o.Op == "replace"):
			return o.Value == value
		}
		return o.Op != "remove"
	})
}

// removes reports whether the patch takes a label away.
func (p *nodePatch) removes(key string) bool {
	if p.drops("metadata") {
		return true
	}
	if all, is := p.member("metadata", "labels"); is {
		labels, _ := all.(document)
		value, there := labels[key]
		return all == nil || there && value == nil || takesAway(labels)
	}
	return slices.ContainsFunc(p.ops, func(o patchOperation) bool {
		in, is := o.reaches("metadata", "labels")
		return is && (in == "" || in == key && (o.Op == "remove" || o.Op == "move"))
	})
}

// taints reports whether the patch has all the taints that came.
func (p *nodePatch) taints(old, made []corev1.Taint) bool {
	all, is := p.member("spec", "taints")
	if !is {
		return p.has("spec", "taints")
	}
	list, _ := all.([]any)
	return !slices.ContainsFunc(made, func(t corev1.Taint) bool {
		return !slices.Contains(old, t) && !slices.ContainsFunc(list, func(v any) bool {
			one, _ := v.(document)
			return one["key"] == t.Key && one["effect"] == string(t.Effect)
		})
	})
}

// nodeChanged applies the update.
func (e *eval) nodeChanged(old *nodeBody) Answer {
	doc, ok := documentOf(old)
	if !ok {
		return unknown(MissingOldObject)
	}
	return e.changed(&nodeParts, doc, func(doc document) Answer {
		var body nodeBody
		if !fromDocument(doc, &body) {
			return unknown(MissingBody)
		}
		if e.verb == "update" {
			body.Metadata.OwnerReferences = distinct(body.Metadata.OwnerReferences)
		}
		return e.nodeChange(old, &body)
	})
}

// mayLabel reports whether a patch changes nothing that bears on the answer but labels that a node may change, as kubelets' patches do. False means that
// it has to be applied.
func mayLabel(patch []byte, old map[string]string) bool {
	return eachLabel(patch, func(key, value string, remove bool) bool {
		before, there := old[key]
		return there != remove && before == value || !forbiddenLabel(key)
	})
}

// eachLabel calls f with the labels that a patch of a Node sets and removes, as long as f returns true. It is true if f was and if the patch has nothing else
// that bears on the answer. What such a patch does is the same for a merge patch of any type. The texts share memory with the patch.
func eachLabel(patch []byte, f func(key, value string, remove bool) bool) bool {
	var metadata, labels bool // each once: of two members of one name the second counts
	end := members(patch, 0, func(key []byte, value int) int {
		if string(key) == "status" {
			return skip(patch, value)
		}
		if string(key) != "metadata" || metadata {
			return -1
		}
		metadata = true
		return members(patch, value, func(key []byte, value int) int {
			if string(key) != "labels" {
				if !untouched(key, nodeParts.metadata) {
					return -1
				}
				return skip(patch, value)
			}
			if labels {
				return -1
			}
			labels = true
			return members(patch, value, func(key []byte, value int) int {
				if len(key) == 0 || key[0] == '$' || !plain(key) {
					return -1
				}
				var text string
				remove := bytes.HasPrefix(patch[value:], []byte("null"))
				if remove {
					value += len("null")
				} else if value = textAt(patch, value, &text); value < 0 {
					return -1
				}
				if !f(unsafe.String(unsafe.SliceData(key), len(key)), text, remove) {
					return -1
				}
				return value
			})
		})
	})
	return labels && end >= 0 && space(patch, end) == len(patch)
}

func (e *eval) nodeChange(old, body *nodeBody) Answer {
	if e.req.Done {
		e.found, e.makes = old, append(e.makes, body)
	}
	switch {
	case body.Spec.ConfigSource != nil && !equality.Semantic.DeepEqual(body.Spec.ConfigSource, old.Spec.ConfigSource):
		return e.forbid(formNodeConfig, e.req.Node)
	case !equality.Semantic.DeepEqual(body.Spec.Taints, old.Spec.Taints):
		return e.forbid(formNodeTaints, e.req.Node)
	}
	owners := e.a.version.checksOwners()
	if owners != no && !equality.Semantic.DeepEqual(body.Metadata.OwnerReferences, old.Metadata.OwnerReferences) {
		if owners == maybe {
			return unknown(MissingVersionPatch)
		}
		return e.forbid(formNodeOwners, e.req.Node)
	}
	if labels := forbidden(body.Metadata.Labels, old.Metadata.Labels); labels != "" {
		return e.forbid(formNodeLabels, labels)
	}
	return allowed()
}

// forbidden lists the labels that differ and that a node may not change, sorted, as the message has them.
func forbidden(labels, old map[string]string) string {
	var out []string
	for key, value := range labels {
		if before, ok := old[key]; (!ok || before != value) && forbiddenLabel(key) {
			out = append(out, key)
		}
	}
	for key := range old {
		if _, ok := labels[key]; !ok && forbiddenLabel(key) {
			out = append(out, key)
		}
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// forbiddenLabel is getForbiddenLabels for one label.
func forbiddenLabel(key string) bool {
	namespace, _, ok := strings.Cut(key, "/")
	if !ok {
		return false
	}
	if inDomain(namespace, "node-restriction.kubernetes.io") {
		return true
	}
	return (inDomain(namespace, "kubernetes.io") || inDomain(namespace, "k8s.io")) && !kubeletLabel(key, namespace)
}

func inDomain(namespace, domain string) bool {
	return namespace == domain || strings.HasSuffix(namespace, "."+domain)
}

// kubeletLabel reports whether kubelets may set the label (k8s.io/kubelet/pkg/apis).
func kubeletLabel(key, namespace string) bool {
	switch key {
	case corev1.LabelHostname, corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
		corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, corev1.LabelInstanceTypeStable, corev1.LabelOSStable,
		corev1.LabelArchStable, "beta.kubernetes.io/os", "beta.kubernetes.io/arch":
		return true
	}
	return inDomain(namespace, corev1.LabelNamespaceSuffixKubelet) || inDomain(namespace, corev1.LabelNamespaceSuffixNode)
}
