//go:build !k8s1_33

package conformance

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
)

// Kubernetes 1.34 and later: resource slices of v1, extended resource claims.

// hasPodCertificateRequests says whether the reference knows the resource.
const hasPodCertificateRequests = true

type sliceInformer struct{ *tap }

func (sliceInformer) Lister() resourcelisters.ResourceSliceLister { return nil }

func sliceObject(o *OnNode) any {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	if o.Node != "" {
		s.Spec.NodeName = &o.Node
	}
	return s
}

func extendedClaim(p *corev1.Pod) string {
	if s := p.Status.ExtendedResourceClaimStatus; s != nil {
		return s.ResourceClaimName
	}
	return ""
}

func setExtendedClaim(p *corev1.Pod, name string) {
	p.Status.ExtendedResourceClaimStatus = nil
	if name != "" {
		p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: name}
	}
}
