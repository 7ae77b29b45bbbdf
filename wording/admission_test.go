package wording_test

import (
	"testing"

	"github.com/nodetrail/nodetrail/nodeadmission"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/wording"
)

// Each code about NodeRestriction has words of its own.
func TestAdmissionHasWords(t *testing.T) {
	seen := map[string]bool{}
	check := func(code, words string) {
		if words == "" || words == code && code != "unknown" && code != "race" && code != "allowed" || seen[words] {
			t.Errorf("%s: %q", code, words)
		}
		seen[words] = true
	}
	for _, o := range rules.Outcomes() {
		check(string(o), wording.AdmissionOutcome(o))
	}
	for _, m := range nodeadmission.AllMissing() {
		check(string(m), wording.AdmissionMissing(string(m)))
	}
	if got := wording.AdmissionOutcome("later") + wording.AdmissionMissing("later"); got != "laterlater" {
		t.Errorf("of a newer program: %q", got)
	}
}
