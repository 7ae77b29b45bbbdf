//go:build k8s1_30

package conformance

import "k8s.io/apiserver/pkg/authorization/authorizer"

// Kubernetes 1.30 and older: authorizers do not see selectors.

func setSelector(*authorizer.AttributesRecord, []Selector) {}
