package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
)

// capture judges a real capture and gives each judgement to see as well.
func capture(t *testing.T, name, mode string, see func(*pipeline.Judgement)) *Report {
	t.Helper()
	c := captured.Open(t, name, mode)
	c.Judge.Rules = rules.All()
	b := NewBuilder()
	res := c.Replay(func(j *pipeline.Judgement) {
		b.Add(j)
		see(j)
	})
	return b.Report(Facts{
		HasState: true, Events: Events{Read: res.Counts.Read}, Authorization: Authorization{Mode: c.Judge.Mode.String(), Inferred: c.Judge.Mode.Inferred()},
	})
}

// On real captures the kubelets' own requests lead to nothing that is worth waking anybody: all that needed RBAC are looks
// at pods that were just deleted. And every finding is what the rule says of it.
func TestCaptures(t *testing.T) {
	f := func(name, mode string, wantKubelet map[string]int64, wantBindings []string) {
		t.Helper()
		kubelet := map[string]int64{}
		phases := map[string]bool{}
		r := capture(t, name, mode, func(j *pipeline.Judgement) {
			product := rules.Product(j.Event.UserAgent)
			for i := range j.Findings {
				x := &j.Findings[i]
				if j.Answer.Race && x.Finding.Rule != "node-identity" && x.Finding.Rule != "node-credential-misuse" && x.Finding.Rule != "foreign-node-write" {
					t.Errorf("%s: %s flags a race: %s", name, x.Finding.Rule, x.Reason)
				}
				if product == "hollow-kubelet" {
					kubelet[x.Severity.String()+" "+x.Finding.Rule+" "+j.Attrs.Verb+" "+j.Attrs.Resource]++
					if x.Severity >= rules.High {
						t.Errorf("%s: a kubelet's own request: %s: %s", name, x.Severity, x.Reason)
					}
				}
				if x.Finding.Rule == "rbac-excess-access" {
					phases[x.Binding.Name] = true
					if j.Answer.Verdict != nodeauthz.Deny || j.Event.Code == 0 || x.Severity == rules.Low && j.Event.Code < 400 {
						t.Errorf("%s: verdict %v, code %d: %s", name, j.Answer.Verdict, j.Event.Code, x.Reason)
					}
				}
			}
		})
		if diff := cmp.Diff(wantKubelet, kubelet); diff != "" {
			t.Errorf("%s: the kubelets' findings (-want +got):\n%s", name, diff)
		}
		for _, binding := range wantBindings {
			if !phases[binding] {
				t.Errorf("%s: nothing was let through by %s", name, binding)
			}
			delete(phases, binding)
		}
		if len(phases) > 0 {
			t.Errorf("%s: further bindings: %v", name, phases)
		}
		for _, x := range r.Readiness.Blockers {
			if strings.Contains(x, "hollow-kubelet") {
				t.Errorf("%s: blocker %s", name, x)
			}
		}
		for _, x := range r.Findings {
			if x.Rule == "authorizer-lag" || x.Rule == rules.CredentialMisuse && x.Reason != rules.ForeignClient &&
				!(x.Reason == rules.SecretTaken && (x.UserAgent == "curl" || x.UserAgent == "calico-node")) && x.Reason != rules.RestrictionRefused && x.Reason != rules.AdmissionStopped && // the writes that NodeRestriction was tried with
				!((x.Reason == rules.ForeignReadRefused || x.Reason == rules.OddWriteRefused || x.Reason == rules.OddWrite) && x.UserAgent == "kubelet") { // a client that calls itself one: the kubelets are hollow
				t.Errorf("%s: %s", name, x.Message)
			}
			if x.Rule == "foreign-node-write" && x.Severity == "critical" {
				t.Errorf("%s: NodeRestriction was on, but: %s", name, x.Message)
			}
		}
		if len(r.Agreement.Disagree) > 0 || r.Verdicts.Unknown > 0 {
			t.Errorf("%s: %d disagreements, %d unknown", name, len(r.Agreement.Disagree), r.Verdicts.Unknown)
		}
		if got := r.Authorization.Mode; got != strings.Replace(mode, "auto", got, 1) {
			t.Errorf("%s: mode %s", name, got)
		}
	}
	const missing = "low rbac-excess-access get pods"
	f("capture", "auto", map[string]int64{missing: 31}, []string{"legacy:system:node", "kubelet-secret-get"})
	f("capture", "Node,RBAC", map[string]int64{missing: 31}, []string{"legacy:system:node", "kubelet-secret-get"})
	f("capture-rbac-only", "auto", map[string]int64{missing: 57}, []string{"legacy:system:node"})
}
