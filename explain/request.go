package explain

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/internal/spelling"
)

// ParseRequest returns a node's request from words: VERB RESOURCE[.GROUP][/SUBRESOURCE] [[NAMESPACE/]NAME], or VERB PATH, with a field selector or "". It
// needs two words or three. What could only be a slip is an error: its verdict would be true, and about something that nobody asked for.
func ParseRequest(node, selector string, args []string) (*authorizer.AttributesRecord, error) {
	a := &authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: nodeid.UserPrefix + node, Groups: []string{user.NodesGroup, user.AllAuthenticated}},
		Verb: args[0], APIVersion: "v1", ResourceRequest: true,
	}
	if !slices.Contains(verbs, a.Verb) {
		return nil, fmt.Errorf("%q is no verb: %s", a.Verb, cmp.Or(spelling.Meant(a.Verb, verbs), "one is "+spelling.OneOf(verbs[:8])))
	}
	if strings.HasPrefix(args[1], "/") {
		if len(args) > 2 {
			return nil, fmt.Errorf("the path %s has no name: %q is too much", args[1], args[2])
		}
		a.ResourceRequest, a.Path = false, args[1]
		return a, nil
	}
	known, err := parseResource(a, args[1])
	if err != nil {
		return nil, err
	}
	if len(args) > 2 {
		if err := parseName(a, known, args[2]); err != nil {
			return nil, err
		}
	}
	if selector != "" {
		if err := parseSelector(a, selector); err != nil {
			return nil, err
		}
	}
	if a.Name == "" && slices.Contains([]string{"get", "update", "patch", "delete"}, a.Verb) {
		return nil, fmt.Errorf("%s needs a name, as in: %s %s %s", a.Verb, a.Verb, args[1], known.example())
	}
	if a.Name != "" && a.Namespace == "" && known.scope == namespaced {
		return nil, fmt.Errorf("%s are in namespaces: write NAMESPACE/%s", a.Resource, a.Name)
	}
	return a, nil
}

// parseResource reads RESOURCE[.GROUP][/SUBRESOURCE].
func parseResource(a *authorizer.AttributesRecord, arg string) (resource, error) {
	word, sub, _ := strings.Cut(arg, "/")
	word, group, grouped := strings.Cut(strings.ToLower(word), ".")
	known := resource{plural: word, group: group}
	found := false
	var names []string
	for _, r := range resources {
		names = append(names, r.plural)
		if (word == r.plural || slices.Contains(strings.Fields(r.short), word)) && (!grouped || group == r.group) {
			known, found = r, true
			break
		}
	}
	if !found && !grouped {
		hint := "a resource of another group is written RESOURCE.GROUP, as in leases.coordination.k8s.io"
		return known, fmt.Errorf("there is no resource %q: %s", word, cmp.Or(spelling.Meant(word, names), hint))
	}
	if sub != "" && !slices.Contains(subresources, sub) {
		return known, fmt.Errorf("%q is no subresource: a name is a word of its own, as in: %s %s %s", sub, a.Verb, known.plural,
			strings.TrimSuffix(known.example(), "NAME")+sub)
	}
	a.Resource, a.APIGroup, a.Subresource = known.plural, known.group, sub
	return known, nil
}

// parseName reads [NAMESPACE/]NAME; NAMESPACE/ is all that is in the namespace.
func parseName(a *authorizer.AttributesRecord, known resource, arg string) error {
	namespace, name, ok := strings.Cut(arg, "/")
	if !ok {
		namespace, name = "", arg
	}
	switch {
	case strings.Contains(name, "/"), ok && namespace == "", arg == "":
		return fmt.Errorf("%q is not [NAMESPACE/]NAME", arg)
	case ok && known.scope == clusterWide:
		return fmt.Errorf("%s are in no namespace: write only the name", a.Resource)
	}
	a.Namespace, a.Name = namespace, name
	return nil
}

func parseSelector(a *authorizer.AttributesRecord, selector string) error {
	if !slices.Contains([]string{"list", "watch", "deletecollection"}, a.Verb) {
		return errors.New("--field-selector goes with list, watch and deletecollection only")
	}
	s, err := fields.ParseSelector(selector)
	if err != nil {
		return fmt.Errorf("--field-selector: %q is not FIELD=VALUE[,...], as in spec.nodeName=worker-1", selector)
	}
	a.FieldSelectorRequirements = s.Requirements()
	for _, r := range a.FieldSelectorRequirements {
		if r.Field == "metadata.name" && r.Operator == selection.Equals && a.Name == "" {
			a.Name = r.Value
		}
	}
	return nil
}

var verbs = []string{
	"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
	"approve", "attest", "bind", "escalate", "impersonate", "request-serviceaccounts-token-audience", "sign", "use",
}

var subresources = []string{
	"approval", "attach", "binding", "checkpoint", "configz", "driver", "ephemeralcontainers", "eviction", "exec", "finalize", "healthz", "log",
	"metrics", "pods", "portforward", "proxy", "resize", "scale", "spec", "stats", "status", "token",
}

type scope uint8

const (
	scopeUnknown scope = iota
	namespaced
	clusterWide
)

// resource is one that explain knows by several words.
type resource struct {
	group, plural, short string
	scope                scope
}

func (r resource) example() string {
	if r.scope == clusterWide {
		return "NAME"
	}
	return "NAMESPACE/NAME"
}

// resources are the core group's, and of others those that nodes ask for. Of two of one name the first is meant.
var resources = []resource{
	{"", "secrets", "secret", namespaced}, {"", "configmaps", "configmap cm", namespaced}, {"", "pods", "pod po", namespaced},
	{"", "serviceaccounts", "serviceaccount sa", namespaced}, {"", "persistentvolumeclaims", "persistentvolumeclaim pvc", namespaced},
	{"", "services", "service svc", namespaced}, {"", "events", "event ev", namespaced}, {"", "endpoints", "endpoint ep", namespaced},
	{"", "limitranges", "limitrange limits", namespaced}, {"", "resourcequotas", "resourcequota quota", namespaced},
	{"", "replicationcontrollers", "replicationcontroller rc", namespaced}, {"", "podtemplates", "podtemplate", namespaced},
	{"", "nodes", "node no", clusterWide}, {"", "persistentvolumes", "persistentvolume pv", clusterWide},
	{"", "namespaces", "namespace ns", scopeUnknown}, // requests about one name it as their namespace too
	{"", "componentstatuses", "componentstatus cs", clusterWide},
	{"storage.k8s.io", "volumeattachments", "volumeattachment", clusterWide}, {"storage.k8s.io", "csinodes", "csinode", clusterWide},
	{"storage.k8s.io", "csidrivers", "csidriver", clusterWide}, {"storage.k8s.io", "storageclasses", "storageclass sc", clusterWide},
	{"storage.k8s.io", "csistoragecapacities", "csistoragecapacity", namespaced},
	{"coordination.k8s.io", "leases", "lease", namespaced}, {"events.k8s.io", "events", "event ev", namespaced},
	{"resource.k8s.io", "resourceclaims", "resourceclaim", namespaced}, {"resource.k8s.io", "resourceslices", "resourceslice", clusterWide},
	{"resource.k8s.io", "deviceclasses", "deviceclass", clusterWide},
	{"certificates.k8s.io", "podcertificaterequests", "podcertificaterequest", namespaced},
	{"certificates.k8s.io", "certificatesigningrequests", "certificatesigningrequest csr", clusterWide},
	{"certificates.k8s.io", "clustertrustbundles", "clustertrustbundle", clusterWide},
	{"node.k8s.io", "runtimeclasses", "runtimeclass", clusterWide}, {"discovery.k8s.io", "endpointslices", "endpointslice", namespaced},
	{"authentication.k8s.io", "tokenreviews", "tokenreview", clusterWide},
	{"authorization.k8s.io", "subjectaccessreviews", "subjectaccessreview", clusterWide},
	{"authorization.k8s.io", "localsubjectaccessreviews", "localsubjectaccessreview", namespaced},
	{"authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectaccessreview", clusterWide},
	{"authorization.k8s.io", "selfsubjectrulesreviews", "selfsubjectrulesreview", clusterWide},
	{"rbac.authorization.k8s.io", "clusterroles", "clusterrole", clusterWide}, {"rbac.authorization.k8s.io", "roles", "role", namespaced},
	{"rbac.authorization.k8s.io", "clusterrolebindings", "clusterrolebinding", clusterWide},
	{"rbac.authorization.k8s.io", "rolebindings", "rolebinding", namespaced},
	{"apps", "deployments", "deployment deploy", namespaced}, {"apps", "daemonsets", "daemonset ds", namespaced},
	{"apps", "replicasets", "replicaset rs", namespaced}, {"apps", "statefulsets", "statefulset sts", namespaced},
	{"batch", "jobs", "job", namespaced}, {"batch", "cronjobs", "cronjob cj", namespaced},
}
