package audit

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/request"
)

// upstream asks kube-apiserver's own code what the authorizer saw of a request. It is false where the API server would have refused the
// request before that.
func upstream(method, uri string, who user.Info) (authorizer.Attributes, *url.URL, bool) {
	u, err := url.ParseRequestURI(uri)
	if err != nil {
		return nil, nil, false
	}
	factory := request.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	info, err := factory.NewRequestInfo(&http.Request{Method: method, URL: u})
	if err != nil {
		return nil, nil, false
	}
	ctx := request.WithUser(request.WithRequestInfo(context.Background(), info), who)
	attrs, err := filters.GetAuthorizerAttributes(ctx)
	return attrs, u, err == nil
}

// logged is the event that kube-apiserver's audit makes of a request, with what it fills in from a body.
func logged(attrs authorizer.Attributes, u *url.URL, bodyNamespace, bodyName string) Event {
	ev := Event{Verb: attrs.GetVerb(), RequestURI: u.RequestURI(), User: User{Username: attrs.GetUser().GetName(), Groups: attrs.GetUser().GetGroups()}}
	if !attrs.IsResourceRequest() {
		return ev
	}
	ev.HasObjectRef = true
	ev.ObjectRef = ObjectRef{
		Resource: attrs.GetResource(), Namespace: attrs.GetNamespace(), Name: attrs.GetName(), APIGroup: attrs.GetAPIGroup(),
		APIVersion: attrs.GetAPIVersion(), Subresource: attrs.GetSubresource(),
	}
	switch ev.Verb {
	case "create", "update", "patch":
		if ev.ObjectRef.Namespace == "" {
			ev.ObjectRef.Namespace = bodyNamespace
		}
		if ev.ObjectRef.Name == "" {
			ev.ObjectRef.Name = bodyName
		}
	}
	return ev
}

var sameError = cmp.Comparer(func(a, b error) bool {
	return (a == nil) == (b == nil) && (a == nil || a.Error() == b.Error())
})

func compareAttributes(t *testing.T, method, uri, bodyNamespace, bodyName string) {
	t.Helper()
	who := &user.DefaultInfo{Name: "system:node:a", Groups: []string{"system:nodes"}}
	want, u, ok := upstream(method, uri, who)
	if !ok {
		return
	}
	ev := logged(want, u, bodyNamespace, bodyName)
	// A path that begins with two slashes, or has a scheme, comes back otherwise from the URL that is logged.
	if again, err := url.ParseRequestURI(ev.RequestURI); err != nil || again.Path != u.Path || again.RawQuery != u.RawQuery {
		return
	}
	// What was there before must not show.
	var a Attributes
	a.Of(&Event{Verb: "list", HasObjectRef: true, RequestURI: "/api/v1/namespaces/x/pods?fieldSelector=spec.nodeName%3Da,x%3Dy&labelSelector=a"}, true)
	got := a.Of(&ev, true)
	if d := cmp.Diff(want, authorizer.Attributes(got), sameError); d != "" {
		t.Fatalf("%s %q (-kube-apiserver +nodetrail):\n%s", method, uri, d)
	}
	without := a.Of(&ev, false)
	if without.FieldSelectorRequirements != nil || without.LabelSelectorRequirements != nil || without.Name != want.GetName() {
		t.Fatalf("%s %q without selectors: %+v", method, uri, without)
	}
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "get"}

var uris = []string{
	"/", "/healthz", "/api", "/api/v1", "/api/v1/", "/apis/apps/v1", "/apis/apps/v1/", "/api/v1/pods", "/api/v1/pods/", "//api/v1/pods", "/api//v1/pods", "/api/v1//pods", "/apix/v1/pods", "*", "/metrics?x=y",
	"/api/v1/namespaces/shop/pods/web", "/api/v1/namespaces/shop/pods/web/status", "/api/v1/namespaces/shop/pods/web/proxy/a/b%2Fc", "/api/v1/namespaces", "/api/v1/namespaces/", "/api/v1/namespaces/shop", "/api/v1/namespaces/shop/status", "/api/v1/namespaces/shop/finalize", "/api/v1/namespaces//pods", "/api/v1/namespaces/shop/statusx",
	"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/worker-1?timeout=10s", "/api/v1/nodes/worker-1/status?timeout=10s", "/api/v1/watch/pods?fieldSelector=metadata.name%3Dx", "/api/v1/watch/namespaces/shop/pods/web", "/api/v1/watch", "/api/v1/proxy/nodes/a/b/c", "/api/v1/proxy", "/api/v1/watch/proxy/x",
	"/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Ddb&watch=true", "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name=db", "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name==db", "/api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3ddb", "/api/v1/secrets?fieldSelector=metadata.name%3Da%2Fb",
	"/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1&limit=500", "/api/v1/pods?fieldSelector=spec.nodeName%3Dworker-1%2Cstatus.phase%21%3DFailed", "/api/v1/pods?fieldSelector=a%3Db&fieldSelector=c%3Dd", "/api/v1/pods?fieldSelector=&fieldSelector=c%3Dd", "/api/v1/pods?fieldSelector=nonsense", "/api/v1/pods?fieldSelector=a%3Db%5C", "/api/v1/pods?fieldSelector=%zz&fieldSelector=a%3Db",
	"/api/v1/pods?field%53elector=a%3Db", "/api/v1/pods?fieldSelector=a;b&fieldSelector=c%3Dd", "/api/v1/pods?fieldSelector=a%3Db+c", "/api/v1/pods?fieldSelector", "/api/v1/pods?fieldSelector=%3D", "/api/v1/pods?fieldSelector=%3Db", "/api/v1/pods?fieldSelector=a%3D", "/api/v1/pods?fieldSelector=,", "/api/v1/pods?fieldSelector=%2C", "/api/v1/pods?&&=x&fieldSelector=a%3db&",
	"/api/v1/pods?labelSelector=app%3Dweb%2Ctier+in+(a,b)", "/api/v1/pods?labelSelector=%21", "/api/v1/pods?labelSelector=&fieldSelector=x%3Dy", "/api/v1/pods?watch=yes&timeoutSeconds=x&fieldSelector=metadata.name%3Dweb", "/api/v1/pods?watch=0&limit=z", "/api/v1/pods?watch&fieldSelector=spec.nodeName%3Da",
	"/api/v1/namespaces/sh%6Fp/pods/w%20b", "/api/v1/namespaces/a%2Fb/pods", "/api/v1/pods/%zz", "/api/v1/pods/a%00b", "/api/v1/pods/a+b", "/api/v1/pods/a#b?c#d", "http://host/api/v1/pods?limit=1", "http:opaque", "/api/v1/pods?a\x7f", "/api/v1/p\xffods", "/api/v1/pods?fieldSelector=\xff%3D\xfe", "/api/v1/pods?", "/api/v1/pods??fieldSelector=a%3Db",
	"/api/v1/pods?" + strings.Repeat("a&", 10001) + "fieldSelector=a%3Db",
}

// TestMain keeps upstream's complaints about queries out of the output: klog writes to what os.Stderr is at the time. A panic still goes to the
// process's own standard error.
func TestMain(m *testing.M) {
	silence, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		panic(err)
	}
	os.Stderr = silence
	os.Exit(m.Run())
}

func TestAttributesAgreeWithKubeAPIServer(t *testing.T) {
	for _, uri := range uris {
		for _, method := range methods {
			compareAttributes(t, method, uri, "", "")
			compareAttributes(t, method, uri, "elsewhere", "smuggled")
		}
	}
}

// TestAttributesOfCapture holds that the objectRef of every real event that has no body to be filled from says the same.
func TestAttributesOfCapture(t *testing.T) {
	var a Attributes
	for _, line := range captureLines(t) {
		ev, err := decodeOne(line)
		if err != nil {
			t.Fatal(err)
		}
		got := a.Of(ev, true)
		if got.ResourceRequest != ev.HasObjectRef || !got.ResourceRequest && !strings.HasPrefix(ev.RequestURI, got.Path) {
			t.Errorf("%s: %+v", ev.RequestURI, got)
		}
		if ev.Verb == "create" {
			continue
		}
		ref := ObjectRef{
			Resource: got.Resource, Namespace: got.Namespace, Name: got.Name, UID: ev.ObjectRef.UID, APIGroup: got.APIGroup,
			APIVersion: got.APIVersion, Subresource: got.Subresource,
		}
		if d := cmp.Diff(ev.ObjectRef, ref); d != "" {
			t.Errorf("%s %s (-objectRef +attributes):\n%s", ev.Verb, ev.RequestURI, d)
		}
	}
}

func TestAttributesFallBackOnObjectRef(t *testing.T) {
	ref := ObjectRef{Resource: "pods", Namespace: "shop", Name: "web", APIVersion: "v1", Subresource: "status"}
	for _, uri := range []string{"", "/", "/healthz", "/api/v1/%zz", "pods", "\x00", "/api/v1/watch"} {
		ev := Event{Verb: "patch", RequestURI: uri, HasObjectRef: true, ObjectRef: ref, User: User{Username: "a"}, IsImpersonated: true, Impersonated: User{Username: "b", Groups: []string{"c"}}}
		var a Attributes
		got := a.Of(&ev, true)
		got.Path = ""
		want := authorizer.AttributesRecord{
			User: &user.DefaultInfo{Name: "b", Groups: []string{"c"}}, Verb: "patch", ResourceRequest: true,
			Namespace: "shop", APIVersion: "v1", Resource: "pods", Subresource: "status", Name: "web",
		}
		if d := cmp.Diff(want, *got); d != "" {
			t.Errorf("%q (-want +got):\n%s", uri, d)
		}
	}
}

func FuzzAttributes(f *testing.F) {
	for i, uri := range uris {
		if len(uri) < 1000 {
			f.Add(uint8(i), uri, "ns", "name")
			f.Add(uint8(0), uri, "", "")
		}
	}
	f.Fuzz(func(t *testing.T, method uint8, uri, bodyNamespace, bodyName string) {
		compareAttributes(t, methods[int(method)%len(methods)], uri, bodyNamespace, bodyName)
	})
}

func BenchmarkAttributes(b *testing.B) {
	for _, uri := range []string{
		"GET /api/v1/namespaces/shop/secrets/db", "PATCH /api/v1/namespaces/shop/pods/web-1/status",
		"GET /api/v1/namespaces/shop/secrets?fieldSelector=metadata.name%3Ddb&resourceVersion=123&watch=true", "GET /healthz",
	} {
		method, path, _ := strings.Cut(uri, " ")
		attrs, u, _ := upstream(method, path, &user.DefaultInfo{Name: "system:node:a"})
		ev := logged(attrs, u, "", "")
		b.Run(strings.ReplaceAll(uri[:min(len(uri), 45)], "/", "."), func(b *testing.B) {
			var a Attributes
			b.ReportAllocs()
			for b.Loop() {
				a.Of(&ev, true)
			}
		})
	}
}
