package nodeauthz

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const unrelated = "deny: no relationship found between node 'n1' and this object"

// featuresWith returns a version's defaults with some gates set, which the version must take.
// newest is an authorizer of the newest version.
func newest(g *Graph) *Authorizer { return NewAuthorizer(g, defaults(NewestMinor, NewestMinor), 0) }

func featuresWith(t testing.TB, version string, gates map[string]bool) Features {
	t.Helper()
	f, err := FeaturesFor(version)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range gates {
		if err := f.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return f
}

// namedSince37 puts the authorizer's name before the reason in an answer's words, as Kubernetes does since 1.37.
func namedSince37(f Features, words string) string {
	if verdict, reason, ok := strings.Cut(words, ": "); ok && f.Minor >= 37 {
		return verdict + ": node: " + reason
	}
	return words
}

// asker returns a function that holds n1's requests over someOfEach against the answers they should have.
func asker(t *testing.T, f Features) func(text, want string) {
	a := NewAuthorizer(someOfEach(), f, 0)
	return func(text, want string) {
		t.Helper()
		if got, want := a.Decide(ask(t, "n1", text), at(0)).words(), namedSince37(f, want); got != want {
			t.Errorf("%s: %s\n got %q\nwant %q", f.Version(), text, got, want)
		}
	}
}

// eachVersion runs the same requests under the defaults of all versions.
func eachVersion(t *testing.T, run func(f func(text, want string))) {
	eachMinor(t, func(_ int, f func(text, want string)) { run(f) })
}

func eachMinor(t *testing.T, run func(minor int, f func(text, want string))) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		version := fmt.Sprintf("1.%d", minor)
		t.Run(version, func(t *testing.T) { run(minor, asker(t, featuresWith(t, version, nil))) })
	}
}

func TestSecretsAndConfigMaps(t *testing.T) {
	eachVersion(t, func(f func(text, want string)) {
		for resource, own := range map[string]string{"secrets": "db", "configmaps": "cfg"} {
			for _, verb := range []string{"get", "list", "watch"} {
				f(verb+" "+resource+" shop/"+own, "allow")
				f(verb+" "+resource+" shop/theirs", unrelated)
				f(verb+" "+resource+" other/"+own, unrelated)
				f(verb+" "+resource+"/status shop/"+own, "deny: cannot read subresource")
				f(verb+" "+resource+" "+own, "deny: can only read namespaced object of this type")
				f(verb+" "+resource, "deny: can only read namespaced object of this type")
				f(verb+" "+resource+" shop/-", "deny: No Object name found")
			}
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection", "impersonate", "GET", "*"} {
				f(verb+" "+resource+" shop/"+own, "deny: can only read resources of this type")
				f(verb+" "+resource+"/status", "deny: can only read resources of this type")
			}
			f("get apps:"+resource+" shop/"+own, "deny")
		}
		f("get configmaps shop/db", unrelated)
		f("get secrets storage/csi", "allow")
		f("get secrets shop/csi", unrelated)
	})
}

func TestVolumesAndClaims(t *testing.T) {
	const individual = "deny: can only get individual resources of this type"
	eachVersion(t, func(f func(text, want string)) {
		for resource, own := range map[string]string{
			"persistentvolumeclaims":           "shop/data",
			"persistentvolumes":                "pv",
			"resource.k8s.io:resourceclaims":   "shop/gpu",
			"storage.k8s.io:volumeattachments": "va",
		} {
			f("get "+resource+" "+own, "allow")
			f("get "+resource+" "+own+"-2", unrelated)
			f("get "+resource, "deny: No Object name found")
			f("get "+resource+"/scale "+own, "deny: cannot get subresource")
			for _, verb := range []string{"list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
				f(verb+" "+resource+" "+own, individual)
				f(verb+" "+resource+"/scale "+own, individual)
			}
		}
		// The graph knows objects without a namespace by none.
		f("get persistentvolumes shop/pv", unrelated)
		f("get storage.k8s.io:volumeattachments shop/va", unrelated)

		f("update persistentvolumeclaims/status shop/data", "allow")
		f("patch persistentvolumeclaims/status shop/data", "allow")
		f("patch persistentvolumeclaims/status shop/theirs", unrelated)
		f("patch persistentvolumeclaims/status shop/-", "deny: No Object name found")
		for _, verb := range []string{"get", "list", "watch", "create", "delete", "deletecollection"} {
			f(verb+" persistentvolumeclaims/status shop/data", "deny: can only get/update/patch this type")
		}
		f("update persistentvolumes/status pv", individual)
		f("get apps:persistentvolumes pv", "deny")
		f("get resourceclaims shop/gpu", "deny")
		f("get volumeattachments va", "deny")
	})
}

func TestServiceAccounts(t *testing.T) {
	const tokens = "deny: can only create tokens for individual service accounts"
	both := func(f func(text, want string)) {
		t.Helper()
		f("create serviceaccounts/token shop/web", "allow")
		f("create serviceaccounts/token shop/theirs", unrelated)
		f("create serviceaccounts/token web", unrelated)
		f("create serviceaccounts/token shop/-", tokens)
		f("create serviceaccounts shop/web", "deny: can only create token subresource of serviceaccount")
		f("create serviceaccounts/status shop/web", "deny: can only create token subresource of serviceaccount")
		for _, verb := range []string{"list", "watch", "update", "patch", "delete", "deletecollection"} {
			f(verb+" serviceaccounts shop/web", tokens)
			f(verb+" serviceaccounts/token shop/web", tokens)
		}
		f("get serviceaccounts/token shop/web", tokens)
		f("get apps:serviceaccounts shop/web", "deny")
	}
	const gate, certificates = "KubeletServiceAccountTokenForCredentialProviders", "PodCertificateRequest"
	for _, c := range []struct {
		version string
		gates   map[string]bool
		get     bool
	}{
		{"1.28", nil, false},
		{"1.32", nil, false},
		{"1.33", nil, false},
		{"1.33", map[string]bool{gate: true}, true},
		{"1.34", nil, true},
		{"1.34", map[string]bool{gate: false}, false},
		{"1.37", map[string]bool{gate: false}, true}, // for pod certificates
		{"1.37", map[string]bool{gate: false, certificates: false}, false},
		{"1.34", map[string]bool{gate: false, certificates: true}, true},
		{"1.35", map[string]bool{gate: false}, false},
		{"1.36", nil, true},
		{"1.36", map[string]bool{gate: false, certificates: true}, true},
	} {
		f := asker(t, featuresWith(t, c.version, c.gates))
		both(f)
		if !c.get {
			refused := "deny: not allowed to get service accounts"
			if c.version < "1.33" {
				refused = tokens
			}
			f("get serviceaccounts shop/web", refused)
			f("get serviceaccounts", refused)
			continue
		}
		f("get serviceaccounts shop/web", "allow")
		f("get serviceaccounts shop/theirs", unrelated)
		f("get serviceaccounts web", "deny: can only read namespaced object of this type")
		f("get serviceaccounts shop/-", "deny: No Object name found")
	}
}

func TestLeasesAndCSINodes(t *testing.T) {
	eachMinor(t, func(minor int, f func(text, want string)) {
		status, statusList := "deny: cannot authorize CSINode subresources", "deny: can only get, create, update, patch, or delete a CSINode"
		if minor >= 37 {
			status, statusList = "deny: CSINode status access requires CSIVolumeHealth feature", "deny: CSINode status access requires CSIVolumeHealth feature"
		}
		const leases, csi = "coordination.k8s.io:leases", "storage.k8s.io:csinodes"
		for _, verb := range []string{"get", "update", "patch", "delete"} {
			f(verb+" "+leases+" kube-node-lease/n1", "allow")
			f(verb+" "+leases+" kube-node-lease/n2", "deny: can only access node lease with the same name as the requesting node")
			f(verb+" "+leases+" kube-node-lease/-", "deny: can only access node lease with the same name as the requesting node")
			f(verb+" "+leases+" kube-system/n1", `deny: can only access leases in the "kube-node-lease" system namespace`)
			f(verb+" "+leases, `deny: can only access leases in the "kube-node-lease" system namespace`)
			f(verb+" "+csi+" n1", "allow")
			f(verb+" "+csi+" n2", "deny: can only access CSINode with the same name as the requesting node")
			f(verb+" "+csi, "deny: can only access CSINode with the same name as the requesting node")
			f(verb+" "+csi+"/status n1", status)
			f(verb+" "+csi+"/scale n1", "deny: cannot authorize CSINode subresources")
		}
		f("create "+leases+" kube-node-lease/-", "allow")
		f("create "+leases+" kube-node-lease/n2", "allow")
		f("create "+leases+" default/n1", `deny: can only access leases in the "kube-node-lease" system namespace`)
		f("update "+leases+"/status kube-node-lease/n1", "allow") // the reference does not look at it
		f("create "+csi+" n2", "allow")
		f("create "+csi+"/status n1", status)
		for _, verb := range []string{"list", "watch", "deletecollection", "bind"} {
			f(verb+" "+leases+" kube-node-lease/n1", "deny: can only get, create, update, patch, or delete a node lease")
			f(verb+" "+csi+" n1", "deny: can only get, create, update, patch, or delete a CSINode")
			f(verb+" "+csi+"/status n1", statusList)
			if minor < 37 {
				f(verb+" "+csi+"/scale n1", statusList)
			} else {
				f(verb+" "+csi+"/scale n1", "deny: cannot authorize CSINode subresources")
			}
		}
		f("get leases kube-node-lease/n1", "deny")
		f("get csinodes n1", "deny")
	})
}

func TestResourceSlices(t *testing.T) {
	const slices = " resource.k8s.io:resourceslices"
	const field = "deny: can only list/watch/deletecollection resourceslices with nodeName field selector"
	common := func(f func(text, want string)) {
		t.Helper()
		f("create"+slices, "allow")
		f("create"+slices+"/status slice", "deny: cannot authorize ResourceSlice subresources")
		f("impersonate"+slices, "deny: only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection")
		f("get"+slices, "deny: No Object name found")
		f("get resourceslices slice", "deny")
		for _, verb := range []string{"get", "update", "patch", "delete"} {
			f(verb+slices+" slice-2", unrelated)
			f(verb+slices+" shop/slice", unrelated)
		}
		for _, verb := range []string{"list", "watch", "deletecollection"} {
			f(verb+slices+" - spec.nodeName=n1", "allow")
		}
	}
	for _, c := range []struct {
		version       string
		gates         map[string]bool
		edges, fields bool
	}{
		{"1.33", nil, false, true}, // no informer of slices feeds the graph without the gate
		{"1.33", map[string]bool{"DynamicResourceAllocation": true}, true, true},
		{"1.33", map[string]bool{"DynamicResourceAllocation": true, "AuthorizeNodeWithSelectors": false}, true, false},
		{"1.34", nil, true, true},
		{"1.34", map[string]bool{"DynamicResourceAllocation": false}, false, true},
		{"1.35", nil, true, true},
		{"1.36", nil, true, true},
	} {
		f := asker(t, featuresWith(t, c.version, c.gates))
		common(f)
		own, unscoped := unrelated, field
		if c.edges {
			own = "allow"
		}
		if !c.fields {
			unscoped = "allow"
		}
		for _, verb := range []string{"get", "update", "patch", "delete"} {
			f(verb+slices+" slice", own)
		}
		for _, verb := range []string{"list", "watch", "deletecollection"} {
			f(verb+slices, unscoped)
			f(verb+slices+" - spec.nodeName=n2", unscoped)
			f(verb+slices+" - spec.nodeName!=n1", unscoped)
			f(verb+slices+" - metadata.name=n1", unscoped)
			f(verb+slices+" slice", unscoped)
		}
	}
}

func TestPodCertificateRequests(t *testing.T) {
	const requests = " certificates.k8s.io:podcertificaterequests"
	on := map[string]bool{"PodCertificateRequest": true}
	for _, version := range []string{"1.34", "1.35", "1.36", "1.37"} {
		f := asker(t, featuresWith(t, version, on))
		f("create"+requests+" shop/-", "allow")
		f("get"+requests+" shop/pcr", "allow")
		f("get"+requests+" shop/pcr-2", unrelated)
		f("get"+requests+" pcr", unrelated)
		f("get"+requests+" shop/-", "deny: No Object name found")
		f("get"+requests+"/status shop/pcr", "deny: nodes may not access the status subresource of PodCertificateRequests")
		f("create"+requests+"/x shop/pcr", "deny: nodes may not access the status subresource of PodCertificateRequests")
		for _, verb := range []string{"list", "watch"} {
			f(verb+requests+" - spec.nodeName=n1", "allow")
			f(verb+requests+" - spec.nodeName=n2", "deny: can only list/watch podcertificaterequests with nodeName field selector")
			f(verb+requests+" shop/pcr", "deny: can only list/watch podcertificaterequests with nodeName field selector")
		}
		for _, verb := range []string{"update", "patch", "delete", "deletecollection", "sign"} {
			f(verb+requests+" shop/pcr", "deny: nodes may not "+verb+" podcertificaterequests")
		}
		f("get podcertificaterequests shop/pcr", "deny")
	}
	off := map[string]bool{}
	eachMinor(t, func(minor int, f func(text, want string)) {
		if minor >= 37 {
			off["PodCertificateRequest"] = false
			f = asker(t, featuresWith(t, fmt.Sprintf("1.%d", minor), off))
		}
		for _, verb := range []string{"get", "list", "watch", "create", "delete"} {
			f(verb+requests+" shop/pcr", "deny")
			f(verb+requests+"/status shop/pcr", "deny")
		}
	})
}

func TestNodesAndPodsWithSelectors(t *testing.T) {
	eachMinor(t, func(minor int, f func(text, want string)) {
		switch {
		case minor < 31:
			return
		case minor == 31:
			f = asker(t, featuresWith(t, "1.31", map[string]bool{"AuthorizeWithSelectors": true, "AuthorizeNodeWithSelectors": true}))
		}
		for _, verb := range []string{"get", "list", "watch"} {
			f(verb+" nodes n1", "allow")
			f(verb+" nodes n2", "deny: node 'n1' cannot read 'n2', only its own Node object")
			f(verb+" nodes", "deny: node 'n1' cannot read all nodes, only its own Node object")
			f(verb+" nodes/status n1", "deny")
			f(verb+" nodes/proxy n1", "deny")
		}
		for _, verb := range []string{"create", "update", "patch"} {
			f(verb+" nodes", "allow")
			f(verb+" nodes n2", "allow")
		}
		f("update nodes/status n2", "allow")
		f("patch nodes/status n1", "allow")
		f("create nodes/status n1", "deny")
		f("delete nodes n1", "deny")
		f("deletecollection nodes", "deny")
		f("get apps:nodes n1", "deny")

		f("get pods shop/web-1", "allow")
		f("get pods shop/web-2", unrelated)
		f("get pods shop/-", "deny: No Object name found")
		for _, verb := range []string{"list", "watch"} {
			f(verb+" pods - spec.nodeName=n1", "allow")
			f(verb+" pods shop/- spec.nodeName=n1,status.phase!=Failed", "allow")
			f(verb+" pods shop/web-2 spec.nodeName=n1", "allow")
			f(verb+" pods - spec.nodeName!=n1", "deny: can only list/watch pods with spec.nodeName field selector")
			f(verb+" pods - spec.nodeName=n2", "deny: can only list/watch pods with spec.nodeName field selector")
			f(verb+" pods", "deny: can only list/watch pods with spec.nodeName field selector")
			f(verb+" pods shop/web-1", "allow")
			f(verb+" pods shop/web-2", unrelated)
		}
		for _, verb := range []string{"create", "delete"} {
			f(verb+" pods shop/web-2", "allow")
		}
		f("update pods/status shop/web-2", "allow")
		f("patch pods/status shop/web-2", "allow")
		f("create pods/eviction shop/web-2", "allow")
		for _, text := range []string{
			"update pods", "patch pods", "deletecollection pods", "get pods/status", "create pods/status", "delete pods/eviction",
			"get pods/log", "create pods/exec", "create pods/binding", "patch pods/ephemeralcontainers", "get apps:pods",
		} {
			f(text+" shop/web-1", "deny")
		}
	})
}

// A selector counts by a requirement that the field equal the node's name, wherever it stands; the error of others does not matter.
func TestSelectorRequirements(t *testing.T) {
	a := authorizerOver(t, someOfEach(), 0)
	f := func(want string, err error, requirements ...fields.Requirement) {
		t.Helper()
		r := ask(t, "n1", "list pods")
		r.FieldSelectorRequirements, r.FieldSelectorParsingErr = requirements, err
		if got := a.Decide(r, at(0)).Verdict.String(); got != want {
			t.Errorf("%v: %s, want %s", requirements, got, want)
		}
	}
	own := fields.Requirement{Field: "spec.nodeName", Operator: selection.Equals, Value: "n1"}
	other := fields.Requirement{Field: "spec.nodeName", Operator: selection.Equals, Value: "n2"}
	double := fields.Requirement{Field: "spec.nodeName", Operator: selection.DoubleEquals, Value: "n1"}
	f("deny", nil)
	f("allow", nil, own)
	f("allow", nil, other, own)
	f("allow", fmt.Errorf("the rest is no selector"), own)
	f("deny", nil, other)
	f("deny", nil, double) // fields.ParseSelector makes no such operator
	f("deny", nil, fields.Requirement{Field: "nodeName", Operator: selection.Equals, Value: "n1"})
}

func TestNonResourceRequests(t *testing.T) {
	a := authorizerOver(t, someOfEach(), 0)
	r := &authorizer.AttributesRecord{User: request("n1", "", "", "", "").User, Verb: "get", Path: "/healthz", Resource: "secrets",
		Namespace: "shop", Name: "db"}
	if got := a.Decide(r, at(0)).words(); got != "deny" {
		t.Errorf("got %q", got)
	}
}
