package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app"
	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/pipeline"
)

// TestReleaseTellsThePatch: whether the plugin has a check that came with a patch release is known from the API servers' own user agents at the time,
// unless the user gave a patch release. It is not known of a vendor's release before it.
func TestReleaseTellsThePatch(t *testing.T) {
	const allow, deny, unknown = nodeadmission.Allow, nodeadmission.Deny, nodeadmission.Unknown
	dir := t.TempDir()
	logs, state := filepath.Join(dir, "audit.log"), filepath.Join(dir, "journal.jsonl")
	var log strings.Builder
	for i, release := range []string{"", "v1.33.3", "v1.33.4", "v1.33.3-eks-1a2b3c4"} {
		at := time.Date(2026, 11, 21, 6, 10*i, 0, 0, time.UTC)
		if release != "" {
			fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"s%d","stage":"ResponseComplete","requestURI":"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver-x","verb":"update","objectRef":{"resource":"leases","namespace":"kube-system","name":"apiserver-x","apiGroup":"coordination.k8s.io","apiVersion":"v1"},"user":{"username":"system:apiserver","groups":["system:masters"]},"userAgent":"kube-apiserver/%s (linux/amd64) kubernetes/1","responseStatus":{"code":200},"requestReceivedTimestamp":%q}`+"\n",
				i, release, at.Format(time.RFC3339Nano))
		}
		for k := range 2 { // both may be judged before their turn
			fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Request","auditID":"w%d-%d","stage":"ResponseComplete","requestURI":"/api/v1/nodes/n1","verb":"patch","user":{"username":"system:node:n1","groups":["system:nodes","system:authenticated"]},"objectRef":{"resource":"nodes","name":"n1","apiVersion":"v1"},"responseStatus":{"code":500},"requestObject":{"metadata":{"ownerReferences":null}},"annotations":{"authorization.k8s.io/decision":"allow","authorization.k8s.io/reason":""},"requestReceivedTimestamp":%q}`+"\n",
				i, k, at.Add(time.Duration(5+k)*time.Second).Format(time.RFC3339Nano))
		}
	}
	const nodes = `{"observedAt":"2026-11-21T05:00:00Z","type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n1","uid":"u1","resourceVersion":"1","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"c","uid":"o"}]},"spec":{}}}
{"observedAt":"2026-11-21T08:00:00Z","type":"ADDED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"n2","uid":"u2"},"spec":{}}}
`
	for path, text := range map[string]string{logs: log.String(), state: nodes} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for given, want := range map[string][]nodeadmission.Verdict{
		"": {unknown, unknown, allow, allow, deny, deny, unknown, unknown}, "1.33": {unknown, unknown, allow, allow, deny, deny, unknown, unknown},
		"1.33.3": {allow, allow, allow, allow, allow, allow, allow, allow},
	} {
		var got []nodeadmission.Verdict
		_, err := app.Analyze(t.Context(), app.AnalyzeOptions{
			Authorization: app.Authorization{KubernetesVersion: given, Skew: time.Second},
			Input:         app.Input{Logs: []string{logs}, State: []string{state}},
			Each: func(j *pipeline.Judgement) error {
				if j.IsNode {
					got = append(got, j.Admission.Verdict)
				}
				return nil
			},
		})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("given %q: %v, want %v; %v", given, got, want, err)
		}
	}
}
