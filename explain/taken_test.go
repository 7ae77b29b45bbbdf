package explain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// Whatever the state and the API server say of a request, if it succeeded, what it took is to be rotated, and what the tokens that it got could read.
func TestWhatWasTakenIsRotated(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		x, g, store := bare(t)
		g.SetPod(&nodeauthz.Pod{Namespace: "ns0", Name: "pod", UID: "1", NodeName: "n1", ServiceAccountName: "o0", Secrets: []string{"o0"}}, seen(0))
		grantTo(store, "reader", "vault", rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
			rbacv1.Subject{Kind: "ServiceAccount", Namespace: "ns1", Name: "o1"})
		b, want := NewBeyond("n1"), map[string]bool{}
		for i := range 40 {
			r := &Request{
				Verb:     []string{"get", "list", "watch", "update", "patch", "delete", "deletecollection", "create"}[rnd.IntN(8)],
				Resource: []string{"secrets", "configmaps", "serviceaccounts"}[rnd.IntN(3)], APIGroup: []string{"", "", "", "example.com"}[rnd.IntN(4)],
				Namespace: fmt.Sprint("ns", rnd.IntN(3)), Name: []string{"o0", "o1", "o2", ""}[rnd.IntN(4)],
			}
			if r.Resource == "serviceaccounts" {
				r.Verb, r.Subresource, r.Name = "create", []string{"token", ""}[rnd.IntN(2)], "o"+fmt.Sprint(rnd.IntN(3))
			}
			verdicts := []nodeauthz.Verdict{nodeauthz.Allow, nodeauthz.Deny, nodeauthz.Unknown}
			j := used("n1", r, i, verdicts[rnd.IntN(3)])
			j.Answer.Race, j.Observed.NodeVerdict = rnd.IntN(4) == 0, []nodeauthz.Verdict{nodeauthz.NotNode, nodeauthz.Allow, nodeauthz.Deny}[rnd.IntN(3)]
			if rnd.IntN(4) == 0 {
				j.IsNode, j.Node, j.Event.IsImpersonated, j.Event.Impersonated.Username = false, "", true, "jane"
			}
			j.Event.Code = []int32{200, 0, 404, 403, 500}[rnd.IntN(5)]
			j.Allowed = j.Event.Code != 403
			b.Add(j)
			switch {
			case !j.Succeeded() || r.APIGroup != "":
			case r.Resource == "secrets" && r.Verb != "create" && r.Name == "":
				want["secrets "+r.Namespace+"/"] = true
			case r.Resource == "secrets" && r.Verb != "create":
				want["secret "+r.Namespace+"/"+r.Name] = true
			case r.Subresource == "token":
				want["tokens "+r.Namespace+"/"+r.Name] = true
				if r.Namespace == "ns1" && r.Name == "o1" {
					want["secrets vault/"] = true
				}
			}
		}
		if rnd.IntN(2) == 0 {
			want["secret ns0/o0"], want["tokens ns0/o0"] = true, true
		} else {
			g.SetPod(&nodeauthz.Pod{Namespace: "ns0", Name: "pod", UID: "1"}, seen(0)) // nothing leads to the node any more
		}
		r := x.Node("n1", epoch.Add(time.Second), epoch.Add(time.Minute), b)
		got := map[string]bool{}
		for _, o := range r.Rotate[1:] {
			what := o.Kind + " " + o.Namespace + "/" + o.Name
			if got[what] {
				t.Errorf("seed %d: %s twice", seed, what)
			}
			got[what] = true
		}
		for what := range want {
			if !got[what] {
				t.Errorf("seed %d: %s is not to be rotated: %v", seed, what, r.Rotate)
			}
		}
		for what := range got {
			if !want[what] && what != "secret ns0/o0" && what != "tokens ns0/o0" {
				t.Errorf("seed %d: %s is to be rotated", seed, what)
			}
		}
	}
}

// What a pod leads to says which one. Of very many secrets the answer says that it lacks some.
func TestRotationSaysWhy(t *testing.T) {
	x, g, _ := bare(t)
	g.SetPod(&nodeauthz.Pod{Namespace: "shop", Name: "pod", UID: "1", NodeName: "n1", Secrets: []string{"own"}}, seen(0))
	b := NewBeyond("n1")
	for i, name := range []string{"own", "gone", "gone"} {
		b.Add(used("n1", &Request{Verb: "get", Resource: "secrets", Namespace: "shop", Name: name}, i, nodeauthz.Allow))
	}
	r := x.Node("n1", epoch.Add(time.Second), epoch.Add(time.Minute), b)
	var got []string
	for i := range r.Rotate[1:] {
		got = append(got, r.Rotate[1+i].Words())
	}
	if want := []string{"secret shop/gone: was read: audit ID id-1, id-2", "secret shop/own: could be read, by pod shop/pod"}; !slices.Equal(got, want) || len(r.Notes) > 0 {
		t.Errorf("%q, %q", got, r.Notes)
	}
	b = NewBeyond("n1")
	for i := range MaxTaken + 3 {
		b.Add(used("n1", &Request{Verb: "get", Resource: "secrets", Namespace: "shop", Name: fmt.Sprint(i)}, i, nodeauthz.Allow))
	}
	r = x.Node("n1", epoch.Add(time.Second), epoch.Add(time.Minute), b)
	if notes := strings.Join(r.Notes, " "); len(r.Rotate) != MaxTaken+2 || !strings.Contains(notes, "3 requests for still other secrets and tokens succeeded") {
		t.Errorf("%d to rotate, %s", len(r.Rotate), notes)
	}
}
