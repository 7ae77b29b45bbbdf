//go:build !k8s1_33 && !k8s1_34

package conformance

import (
	certificates "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certificateinformers "k8s.io/client-go/informers/certificates/v1beta1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	certificatelisters "k8s.io/client-go/listers/certificates/v1beta1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
)

// Kubernetes 1.35 and later: pod certificate requests of v1beta1.

type requestInformer struct{ *tap }

func (requestInformer) Lister() certificatelisters.PodCertificateRequestLister { return nil }

func addHandlers(g *node.Graph, t *taps, slices, requests bool) {
	var s resourceinformers.ResourceSliceInformer
	if slices {
		s = sliceInformer{&t.slices}
	}
	var r certificateinformers.PodCertificateRequestInformer
	if requests {
		r = requestInformer{&t.requests}
	}
	node.AddGraphEventHandlers(g, nodeInformer{&t.nodes}, podInformer{&t.pods}, pvInformer{&t.volumes}, attachmentInformer{&t.attachments}, s, r)
}

func requestObject(o *OnNode) any {
	r := &certificates.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID)}}
	r.Spec.NodeName = types.NodeName(o.Node)
	return r
}
