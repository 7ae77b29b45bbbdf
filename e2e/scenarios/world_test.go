package scenarios

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/receiver"
	"github.com/nodetrail/nodetrail/e2e/result"
	"github.com/nodetrail/nodetrail/e2e/trail"
)

// world is a control plane with nodetrail and Alertmanager next to it.
type world struct {
	ctx     context.Context
	name    string
	program string
	plane   *plane.Plane
	trail   *trail.Instance
	alerts  *receiver.Receiver
	// order is whether Node is asked before RBAC now, so that annotations tell what it said.
	order  bool
	result result.Scenes
}

// skew is nodetrail's default.
const skew = time.Second

// newWorld starts one, with further lines for nodetrail's configuration.
func newWorld(t *testing.T, name string, options plane.Options, config string, nodes ...string) *world {
	t.Helper()
	w := newServer(t, name, options, config)
	plane.Check(t, w.plane.StartControllers(w.ctx))
	plane.Check(t, w.plane.StartKubelets(w.ctx, nodes...))
	return w
}

// newServer starts one without controllers and kubelets.
func newServer(t *testing.T, name string, options plane.Options, config string) *world {
	t.Helper()
	ctx := work.Context()
	w := &world{ctx: ctx, name: name, program: plane.Must(trail.Build(ctx, work))(t), order: strings.HasPrefix(options.Mode, "Node")}
	w.alerts = plane.Must(receiver.New(ctx, work, name))(t)
	t.Cleanup(func() { plane.Check(t, w.alerts.Close()) })
	pair := plane.Must(trail.Beside(ctx, work, name, trail.Options{Plane: options, Program: w.program, Alertmanager: w.alerts.Manager, Config: config}))(t)
	w.plane, w.trail = pair.Plane, pair.Trail
	return w
}

// minor is the N of the Kubernetes 1.N that runs.
func (w *world) minor() int { return w.plane.Programs.Minor() }

// answer is what came of a request: the API server's answer, its audit event, and nodetrail's verdict on it.
type answer struct {
	*plane.Reply
	event   *plane.Event
	verdict *trail.Verdict
}

// ask sends a request of a node and waits for nodetrail's verdict on it, which is held against the API server's word.
func (w *world) ask(t *testing.T, c *plane.Client, method, path string, body any) *answer {
	t.Helper()
	r, err := c.Do(w.ctx, method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return w.verdictOn(t, method+" "+path, r)
}

// compare holds a verdict against the API server's annotations and its NODE DENY lines.
func (w *world) compare(t *testing.T, what string, a *answer) {
	t.Helper()
	v, e := a.verdict, a.event
	if v.Code != a.Code || v.Observed.Decision != e.Decision() || v.Observed.Reason != e.Reason() {
		t.Errorf("%s: answered %d, decision %q for %q; nodetrail read %d, %q for %q", what, a.Code, e.Decision(), e.Reason(), v.Code, v.Observed.Decision, v.Observed.Reason)
	}
	if !w.order || v.Race || v.Verdict == "unknown" {
		return
	}
	want := "deny"
	if e.NodeAllowed() {
		want = "allow"
	}
	if v.Verdict != want || v.Observed.NodeVerdict != want {
		t.Errorf("%s: the Node authorizer's word was %s (%q); nodetrail says %s (%q, %q) and read %q", what, want, e.Reason(), v.Verdict, v.Reason, v.Detail, v.Observed.NodeVerdict)
	}
	if want == "allow" || v.Reason == "" { // what no rule allows is refused without a reason and without a NODE DENY line
		return
	}
	denials, err := w.plane.NodeDenials()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(denials, func(d plane.Denial) bool {
		return d.Of(v.Node, v.Verb, v.Namespace, v.Resource, v.Subresource, v.Name, v.Reason)
	}) {
		t.Errorf("%s: the API server has logged no NODE DENY like %q", what, v.Reason)
	}
	if first, _, _ := strings.Cut(e.Reason(), "\n"); e.Decision() == "forbid" && first != v.Reason {
		t.Errorf("%s: the API server's reason is %q, nodetrail's %q", what, first, v.Reason)
	}
}

// settled asks until the answer is no race, beginning when what happened before is far enough away.
func (w *world) settled(t *testing.T, c *plane.Client, method, path string, body any) *answer {
	t.Helper()
	for end := time.Now().Add(plane.Patience()); ; {
		w.later(skew + skew/4)
		if a := w.ask(t, c, method, path, body); !a.verdict.Race {
			return a
		} else if time.Now().After(end) {
			t.Fatalf("%s %s is still a race: %s", method, path, a.verdict.Detail)
		}
	}
}

// later lets time go by: what is less than skew from a change is a race.
func (w *world) later(d time.Duration) {
	select {
	case <-w.ctx.Done():
	case <-time.After(d):
	}
}

// expect is settled for a get, which has to be answered and judged like this, with these findings.
func (w *world) expect(t *testing.T, c *plane.Client, path string, code int, verdict string, findings ...string) *answer {
	t.Helper()
	a := w.settled(t, c, "GET", path, nil)
	slices.Sort(findings)
	got := slices.Sorted(slices.Values(a.verdict.Findings))
	if a.Code != code || a.verdict.Verdict != verdict || !slices.Equal(got, findings) {
		t.Errorf("GET %s: %d, %s, findings %q; want %d, %s, %q; reason %q, detail %q, API server %q", path, a.Code, a.verdict.Verdict, got, code, verdict, findings,
			a.verdict.Reason, a.verdict.Detail, a.event.Reason())
	}
	return a
}

func (w *world) eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	if err := plane.Eventually(w.ctx, what, func() error {
		if err := w.trail.Process.Alive(); err != nil {
			return plane.Fatal(err)
		}
		return ok()
	}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) create(t *testing.T, o map[string]any) {
	t.Helper()
	plane.Check(t, w.plane.Create(w.ctx, o))
}

// namespace makes one, and waits until pods can be made in it.
func (w *world) namespace(t *testing.T, name string) {
	t.Helper()
	w.create(t, object("v1", "Namespace", "", name))
	w.eventually(t, "there is a service account", func() error {
		var o struct{}
		return w.plane.Admin().Get(w.ctx, "/api/v1/namespaces/"+name+"/serviceaccounts/default", &o)
	})
}

// synced waits until nodetrail watches all that decides: what is asked for from then on is in no hole.
func (w *world) synced(t *testing.T) {
	t.Helper()
	calm := 0
	w.eventually(t, "the state is synced", func() error {
		m, err := w.trail.Metrics()
		if err != nil {
			return err
		}
		for _, kind := range []string{"Pod", "Node", "PersistentVolume", "VolumeAttachment", "ResourceSlice", "PodCertificateRequest", "ClusterRole", "ClusterRoleBinding"} {
			if m.Sum("nodetrail_state_synced", "kind="+kind) != 1 {
				calm = 0
				return fmt.Errorf("%s is not", kind)
			}
		}
		if lag := m.Sum("nodetrail_state_lag_seconds"); lag > 5 {
			calm = 0
			return fmt.Errorf("it is %v s behind", lag)
		}
		// A kind that an API server has just refused does not count as behind.
		if calm++; calm < 40 {
			return fmt.Errorf("only just")
		}
		return nil
	})
}

func (w *world) admin(t *testing.T, method, path string, body any) *plane.Reply {
	t.Helper()
	return plane.Must(w.plane.Admin().Must(w.ctx, method, path, body))(t)
}

// uid is that of the object at the path.
func (w *world) uid(t *testing.T, path string) string {
	t.Helper()
	var o struct{ Metadata struct{ UID string } }
	plane.Check(t, w.plane.Admin().Get(w.ctx, path, &o))
	return o.Metadata.UID
}

// deletePod deletes a pod at once, without waiting for its kubelet.
func (w *world) deletePod(t *testing.T, namespace, name string) {
	t.Helper()
	w.admin(t, http.MethodDelete, podPath(namespace, name)+"?gracePeriodSeconds=0", nil)
	w.podGone(t, namespace, name)
}

func podPath(namespace, name string) string {
	return "/api/v1/namespaces/" + namespace + "/pods/" + name
}

func (w *world) podGone(t *testing.T, namespace, name string) {
	t.Helper()
	path := podPath(namespace, name)
	plane.Check(t, plane.Eventually(w.ctx, "the pod is gone", func() error {
		r, err := w.plane.Admin().Do(w.ctx, http.MethodGet, path, nil)
		if err == nil && r.Code != http.StatusNotFound {
			err = fmt.Errorf("%d", r.Code)
		}
		return err
	}))
}
