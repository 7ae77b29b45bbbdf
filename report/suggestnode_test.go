package report

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rbac"
)

// checked is the part of attributes that RBAC looks at.
func checked(a authorizer.Attributes) string {
	return fmt.Sprintf("%s %q %q %q %q %q %q %v", a.GetUser().GetName(), a.GetVerb(), a.GetAPIGroup(), a.GetResource(), a.GetSubresource(), a.GetNamespace(),
		[]string{a.GetName(), a.GetPath()}, a.IsResourceRequest())
}

// upstreamAsks returns what upstream's own handler asks the authorizer before a service account acts as the node of its pod, and whom it acts as then.
func upstreamAsks(t *testing.T, info *request.RequestInfo, account *user.DefaultInfo, node string) (asks []string, as user.Info) {
	t.Helper()
	record := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		asks = append(asks, checked(a))
		return authorizer.DecisionAllow, "", nil
	})
	h := impersonation.WithConstrainedImpersonation(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		as, _ = request.UserFrom(r.Context())
	}), record, serializer.NewCodecFactory(runtime.NewScheme()))
	u := *account
	u.Extra = map[string][]string{serviceaccount.NodeNameKey: {node}}
	ctx := request.WithUser(request.WithRequestInfo(t.Context(), info), &u)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	r.Header.Set("Impersonate-User", "system:node:"+node)
	h.ServeHTTP(httptest.NewRecorder(), r)
	return asks, as
}

// TestAsksAreUpstreams makes requests through upstream's handler: what asksToImpersonate says is what it asks, no more and no less.
func TestAsksAreUpstreams(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	of := func(list ...string) string { return list[r.IntN(len(list))] }
	account := accountUser("agents", "nodetrail-x")
	for range effort.Of(2000, 200) {
		info := &request.RequestInfo{
			IsResourceRequest: true, Verb: of("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"), APIGroup: of("", "storage.k8s.io"), APIVersion: "v1",
			Resource: of("pods", "nodes", "secrets", "csinodes", "namespaces"), Subresource: of("", "status", "token"), Namespace: of("", "shop"), Name: of("", "a", "worker-1"),
		}
		if r.IntN(6) == 0 {
			info = &request.RequestInfo{Verb: of("get", "post"), Path: of("/metrics", "/healthz")}
		}
		info.Path = of("/x", info.Path)
		got, as := upstreamAsks(t, info, &account, "worker-1")
		a := &authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "system:node:worker-1"}, Verb: info.Verb, APIGroup: info.APIGroup, APIVersion: info.APIVersion, Resource: info.Resource,
			Subresource: info.Subresource, Namespace: info.Namespace, Name: info.Name, ResourceRequest: info.IsResourceRequest, Path: info.Path,
		}
		var want []string
		for _, ask := range asksToImpersonate(a, &account) {
			want = append(want, checked(&ask))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: upstream asks\n%q, want\n%q", info, got, want)
		}
		if as.GetName() != "system:node:worker-1" || !slices.Equal(as.GetGroups(), []string{user.NodesGroup, user.AllAuthenticated}) {
			t.Fatalf("it acts as %v", as)
		}
	}
}

// TestSuggestImpersonationOnCaptures replays a real cluster: nothing breaks and every right was used, while the service account itself may do less than in the
// form for older versions; and without either half of the right to impersonate, requests break.
func TestSuggestImpersonationOnCaptures(t *testing.T) {
	const name = "capture"
	open := func() (*captured.Capture, *WhatIf) {
		c := captured.Open(t, name, "auto")
		return c, &WhatIf{RBAC: c.State.RBAC, Mode: c.Judge.Mode, Change: c.State.RBAC.Change(rbac.Grant.ForNodes, nil)}
	}
	c, w := open()
	s := NewSuggester(w, SuggestOptions{})
	c.Replay(s.Add)
	direct := func(of *Suggestion) (n int) {
		for i := range of.Clients {
			c := &of.Clients[i]
			for _, r := range c.ClusterRoles {
				eachRight("", r.Rules, func(r right, _ bool) {
					if g := (grant{verb: r.verb}); !g.underNode() {
						n++
					}
				})
			}
		}
		return n
	}
	older := s.Suggestion()
	s.Impersonates()
	out := s.Suggestion()
	verify := func() *Verification {
		c, w := open()
		v, err := s.NewVerifier(w, out, rbac.Grant.ForNodes, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Replay(v.Add)
		return v.Verification()
	}
	if proof := verify(); !proof.OK() || proof.Moved != 285 {
		t.Errorf("%+v", proof)
	}
	if a, b := direct(older), direct(out); b >= a || b == 0 {
		t.Errorf("%d rights of its own in the whole cluster, %d without impersonation", b, a)
	}
	for i := range out.Clients {
		if c := &out.Clients[i]; c.Impersonates == c.Kubelet {
			t.Errorf("%s: impersonates %v, kubelet %v", c.Client, c.Impersonates, c.Kubelet)
		}
	}
	for i := range out.Clients {
		if !out.Clients[i].Impersonates {
			continue
		}
		for _, verb := range []string{impersonateVerb, onVerb + "get"} {
			role := &out.Clients[i].ClusterRoles[0]
			all := role.Rules
			role.Rules = nil
			for _, r := range all {
				r.Verbs = slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return v == verb })
				if len(r.Verbs) > 0 {
					role.Rules = append(role.Rules, r)
				}
			}
			if proof := verify(); proof.Broken == 0 {
				t.Errorf("%s: without %s nothing breaks", out.Clients[i].Client, verb)
			}
			role.Rules = all
		}
	}
}
