package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/report"
)

// analyze reports what several requests show together, with the message that knows all of the log, unless the rule is disabled.
func TestAnalyzeFindsOverTime(t *testing.T) {
	of := func(args ...string) (found []report.Finding) {
		t.Helper()
		code, out, errs := invoke(t, "", slices.Concat([]string{"analyze", "-o", "json", "--state", capture + "/journal.jsonl.gz", "--skew", "150ms"},
			args, []string{capture + "/audit.log.gz"})...)
		if code != 0 || errs != "" {
			t.Fatalf("exit status %d, standard error %q", code, errs)
		}
		var r report.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		for i := range r.Findings {
			if r.Findings[i].Rule == "secret-enumeration" {
				found = append(found, r.Findings[i])
			}
		}
		return found
	}
	found := of()
	if len(found) != 6 {
		t.Errorf("%d groups, want one for each node that the script used", len(found))
	}
	for _, f := range found {
		// Minutes 06:04 and 06:05 of the log: of the first alone the message would count fewer. One watch of what a node had until just before does not count.
		if f.Severity != "critical" || f.Count < 1 || f.Count > 2 || len(f.AuditIDs) == 0 || !f.Allowed || f.Runbook != "docs/rules/secret-enumeration.md" {
			t.Errorf("%+v", f)
		}
		if f.Node == "worker-3" && !strings.HasPrefix(f.Message, "node worker-3 asked for 56 different objects within 10 minutes") {
			t.Errorf("%s", f.Message)
		}
	}
	if found := of("--disable", "secret-enumeration"); len(found) > 0 {
		t.Errorf("disabled, and found %+v", found)
	}
}

// analyze says on standard error that it left requests out, and of which input.
func TestAnalyzeSaysWhatIsLeftOut(t *testing.T) {
	whole, err := os.ReadFile(capture + "/audit.log.gz")
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.Collect(strings.Lines(backward(t, whole)))
	slices.Reverse(lines)
	first, second := strings.Join(lines[:len(lines)/2], ""), strings.ReplaceAll(strings.Join(lines[len(lines)/2:], ""), "T06:", "T08:")
	const grave = "rbac-excess-access,out-of-scope-secret-read,secret-enumeration,node-credential-misuse"
	const back, unknown = "nodetrail: <stdin>: the log goes back in time, from 2026", "not known, because requests were left out"
	for _, c := range []struct {
		name, log string
		failOn    []string
		code      int
		want      []string
	}{
		{"in order", first + second, nil, 0, nil},
		{"the second half first", second + first, nil, 0, []string{back}},
		{"in order, and nothing is found", first + second, []string{"--fail-on", "critical", "--disable", grave}, 0, nil},
		{"the second half first, and nothing is found", second + first, []string{"--fail-on", "critical", "--disable", grave}, 1, []string{back, "--fail-on critical: " + unknown}},
		{"the second half first, and something is found", second + first, []string{"--fail-on", "low"}, 2, []string{back, "findings at or above"}},
	} {
		code, _, errs := invoke(t, c.log, append([]string{"analyze", "-q", "--state", capture + "/journal.jsonl.gz", "-"}, c.failOn...)...)
		missing := slices.ContainsFunc(c.want, func(s string) bool { return !strings.Contains(errs, s) })
		if code != c.code || missing || len(c.want) == 0 && errs != "" {
			t.Errorf("%s: exit status %d, want %d, standard error %q", c.name, code, c.code, errs)
		}
	}
}
