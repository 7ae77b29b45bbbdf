package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	authnv1 "k8s.io/api/authentication/v1"
	authzv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
)

// ReviewOptions set a Reviewer up. Config and Path are needed.
type ReviewOptions struct {
	Config *rest.Config
	// Path is one of no resource that a user must be allowed to get.
	Path string
	// Allowed and Refused are how long an answer holds, a minute and ten seconds by default; Most is how many are kept, 1024 by default.
	Allowed, Refused time.Duration
	Most             int
	// Now is the clock, time.Now by default.
	Now func() time.Time
}

// Reviewer asks a cluster who bears a token (TokenReview), and whether they may get a path (SubjectAccessReview). It needs the right to
// create both, as the ClusterRole system:auth-delegator gives it.
type Reviewer struct {
	o            ReviewOptions
	authn, authz rest.Interface

	mu      sync.Mutex
	answers map[[sha256.Size]byte]reviewed
}

// reviewed is an answer that holds for a while.
type reviewed struct {
	user    string
	allowed bool
	until   time.Time
}

// NewReviewer returns one that has asked nothing yet.
func NewReviewer(o ReviewOptions) (*Reviewer, error) {
	if o.Config == nil || o.Path == "" {
		return nil, errors.New("a review needs a cluster and a path")
	}
	if o.Allowed <= 0 {
		o.Allowed = time.Minute
	}
	if o.Refused <= 0 {
		o.Refused = 10 * time.Second
	}
	if o.Most <= 0 {
		o.Most = 1024
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(authnv1.AddToScheme(scheme), authzv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("preparing reviews: %w", err)
	}
	client := func(gv schema.GroupVersion) (rest.Interface, error) {
		c := rest.CopyConfig(o.Config)
		c.APIPath, c.GroupVersion, c.NegotiatedSerializer = "/apis", &gv, serializer.NewCodecFactory(scheme).WithoutConversion()
		c.QPS, c.Burst = 50, 100 // people wait for it
		c.ContentType, c.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
		return rest.RESTClientFor(c)
	}
	r := &Reviewer{o: o, answers: map[[sha256.Size]byte]reviewed{}}
	var err error
	if r.authn, err = client(authnv1.SchemeGroupVersion); err == nil {
		r.authz, err = client(authzv1.SchemeGroupVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("preparing reviews: %w", err)
	}
	return r, nil
}

// Review says who bears the token and whether they may get the path. The user is "" where the token is nobody's; an error says that the
// cluster could not answer. Answers are kept for a while. It may be called concurrently.
func (r *Reviewer) Review(ctx context.Context, token string) (user string, allowed bool, err error) {
	key, now := sha256.Sum256([]byte(token)), r.o.Now()
	r.mu.Lock()
	a, known := r.answers[key]
	r.mu.Unlock()
	if known && now.Before(a.until) {
		return a.user, a.allowed, nil
	}
	if a.user, a.allowed, err = r.ask(ctx, token); err != nil {
		return "", false, err
	}
	a.until = now.Add(r.o.Refused)
	if a.allowed {
		a.until = now.Add(r.o.Allowed)
	}
	r.keep(key, a, now)
	return a.user, a.allowed, nil
}

// keep keeps an answer in place of those that hold no more, or else of the one that ends first.
func (r *Reviewer) keep(key [sha256.Size]byte, a reviewed, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) >= r.o.Most {
		var first [sha256.Size]byte
		until := time.Time{}
		for k, one := range r.answers {
			if !now.Before(one.until) {
				delete(r.answers, k)
			} else if until.IsZero() || one.until.Before(until) {
				first, until = k, one.until
			}
		}
		if len(r.answers) >= r.o.Most {
			delete(r.answers, first)
		}
	}
	r.answers[key] = a
}

func (r *Reviewer) ask(ctx context.Context, token string) (user string, allowed bool, err error) {
	var who authnv1.TokenReview
	err = r.authn.Post().Resource("tokenreviews").Body(&authnv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}, Spec: authnv1.TokenReviewSpec{Token: token},
	}).Do(ctx).Into(&who)
	if err != nil {
		return "", false, fmt.Errorf("asking who bears a token: %w", err)
	}
	if u := who.Status.User.Username; !who.Status.Authenticated || u == "" {
		return "", false, nil
	}
	u := &who.Status.User
	spec := authzv1.SubjectAccessReviewSpec{
		User: u.Username, Groups: u.Groups, UID: u.UID, NonResourceAttributes: &authzv1.NonResourceAttributes{Path: r.o.Path, Verb: "get"},
	}
	for k, v := range u.Extra {
		if spec.Extra == nil {
			spec.Extra = map[string]authzv1.ExtraValue{}
		}
		spec.Extra[k] = authzv1.ExtraValue(v)
	}
	var may authzv1.SubjectAccessReview
	err = r.authz.Post().Resource("subjectaccessreviews").Body(&authzv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"}, Spec: spec,
	}).Do(ctx).Into(&may)
	if err != nil {
		return "", false, fmt.Errorf("asking whether %q may read the pages: %w", u.Username, err)
	}
	return u.Username, may.Status.Allowed && !may.Status.Denied, nil
}
