package app

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/cluster"
	"github.com/nodetrail/nodetrail/coverage"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// provenDay puts a day through Analyze with all that its owner would give. It may be called from any goroutine.
func provenDay(t testing.TB, d *days.Day, change ...func(*AnalyzeOptions)) []checks.Result {
	t.Helper()
	if a := analyzedDay(t, d, change...); a != nil {
		return a.Facts.Checks
	}
	return nil
}

func analyzedDay(t testing.TB, d *days.Day, change ...func(*AnalyzeOptions)) *Analysis {
	t.Helper()
	o := dayOptions(t, d)
	for _, c := range change {
		c(&o)
	}
	a, err := Analyze(t.Context(), o)
	if err != nil {
		t.Error(err)
		return nil
	}
	if x := &a.Report.Readiness; x.Ready && len(x.Blockers) > 0 {
		t.Errorf("%v is ready, and there are blockers: %q", d.Applied, x.Blockers)
	}
	return a
}

// dayOptions are those of Analyze for a day.
func dayOptions(t testing.TB, d *days.Day) AnalyzeOptions {
	t.Helper()
	o := AnalyzeOptions{
		Authorization: Authorization{Skew: time.Second},
		Input:         Input{Logs: []string{"-"}, Stdin: d.Read(), Loaded: cluster.NewState()},
		MinWindow:     d.Options.Span - 2*time.Minute, Now: d.To,
	}
	if err := o.Loaded.Load([]string{"-"}, d.ReadJournal()); err != nil {
		t.Error(err)
	}
	if d.Policy != "" {
		o.Policy = policyOf(t, d.Policy)
	}
	return o
}

// policies are those of days, by their text: many days have the same one.
var policies sync.Map

func policyOf(t testing.TB, text string) *coverage.Policy {
	t.Helper()
	if p, known := policies.Load(text); known {
		return p.(*coverage.Policy)
	}
	p, err := coverage.ParsePolicy([]byte(text))
	if err != nil {
		t.Error(err)
	}
	policies.Store(text, p)
	return p
}

// open are the checks of readiness that are not passed, each with the codes of the items that keep it from that.
func open(results []checks.Result) map[string][]string {
	out := map[string][]string{}
	ready := checks.Of(checks.Ready)
	for i := range results {
		r := &results[i]
		if !slices.ContainsFunc(ready, func(c checks.Check) bool { return c.Name == r.Check }) {
			continue
		}
		for j := range r.Evidence {
			if item := &r.Evidence[j]; item.State != checks.Passed && !slices.Contains(out[r.Check], string(item.Code)) {
				out[r.Check] = append(out[r.Check], string(item.Code))
			}
		}
		slices.Sort(out[r.Check])
	}
	return out
}

// dayOf is what a day was made of.
type dayOf struct {
	seed    uint64
	options days.Options
}

// lentDays are the days that tests had last. Many tests in turn, or at once, do different things to one and the same day.
var lentDays = struct {
	sync.Mutex
	made map[dayOf]func() (*days.Day, error)
	last []dayOf
}{made: map[dayOf]func() (*days.Day, error){}}

// lentDay is the day of that seed with its lines rendered. Others have it, too: whoever changes it does so to a copy.
func lentDay(seed uint64, o days.Options) (*days.Day, error) {
	lentDays.Lock()
	key := dayOf{seed, o}
	made := lentDays.made[key]
	if made == nil {
		made = sync.OnceValues(func() (*days.Day, error) {
			d, err := days.Clean(seed, o)
			if err == nil {
				d.Render() // most tests put many mutations of it through Analyze
			}
			return d, err
		})
		lentDays.made[key], lentDays.last = made, append(lentDays.last, key)
		if len(lentDays.last) > 4 {
			delete(lentDays.made, lentDays.last[0])
			lentDays.last = lentDays.last[1:]
		}
	}
	lentDays.Unlock()
	return made()
}

// threeHours are the days of these tests, each with events and state of its own.
func threeHours(t *testing.T, seed uint64, o days.Options) *days.Day {
	t.Helper()
	o.Span = 3 * time.Hour
	if o.Minor == 0 {
		o.Minor = 36
	}
	d, err := lentDay(seed, o)
	if err != nil {
		t.Fatal(err)
	}
	own := *d
	own.Events, own.State = slices.Clone(d.Events), slices.Clone(d.State)
	return &own
}

func TestCleanDaysPassTheChecks(t *testing.T) {
	f := func(name string, seed uint64, o days.Options) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(map[string][]string{}, open(provenDay(t, threeHours(t, seed, o)))); diff != "" {
				t.Errorf("checks that do not pass, with the codes of what is wrong (-want +got):\n%s", diff)
			}
		})
	}
	f("plain", 1, days.Options{})
	f("one node", 2, days.Options{Nodes: 1})
	f("three servers", 3, days.Options{Servers: 3})
	f("migrated", 4, days.Options{NoBinding: true})
	for minor := days.OldestMinor; minor <= days.NewestMinor; minor += effort.Of(1, 9) {
		f(fmt.Sprintf("1.%d", minor), 5, days.Options{Minor: minor})
	}
	for i, name := range slices.Sorted(maps.Keys(days.FeatureNames())) {
		if i%effort.Of(1, 3) != 0 {
			continue // those of the day below are on it
		}
		feature := days.FeatureNames()[name]
		f(name, 6, days.Options{Features: feature, Minor: 35})
	}
	quiet := days.Deployments | days.Drains | days.Join | days.KubeadmJoin | days.NotReady | days.ServerRestart | days.Autoscaling | days.Spot | days.DHCP | days.DualStack |
		days.ControlPlane | days.Rotation
	f("all that passes alone", 7, days.Options{Servers: 3, Features: quiet})
}

// The log shows the same whatever the mode of an API server is that no kubelet uses, which is listed. One that restarts is one.
func TestModeOfServerWithoutNodes(t *testing.T) {
	for _, c := range []struct {
		options days.Options
		mode    string
		listed  bool
	}{
		{days.Options{Servers: 3}, "auto", true}, {days.Options{Servers: 3}, "Node,RBAC", false}, {days.Options{Features: days.ServerRestart}, "auto", false},
	} {
		day := threeHours(t, 3, c.options)
		for i, e := range day.Events {
			if e.IsNode() && e.Server == 2 {
				moved := *e
				moved.Server = 0
				day.Events[i] = &moved
			}
		}
		results := provenDay(t, day, func(o *AnalyzeOptions) { o.AuthorizationMode = c.mode })
		r, _ := resultOf(results, "node-authorizer-on")
		listed := slices.ContainsFunc(r.Evidence, func(i checks.Item) bool { return i.Code == checks.CodeModeOfSome })
		if r.State != checks.Passed || listed != c.listed {
			t.Errorf("%d servers, %s: %s, listed %t", c.options.Servers, c.mode, r.State, listed)
		}
	}
}

// The whole log begins with its oldest event, and not when a watch was asked for that ended in it. What it lacks since then is missing.
func TestWholeLog(t *testing.T) {
	whole := func(o *AnalyzeOptions) { o.MinWindow = 0 }
	d := threeHours(t, 1, days.Options{})
	a := analyzedDay(t, d, whole)
	if from := *a.Report.Window.From; from.Before(d.From) || from.After(d.From.Add(time.Minute)) {
		t.Errorf("the log of %s begins at %s", d.From, from)
	}
	if diff := cmp.Diff(map[string][]string{}, open(a.Facts.Checks)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.Events = slices.DeleteFunc(d.Events, func(e *days.Event) bool {
		return e.Verb == "update" && e.Ref != nil && e.Ref.Resource == "leases" && e.Received.Before(d.From.Add(20*time.Minute))
	})
	if got := open(provenDay(t, d, whole)); got["window-covered"] == nil {
		t.Errorf("without its first renewals: %v", got)
	}
}

func TestChecksSeeWhatIsWrong(t *testing.T) {
	for which, o := range []days.Options{
		{Servers: 3, Features: days.Deployments | days.Drains},
		{Servers: 3, Features: days.Deployments | days.Drains, NoBinding: true},
	} {
		clean := threeHours(t, 8, o)
		for i, m := range days.Mutations(9) {
			if effort.Of(false, i%60 != which) {
				continue // some, each on one of the two days
			}
			t.Run(fmt.Sprintf("%s, migrated %t", m.Name, o.NoBinding), func(t *testing.T) {
				t.Parallel()
				bad, ok := m.Apply(clean)
				o := o
				o.Features |= m.Needs
				for seed := uint64(100); !ok && seed < 130; seed++ { // some days have too little of what it is about
					bad, ok = m.Apply(threeHours(t, seed, o))
				}
				if !ok {
					if m.Name != "just-deleted" || !o.NoBinding {
						t.Fatal("it does not apply")
					}
					return
				}
				got := open(provenDay(t, bad))
				if m.Effect == days.Harmless {
					if len(got) > 0 {
						t.Errorf("%s: harmless, but there is %v", bad.Applied[0].What, got)
					}
					return
				}
				if !slices.ContainsFunc(m.Checks, func(name string) bool { return len(got[name]) > 0 }) {
					t.Errorf("%s: %v; want one of %q", bad.Applied[0].What, got, m.Checks)
				}
			})
		}
	}
}

// Who answers for what cannot be shown is in the report; what failed nobody can answer for.
func TestWaiversCoverWhatIsUnproven(t *testing.T) {
	clean := threeHours(t, 10, days.Options{})
	for name, want := range map[string]checks.Answer{
		"remove-policy": checks.AnswerReadyWaived, "remove-node-hour": checks.AnswerReadyWaived, "plant-request": checks.AnswerNotReady,
	} {
		m, _ := days.Named(name, 2)
		bad, _ := m.Apply(clean)
		results := provenDay(t, bad)
		if v := checks.Conclude(checks.Ready, results, nil); v.Good(true) {
			t.Errorf("%s: %+v without waivers", name, v)
		}
		waivers := checks.WaiversFor(results, "jane", "known", bad.To.AddDate(0, 1, 0))
		got, applied := checks.Apply(results, waivers, bad.To)
		if v := checks.Conclude(checks.Ready, got, applied); v.Answer != want {
			t.Errorf("%s: %+v, want %s", name, v, want)
		}
	}
}
