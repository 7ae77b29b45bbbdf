package app

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/pipeline"
)

// Up to 1.32 the Node authorizer does not look at a pod again that got an ephemeral container, but an API server that starts afterwards reads the pod as
// it is. The log does not show when that was: neither answer is a disagreement, and neither speaks for another version, however many there are.
func TestServerThatStartedAnew(t *testing.T) {
	start := time.Date(2026, 11, 25, 3, 5, 0, 0, time.UTC)
	stamp := func(after time.Duration) string { return start.Add(after).Format(time.RFC3339Nano) }
	secret := func(container string) string {
		return `[{"name":"` + container + `","image":"i","env":[{"name":"P","valueFrom":{"secretKeyRef":{"name":"` + container + `","key":"k"}}}]}]`
	}
	var journal, log bytes.Buffer
	fmt.Fprintf(&journal, `{"observedAt":%q,"type":"ADDED","object":{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1","uid":"n1","resourceVersion":"1"}}}`+"\n", stamp(0))
	for i, more := range []string{"", `,"ephemeralContainers":` + secret("second")} {
		fmt.Fprintf(&journal, `{"observedAt":%q,"type":%q,"object":{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"debug","name":"web","uid":"p1","resourceVersion":"%d","creationTimestamp":%q},`+
			`"spec":{"nodeName":"node-1","serviceAccountName":"default","containers":%s%s},"status":{"phase":"Running"}}}`+"\n",
			stamp(time.Duration(i)*time.Minute), []string{"ADDED", "MODIFIED"}[i], i+2, start.Add(-time.Hour).Format(time.RFC3339), secret("first"), more)
	}
	n := 0
	event := func(after time.Duration, user, agent, verb, uri, ref, decision, reason string, code int) {
		n++
		fmt.Fprintf(&log, `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"id-%d","stage":"ResponseComplete","requestURI":%q,"verb":%q,`+
			`"user":{"username":%q,"groups":["system:nodes","system:authenticated"]},"sourceIPs":["10.0.0.1"],"userAgent":%q,"objectRef":%s,"responseStatus":{"code":%d},`+
			`"requestReceivedTimestamp":%q,"stageTimestamp":%q,"annotations":{"authorization.k8s.io/decision":%q,"authorization.k8s.io/reason":%q}}`+"\n",
			n, uri, verb, user, agent, ref, code, stamp(after), stamp(after), decision, reason)
	}
	const denied = "no relationship found between node 'node-1' and this object"
	get := func(after time.Duration, name, decision, reason string, code int) {
		event(after, "system:node:node-1", "kubelet/v1.29.15", "get", "/api/v1/namespaces/debug/secrets/"+name,
			`{"resource":"secrets","namespace":"debug","name":"`+name+`","apiVersion":"v1"}`, decision, reason, code)
	}
	for i := range 20 {
		after := 2*time.Minute + time.Duration(i)*10*time.Second
		event(after, "system:apiserver", "kube-apiserver/v1.29.15 (linux/amd64) kubernetes/1", "update", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/apiserver-a",
			`{"resource":"leases","namespace":"kube-system","name":"apiserver-a","apiGroup":"coordination.k8s.io","apiVersion":"v1"}`, "allow", "", 200)
		get(after+time.Second, "first", "allow", "", 200)
		get(after+2*time.Second, "third", "forbid", denied, 403)
		if i < 5 {
			get(after+3*time.Second, "second", "forbid", denied, 403)
		} else { // it has been restarted
			get(after+3*time.Second, "second", "allow", "", 200)
		}
	}
	state := filepath.Join(t.TempDir(), "journal.jsonl")
	if err := os.WriteFile(state, journal.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	races := 0
	a, err := Analyze(t.Context(), AnalyzeOptions{
		Authorization: Authorization{Skew: time.Second},
		Input:         Input{State: []string{state}, Logs: []string{"-"}, Stdin: &log},
		Each: func(j *pipeline.Judgement) error {
			if j.IsNode && j.Answer.Race {
				races++
				if j.Attrs.Name != "second" || j.Detail() != "an API server that started after a change of the pod answers differently" {
					t.Errorf("%s of %s: %q", j.Event.AuditID, j.Attrs.Name, j.Detail())
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g, v := a.Report.Agreement, a.Report.Authorization.Versions
	if len(g.Disagree) != 0 || g.Compared != 45 || g.Agree != 45 || g.Races.Compared != 15 || races != 15 {
		t.Errorf("%d races, agreement %+v", races, g)
	}
	if len(v) != 1 || v[0].Name != "1.29" || !v[0].Known || v[0].Against != 0 {
		t.Errorf("%+v", v)
	}
}
