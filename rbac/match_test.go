package rbac_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/rbac"
)

func TestRuleAllows(t *testing.T) {
	url := func(verbs string, urls ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Split(verbs, ","), NonResourceURLs: urls}
	}
	named := func(s string, names ...string) rbacv1.PolicyRule {
		r := rule(s)
		r.ResourceNames = names
		return r
	}
	for _, c := range []struct {
		name    string
		rule    rbacv1.PolicyRule
		request string
		want    bool
	}{
		{"exact", rule("get secrets"), "get secrets ns/a", true},
		{"other verb", rule("get secrets"), "list secrets ns/", false},
		{"all verbs", rule("* secrets"), "frobnicate secrets ns/a", true},
		{"verb is no pattern", rule("ge* secrets"), "get secrets ns/a", false},
		{"verbs are case sensitive", rule("GET secrets"), "get secrets ns/a", false},
		{"other resource", rule("get secrets"), "get configmaps ns/a", false},
		{"other group", rule("get leases coordination.k8s.io"), "get leases ns/a", false},
		{"same group", rule("get leases coordination.k8s.io"), "get leases.coordination.k8s.io ns/a", true},
		{"all groups", rule("get leases *"), "get leases.coordination.k8s.io ns/a", true},
		{"no groups", rbacv1.PolicyRule{Verbs: []string{"*"}, Resources: []string{"*"}}, "get pods", false},
		{"no verbs", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}}, "get pods", false},
		{"no resources", rbacv1.PolicyRule{APIGroups: []string{"*"}, Verbs: []string{"*"}}, "get pods", false},

		{"resource is not its subresource", rule("get pods"), "get pods/log ns/a", false},
		{"subresource is not its resource", rule("get pods/log"), "get pods ns/a", false},
		{"subresource", rule("get pods/log"), "get pods/log ns/a", true},
		{"subresource of another", rule("get pods/log"), "get nodes/log ns/a", false},
		{"all resources are all subresources", rule("get *"), "get pods/log ns/a", true},
		{"a subresource of all", rule("get */log"), "get pods/log ns/a", true},
		{"a subresource of all, another", rule("get */status"), "get pods/log ns/a", false},
		{"a subresource of all, without", rule("get */log"), "get log ns/a", false},
		{"a subresource that only ends so", rule("get */log"), "get pods/xlog ns/a", false},
		{"a rule that only ends so", rule("get */xlog"), "get pods/log ns/a", false},
		{"all subresources of one are none", rule("get pods/*"), "get pods/log ns/a", false},
		{"an asterisk asked for", rule("get pods/*"), "get pods/* ns/a", true},
		{"slashes in a subresource", rule("get services/proxy/x"), "get services/proxy/x ns/a", true},
		{"slashes in a subresource of all", rule("get */proxy/x"), "get services/proxy/x ns/a", true},

		{"named", named("get secrets", "a", "b"), "get secrets ns/b", true},
		{"named, another", named("get secrets", "a", "b"), "get secrets ns/c", false},
		{"named, list without a name", named("list secrets", "a"), "list secrets ns/", false},
		{"name is no pattern", named("get secrets", "*"), "get secrets ns/b", false},
		{"named all", named("get secrets", "*"), "get secrets ns/*", true},
		{"empty name", named("list secrets", ""), "list secrets ns/", true},

		{"path", url("get", "/healthz"), "get /healthz", true},
		{"path below", url("get", "/healthz"), "get /healthz/etcd", false},
		{"path pattern", url("get", "/healthz/*"), "get /healthz/etcd", true},
		{"path pattern without the rest", url("get", "/healthz/*"), "get /healthz/", true},
		{"path pattern without the slash", url("get", "/healthz/*"), "get /healthz", false},
		{"path pattern anywhere", url("get", "/heal*"), "get /healthz/etcd", true},
		{"all asterisks at the end go", url("get", "/heal***"), "get /healthz", true},
		{"asterisks only", url("get", "**"), "get /anything", true},
		{"asterisk within", url("get", "/a/*/c"), "get /a/b/c", false},
		{"asterisk within and at the end", url("get", "/a/*/c*"), "get /a/b/c", false},
		{"all paths", url("get", "*"), "get /anything", true},
		{"all paths, other verb", url("get", "*"), "post /anything", false},
		{"all paths, all verbs", url("*", "*"), "post /anything", true},
		{"a path for a resource", url("*", "*"), "get pods ns/a", false},
		{"a resource for a path", rule("* * *"), "get /healthz", false},
	} {
		a := request("u", nil, c.request)
		if got := rbac.RuleAllows(a, &c.rule); got != c.want {
			t.Errorf("%s: RuleAllows(%s, %+v) = %v", c.name, c.request, c.rule, got)
		}
	}
}

// TestRuleAllowsAgainstDefinition compares with the definition of a match, over
// rules and requests made of few, awkward words.
func TestRuleAllowsAgainstDefinition(t *testing.T) {
	words := []string{"", "*", "**", "/", "a", "b", "a/b", "*/b", "a/*", "*/", "/b", "/a/*", "b/a", "a/b/a", "*/b/a", "ab"}
	rnd := rand.New(rand.NewPCG(1, 2))
	some := func() (out []string) {
		for range rnd.IntN(3) {
			out = append(out, words[rnd.IntN(len(words))])
		}
		return out
	}
	word := func() string { return words[rnd.IntN(len(words))] }
	allowed := 0
	for range 200_000 {
		r := rbacv1.PolicyRule{Verbs: some(), APIGroups: some(), Resources: some(), ResourceNames: some(), NonResourceURLs: some()}
		a := request("u", nil, "get pods")
		a.ResourceRequest = rnd.IntN(3) > 0
		a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Name, a.Path = word(), word(), word(), word(), word(), word()
		want := definedMatch(r, a.ResourceRequest, a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Name, a.Path)
		if got := rbac.RuleAllows(a, &r); got != want {
			t.Fatalf("RuleAllows(%+v, %+v) = %v", a, r, got)
		}
		if want {
			allowed++
		}
	}
	if allowed < 1000 {
		t.Errorf("only %d matches were met", allowed)
	}
}

func definedMatch(r rbacv1.PolicyRule, isResource bool, verb, group, resource, subresource, name, path string) bool {
	anyOf := func(list []string, ok func(string) bool) bool {
		for _, e := range list {
			if ok(e) {
				return true
			}
		}
		return false
	}
	allOr := func(s string) func(string) bool {
		return func(e string) bool { return e == "*" || e == s }
	}
	if !anyOf(r.Verbs, allOr(verb)) {
		return false
	}
	if !isResource {
		return anyOf(r.NonResourceURLs, func(e string) bool {
			return allOr(path)(e) || strings.HasSuffix(e, "*") && strings.HasPrefix(path, strings.TrimRight(e, "*"))
		})
	}
	whole := resource
	if subresource != "" {
		whole += "/" + subresource
	}
	return anyOf(r.APIGroups, allOr(group)) &&
		anyOf(r.Resources, func(e string) bool {
			return allOr(whole)(e) || subresource != "" && e == "*/"+subresource
		}) &&
		(len(r.ResourceNames) == 0 || anyOf(r.ResourceNames, func(e string) bool { return e == name }))
}
