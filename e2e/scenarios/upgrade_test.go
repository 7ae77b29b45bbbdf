package scenarios

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

// TestUpgrade replaces an API server by one of the next minor, on one etcd and with one audit log, as a rolling upgrade does. nodetrail runs all the
// time and is given nothing: outside of races no verdict and no reason differs from the API servers', and the report has both versions with their
// hours. Controllers and kubelets of the newer minor come last, as in any upgrade.
//
// Seen to fail with a nodetrail that takes one version for the whole log, and with one that takes what two versions differ on for no race.
func TestUpgrade(t *testing.T) {
	began := time.Now()
	to := plane.Must(plane.Build(work.Context()))(t)
	from := plane.Must(plane.BuildAPIServer(work.Context(), fmt.Sprintf("1.%d", to.Minor()-1)))(t)
	w := newServer(t, "upgrade", plane.Options{Mode: "Node,RBAC", First: from, Host: "control-plane-1"}, "")
	names := []string{fmt.Sprintf("1.%d", from.Minor()), fmt.Sprintf("1.%d", to.Minor())}
	for _, n := range []string{"up-1", "up-2"} {
		w.create(t, object("v1", "Node", "", n))
	}
	w.create(t, object("v1", "Namespace", "", "up"))
	w.create(t, object("v1", "ServiceAccount", "up", "default"))
	w.create(t, secret("up", "db"))
	w.create(t, pod("up", "web", "up-1", "db"))
	w.synced(t)
	w.later(2 * skew)

	differ := 0
	look := func(phase int, requests []*request) {
		t.Helper()
		for _, r := range requests {
			a := w.verdictOn(t, r.path, r.reply)
			if r.path != certificates {
				continue
			}
			// The older minor refuses it. While both write, and for a minute around that, nobody can know which is asked.
			if phase == 0 && (a.verdict.Verdict != "deny" || a.verdict.Race) {
				t.Errorf("with %s alone: %s (race %v, %s)", names[0], a.verdict.Verdict, a.verdict.Race, a.verdict.Detail)
			}
			if phase == 1 && !a.verdict.Race {
				t.Errorf("with both: %s (%s), and it is no race", a.verdict.Verdict, a.verdict.Detail)
			}
			if a.verdict.Race && strings.Contains(a.verdict.Detail, names[0]+" and "+names[1]) {
				differ++
			}
		}
	}
	const phase = 20 * time.Second
	u := &upgrade{world: w, agent: "kubelet/" + from.Kubernetes}
	t.Log(names[0] + " alone")
	look(0, u.traffic(t, phase)) // which waits until they are judged: nothing shows the second API server then
	second := plane.Must(w.plane.AddAPIServer(w.ctx, to, "control-plane-2"))(t)
	t.Log("both")
	both := u.traffic(t, phase+phase/2)
	w.plane.RemoveAPIServer(w.plane.APIServer())
	t.Log(names[1] + " alone")
	plane.Check(t, second.Alive())
	plane.Check(t, w.plane.StartControllers(w.ctx))
	plane.Check(t, w.plane.StartKubelets(w.ctx, "node-1"))
	after := u.traffic(t, phase)

	look(1, both)
	look(2, after)
	testBooks(t, w)
	w.differ(t, both)

	r := plane.Must(w.trail.Report(w.ctx))(t)
	said := map[string]bool{}
	for _, v := range r.Authorization.Versions {
		name, _, _ := strings.Cut(v.Name, " ")
		also, _, _ := strings.Cut(v.Also, " ")
		said[name], said[also] = true, true
		if !v.From.Before(v.To) || v.From.After(time.Now()) || v.To.Before(began) || !v.Known || v.Against != 0 {
			t.Errorf("the report says %+v", v)
		}
	}
	lines := r.Authorization.VersionLines()
	for _, name := range names {
		if !said[name] {
			t.Errorf("the report does not have %s: %q", name, lines)
		}
	}
	if differ == 0 {
		t.Error("no request was a race because the versions differ on it")
	}
	x := &w.result
	plane.Check(t, result.Write("upgrade", &result.Upgrade{
		From: from.Kubernetes, To: to.Kubernetes, Versions: lines, Judged: x.Judged, Compared: x.Compared, Agree: x.Agree, RacesCompared: x.RacesCompared,
		RacesAgree: x.RacesAgree, Differ: int64(differ), Lagged: x.Lagged, Seconds: time.Since(began).Seconds(),
	}))
}

// certificates, for the node that asks, is what minors up to 1.36 refuse by default, and 1.37 allows.
const certificates = "/apis/certificates.k8s.io/v1/podcertificaterequests?fieldSelector=spec.nodeName%3DNODE"

// differ is an error unless both API servers answered what they differ on while both ran.
func (w *world) differ(t *testing.T, both []*request) {
	t.Helper()
	var codes []int
	for _, r := range both {
		if r.path == certificates && !slices.Contains(codes, r.reply.Code) {
			codes = append(codes, r.reply.Code)
		}
	}
	if len(codes) != 2 {
		t.Errorf("while both API servers ran they answered %v", codes)
	}
}

// upgrade is who asks meanwhile.
type upgrade struct {
	*world
	agent string
	pods  int
}

// request is one that was answered.
type request struct {
	path  string
	reply *plane.Reply
}

// traffic lets two nodes ask for a while for what is theirs and for what is not, while pods come and go. Connections are made anew, so that all API
// servers are asked.
func (u *upgrade) traffic(t *testing.T, length time.Duration) (out []*request) {
	t.Helper()
	paths := []string{
		"/api/v1/namespaces/up/secrets/db", certificates, "/api/v1/namespaces/up/configmaps/none", "/api/v1/nodes/up-1", "/api/v1/nodes/up-2",
		"/api/v1/pods", "/api/v1/namespaces/up/serviceaccounts/default", "/api/v1/persistentvolumes/none", "/apis/storage.k8s.io/v1/volumeattachments/none",
		"/api/v1/secrets", "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3DNODE", "/api/v1/services?limit=1",
	}
	for end, i := time.Now().Add(length), 0; time.Now().Before(end); i++ {
		if i%40 == 0 {
			u.pods++
			name := fmt.Sprintf("guest-%d", u.pods)
			u.create(t, secret("up", name))
			u.create(t, pod("up", name, "up-2", name))
			paths = append(paths[:12:12], "/api/v1/namespaces/up/secrets/"+name)
		}
		if i%40 == 30 {
			u.deletePod(t, "up", fmt.Sprintf("guest-%d", u.pods))
		}
		u.plane.Reconnect()
		node, path := []string{"up-1", "up-2"}[i/len(paths)%2], paths[i%len(paths)]
		if r, err := u.plane.Node(node).With(u.agent).Do(u.ctx, http.MethodGet, strings.ReplaceAll(path, "NODE", node), nil); err == nil { // a connection may end with its API server
			out = append(out, &request{path, r})
		}
		u.later(100 * time.Millisecond)
	}
	return out
}
