package app

import (
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rbac"
)

// silentBook has the tokens and the requests of service accounts to whom a binding that goes is bound. Kubelets create a token for each pod, and again and again
// while it runs: a pod that has one makes requests, or its requests are missing from the log.
type silentBook map[rbac.SubjectRef]*accountLife

// accountLife is when somebody whom the subject means was last issued a token or made a request. waits is since when there is a token, and no request.
type accountLife struct{ token, request, waits time.Time }

// leastTokenAge is how long after a token a pod makes requests at the latest.
const leastTokenAge = 10 * time.Minute

// newSilentBook follows those of the subjects that are service accounts, by whatever name.
func newSilentBook(subjects map[rbac.SubjectRef]bool) silentBook {
	out := silentBook{}
	for s := range subjects {
		if s.Account().Namespace != "" || strings.HasPrefix(s.Name, serviceaccount.AllServiceAccountsGroup) {
			out[s] = &accountLife{}
		}
	}
	return out
}

// see takes in any event.
func (b silentBook) see(ev *audit.Event) {
	if len(b) == 0 || ev.Stage == audit.StageRequestReceived {
		return
	}
	if strings.HasPrefix(ev.User.Username, serviceaccount.ServiceAccountUsernamePrefix) {
		if namespace, name, err := serviceaccount.SplitUsername(ev.User.Username); err == nil {
			b.of(namespace, name, func(l *accountLife) { l.request, l.waits = later(l.request, ev.RequestReceived), time.Time{} })
		}
		return
	}
	ref := &ev.ObjectRef
	if ref.Resource != "serviceaccounts" || ref.Subresource != "token" || ev.Verb != "create" || ev.Code >= 300 {
		return
	}
	if node, _ := nodeid.Of(ev.User.Username, ev.User.Groups); node == "" {
		return
	}
	b.of(ref.Namespace, ref.Name, func(l *accountLife) {
		if l.token = later(l.token, ev.RequestReceived); l.waits.IsZero() {
			l.waits = ev.RequestReceived
		}
	})
}

// of calls f for the subjects that mean the account.
func (b silentBook) of(namespace, name string, f func(*accountLife)) {
	account := map[rbac.SubjectRef]int{{Kind: "ServiceAccount", Namespace: namespace, Name: name}: 0}
	for s, l := range b {
		if len(s.Accounts(account)) > 0 {
			f(l)
		}
	}
}

// silent are the subjects that were issued tokens in the time and made no request, though the policy logs each request for a resource that they make.
func (p *proof) silent() (out []rbac.SubjectRef) {
	if p.bound == nil || p.policy == nil {
		return nil
	}
	from := p.to.Add(-p.span())
	paths := coverage.Harmless{Key: "paths", Is: func(a authorizer.Attributes) bool { return !a.IsResourceRequest() }}
	for s, l := range p.bound.silent {
		if l.token.Before(from) || !l.request.Before(from) || l.waits.IsZero() || l.waits.After(p.to.Add(-leastTokenAge)) {
			continue
		}
		if h := p.policy.Hides(somebody(s.Account()), paths); len(h.Requests) == 0 && h.More == 0 && !h.TooMany {
			out = append(out, s)
		}
	}
	return out // whose order says nothing
}
