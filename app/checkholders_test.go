package app

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/internal/test/days"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/report"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// resultOf is the result of a check, with the codes of what does not pass.
func resultOf(results []checks.Result, check string) (checks.Result, []string) {
	r := results[slices.IndexFunc(results, func(r checks.Result) bool { return r.Check == check })]
	var codes []string
	for _, i := range r.Evidence {
		if i.State != checks.Passed {
			codes = append(codes, string(i.Code))
		}
	}
	slices.Sort(codes)
	return r, slices.Compact(codes)
}

// codesOf is the state of a check, with the codes of what does not pass.
func codesOf(results []checks.Result, check string) (checks.State, []string) {
	r, codes := resultOf(results, check)
	return r.State, codes
}

// Whatever happens on a day, the check passes if nobody else uses a credential, and does not if somebody does, or if the log does not show it.
func TestOneHolder(t *testing.T) {
	clean := threeHours(t, 41, days.Options{Minor: 36, Features: days.KubeadmJoin | days.Rotation})
	if s, codes := codesOf(provenDay(t, clean), "one-holder"); s != checks.Passed {
		t.Fatalf("a clean day: %s, %q", s, codes)
	}
	want := map[string]checks.Code{
		"holder-elsewhere": checks.CodeSecondUser, "holder-kubeadm": checks.CodeSecondUser, "holder-kubeadm-claims": checks.CodeSecondUser, "holder-other-node": checks.CodeSecondUser, "holder-client": checks.CodeSecondUser,
		"holder-moves": checks.CodeSecondUser, "holder-forwards": checks.CodeSecondUserDoubtful, "holder-open-watch": checks.CodeSecondUser, "holder-probes": checks.CodeSecondUserDoubtful,
		"holder-agent": checks.CodeSecondUserDoubtful, "holder-gateway": checks.CodeAddressShared, "holder-no-address": checks.CodeAddressUnnamed,
		"holder-no-id": checks.CodeCredentialUnnamed, "holder-vip-moves": checks.CodeAddressShared, "holder-made-node": checks.CodeSecondUser,
		"holder-claims-later": checks.CodeSecondUser, "holder-claims-silent": checks.CodeSecondUserDoubtful,
	}
	for _, m := range days.Mutations(5) {
		if !slices.Contains(m.Confined, "one-holder") {
			continue
		}
		bad, ok := m.Apply(clean)
		if !ok {
			t.Errorf("%s does not apply", m.Name)
			continue
		}
		results := provenDay(t, bad)
		s, codes := codesOf(results, "one-holder")
		failed := want[m.Name] == checks.CodeSecondUser
		if s == checks.Passed || failed != (s == checks.Failed) || !slices.Contains(codes, string(want[m.Name])) {
			t.Errorf("%s (%s): %s, %q; want %q", m.Name, bad.Applied[0].What, s, codes, want[m.Name])
		}
		if m.Name == "holder-kubeadm-claims" && !slices.Contains(codes, string(checks.CodeAddressForeign)) {
			t.Errorf("%s: the address counts as the node's: %q", m.Name, codes)
		}
		delete(want, m.Name)
	}
	if len(want) > 0 {
		t.Errorf("no mutation shows %v", want)
	}

	for seed := range effort.Of(40, 3) { // one of the requests that no kubelet makes
		m, _ := days.Named("holder-probes", uint64(seed))
		bad, ok := m.Apply(clean)
		if !ok {
			t.Fatal("holder-probes does not apply")
		}
		if s, codes := codesOf(provenDay(t, bad), "one-holder"); s != checks.Unproven || !slices.Contains(codes, string(checks.CodeSecondUserDoubtful)) {
			t.Errorf("%s: %s, %q", bad.Applied[0].What, s, codes)
		}
	}

	f := func(name string, code checks.Code, d *days.Day, change ...func(*AnalyzeOptions)) {
		t.Helper()
		if s, codes := codesOf(provenDay(t, d, change...), "one-holder"); s != checks.Unproven || !slices.Contains(codes, string(code)) {
			t.Errorf("%s: %s, %q", name, s, codes)
		}
	}
	f("no policy", checks.CodeRestsOn, clean, func(o *AnalyzeOptions) { o.Policy = nil })
	f("a rule is off", checks.CodeRuleOff, clean, func(o *AnalyzeOptions) { o.Disable = []string{rules.CredentialMisuse} })
	f("no IDs of certificates", checks.CodeCredentialUnnamed, threeHours(t, 42, days.Options{Minor: 31}))
	f("loopback", checks.CodeAddressForeign, threeHours(t, 43, days.Options{Minor: 36, Features: days.ControlPlane}))
	misname, _ := days.Named("name-case", 1)
	misnamed, _ := misname.Apply(threeHours(t, 41, days.Options{Minor: 36}))
	f("a kubelet by another name", checks.CodeSecondUserDoubtful, misnamed)
	half := *clean
	half.Events = slices.DeleteFunc(slices.Clone(clean.Events), func(e *days.Event) bool { return e.Received.After(clean.To.Add(-time.Hour)) && e.IsNode() })
	f("a log with a hole", checks.CodeRestsOn, &half)
}

// Ordinary changes of addresses are nobody else's.
func TestOneHolderOnOrdinaryDays(t *testing.T) {
	for i, features := range []days.Features{days.DHCP, days.DualStack, days.Autoscaling, days.Spot, days.Join, days.NotReady, days.Windows, days.Drains | days.Deployments} {
		if i%effort.Of(1, 2) != 0 {
			continue
		}
		if s, codes := codesOf(provenDay(t, threeHours(t, uint64(50+i), days.Options{Minor: 36, Features: features})), "one-holder"); s != checks.Passed {
			t.Errorf("%v: %s, %q", features.Names(), s, codes)
		}
	}
}

// A cluster that shows everything is confined, and is not if anything of that is missing.
func TestConfined(t *testing.T) {
	for _, features := range []days.Features{days.KubeadmJoin | days.Rotation, days.KubeadmJoin | days.Rotation | days.DHCP | days.Deployments} {
		clean := threeHours(t, 45, days.Options{Minor: 36, Features: features, NoBinding: true})
		probe, _ := days.Named("probe-plugin", 1)
		clean, _ = probe.Apply(clean)
		results := provenDay(t, clean)
		if a := checks.Conclude(checks.Confined, results, nil).Answer; a != checks.AnswerConfined {
			for _, c := range checks.Of(checks.Confined) {
				s, codes := codesOf(results, c.Name)
				t.Logf("%s: %s, %q", c.Name, s, codes)
			}
			t.Fatalf("%v: %s", features.Names(), a)
		}
		for i, m := range days.Mutations(6) {
			if i%effort.Of(1, 36) != 0 || len(m.Confined) == 0 && (m.Effect == days.Harmless || slices.Equal(m.Checks, []string{"rare-paths-seen"})) {
				continue
			}
			if bad, ok := m.Apply(clean); ok {
				if a := checks.Conclude(checks.Confined, provenDay(t, bad), nil).Answer; a == checks.AnswerConfined {
					t.Errorf("%s (%s): %s", m.Name, bad.Applied[0].What, a)
				}
			}
		}
	}
}

// No theft leaves a credential with one user.
func TestAttacksAreNotConfined(t *testing.T) {
	for seed := range effort.Of[uint64](100, 5) {
		clean, err := days.Clean(seed, days.Options{Minor: 32 + int(seed%6), Span: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		bad, theft := days.Attack(clean, seed, 300)
		results := provenDay(t, bad)
		s, codes := codesOf(results, "one-holder")
		if s != checks.Failed {
			t.Errorf("seed %d: %s, %q: %+v", seed, s, codes, *theft)
		}
		if a := checks.Conclude(checks.Confined, results, nil).Answer; a != checks.AnswerNotConfined {
			t.Errorf("seed %d: %s: %+v", seed, a, *theft)
		}
	}
}

// A node's certificate with a group of administrators is not confined, and neither is one whose groups nobody knows.
func TestGroupsOfNodesAreRights(t *testing.T) {
	clean := threeHours(t, 46, days.Options{Minor: 36, NoBinding: true})
	in := func(groups func(i int) string) *days.Day {
		d := *clean
		d.Events = slices.Clone(clean.Events)
		n := 0
		for i, e := range d.Events {
			if e.IsNode() {
				c, u := *e, *e.User
				u.Groups = append(slices.Clone(u.Groups), groups(n))
				c.User = &u
				d.Events[i] = &c
				n++
			}
		}
		return &d
	}
	for name, c := range map[string]struct {
		day   *days.Day
		state checks.State
		code  []string
	}{
		"its own":        {clean, checks.Passed, nil},
		"harmless":       {in(func(int) string { return "eks:node-manager" }), checks.Passed, nil},
		"administrators": {in(func(int) string { return "system:masters" }), checks.Failed, []string{string(checks.CodeDangerousGroup), string(checks.CodeDangerousRight)}},
		"ever new ones":  {in(func(i int) string { return fmt.Sprint("group-", i) }), checks.Unproven, []string{string(checks.CodeNotLookedAt)}},
	} {
		if s, codes := codesOf(provenDay(t, c.day), "no-excess-rights"); s != c.state || !slices.Equal(codes, c.code) {
			t.Errorf("%s: %s, %q", name, s, codes)
		}
	}
}

// heldAt is an hour of the tests' day.
func heldAt(hour int) time.Time { return time.Date(2026, 11, 21, hour, 0, 0, 0, time.UTC) }

// heldUse is a request with the credential of a node.
func heldUse(node, address string, at time.Time) *pipeline.Judgement {
	return &pipeline.Judgement{Request: rules.Request{
		IsNode: true, Node: node, Time: at, Event: &audit.Event{SourceIPs: []string{address}, User: audit.User{CredentialID: "X509SHA256=00"}},
	}}
}

// What is forgotten for lack of room is not known to be harmless.
func TestHoldersForget(t *testing.T) {
	b := newHolderBook()
	for i := range maxHeldAddresses + 2 {
		b.add(heldUse("worker-1", fmt.Sprintf("10.0.0.%d", i), heldAt(i)))
	}
	n := b.nodes["worker-1"]
	if len(n.Addresses) != maxHeldAddresses || n.Addresses[0].Address != "10.0.0.2" || !n.More.at().Equal(heldAt(1)) {
		t.Errorf("%+v, %+v", n.Addresses, n.More)
	}
	b = newHolderBook()
	if b.most != rules.MaxNodes {
		t.Errorf("%d nodes at most", b.most)
	}
	b.most = 1000
	for i := range b.most + 1 {
		b.add(heldUse(fmt.Sprint("worker-", i), "10.0.0.1", heldAt(0).Add(time.Duration(i)*time.Second)))
	}
	dropped := b.most / 4
	if len(b.nodes) != b.most-dropped+1 || !b.forgot.Equal(heldAt(0).Add(time.Duration(dropped-1)*time.Second)) {
		t.Errorf("%d nodes, forgot %s", len(b.nodes), b.forgot)
	}
	again, err := storedHolders(b.changes("a", false))
	if err != nil || !again.forgot.Equal(b.forgot) {
		t.Errorf("forgot %s, %v", again.forgot, err)
	}
	p := proof{held: again, tally: tally.New(), facts: &report.Facts{}}
	for _, c := range []struct {
		to   time.Time
		want bool
	}{{b.forgot.Add(time.Hour), true}, {b.forgot.Add(time.Hour + heldEvery), true}, {b.forgot.Add(time.Hour + heldEvery + time.Second), false}} {
		in := &checks.Input{Options: checks.Options{MinWindow: time.Hour}}
		p.to = c.to
		p.holders(in)
		if got := slices.ContainsFunc(in.Holders.NotKnown, func(i checks.Item) bool { return i.Code == checks.CodeAddressesMore }); got != c.want {
			t.Errorf("until %s: %t", c.to, got)
		}
	}
}

// A service that starts again continues with what it stored, and with nothing of another one.
func TestHoldersResume(t *testing.T) {
	a, other := newHolderBook(), newHolderBook()
	a.add(heldUse("worker-1", "10.0.0.1", heldAt(1)))
	other.add(heldUse("worker-2", "10.0.0.2", heldAt(1)))
	stored := slices.Concat(a.changes("a", false), other.changes("ab", false))
	again, err := resumed(stored, "a")
	if err != nil || len(again.nodes) != 1 {
		t.Fatal(again, err)
	}
	again.add(heldUse("worker-1", "10.0.0.1", heldAt(1).Add(heldEvery-1)))
	if got := again.changes("a", false); len(got) > 0 {
		t.Errorf("%d rows after less than %s", len(got), heldEvery)
	}
	again.add(heldUse("worker-1", "10.0.0.9", heldAt(1).Add(heldEvery-1)))
	got, err := storedHolders(append(again.changes("a", false), stored[1]))
	if err != nil || len(got.nodes) != 2 || len(got.nodes["worker-1"].Addresses) != 2 {
		t.Errorf("%+v, %v", got.nodes, err)
	}
}

// A watch that began before the window and ends in it is a use in the window, but it shares its address with nobody who got that meanwhile.
func TestHeldUntilTheEndOfAWatch(t *testing.T) {
	for _, c := range []struct {
		name  string
		began int
		ended time.Duration
		want  bool
	}{
		{"in the window", 11, 0, true}, {"before it", 9, 0, false}, {"it ends in the window", 9, 90 * time.Minute, true}, {"it ends before", 8, 90 * time.Minute, false},
	} {
		b := newHolderBook()
		j := heldUse("worker-1", "198.51.100.7", heldAt(c.began))
		j.Event.StageTime = j.Time.Add(c.ended)
		b.add(j)
		b.add(heldUse("worker-1", "10.0.0.1", heldAt(11)))
		b.add(heldUse("worker-2", "198.51.100.7", heldAt(10).Add(20*time.Minute)))
		for _, stored := range []bool{false, true} {
			p := proof{held: b, tally: tally.New(), facts: &report.Facts{}, to: heldAt(12)}
			if stored {
				var err error
				if p.held, err = storedHolders(b.changes("a", true)); err != nil {
					t.Fatal(err)
				}
				p.held.stale = 0
			}
			in := &checks.Input{Options: checks.Options{MinWindow: 2 * time.Hour}}
			p.holders(in)
			foreign, shared := false, false
			for _, i := range in.Holders.NotKnown {
				if i.Node == "worker-1" && i.Value == "198.51.100.7" {
					foreign, shared = foreign || i.Code == checks.CodeAddressForeign, shared || i.Code == checks.CodeAddressShared
				}
			}
			if foreign != c.want || shared {
				t.Errorf("%s, stored %t: foreign %t, want %t; shared %t", c.name, stored, foreign, c.want, shared)
			}
		}
	}
}

// Of a node that moved from one analyzer to another, all uses count.
func TestMergedHolders(t *testing.T) {
	var stored []tally.Remembered
	for i, hour := range []int{10, 14, 12} {
		b := newHolderBook()
		for _, after := range []time.Duration{0, 30 * time.Minute} {
			b.add(heldUse("worker-1", "::ffff:10.0.0.1", heldAt(hour).Add(after)))
		}
		stored = append(stored, b.changes(fmt.Sprint(i), false)...)
	}
	got, err := storedHolders(stored)
	if err != nil || len(got.nodes) != 1 {
		t.Fatal(got, err)
	}
	n := got.nodes["worker-1"]
	if len(n.Addresses) != 1 || n.Addresses[0].Address != "10.0.0.1" || !n.Addresses[0].First.Equal(heldAt(10)) || !n.Addresses[0].Last.Equal(heldAt(14).Add(30*time.Minute)) {
		t.Errorf("%+v", n.Addresses)
	}
}

// What is stored by several analyzers is as what one has seen.
func TestStoredHolders(t *testing.T) {
	clean := threeHours(t, 44, days.Options{Minor: 36, Features: days.DHCP})
	whole := newHolderBook()
	parts := []*holderBook{newHolderBook(), newHolderBook(), newHolderBook()}
	var stored []tally.Remembered
	at := 0
	provenDay(t, clean, func(o *AnalyzeOptions) {
		o.Each = func(j *pipeline.Judgement) error {
			whole.add(j)
			parts[at%len(parts)].add(j)
			if at++; at%97 == 0 {
				stored = append(stored, parts[at%len(parts)].changes(fmt.Sprint(at%len(parts)), false)...)
			}
			return nil
		}
	})
	latest := map[string]tally.Remembered{}
	for _, x := range stored {
		latest[x.Key] = x
	}
	got, err := storedHolders(slices.Collect(maps.Values(latest)))
	if err != nil || len(got.nodes) != len(whole.nodes) || len(whole.nodes) == 0 {
		t.Fatalf("%d nodes, want %d, %v", len(got.nodes), len(whole.nodes), err)
	}
	for name, w := range whole.nodes {
		g := got.nodes[name]
		for _, a := range w.Addresses {
			i := slices.IndexFunc(g.Addresses, func(x heldAddress) bool { return x.Address == a.Address })
			if i < 0 || a.Last.Sub(g.Addresses[i].Last) > got.stale || g.Addresses[i].Last.After(a.Last) {
				t.Errorf("%s from %s: %+v, want %+v", name, a.Address, g.Addresses, a)
			}
		}
	}
}
