package incidents

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/internal/test/effort"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// entryOf is a request with its findings.
func entryOf(at time.Time, node string, findings ...tally.Finding) tally.Entry {
	for i := range findings {
		findings[i].Key.Node = node
	}
	return tally.Entry{Time: at, Findings: findings}
}

// read is a read of a secret, as two rules flag it.
func read(at time.Time, node, secret, binding, from string) tally.Entry {
	b := rbac.BindingRef{Kind: "ClusterRoleBinding", Name: binding}
	k := tally.Key{Rule: "out-of-scope-secret-read", Verb: "get", Resource: "secrets", Namespace: "shop", Name: secret, Product: "curl", Binding: b}
	x := k
	x.Rule = rules.ExcessAccess
	p := codes.Params{codes.Text(rules.ParamAddress, from)}
	return entryOf(at, node, tally.Finding{Key: k, Reason: rules.ReadSucceeded, Severity: rules.Critical, Allowed: true, Params: p},
		tally.Finding{Key: x, Reason: rules.BindingNeeded, Severity: rules.Critical, Allowed: true, Params: p})
}

func refusal(at time.Time, node, secret string) tally.Entry {
	k := tally.Key{Rule: "out-of-scope-secret-read", Verb: "get", Resource: "secrets", Namespace: "shop", Name: secret, Product: "curl"}
	return entryOf(at, node, tally.Finding{Key: k, Reason: rules.ReadRefused, Severity: rules.Medium})
}

func oddAddress(at time.Time, node, from string) tally.Entry {
	k := tally.Key{Rule: rules.CredentialMisuse, Product: "curl", Reason: rules.SecondAddress, Apart: from}
	return entryOf(at, node, tally.Finding{Key: k, Reason: rules.SecondAddress, Severity: rules.High, Params: codes.Params{codes.Text(rules.ParamAddress, from), codes.Text(rules.ParamHome, "10.0.0.7")}})
}

// program is what a program on the node does with the kubelet's credential, all the time.
func program(at time.Time, node string) tally.Entry {
	k := tally.Key{Rule: rules.ExcessAccess, Verb: "list", Resource: "networkpolicies", Product: "calico-node", Binding: rbac.BindingRef{Kind: "ClusterRoleBinding", Name: "legacy"}}
	return entryOf(at, node, tally.Finding{Key: k, Reason: rules.BindingNeeded, Severity: rules.High, Allowed: true})
}

// theft is of 40 secrets over 20 minutes, through two bindings, among 500 refusals.
func theft(node, from string, begin time.Time) []tally.Entry {
	out := []tally.Entry{oddAddress(begin, node, from)}
	for i := range 500 {
		out = append(out, refusal(begin.Add(time.Minute+time.Duration(i)*2*time.Second), node, fmt.Sprint("made-up-", i)))
	}
	for i := range 40 {
		out = append(out, read(begin.Add(2*time.Minute+time.Duration(i)*28*time.Second), node, fmt.Sprint("secret-", i), []string{"legacy", "other"}[i%2], from))
	}
	return out
}

func bookOf(entries []tally.Entry) *Book {
	h := NewHours(tally.MaxGroups)
	for i := range entries {
		h.Add(&entries[i])
	}
	return h.Book("production", nil)
}

func codesOf(in *Incident) (out []string) {
	for _, m := range in.Timeline {
		out = append(out, m.At.Sub(noon).String()+" "+string(m.Code))
	}
	return out
}

func TestTheft(t *testing.T) {
	all := theft("worker-3", "198.51.100.9", noon)
	for at := noon.Add(-5 * time.Hour); at.Before(noon.Add(8 * time.Hour)); at = at.Add(time.Minute) {
		all = append(all, program(at, "worker-3"), program(at.Add(time.Second), "worker-4")) // continues before and after
	}
	last := noon.Add(2*time.Minute + 39*28*time.Second)
	got := bookOf(all).Incidents(last.Add(10 * time.Minute))
	if len(got) != 1 {
		t.Fatalf("%d incidents, want one: %+v", len(got), got)
	}
	in := got[0]
	if in.Credential != "worker-3" || in.Kind != OfNode || in.State != Open || in.Severity != "critical" || !in.First.Equal(noon) || !in.Last.Equal(last) {
		t.Errorf("%+v", in)
	}
	if in.Refused != 500 || len(in.Rotate) != 40 || in.Succeeded != 40 || len(in.Reached) != MaxReached || in.More != 41 {
		t.Errorf("%d refused, %d succeeded, %d to rotate, %d rows and %d more", in.Refused, in.Succeeded, len(in.Rotate), len(in.Reached), in.More)
	}
	if r := in.Reached[0]; !r.Succeeded || r.Requests != 1 || !slices.Equal(r.Rules, []string{"out-of-scope-secret-read", rules.ExcessAccess}) {
		t.Errorf("one read that two rules flag is %+v", r)
	}
	if want := []Binding{{"ClusterRoleBinding", "", "legacy"}, {"ClusterRoleBinding", "", "other"}}; !slices.Equal(in.Bindings, want) {
		t.Errorf("bindings: %+v", in.Bindings)
	}
	if want := []Seen{{"198.51.100.9", noon, last}}; !slices.Equal(in.Addresses, want) {
		t.Errorf("addresses: %+v", in.Addresses)
	}
	want := []string{"0s incident-odd-use", "0s incident-peak", "1m0s incident-first-refusal", "2m0s incident-first-success", "20m12s incident-latest"}
	if diff := gocmp.Diff(want, codesOf(&in)); diff != "" {
		t.Errorf("timeline (-want +got):\n%s", diff)
	}
	var steps []string
	for _, s := range in.Contain {
		steps = append(steps, string(s.Code))
	}
	if diff := gocmp.Diff([]string{"contain-drain", "contain-isolate", "contain-remove-pods", "contain-remove-rights", "contain-remove-rights", "contain-rotate", "contain-expiry", "contain-look-further"}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

// The first success is a request. A search that was found before it began with a refusal.
func TestSearchIsNoFirstSuccess(t *testing.T) {
	search := func(at time.Duration) tally.Entry {
		return entryOf(noon.Add(at), "worker-3", tally.Finding{Key: tally.Key{Rule: "secret-enumeration"}, Reason: rules.ManyWithinMinutes, Severity: rules.Critical, Allowed: true})
	}
	for _, c := range []struct {
		all  []tally.Entry
		want string
	}{
		{append(theft("worker-3", "198.51.100.9", noon), search(90*time.Second)), "2m0s incident-first-success"},
		{[]tally.Entry{search(90 * time.Second), search(3 * time.Minute)}, "1m30s incident-first-success"},
	} {
		got := bookOf(c.all).Incidents(noon.Add(30 * time.Minute))
		if len(got) != 1 || !slices.Contains(codesOf(&got[0]), c.want) {
			t.Errorf("want %s: %+v", c.want, got)
		}
	}
}

func TestTwoThieves(t *testing.T) {
	got := bookOf(slices.Concat(theft("worker-3", "198.51.100.9", noon), theft("worker-5", "198.51.100.9", noon.Add(time.Minute)))).Incidents(noon.Add(30 * time.Minute))
	if len(got) != 2 || got[0].Credential == got[1].Credential || got[0].ID == got[1].ID || len(got[0].Rotate) != 40 || len(got[1].Rotate) != 40 {
		t.Errorf("%d incidents", len(got))
	}
}

func TestPauseEndsAnIncident(t *testing.T) {
	for _, c := range []struct {
		pause time.Duration
		want  int
	}{{Pause - 1, 1}, {Pause, 2}} {
		last := noon.Add(50 * time.Minute)
		all := []tally.Entry{read(noon.Add(10*time.Minute), "a", "x", "b", "1"), read(last, "a", "x", "b", "1"), read(last.Add(c.pause), "a", "x", "b", "1")}
		if got := bookOf(all).Incidents(noon); len(got) != c.want {
			t.Errorf("a pause of %s: %d incidents, want %d", c.pause, len(got), c.want)
		}
		states := []State{}
		for _, in := range bookOf(all).Incidents(last.Add(c.pause).Add(Pause)) {
			states = append(states, in.State)
		}
		if slices.Contains(states, Open) {
			t.Errorf("an hour later: %v", states)
		}
	}
}

// Circumstances neither open an incident nor prolong one.
func TestCircumstancesOpenNothing(t *testing.T) {
	var all []tally.Entry
	for i := range 100 {
		at := noon.Add(time.Duration(i) * 10 * time.Minute)
		all = append(all, program(at, "a"), entryOf(at, "a",
			tally.Finding{Key: tally.Key{Rule: rules.CredentialMisuse, Reason: rules.ForeignClient, Product: "curl"}, Reason: rules.ForeignClient, Severity: rules.High, Allowed: true},
			tally.Finding{Key: tally.Key{Rule: rules.NodeIdentity, Reason: rules.Privileged}, Reason: rules.Privileged, Severity: rules.Critical, Allowed: true}))
	}
	all = append(all, entryOf(noon, "", tally.Finding{Key: tally.Key{Rule: rules.CoverageGap}, Reason: rules.LogSilent, Severity: rules.Medium}))
	if got := bookOf(all).Incidents(noon); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	all = append(all, read(noon, "a", "x", "b", "1"))
	got := bookOf(all).Incidents(noon)
	if len(got) != 1 || !got[0].First.Equal(noon) || !got[0].Last.Equal(noon) || len(got[0].Rules) != 4 {
		t.Errorf("%+v", got)
	}
}

// A group that stands for many is what its class is.
func TestWideCircumstances(t *testing.T) {
	wide := func(rule string, reason rules.Reason) []Incident {
		b := NewBook("")
		c := tally.Class{Rule: rule, Node: "a", Reason: reason, Severity: rules.High, Allowed: true}
		rooms, nobody := tally.NewRooms(1), func(tally.Key) bool { return false }
		rooms.Place(&tally.Key{Rule: rule, Node: "a", Product: "x"}, c, false, nobody)
		k, room := rooms.Place(&tally.Key{Rule: rule, Node: "a", Product: "y"}, c, false, nobody)
		if !room.Wide {
			t.Fatal("there was room")
		}
		b.Add(&k, &tally.Group{Count: 7, First: noon, Last: noon, Severity: rules.High, Allowed: true, Succeeded: true, Wide: true}, false)
		return b.Incidents(noon)
	}
	if got := wide(rules.CredentialMisuse, rules.ForeignClient); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	if got := wide(rules.CredentialMisuse, rules.Impersonation); len(got) != 1 || got[0].Succeeded != 7 {
		t.Errorf("%+v", got)
	}
}

// TestActsAreWhatCameOfRequests holds that what was authorized and then failed is no success, and that a rule which the user wrote makes no incident.
func TestActsAreWhatCameOfRequests(t *testing.T) {
	one := func(rule string, reason rules.Reason, succeeded bool) []Incident {
		b := NewBook("")
		b.Add(&tally.Key{Rule: rule, Node: "a", Verb: "get", Resource: "secrets", Namespace: "shop", Name: "db"}, &tally.Group{
			Count: 3, First: noon, Last: noon, Severity: rules.Critical, Allowed: true, Succeeded: succeeded, Reason: reason,
		}, false)
		return b.Incidents(noon)
	}
	done := one(rules.ExcessAccess, rules.BindingNeeded, true)
	if len(done) != 1 || done[0].Succeeded != 3 || len(done[0].Rotate) != 1 {
		t.Errorf("succeeded: %+v", done)
	}
	if failed := one(rules.ExcessAccess, rules.BindingNeeded, false); len(failed) != 1 || failed[0].Succeeded != 0 || len(failed[0].Rotate) != 0 {
		t.Errorf("failed: %+v", failed)
	}
	if own := one("a-rule-of-mine", rules.OwnMatch, true); len(own) != 0 {
		t.Errorf("of the user's rule: %+v", own)
	}
	if own := one("a-rule-of-mine", "", true); len(own) != 0 { // as a group that stands for many has none
		t.Errorf("of the user's rule, without a reason: %+v", own)
	}
}

func TestSeverityIsOfTheWorstSuccess(t *testing.T) {
	write := tally.Key{Rule: rules.ForeignWrite, Verb: "patch", Resource: "nodes", Name: "b"}
	refused := entryOf(noon, "a", tally.Finding{Key: write, Reason: rules.WriteRefused, Severity: rules.High})
	failed := entryOf(noon, "a", tally.Finding{Key: write, Reason: rules.WriteRefusedByAdmission, Severity: rules.High, Allowed: true})
	went := entryOf(noon, "a", tally.Finding{Key: write, Reason: rules.WriteSucceeded, Severity: rules.Critical, Allowed: true})
	for _, c := range []struct {
		all  []tally.Entry
		want string
	}{{[]tally.Entry{refused}, "medium"}, {[]tally.Entry{failed}, "medium"}, {[]tally.Entry{oddAddress(noon, "a", "1")}, "high"}, {[]tally.Entry{refused, went}, "critical"}} {
		got := bookOf(c.all).Incidents(noon)
		if len(got) != 1 || got[0].Severity != c.want {
			t.Errorf("want %s: %+v", c.want, got)
		}
	}
}

func TestKinds(t *testing.T) {
	for credential, want := range map[string]Kind{"worker-1": OfNode, "system:bootstrap:abcdef": OfBootstrap, "system:serviceaccount:a:b": OfUser} {
		got := bookOf([]tally.Entry{read(noon, credential, "x", "b", "1")}).Incidents(noon)
		if len(got) != 1 || got[0].Kind != want {
			t.Errorf("%s: %+v", credential, got)
		}
	}
}

// some makes requests of some credentials over some hours, with pauses around an hour.
func some(r *rand.Rand) []tally.Entry {
	var out []tally.Entry
	for range 1 + r.IntN(4) {
		node := fmt.Sprint("worker-", r.IntN(3))
		at := noon.Add(time.Duration(r.IntN(600)) * time.Minute)
		for range r.IntN(60) {
			secret, from := fmt.Sprint("s", r.IntN(10)), fmt.Sprint("10.0.0.", r.IntN(4))
			switch r.IntN(5) {
			case 0:
				out = append(out, refusal(at, node, secret))
			case 1:
				out = append(out, oddAddress(at, node, from))
			case 2:
				out = append(out, program(at, node))
			default:
				out = append(out, read(at, node, secret, []string{"x", "y"}[r.IntN(2)], from))
			}
			at = at.Add(time.Duration(1+r.IntN(200)) * time.Second)
			if r.IntN(10) == 0 {
				at = at.Add(Pause - 2*time.Minute + time.Duration(r.IntN(240))*time.Second)
			}
		}
	}
	// No two requests have one time: of equals the store keeps the parameters of whichever came first.
	for i := range out {
		out[i].Time = out[i].Time.Add(time.Duration(i) * time.Microsecond)
	}
	return out
}

// In whatever order and in whatever batches requests come, the incidents are the same; and what they say holds for the requests themselves.
func TestOrderDoesNotMatter(t *testing.T) {
	for seed := range effort.Of(uint64(100), 20) {
		r := rand.New(rand.NewPCG(seed, 17))
		all := some(r)
		now := noon.Add(time.Duration(r.IntN(900)) * time.Minute)
		want := bookOf(all).Incidents(now)
		for range 3 {
			r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			if diff := gocmp.Diff(want, bookOf(all).Incidents(now)); diff != "" {
				t.Fatalf("seed %d (-first +shuffled):\n%s", seed, diff)
			}
		}
		var apart []tally.Entry // each finding by itself
		for _, e := range all {
			for _, f := range e.Findings {
				apart = append(apart, tally.Entry{Time: e.Time, Origin: e.Origin, Findings: []tally.Finding{f}})
			}
		}
		if diff := gocmp.Diff(want, bookOf(apart).Incidents(now)); diff != "" {
			t.Fatalf("seed %d (-findings together +apart):\n%s", seed, diff)
		}
		// Each request is in one incident of its credential, and neighbours less than a pause apart are in the same one.
		acts := slices.DeleteFunc(slices.Clone(all), func(e tally.Entry) bool {
			f := &e.Findings[0]
			return rules.ActOf(f.Key.Rule, f.Reason, f.Severity, f.Allowed, f.Allowed) == rules.Circumstance
		})
		slices.SortFunc(acts, func(a, b tally.Entry) int {
			return cmp.Or(cmp.Compare(a.Findings[0].Key.Node, b.Findings[0].Key.Node), a.Time.Compare(b.Time))
		})
		in := func(e *tally.Entry) (out []string) {
			for i := range want {
				if w := &want[i]; w.Credential == e.Findings[0].Key.Node && !e.Time.Before(w.First) && !e.Time.After(w.Last) {
					out = append(out, w.ID)
				}
			}
			return out
		}
		n := 0
		for i := range acts {
			at := in(&acts[i])
			if len(at) != 1 {
				t.Fatalf("seed %d: a request of %s is in %d incidents", seed, acts[i].Time, len(at))
			}
			next := i == 0 || acts[i-1].Findings[0].Key.Node != acts[i].Findings[0].Key.Node || acts[i].Time.Sub(acts[i-1].Time) >= Pause
			if next {
				n++
			} else if before := in(&acts[i-1]); before[0] != at[0] {
				t.Fatalf("seed %d: %s apart are two incidents", seed, acts[i].Time.Sub(acts[i-1].Time))
			}
		}
		if n != len(want) {
			t.Fatalf("seed %d: %d incidents, want %d", seed, len(want), n)
		}
	}
}

// The thief's address stays when the node itself makes the same request later.
func TestEachAddressIsNamed(t *testing.T) {
	var all []tally.Entry
	for i, from := range []string{"198.51.100.7", "10.0.0.1", "10.0.0.1"} {
		e := read(noon.Add(time.Duration(i)*time.Minute), "worker-3", "db", "legacy", from)
		e.Origin = tally.Origin{User: "system:node:worker-3", Address: tally.Address{Address: from}, Code: 200}
		all = append(all, e)
	}
	in := bookOf(all).Incidents(noon.Add(time.Hour))
	if len(in) != 1 {
		t.Fatalf("%d incidents", len(in))
	}
	var got []string
	for _, a := range in[0].Addresses {
		got = append(got, a.Value)
	}
	slices.Sort(got)
	if !slices.Equal(got, []string{"10.0.0.1", "198.51.100.7"}) {
		t.Errorf("%q", got)
	}
}

// Whatever discloses a secret makes it one to rotate; what does not disclose it does not.
func TestRotateByVerb(t *testing.T) {
	for verb, want := range map[string]int{"get": 1, "list": 1, "watch": 1, "patch": 1, "deletecollection": 1, "create": 0, "delete": 1, "update": 0} {
		e := read(noon, "worker-3", "db", "legacy", "198.51.100.7")
		for i := range e.Findings {
			e.Findings[i].Key.Verb = verb
		}
		in := bookOf([]tally.Entry{e}).Incidents(noon.Add(time.Hour))
		if len(in) != 1 || len(in[0].Rotate) != want {
			t.Errorf("%s: %+v", verb, in)
		}
	}
}

// What an exception covers says nothing of what somebody else does with the credential: it neither opens an incident, nor prolongs one, nor makes it worse.
//
// Seen to fail where an incident begins, lasts and is as severe as all of its findings.
func TestExceptedActsAreNoPart(t *testing.T) {
	agent := func(k *tally.Key, _ *tally.Group) bool { return k.Name == "agent" }
	last := noon.Add(6 * time.Hour)
	theft := read(noon.Add(5*time.Hour), "a", "stolen", "other", "198.51.100.9")
	for _, c := range []struct {
		name string
		more []tally.Entry
		want []string // state, severity, hours, findings, what an exception covers of them, requests that succeeded, objects to rotate, addresses, bindings
	}{
		{"the agent alone", nil, []string{"closed critical 0-6 2/2 37 1 1 1"}},
		{"a refusal", []tally.Entry{refusal(noon, "a", "x")}, []string{"quiet medium 0-0 3/2 0 0 0 0", "closed critical 2-6 2/2 25 1 1 1"}},
		{"an odd address as the agent begins", []tally.Entry{oddAddress(noon, "a", "198.51.100.9")}, []string{"quiet high 0-0 3/2 0 0 1 0", "closed critical 2-6 2/2 25 1 1 1"}},
		{"a refusal, and a theft", []tally.Entry{refusal(noon, "a", "x"), theft}, []string{"quiet critical 5-5 4/2 1 1 1 1", "quiet medium 0-0 3/2 0 0 0 0", "closed critical 2-3 2/2 12 1 1 1"}},
		{"a theft, and then a refusal", []tally.Entry{theft, refusal(last, "a", "x")}, []string{"open medium 6-6 1/0 0 0 0 0", "quiet critical 5-5 4/2 1 1 1 1", "closed critical 0-3 2/2 24 1 1 1"}},
	} {
		h := NewHours(tally.MaxGroups)
		for at := noon; !at.After(last); at = at.Add(10 * time.Minute) {
			c.more = append(c.more, read(at, "a", "agent", "legacy", "10.0.0.7"), program(at, "a"))
		}
		for i := range c.more {
			h.Add(&c.more[i])
		}
		var got []string
		for _, in := range h.Book("production", agent).Incidents(last) {
			got = append(got, fmt.Sprintf("%s %s %d-%d %d/%d %d %d %d %d", in.State, in.Severity, int(in.First.Sub(noon).Hours()), int(in.Last.Sub(noon).Hours()),
				in.Findings, in.Excepted, in.Succeeded, len(in.Rotate), len(in.Addresses), len(in.Bindings)))
			for _, r := range in.Reached {
				if r.Beside != (r.Name != "x" && r.Name != "stolen" && (in.State != Closed || r.Name != "agent")) {
					t.Errorf("%s: %+v", c.name, r)
				}
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}

// A request that two rules flag counts if an exception covers one of them only.
func TestExceptionOfOneRule(t *testing.T) {
	h := NewHours(tally.MaxGroups)
	e := read(noon, "a", "x", "legacy", "10.0.0.7")
	h.Add(&e)
	got := h.Book("production", func(k *tally.Key, _ *tally.Group) bool { return k.Rule == rules.ExcessAccess }).Incidents(noon)
	if len(got) != 1 || got[0].State != Open || got[0].Severity != "critical" || got[0].Findings != 2 || got[0].Excepted != 1 || got[0].Succeeded != 1 || len(got[0].Rotate) != 1 {
		t.Errorf("%+v", got)
	}
}

// If there are too many incidents, those of nodes that exist are listed and made-up names are counted, however bad and late what these did is. A user is no
// made-up node.
func TestMadeUpNodesAreCounted(t *testing.T) {
	b := NewBook("prod")
	add := func(node string, at time.Time, severity rules.Severity) {
		b.Add(&tally.Key{Rule: "out-of-scope-secret-read", Node: node}, &tally.Group{Count: 1, First: at, Last: at, Severity: severity, Allowed: true, Succeeded: severity == rules.Critical}, false)
	}
	now := noon
	for i := range 50 {
		add(fmt.Sprint("made-", i), now, rules.Critical)
	}
	add("worker-1", now.Add(-time.Minute), rules.Critical)
	add("worker-2", now.Add(-time.Minute), rules.High)
	add("system:serviceaccount:a:b", now.Add(-time.Minute), rules.High)
	exists := func(node string) bool { return strings.HasPrefix(node, "worker-") }
	for _, most := range []int{3, 4, 30} {
		got, more := b.First(now, func(*Incident) bool { return true }, most, exists)
		of := map[string]bool{}
		for i := range got {
			of[got[i].Credential] = true
		}
		if len(got) != most || more[Open] != 53-most || !of["worker-1"] || !of["worker-2"] || !of["system:serviceaccount:a:b"] {
			t.Errorf("of %d: %v, more %v", most, of, more)
		}
		if !slices.IsSortedFunc(got, compare) {
			t.Errorf("of %d: not in order", most)
		}
	}
	if got, more := b.First(now, func(*Incident) bool { return true }, 3, nil); len(got) != 3 || more[Open] != 50 || !strings.HasPrefix(got[0].Credential, "made-") {
		t.Errorf("where it is not known: %+v, more %v", got, more)
	}
}
