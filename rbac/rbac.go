// Package rbac is RBAC with memory: who allows a request, through which
// binding, as of the request's time, and what would be left without that
// binding.
//
// In go the four kinds of RBAC objects, each with the time from which it was
// so ([Store.SetClusterRole] and its sisters). They may come in any order,
// more than once, and be deleted and made again. Out comes, for a request and
// an instant, a [Decision] with the [Grant] that allows it; every other way by
// which it is allowed ([Store.Grants]); and what would be decided if some of
// them went ([Store.AuthorizeWithout]). [ParseReason] reads the grant that an
// API server itself named in an audit event.
//
// The behaviour is that of the reference's RBAC authorizer, Kubernetes 1.28 to
// 1.37 (k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac and
// pkg/registry/rbac/validation), reasons byte for byte. One thing it leaves to
// chance is determined here: the reference visits bindings in the order of a
// map, so of several that allow a request any may be named. Here it is the
// first by name, cluster role bindings before role bindings.
//
// The package imports nothing of this module. It may import k8s.io/api,
// k8s.io/apimachinery and k8s.io/apiserver, of which it uses only what is the
// same in all minors from 0.33 on.
package rbac

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/internal/nodeid"
)

// The kinds that a BindingRef and a RoleRef can have.
const (
	KindClusterRoleBinding = "ClusterRoleBinding"
	KindRoleBinding        = "RoleBinding"
	KindClusterRole        = "ClusterRole"
	KindRole               = "Role"
)

// BindingRef names a binding. Namespace is empty for a ClusterRoleBinding.
type BindingRef struct{ Kind, Namespace, Name string }

// ParseBindingRef reads clusterrolebinding/NAME or rolebinding/NAMESPACE/NAME; the kind may be plural, and in any case of letters.
func ParseBindingRef(text string) (BindingRef, error) {
	kind, name, _ := strings.Cut(text, "/")
	var ref BindingRef
	switch strings.ToLower(kind) {
	case "clusterrolebinding", "clusterrolebindings":
		ref = BindingRef{Kind: KindClusterRoleBinding, Name: name}
	case "rolebinding", "rolebindings":
		namespace, local, ok := strings.Cut(name, "/")
		if !ok || namespace == "" {
			return BindingRef{}, fmt.Errorf("%q lacks the namespace: rolebinding/NAMESPACE/NAME", text)
		}
		ref = BindingRef{Kind: KindRoleBinding, Namespace: namespace, Name: local}
	}
	if ref.Name == "" || strings.Contains(ref.Name, "/") {
		return BindingRef{}, fmt.Errorf("%q is none of clusterrolebinding/NAME, rolebinding/NAMESPACE/NAME", text)
	}
	return ref, nil
}

// String is the name as ParseBindingRef reads it.
func (b BindingRef) String() string {
	if b.Kind == KindRoleBinding {
		return "rolebinding/" + b.Namespace + "/" + b.Name
	}
	return "clusterrolebinding/" + b.Name
}

// RoleRef names a role as a binding does: a Role is in the namespace of its
// binding.
type RoleRef struct{ Kind, Name string }

// SubjectRef names whom a binding binds. Namespace is only ever set for a
// ServiceAccount, and then it is the one that counts: the binding's own where
// the subject has none.
type SubjectRef struct{ Kind, Namespace, Name string }

// Grant is one way by which RBAC allows a request: the binding, the role whose
// rules allow it, and the subject of the binding that the user is.
type Grant struct {
	Binding BindingRef
	Role    RoleRef
	Subject SubjectRef
}

// Ambient reports whether the grant is access that any authenticated user has,
// or anybody at all.
func (g Grant) Ambient() bool { return g.Subject.Ambient() }

// ForNodes reports whether the grant is to nodes: to the group of all nodes or
// to the user name of one.
func (g Grant) ForNodes() bool { return g.Subject.ForNodes() }

// Ambient reports whether the subject is the group of all authenticated or of
// all unauthenticated users, or the user that the latter are.
func (s SubjectRef) Ambient() bool {
	return s.Kind == rbacv1.GroupKind && (s.Name == user.AllAuthenticated || s.Name == user.AllUnauthenticated) ||
		s.Kind == rbacv1.UserKind && s.Name == user.Anonymous // whoever does not say who he is
}

// Authenticated reports whether the subject is the group of all authenticated users.
func (s SubjectRef) Authenticated() bool {
	return s.Kind == rbacv1.GroupKind && s.Name == user.AllAuthenticated
}

// Unauthenticated reports whether the subject is the group of all
// unauthenticated users, or the user that they are. They are in no other group.
func (s SubjectRef) Unauthenticated() bool { return s.Ambient() && !s.Authenticated() }

// ForNodes reports whether the subject is the group system:nodes or a user
// whose name begins with system:node:.
func (s SubjectRef) ForNodes() bool {
	switch s.Kind {
	case rbacv1.GroupKind:
		return s.Name == user.NodesGroup
	case rbacv1.UserKind:
		return strings.HasPrefix(s.Name, nodeid.UserPrefix)
	}
	return false
}

// MissingRole is a binding that applies to the user and gives nothing, because
// the role that it names does not exist or is of no known kind.
type MissingRole struct {
	Binding BindingRef
	Role    RoleRef
}

// BindingInfo is a binding as it was at an instant.
type BindingInfo struct {
	Binding BindingRef
	Role    RoleRef
	// Subjects are all that the binding names, each once, in its order,
	// those of unknown kinds included.
	Subjects []SubjectRef
	// RoleExists is false when the binding gives nothing because its role does not exist.
	RoleExists bool
	// Rules are the role's own.
	Rules []rbacv1.PolicyRule
	// UID and ResourceVersion are those of the object as it was then; of Bindings only, and empty where they are not known or the
	// object has changed since, be it in nothing that counts here.
	UID, ResourceVersion string
}

// ForNodes reports whether any subject of the binding is the group system:nodes
// or the user of a node.
func (b BindingInfo) ForNodes() bool {
	for _, s := range b.Subjects {
		if s.ForNodes() {
			return true
		}
	}
	return false
}
