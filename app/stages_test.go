package app

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// stageCase is a set of stages that an audit policy leaves out, as a whole or in its rules.
type stageCase struct {
	omits []string
	rules bool
}

// stageCases are all sets of stages; those with the end of requests at full effort both as a whole and in rules.
func stageCases() (out []stageCase) {
	all := days.Stages()
	for mask := range 1 << len(all) {
		if mask%effort.Of(1, 3) != 0 {
			continue
		}
		var omits []string
		for i, s := range all {
			if mask>>i&1 == 1 {
				omits = append(omits, s)
			}
		}
		ways := 1
		if !slices.Contains(omits, days.StageComplete) {
			ways = effort.Of(2, 1)
		}
		for way := range ways {
			out = append(out, stageCase{omits, (mask+way)%2 == 1})
		}
	}
	return out
}

// whole reports whether each end that a request can take leaves an event: it ends, it is open, or the API server panics.
func (c *stageCase) whole() bool {
	no := func(s string) bool { return slices.Contains(c.omits, s) }
	return !no(days.StageComplete) && !no(days.StageStarted) && (!no(days.StagePanic) || !no(days.StageReceived))
}

func answersOf(results []checks.Result) (ready, confined checks.Answer) {
	return checks.Conclude(checks.Ready, results, nil).Answer, checks.Conclude(checks.Confined, results, nil).Answer
}

// Whatever stages an audit policy leaves out: a day on which a client needs a binding, by a watch that is still open when the log ends or by a request at which
// the API server panics, is not READY; a day on which somebody else watches with a node's credential is not CONFINED; and a clean day is both, if and only if the
// stages that are left tell of each request how it ends. The same is so for watches where nobody gives the policy and somebody answers for it, if the log has
// no beginnings of watches; and policy check says so beforehand, and what it writes has the stages.
func TestStages(t *testing.T) {
	clean := stagesDay(t)
	mutated := map[string]*days.Day{}
	for _, name := range []string{"plant-open-watch", "plant-panic", "holder-open-watch"} {
		m, _ := days.Named(name, 3)
		day, ok := m.Apply(clean)
		if !ok {
			t.Fatalf("%s does not apply", name)
		}
		mutated[name] = day
	}
	answersFor := []checks.Waiver{{Check: "policy-known", Owner: "a", Reason: "b", Expires: clean.To.Add(48 * time.Hour)}}
	unknown := func(o *AnalyzeOptions) { o.Policy, o.Waivers = nil, answersFor }
	good := func(a checks.Answer) bool {
		return a == checks.AnswerReady || a == checks.AnswerConfined || strings.Contains(string(a), "waive")
	}
	for _, c := range stageCases() {
		t.Run(fmt.Sprintf("%v, rules %t", c.omits, c.rules), func(t *testing.T) {
			logged := func(day *days.Day) *days.Day {
				d, err := days.OmitStages(day, c.omits, c.rules)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			day := logged(clean)
			if slices.Contains(c.omits, days.StageComplete) && slices.Contains(c.omits, days.StageStarted) {
				return // nothing is in the log that was answered
			}
			can, err := PolicyCheck(PolicyCheckOptions{Path: "-", Stdin: strings.NewReader(day.Policy), Fix: true})
			if err != nil {
				t.Fatal(err)
			}
			if n, _ := can.Cannot(checks.Ready); (n == 0) != c.whole() {
				t.Errorf("policy check: READY is impossible for %d checks", n)
			}
			if again, err := PolicyCheck(PolicyCheckOptions{Path: "-", Stdin: strings.NewReader(string(can.Fixed))}); err != nil {
				t.Error(err)
			} else if n, _ := again.Cannot(checks.Ready); n > 0 {
				t.Errorf("policy check: with what it writes READY is impossible for %d checks:\n%s", n, can.Fixed)
			}
			analysis := analyzedDay(t, day)
			results := analysis.Facts.Checks
			for _, f := range analysis.Report.Findings {
				if strings.Contains(f.Message, "no read of any secret") {
					t.Errorf("a clean day: %s", f.Message)
				}
			}
			ready, confined := answersOf(results)
			if (ready == checks.AnswerReady) != c.whole() || (confined == checks.AnswerConfined) != c.whole() {
				t.Errorf("a clean day: %s, %s, with %v", ready, confined, open(results))
			}
			if only := open(results); !c.whole() && !slices.Contains(c.omits, days.StageComplete) && len(only) != 1 {
				t.Errorf("a clean day: more than the policy is in doubt: %v", only)
			}
			for name, bad := range mutated {
				ready, confined := answersOf(provenDay(t, logged(bad)))
				if name == "holder-open-watch" && good(confined) || name != "holder-open-watch" && good(ready) {
					t.Errorf("%s: %s, %s", name, ready, confined)
				}
				if name == "plant-panic" {
					continue // where all of it is left out, no log shows it
				}
				ready, confined = answersOf(provenDay(t, logged(bad), unknown))
				if name == "holder-open-watch" && good(confined) || name != "holder-open-watch" && good(ready) {
					t.Errorf("%s, and the policy is not known: %s, %s", name, ready, confined)
				}
			}
			results = provenDay(t, day, unknown)
			ready, _ = answersOf(results)
			if begins := !slices.Contains(c.omits, days.StageComplete) && !slices.Contains(c.omits, days.StageStarted); good(ready) != begins {
				t.Errorf("a clean day, and the policy is not known: %s, with %v", ready, open(results))
			}
		})
	}
}

// stagesDay is READY, and its credentials are confined.
func stagesDay(t *testing.T) *days.Day {
	t.Helper()
	day, err := days.Clean(45, days.Options{Span: 2 * time.Hour, Nodes: 2, Minor: 36, Features: days.KubeadmJoin | days.Rotation | days.Deployments, NoBinding: true})
	if err != nil {
		t.Fatal(err)
	}
	probe, _ := days.Named("probe-plugin", 1)
	day, _ = probe.Apply(day)
	return day
}
