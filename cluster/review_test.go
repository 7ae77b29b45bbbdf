package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"
)

// reviewing is an API server that knows a few tokens.
type reviewing struct {
	mu     sync.Mutex
	asked  []string // paths
	specs  []authzv1.SubjectAccessReviewSpec
	broken string // a path that fails
}

func (v *reviewing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked = append(v.asked, r.Method+" "+r.URL.Path)
	fail := func(err error) {
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case v.broken != "" && strings.Contains(r.URL.Path, v.broken):
		http.Error(w, "broken", http.StatusInternalServerError)
	case r.URL.Path == "/apis/authentication.k8s.io/v1/tokenreviews":
		var t authnv1.TokenReview
		fail(json.NewDecoder(r.Body).Decode(&t))
		if name, known := strings.CutPrefix(t.Spec.Token, "token-of-"); known {
			t.Status = authnv1.TokenReviewStatus{Authenticated: true, User: authnv1.UserInfo{
				Username: name, UID: "u", Groups: []string{"g"}, Extra: map[string]authnv1.ExtraValue{"scopes": {"a", "b"}},
			}}
		}
		t.Spec.Token = ""
		w.WriteHeader(http.StatusCreated)
		fail(json.NewEncoder(w).Encode(&t))
	case r.URL.Path == "/apis/authorization.k8s.io/v1/subjectaccessreviews":
		var s authzv1.SubjectAccessReview
		fail(json.NewDecoder(r.Body).Decode(&s))
		v.specs = append(v.specs, s.Spec)
		s.Status = authzv1.SubjectAccessReviewStatus{Allowed: s.Spec.User != "guest", Denied: s.Spec.User == "denied"}
		w.WriteHeader(http.StatusCreated)
		fail(json.NewEncoder(w).Encode(&s))
	default:
		http.NotFound(w, r)
	}
}

func (v *reviewing) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.asked)
}

func TestReviewer(t *testing.T) {
	api := &reviewing{}
	server := httptest.NewServer(api)
	defer server.Close()
	now := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	r, err := NewReviewer(ReviewOptions{Config: &rest.Config{Host: server.URL}, Path: "/nodetrail", Most: 3, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	review := func(token, user string, allowed bool, asked int) {
		t.Helper()
		before := api.count()
		gotUser, gotAllowed, err := r.Review(t.Context(), token)
		if err != nil || gotUser != user || gotAllowed != allowed {
			t.Errorf("%s: %q %t %v", token, gotUser, gotAllowed, err)
		}
		if n := api.count() - before; n != asked {
			t.Errorf("%s: the cluster was asked %d times, want %d", token, n, asked)
		}
	}
	review("token-of-admin", "admin", true, 2)
	review("token-of-admin", "admin", true, 0)
	review("token-of-guest", "guest", false, 2)
	review("token-of-denied", "denied", false, 2)
	review("nobody's", "", false, 1)
	review("nobody's", "", false, 0)
	want := authzv1.SubjectAccessReviewSpec{
		User: "admin", UID: "u", Groups: []string{"g"}, Extra: map[string]authzv1.ExtraValue{"scopes": {"a", "b"}},
		NonResourceAttributes: &authzv1.NonResourceAttributes{Path: "/nodetrail", Verb: "get"},
	}
	if d := cmp.Diff(want, api.specs[0]); d != "" {
		t.Errorf("what was asked (-want +got):\n%s", d)
	}
	now = now.Add(11 * time.Second)
	review("token-of-guest", "guest", false, 2) // what was refused may be allowed by now
	now = now.Add(time.Minute)
	review("token-of-admin", "admin", true, 2)

	for i := range 20 {
		review(fmt.Sprint("token-of-user", i), fmt.Sprint("user", i), true, 2)
	}
	if n := len(r.answers); n > 3 {
		t.Errorf("%d answers are kept", n)
	}

	for _, broken := range []string{"tokenreviews", "subjectaccessreviews"} {
		api.mu.Lock()
		api.broken = broken
		api.mu.Unlock()
		if _, allowed, err := r.Review(t.Context(), "token-of-late-"+broken); err == nil || allowed {
			t.Errorf("without %s: %t %v", broken, allowed, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, _, err := r.Review(ctx, "token-of-nobody"); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: %v", err)
	}
	if _, err := NewReviewer(ReviewOptions{}); err == nil {
		t.Error("a reviewer without a cluster")
	}
}
