package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
)

// apiserver is a real one with hollow kubelets: its audit webhook leads to the gateway, its audit log is the reference.
type apiserver struct {
	program string
	plane   *plane.Plane
	cancel  context.CancelFunc
	ended   chan error
}

// objects are there before the state is recorded. Nothing changes afterwards, so that analyze and the analyzers judge by the same. In one namespace
// nodes may read secrets by RBAC, which is what nodetrail is there to find; in the other the Node authorizer alone decides.
const objects = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: ` + probeNamespace + `}}
---
{apiVersion: v1, kind: Secret, metadata: {namespace: ` + probeNamespace + `, name: ` + probeSecret + `}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: secret-reader}, rules: [{apiGroups: [""], resources: [secrets], verbs: [get]}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: ` + probeNamespace + `, name: old-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: secret-reader}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: Group, name: "system:nodes"}]
`

// nodes have a hollow kubelet and a pod each, which uses one of the secrets.
const nodes = 3

func nodeName(n int) string { return fmt.Sprint("node-", n%nodes) }

func secret(n int) string { return fmt.Sprint("secret-", n%nodes) }

func (a *apiserver) name() string {
	return fmt.Sprintf("kube-apiserver %s with %d hollow kubelets", a.plane.Programs.Kubernetes, nodes)
}

func (a *apiserver) log() string { return a.plane.AuditLogPath() }

func (a *apiserver) processes() map[string]*plane.Process {
	return map[string]*plane.Process{"kube-apiserver": a.plane.APIServer()}
}

func (a *apiserver) start(t *testing.T, webhook string) []string {
	t.Helper()
	ctx, dir := work.Context(), t.TempDir()
	root := plane.Must(plane.Root())(t)
	a.plane = plane.Must(plane.New(ctx, work, plane.Options{
		Policy: filepath.Join(root, "deploy", "audit-policy.yaml"), Flags: filepath.Join(root, "deploy", "kube-apiserver.flags"),
		AuditWebhook: webhook, Mode: "Node,RBAC",
		// There are no controllers that would make service accounts.
		APIServer: []string{"--disable-admission-plugins=ServiceAccount"},
	}))(t)
	plane.Check(t, a.plane.StartAPIServer(ctx))
	plane.Check(t, a.plane.Apply(ctx, []byte(objects)))
	var names []string
	for n := range nodes {
		names = append(names, nodeName(n))
		plane.Check(t, a.plane.Apply(ctx, fmt.Appendf(nil, `{apiVersion: v1, kind: Secret, metadata: {namespace: shop, name: %s}}
---
{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: on-%s}, spec: {nodeName: %s, containers: [{name: main, image: registry.example/main}],
  volumes: [{name: it, secret: {secretName: %s}}]}}
`, secret(n), nodeName(n), nodeName(n), secret(n))))
	}
	plane.Check(t, a.plane.StartKubelets(ctx, names...))
	for _, node := range names {
		plane.Check(t, plane.Eventually(ctx, "the pod of "+node+" runs", func() error {
			var pod struct{ Status struct{ Phase string } }
			err := a.plane.Admin().Get(ctx, "/api/v1/namespaces/shop/pods/on-"+node, &pod)
			if err == nil && pod.Status.Phase != "Running" {
				err = fmt.Errorf("it is %s", pod.Status.Phase)
			}
			return err
		}))
	}
	state := []string{a.record(t, filepath.Join(dir, "journal.jsonl"))}
	ctx, a.cancel = context.WithCancel(context.Background())
	a.ended = make(chan error, 1)
	go func() { a.ended <- a.busy(ctx) }()
	t.Cleanup(a.cancel)
	return state
}

// busy lets nodes ask for secrets that are theirs and that are not, and for much that all may have, so that there is always something on its way when a
// process is killed. It returns nil when ctx ends.
func (a *apiserver) busy(ctx context.Context) error {
	for n := 0; ; n++ {
		node, path := nodeName(n), "/api/v1/namespaces/shop/secrets/"+secret(n)
		switch n / nodes % 4 {
		case 1:
			path = "/api/v1/namespaces/shop/secrets/" + secret(n+1)
		case 2:
			path = "/api/v1/nodes/" + node
		case 3:
			path = "/api/v1/pods?fieldSelector=spec.nodeName%3D" + node
		}
		// Not with ctx: a request that is cut off is logged without an answer.
		if _, err := a.plane.Node(node).Do(context.WithoutCancel(ctx), http.MethodGet, path, nil); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// record has nodetrail record all kinds once.
func (a *apiserver) record(t *testing.T, path string) string {
	t.Helper()
	kubeconfig := plane.Must(a.plane.Kubeconfig("record", "record", "system:masters"))(t)
	p := plane.Must(work.Start("record", a.program, []string{"record", "--kubeconfig", kubeconfig, "--output", path}))(t)
	plane.Check(t, plane.Eventually(work.Context(), "the state is recorded", func() error {
		if err := p.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return listed(path)
	}))
	p.Stop(time.Minute)
	if !p.Success() {
		t.Fatalf("record: %s", p.Tail(2000))
	}
	return path
}

// listed is nil when a journal has all of each kind that matters.
func listed(path string) error {
	missing := map[string]bool{}
	for _, kind := range []string{"Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "VolumeAttachment", "ResourceSlice",
		"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		missing[kind] = true
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(b) {
		var e struct {
			Type   string
			Object struct {
				Kind     string
				Metadata struct{ Annotations map[string]string }
			}
		}
		if json.Unmarshal(line, &e) == nil && e.Type == "BOOKMARK" && e.Object.Metadata.Annotations["k8s.io/initial-events-end"] == "true" {
			delete(missing, e.Object.Kind)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("it has no end of the list of %v", missing)
	}
	return nil
}

func (a *apiserver) probe(ctx context.Context, node string) (time.Time, error) {
	r, err := a.plane.Node(node).With("curl/8.5.0").Do(ctx, http.MethodGet, "/api/v1/namespaces/"+probeNamespace+"/secrets/"+probeSecret, nil)
	if err != nil {
		return time.Time{}, err
	}
	if r.Code != http.StatusOK {
		return time.Time{}, fmt.Errorf("the API server answered %d: %.200s", r.Code, r.Body)
	}
	return r.Sent, nil
}

// stop ends the kubelets and then the API server, which sends what it has for the webhook before it ends. Of what happens meanwhile it may log more.
func (a *apiserver) stop(t *testing.T) time.Time {
	t.Helper()
	a.cancel()
	plane.Check(t, <-a.ended)
	for _, k := range a.plane.Kubelets {
		k.Kill()
	}
	end := time.Now()
	a.plane.StopAPIServer()
	return end
}
