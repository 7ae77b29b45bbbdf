package nodeauthz

import "testing"

func TestCSINodeStatus(t *testing.T) {
	const csi = " storage.k8s.io:csinodes/status"
	f := asker(t, featuresWith(t, "1.37", map[string]bool{"CSIVolumeHealth": true}))
	for _, verb := range []string{"get", "update", "patch"} {
		f(verb+csi+" n1", "allow")
		f(verb+csi+" n2", "deny: can only access CSINode with the same name as the requesting node")
	}
	for _, verb := range []string{"create", "delete", "list", "watch", "deletecollection"} {
		f(verb+csi+" n1", "deny: can only get, update, or patch CSINode status")
	}
	f("get storage.k8s.io:csinodes/scale n1", "deny: cannot authorize CSINode subresources")
}

// Slices are unknown to the reference before 1.30, and 1.30 has a code of its own.
func TestOldResourceSlices(t *testing.T) {
	const slices = " resource.k8s.io:resourceslices"
	on := map[string]bool{"DynamicResourceAllocation": true}
	for _, version := range []string{"1.28", "1.29"} {
		f := asker(t, featuresWith(t, version, on))
		for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"} {
			f(verb+slices+" slice", "deny")
			f(verb+slices+" - spec.nodeName=n1", "deny")
		}
	}
	f := asker(t, featuresWith(t, "1.30", on))
	for _, verb := range []string{"get", "update", "patch", "delete"} {
		f(verb+slices+" slice", "allow")
		f(verb+slices+" slice-2", unrelated)
	}
	for _, verb := range []string{"create", "list", "watch"} {
		f(verb+slices, "allow")
		f(verb+slices+"/status", "deny: cannot authorize ResourceSlice subresources")
	}
	f("deletecollection"+slices, "deny: can only get, create, update, patch, or delete a ResourceSlice")
	f("deletecollection"+slices+"/status", "deny: cannot authorize ResourceSlice subresources")
	f = asker(t, featuresWith(t, "1.30", nil))
	f("get"+slices+" slice", unrelated)
	f("list"+slices, "allow")
}

// Without the gate static rules alone decide on nodes and pods.
func TestNodesAndPodsWithoutSelectors(t *testing.T) {
	for version, gates := range map[string]map[string]bool{"1.28": nil, "1.30": nil, "1.31": nil, "1.32": {"AuthorizeNodeWithSelectors": false}, "1.33": {"AuthorizeNodeWithSelectors": false}} {
		nodesAndPodsByRules(asker(t, featuresWith(t, version, gates)))
	}
}

func nodesAndPodsByRules(f func(text, want string)) {
	for _, text := range []string{
		"get nodes n2", "list nodes", "watch nodes", "create nodes", "update nodes n2", "patch nodes n2", "patch nodes/status n2",
		"get pods shop/web-2", "list pods", "watch pods", "create pods shop/-", "delete pods shop/web-2", "patch pods/status shop/web-2",
		"create pods/eviction shop/web-2",
	} {
		f(text, "allow")
	}
	for _, text := range []string{"delete nodes n1", "get nodes/status n1", "update pods shop/web-1", "get pods/log shop/web-1"} {
		f(text, "deny")
	}
}
