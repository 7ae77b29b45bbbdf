package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/e2e/plane"
	"github.com/nodetrail/nodetrail/e2e/result"
)

// TestScenarios plays scenes on one control plane, one after the other.
func TestScenarios(t *testing.T) {
	w := newWorld(t, "scenes", withDevices(t, plane.Options{Mode: "Node,RBAC"}), "", "node-1", "node-2", "node-3")
	for _, scene := range []struct {
		name  string
		play  func(*testing.T, *world)
		since int
	}{
		{"blog experiment", testBlog, 0},
		{"latency", testLatency, 0},
		{"pod name reused", testNameReused, 0},
		{"ephemeral container", testEphemeral, 0},
		{"volume attachment", testVolumeAttachment, 0},
		{"volume and claim", testVolumeClaim, 0},
		{"resource slices and claims", testResources, 33},
		{"service account tokens", testTokens, 0},
		{"shared credential", testSharedCredential, 0},
		{"secret grant", testSecretGrant, 0},
		{"kubelet outside the group", testOutsider, 0},
		{"undifferentiated name", testUndifferentiated, 0},
		{"letter case", testLetterCase, 0},
		{"padded reads", testPadded, 0},
		{"foreign write", testForeignWrite, 0},
		{"writes of nodes", testWrites, 0},
		{"token audiences", testAudiences, 0},
		{"impersonated node", testImpersonation, 36},
		{"suggested impersonation", testSuggestedImpersonation, 36},
		{"metrics", testMetrics, 0},
		{"pages", testPages, 0},
		{"apiserver restarted", testAPIServerRestart, 0},
		{"nodetrail killed", testKilled, 0},
		{"watch cache forgets", testRelist, 0},
		{"rights too small", testSmallRights, 0},
		{"enumeration", testEnumeration, 0},
		{"version found in the log", testVersion, 0},
		{"credential IDs", testCredentialIDs, 0},
	} {
		if !has(t, scene.name, scene.since) {
			continue
		}
		began := time.Now()
		if t.Run(scene.name, func(t *testing.T) { scene.play(t, w) }) {
			w.result.Scenes = append(w.result.Scenes, result.Scene{Name: scene.name, Seconds: time.Since(began).Seconds()})
		}
	}
	t.Run("books", func(t *testing.T) { testBooks(t, w) })
	w.result.Kubernetes, w.result.Etcd = w.plane.Programs.Kubernetes, w.plane.Programs.Etcd
	plane.Check(t, result.Write("scenarios", w.result))
}

// In the end the sums have to be the same everywhere: as many NODE DENY lines as denials in the audit log, and as nodetrail read there; and no
// disagreement but where the API server refused what it would have allowed with its graph complete, which nodetrail says.
func testBooks(t *testing.T, w *world) {
	denied := map[string]bool{}
	plane.Check(t, w.plane.Log.Each(func(e *plane.Event) {
		u := e.As()
		if name, ok := strings.CutPrefix(u.Username, "system:node:"); ok && name != "" && slices.Contains(u.Groups, "system:nodes") && !e.NodeAllowed() {
			denied[e.AuditID] = true
		}
	}))
	silent := map[string]bool{} // what no rule allows is refused without a reason and without a NODE DENY line, unless it is about pods
	lag := map[string]bool{}
	w.eventually(t, "nodetrail has read them all", func() error {
		lines, err := w.trail.Verdicts()
		if err != nil {
			return err
		}
		read := map[string]bool{}
		for _, v := range lines {
			if v.Observed.NodeVerdict == "deny" {
				read[v.AuditID] = true
				if v.Verdict == "deny" && v.Reason == "" && v.Resource != "pods" {
					silent[v.AuditID] = true
				}
			}
			if slices.Contains(v.Findings, "authorizer-lag") {
				lag[v.AuditID] = true
			}
		}
		for id := range denied {
			if !read[id] {
				return fmt.Errorf("%d of %d, not %s", len(read), len(denied), id)
			}
		}
		if len(read) != len(denied) {
			return plane.Fatal(fmt.Errorf("%d denials in the audit log, nodetrail read %d", len(denied), len(read)))
		}
		return nil
	})
	if denials := plane.Must(w.plane.NodeDenials())(t); len(denied)-len(silent) != len(denials) {
		t.Errorf("the API server logged NODE DENY %d times, and %d denials with a reason in its audit log", len(denials), len(denied)-len(silent))
	}
	r := plane.Must(w.trail.Report(w.ctx))(t)
	for _, d := range r.Agreement.Disagree {
		if d.Verdict != "allow" || d.Observed != "deny" || !lag[d.AuditID] {
			t.Errorf("a disagreement outside of races that is not the API server's lag: %+v", d)
		}
	}
	if n := int64(len(r.Agreement.Disagree)); r.Agreement.Compared-r.Agreement.Agree != n || r.Agreement.DisagreeMore != 0 {
		t.Errorf("%+v", r.Agreement)
	}
	if r.Agreement.Reasons.Equal != r.Agreement.Reasons.Compared {
		t.Errorf("reasons: %+v", r.Agreement.Reasons)
	}
	x := &w.result
	x.Judged, x.Denials, x.Lagged = r.Events.Judged, int64(len(denied)), int64(len(lag))
	x.Compared, x.Agree, x.RacesCompared, x.RacesAgree = r.Agreement.Compared, r.Agreement.Agree, r.Agreement.Races.Compared, r.Agreement.Races.Agree
	t.Logf("%d judged, %d denied, %d unknown, %d refused by an API server that lagged; %d of %d agree, in races %d of %d", r.Events.Judged, len(denied),
		r.Verdicts.Unknown, len(lag), r.Agreement.Agree, r.Agreement.Compared, r.Agreement.Races.Agree, r.Agreement.Races.Compared)
}
