package nodeauthz

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestVersions(t *testing.T) {
	f := func(version string, minor int) {
		t.Helper()
		got, err := FeaturesFor(version)
		if err != nil || got.Minor != minor {
			t.Errorf("%q: minor %d, %v; want %d", version, got.Minor, err, minor)
		}
	}
	f("", NewestMinor)
	f("v1.28.15-eks-1a2b3c", 28)
	f("1.33", 33)
	f("v1.34", 34)
	f("1.35.4", 35)
	f("v1.36.0-rc.1+k3s1", 36)
	f("1.36+", 36) // what the minor of EKS and GKE reads like in kubectl version
	f("1.36-gke.100", 36)

	bad := func(version, want string) {
		t.Helper()
		got, err := FeaturesFor(version)
		if err == nil || err.Error() != want || got != (Features{}) {
			t.Errorf("%q: %+v, %v; want the error %s", version, got, err, want)
		}
	}
	for _, version := range []string{"1", "1.", "v1", "1..36", "36", "2.36", "1.x", "1.36x", "1.36.x", "1.36.3.4", "1.36.3 eks", "1.36.3-eks\n", "1.036", "1.-36", "2.0", " 1.36", "1.36 ", "vv1.36", "latest", "1.3\x006",
		"1.99999999999999999999999"} {
		bad(version, fmt.Sprintf("%q is not a Kubernetes version such as 1.%d", version, NewestMinor))
	}
	for _, minor := range []int{0, OldestMinor - 1, NewestMinor + 1} {
		bad(fmt.Sprintf("v1.%d.1", minor), fmt.Sprintf("kubernetes 1.%d is not supported: 1.28 to 1.%d are", minor, NewestMinor))
	}
}

func TestNearest(t *testing.T) {
	for version, want := range map[string]struct {
		minor int
		exact bool
	}{"1.27": {28, false}, "v1.5.2": {28, false}, "1.28.0": {28, true}, "1.33": {33, true}, "v1.37.1": {37, true}, "1.99": {NewestMinor, false}} {
		f, exact, err := Nearest(version)
		if err != nil || f != defaults(want.minor, want.minor) || exact != want.exact {
			t.Errorf("%s: %s, exact %t, %v; want %+v", version, f.Version(), exact, err, want)
		}
	}
	for _, version := range []string{"", "1", "latest", "2.0"} {
		if _, _, err := Nearest(version); err == nil {
			t.Errorf("%q is taken for a version", version)
		}
	}
}

// An API server that emulates an older version has that one's gates, open where its own are locked, and its own code.
func TestEmulating(t *testing.T) {
	own := featuresWith(t, "1.36", nil)
	f, err := own.Emulating("1.33")
	if err != nil {
		t.Fatal(err)
	}
	if f.Minor != 36 || f.Emulated != 33 || f.Version() != "1.36 emulating 1.33" || len(f.NonDefault()) != 0 {
		t.Errorf("%+v, %s", f, f.Version())
	}
	if f.DynamicResourceAllocation || f.KubeletServiceAccountTokenForCredentialProviders || !f.AuthorizeNodeWithSelectors {
		t.Errorf("not the gates of 1.33: %+v", f)
	}
	if err := f.Set("AuthorizeNodeWithSelectors", false); err != nil {
		t.Errorf("locked in 1.34, open in 1.33: %v", err)
	}
	if err := f.Set("PodCertificateRequest", true); err == nil {
		t.Error("1.33 has the gate of 1.34")
	}
	if !newStaticRules(f).allow(ask(t, "n1", "create events.k8s.io:events default/-")) {
		t.Error("the rules are not those of 1.36")
	}
	f, err = featuresWith(t, "1.37", nil).Emulating("v1.36.2")
	if err != nil || !f.AuthorizeNodeWithSelectors || f.PodCertificateRequest || f.ClusterTrustBundle {
		t.Errorf("1.37 emulating 1.36: %+v, %v", f, err)
	}
	if err := f.Set("AuthorizeNodeWithSelectors", true); err == nil {
		t.Error("a gate that is gone can be set")
	}
	f, err = featuresWith(t, "1.37", nil).Emulating("1.37")
	if err != nil || f != featuresWith(t, "1.37", nil) {
		t.Errorf("its own version: %+v, %v", f, err)
	}
	for _, c := range [][2]string{{"1.36", "1.37"}, {"1.36", "1.32"}, {"1.32", "1.30"}, {"1.30", "1.29"}, {"1.37", "x"}} {
		if f, err := featuresWith(t, c[0], nil).Emulating(c[1]); err == nil {
			t.Errorf("%s emulates %s: %+v", c[0], c[1], f)
		}
	}
}

func TestCutAuthorizer(t *testing.T) {
	for reason, want := range map[string][2]string{
		"": {"", ""}, "node: can only x": {"node", "can only x"}, "rbac: RBAC: clusterrole x": {"rbac", "RBAC: clusterrole x"},
		"RBAC: allowed by y": {"", "RBAC: allowed by y"}, "my-node.example.com: x": {"my-node.example.com", "x"},
		"node 'n1' cannot read: x": {"", "node 'n1' cannot read: x"}, `unknown node for user "system:node: x"`: {"", `unknown node for user "system:node: x"`},
		": x": {"", ": x"}, "node:x": {"", "node:x"},
	} {
		if name, rest := CutAuthorizer(reason); [2]string{name, rest} != want {
			t.Errorf("%q: %q, %q", reason, name, rest)
		}
	}
}

func TestDefaults(t *testing.T) {
	const (
		selectors, nodeSelectors = "AuthorizeWithSelectors", "AuthorizeNodeWithSelectors"
		tokens, dra              = "KubeletServiceAccountTokenForCredentialProviders", "DynamicResourceAllocation"
	)
	for version, want := range map[string][]string{
		"1.28": nil,
		"1.30": nil,
		"1.31": nil,
		"1.32": {selectors, nodeSelectors},
		"1.33": {selectors, nodeSelectors},
		"1.34": {selectors, nodeSelectors, tokens, dra},
		"1.35": {selectors, nodeSelectors, tokens, dra},
		"1.36": {selectors, nodeSelectors, tokens, dra},
		"1.37": {selectors, nodeSelectors, tokens, dra, "PodCertificateRequest", "ClusterTrustBundle"},
	} {
		f := featuresWith(t, version, nil)
		on := map[string]bool{}
		for _, g := range gates() {
			on[g.name] = *g.field(&f)
		}
		expected := map[string]bool{selectors: false, nodeSelectors: false, tokens: false, dra: false, "PodCertificateRequest": false,
			"ClusterTrustBundle": false, "CSIVolumeHealth": false}
		for _, name := range want {
			expected[name] = true
		}
		if diff := cmp.Diff(expected, on); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
		if f.Version() != version || len(f.NonDefault()) != 0 {
			t.Errorf("%s calls itself %s and has %v set", version, f.Version(), f.NonDefault())
		}
	}
}

func TestSetGates(t *testing.T) {
	f := func(version, gate string, value bool, want string) {
		t.Helper()
		features := featuresWith(t, version, nil)
		before := features
		err := features.Set(gate, value)
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s %s=%t: %s, want %s", version, gate, value, got, want)
		}
		if err != nil && features != before {
			t.Errorf("%s %s=%t was refused and changed %+v to %+v", version, gate, value, before, features)
		}
		for _, g := range gates() {
			if g.name == gate && err == nil && *g.field(&features) != value {
				t.Errorf("%s %s=%t had no effect", version, gate, value)
			}
		}
	}
	const ok = "<nil>"
	f("1.30", "AuthorizeWithSelectors", false, "kubernetes 1.30 has no feature gate AuthorizeWithSelectors")
	f("1.31", "AuthorizeNodeWithSelectors", true, ok)
	f("1.33", "AuthorizeWithSelectors", false, ok)
	f("1.33", "AuthorizeNodeWithSelectors", false, ok)
	f("1.33", "KubeletServiceAccountTokenForCredentialProviders", true, ok)
	f("1.33", "DynamicResourceAllocation", true, ok)
	f("1.33", "ClusterTrustBundle", true, ok)
	f("1.33", "PodCertificateRequest", true, "kubernetes 1.33 has no feature gate PodCertificateRequest")
	f("1.33", "PodCertificateRequest", false, "kubernetes 1.33 has no feature gate PodCertificateRequest")
	for _, version := range []string{"1.34", "1.35", "1.36"} {
		for _, gate := range []string{"AuthorizeWithSelectors", "AuthorizeNodeWithSelectors"} {
			f(version, gate, true, ok)
			f(version, gate, false, "feature gate "+gate+" is locked to true in Kubernetes "+version)
		}
		f(version, "KubeletServiceAccountTokenForCredentialProviders", false, ok)
		f(version, "PodCertificateRequest", true, ok)
		f(version, "ClusterTrustBundle", true, ok)
	}
	f("1.34", "DynamicResourceAllocation", false, ok)
	f("1.35", "DynamicResourceAllocation", false, "feature gate DynamicResourceAllocation is locked to true in Kubernetes 1.35")
	f("1.36", "DynamicResourceAllocation", true, ok)
	f("1.36", "DynamicResourceAllocation", false, "feature gate DynamicResourceAllocation is locked to true in Kubernetes 1.36")
	all := strings.Join(GateNames(), ", ")
	for _, gate := range []string{"SidecarContainers", "podcertificaterequest", "", "AllAlpha", "a\nb"} {
		f("1.36", gate, true, fmt.Sprintf("feature gate %q does not bear on node authorization; those that do are %s", gate, all))
	}
	for _, gate := range []string{"AuthorizeWithSelectors", "AuthorizeNodeWithSelectors"} {
		f("1.37", gate, true, "kubernetes 1.37 has no feature gate "+gate)
	}
	f("1.37", "CSIVolumeHealth", true, ok)
	f("1.36", "CSIVolumeHealth", true, "feature gate CSIVolumeHealth does not bear on node authorization in Kubernetes 1.36")
	if want := "AuthorizeNodeWithSelectors, AuthorizeWithSelectors, CSIVolumeHealth, ClusterTrustBundle, DynamicResourceAllocation, " +
		"KubeletServiceAccountTokenForCredentialProviders, PodCertificateRequest"; all != want {
		t.Errorf("the gates are %s", all)
	}
}

func TestNonDefault(t *testing.T) {
	f := featuresWith(t, "1.34", map[string]bool{"DynamicResourceAllocation": false, "ClusterTrustBundle": true, "PodCertificateRequest": false})
	want := map[string]bool{"DynamicResourceAllocation": false, "ClusterTrustBundle": true}
	if diff := cmp.Diff(want, f.NonDefault()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	f := func(features Features, want string) {
		t.Helper()
		if got := fmt.Sprint(features.Validate()); got != want {
			t.Errorf("%+v: %s, want %s", features, got, want)
		}
	}
	const certificates = "feature gate PodCertificateRequest needs AuthorizeNodeWithSelectors"
	f(Features{Minor: 33}, "<nil>")
	f(Features{Minor: 33, AuthorizeWithSelectors: true}, "<nil>")
	f(Features{Minor: 33, AuthorizeWithSelectors: true, AuthorizeNodeWithSelectors: true}, "<nil>")
	f(Features{Minor: 33, AuthorizeNodeWithSelectors: true}, "feature gate AuthorizeNodeWithSelectors needs AuthorizeWithSelectors")
	f(Features{Minor: 34, PodCertificateRequest: true}, "<nil>") // the dependency is declared since 1.35
	f(Features{Minor: 35, PodCertificateRequest: true}, certificates)
	f(Features{Minor: 36, PodCertificateRequest: true}, certificates)
	f(featuresWith(t, "1.37", nil), "<nil>")
	f(Features{Minor: 36, PodCertificateRequest: true, AuthorizeWithSelectors: true, AuthorizeNodeWithSelectors: true}, "<nil>")
}

// staticAllows are the node rules, each as "VERBS [GROUP:]RESOURCE[/SUBRESOURCE]…", with what decides whether there is one.
func staticAllows(f Features) []string {
	const read, write = "get,list,watch", "create,update,patch"
	rules := []string{
		read + " services pods secrets configmaps nodes storage.k8s.io:csidrivers node.k8s.io:runtimeclasses certificates.k8s.io:certificatesigningrequests",
		write + " events nodes coordination.k8s.io:leases storage.k8s.io:csinodes",
		"update,patch nodes/status pods/status persistentvolumeclaims/status",
		"get persistentvolumeclaims persistentvolumeclaims/status persistentvolumes endpoints storage.k8s.io:volumeattachments",
		"get,delete coordination.k8s.io:leases storage.k8s.io:csinodes",
		"create,delete pods",
		"create pods/eviction serviceaccounts/token certificates.k8s.io:certificatesigningrequests authentication.k8s.io:tokenreviews",
		"create authorization.k8s.io:subjectaccessreviews authorization.k8s.io:localsubjectaccessreviews",
	}
	if f.Minor >= 35 {
		rules = append(rules, write+" events.k8s.io:events")
	}
	if f.DynamicResourceAllocation {
		rules = append(rules, "get resource.k8s.io:resourceclaims")
		if f.Minor >= 31 {
			rules = append(rules, "deletecollection resource.k8s.io:resourceslices")
		}
	}
	if f.ClusterTrustBundle {
		rules = append(rules, read+" certificates.k8s.io:clustertrustbundles")
	}
	if f.KubeletServiceAccountTokenForCredentialProviders {
		rules = append(rules, "get serviceaccounts")
	}
	if f.PodCertificateRequest {
		rules = append(rules, read+",create certificates.k8s.io:podcertificaterequests")
	}
	if f.CSIVolumeHealth {
		rules = append(rules, "get,update,patch storage.k8s.io:csinodes/status")
	}
	return rules
}

var (
	allVerbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection",
		"*", "GET", "proxy", "impersonate", "bind", "escalate", "sign", "approve", "use"}
	// nearMisses are no rule's, in any version.
	nearMisses = []string{
		"*", "*:*", "*/*", "bindings", "namespaces", "replicationcontrollers", "limitranges", "services/status", "services/proxy", "nodes/proxy",
		"nodes/log", "events/status", "pods/log", "pods/exec", "pods/binding", "pods/ephemeralcontainers", "pods/resize", "secrets/status",
		"persistentvolumes/status", "endpoints/status", "serviceaccounts/status", "extensions:pods", "apps:secrets", "core:nodes", "v1:pods",
		"leases", "csinodes", "csidrivers", "runtimeclasses", "tokenreviews", "events.k8s.io:pods", "coordination.k8s.io:leases/status",
		"storage.k8s.io:storageclasses", "storage.k8s.io:csistoragecapacities", "storage.k8s.io:volumeattachments/status",
		"certificates.k8s.io:certificatesigningrequests/approval", "certificates.k8s.io:certificatesigningrequests/status",
		"certificates.k8s.io:podcertificaterequests/status", "resource.k8s.io:resourceclaims/status", "resource.k8s.io:deviceclasses",
		"resource.k8s.io:resourceclaimtemplates", "authorization.k8s.io:selfsubjectaccessreviews", "discovery.k8s.io:endpointslices",
		"rbac.authorization.k8s.io:clusterroles", "Pods", "pod",
	}
	// sometimes are resources of rules that not every version and gate has.
	sometimes = []string{"events.k8s.io:events", "resource.k8s.io:resourceclaims", "resource.k8s.io:resourceslices",
		"certificates.k8s.io:clustertrustbundles", "serviceaccounts", "certificates.k8s.io:podcertificaterequests", "storage.k8s.io:csinodes/status"}
)

func TestStaticRules(t *testing.T) {
	for _, c := range []struct {
		version string
		gates   map[string]bool
	}{
		{"1.28", nil}, {"1.29", nil}, {"1.30", nil}, {"1.31", nil}, {"1.32", nil}, {"1.33", nil}, {"1.34", nil}, {"1.35", nil}, {"1.36", nil}, {"1.37", nil},
		{"1.28", map[string]bool{"DynamicResourceAllocation": true, "ClusterTrustBundle": true}},
		{"1.31", map[string]bool{"DynamicResourceAllocation": true}},
		{"1.37", map[string]bool{"CSIVolumeHealth": true, "PodCertificateRequest": false}},
		{"1.33", map[string]bool{"DynamicResourceAllocation": true, "ClusterTrustBundle": true}},
		{"1.33", map[string]bool{"KubeletServiceAccountTokenForCredentialProviders": true}},
		{"1.34", map[string]bool{"DynamicResourceAllocation": false, "PodCertificateRequest": true}},
		{"1.36", map[string]bool{"PodCertificateRequest": true, "ClusterTrustBundle": true}},
		{"1.36", map[string]bool{"KubeletServiceAccountTokenForCredentialProviders": false}},
	} {
		f := featuresWith(t, c.version, c.gates)
		rules := newStaticRules(f)
		allowed := map[string]bool{}
		resources := map[string]bool{}
		for _, name := range append(append([]string{}, nearMisses...), sometimes...) {
			resources[name] = true
		}
		for _, rule := range staticAllows(f) {
			words := strings.Fields(rule)
			for _, resource := range words[1:] {
				resources[resource] = true
				for _, verb := range strings.Split(words[0], ",") {
					allowed[verb+" "+resource] = true
				}
			}
		}
		for resource := range resources {
			for _, verb := range allVerbs {
				text := verb + " " + resource
				if got := rules.allow(ask(t, "n1", text)); got != allowed[text] {
					t.Errorf("%s %v: %s: %t, want %t", c.version, c.gates, text, got, allowed[text])
				}
				r := ask(t, "n1", text)
				r.ResourceRequest = false
				if rules.allow(r) {
					t.Errorf("%s %v: %s is allowed to a request for no resource", c.version, c.gates, text)
				}
			}
		}
	}
}

// What no branch of the reference's switch takes up, its static rules answer: through Decide, and before the graph covers anything.
func TestStaticAnswersNeedNoState(t *testing.T) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		f := featuresWith(t, fmt.Sprintf("1.%d", minor), nil)
		a := NewAuthorizer(NewGraph(), f, 0)
		ask := func(text, want string) {
			t.Helper()
			if got, want := a.Decide(ask(t, "n1", text), at(0)).words(), namedSince37(f, want); got != want {
				t.Errorf("%s: %s: %q, want %q", f.Version(), text, got, want)
			}
		}
		ask("create events default/-", "allow")
		ask("patch events default/x", "allow")
		ask("get events default/x", "deny")
		ask("list services", "allow")
		ask("get endpoints default/glusterfs", "allow")
		ask("watch storage.k8s.io:csidrivers", "allow")
		ask("list node.k8s.io:runtimeclasses", "allow")
		ask("create certificates.k8s.io:certificatesigningrequests", "allow")
		ask("create authorization.k8s.io:subjectaccessreviews", "allow")
		ask("get apps:deployments default/x", "deny")
		bundles := "deny"
		if minor >= 37 {
			bundles = "allow"
		}
		ask("get certificates.k8s.io:clustertrustbundles", bundles)
		byVersion := "deny"
		if minor >= 35 {
			byVersion = "allow"
		}
		ask("create events.k8s.io:events default/-", byVersion)
		ask("get secrets shop/db", "unknown: no relationship found between node 'n1' and this object")
	}
}
