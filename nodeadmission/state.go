package nodeadmission

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Sight says what a look-up is worth. With a nil object and Known the object does not exist; with a nil object and not Known nobody
// can tell. The zero value is that of a state that knows nothing.
type Sight struct {
	Known bool
	// From and To bound the time during which the look-up gives the same result, [From, To), in nanoseconds since 1970. A zero From has no beginning, a
	// zero To no end.
	From, To int64
	// Unsure is true when the change at From or at To is known to lie somewhere between them only: the instant may be before it or after it.
	Unsure bool
}

// State is where the plugin looks things up. What needs a part that is nil is unknown.
type State struct {
	Pods            Pods
	Nodes           Nodes
	Claims          Claims
	Volumes         Volumes
	Drivers         Drivers
	ServiceAccounts ServiceAccounts
	Slices          Slices
	Objects         Objects
	Authorizer      Authorizer
}

// Pods gives a pod as it was at an instant. The caller leaves it as it is; the same holds for the other interfaces.
type Pods interface {
	Pod(namespace, name string, at time.Time) (*Pod, Sight)
}

// NodePods is what Pods may implement, too: it says whether a pod is bound to the node, and whether there is a pod, as Pod would.
type NodePods interface {
	PodOn(namespace, name, node string, at time.Time) (on, exists bool, s Sight)
}

// TokenPods is what Pods may implement, too: it says whether there certainly is a pod with that UID on the node, one of whose volumes asks for a token with
// the audience. Otherwise the pod itself has to be looked at.
type TokenPods interface {
	PodAsksToken(namespace, name, node, uid, audience string, at time.Time) (asks bool, s Sight)
}

// Nodes gives a Node as it was at an instant.
type Nodes interface {
	Node(name string, at time.Time) (*Node, Sight)
}

// Claims gives the name of the volume of a persistent volume claim; nil if there is no such claim.
type Claims interface {
	ClaimVolume(namespace, name string, at time.Time) (*string, Sight)
}

// Volumes gives what a persistent volume tells of its driver.
type Volumes interface {
	VolumeDriver(name string, at time.Time) (*Driver, Sight)
}

// Drivers gives the audiences of the token requests of a CSIDriver; nil if there is no such driver.
type Drivers interface {
	DriverAudiences(name string, at time.Time) (*[]string, Sight)
}

// ServiceAccounts gives the UID of a service account; nil if there is none.
type ServiceAccounts interface {
	ServiceAccountUID(namespace, name string, at time.Time) (*string, Sight)
}

// Slices gives the node of a ResourceSlice, empty if it has none; nil if there is no such slice.
type Slices interface {
	SliceNode(name string, at time.Time) (*string, Sight)
}

// Objects gives whole objects as JSON, without managed fields: of persistentvolumeclaims and csinodes.
type Objects interface {
	Object(resource, namespace, name string, at time.Time) ([]byte, Sight)
}

// Authorizer is the API server's own, as of an instant. An error goes into the plugin's message.
type Authorizer interface {
	Authorize(attrs authorizer.Attributes, at time.Time) (allowed, known bool, err error)
}

// Pod is what the plugin reads of a pod.
type Pod struct {
	UID, Node string
	// SpecUnknown is true when ServiceAccount, Mirror and Uses are not known, StatusUnknown when Labels and ClaimStatuses are not.
	SpecUnknown, StatusUnknown bool
	ServiceAccount             string
	Mirror                     bool
	// Uses is in the order of the pod's volumes: see [UsesOf].
	Uses   []Use
	Labels map[string]string
	// ClaimStatuses are resourceClaimStatuses, extendedResourceClaimStatus and nodeAllocatableResourceClaimStatuses of the pod's status
	// as one JSON object; nil if it has none of them.
	ClaimStatuses []byte
}

// Node is what the plugin reads of a Node.
type Node struct {
	UID string
	// MetaUnknown is true when only the UID is known.
	MetaUnknown  bool
	Labels       map[string]string
	Taints       []corev1.Taint
	Owners       []metav1.OwnerReference
	ConfigSource *corev1.NodeConfigSource
}
