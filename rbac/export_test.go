package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// RuleAllows is allowedBy for the tests, which are outside of the package.
func RuleAllows(attrs authorizer.Attributes, rule *rbacv1.PolicyRule) bool {
	r := requestOf(attrs)
	return r.allowedBy(rule)
}
