//go:build k8s1_30 && !k8s1_29

package conformance

import (
	resourceapi "k8s.io/api/resource/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1alpha2"
	resourcelisters "k8s.io/client-go/listers/resource/v1alpha2"
)

// Kubernetes 1.30: resource slices of v1alpha2.

type slicesInformer = resourceinformers.ResourceSliceInformer

type sliceInformer struct{ *tap }

func (sliceInformer) Lister() resourcelisters.ResourceSliceLister { return nil }

func sliceObject(o *OnNode) any {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	s.NodeName = o.Node
	return s
}
