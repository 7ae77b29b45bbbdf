package app

import (
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
)

// One API server that did not start again has one version with its gates. A node that reads the pods of all nodes without a reason is no sign of another gate, as
// a webhook may have allowed it; and if it is one, each node can read them.
//
// Seen to fail where each hour has the version that fits it.
func TestNodeReadsPodsOfAllNodes(t *testing.T) {
	clean := threeHours(t, 45, days.Options{Minor: 36, Features: days.KubeadmJoin | days.Rotation, NoBinding: true})
	probe, _ := days.Named("probe-plugin", 1)
	clean, _ = probe.Apply(clean)
	if a := checks.Conclude(checks.Confined, provenDay(t, clean), nil).Answer; a != checks.AnswerConfined {
		t.Fatalf("a clean day is %s", a)
	}
	at := clean.From.Add(clean.To.Sub(clean.From) / 2)
	i := slices.IndexFunc(clean.Events, func(e *days.Event) bool {
		return e.IsNode() && e.Verb == "get" && e.Code == 200 && e.Decision == "allow" && e.DecisionReason == "" && e.Received.After(at)
	})
	if i < 0 {
		t.Fatal("no node gets anything")
	}
	e := *clean.Events[i]
	e.AuditID, e.Verb, e.URI, e.Ref = "0a0a0a0a-0000-4000-8000-000000000000", "list", "/api/v1/pods", &days.Ref{Version: "v1", Resource: "pods"}
	refused := e
	refused.AuditID, refused.Code, refused.Decision = "0b0b0b0b-0000-4000-8000-000000000000", 403, "forbid"
	refused.DecisionReason = "can only list/watch pods with spec.nodeName field selector"
	refused.Received, refused.Staged = e.Received.Add(time.Millisecond), e.Staged.Add(time.Millisecond)
	bad := *clean
	bad.Events = slices.Insert(slices.Clone(clean.Events), i+1, &e, &refused)
	results := provenDay(t, &bad)
	for name, want := range map[string]checks.Code{"node-authorizer-on": checks.CodeVersionMoved, "no-excess-rights": checks.CodeAnyPod} {
		if s, codes := codesOf(results, name); s != checks.Unproven || !slices.Contains(codes, string(want)) {
			t.Errorf("%s after %v: %s, %q", name, at.Sub(clean.From).Round(time.Minute), s, codes)
		}
	}
	if a := checks.Conclude(checks.Confined, results, nil).Answer; a != checks.AnswerNotEnough {
		t.Errorf("the answer is %s", a)
	}
}

// API servers of 1.32 give nodes tokens for any audience, unless the user says that a gate is on which the log does not show.
func TestTokensForAnyAudience(t *testing.T) {
	const gate = "ServiceAccountNodeAudienceRestriction"
	for minor, want := range map[int]map[string]checks.State{32: {"": checks.Unproven, "on": checks.Passed}, 33: {"": checks.Passed, "off": checks.Unproven}} {
		clean := threeHours(t, 47, days.Options{Minor: minor, NoBinding: true})
		for set, want := range want {
			s, codes := codesOf(provenDay(t, clean, func(o *AnalyzeOptions) {
				if set != "" {
					o.FeatureGates = map[string]bool{gate: set == "on"}
				}
			}), "no-excess-rights")
			if is := slices.Contains(codes, string(checks.CodeAnyAudience)); s != want || is != (want == checks.Unproven) {
				t.Errorf("1.%d, %q: %s %q", minor, set, s, codes)
			}
		}
	}
}
