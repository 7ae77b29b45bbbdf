package main

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/explain"
	"github.com/nodetrail/nodetrail/internal/test/effort"
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

// TestExplainIsAnalyze holds the explanations of some requests of each capture, chosen at random, against the verdict lines of analyze; that of
// many more is in package app.
func TestExplainIsAnalyze(t *testing.T) {
	for _, dir := range []string{capture, rbacOnly} {
		journal, log := dir+"/journal.jsonl.gz", dir+"/audit.log.gz"
		_, lines := judge(t, "--state", journal, log)
		r := rand.New(rand.NewPCG(6, 4))
		for _, i := range r.Perm(len(lines))[:effort.Of(8, 2)] {
			v := decodeVerdict(t, lines[i])
			code, out, errs := invoke(t, "", "explain", "--audit-id", v.AuditID, "--state", journal, "-o", "json", log)
			ex := &explain.Explanation{}
			if err := json.Unmarshal([]byte(out), ex); err != nil || code != 0 || errs != "" {
				t.Fatalf("%s: exit status %d, standard error %q, %v", v.AuditID, code, errs, err)
			}
			if diff := cmp.Diff(wordOf(v), explained(ex)); diff != "" {
				t.Errorf("%s (-analyze +explain -o json):\n%s", v.AuditID, diff)
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
