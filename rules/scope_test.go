package rules

import (
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestScope(t *testing.T) {
	rule := outOfScopeSecretRead()
	f := expects(t, rule, NewMemory())
	const led = ", and no pod on this node uses it"

	f("refused", "medium: get secrets shop/db by node worker-1 was refused"+led)
	f("refused by the API server's word", "medium: get secrets shop/db by node worker-1 was refused"+led, annotated("forbid", nodeauthz.Deny))
	f("succeeded", "critical: get secrets shop/db by node worker-1 succeeded"+led, byRBAC(200))
	f("let through, not there", "medium: get secrets shop/db by node worker-1 was let through and then failed with code 404"+led, byRBAC(404))
	f("let through, failed", "medium: get secrets shop/db by node worker-1 was let through and then failed with code 500"+led, byRBAC(500))
	f("a watch", "critical: watch secrets shop/db by node worker-1 succeeded"+led, does("watch secrets shop/db"), byRBAC(200))
	f("all of a namespace", "critical: list all secrets in namespace shop by node worker-1 succeeded"+led, does("list secrets shop/"), byRBAC(200))
	f("all", "medium: list all secrets by node worker-1 was refused"+led, does("list secrets"))
	f("a token made", "critical: create serviceaccounts/token shop/web by node worker-1 succeeded"+led,
		does("create serviceaccounts/token shop/web"), byRBAC(201))
	f("a token refused by admission", "medium: create serviceaccounts/token shop/web by node worker-1 was let through and then failed with code 403"+led,
		does("create serviceaccounts/token shop/web"), byRBAC(403))
	f("a configmap", "medium: get configmaps shop/web by node worker-1 succeeded"+led, does("get configmaps shop/web"), byRBAC(200))
	f("a configmap refused", "low: get configmaps shop/web by node worker-1 was refused"+led, does("get configmaps shop/web"))
	f("all configmaps", "low: list all configmaps by node worker-1 was refused"+led, does("list configmaps"))
	f("by a binding for everybody", "critical: get secrets shop/db by node worker-1 succeeded"+led,
		byRBAC(200), granted("Group system:authenticated"), func(r *Request) { r.Spare = true })

	// The observed verdict wins, and the message says whose it is.
	f("Node denied, we say allow", "low: get secrets shop/db by node worker-1 was refused, and by the API server's word, though not by the given state, no pod on this node uses it",
		annotated("forbid", nodeauthz.Deny), verdict(nodeauthz.Allow))
	const notShown = ", and the state does not show whether a pod on this node uses it"
	f("Node denied, we do not know", "medium: get secrets shop/db by node worker-1 was refused"+notShown,
		annotated("forbid", nodeauthz.Deny), verdict(nodeauthz.Unknown))
	f("a get by RBAC, we do not know", "critical: get secrets shop/db by node worker-1 succeeded"+notShown, byRBAC(200), verdict(nodeauthz.Unknown))
	f("a watch by RBAC, we do not know", "medium: watch secrets shop/db by node worker-1 succeeded"+notShown, does("watch secrets shop/db"), byRBAC(200), verdict(nodeauthz.Unknown))
	for _, c := range []struct{ of, from, want string }{
		{"worker-1", "10.0.0.1", "medium"}, {"worker-1", "127.0.0.1", "medium"}, {"worker-1", "203.0.113.9", "critical"}, {"worker-1", "10.0.0.2", "critical"}, {"worker-2", "203.0.113.9", "medium"},
	} {
		w := &world{sets: map[string][][]string{c.of: {{"10.0.0.1"}}}}
		for _, verb := range []string{"watch", "list"} {
			r := request(does(verb+" secrets shop/db"), byRBAC(200), verdict(nodeauthz.Unknown), from(c.from))
			var f Finding
			if !checkScope(r, w, NewMemory(), &f) || f.Severity.String() != c.want {
				t.Errorf("%s from %s with addresses of %s: %s, want %s", verb, c.from, c.of, f.Severity, c.want)
			}
		}
	}
	f("a list of all by RBAC, we do not know", "critical: list all secrets by node worker-1 succeeded"+notShown, does("list secrets"), byRBAC(200), verdict(nodeauthz.Unknown))
	f("Node allowed, we say deny", "", annotated("allow", nodeauthz.Allow))

	f("a race", "", race)
	f("a race with annotation", "", byRBAC(200), race)
	f("unknown", "", verdict(nodeauthz.Unknown))
	f("allowed", "", verdict(nodeauthz.Allow), code(200))
	f("not a node", "", as("admin", "system:masters"), code(200))
	f("a write", "", does("update secrets shop/db"))
	f("another resource", "", does("get pods shop/db"))
	f("another group", "", does("get secrets.vault.example shop/db"))
	f("a subresource", "", does("get secrets/status shop/db"))
	f("the service account itself", "", does("get serviceaccounts shop/web"))
	f("a token is not read", "", does("get serviceaccounts/token shop/web"))
	f("a path", "", path("/api/v1"))
}

// A kubelet asks for the image pull secret of a pod by whatever name the pod has for it, and no secret can have one that is no path segment. Nobody reads anything by that, but what
// looks like it reads secrets.
func TestScopeOfNoName(t *testing.T) {
	const led, all = ", and no pod on this node uses it", "all secrets in namespace shop by node worker-1 "
	f := expects(t, outOfScopeSecretRead(), NewMemory())
	for _, verb := range []string{"list", "watch"} {
		for _, name := range []string{"registry/team", "100%", "..", ""} {
			f("a kubelet's", "", does(verb+" secrets shop/"), selecting("metadata.name", name))
			f("a kubelet's, let through", "", does(verb+" secrets shop/"), selecting("metadata.name", name), byRBAC(200))
			f("a kubelet's of a ConfigMap", "", does(verb+" configmaps shop/"), selecting("metadata.name", name))
		}
		f("all but that", "critical: "+verb+" "+all+"succeeded"+led, does(verb+" secrets shop/"), byRBAC(200), func(r *Request) {
			r.Attrs.FieldSelectorRequirements = fields.Requirements{{Field: "metadata.name", Operator: selection.NotEquals, Value: "registry/team"}}
		})
		f("by another field", "critical: "+verb+" "+all+"succeeded"+led, does(verb+" secrets shop/"), byRBAC(200), selecting("type", "registry/team"))
		f("by a name that a secret can have", "critical: "+verb+" "+all+"succeeded"+led, does(verb+" secrets shop/"), byRBAC(200), selecting("metadata.name", "db"))
		f("of all namespaces", "medium: "+verb+" all secrets by node worker-1 was refused"+led, does(verb+" secrets"), selecting("metadata.name", "registry/team"))
		f("by a name, with a selector", "critical: "+verb+" secrets shop/db by node worker-1 succeeded"+led, does(verb+" secrets shop/db"), byRBAC(200), selecting("metadata.name", "registry/team"))
	}
	f("a get, with a selector", "critical: get secrets shop/db by node worker-1 succeeded"+led, byRBAC(200), selecting("metadata.name", "registry/team"))
	f("a token", "medium: create serviceaccounts/token shop/web by node worker-1 was refused"+led, does("create serviceaccounts/token shop/web"), selecting("metadata.name", "a/b"))
}

// The binding is named where one let the read through, and only there.
func TestScopeBinding(t *testing.T) {
	for _, x := range []struct {
		r    *Request
		want string
	}{{request(byRBAC(200)), "legacy"}, {request(granted("Group system:nodes")), ""}, {request(code(200)), ""}} {
		if got, _ := outOfScopeSecretRead().Find(x.r, nil, nil); got.Binding.Name != x.want {
			t.Errorf("binding %q, want %q", got.Binding.Name, x.want)
		}
	}
}

// The watch of what was the node's own when its kubelet heard of the cluster last is no sign of anything if it is refused to the kubelet.
func TestScopeLost(t *testing.T) {
	w := &world{pods: map[string]string{"shop/own": "worker-1", "shop/other": "worker-2"}} // each leads to the secret of its name
	for _, c := range []struct {
		name    string
		low     bool
		changes []with
	}{
		{"the kubelet", true, []with{does("watch secrets shop/own")}},
		{"its list", true, []with{does("list secrets shop/own")}},
		{"another node's", false, []with{does("watch secrets shop/other")}},
		{"all of a namespace", false, []with{does("list secrets shop/")}},
		{"a token", true, []with{does("create serviceaccounts/token shop/own")}},
		{"a token of another node's", false, []with{does("create serviceaccounts/token shop/other")}},
		{"another client's token", false, []with{does("create serviceaccounts/token shop/own"), agent("curl/8.5.0")}},
		{"a token of what is gone", true, []with{does("create serviceaccounts/token shop/own"), byRBAC(404)}},
		{"a token of another node's that is gone", false, []with{does("create serviceaccounts/token shop/other"), byRBAC(404)}},
		{"a token without an answer", false, []with{does("create serviceaccounts/token shop/own"), byRBAC(0)}},
		{"a token that was given", false, []with{does("create serviceaccounts/token shop/own"), byRBAC(201)}},
		{"a read", false, []with{does("get secrets shop/own")}},
		{"another client", false, []with{does("watch secrets shop/own"), agent("curl/8.5.0")}},
		{"it passed", false, []with{does("watch secrets shop/own"), byRBAC(200)}},
	} {
		f, found := outOfScopeSecretRead().Find(request(c.changes...), w, NewMemory())
		if !found || (f.Severity == Low) != c.low {
			t.Errorf("%s: %+v %t", c.name, f, found)
		}
	}
}
