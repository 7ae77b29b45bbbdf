//go:build k8s1_31 && !k8s1_30

package conformance

import (
	resourceapi "k8s.io/api/resource/v1alpha3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1alpha3"
	resourcelisters "k8s.io/client-go/listers/resource/v1alpha3"
)

// Kubernetes 1.31: resource slices of v1alpha3.

type slicesInformer = resourceinformers.ResourceSliceInformer

type sliceInformer struct{ *tap }

func (sliceInformer) Lister() resourcelisters.ResourceSliceLister { return nil }

func sliceObject(o *OnNode) any {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	s.Spec.NodeName = o.Node
	return s
}
