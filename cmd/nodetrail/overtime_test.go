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
	for _, c := range []struct{ name, log, want string }{
		{"in order", first + second, ""},
		{"the second half first", second + first, "nodetrail: <stdin>: the log goes back in time, from 2026"},
	} {
		code, _, errs := invoke(t, c.log, "analyze", "-q", "--state", capture+"/journal.jsonl.gz", "-")
		if code != 0 || !strings.HasPrefix(errs, c.want) || (errs == "") != (c.want == "") {
			t.Errorf("%s: exit status %d, standard error %q", c.name, code, errs)
		}
	}
}
