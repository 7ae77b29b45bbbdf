package app

import (
	"bytes"
	"encoding/json"
	"hash/fnv"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/app/judging"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/version"
)

// captureOptions read a capture of internal/demo without a word on its version.
func captureOptions(name string) AnalyzeOptions {
	dir := filepath.Join("../internal/demo", name)
	return AnalyzeOptions{
		Authorization: Authorization{Skew: 150 * time.Millisecond},
		Input:         Input{Logs: []string{filepath.Join(dir, "audit.log.gz")}, State: []string{filepath.Join(dir, "journal.jsonl.gz")}},
	}
}

// versionKnown is the result of the check.
func versionKnown(t *testing.T, a *Analysis) checks.Result {
	t.Helper()
	i := slices.IndexFunc(a.Facts.Checks, func(r checks.Result) bool { return r.Check == "version-known" })
	return a.Facts.Checks[i]
}

// Without a flag the version of a real API server is found, and then every reason is equal byte for byte.
func TestVersionsOfCaptures(t *testing.T) {
	f := func(name, want string, basis version.Basis) {
		t.Helper()
		a, err := Analyze(t.Context(), captureOptions(name))
		if err != nil {
			t.Fatal(err)
		}
		r := a.Report
		if v := r.Authorization.Versions; len(v) != 1 || v[0].Name != want || v[0].Basis != string(basis) || v[0].Against != 0 || len(v[0].FeatureGates) != 0 || !v[0].Known {
			t.Errorf("%s: %+v", name, v)
		}
		if r.Authorization.KubernetesVersion != want || r.Agreement.Compared < 1000 || r.Agreement.Agree != r.Agreement.Compared ||
			r.Agreement.Reasons.Compared < 300 || r.Agreement.Reasons.Equal != r.Agreement.Reasons.Compared {
			t.Errorf("%s: %s, agreement %+v", name, r.Authorization.KubernetesVersion, r.Agreement)
		}
		if got := versionKnown(t, a); got.State != checks.Passed {
			t.Errorf("%s: %+v", name, got)
		}
	}
	f("capture-1.37", "1.37", version.Decisions)
	f("capture", "1.36", version.Preference)
}

// A flag that the log contradicts is contradicted by name of the requests.
func TestGivenVersionIsHeldAgainstTheLog(t *testing.T) {
	for given, contradicted := range map[string]bool{"1.36": true, "1.28": true, "1.37": false, "1.37.1": false, "1.38": false} {
		o := captureOptions("capture-1.37")
		o.KubernetesVersion = given
		var ids []string
		a, err := Analyze(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		r := versionKnown(t, a)
		for i := range r.Evidence {
			if r.Evidence[i].Code == checks.CodeVersionDiffers {
				ids = append(ids, r.Evidence[i].AuditIDs...)
			}
		}
		if failed := r.State == checks.Failed; failed != contradicted || contradicted == (len(ids) == 0) {
			t.Errorf("%s: %+v", given, r)
		}
		v := a.Report.Authorization.Versions
		if len(v) != 1 || v[0].Basis != string(version.Given) || (v[0].Against > 0) != contradicted || contradicted && !slices.Contains(v[0].Fits, "1.37") {
			t.Errorf("%s: %+v", given, v)
		}
		if (given == "1.38") != (v[0].Beyond == "1.38" && v[0].Name == "1.37" && r.State == checks.Unproven) {
			t.Errorf("%s: %+v, %s", given, v, r.State)
		}
	}
}

// rewritten is a log of 1.36 as API servers of other versions would have written it: truth says which wrote a request. Races stay as they were; what
// they would have refused and RBAC allows is left out.
func rewritten(t *testing.T, o AnalyzeOptions, log []byte, truth func(*pipeline.Judgement) nodeauthz.Features) []byte {
	t.Helper()
	o.KubernetesVersion, o.Logs, o.Stdin = "1.36", []string{"-"}, bytes.NewReader(log)
	type word struct{ decision, reason string }
	words, left := map[string]word{}, map[string]bool{}
	auths := map[nodeauthz.Features]*nodeauthz.Authorizer{}
	p, err := o.prepare(&o.Authorization)
	if err != nil {
		t.Fatal(err)
	}
	var state *cluster.State
	_, _, err = p.run(t.Context(), func(s *judging.Setup) { state = s.State }, func(j *pipeline.Judgement) error {
		if !j.IsNode || j.Observed.Decision == "" {
			return nil
		}
		f := truth(j)
		a := auths[f]
		if a == nil {
			a = nodeauthz.NewAuthorizer(state.Graph, f, o.Skew)
			auths[f] = a
		}
		ans := a.Decide(j.Attrs, j.Time)
		w := word{strings.Clone(j.Event.Decision), strings.Clone(j.Event.Reason)}
		switch {
		case ans.Race && w.decision == "forbid" && ans.Verdict == nodeauthz.Deny:
			w.reason = ans.Reason
		case ans.Race && w.decision == "forbid", !ans.Race && ans.Verdict == nodeauthz.Deny && !j.Observed.HasGrant && state.RBAC.Authorize(j.Attrs, j.Time).Allowed:
			left[strings.Clone(j.Event.AuditID)] = true
			return nil
		case ans.Race:
		case ans.Verdict == nodeauthz.Allow:
			w = word{"allow", ""}
		case !j.Observed.HasGrant:
			w = word{"forbid", ans.Reason}
		}
		words[strings.Clone(j.Event.AuditID)] = w
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for d := json.NewDecoder(bytes.NewReader(log)); ; {
		var ev map[string]any
		if err := d.Decode(&ev); err == io.EOF {
			return out.Bytes()
		} else if err != nil {
			t.Fatal(err)
		}
		id, _ := ev["auditID"].(string)
		if left[id] {
			continue
		}
		annotations, _ := ev["annotations"].(map[string]any)
		if w, ok := words[id]; ok && annotations["authorization.k8s.io/decision"] != nil {
			annotations["authorization.k8s.io/decision"], annotations["authorization.k8s.io/reason"] = w.decision, w.reason
		}
		b, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(append(b, '\n'))
	}
}

func featuresOf(t *testing.T, name string, gates map[string]bool) nodeauthz.Features {
	t.Helper()
	f, err := (&Authorization{KubernetesVersion: name, FeatureGates: gates}).features()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Whatever supported version and gates wrote a log, they are found, and nothing is wrong outside of races.
func TestVersionsThatDecidedAreFound(t *testing.T) {
	f := func(name, want string, gates map[string]bool) {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			truth := featuresOf(t, name, gates)
			o := captureOptions("capture")
			o.Logs, o.Stdin = []string{"-"}, bytes.NewReader(rewritten(t, o, gunzipped(t, o.Logs[0]), func(*pipeline.Judgement) nodeauthz.Features { return truth }))
			a, err := Analyze(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			v, g := a.Report.Authorization.Versions, &a.Report.Agreement
			if len(v) != 1 || v[0].Against != 0 || len(gates) == 0 && v[0].Basis != string(version.Decisions) && !slices.Contains(v[0].Fits, truth.Version()) {
				t.Errorf("%+v", v)
			}
			if len(gates) > 0 && (v[0].Name != name || !maps.Equal(v[0].FeatureGates, gates)) {
				t.Errorf("%+v", v)
			}
			if g.Compared < 1000 || g.Agree != g.Compared || g.Reasons.Equal != g.Reasons.Compared {
				t.Errorf("agreement %+v", g)
			}
		})
	}
	for i, name := range nodeauthz.Versions() {
		if i%effort.Of(1, 6) == 0 {
			f(name, name, nil)
		}
	}
	f("1.33", "1.33 without selectors", map[string]bool{"AuthorizeNodeWithSelectors": false})
}

// While API servers of two versions write one log, what they differ on is a race, and nothing is wrong outside of races.
func TestRollingUpgradeIsNoDisagreement(t *testing.T) {
	old, fresh := featuresOf(t, "1.36", nil), featuresOf(t, "1.37", nil)
	n := 0
	o := captureOptions("capture")
	log := rewritten(t, o, gunzipped(t, o.Logs[0]), func(j *pipeline.Judgement) nodeauthz.Features {
		n++
		h := fnv.New32()
		_, _ = h.Write([]byte(j.Event.AuditID))
		switch {
		case n < 700, n < 1400 && h.Sum32()%2 == 0:
			return old
		}
		return fresh
	})
	o.Logs, o.Stdin = []string{"-"}, bytes.NewReader(log)
	a, err := Analyze(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	v, g := a.Report.Authorization.Versions, &a.Report.Agreement
	if len(v) != 1 || v[0].Name != "1.37" || v[0].Also != "1.36" || v[0].Against != 0 || !v[0].Known {
		t.Errorf("%+v", v)
	}
	if g.Compared < 1000 || g.Agree != g.Compared || g.Reasons.Equal != g.Reasons.Compared {
		t.Errorf("agreement %+v", g)
	}
	if r := versionKnown(t, a); r.State != checks.Passed {
		t.Errorf("%+v", r)
	}
}
