//go:build k8s1_33 && !k8s1_31

package conformance

import (
	resourceapi "k8s.io/api/resource/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1beta1"
	resourcelisters "k8s.io/client-go/listers/resource/v1beta1"
)

// Kubernetes 1.32 and 1.33: resource slices of v1beta1.

type slicesInformer = resourceinformers.ResourceSliceInformer

type sliceInformer struct{ *tap }

func (sliceInformer) Lister() resourcelisters.ResourceSliceLister { return nil }

func sliceObject(o *OnNode) any {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	s.Spec.NodeName = o.Node
	return s
}
