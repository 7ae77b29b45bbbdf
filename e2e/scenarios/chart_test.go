package scenarios

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// values sets of the chart, as they are rendered in deploy/.
var manifests = []string{"nodetrail.yaml", "scale-out.yaml", "fleet.yaml"}

// chartUser is the rendered service account.
const chartUser = "system:serviceaccount:nodetrail:nodetrail"

// The chart's objects are valid to a real API server, and its pods pass the Pod Security Standard restricted. Its configuration runs with the rights of its
// own service account and nothing else: nodetrail is synced and serves, and nothing is forbidden to it. With any rule less, something is.
func TestChart(t *testing.T) {
	ctx := work.Context()
	root := plane.Must(plane.Root())(t)
	program := plane.Must(trail.Build(ctx, work))(t)
	dir := filepath.Join(work.Dir, "chart")
	plane.Check(t, os.Mkdir(dir, 0o755))
	webhook := plane.Must(trail.NewWebhook(dir))(t)
	policy := filepath.Join(dir, "policy.yaml") // all that the service account does is in the log
	plane.Check(t, os.WriteFile(policy, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n"), 0o600))
	p := plane.Must(plane.New(ctx, work, plane.Options{
		Mode: "Node,RBAC", Policy: policy, Flags: filepath.Join(root, "deploy", "kube-apiserver.flags"),
		AuditWebhook: webhook.Kubeconfig,
	}))(t)
	plane.Check(t, p.StartAPIServer(ctx))

	all := map[string][]map[string]any{}
	for _, name := range manifests {
		all[name] = plane.Must(plane.Documents(plane.Must(os.ReadFile(filepath.Join(root, "deploy", name)))(t)))(t)
	}
	// The namespaces and service accounts have to be there, for the others.
	plane.Check(t, create(p, all["nodetrail.yaml"], "Namespace", "ServiceAccount"))
	plane.Check(t, p.Create(ctx, object("v1", "ServiceAccount", "nodetrail", "default"))) // as a controller makes it
	for _, name := range manifests {
		t.Run("dry run of "+name, func(t *testing.T) { applyDry(t, p, all[name]) })
	}

	plane.Check(t, create(p, all["nodetrail.yaml"], "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ConfigMap"))
	c := newChart(t, p, program, dir, webhook, all["nodetrail.yaml"])
	c.start(t)
	plane.Check(t, plane.Eventually(ctx, "nodetrail has judged a request", func() error {
		if _, err := p.Node("worker-1").Do(ctx, http.MethodGet, "/api/v1/namespaces/shop/secrets/db", nil); err != nil {
			return err
		}
		m, err := c.trail.Metrics()
		if err != nil {
			return err
		}
		kinds := m["nodetrail_state_synced"].GetMetric()
		for _, k := range kinds {
			if k.GetGauge().GetValue() != 1 {
				return fmt.Errorf("not synced: %v", k.GetLabel())
			}
		}
		if len(kinds) < 10 || m.Sum("nodetrail_node_requests_total") == 0 {
			return fmt.Errorf("%d kinds are synced, and %v requests of nodes judged", len(kinds), m.Sum("nodetrail_node_requests_total"))
		}
		return nil
	}))
	plane.Check(t, c.trail.Stop())
	if refused := c.refused(t); len(refused) > 0 {
		t.Errorf("forbidden to the rendered service account: %q", refused)
	}

	// Each rule is needed.
	for _, o := range all["nodetrail.yaml"] {
		kind, _ := o["kind"].(string)
		rules, _ := o["rules"].([]any)
		for i := range rules {
			if kind == "ClusterRole" && i > 0 { // the first of them and the only one of the Role: each takes a start
				continue
			}
			less := append(append([]any{}, rules[:i]...), rules[i+1:]...)
			plane.Check(t, c.replaceRules(o, less))
			plane.Check(t, c.trail.Start())
			plane.Check(t, plane.Eventually(ctx, "something is forbidden without a rule", func() error {
				if err := c.trail.Process.Alive(); err != nil {
					return plane.Fatal(err)
				}
				if len(c.refused(t)) == 0 {
					return errors.New("nothing is")
				}
				return nil
			}))
			c.trail.Process.Stop(time.Minute) // it may still be starting
			plane.Check(t, c.replaceRules(o, rules))
		}
	}
}

// create creates the objects of some kinds.
func create(p *plane.Plane, all []map[string]any, kinds ...string) error {
	for _, kind := range kinds {
		for _, o := range all {
			if o["kind"] == kind {
				if err := p.Create(work.Context(), o); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// applyDry applies the objects, and makes the pods of the workloads, which the level restricted of the namespace has to let pass.
func applyDry(t *testing.T, p *plane.Plane, all []map[string]any) {
	t.Helper()
	ctx := work.Context()
	pods := 0
	for _, o := range all {
		r := plane.Must(p.ApplyDry(ctx, o))(t)
		if r.Code != http.StatusOK && r.Code != http.StatusCreated {
			t.Errorf("%s: %d %.500s", o["kind"], r.Code, r.Body)
		}
		spec, _ := o["spec"].(map[string]any)
		template, ok := spec["template"].(map[string]any)
		if !ok {
			continue
		}
		pods++
		inner := template["spec"].(map[string]any)
		volumes, _ := inner["volumes"].([]any)
		if claims, ok := spec["volumeClaimTemplates"].([]any); ok { // of which the controller makes volumes
			name := claims[0].(map[string]any)["metadata"].(map[string]any)["name"]
			inner["volumes"] = append(volumes, map[string]any{"name": name, "persistentVolumeClaim": map[string]any{"claimName": "claim"}})
		}
		pod := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "pod", "namespace": "nodetrail"}, "spec": inner}
		const path = "/api/v1/namespaces/nodetrail/pods?dryRun=All"
		if r := plane.Must(p.Admin().Do(ctx, http.MethodPost, path, pod))(t); r.Code != http.StatusCreated {
			t.Errorf("a pod of %s: %d %.500s", o["kind"], r.Code, r.Body)
		}
		// The level is in force.
		security := inner["securityContext"]
		delete(inner, "securityContext")
		if r := plane.Must(p.Admin().Do(ctx, http.MethodPost, path, pod))(t); r.Code != http.StatusForbidden || !strings.Contains(string(r.Body), `violates PodSecurity \"restricted`) {
			t.Errorf("a pod of %s without its securityContext: %d %.500s", o["kind"], r.Code, r.Body)
		}
		inner["securityContext"] = security
	}
	if pods == 0 {
		t.Error("no workload")
	}
}

// chart is nodetrail as the chart configures it, with what a pod has: the token of its service account, and the files of its volumes.
type chart struct {
	plane *plane.Plane
	trail *trail.Instance
	// known are the audit IDs of requests that were forbidden.
	known map[string]bool
}

func newChart(t *testing.T, p *plane.Plane, program, dir string, webhook *trail.Webhook, all []map[string]any) *chart {
	t.Helper()
	text := ""
	for _, o := range all {
		if data, ok := o["data"].(map[string]any); ok && o["kind"] == "ConfigMap" {
			text, _ = data["nodetrail.yaml"].(string)
		}
	}
	listen, health := plane.Must(plane.FreeAddress())(t), plane.Must(plane.FreeAddress())(t)
	// What is a volume or a port of the pod is a folder or an address here.
	for from, to := range map[string]string{
		"data: /var/lib/nodetrail\n": fmt.Sprintf("data: %q\n", filepath.Join(dir, "data")), "health: :9878\n": "health: " + health + "\n",
		"listen: :9876\n": "listen: " + listen + "\n", "listen: :9443\n": "listen: " + webhook.Address + "\n",
		"/etc/nodetrail-tls/tls.crt": webhook.Cert, "/etc/nodetrail-tls/tls.key": webhook.Key, "/etc/nodetrail-tls/clients.crt": webhook.CA,
	} {
		if strings.Count(text, from) != 1 {
			t.Fatalf("the chart's configuration has not %q once:\n%s", from, text)
		}
		text = strings.Replace(text, from, to, 1)
	}
	account := filepath.Join(dir, "serviceaccount")
	plane.Check(t, os.Mkdir(account, 0o755))
	token := plane.Must(p.ServiceAccountToken(work.Context(), "nodetrail", "nodetrail"))(t)
	for name, content := range map[string][]byte{"token": []byte(token), "ca.crt": p.CA.PEM, "namespace": []byte("nodetrail")} {
		plane.Check(t, os.WriteFile(filepath.Join(account, name), content, 0o600))
	}
	config := filepath.Join(dir, "nodetrail.yaml")
	plane.Check(t, os.WriteFile(config, []byte(text), 0o600))
	host, port, _ := strings.Cut(p.Address, ":")
	// A pod finds these where the kubelet puts them: in a mount namespace of its own, so that this machine has them nowhere.
	const mount = `mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && cp "$0"/* /run/secrets/kubernetes.io/serviceaccount/ &&
export KUBERNETES_SERVICE_HOST="$1" KUBERNETES_SERVICE_PORT="$2" && shift 2 && exec "$@"`
	return &chart{plane: p, known: map[string]bool{}, trail: trail.Existing(work, "chart", config, listen, health, "unshare", "--mount", "sh", "-c", mount, account, host, port, program)}
}

func (c *chart) start(t *testing.T) {
	t.Helper()
	plane.Check(t, c.trail.StartReady(work.Context()))
}

// refused are the requests of the service account that were forbidden since the last call.
func (c *chart) refused(t *testing.T) []string {
	t.Helper()
	var out []string
	plane.Check(t, c.plane.Log.Each(func(e *plane.Event) {
		if e.User.Username == chartUser && e.ResponseStatus.Code == http.StatusForbidden && !c.known[e.AuditID] {
			c.known[e.AuditID] = true
			out = append(out, e.Verb+" "+e.RequestURI)
		}
	}))
	return out
}

// replaceRules gives a role other rules.
func (c *chart) replaceRules(o map[string]any, rules []any) error {
	changed := map[string]any{}
	for k, v := range o {
		changed[k] = v
	}
	changed["rules"] = rules
	b, err := json.Marshal(changed)
	if err != nil {
		return err
	}
	path := "/apis/rbac.authorization.k8s.io/v1/clusterroles/"
	meta := o["metadata"].(map[string]any)
	if ns, ok := meta["namespace"].(string); ok {
		path = "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/roles/"
	}
	_, err = c.plane.Admin().Must(work.Context(), http.MethodPut, path+meta["name"].(string), b)
	return err
}
