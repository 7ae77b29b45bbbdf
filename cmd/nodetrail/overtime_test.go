package main

import (
	"encoding/json"
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
