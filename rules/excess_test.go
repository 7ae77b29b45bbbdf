package rules

import (
	"errors"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

func TestExcess(t *testing.T) {
	rule := rbacExcessAccess()
	f := expects(t, rule, NewMemory())
	const secret = "critical: get secrets shop/db is allowed to node worker-1 by ClusterRoleBinding legacy alone"

	// By the kind of access.
	f("a secret", secret, byRBAC(200))
	f("a secret's status is unknown, as in a panic", secret, byRBAC(0))
	f("a secret, and the handler failed", secret, byRBAC(500))
	f("all secrets", "critical: list all secrets is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("list secrets"), byRBAC(200))
	f("a token", "critical: create serviceaccounts/token shop/web is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("create serviceaccounts/token shop/web"), byRBAC(201))
	f("a service account", "high: get serviceaccounts shop/web is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("get serviceaccounts shop/web"), byRBAC(200))
	f("secrets of another group", "high: get secrets.vault.example shop/db is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("get secrets.vault.example shop/db"), byRBAC(200))
	f("a creation without a name", "critical: create pods in namespace shop is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("create pods shop/"), byRBAC(201))
	f("a creation with the body's name", "critical: create pods shop/x is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("create pods shop/"), byRBAC(201), func(r *Request) { r.Event.ObjectRef.Name = "x" })
	f("a path", "high: get path /metrics is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		path("/metrics"), byRBAC(200))
	f("a role binding", "critical: get secrets shop/db is allowed to node worker-1 by RoleBinding shop/readers alone",
		byRBAC(200), func(r *Request) {
			r.Grant.Binding.Kind, r.Grant.Binding.Namespace, r.Grant.Binding.Name = "RoleBinding", "shop", "readers"
		})
	f("a binding for the one node", secret, byRBAC(200), granted("User system:node:worker-1"))

	// What kubeadm gives nodes stays, and nothing else that comes by such a name.
	kubeadm := func(r *Request) {
		r.Grant.Binding.Kind, r.Grant.Binding.Namespace, r.Grant.Binding.Name = "RoleBinding", "kube-system", "kubeadm:nodes-kubeadm-config"
	}
	f("an upgrade by kubeadm", "low: get configmaps kube-system/kubeadm-config is allowed to node worker-1 by RoleBinding kube-system/kubeadm:nodes-kubeadm-config alone, "+
		"which is kubeadm's and stays", does("get configmaps kube-system/kubeadm-config"), byRBAC(200), kubeadm)
	f("the same by another binding", "high: get configmaps kube-system/kubeadm-config is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("get configmaps kube-system/kubeadm-config"), byRBAC(200))
	f("a secret by kubeadm's binding", "critical: get secrets kube-system/kubeadm-config is allowed to node worker-1 by RoleBinding kube-system/kubeadm:nodes-kubeadm-config alone",
		does("get secrets kube-system/kubeadm-config"), byRBAC(200), kubeadm)
	f("all ConfigMaps by kubeadm's binding", "high: list all configmaps in namespace kube-system is allowed to node worker-1 by RoleBinding kube-system/kubeadm:nodes-kubeadm-config alone",
		does("list configmaps kube-system/"), byRBAC(200), kubeadm)

	// Nor does what k0s gives its workers go, and each of both gives no more than its own.
	k0s := func(name string) with {
		return func(r *Request) {
			r.Grant.Binding.Kind, r.Grant.Binding.Namespace, r.Grant.Binding.Name = "RoleBinding", "kube-system", name
		}
	}
	const profiles, profile = "system:bootstrappers:worker-config", "kube-system/worker-config-default-1.36"
	const byK0s = " is allowed to node worker-1 by RoleBinding kube-system/" + profiles + " alone"
	f("a worker of k0s starts", "low: get configmaps "+profile+byK0s+", which is k0s's and stays", does("get configmaps "+profile), byRBAC(200), k0s(profiles))
	f("and watches", "low: watch configmaps "+profile+byK0s+", which is k0s's and stays", does("watch configmaps "+profile), byRBAC(200), k0s(profiles))
	f("since 1.31", "low: get configmaps "+profile+" is allowed to node worker-1 by RoleBinding kube-system/"+profiles+"-1.36 alone, which is k0s's and stays",
		does("get configmaps "+profile), byRBAC(200), k0s(profiles+"-1.36"))
	f("the same by another name", "high: get configmaps "+profile+" is allowed to node worker-1 by RoleBinding kube-system/"+profiles+"s alone",
		does("get configmaps "+profile), byRBAC(200), k0s(profiles+"s"))
	f("the same by another binding", "high: get configmaps "+profile+" is allowed to node worker-1 by ClusterRoleBinding legacy alone", does("get configmaps "+profile), byRBAC(200))
	f("the same by kubeadm's", "high: get configmaps "+profile+" is allowed to node worker-1 by RoleBinding kube-system/kubeadm:nodes-kubeadm-config alone",
		does("get configmaps "+profile), byRBAC(200), kubeadm)
	f("kubeadm's by that of k0s", "high: get configmaps kube-system/kubeadm-config"+byK0s, does("get configmaps kube-system/kubeadm-config"), byRBAC(200), k0s(profiles))
	f("a write by that of k0s", "high: patch configmaps "+profile+byK0s, does("patch configmaps "+profile), byRBAC(200), k0s(profiles))
	f("all by that of k0s", "high: list all configmaps in namespace kube-system"+byK0s, does("list configmaps kube-system/"), byRBAC(200), k0s(profiles))
	f("a secret by that of k0s", "critical: get secrets "+profile+byK0s, does("get secrets "+profile), byRBAC(200), k0s(profiles))

	// kubeadm continues without the configuration of kube-proxy, and other clients may not.
	proxy, upgrading := does("get configmaps kube-system/kube-proxy"), agent("kubeadm/v1.36.4 (linux/amd64) kubernetes/abc")
	const ofProxy = "get configmaps kube-system/kube-proxy is allowed to node worker-1 by ClusterRoleBinding legacy alone"
	f("an upgrade asks for kube-proxy", "low: "+ofProxy+", and kubeadm continues without it", proxy, byRBAC(200), upgrading)
	f("and there is none", "low: "+ofProxy+", and kubeadm continues without it", proxy, byRBAC(404), upgrading)
	f("another client asks for it", "high: "+ofProxy, proxy, byRBAC(200), agent("curl/8.5.0"))
	f("another ConfigMap", "high: get configmaps kube-system/coredns is allowed to node worker-1 by ClusterRoleBinding legacy alone",
		does("get configmaps kube-system/coredns"), byRBAC(200), upgrading)

	// What failed anyway is no reason against deleting the binding.
	f("an object that is not there", "low: get secrets shop/db is allowed to node worker-1 by ClusterRoleBinding legacy alone, and there was no such object (404)",
		byRBAC(404))
	f("a kubelet's look at a deleted pod", "low: get pods shop/web-1 is allowed to node worker-1 by ClusterRoleBinding legacy alone, and there was no such object (404)",
		does("get pods shop/web-1"), byRBAC(404))
	f("refused by admission", "low: create serviceaccounts/token shop/web is allowed to node worker-1 by ClusterRoleBinding legacy alone, and admission refused it (403)",
		does("create serviceaccounts/token shop/web"), byRBAC(403))

	// What is behind a proxy chooses the answer, and has done what it was asked to.
	for _, what := range []string{"get pods/proxy shop/web-1", "get services/proxy shop/web", "create nodes/proxy worker-2"} {
		for _, answer := range []int32{404, 403} {
			f("answered by what is behind a proxy", "critical: "+what+" is allowed to node worker-1 by ClusterRoleBinding legacy alone", does(what), byRBAC(answer))
		}
	}

	// The observed verdict wins over the re-evaluated one.
	f("Node denied, we say allow", "low: get secrets shop/db is allowed to node worker-1 by ClusterRoleBinding legacy alone, because the API server's Node authorizer "+
		"denied what the state had long allowed", byRBAC(200), verdict(nodeauthz.Allow))
	f("Node denied, we do not know", secret, byRBAC(200), verdict(nodeauthz.Unknown))
	f("Node allowed, we say deny", "", annotated("allow", nodeauthz.Allow), granted("Group system:nodes"))

	// Without annotations, or where they imply nothing of Node, the re-evaluated one counts.
	f("RBAC's grant by the state", secret, code(200), granted("Group system:nodes"))
	f("RBAC asked first", secret, byRBAC(200), annotated("allow", nodeauthz.NotNode))
	f("RBAC asked first, and Node would have allowed it", "", byRBAC(200), annotated("allow", nodeauthz.NotNode), verdict(nodeauthz.Allow))
	f("nobody knows the grant", "critical: get secrets shop/db is allowed to node worker-1 by an RBAC binding that the log does not name alone",
		code(200))

	// Never.
	f("a race", "", byRBAC(200), race)
	f("a race that nobody annotated", "", code(200), granted("Group system:nodes"), race)
	f("unknown", "", code(200), granted("Group system:nodes"), verdict(nodeauthz.Unknown))
	f("allowed by Node", "", code(200), verdict(nodeauthz.Allow))
	f("refused", "", code(403))
	f("refused by the API server's word", "", annotated("forbid", nodeauthz.Deny))
	f("allowed without the binding too", "", byRBAC(200), func(r *Request) { r.Spare = true })
	f("not a node", "", as("kubelet", "system:nodes"), byRBAC(200))
	f("everybody's", "", byRBAC(200), granted("Group system:authenticated"))
	f("by the node's other group", "", byRBAC(200), granted("Group monitoring"))
	f("by another authorizer", "", code(200), annotated("allow", nodeauthz.Deny))
	f("a path that may be anybody's", "", code(200), path("/healthz"))
	f("discovery", "", code(200), path("/apis/apps/v1"))
	f("a path that is not everybody's", "high: get path /metrics is allowed to node worker-1 by an RBAC binding that the log does not name alone",
		code(200), path("/metrics"))
	f("a review of oneself", "", code(201), does("create selfsubjectaccessreviews.authorization.k8s.io"))
	f("a review of one's rules", "", code(201), does("create selfsubjectrulesreviews.authorization.k8s.io"))
	f("a review of one's name", "", code(201), does("create selfsubjectreviews.authentication.k8s.io"))
	f("a member of system:masters", "", code(200), as("system:node:worker-1", "system:nodes", "system:masters"))

	f("a review of oneself by a name that only looks like it",
		"high: create selfsubjectreviews.example.org is allowed to node worker-1 by an RBAC binding that the log does not name alone",
		code(201), does("create selfsubjectreviews.example.org"))
}

func TestExcessFinding(t *testing.T) {
	got, _ := rbacExcessAccess().Find(request(byRBAC(200)), nil, nil)
	if got.Subject != "worker-1" || got.Binding.Name != "legacy" || got.Binding.Kind != "ClusterRoleBinding" || !got.Allowed {
		t.Errorf("finding %+v", got)
	}
}

func TestLag(t *testing.T) {
	rule := authorizerLag()
	f := func(name, want string, changes ...with) {
		t.Helper()
		if got := check(t, rule, nil, nil, request(changes...)); got != want {
			t.Errorf("%s:\n got %q\nwant %q", name, got, want)
		}
	}
	const denied = "low: the API server's Node authorizer denied get secrets shop/db to node worker-1, which the state had long allowed"
	f("refused", denied, verdict(nodeauthz.Allow), annotated("forbid", nodeauthz.Deny))
	f("let through by RBAC", denied, byRBAC(200), verdict(nodeauthz.Allow))

	f("a race", "", verdict(nodeauthz.Allow), annotated("forbid", nodeauthz.Deny), race)
	f("unknown", "", verdict(nodeauthz.Unknown), annotated("forbid", nodeauthz.Deny))
	f("both deny", "", annotated("forbid", nodeauthz.Deny))
	f("both allow", "", verdict(nodeauthz.Allow), annotated("allow", nodeauthz.Allow))
	f("the reverse", "", annotated("allow", nodeauthz.Allow))
	f("refused by admission", "", verdict(nodeauthz.Allow), annotated("allow", nodeauthz.Allow), func(r *Request) { r.Event.Code = 403 })
	f("a 403 that nobody annotated", "", verdict(nodeauthz.Allow), code(403))
	f("not a node", "", as("kubelet", "system:nodes"), verdict(nodeauthz.Allow), annotated("forbid", nodeauthz.Deny))
}

// A kubelet may ask for a pod that was on its node and is on another one now; any other client, address, verb or pod counts.
func TestPodMoved(t *testing.T) {
	s := cluster(2)
	s.sets = map[string][][]string{"worker-1": {{"203.0.113.9"}, {"10.0.0.1", "worker-1"}}}
	s.pods = map[string]string{"shop/db-0": "worker-1", "shop/other": "worker-2"}
	for _, c := range []struct {
		name    string
		changes []with
		low     bool
	}{
		{"its own", nil, true},
		{"another client", []with{agent("curl/8.5.0")}, false},
		{"another node's", []with{does("get pods shop/other")}, false},
		{"an address that the Node had before", []with{comes("203.0.113.9")}, false},
		{"a list", []with{does("list pods shop/db-0")}, false},
		{"all pods", []with{does("get pods")}, false},
		{"its log", []with{does("get pods/log shop/db-0")}, false},
		{"a delete", []with{does("delete pods shop/db-0")}, false},
		{"a secret of that name", []with{does("get secrets shop/db-0")}, false},
		{"another group's pods", []with{does("get pods.metrics.k8s.io shop/db-0")}, false},
		{"answered with an error", []with{byRBAC(500)}, true},
		{"answered with another error", []with{byRBAC(422)}, false},
	} {
		f, found := rbacExcessAccess().Find(request(append([]with{does("get pods shop/db-0"), byRBAC(200)}, c.changes...)...), s, NewMemory())
		if !found || (f.Severity == Low) != c.low || (f.Reason == OwnUntilBefore) != c.low {
			t.Errorf("%s: %v %+v", c.name, found, f)
		}
	}
}

// What a kubelet watches right after its pod was deleted is no more than it had; any other client, address or verb counts.
func TestOwnUntilBefore(t *testing.T) {
	s := cluster(2)
	s.sets = map[string][][]string{"worker-1": {{"203.0.113.9"}, {"10.0.0.1", "worker-1"}}}
	gone := func(r *Request) { r.JustGone = true }
	watch := []with{does("watch secrets shop/db"), byRBAC(200), gone}
	for _, c := range []struct {
		name    string
		s       State
		m       *Memory
		changes []with
		low     bool
	}{
		{"a kubelet", s, NewMemory(), nil, true},
		{"another client", s, NewMemory(), []with{agent("curl/8.5.0")}, false},
		{"an address that the Node had before", s, NewMemory(), []with{comes("203.0.113.9")}, false},
		{"a strange address", s, NewMemory(), []with{comes("198.51.100.7")}, false},
		{"a list", s, NewMemory(), []with{does("list secrets shop/db")}, true},
		{"a get", s, NewMemory(), []with{does("get secrets shop/db")}, false},
		{"a get in vain", s, NewMemory(), []with{does("get secrets shop/db"), byRBAC(503)}, true},
		{"another client in vain", s, NewMemory(), []with{does("get secrets shop/db"), byRBAC(503), agent("curl/8.5.0")}, false},
		{"a get of a claim", s, NewMemory(), []with{does("get persistentvolumeclaims shop/data")}, true},
		{"a get of a volume", s, NewMemory(), []with{does("get persistentvolumes data")}, true},
		{"a get of a claim from elsewhere", s, NewMemory(), []with{does("get persistentvolumeclaims shop/data"), comes("198.51.100.7")}, false},
		{"a get of another claim", s, NewMemory(), []with{does("get persistentvolumeclaims shop/data"), func(r *Request) { r.JustGone = false }}, false},
		{"what it could not reach before", s, NewMemory(), []with{func(r *Request) { r.JustGone = false }}, false},
		{"no state", nil, NewMemory(), nil, false},
		{"no addresses", cluster(2), NewMemory(), nil, false},
	} {
		for _, rule := range []*Rule{rbacExcessAccess(), outOfScopeSecretRead()} {
			r := request(append(slices.Clone(watch), c.changes...)...)
			if rule.Name != ExcessAccess && r.Attrs.Resource != "secrets" {
				continue
			}
			f, found := rule.Find(r, c.s, c.m)
			if !found || (f.Severity == Low) != c.low || rule.Name == ExcessAccess && (f.Reason == OwnUntilBefore) != c.low {
				t.Errorf("%s: %s says %v %+v", c.name, rule.Name, found, f)
			}
		}
	}
}

// cutOff is a world in which a node heard of the cluster last when it had a pod.
type cutOff struct {
	*world
	pod string
}

func (w cutOff) HadPod(namespace, name, _ string, _ time.Time) bool {
	return w.pod == namespace+"/"+name
}

// A node that was off for days comes back, and asks after the pods that it had.
func TestOwnUntilCutOff(t *testing.T) {
	s := cluster(2)
	s.sets = map[string][][]string{"worker-1": {{"10.0.0.1"}}}
	for name, c := range map[string]struct {
		s       State
		changes []with
		low     bool
	}{
		"its pod":              {cutOff{s, "shop/db-0"}, nil, true},
		"another pod":          {cutOff{s, "shop/db-1"}, nil, false},
		"to another address":   {cutOff{s, "shop/db-0"}, []with{comes("198.51.100.7")}, false},
		"a secret of the name": {cutOff{s, "shop/db-0"}, []with{does("get secrets shop/db-0")}, false},
	} {
		f, found := rbacExcessAccess().Find(request(append([]with{does("get pods shop/db-0"), byRBAC(200)}, c.changes...)...), c.s, NewMemory())
		if !found || (f.Severity == Low) != c.low || (f.Reason == OwnUntilBefore) != c.low {
			t.Errorf("%s: %v %+v", name, found, f)
		}
	}
}

// A list or a watch of a name that no object can have gives nobody anything. Whether its kubelet does without the answer depends on what names it.
func TestExcessOfNoName(t *testing.T) {
	s := cluster(2)
	s.pulls = map[string]bool{"shop/registry/team": true}
	const name = "registry/team"
	of := func(q ...fields.Requirement) with {
		return func(r *Request) { r.Attrs.FieldSelectorRequirements = q }
	}
	equal := fields.Requirement{Field: "metadata.name", Operator: selection.Equals, Value: name}
	labeled := func(r *Request) {
		l, _ := labels.NewRequirement("app", selection.Equals, []string{"x"})
		r.Attrs.LabelSelectorRequirements = labels.Requirements{*l}
	}
	for _, c := range []struct {
		name    string
		s       State
		changes []with
		reason  Reason
		apart   string
	}{
		{"an image pull secret", s, nil, NameImpossible, Tolerated},
		{"its watch", s, []with{does("watch secrets shop/"), of(equal)}, NameImpossible, Tolerated},
		{"by two equals signs", s, []with{of(fields.Requirement{Field: "metadata.name", Operator: selection.DoubleEquals, Value: name})}, NameImpossible, Tolerated},
		{"what a pod may need", s, []with{selecting("metadata.name", "registry/other")}, NameImpossible, NoName},
		{"no state", nil, nil, NameImpossible, NoName},
		{"another client", s, []with{agent("curl/8.5.0")}, NameImpossible, NoName},
		{"a ConfigMap", s, []with{does("list configmaps shop/"), of(equal)}, NameImpossible, NoName},
		{"another namespace", s, []with{does("list secrets pay/"), of(equal)}, NameImpossible, NoName},

		{"all", s, []with{of()}, BindingNeeded, ""},
		{"all but that", s, []with{of(fields.Requirement{Field: "metadata.name", Operator: selection.NotEquals, Value: name})}, BindingNeeded, ""},
		{"by another field", s, []with{selecting("type", name)}, BindingNeeded, ""},
		{"by labels alone", s, []with{of(), labeled}, BindingNeeded, ""},
		{"by labels too", s, []with{labeled}, BindingNeeded, ""},
		{"an empty name", s, []with{selecting("metadata.name", "")}, BindingNeeded, ""},
		{"a name that can be", s, []with{selecting("metadata.name", "db")}, BindingNeeded, ""},
		{"two names", s, []with{of(equal, fields.Requirement{Field: "metadata.name", Operator: selection.Equals, Value: "db"})}, BindingNeeded, ""},
		{"two fields", s, []with{of(equal, fields.Requirement{Field: "type", Operator: selection.Equals, Value: "Opaque"})}, BindingNeeded, ""},
		{"a selector that is none", s, []with{func(r *Request) { r.Attrs.FieldSelectorParsingErr = errors.New("x") }}, BindingNeeded, ""},
		{"of all namespaces", s, []with{does("list secrets"), of(equal)}, BindingNeeded, ""},
		{"a get", s, []with{does("get secrets shop/db"), of(equal)}, BindingNeeded, ""},
		{"the deletion of all", s, []with{does("deletecollection secrets shop/"), of(equal)}, BindingNeeded, ""},
		{"another group's", s, []with{does("list secrets.vault.example shop/"), of(equal)}, BindingNeeded, ""},
		{"pods", s, []with{does("list pods shop/"), of(equal)}, BindingNeeded, ""},
	} {
		f, found := rbacExcessAccess().Find(request(append([]with{does("list secrets shop/"), of(equal), byRBAC(200)}, c.changes...)...), c.s, NewMemory())
		if !found || f.Reason != c.reason || f.Apart != c.apart || (f.Severity == Low) != (c.reason == NameImpossible) {
			t.Errorf("%s: %t %+v", c.name, found, f)
		}
	}
}

// What no object can have as its name is what apimachinery says.
func TestNoName(t *testing.T) {
	for _, name := range []string{"", ".", "..", "...", "a/b", "/", "%", "100%", "db", "Upper", "a b", "a\\b", "ä", "a..b", ".a"} {
		if got, want := nodeauthz.NoName(name), name == "" || len(content.IsPathSegmentName(name)) > 0; got != want {
			t.Errorf("%q: %t", name, got)
		}
	}
}
