//go:build !k8s1_36

package conformance

import (
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/union"
)

// Kubernetes 1.37 and later: the union of authorizers puts their names before the reasons.

func unionOf(name string, a authorizer.Authorizer) authorizer.Authorizer {
	u, err := union.New(union.NamedAuthorizer{AuthorizerName: name, Authorizer: a})
	if err != nil {
		panic(err) // the name is a constant
	}
	return u
}
