package scenarios

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// Who may read the pages is the cluster's word: whose a token is (TokenReview), and whether they may get the path (SubjectAccessReview).
//
// Seen to fail with reviews that let in whoever is known.
func testPages(t *testing.T, w *world) {
	const page = "/api/v1/overview"
	w.namespace(t, "people")
	tokens := map[string]string{"": "", "nobody": "not-a-token-of-this-cluster"}
	for _, name := range []string{"reader", "stranger"} {
		w.create(t, object("v1", "ServiceAccount", "people", name))
		tokens[name] = plane.Must(w.plane.ServiceAccountToken(w.ctx, "people", name))(t)
	}
	answers := func(want map[string]int) {
		t.Helper()
		w.eventually(t, "the pages are for whom they should be", func() error {
			for name, code := range want {
				got, body, err := w.trail.Get(page, tokens[name])
				if err != nil {
					return err
				}
				if got != code {
					return fmt.Errorf("%q is answered %d, not %d: %.200s", name, got, code, body)
				}
			}
			return nil
		})
	}
	// nodetrail may not ask yet.
	answers(map[string]int{"": http.StatusUnauthorized, "reader": http.StatusServiceUnavailable})
	plane.Check(t, w.plane.Apply(w.ctx, []byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodetrail-reviews}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:auth-delegator"}
subjects: [{kind: ServiceAccount, namespace: nodetrail, name: nodetrail}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodetrail-reader}
rules: [{nonResourceURLs: [/nodetrail], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: nodetrail-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodetrail-reader}
subjects: [{kind: ServiceAccount, namespace: people, name: reader}]
`)))
	answers(map[string]int{"": http.StatusUnauthorized, "nobody": http.StatusUnauthorized, "stranger": http.StatusForbidden, "reader": http.StatusOK})
	if _, body, err := w.trail.Get(page, tokens["reader"]); err != nil || !strings.Contains(string(body), `"e2e"`) {
		t.Errorf("%v: the overview is not this cluster's: %.300s", err, body)
	}
}
