//go:build k8s1_33

package conformance

import (
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1beta1"
	resourcelisters "k8s.io/client-go/listers/resource/v1beta1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
)

// Kubernetes 1.33: no pod certificate requests, no extended resource claims, resource slices of v1beta1.

// hasPodCertificateRequests says whether the reference knows the resource.
const hasPodCertificateRequests = false

type sliceInformer struct{ *tap }

func (sliceInformer) Lister() resourcelisters.ResourceSliceLister { return nil }

func addHandlers(g *node.Graph, t *taps, slices, _ bool) {
	var s resourceinformers.ResourceSliceInformer
	if slices {
		s = sliceInformer{&t.slices}
	}
	node.AddGraphEventHandlers(g, nodeInformer{&t.nodes}, podInformer{&t.pods}, pvInformer{&t.volumes}, attachmentInformer{&t.attachments}, s)
}

func sliceObject(o *OnNode) any {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	s.Spec.NodeName = o.Node
	return s
}

func requestObject(*OnNode) any { return nil }

func extendedClaim(*corev1.Pod) string { return "" }

func setExtendedClaim(*corev1.Pod, string) {}
