package rules

import (
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
)

// A kubelet gets the claims and the service accounts of its pods. Whoever has its credential and guesses names is found by the first refusal.
func TestUnusedReadRefused(t *testing.T) {
	w := &world{nodes: []string{"worker-1", "worker-2"}, pods: map[string]string{"shop/own": "worker-1", "shop/other": "worker-2"}, ended: map[string]int{}}
	var s State = w
	f := func(name string, want Reason, what string, changes ...with) {
		t.Helper()
		found, _ := nodeCredentialMisuse().Find(request(append([]with{does(what)}, changes...)...), s, NewMemory())
		if found.Reason != want || want == UnusedReadRefused && found.Severity != Low {
			t.Errorf("%s, %s: %+v, want %q", what, name, found, want)
		}
	}
	for _, resource := range []string{"persistentvolumeclaims", "serviceaccounts"} {
		get := "get " + resource + " shop/"
		s = w
		f("of another node's pod", UnusedReadRefused, get+"other")
		f("of no pod", UnusedReadRefused, get+"data")
		f("by the API server's word", UnusedReadRefused, get+"data", annotated("forbid", nodeauthz.Deny))
		f("of its own pod, by the API server's word", "", get+"own", annotated("forbid", nodeauthz.Deny), verdict(nodeauthz.Allow))
		f("of its own pod, by another API server", "", get+"own")
		s = noAccounts{w}
		f("of its own pod, where no rule has service accounts", "", get+"own")
		f("of no pod, where no rule has service accounts", UnusedReadRefused, get+"data")
		s = w
		f("in a race", "", get+"data", race)
		f("that the state does not know", "", get+"data", annotated("forbid", nodeauthz.Deny), verdict(nodeauthz.Unknown))
		f("and perhaps let through", "", get+"data", func(r *Request) { r.Open = true })
		f("let through", "", get+"data", byRBAC(200))
		f("by a name that is no Node's", "", get+"data", as("system:node:worker-3", "system:nodes"))
		w.ended["shop/own"] = -300
		f("of a pod that ended", "", get+"own")
		w.ended["shop/own"] = -900
		f("of a pod that ended long ago", UnusedReadRefused, get+"own")
		s = had{w, "shop/own"}
		f("of a pod that ended while the node was cut off", "", get+"own")
		delete(w.ended, "shop/own")
		s = since{w, at(-300)}
		f("where the state begins late", "", get+"data")
		s = since{w, at(0).Add(-asksAfter - time.Second)}
		f("where the state begins before", UnusedReadRefused, get+"data")
		s = nil
		f("without a state", "", get+"data")
	}
	s = w
	for _, what := range []string{"get persistentvolumes pv", "get pods shop/gone", "get resourceclaims.resource.k8s.io shop/c", "get persistentvolumeclaims/status shop/data", "get serviceaccounts.example.com shop/x"} {
		if found, _ := nodeCredentialMisuse().Find(request(does(what)), s, NewMemory()); found.Reason == UnusedReadRefused {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

// noAccounts is a world of a version that lets no node get a service account.
type noAccounts struct{ *world }

func (w noAccounts) Had(a *authorizer.AttributesRecord, node string, t time.Time) bool {
	return (a.Resource != "serviceaccounts" || a.Subresource == "token") && w.world.Had(a, node, t)
}
