//go:build !k8s1_30

package conformance

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Kubernetes 1.31 and later.

func setSelector(a *authorizer.AttributesRecord, list []Selector) {
	for _, s := range list {
		a.FieldSelectorRequirements = append(a.FieldSelectorRequirements,
			fields.Requirement{Field: s.Field, Operator: selection.Operator(s.Operator), Value: s.Value})
	}
}
