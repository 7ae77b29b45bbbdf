//go:build k8s1_36

package conformance

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
)

// Kubernetes 1.36 and older: the union of authorizers does not name them.

func unionOf(_ string, a authorizer.Authorizer) authorizer.Authorizer { return union.New(a) }
