package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/test/captured"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// planted is what is done to a capture before it is judged.
type planted struct {
	// rounds is how often the log is repeated, one after the other; 0 is once.
	rounds int
	// only keeps some requests of a round; nil keeps all.
	only func(round int, j *pipeline.Judgement) bool
	// noKind leaves objects of a kind out of the state.
	noKind string
	policy string
}

// roundOf is longer than a capture.
const roundOf = 70 * time.Second

// withHole judges a capture in which something was planted, as analyze does.
func withHole(t *testing.T, name string, p planted) *Report {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	c := captured.OpenWith(t, name, "auto", bytes.NewReader(journalWithout(t, "../internal/demo/"+name+"/journal.jsonl.gz", p.noKind)))
	state, judge, kubelets := c.State, c.Judge, []string{"hollow-kubelet"}
	judge.Rules, judge.Memory.Kubelets = rules.All(), kubelets
	b := NewBuilder()
	detectors := rules.NewDetectors(judge.Rules, rules.DetectorOptions{Kubelets: kubelets, Finished: true})
	res := c.Replay(func(j *pipeline.Judgement) {
		for round := range max(1, p.rounds) {
			if p.only != nil && !p.only(round, j) {
				continue
			}
			later := *j
			later.Time = j.Time.Add(time.Duration(round) * roundOf)
			b.Add(&later)
			detectors.Observe(&later.Request, judge.State)
		}
	})
	detectors.Flush(judge.State, func(d *rules.Detection) {
		e := pipeline.DetectionEntry(d, judge.State)
		b.AddEntry(&e)
	})
	if p.policy != "" {
		policy, err := coverage.ParsePolicy([]byte(p.policy))
		must(err)
		for i, g := range policy.Gaps(coverage.PolicyOptions{}) {
			severity := rules.Medium
			if !g.Decides() {
				severity = rules.Low
			}
			b.AddEntry(&tally.Entry{ID: tally.ID{byte(i)}, Time: res.Last, Findings: []tally.Finding{{
				Key:    tally.Key{Rule: rules.CoverageGap, Reason: rules.Reason(g.Code), Name: g.Params.Text(codes.ParamWhere)},
				Reason: rules.Reason(g.Code), Severity: severity, Params: g.Params,
			}}})
		}
	}
	f := Facts{
		HasState: true, Events: Events{Read: res.Counts.Read}, Authorization: Authorization{Mode: judge.Mode.String(), Inferred: judge.Mode.Inferred(), KubernetesVersion: "1.36"},
		State: State{Objects: state.Summary().Objects},
		Gaps:  state.Gaps(res.First, res.Last), Nodes: state.Nodes.Names(res.Last), Bindings: []NodeBinding{},
	}
	fate := checks.Fates(nil, nil)
	for x := range state.RBAC.Bindings(res.Last) {
		if x.ForNodes() {
			f.Bindings = append(f.Bindings, NodeBinding{
				Binding: Binding{x.Binding.Kind, x.Binding.Namespace, x.Binding.Name}, Role: x.Role.Name, Fate: fate(&x).String(), UID: x.UID,
				ResourceVersion: x.ResourceVersion,
			})
		}
	}
	return b.Report(f)
}

// journalWithout is a journal without the objects of a kind.
func journalWithout(t *testing.T, path, kind string) []byte {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if kind != "" && bytes.Contains(lines.Bytes(), []byte(`"kind":"`+kind+`"`)) && !bytes.Contains(lines.Bytes(), []byte(`"kind":"Pod"`)) {
			continue
		}
		out.Write(lines.Bytes())
		out.WriteByte('\n')
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// What is said of the captures, with the plan. Nobody asks the checks here, so that nothing is proven.
func TestReadinessOfCaptures(t *testing.T) {
	for _, name := range []string{"capture", "capture-rbac-only"} {
		r := withHole(t, name, planted{})
		if r.Readiness.Verdict != VerdictUnknown || len(r.Readiness.Blockers) == 0 {
			t.Errorf("%s: %s, %q", name, r.Readiness.Verdict, r.Readiness.Blockers)
		}
		check(t, "readiness-"+name+".md", []byte(asMarkdown(t, r)))
	}
}

// Nothing is missing from what the kubelets of the captures alone do in an hour. Whatever is taken away is named.
func TestPlantedHoles(t *testing.T) {
	kubelets := func(_ int, j *pipeline.Judgement) bool {
		return j.IsNode && rules.Product(j.Event.UserAgent) == "hollow-kubelet"
	}
	but := func(not func(round int, j *pipeline.Judgement) bool) func(int, *pipeline.Judgement) bool {
		return func(round int, j *pipeline.Judgement) bool { return kubelets(round, j) && !not(round, j) }
	}
	const hour = 60
	var out strings.Builder
	for _, name := range []string{"capture", "capture-rbac-only"} {
		for _, x := range []struct {
			what string
			planted
			hole codes.Kind // its kind, "" for none
		}{
			{"nothing is missing", planted{rounds: hour, only: kubelets}, ""},
			{"a policy that hides secrets", planted{only: but(func(_ int, j *pipeline.Judgement) bool { return j.Attrs.Resource == "secrets" }), policy: `
apiVersion: audit.k8s.io/v1
kind: Policy
rules:
- level: None
  resources: [{group: "", resources: [secrets]}]
- level: Metadata
`}, codes.Policy},
			{"ten minutes are cut out", planted{rounds: hour, only: but(func(round int, _ *pipeline.Judgement) bool { return round >= 25 && round < 34 })}, codes.Log},
			{"a node is silent", planted{only: but(func(_ int, j *pipeline.Judgement) bool { return j.Node == "worker-3" })}, codes.Node},
			{"a node falls silent", planted{rounds: hour, only: but(func(round int, j *pipeline.Judgement) bool {
				return round >= 25 && j.Node == "worker-3"
			})}, codes.Node},
			{"the state has no PersistentVolumes", planted{only: kubelets, noKind: "PersistentVolume"}, codes.State},
		} {
			r := withHole(t, name, x.planted)
			got := &r.Readiness
			fmt.Fprintf(&out, "%s, %s\n", name, x.what)
			kinds := map[codes.Kind]bool{}
			for _, b := range got.Blockers {
				fmt.Fprintf(&out, "  x %s\n", b)
			}
			for _, h := range got.Holes {
				kinds[h.Kind] = true
				fmt.Fprintf(&out, "  %s: %s\n", h.Kind, h.Message)
			}
			if x.hole == "" && len(kinds) > 0 || x.hole != "" && !kinds[x.hole] {
				t.Errorf("%s, %s: holes %v", name, x.what, got.Holes)
			}
			if off := len(got.Blockers) > 0; off != (name == "capture-rbac-only") { // the Node authorizer is not in force, whatever is missing
				t.Errorf("%s, %s: blockers %q", name, x.what, got.Blockers)
			}
		}
	}
	check(t, "holes.txt", []byte(out.String()))
}
