package report

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// saysReady are the forms of a report in which it says that the bindings can be deleted, or that a credential is confined, with or without waivers.
func saysReady(t *testing.T, r *Report) (ready, confined []string) {
	t.Helper()
	var data struct {
		Readiness struct {
			Ready   bool
			Verdict string
		}
		Confinement struct{ Verdict string }
	}
	if err := json.Unmarshal(asJSON(t, r), &data); err != nil {
		t.Fatal(err)
	}
	plain, md, html := text(t, r, Text{All: true}), asMarkdown(t, r), asHTML(t, r)
	for form, says := range map[string]bool{
		"JSON's ready": data.Readiness.Ready, "JSON": strings.HasPrefix(data.Readiness.Verdict, "ready"), "text": strings.Contains(plain, "deleted?   READY"),
		"Markdown": strings.HasPrefix(md, "# Ready"), "HTML": strings.Contains(html, ">Ready"), "HTML's colour": strings.Contains(html, `<h1><span class="yes">`),
		"--fail-on": r.Readiness.Good(true),
	} {
		if says {
			ready = append(ready, form)
		}
	}
	for form, says := range map[string]bool{
		"JSON": strings.HasPrefix(data.Confinement.Verdict, "confined"), "text": strings.Contains(plain, "confined?   CONFINED"),
		"Markdown": strings.Contains(md, "**Confined"), "HTML": strings.Contains(html, ">Confined"), "HTML's colour": strings.Contains(html, `node? <span class="yes">`),
		"--fail-on": r.Confinement.Good(true),
	} {
		if says {
			confined = append(confined, form)
		}
	}
	return ready, confined
}

const (
	readyForms    = 7
	confinedForms = 6
)

// passedChecks are results of which each passed.
func passedChecks() []checks.Result {
	var out []checks.Result
	for _, c := range checks.All() {
		out = append(out, checks.Result{Check: c.Name, State: checks.Passed, Expected: 1, Seen: 1})
	}
	return out
}

// One check alone that did not pass, whatever it came to and however it says so, is enough for no form to say ready (confined), and for no other question.
func TestEachCheckAloneIsEnough(t *testing.T) {
	ways := map[string]func(*checks.Result) []checks.Result{
		"failed":    func(r *checks.Result) []checks.Result { r.State = checks.Failed; return []checks.Result{*r} },
		"unproven":  func(r *checks.Result) []checks.Result { r.State = checks.Unproven; return []checks.Result{*r} },
		"no state":  func(r *checks.Result) []checks.Result { r.State = 99; return []checks.Result{*r} },
		"no result": func(*checks.Result) []checks.Result { return nil },
		"an item failed": func(r *checks.Result) []checks.Result {
			r.Evidence = []checks.Item{{State: checks.Failed}}
			return []checks.Result{*r}
		},
		"an item is open": func(r *checks.Result) []checks.Result {
			r.Evidence = make([]checks.Item, 1)
			return []checks.Result{*r}
		},
		"a second one fails": func(r *checks.Result) []checks.Result {
			return []checks.Result{*r, {Check: r.Check, State: checks.Failed}}
		},
		"a second one lacks": func(r *checks.Result) []checks.Result { return []checks.Result{{Check: r.Check}, *r} },
	}
	f := facts(10)
	l := newLog(t)
	l.many(10)
	f.Checks = passedChecks()
	if ready, confined := saysReady(t, l.b.Report(f)); len(ready) != readyForms || len(confined) != confinedForms {
		t.Fatalf("all passed: %q and %q alone say so", ready, confined)
	}
	for i, c := range checks.All() {
		for name, way := range ways {
			f.Checks = passedChecks()
			bad := f.Checks[i]
			f.Checks = slices.Concat(f.Checks[:i], way(&bad), f.Checks[i+1:])
			r := l.b.Report(f)
			ready, confined := saysReady(t, r)
			if asks := c.Questions&checks.Ready != 0; asks && len(ready) > 0 || !asks && len(ready) != readyForms {
				t.Errorf("%s, %s: ready by %q", c.Name, name, ready)
			}
			if asks := c.Questions&checks.Confined != 0; asks && len(confined) > 0 || !asks && len(confined) != confinedForms {
				t.Errorf("%s, %s: confined by %q", c.Name, name, confined)
			}
			if out := text(t, r, Text{All: true}); !strings.Contains(out, "  failed   "+c.Name+" ") && !strings.Contains(out, "  unproven "+c.Name+" ") {
				t.Errorf("%s, %s: the text does not say so:\n%s", c.Name, name, out)
			}
		}
	}
}

// Whatever the log and the facts are, all checks passed is what makes a report ready, and nothing else does.
func TestNoOtherPathToReady(t *testing.T) {
	rnd := rand.New(rand.NewPCG(13, 1))
	logs := []func(*log){
		func(*log) {}, func(l *log) { l.many(20) }, func(l *log) { l.add("worker-1 get secrets shop/db", byRBAC("legacy")) },
		func(l *log) { l.add(" get nodes x", stranger("kubelet")) }, func(l *log) { l.add("worker-1 get secrets shop/db", denied, race) },
	}
	seen := map[string]int{}
	for n := range effort.Of(3000, 300) {
		l := newLog(t)
		logs[rnd.IntN(len(logs))](l)
		f := facts(int64(rnd.IntN(3)))
		f.HasState = rnd.IntN(2) == 0
		f.Authorization.Mode = []string{"Node,RBAC", "RBAC", "", "Node"}[rnd.IntN(4)]
		passed := map[checks.Question]bool{checks.Ready: true, checks.Confined: true}
		waived := map[checks.Question]bool{}
		odd := []int{1, 60, 400}[n%3] // one of so many results is odd
		for _, c := range checks.All() {
			r := checks.Result{Check: c.Name, State: checks.Passed, Expected: 1, Seen: 1}
			state := checks.Passed
			switch rnd.IntN(4 * odd) {
			case 0:
				state = checks.State(rnd.IntN(5))
				r.State = state
			case 1:
				state = checks.State(rnd.IntN(5))
				r.Evidence = []checks.Item{{State: checks.Passed}, {State: state}}
			case 2:
				continueWithout(passed, &c)
				continue
			}
			for q := range passed {
				switch {
				case c.Questions&q == 0 || state == checks.Passed:
				case state == checks.Waived:
					waived[q] = true
				default:
					passed[q] = false
				}
			}
			f.Checks = append(f.Checks, r)
		}
		rnd.Shuffle(len(f.Checks), func(i, j int) { f.Checks[i], f.Checks[j] = f.Checks[j], f.Checks[i] })
		r := l.b.Report(f)
		want := func(q checks.Question, yes string) string {
			switch {
			case passed[q] && !waived[q]:
				return yes
			case passed[q]:
				return yes + " with waivers"
			}
			return ""
		}
		for q, got := range map[checks.Question]string{checks.Ready: r.Readiness.Verdict, checks.Confined: r.Confinement.Verdict} {
			yes := map[checks.Question]string{checks.Ready: "ready", checks.Confined: "confined"}[q]
			if says := strings.HasPrefix(got, yes); says != passed[q] || says && got != want(q, yes) {
				t.Fatalf("case %d: %q, want %q: %+v", n, got, want(q, yes), f.Checks)
			}
			seen[got]++
		}
		if r.Readiness.Ready != (passed[checks.Ready] && !waived[checks.Ready]) {
			t.Fatalf("case %d: ready %t: %+v", n, r.Readiness.Ready, f.Checks)
		}
		if n%20 == 0 {
			ready, confined := saysReady(t, r)
			if forms := len(ready) == readyForms || len(ready) == readyForms-1 && waived[checks.Ready]; forms != passed[checks.Ready] || !passed[checks.Ready] && len(ready) > 0 {
				t.Fatalf("case %d: ready by %q: %+v", n, ready, f.Checks)
			}
			if passed[checks.Confined] != (len(confined) == confinedForms) || !passed[checks.Confined] && len(confined) > 0 {
				t.Fatalf("case %d: confined by %q: %+v", n, confined, f.Checks)
			}
		}
	}
	for _, a := range []checks.Answer{
		checks.AnswerReady, checks.AnswerReadyWaived, checks.AnswerNotReady, checks.AnswerConfined, checks.AnswerConfinedWaived, checks.AnswerNotConfined, checks.AnswerNotEnough,
	} {
		if seen[string(a)] < effort.Of(20, 2) {
			t.Errorf("%q came %d times", a, seen[string(a)])
		}
	}
}

// continueWithout takes down that a check has no result.
func continueWithout(passed map[checks.Question]bool, c *checks.Check) {
	for q := range passed {
		if c.Questions&q != 0 {
			passed[q] = false
		}
	}
}

// The head names how many waivers it rests on; those who do not accept them get no yes.
func TestReadyWithWaivers(t *testing.T) {
	f, l := facts(10), newLog(t)
	l.many(10)
	f.Checks = passedChecks()
	for _, name := range []string{"rare-paths-seen", "policy-known"} {
		at := slices.IndexFunc(f.Checks, func(r checks.Result) bool { return r.Check == name })
		f.Checks[at] = checks.Result{Check: name, Expected: 1, Evidence: []checks.Item{{Code: checks.CodePolicyUnknown}}}
	}
	waivers := checks.WaiversFor(f.Checks, "jane", "known", at(0).AddDate(0, 1, 0))
	f.Checks, f.Waivers = checks.Apply(f.Checks, waivers, at(0))
	r := l.b.Report(f)
	if x := &r.Readiness; x.Verdict != VerdictWaived || x.Waivers != 2 || x.Ready || x.Good(false) || !x.Good(true) || x.Evidence != "sufficient" {
		t.Errorf("%+v", x)
	}
	for _, out := range []string{text(t, r, Text{All: true}), asMarkdown(t, r), asHTML(t, r)} {
		if !strings.Contains(strings.ToLower(out), "ready with 2 waivers") || !strings.Contains(out, "13 passed") {
			t.Error(fmt.Sprint(out))
		}
	}
}

// Every form has the same list: each check of each question in its state.
func TestFormsListTheSameChecks(t *testing.T) {
	f := facts(10)
	l := newLog(t)
	l.many(10)
	f.Checks = passedChecks()
	for i := range f.Checks {
		state := []checks.State{checks.Failed, checks.Unproven, checks.Waived, checks.Passed}[i%4]
		f.Checks[i].State, f.Checks[i].Evidence = state, []checks.Item{{State: state}}
	}
	r := l.b.Report(f)
	plain, md, html := text(t, r, Text{All: true}), asMarkdown(t, r), asHTML(t, r)
	for i, c := range checks.All() {
		state, questions := f.Checks[i].State, 0
		for _, q := range []checks.Question{checks.Ready, checks.Confined} {
			if c.Questions&q != 0 {
				questions++
			}
		}
		for form, n := range map[string]int{
			"text":     strings.Count(plain, fmt.Sprintf("\n  %-8s %s  ", state, c.Name)),
			"Markdown": strings.Count(md, fmt.Sprintf("\n| %s | %s |", c.Name, state)),
			"HTML":     len(regexp.MustCompile(fmt.Sprintf(`<td>%s</td><td class="\w+">%s</td>`, c.Name, state)).FindAllString(html, -1)),
		} {
			if n != questions {
				t.Errorf("%s lists %s as %s %d times, want %d", form, c.Name, state, n, questions)
			}
		}
	}
}
