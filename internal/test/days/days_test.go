package days

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/audit/policy"

	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/internal/test/scenario"
	"github.com/nodetrail/nodetrail/internal/test/scenario/analyzed"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
)

const everything = Rotation<<1 - 1

func clean(t testing.TB, seed uint64, opts Options) *Day {
	t.Helper()
	if opts.Span == 0 {
		opts.Span = 3 * time.Hour
	}
	d, err := Clean(seed, opts)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// analyze judges a day as the command of that name does.
func analyze(t testing.TB, d *Day) *report.Report {
	t.Helper()
	return analysis(t, d).Report
}

// analysis is all that comes of it. The version is given but for a day on which it changes.
func analysis(t testing.TB, d *Day) *analyzed.Outcome {
	t.Helper()
	var features nodeauthz.Features
	if !d.Options.Features.Has(Upgrade) {
		var err error
		if features, err = nodeauthz.FeaturesFor(fmt.Sprintf("1.%d", d.Options.Minor)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := analyzed.Run(context.Background(), &scenario.Scenario{
		Name: t.Name(), Path: t.Name(), State: d.Journal(), Log: d.Log(),
		Flags: scenario.Flags{Features: features, Skew: time.Second, Mode: "auto", StateFromAudit: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestSeedMakesTheDay(t *testing.T) {
	opts := Options{Servers: 3, Features: everything}
	a, b, c := clean(t, 1, opts), clean(t, 1, opts), clean(t, 2, opts)
	if !bytes.Equal(a.Log(), b.Log()) || !bytes.Equal(a.Journal(), b.Journal()) {
		t.Error("one seed makes two days")
	}
	if bytes.Equal(a.Log(), c.Log()) {
		t.Error("two seeds make the same day")
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		opts Options
		want string
	}{
		{Options{Nodes: -1}, "-1 nodes: there must be one at least"},
		{Options{Scaled: -1}, "-1 nodes by autoscaling: there must be one at least"},
		{Options{Servers: -1}, "-1 API servers: there must be one at least"},
		{Options{Span: time.Minute}, "a span of 1m0s: it must be 30m0s at least"},
		{Options{Minor: 27}, "no kubelet of Kubernetes 1.27 is known, only of 1.28 to 1.37"},
		{Options{Minor: 37, Features: Upgrade}, "no upgrade is known from 1.37"},
		{Options{Profile: "none"}, `no profile "none"`},
	} {
		if _, err := Clean(1, c.opts); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.opts, err, c.want)
		}
	}
}

func TestCleanDaysAreClean(t *testing.T) {
	type day struct {
		name string
		seed uint64
		opts Options
	}
	cases := []day{{"plain", 1, Options{}}, {"three servers", 2, Options{Servers: 3}}, {"one node", 3, Options{Nodes: 1}}, {"migrated", 4, Options{NoBinding: true}}}
	for name, f := range FeatureNames() {
		cases = append(cases, day{name, 5, Options{Features: f, Minor: 35}})
	}
	for minor := 33; minor <= 36; minor++ {
		cases = append(cases, day{fmt.Sprintf("1.%d", minor), 6, Options{Minor: minor, Features: Deployments | Drains | NotReady | Spot | Autoscaling}})
	}
	cases = append(cases, day{"everything", 7, Options{Servers: 3, Minor: 35, Features: everything}})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for seed := range effort.Of(uint64(2), 1) {
				checkClean(t, clean(t, c.seed+100*seed, c.opts))
			}
		})
	}
}

// checkClean holds a day against what analyze says of it: no finding is above low, which is where alerts begin by default.
func checkClean(t *testing.T, d *Day) {
	t.Helper()
	r := analyze(t, d)
	if r.Events.Malformed > 0 || r.Verdicts.Unknown > 0 {
		t.Errorf("seed %d: %d malformed, %d unknown", d.Seed, r.Events.Malformed, r.Verdicts.Unknown)
	}
	if !d.Options.Features.Has(GraphLag) && r.Agreement.Agree != r.Agreement.Compared {
		t.Errorf("seed %d: %d of %d agree: %+v", d.Seed, r.Agreement.Agree, r.Agreement.Compared, r.Agreement.Disagree)
	}
	for _, x := range r.Agreement.Disagree { // of a day with lag: the API server knows less than the state
		if d.Options.Features.Has(GraphLag) && (x.Observed != "deny" || x.Verdict != "allow") {
			t.Errorf("seed %d: %+v", d.Seed, x)
		}
	}
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Severity != rules.Low.String() {
			t.Errorf("seed %d: %s %s: %s", d.Seed, f.Severity, f.Rule, f.Message)
		}
	}
	for i := range r.Incidents {
		t.Errorf("seed %d: an incident: %+v", d.Seed, r.Incidents[i])
	}
	if len(r.State.Warnings) > 0 {
		t.Errorf("seed %d: %q", d.Seed, r.State.Warnings)
	}
}

// renewals calls f with the gap before each renewal of a Lease, and returns how many Leases are renewed.
func renewals(d *Day, f func(lease string, at time.Time, gap time.Duration)) int {
	last := map[string]time.Time{}
	for _, e := range d.Events {
		if !isBeat(e) && !isIdentity(e) {
			continue
		}
		if before, ok := last[e.Ref.Name]; ok {
			f(e.Ref.Name, e.Received, e.Received.Sub(before))
		}
		last[e.Ref.Name] = e.Received
	}
	return len(last)
}

// Leases are renewed at the cadence of real ones, and what interrupts a kubelet's connection costs no more than the Lease's duration.
func TestLeasesAreRenewed(t *testing.T) {
	restarted := map[string]int{}
	n := renewals(clean(t, 8, Options{}), func(lease string, at time.Time, gap time.Duration) {
		if gap < 10*time.Second || gap > 10400*time.Millisecond {
			restarted[lease]++
		}
	})
	if diff := cmp.Diff(map[string]int{"worker-1": 1}, restarted); diff != "" || n != 4 {
		t.Errorf("%d leases; renewed early or late, where worker-1's kubelet restarts (-want +got):\n%s", n, diff)
	}
	for _, servers := range []int{1, 3} {
		d := clean(t, 9, Options{Servers: servers, Features: DHCP | Rotation | ServerRestart})
		n := renewals(d, func(lease string, at time.Time, gap time.Duration) {
			if gap < 0 || gap > 40*time.Second {
				t.Errorf("%d servers: %s is renewed after %s at %s", servers, lease, gap, at)
			}
		})
		if n != 3+servers {
			t.Errorf("%d servers: %d leases are renewed", servers, n)
		}
	}
}

func TestStandingWatchesNeverStop(t *testing.T) {
	d := clean(t, 11, Options{Servers: 3, Features: ServerRestart | DHCP})
	type key struct{ node, kind string }
	open := map[key]time.Time{} // since when there is none; zero: there is one
	for _, e := range d.Events {
		if e.Verb != "watch" || !slices.Contains([]string{"pods", "nodes", "services", "csidrivers", "runtimeclasses"}, e.Ref.Resource) {
			continue
		}
		k := key{nodeOf(e.User), e.Ref.Resource}
		if e.Stage == StageComplete {
			open[k] = e.Staged
			continue
		}
		if since := open[k]; !since.IsZero() && e.Received.Sub(since) > time.Minute {
			t.Errorf("%v: no watch for %s until %s", k, e.Received.Sub(since), e.Received)
		}
		open[k] = time.Time{}
	}
	if len(open) != 3*5 {
		t.Errorf("%d watches, want 15", len(open))
	}
}

// Habits of the minors that checks know of.
func TestMinorsHaveTheirHabits(t *testing.T) {
	for minor := OldestMinor; minor <= NewestMinor; minor++ {
		d := clean(t, 12, Options{Minor: minor})
		gets, lists, long, credentials := 0, 0, 0, 0
		for _, e := range d.Events {
			if !e.IsNode() {
				continue
			}
			if e.User.CredentialID != "" {
				credentials++
			}
			switch {
			case e.Verb == "get" && e.Ref.Resource == "nodes":
				gets++
			case e.Verb == "list":
				lists++
			case e.Verb == "watch" && e.Ref.Resource == "configmaps" && e.Stage == StageComplete && e.Staged.Sub(e.Received) > 11*time.Minute:
				long++
			}
		}
		if diff := cmp.Diff([]bool{minor < 31, minor < 35, minor >= 31, minor >= 32}, []bool{gets > 1000, lists > 0, long > 0, credentials > 0}); diff != "" {
			t.Errorf("1.%d: gets often, lists, watches long, logs credentials (-want +got):\n%s", minor, diff)
		}
	}
}

// What features promise is in the log.
func TestFeaturesShow(t *testing.T) {
	for _, c := range []struct {
		feature Features
		what    func(e *Event) bool
	}{
		{Deployments, func(e *Event) bool { return e.Verb == "create" && e.Ref.Subresource == "binding" }},
		{Drains, func(e *Event) bool { return e.Ref.Subresource == "eviction" && e.Code == 201 }},
		{Join, func(e *Event) bool { return e.Verb == "create" && e.Ref.Name == "worker-joined" && e.Code == 201 }},
		{KubeadmJoin, func(e *Event) bool { return e.User.Username == "system:bootstrap:abcdef" && e.Verb == "create" }},
		{KubeadmJoin, func(e *Event) bool {
			return strings.HasPrefix(e.UserAgent, "kubeadm/") && e.IsNode() && e.Verb == "patch"
		}},
		{NotReady, func(e *Event) bool {
			return e.Verb == "delete" && strings.HasSuffix(e.User.Username, ":taint-eviction-controller")
		}},
		{Upgrade, func(e *Event) bool { return strings.HasPrefix(e.UserAgent, "kubelet/v1.36.") }},
		{Upgrade, func(e *Event) bool { return isIdentity(e) && strings.HasPrefix(e.UserAgent, "kube-apiserver/v1.36.") }},
		{Upgrade, func(e *Event) bool {
			return strings.HasPrefix(e.UserAgent, "kubeadm/v1.36.") && e.Ref.Name == "kubelet-config" && e.IsNode()
		}},
		{Windows, func(e *Event) bool {
			return strings.HasPrefix(e.UserAgent, "kubelet.exe/v1.35.4 (windows/amd64)") && isBeat(e)
		}},
		{Autoscaling, func(e *Event) bool {
			return e.Verb == "delete" && e.Ref.Resource == "nodes" && strings.HasPrefix(e.Ref.Name, "scaled-")
		}},
		{Spot, func(e *Event) bool { return e.Verb == "delete" && strings.HasPrefix(e.Ref.Name, "spot-") }},
		{VirtualNodes, func(e *Event) bool { return e.Verb == "patch" && e.Ref.Name == "kwok-node-0" && !e.IsNode() }},
		{DHCP, func(e *Event) bool { return strings.HasPrefix(e.SourceIPs[0], "10.0.2.") && isBeat(e) }},
		{DualStack, func(e *Event) bool { return strings.HasPrefix(e.SourceIPs[0], "fd00:") && e.IsNode() }},
		{ControlPlane, func(e *Event) bool { return e.SourceIPs[0] == "127.0.0.1" && e.IsNode() }},
		{Rotation, func(e *Event) bool {
			return e.IsNode() && e.Verb == "create" && e.Ref.Resource == "certificatesigningrequests"
		}},
	} {
		with, without := clean(t, 15, Options{Minor: 35, Features: c.feature}), clean(t, 15, Options{Minor: 35})
		has := func(d *Day) bool {
			return slices.ContainsFunc(d.Events, func(e *Event) bool { return e.Ref != nil && c.what(e) })
		}
		if !has(with) || has(without) && c.feature != Deployments {
			t.Errorf("%v: with it %t, without %t", c.feature.Names(), has(with), has(without))
		}
	}
}

func TestPolicyIsTheDeployedOne(t *testing.T) {
	text, err := os.ReadFile("../../../deploy/audit-policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deployed, err := policy.LoadPolicyFromBytes(text)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := policy.LoadPolicyFromBytes([]byte(Profiles()["nodetrail"]))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(deployed, ours); diff != "" {
		t.Errorf("(-deployed +ours):\n%s", diff)
	}
}

func TestProfilesHide(t *testing.T) {
	for name, hidden := range map[string]func(e *Event) bool{
		"nodetrail":       func(e *Event) bool { return e.User.Username == "system:kube-scheduler" && e.Ref.Resource != "pods" },
		"eks":             func(e *Event) bool { return e.IsNode() && e.Verb == "get" && e.Ref.Resource == "nodes" },
		"aks-audit-admin": isRead,
		"gke":             isIdentity,
	} {
		d := clean(t, 13, Options{Profile: name})
		if i := slices.IndexFunc(d.Events, hidden); i >= 0 {
			t.Errorf("%s logs %s", name, d.Events[i].appendLine(nil))
		}
		if len(d.Events) < 3000 {
			t.Errorf("%s logs %d events", name, len(d.Events))
		}
	}
}

// An API server that has just started knows nothing of some pods for a minute, whichever it is of how many. Then its node authorizer allows the same.
func TestGraphLags(t *testing.T) {
	for _, servers := range []int{1, 3} {
		d := clean(t, 14, Options{Servers: servers, Features: GraphLag})
		lagged := map[string]bool{}
		var first, last time.Time
		for _, e := range d.Events {
			if !e.IsNode() || e.Verb != "watch" || e.Stage != StageStarted || e.Received.Sub(d.From) > 20*time.Minute && e.DecisionReason != "" {
				continue
			}
			path, _, _ := strings.Cut(e.URI, "?")
			key := nodeOf(e.User) + path + e.Ref.Name
			if e.DecisionReason == "" {
				delete(lagged, key)
				continue
			}
			lagged[key] = true
			if first.IsZero() {
				first = e.Received
			}
			last = e.Received
		}
		if first.IsZero() || last.Sub(first) > time.Minute || len(lagged) > 0 {
			t.Errorf("%d servers: lag from %s to %s; not allowed later: %v", servers, first, last, lagged)
		}
	}
}

func BenchmarkClean(b *testing.B) {
	for b.Loop() {
		d := clean(b, 1, Options{})
		if len(d.Log()) == 0 || len(d.Journal()) == 0 {
			b.Fatal("nothing")
		}
	}
}
