package confined

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
	"github.com/nodetrail/nodetrail/report"
)

// steal lets somebody use the node's certificate from another address from now on, who calls itself a kubelet and asks for what the node may have. At once
// nobody can say any more who holds the credential; that two do shows when both have used it for minutes.
func (c *cluster) steal(t *testing.T, node string) {
	t.Helper()
	held := c.held[node]
	thief := c.Plane.As(plane.Identity{Held: &held, From: thiefAddress})
	c.get(t, thief, "/api/v1/nodes/"+node, http.StatusOK)
	go func() {
		for c.ctx.Err() == nil {
			c.later(5 * time.Second)
			_, _ = thief.Do(c.ctx, http.MethodGet, "/api/v1/nodes/"+node, nil) // the API server is restarted meanwhile
		}
	}()
}

// doubted waits until the answer is that nobody can say who holds the credential.
func (c *cluster) doubted(t *testing.T) {
	c.eventually(t, "nobody can say who holds the credential", func() error {
		r, err := c.stored()
		if err != nil {
			return err
		}
		x := checkOf(r, "one-holder")
		if r.Confinement.Verdict != "not enough evidence" || x.State != "unproven" || !slices.ContainsFunc(x.Evidence, func(i report.CheckItem) bool {
			return i.Node == "node-1" && i.Value == thiefAddress
		}) {
			return fmt.Errorf("it says %s:\n  %s", r.Confinement.Verdict, open(r))
		}
		return nil
	})
}

// stolen waits until it shows that two use the credential.
func (c *cluster) stolen(t *testing.T) {
	ok := func(r *trail.Report) error {
		x := checkOf(r, "one-holder")
		if !slices.ContainsFunc(x.Evidence, func(i report.CheckItem) bool {
			return i.State == "failed" && i.Node == "node-1" && i.Value == "second-address"
		}) {
			return fmt.Errorf("it says %s:\n  %s", r.Confinement.Verdict, open(r))
		}
		return nil
	}
	c.eventually(t, "run's store names the second address", func() error {
		r, err := c.Trail.Report(c.ctx) // what shows after minutes is of a time before the last minute
		if err != nil {
			return err
		}
		return ok(r)
	})
	plane.Check(t, ok(plane.Must(c.analyzed(time.Now()))(t)))
}

// bind gives a subject a role with one rule.
func (c *cluster) bind(t *testing.T, name, subject, rule string) (undo func()) {
	t.Helper()
	plane.Check(t, c.Plane.Apply(c.ctx, fmt.Appendf(nil, `{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %[1]s}, rules: [%[3]s]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects: [%[2]s]
`, name, subject, rule)))
	return func() {
		_ = plane.Must(c.Plane.Admin().Must(c.ctx, http.MethodDelete, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/"+name, nil))(t)
	}
}

const (
	readSecrets  = `{apiGroups: [""], resources: [secrets], verbs: [get, list]}`
	groupOfNodes = `{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}`
)

// binds gives all nodes a right that is not theirs.
func (c *cluster) binds(t *testing.T) func() {
	return c.bind(t, "legacy-secrets", groupOfNodes, readSecrets)
}

// reads has a node use such a right.
func (c *cluster) reads(t *testing.T) func() {
	undo := c.bind(t, "more-secrets", groupOfNodes, readSecrets)
	c.later(2 * time.Second) // the graph of the API server, and ours, is far from any change of what the node has
	held := c.held["node-2"]
	kubelet := c.Plane.As(plane.Identity{Held: &held, From: addresses()["node-2"]})
	c.get(t, kubelet, "/api/v1/namespaces/shop/secrets/root", http.StatusOK)
	return undo
}

// empowers runs a DaemonSet whose account may read all secrets.
func (c *cluster) empowers(t *testing.T) func() {
	plane.Check(t, c.Plane.Apply(c.ctx, []byte(`{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: shop, name: agent}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {namespace: shop, name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {serviceAccountName: agent, terminationGracePeriodSeconds: 1, containers: [{name: main, image: registry.example/agent}]}
`)))
	return c.bind(t, "agent", `{kind: ServiceAccount, namespace: shop, name: agent}`, readSecrets)
}

// approves has an administrator approve what somebody asked for whose requests no controller approves: a certificate of a node that is to be.
func (c *cluster) approves(t *testing.T) func() {
	undo := c.bind(t, "jane", `{apiGroup: rbac.authorization.k8s.io, kind: User, name: jane}`, `{apiGroups: [certificates.k8s.io], resources: [certificatesigningrequests], verbs: [create]}`)
	c.later(time.Second)
	admin := c.Plane.Admin()
	name, key := c.ask(t, c.Plane.As(plane.Identity{User: "jane"}).With(admin.Agent), "node-4")
	var request map[string]any
	plane.Check(t, admin.Get(c.ctx, requests+"/"+name, &request))
	request["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Approved", "status": "True", "reason": "KubectlApprove", "message": "by hand"}}}
	_ = plane.Must(admin.Must(c.ctx, http.MethodPut, requests+"/"+name+"/approval", request))(t)
	_ = c.issued(t, admin, name, key)
	return undo
}

// outsider is a kubelet whose certificate lacks the group: it lives on RBAC.
func (c *cluster) outsider(t *testing.T) func() {
	undo := c.bind(t, "outsider", `{apiGroup: rbac.authorization.k8s.io, kind: User, name: "system:node:node-5"}`, `{apiGroups: [""], resources: [nodes], verbs: [get]}`)
	c.later(time.Second)
	c.get(t, c.Plane.As(plane.Identity{User: "system:node:node-5"}), "/api/v1/nodes/node-1", http.StatusOK)
	return undo
}

// unrestricted restarts the API server without NodeRestriction: the probe passes, and a node gives itself a label that is not for it. Each is named by its
// request within a minute.
func (c *cluster) unrestricted(t *testing.T) func() {
	c.Plane.StopAPIServer()
	c.Plane.Options.Unrestricted = true
	plane.Check(t, c.Plane.StartAPIServer(c.ctx))
	c.synced(t) // what a write changes, only who watches Nodes knows
	began := time.Now()
	probe := c.probe(t)
	held := c.held["node-3"]
	kubelet := c.Plane.As(plane.Identity{Held: &held, From: addresses()["node-3"]})
	label := plane.Must(kubelet.Must(c.ctx, http.MethodPatch, "/api/v1/nodes/node-3",
		map[string]any{"metadata": map[string]any{"labels": map[string]string{"node-restriction.kubernetes.io/trusted": "yes"}}}))(t)
	if probe.Code != http.StatusCreated {
		t.Errorf("the probe: %d %s", probe.Code, probe.Body)
	}
	c.eventually(t, "both requests are named", func() error {
		r, err := c.stored()
		if err != nil {
			return err
		}
		x := checkOf(r, "node-restriction-on")
		for _, id := range []string{probe.AuditID, label.AuditID} {
			if !slices.ContainsFunc(x.Evidence, func(i report.CheckItem) bool { return i.State == "failed" && slices.Contains(i.AuditIDs, id) }) {
				return fmt.Errorf("%s is not: %+v", id, x.Evidence)
			}
		}
		return nil
	})
	if took := time.Since(began); took > time.Minute {
		t.Errorf("they are named only after %s", took)
	}
	return func() {}
}

// synced waits until nodetrail watches Nodes again.
func (c *cluster) synced(t *testing.T) {
	t.Helper()
	calm := 0
	c.eventually(t, "the state is synced", func() error {
		m, err := c.Trail.Metrics()
		if err != nil {
			return err
		}
		if calm++; m.Sum("nodetrail_state_synced", "kind=Node") != 1 || m.Sum("nodetrail_state_lag_seconds") > 5 {
			calm = 0
		}
		if calm < 40 {
			return fmt.Errorf("only just, or it is not")
		}
		return nil
	})
	c.later(2 * time.Second)
}

// bear has the token used for a certificate of a node that lives, by somebody else, and for that of a node that is made anew. Kubernetes signs both.
func (c *cluster) bear(t *testing.T) {
	t.Helper()
	c.Plane.Kubelets["node-3"].Kill()
	_ = c.certificate(t, c.Plane.As(plane.Identity{Token: token, From: strangerAddress}), "node-2")
	c.join(t, "node-3")
	plane.Check(t, c.Plane.NodesReady(c.ctx, "node-3"))
}

// births waits for what there is to say of the certificates since then: that of the node that lives is critical, the other low, and nothing else is found.
func (c *cluster) births(t *testing.T, began time.Time) {
	want := map[string]string{"node-2": "live-node-signed critical", "node-3": "known-node-again low"}
	ok := func(r *trail.Report) error {
		got := map[string]string{}
		for i := range r.Findings {
			f := &r.Findings[i]
			if f.Rule != "node-bootstrap-impersonation" && f.Rule != "bootstrap-token-misuse" || f.Last.Before(began.Add(-time.Second)) {
				continue
			}
			if said := string(f.Reason) + " " + f.Severity; want[f.Node] != said {
				return plane.Fatal(fmt.Errorf("a finding too many: %s: %s: %s", f.Node, said, f.Message))
			}
			got[f.Node] = f.Severity
		}
		if len(got) != len(want) {
			return fmt.Errorf("it has %v", got)
		}
		return nil
	}
	c.eventually(t, "the report has both certificates", func() error {
		r, err := c.Trail.Report(c.ctx)
		if err != nil {
			return err
		}
		return ok(r)
	})
	plane.Check(t, ok(plane.Must(c.analyzed(time.Now()))(t)))
}
