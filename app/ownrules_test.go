package app

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/exceptions"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/ownrules"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

// loudRules find something in every request, fail in every request, or cost too much in many.
const loudRules = `rules:
- {name: everything, severity: critical, message: "{request.verb} {request.uri} {state.podNode}", match: 'request.verb != "nothing"'}
- {name: failing, severity: high, message: m, match: '1 / (size(request.verb) - size(request.verb)) == 1'}
- {name: costly, severity: high, message: m, match: '(request.uri + request.userAgent + request.user).matches("(a+b?)+c")'}
`

func mustOwn(t *testing.T, text string) *ownrules.Set {
	t.Helper()
	set, err := ownrules.Load([]ownrules.Source{{Name: "rules.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// Own rules that flag everything change no verdict, no check, no answer and no finding of the built-in rules.
func TestOwnRulesChangeNothingElse(t *testing.T) {
	for _, folder := range []string{"capture", "capture-writes"}[effort.Of(0, 1):] {
		journal := t.TempDir() + "/journal.jsonl"
		if err := os.WriteFile(journal, gunzipped(t, "../internal/demo/"+folder+"/journal.jsonl.gz"), 0o600); err != nil {
			t.Fatal(err)
		}
		log := gunzipped(t, "../internal/demo/"+folder+"/audit.log.gz")
		analyze := func(own *ownrules.Set) (*Analysis, []string) {
			var lines []string
			a, err := Analyze(t.Context(), AnalyzeOptions{
				Own: own, Input: Input{Logs: []string{"-"}, Stdin: bytes.NewReader(log), State: []string{journal}}, Authorization: Authorization{Skew: time.Second}, Now: time.Unix(1<<31, 0),
				AllRequests: true,
				Each: func(j *pipeline.Judgement) error {
					v := VerdictLine(j)
					v.Findings = slices.DeleteFunc(v.Findings, func(name string) bool { return !rules.BuiltIn(name) })
					if len(v.Findings) == 0 {
						v.Findings = nil
					}
					b, err := json.Marshal(&v)
					lines = append(lines, string(b))
					return err //nolint:wrapcheck // of a test
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			return a, lines
		}
		plain, lines := analyze(nil)
		loud, loudLines := analyze(mustOwn(t, loudRules))
		var own []report.Finding
		loud.Report.Findings = slices.DeleteFunc(loud.Report.Findings, func(f report.Finding) bool {
			if !rules.BuiltIn(f.Rule) {
				own = append(own, f)
				return true
			}
			return false
		})
		text := func(a *Analysis) string {
			b, err := json.Marshal([]any{a.Report, a.Facts.Checks, a.Facts.Gaps, a.Counts})
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if diff := cmp.Diff(text(plain), text(loud)); diff != "" {
			t.Errorf("%s: without own rules and with them: %.3000s", folder, diff)
		}
		if diff := cmp.Diff(lines, loudLines); diff != "" {
			t.Errorf("%s: verdict lines: %.2000s", folder, diff)
		}
		counts := map[string]int64{}
		for _, f := range own {
			counts[f.Rule] += f.Count
			if f.Runbook != rules.OwnPage || f.Message == "" {
				t.Errorf("%+v", f)
			}
		}
		n := int64(len(lines))
		if counts["everything"] != n || counts["failing"] != n || n == 0 {
			t.Errorf("%s: %d requests: %v", folder, n, counts)
		}
		if i := slices.IndexFunc(own, func(f report.Finding) bool { return f.Rule == "failing" }); own[i].Count != n || !strings.Contains(own[i].Message, "division by zero") || own[i].Severity != "low" {
			t.Errorf("%+v", own[i])
		}
	}
}

// An exception for an own rule covers its findings, and the forms of the report that list rules list it.
func TestOwnRulesInReports(t *testing.T) {
	own := mustOwn(t, loudRules)
	all := []exceptions.Exception{{Rule: "everything", Match: `finding.verb == "get"`, Owner: "a", Reason: "b", Expires: time.Unix(1<<31, 0)}}
	if _, err := exceptions.New(all); err == nil {
		t.Error("an exception for a rule that nobody wrote")
	}
	set, err := exceptions.New(all, own.Names()...)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Analyze(t.Context(), AnalyzeOptions{
		Own: own, Exceptions: set, Input: Input{Logs: []string{"-"}, Stdin: bytes.NewReader(gunzipped(t, "../internal/demo/capture/audit.log.gz"))}, Authorization: Authorization{Skew: time.Second}, Now: time.Unix(1<<30, 0),
	})
	if err != nil {
		t.Fatal(err)
	}
	if e := a.Report.Exceptions[0]; e.Findings == 0 || e.Requests == 0 {
		t.Errorf("%+v", e)
	}
	var sarif, junit bytes.Buffer
	if err := a.Report.WriteSARIF(&sarif); err != nil {
		t.Fatal(err)
	}
	if err := a.Report.WriteJUnit(&junit); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(sarif.String(), `"id": "everything"`) || !strings.Contains(junit.String(), `<testcase name="everything"`) {
		t.Error("a form leaves the rule out")
	}
}
