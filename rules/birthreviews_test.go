package rules

import (
	"slices"
	"testing"
)

// A service to which a pod logs in may review the pod's token with that token itself. Who does anything else with it is found all the same.
func TestTokenThatReviews(t *testing.T) {
	const elsewhere = ": a token of system:serviceaccount:shop:web that node worker-1 got is used from 10.0.0.2, an address of node worker-2"
	for what, want := range map[string][]string{
		"create tokenreviews.authentication.k8s.io":          {"05:00 low" + elsewhere},
		"create selfsubjectreviews.authentication.k8s.io":    {"05:00 low" + elsewhere},
		"create subjectaccessreviews.authorization.k8s.io":   {"05:00 high" + elsewhere},
		"create tokenreviews.example.com":                    {"05:00 high" + elsewhere},
		"list tokenreviews.authentication.k8s.io":            {"05:00 high" + elsewhere},
		"create tokenreviews.authentication.k8s.io and more": {"05:00 low" + elsewhere, "06:40 high" + elsewhere},
	} {
		b := newBirths(t)
		b.lives("worker-1", 0, 900, "X509SHA256=1", "10.0.0.1")
		b.lives("worker-2", 0, 900, "X509SHA256=2", "10.0.0.2")
		b.one(100, "worker-1", does("create serviceaccounts/token shop/web"), certificate("X509SHA256=1"), from("10.0.0.1"), func(r *Request) { r.Event.IssuedCredential = "JTI=1" })
		uses := func(second int, what string) {
			b.one(second, "pod", by("system:serviceaccount:shop:web"), does(what), when(second), certificate("JTI=1"), from("10.0.0.2"))
		}
		uses(300, what)
		uses(301, what)
		if len(want) > 1 {
			uses(400, "list pods shop/")
		}
		if got := b.findings(nil); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", what, got, want)
		}
	}
}
