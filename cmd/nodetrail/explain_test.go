package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// word is what a verdict line and an explanation both say.
type word struct {
	Node, Verb, Resource, Namespace, Name, Verdict, Reason, Detail, NodeVerdict string
	Race                                                                        bool
	Time                                                                        time.Time
}

func wordOf(v *verdictLine) word {
	return word{v.Node, v.Verb, v.Resource, v.Namespace, v.Name, v.Verdict, v.Reason, v.Detail, v.Observed.NodeVerdict, v.Race, v.Time}
}

func explained(ex *explain.Explanation) word {
	r := &ex.Request
	return word{r.Node, r.Verb, r.Resource, r.Namespace, r.Name, ex.Verdict, ex.Reason, ex.Detail, ex.Event.NodeVerdict, ex.Race, ex.At}
}

// TestExplainIsAnalyze holds the explanations of 300 requests of each capture, chosen at random, against the verdict lines of analyze and
// the fates of what-if.
func TestExplainIsAnalyze(t *testing.T) {
	for _, dir := range []string{capture, rbacOnly} {
		journal, log := dir+"/journal.jsonl.gz", dir+"/audit.log.gz"
		_, lines := judge(t, "--state", journal, log)
		r := rand.New(rand.NewPCG(6, 4))
		chosen := map[string]verdictLine{}
		var ids []string
		for _, i := range r.Perm(len(lines))[:300] {
			v := decodeVerdict(t, lines[i])
			chosen[v.AuditID], ids = *v, append(ids, v.AuditID)
		}
		x := &explaining{explainFlags: &explainFlags{authzFlags: authzFlags{skew: time.Second}, window: explain.DefaultWindow}}
		var err error
		if x.features, err = nodeauthz.FeaturesFor(""); err != nil {
			t.Fatal(err)
		}
		if x.am, err = pipeline.ParseMode("auto"); err != nil {
			t.Fatal(err)
		}
		a, err := (&analyzeFlags{authzFlags: x.authzFlags, state: []string{journal}, fromAudit: true, output: "text", maxEventBytes: audit.DefaultMaxEventBytes}).
			prepare([]string{log}, streams{err: new(bytes.Buffer)})
		if err != nil {
			t.Fatal(err)
		}
		a.am = x.am
		if err := a.find([]string{log}); err != nil {
			t.Fatal(err)
		}
		var state *cluster.State
		var kept []*pipeline.Judgement
		_, _, err = (&replay{analysis: a, flags: &replayFlags{}}).run(t.Context(), func(s *cluster.State) { state = s }, func(j *pipeline.Judgement) error {
			if _, ok := chosen[j.Event.AuditID]; ok {
				kept = append(kept, x.keep(j))
			}
			return nil
		})
		if err != nil || len(kept) != 300 {
			t.Fatalf("%d found: %v", len(kept), err)
		}
		verdicts := map[string]int{}
		fates := report.WhatIf{RBAC: state.RBAC, Change: state.RBAC.Change(rbac.Grant.ForNodes, nil), Mode: x.am}
		for _, j := range kept {
			ex, v := x.judged(j, state), chosen[j.Event.AuditID]
			if diff := cmp.Diff(wordOf(&v), explained(ex)); diff != "" {
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
		// Some of them by the command itself.
		for _, id := range ids[:8] {
			code, out, errs := invoke(t, "", "explain", "--audit-id", id, "--state", journal, "-o", "json", log)
			ex := &explain.Explanation{}
			if err := json.Unmarshal([]byte(out), ex); err != nil || code != 0 || errs != "" {
				t.Fatalf("%s: exit status %d, standard error %q, %v", id, code, errs, err)
			}
			v := chosen[id]
			if diff := cmp.Diff(wordOf(&v), explained(ex)); diff != "" {
				t.Errorf("%s (-analyze +explain -o json):\n%s", id, diff)
			}
		}
	}
}

// TestExplainPage holds what docs/explain.md shows against what the commands in it print.
func TestExplainPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```text\n\\$ nodetrail ([^\n]+)\n(.*?)```\n").FindAllStringSubmatch(string(page), -1)
	if len(blocks) != 3 {
		t.Errorf("%d commands with their output", len(blocks))
	}
	paths := strings.NewReplacer("journal.jsonl", capture+"/journal.jsonl.gz", "audit.log", capture+"/audit.log.gz")
	for _, b := range blocks {
		code, out, errs := invoke(t, "", strings.Fields(paths.Replace(b[1]))...)
		if diff := cmp.Diff(b[2], out); diff != "" || code != 0 || errs != "" {
			t.Errorf("nodetrail %s: exit status %d, standard error %q (-page +command):\n%s", b[1], code, errs, diff)
		}
	}
}
