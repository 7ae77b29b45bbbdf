package nodeadmission

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// documentOf makes a document of anything that is JSON.
func documentOf(object any) (document, bool) {
	data, err := json.Marshal(object)
	if err != nil {
		return nil, false
	}
	var doc document
	return doc, decode(data, &doc)
}

func fromDocument(doc document, into any) bool {
	data, err := json.Marshal(doc)
	return err == nil && decode(data, into)
}

// podStatusBody is what the plugin reads of a pod when its status is written.
type podStatusBody struct {
	Metadata struct {
		Labels map[string]string `json:"labels,omitempty"`
	} `json:"metadata"`
	Status claimStatuses `json:"status"`
}

// claimStatuses are the members of a pod's status that a node may not change. They are read by these types, not by those of k8s.io/api, which
// older minors lack.
type claimStatuses struct {
	Claims []struct {
		Name              string  `json:"name"`
		ResourceClaimName *string `json:"resourceClaimName,omitempty"`
	} `json:"resourceClaimStatuses,omitempty"`
	Extended *struct {
		ResourceClaimName string `json:"resourceClaimName"`
		RequestMappings   []struct {
			ContainerName string `json:"containerName"`
			ResourceName  string `json:"resourceName"`
			RequestName   string `json:"requestName"`
		} `json:"requestMappings"`
	} `json:"extendedResourceClaimStatus,omitempty"`
	Allocatable []struct {
		ResourceClaimName string   `json:"resourceClaimName"`
		Containers        []string `json:"containers,omitempty"`
		Mapping           []struct {
			Name     string             `json:"name"`
			Quantity *resource.Quantity `json:"quantity"`
		} `json:"mapping,omitempty"`
		Overhead []struct {
			Name         string             `json:"name"`
			PerPod       *resource.Quantity `json:"perPod,omitempty"`
			PerContainer *resource.Quantity `json:"perContainer,omitempty"`
		} `json:"overhead,omitempty"`
	} `json:"nodeAllocatableResourceClaimStatuses,omitempty"`
}

var podParts = objectParts{
	metadata: []string{"labels"},
	status:   []string{"resourceClaimStatuses", "extendedResourceClaimStatus", "nodeAllocatableResourceClaimStatuses"},
	names:    []needle{{`labels"`, 2}, {"ClaimStatus", 0}},
	holders:  []string{`metadata"`, `status"`},
	typed:    corev1.Pod{},
}

// podStatus is admitPodStatus.
func (e *eval) podStatus() Answer {
	if e.op != opUpdate {
		return e.forbid(formOperation, strconv.Quote(e.op.String()))
	}
	switch on, exists, known := e.podOn(); {
	case !known:
		return unknown(MissingPod)
	case !exists:
		return Answer{}
	case !on:
		return e.forbid(formPodStatus, e.req.Node)
	}
	if e.verb == "patch" && podParts.leaves(e.req.Body) {
		return allowed()
	}
	if e.req.Body == nil {
		return unknown(MissingBody)
	}
	pod, _ := e.pod(e.name)
	if pod == nil || pod.StatusUnknown {
		return unknown(MissingOldObject)
	}
	var old podStatusBody
	old.Metadata.Labels = pod.Labels
	if pod.ClaimStatuses != nil && !decode(pod.ClaimStatuses, &old.Status) {
		return unknown(MissingOldObject)
	}
	doc, ok := documentOf(&old)
	if !ok {
		return unknown(MissingOldObject)
	}
	return e.changed(&podParts, doc, func(doc document) Answer {
		var body podStatusBody
		if !fromDocument(doc, &body) {
			return unknown(MissingBody)
		}
		return e.podStatusChange(&old, &body)
	})
}

func (e *eval) podStatusChange(old, body *podStatusBody) Answer {
	minor := e.a.version.Minor
	switch {
	case !maps.Equal(old.Metadata.Labels, body.Metadata.Labels):
		return e.forbid(formPodLabels, e.req.Node)
	case !old.Status.claimsEqual(&body.Status):
		return e.forbid(formPodClaims, e.req.Node)
	case minor >= 34 && !old.Status.extendedEqual(&body.Status):
		return e.forbid(formPodExtended, e.req.Node)
	case minor >= 37 && !old.Status.allocatableEqual(&body.Status):
		return e.forbid(formPodAllocatable, e.req.Node)
	}
	return allowed()
}

func (s *claimStatuses) claimsEqual(o *claimStatuses) bool {
	if len(s.Claims) != len(o.Claims) {
		return false
	}
	for i := range s.Claims {
		a, b := &s.Claims[i], &o.Claims[i]
		if a.Name != b.Name || !samePointer(a.ResourceClaimName, b.ResourceClaimName) {
			return false
		}
	}
	return true
}

func samePointer(a, b *string) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func (s *claimStatuses) extendedEqual(o *claimStatuses) bool {
	if s.Extended == nil || o.Extended == nil {
		return s.Extended == o.Extended
	}
	return s.Extended.ResourceClaimName == o.Extended.ResourceClaimName && slices.Equal(s.Extended.RequestMappings, o.Extended.RequestMappings)
}

func (s *claimStatuses) allocatableEqual(o *claimStatuses) bool {
	if len(s.Allocatable) != len(o.Allocatable) {
		return false
	}
	for i := range s.Allocatable {
		a, b := &s.Allocatable[i], &o.Allocatable[i]
		if a.ResourceClaimName != b.ResourceClaimName || !slices.Equal(a.Containers, b.Containers) ||
			len(a.Mapping) != len(b.Mapping) || len(a.Overhead) != len(b.Overhead) {
			return false
		}
		for k := range a.Mapping {
			if a.Mapping[k].Name != b.Mapping[k].Name || !sameQuantity(a.Mapping[k].Quantity, b.Mapping[k].Quantity) {
				return false
			}
		}
		for k := range a.Overhead {
			x, y := &a.Overhead[k], &b.Overhead[k]
			if x.Name != y.Name || !sameQuantity(x.PerPod, y.PerPod) || !sameQuantity(x.PerContainer, y.PerContainer) {
				return false
			}
		}
	}
	return true
}

func sameQuantity(a, b *resource.Quantity) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Cmp(*b) == 0)
}

var claimParts = objectParts{
	metadata: []string{everything}, spec: []string{everything}, status: []string{everything},
	typed: corev1.PersistentVolumeClaim{},
}

// claims is admitPVCStatus, and the refusal of all else.
func (e *eval) claims() Answer {
	switch {
	case e.verb == "deletecollection":
		return unknown(MissingCollection)
	case e.subresource != "status":
		return e.forbid(formClaimStatusOnly)
	case e.op != opUpdate:
		return e.forbid(formOperation, strconv.Quote(e.op.String()))
	}
	doc, ans := e.oldObject()
	if ans.Verdict != Allow {
		return ans
	}
	var before corev1.PersistentVolumeClaim
	if !fromDocument(e.served(doc), &before) {
		return unknown(MissingOldObject)
	}
	_, trimmed := before.Annotations[TrimmedAnnotation]
	return e.changed(&claimParts, doc, func(doc document) Answer {
		var after corev1.PersistentVolumeClaim
		if !fromDocument(e.served(doc), &after) {
			return unknown(MissingBody)
		}
		if e.verb == "update" {
			after.OwnerReferences = distinct(after.OwnerReferences)
		}
		old := before.DeepCopy()
		if trimmed {
			old.Annotations, after.Annotations = nil, nil
		}
		ans := e.claimChange(old, &after)
		if trimmed && ans.Verdict == Allow && e.mayAnnotate() {
			return unknown(MissingOldObject)
		}
		return ans
	})
}

// TrimmedAnnotation is an annotation that whoever stores objects puts in place of those that were left out, whatever its value.
const TrimmedAnnotation = "nodetrail.io/trimmed"

// mayAnnotate reports whether the body may have annotations that differ from the object's.
func (e *eval) mayAnnotate() bool {
	body := bytes.TrimLeft(e.req.Body, " \t\r\n")
	return e.verb == "update" || body[0] == '[' || bytes.Contains(body, []byte("annotations")) || bytes.IndexByte(body, '\\') >= 0
}

// claimFields are the members of a claim that came after the oldest minor, with the minor from which on the API server reads them.
var claimFields = map[string]map[string]int{
	"spec":   {"volumeAttributesClassName": 29},
	"status": {"currentVolumeAttributesClassName": 29, "modifyVolumeStatus": 29, "healthStatus": 37},
}

// served is the claim without what the API server of the version does not know.
func (e *eval) served(claim document) document {
	for part, fields := range claimFields {
		m, _ := claim[part].(document)
		for field, minor := range fields {
			if e.a.version.Minor < minor {
				delete(m, field)
			}
		}
	}
	return claim
}

func (e *eval) claimChange(before, after *corev1.PersistentVolumeClaim) Answer {
	for _, c := range []*corev1.PersistentVolumeClaim{before, after} {
		defaultClaim(c)
		c.TypeMeta = metav1.TypeMeta{}
		c.ResourceVersion, c.ManagedFields = "", nil
		c.Status.Capacity, c.Status.Conditions = nil, nil
		if e.a.version.gates.expansionRecovery {
			c.Status.AllocatedResourceStatuses, c.Status.AllocatedResources = nil, nil
		}
	}
	if equality.Semantic.DeepEqual(before, after) {
		return allowed()
	}
	form := formClaimFields
	if e.a.version.Minor < 30 {
		form = formClaimFields1_29
	}
	ans := e.forbid(form, e.req.Node)
	ans.Prefix = true
	return ans
}

// defaultClaim sets what decoding sets in the API server.
func defaultClaim(c *corev1.PersistentVolumeClaim) {
	if c.Status.Phase == "" {
		c.Status.Phase = corev1.ClaimPending
	}
	if c.Spec.VolumeMode == nil {
		mode := corev1.PersistentVolumeFilesystem
		c.Spec.VolumeMode = &mode
	}
}

// oldObject looks up the object that is written. Without one the answer, which is Allow otherwise, says why.
func (e *eval) oldObject() (document, Answer) {
	if e.a.state.Objects == nil {
		return nil, unknown(MissingOldObject)
	}
	old, s := e.a.state.Objects.Object(e.resource, e.namespace, e.name, e.at)
	e.saw(&s)
	if old == nil && s.Known {
		return nil, Answer{}
	}
	var doc document
	if !decode(old, &doc) {
		return nil, unknown(MissingOldObject)
	}
	return doc, allowed()
}

var csiNodeParts = objectParts{spec: []string{everything}, typed: csiNodeBody{}}

// csiNodeBody is what the plugin compares of a CSINode, with the merge keys of its API.
type csiNodeBody struct {
	Spec csiNodeSpec `json:"spec"`
}

type csiNodeSpec struct {
	Drivers []csiNodeDriver `json:"drivers" patchStrategy:"merge" patchMergeKey:"name"`
}

type csiNodeDriver struct {
	Name         string   `json:"name"`
	NodeID       string   `json:"nodeID"`
	TopologyKeys []string `json:"topologyKeys"`
	Allocatable  *struct {
		Count *int32 `json:"count,omitempty"`
	} `json:"allocatable,omitempty"`
}

// csiNodeStatus is admitCSINodeStatus.
func (e *eval) csiNodeStatus() Answer {
	doc, ans := e.oldObject()
	if ans.Verdict != Allow {
		return ans
	}
	var before csiNodeBody
	if !fromDocument(doc, &before) {
		return unknown(MissingOldObject)
	}
	return e.changed(&csiNodeParts, csiNodeParts.of(doc), func(doc document) Answer {
		var after csiNodeBody
		if !fromDocument(doc, &after) {
			return unknown(MissingBody)
		}
		if !equality.Semantic.DeepEqual(before.Spec, after.Spec) {
			return e.forbid(formCSINodeSpec, e.req.Node)
		}
		return allowed()
	})
}
