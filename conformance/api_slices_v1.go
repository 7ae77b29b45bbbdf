//go:build !k8s1_33

package conformance

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
)

// Kubernetes 1.34 and later: resource slices of v1.

type slicesInformer = resourceinformers.ResourceSliceInformer

type sliceInformer struct{ *tap }

func (sliceInformer) Lister() resourcelisters.ResourceSliceLister { return nil }

func sliceObject(o *OnNode) any {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	if o.Node != "" {
		s.Spec.NodeName = &o.Node
	}
	return s
}
