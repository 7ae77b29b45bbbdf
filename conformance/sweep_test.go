package conformance

import (
	"testing"
)

// TestSweep asks for every verb of every resource, subresource, scope, selector and identity over one cluster, under every setting
// of the gates.
func TestSweep(t *testing.T) {
	n := 0
	for _, v := range variants(t) {
		use(t, v, func() { n += sweep(t, v) })
	}
	t.Logf("%d requests", n)
	result.Sweep += n
}

func sweep(t *testing.T, v Variant) (n int) {
	t.Helper()
	w := NewWorld(v.Features)
	for _, s := range sampleCluster() {
		w.Apply(&s)
	}
	identities := []Request{
		{User: "system:node:node0", Groups: []string{"system:nodes"}},
		{User: "system:node:nodeunregistered", Groups: []string{"x", "system:nodes"}},
		{User: "system:node:node0"},
		{User: "system:node:node0", Groups: []string{"system:authenticated", "system:masters"}},
		{User: "system:node:", Groups: []string{"system:nodes"}},
		{User: "node0", Groups: []string{"system:nodes"}},
	}
	names := map[string][]string{
		"secrets": {"secret-pod0-node0", "secret-pod0-node1"}, "configmaps": {"configmap-pod0-node0", "configmap-pod0-node1"},
		"persistentvolumeclaims": {"pvc-pod0-node0", "pvc-pod0-node1"}, "persistentvolumes": {"pv-pod0-node0", "pv-pod0-node1"},
		"serviceaccounts": {"sa-pod0-node0", "sa-pod0-node1"}, "pods": {"pod0-node0", "pod0-node1"},
		"resourceclaims": {"claim-pod0-node0", "claim-pod0-node1"}, "resourceslices": {"slice-node0", "slice-node1"},
		"volumeattachments": {"attachment-node0", "attachment-node1"}, "podcertificaterequests": {"pcr-pod0-node0", "pcr-pod0-node1"},
	}
	for _, target := range append(graphTargets(), otherTargets()...) {
		objects := append([]string{"", "node0", "nodeunregistered"}, names[target.resource]...)
		for _, verb := range verbs() {
			for _, sub := range subresources() {
				for _, ns := range []string{"", "ns0", "ns1", "kube-node-lease"} {
					for _, name := range objects {
						for i, who := range identities {
							if i > 1 && (ns != "ns0" || sub != "") {
								continue // who is no node is answered before anything else is looked at
							}
							q := who
							q.Verb, q.APIGroup, q.Resource, q.Subresource, q.Namespace, q.Name = verb, target.group, target.resource, sub, ns, name
							n += sweepSelectors(t, w, v, &q)
						}
					}
				}
			}
		}
	}
	return n
}

func sweepSelectors(t *testing.T, w *World, v Variant, q *Request) (n int) {
	t.Helper()
	for i, s := range selectors("node0") {
		if i > 0 && q.Verb != "list" && q.Verb != "watch" && q.Verb != "deletecollection" && i != 1 {
			continue
		}
		q.Selector = s
		a := q.Attributes()
		n++
		theirs := w.up.ask(a)
		ans := w.ours.Decide(a, w.now)
		if ours, ok := asOutcome(ans); !ok || theirs != ours {
			t.Fatalf("%s: %s\nreference: %s\nnodeauthz: %+v", v.Name, q.String(), words(theirs), ans)
		}
	}
	return n
}
