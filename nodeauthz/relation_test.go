package nodeauthz

import (
	"testing"
	"time"
)

func TestRelation(t *testing.T) {
	a := NewAuthorizer(someOfEach(), featuresWith(t, "1.36", map[string]bool{"PodCertificateRequest": true}), 0)
	for text, want := range map[string][2]Relation{ // to n1, which has the pod, and to n2
		"get secrets shop/db":                                     {Own, Anothers},
		"patch secrets shop/db":                                   {Own, Anothers},
		"get secrets shop/nothing":                                {NoNodes, NoNodes},
		"list secrets shop/":                                      {All, All},
		"create secrets shop/":                                    {Unrelated, Unrelated},
		"get persistentvolumes pv":                                {Own, Anothers},
		"get secrets storage/csi":                                 {Own, Anothers},
		"get pods shop/web-1":                                     {Own, Anothers},
		"create serviceaccounts/token shop/web":                   {Own, Anothers},
		"get resource.k8s.io:resourceclaims shop/gpu":             {Own, Anothers},
		"get resource.k8s.io:resourceslices slice":                {Own, Anothers},
		"get storage.k8s.io:volumeattachments va":                 {Own, Anothers},
		"get certificates.k8s.io:podcertificaterequests shop/pcr": {Own, Anothers},
		"get nodes n1":                                            {Own, Anothers},
		"get coordination.k8s.io:leases kube-node-lease/n1":       {Own, Anothers},
		"get coordination.k8s.io:leases shop/n1":                  {Unrelated, Unrelated},
		"get storage.k8s.io:csinodes n2":                          {Anothers, Own},
		"get services shop/web":                                   {Unrelated, Unrelated},
		"list nodes":                                              {All, All},
	} {
		for i, node := range []string{"n1", "n2"} {
			if got := a.Relation(node, ask(t, node, text), at(0)); got != want[i] {
				t.Errorf("%s by %s: %q, want %q", text, node, got, want[i])
			}
		}
	}
	if got := a.Relation("n2", ask(t, "n2", "get secrets shop/db"), at(0).Add(-1000*time.Hour)); got != UnknownRelation {
		t.Errorf("before the state: %q", got)
	}
	for r := Unrelated; r <= UnknownRelation; r++ {
		if (r.String() == "") != (r == Unrelated) {
			t.Errorf("relation %d is %q", r, r)
		}
	}
}

// TestRelationOfAllow: what the graph allows is the node's own, whatever else is true.
func TestRelationOfAllow(t *testing.T) {
	a := NewAuthorizer(someOfEach(), featuresWith(t, "1.36", nil), 0)
	for _, text := range []string{"get secrets shop/db", "get configmaps shop/cfg", "get pods shop/web-1", "list secrets shop/db"} {
		for _, node := range []string{"n1", "n2"} {
			r := ask(t, node, text)
			if ans := a.Decide(r, at(0)); (ans.Verdict == Allow) != (a.Relation(node, r, at(0)) == Own) {
				t.Errorf("%s by %s: %v, %q", text, node, ans.Verdict, a.Relation(node, r, at(0)))
			}
		}
	}
}

// TestResourceOfKind holds that it is the inverse of KindOfResource.
func TestResourceOfKind(t *testing.T) {
	for kind := KindConfigMap; kind <= KindPodCertificateRequest; kind++ {
		if group, resource := ResourceOfKind(kind); resource == "" || KindOfResource(group, resource) != kind {
			t.Errorf("%s: %s.%s", kind, resource, group)
		}
	}
}
