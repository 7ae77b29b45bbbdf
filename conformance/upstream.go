package conformance

import (
	"context"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// upstream is the reference: its graph, fed through its own informer handlers, and its authorizer in a union, put together as
// pkg/kubeapiserver/authorizer does for the feature gates in force when it was made.
type upstream struct {
	taps
	authorizer authorizer.Authorizer
}

func newUpstream() *upstream {
	u := &upstream{}
	g := node.NewGraph()
	addHandlers(g, &u.taps, enabled("DynamicResourceAllocation"), enabled("PodCertificateRequest"))
	u.authorizer = unionOf("node", node.NewAuthorizer(g, nodeidentifier.NewDefaultNodeIdentifier(), bootstrappolicy.NodeRules()))
	return u
}

// enabled reports a gate; one that the minor does not have is off.
func enabled(name string) bool {
	if _, ok := utilfeature.DefaultMutableFeatureGate.GetAll()[featuregate.Feature(name)]; !ok {
		return false
	}
	return utilfeature.DefaultFeatureGate.Enabled(featuregate.Feature(name))
}

// outcome is an answer in the words of the API server.
type outcome struct {
	allowed bool
	reason  string
}

func (u *upstream) ask(a authorizer.Attributes) outcome {
	d, reason, err := u.authorizer.Authorize(context.Background(), a)
	if err != nil {
		reason = "error: " + err.Error()
	}
	return outcome{allowed: d == authorizer.DecisionAllow, reason: reason}
}

// taps are the informers' ends that the reference's handlers hang on.
type taps struct {
	nodes, pods, volumes, attachments, slices, requests tap
}

// tap is a shared informer of which only the handler counts: events are put in by hand, in this goroutine.
type tap struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

type registration struct {
	cache.ResourceEventHandlerRegistration
}

// HasSynced is always true.
func (registration) HasSynced() bool { return true }

// AddEventHandler keeps the handler.
func (t *tap) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	t.handler = h
	return registration{}, nil
}

// Informer returns the tap itself, which makes whatever embeds it one of client-go's typed informers.
func (t *tap) Informer() cache.SharedIndexInformer { return t }

func (t *tap) set(old, obj any) {
	switch {
	case t.handler == nil:
	case old == nil:
		t.handler.OnAdd(obj, false)
	default:
		t.handler.OnUpdate(old, obj)
	}
}

func (t *tap) remove(old any, key string, tombstone bool) {
	if t.handler == nil {
		return
	}
	if tombstone {
		old = cache.DeletedFinalStateUnknown{Key: key, Obj: old}
	}
	t.handler.OnDelete(old)
}

type (
	nodeInformer       struct{ *tap }
	podInformer        struct{ *tap }
	pvInformer         struct{ *tap }
	attachmentInformer struct{ *tap }
)

func (nodeInformer) Lister() corelisters.NodeLister                      { return nil }
func (podInformer) Lister() corelisters.PodLister                        { return nil }
func (pvInformer) Lister() corelisters.PersistentVolumeLister            { return nil }
func (attachmentInformer) Lister() storagelisters.VolumeAttachmentLister { return nil }

// Quiet silences the reference's logging, which is done through a global.
func Quiet() {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
}

func attachmentObject(o *OnNode) any {
	a := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}}
	a.Spec.NodeName = o.Node
	return a
}

// bindingLists lists bindings in the order of their names, for the reference's RBAC authorizer, whose interface changed in 1.32.
type bindingLists struct {
	lists interface {
		inNamespace(namespace string) []*rbacv1.RoleBinding
		all() []*rbacv1.ClusterRoleBinding
	}
}
