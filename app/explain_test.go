package app

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/sinks/jsonl"
)

// The captures of a real cluster.
const (
	capture  = "../internal/demo/capture"
	rbacOnly = "../internal/demo/capture-rbac-only"
)

// word is what a verdict line and an explanation both say.
type word struct {
	Node, Verb, Resource, Namespace, Name, Verdict, Reason, Detail, NodeVerdict string
	Race                                                                        bool
	Time                                                                        time.Time
}

func wordOf(v *jsonl.Verdict) word {
	return word{v.Node, v.Verb, v.Resource, v.Namespace, v.Name, v.Verdict, v.Reason, v.Detail, v.NodeVerdict, v.Race, v.Time}
}

func explained(ex *explain.Explanation) word {
	r := &ex.Request
	return word{r.Node, r.Verb, r.Resource, r.Namespace, r.Name, ex.Verdict, ex.Reason, ex.Detail, ex.Event.NodeVerdict, ex.Race, ex.At}
}

// cloned is what of a verdict line lives on.
func cloned(v jsonl.Verdict) jsonl.Verdict {
	for _, s := range []*string{&v.AuditID, &v.Node, &v.Verb, &v.Resource, &v.Namespace, &v.Name, &v.Reason, &v.Detail} {
		*s = strings.Clone(*s)
	}
	return v
}

// TestExplainIsAnalyze holds the explanations of 300 requests of each capture, chosen at random, against the verdict lines of Analyze and
// the fates of WhatIf.
func TestExplainIsAnalyze(t *testing.T) {
	for _, dir := range []string{capture, rbacOnly} {
		in := Input{Logs: []string{dir + "/audit.log.gz"}, State: []string{dir + "/journal.jsonl.gz"}}
		authorization := Authorization{Skew: DefaultSkew}
		var lines []jsonl.Verdict
		_, err := Analyze(t.Context(), AnalyzeOptions{Authorization: authorization, Input: in, Each: func(j *pipeline.Judgement) error {
			if j.IsNode {
				lines = append(lines, cloned(VerdictLine(j)))
			}
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		chosen := map[string]*jsonl.Verdict{}
		for _, i := range rand.New(rand.NewPCG(6, 4)).Perm(len(lines))[:300] {
			chosen[lines[i].AuditID] = &lines[i]
		}
		x, err := newExplaining(&ExplainOptions{Authorization: authorization, Input: in})
		if err != nil {
			t.Fatal(err)
		}
		p := &passage{in: &in, judged: x.judging}
		if err := p.find(); err != nil {
			t.Fatal(err)
		}
		var kept []*pipeline.Judgement
		_, _, err = p.run(t.Context(), func(s *judging.Setup) { x.state = s.State }, func(j *pipeline.Judgement) error {
			if chosen[j.Event.AuditID] != nil {
				kept = append(kept, keep(j))
			}
			return nil
		})
		if err != nil || len(kept) != 300 {
			t.Fatalf("%d found: %v", len(kept), err)
		}
		verdicts := map[string]int{}
		fates := report.WhatIf{RBAC: x.state.RBAC, Change: x.state.RBAC.Change(rbac.Grant.ForNodes, nil), Mode: x.judging.Mode}
		for _, j := range kept {
			ex, v := x.judged(j), chosen[j.Event.AuditID]
			if diff := cmp.Diff(wordOf(v), explained(ex)); diff != "" {
				t.Errorf("%s (-analyze +explain):\n%s", v.AuditID, diff)
			}
			if got, want := ex.Consequences[0].Outcome, fates.Of(j).Outcome.String(); got != want {
				t.Errorf("%s: %s without the bindings, but what-if says %s", v.AuditID, got, want)
			}
			if len(ex.Notes) > 0 {
				t.Errorf("%s: %q", v.AuditID, ex.Notes)
			}
			verdicts[ex.Verdict]++
		}
		if verdicts["allow"] < 30 || verdicts["deny"] < 30 {
			t.Errorf("%s: %v", dir, verdicts)
		}
	}
}

// An event that no judge has a use for is found too, whatever a shipper put around it.
func TestExplainSkippedEvent(t *testing.T) {
	const event = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"e1","stage":"ResponseComplete","requestURI":"/healthz","verb":"get",` +
		`"user":{"username":"jane"},"responseStatus":{"code":200},"requestReceivedTimestamp":"2026-11-21T06:00:00.000000Z","stageTimestamp":"2026-11-21T06:00:00.001000Z"}`
	packed, err := json.Marshal(map[string]string{"log": event + "\n", "stream": "stdout"})
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range []string{event, string(packed)} {
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, []byte(log+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		ex, err := Explain(t.Context(), ExplainOptions{Input: Input{Logs: []string{path}}, AuditID: "e1"})
		if err != nil || ex.Request.User != "jane" || ex.Request.Path != "/healthz" {
			t.Errorf("%s: %v %+v", log, err, ex)
		}
		if _, err := Explain(t.Context(), ExplainOptions{Input: Input{Logs: []string{path}}, AuditID: "e2"}); err == nil {
			t.Error("an event that is not there was found")
		}
	}
}

// A client chooses the audit ID. A harmless request must not stand for a theft that has the same.
func TestExplainSeveralRequestsWithOneAuditID(t *testing.T) {
	event := func(second int, name, decision, reason string, code int) string {
		return fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"e1","stage":"ResponseComplete",`+
			`"requestURI":"/api/v1/namespaces/shop/secrets/%[2]s","verb":"get","user":{"username":"system:node:worker-1","groups":["system:nodes","system:authenticated"]},`+
			`"sourceIPs":["10.0.0.1"],"userAgent":"curl/8","objectRef":{"resource":"secrets","namespace":"shop","name":%[2]q,"apiVersion":"v1"},"responseStatus":{"code":%[5]d},`+
			`"requestReceivedTimestamp":"2026-11-21T06:00:%02[1]d.000000Z","stageTimestamp":"2026-11-21T06:00:%02[1]d.001000Z",`+
			`"annotations":{"authorization.k8s.io/decision":%[3]q,"authorization.k8s.io/reason":%[4]q}}`+"\n", second, name, decision, reason, code)
	}
	const reason = `RBAC: allowed by ClusterRoleBinding "all" of ClusterRole "system:node" to Group "system:nodes"`
	refused, taken := event(1, "a", "forbid", "", 403), event(2, "b", "allow", reason, 200)
	for name, log := range map[string]string{"the theft last": refused + taken, "the theft first": taken + refused, "among many": refused + event(3, "c", "forbid", "", 403) + taken} {
		path := filepath.Join(t.TempDir(), "audit.log")
		if err := os.WriteFile(path, []byte(log), 0o600); err != nil {
			t.Fatal(err)
		}
		ex, err := Explain(t.Context(), ExplainOptions{Input: Input{Logs: []string{path}}, AuditID: "e1"})
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%d requests have this audit ID", strings.Count(log, "\n"))
		if ex.Request.Name != "b" || !slices.ContainsFunc(ex.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
			t.Errorf("%s: %+v, notes %q", name, ex.Request, ex.Notes)
		}
	}
}
