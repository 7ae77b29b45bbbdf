package rbac

import (
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// request is what rules look at, read once from an authorizer.Attributes.
type request struct {
	isResource                         bool
	verb                               string
	group, resource, subresource, name string
	path                               string
}

func requestOf(attrs authorizer.Attributes) request {
	r := request{isResource: attrs.IsResourceRequest(), verb: attrs.GetVerb()}
	if r.isResource {
		r.group, r.resource, r.subresource, r.name = attrs.GetAPIGroup(), attrs.GetResource(), attrs.GetSubresource(), attrs.GetName()
	} else {
		r.path = attrs.GetPath()
	}
	return r
}

// allowedBy reports whether the rule allows the request, whoever makes it, as
// RuleAllows of k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac. The order of
// the conditions is by cost and does not show.
func (r *request) allowedBy(rule *rbacv1.PolicyRule) bool {
	if !r.isResource {
		return matches(rule.Verbs, r.verb) && r.matchesURL(rule.NonResourceURLs)
	}
	return r.matchesResource(rule.Resources) && matches(rule.APIGroups, r.group) &&
		matches(rule.Verbs, r.verb) && r.matchesName(rule.ResourceNames)
}

// matches reports whether the list holds s or an asterisk, which stands for all
// verbs and for all API groups.
func matches(list []string, s string) bool {
	for _, e := range list {
		if e == s || e == "*" {
			return true
		}
	}
	return false
}

// matchesResource reports whether a rule's resources hold the one that is asked
// for. An asterisk alone stands for all resources with all their subresources,
// `*/sub` for that subresource of any; `pods/*` has no special meaning.
func (r *request) matchesResource(resources []string) bool {
	for _, e := range resources {
		if e == "*" {
			return true
		}
		if r.subresource == "" {
			if e == r.resource {
				return true
			}
			continue
		}
		head, ok := strings.CutSuffix(e, r.subresource)
		if !ok || head == "" || head[len(head)-1] != '/' {
			continue
		}
		if head = head[:len(head)-1]; head == r.resource || head == "*" {
			return true
		}
	}
	return false
}

// matchesName reports whether a rule is about the named object. A rule with no
// names is about all, and one with names about no request without a name.
func (r *request) matchesName(names []string) bool {
	if len(names) == 0 {
		return true
	}
	for _, e := range names {
		if e == r.name {
			return true
		}
	}
	return false
}

// matchesURL reports whether a rule's URLs hold the path. As in the reference
// all asterisks at the end are cut, so `/a**` is `/a*`; one elsewhere has no
// special meaning.
func (r *request) matchesURL(urls []string) bool {
	for _, e := range urls {
		if e == "*" || e == r.path {
			return true
		}
		if strings.HasSuffix(e, "*") && strings.HasPrefix(r.path, strings.TrimRight(e, "*")) {
			return true
		}
	}
	return false
}
