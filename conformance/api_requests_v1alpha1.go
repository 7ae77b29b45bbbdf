//go:build k8s1_34 && !k8s1_33

package conformance

import (
	certificates "k8s.io/api/certificates/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	certificateinformers "k8s.io/client-go/informers/certificates/v1alpha1"
	certificatelisters "k8s.io/client-go/listers/certificates/v1alpha1"
)

// Kubernetes 1.34: pod certificate requests of v1alpha1.

type requestsInformer = certificateinformers.PodCertificateRequestInformer

type requestInformer struct{ *tap }

func (requestInformer) Lister() certificatelisters.PodCertificateRequestLister { return nil }

func requestObject(o *OnNode) any {
	r := &certificates.PodCertificateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, UID: types.UID(o.UID)}}
	r.Spec.NodeName = types.NodeName(o.Node)
	return r
}
