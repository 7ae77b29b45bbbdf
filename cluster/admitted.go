package cluster

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/nodeauthz"
)

// admitted is what the admission plugin NodeRestriction reads of an object; what the kind does not have is nil.
type admitted struct {
	labels    map[string]string // of a pod or a persistent volume, until it is whole
	pod       *nodeadmission.Pod
	node      *nodeadmission.Node
	claim     *nodeadmission.Claim
	driver    *nodeadmission.Driver
	audiences *[]string
}

// admissionKind is the kind under which the plugin's store has the objects of a kind; ok is false for those that it does not look up.
func (k kindID) admissionKind() (kind nodeadmission.Kind, ok bool) {
	switch k {
	case kindPod:
		return nodeadmission.KindPod, true
	case kindNode:
		return nodeadmission.KindNode, true
	case kindPersistentVolumeClaim:
		return nodeadmission.KindClaim, true
	case kindPersistentVolume:
		return nodeadmission.KindVolume, true
	case kindCSIDriver:
		return nodeadmission.KindDriver, true
	case kindServiceAccount:
		return nodeadmission.KindServiceAccount, true
	case kindResourceSlice:
		return nodeadmission.KindSlice, true
	}
	return 0, false
}

var errAdmitted = errors.New("a member that the admission plugin reads has the wrong type")

// admitted reads what the plugin needs. Of a pod the rest of the decoding has collected it.
func (d *decoder) admitted(raw []byte, o *object) error {
	a, ok := &o.admitted, true
	switch o.kind {
	case kindPod:
		return d.admittedPod(o)
	case kindNode:
		a.node, ok = nodeadmission.ReadNode(raw)
	case kindPersistentVolumeClaim:
		a.claim, ok = nodeadmission.ReadClaim(raw)
	case kindCSIDriver:
		a.audiences, ok = nodeadmission.ReadDriver(raw)
	}
	if !ok {
		return errAdmitted
	}
	return nil
}

func (d *decoder) admittedPod(o *object) error {
	t, of := &d.pod, o.pod
	p := &nodeadmission.Pod{UID: o.uid, Node: of.NodeName, ServiceAccount: of.ServiceAccountName, Mirror: of.Mirror, Labels: o.admitted.labels}
	if o.admitted.pod = p; t.special {
		var ok bool
		if p.Uses, ok = nodeadmission.UsesOf(of.Name, t.volumes); !ok {
			return errAdmitted
		}
	} else if len(t.uses) > 0 {
		p.Uses = slices.Clone(t.uses)
		for i := range p.Uses {
			u := &p.Uses[i]
			if at := slices.Index(of.PersistentVolumeClaims, u.Name); u.Kind == nodeadmission.UseClaim && at >= 0 {
				u.Name = of.PersistentVolumeClaims[at] // which is a copy of its own
				continue
			}
			u.Name = d.intern(u.Name)
		}
	}
	if len(t.statusClaims) > 0 {
		p.ClaimStatuses = append(slices.Clone(t.statusClaims), '}')
	}
	return nil
}

// digest gives what counts of it as texts. What of a pod goes into the graph, too, is left out.
func (a *admitted) digest(text func(string)) {
	whole := func(v any) {
		if data, err := json.Marshal(v); err == nil { // no type of them can fail
			text(string(data))
		}
	}
	switch {
	case a.pod != nil:
		whole(a.pod.Labels)
		whole(a.pod.Uses)
		text(string(a.pod.ClaimStatuses))
	case a.node != nil:
		whole(a.node)
	case a.claim != nil:
		text(a.claim.Volume)
		text(string(a.claim.Object))
	case a.driver != nil:
		whole(a.driver)
	case a.audiences != nil:
		whole(a.audiences)
	}
}

// statusClaim keeps a member of a pod's status that a node may not change, which was just read from start on.
func (d *decoder) statusClaim(key string, start int) {
	switch key {
	case "resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses":
	default:
		return
	}
	if d.s.Err() != nil {
		return
	}
	open := byte(',')
	if len(d.pod.statusClaims) == 0 {
		open = '{'
	}
	d.pod.statusClaims = append(d.pod.statusClaims, open, '"')
	d.pod.statusClaims = append(d.pod.statusClaims, key...)
	d.pod.statusClaims = append(d.pod.statusClaims, '"', ':')
	d.pod.statusClaims = append(d.pod.statusClaims, d.s.Slice(start, d.s.Pos())...)
}

// maxLabels bounds the sets of labels that a decoder keeps.
const maxLabels = 1 << 14

// labelsOf reads labels. Pods with the same share one map, which nobody changes.
func (d *decoder) labelsOf(raw []byte) map[string]string {
	if labels, ok := d.labels[string(raw)]; ok {
		return labels
	}
	var labels map[string]string
	if json.Unmarshal(raw, &labels) != nil {
		d.s.Fail("labels that are no texts")
		return nil
	}
	if len(d.labels) >= maxLabels {
		clear(d.labels)
	}
	d.labels[string(raw)] = labels
	return labels
}

// admitSet passes an object on to the plugin's store.
func (s *State) admitSet(o *object, at nodeauthz.Stamp) {
	m := nodeadmission.Moment{Time: at.Time, Slop: at.Slop}
	namespace, name := o.ref.Namespace, o.ref.Name
	switch a := &o.admitted; {
	case a.pod != nil:
		a.pod.UID = o.uid
		s.Admission.SetPod(namespace, name, a.pod, m)
	case a.node != nil:
		a.node.UID = o.uid
		s.Admission.SetNode(name, a.node, m)
	case a.claim != nil:
		s.Admission.SetClaim(namespace, name, a.claim, m)
	case a.driver != nil:
		s.Admission.SetVolume(name, a.driver, m)
	case a.audiences != nil:
		s.Admission.SetDriver(name, a.audiences, m)
	case o.kind == kindServiceAccount:
		uid := o.uid
		s.Admission.SetServiceAccount(namespace, name, &uid, m)
	case o.kind == kindResourceSlice:
		node := o.node
		s.Admission.SetSlice(name, &node, m)
	}
}

// admitAudit passes an object on as a request left it. Where nobody watches the kind, what becomes of the object is not seen: only what never changes is
// taken in then.
func (s *State) admitAudit(o *object, at nodeauthz.Stamp) {
	k, ok := o.kind.admissionKind()
	if !ok {
		return
	}
	if !s.Admission.Covers(k, at.Time) && !o.admitted.fixed(o.uid) {
		return
	}
	s.admitSet(o, at)
}

// fixed leaves of an object what never changes, and reports whether that is of use.
func (a *admitted) fixed(uid string) bool {
	switch {
	case a.pod != nil:
		a.pod.StatusUnknown = true
		return uid != "" && a.pod.Node != ""
	case a.node != nil:
		a.node = &nodeadmission.Node{MetaUnknown: true}
		return uid != ""
	case a.claim != nil:
		a.claim.Object = nil
		return a.claim.Volume != ""
	case a.audiences != nil:
		return false
	}
	return uid != ""
}

// admitBinding passes on that a pod was bound, where nobody watches pods.
func (s *State) admitBinding(namespace, name, uid, node string, at nodeauthz.Stamp) {
	o := object{kind: kindPod, ref: nodeauthz.NamespacedName{Namespace: strings.Clone(namespace), Name: strings.Clone(name)}, uid: strings.Clone(uid)}
	o.admitted.pod = &nodeadmission.Pod{Node: strings.Clone(node), SpecUnknown: true}
	if !s.Admission.Covers(nodeadmission.KindPod, at.Time) {
		s.admitAudit(&o, at)
	}
}

// asked says that the object is one that a client asked for. Admission and defaults come later, and change what the plugin reads.
func (a *admitted) asked() {
	if a.pod != nil {
		a.pod.SpecUnknown = true
	}
}

// admitRemove passes a deletion on.
func (s *State) admitRemove(kind kindID, ref nodeauthz.NamespacedName, at nodeauthz.Stamp) {
	if k, ok := kind.admissionKind(); ok {
		s.Admission.Remove(k, ref.Namespace, ref.Name, nodeadmission.Moment{Time: at.Time, Slop: at.Slop})
	}
}
