package days

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/internal/test/effort"
)

// checkNames are the checks of spec's first question.
var checkNames = []string{
	"window-covered", "reads-logged", "policy-known", "every-event-judged", "servers-seen", "node-authorizer-on", "version-known", "nothing-depends",
	"bindings-inventoried", "identities-conform", "races-decided", "agreement", "rare-paths-seen", "state-complete", "rules-on",
}

func TestMutationsChangeACopy(t *testing.T) {
	type rendered struct {
		day          *Day
		log, journal []byte
	}
	render := func(f Features) rendered {
		day := clean(t, 21, Options{Servers: 3, Features: f})
		return rendered{day, day.Log(), day.Journal()}
	}
	plain, joins := render(Deployments|Drains), render(Deployments|Drains|KubeadmJoin)
	policy := plain.day.Policy
	names := map[string]bool{}
	for i, m := range Mutations(5) {
		names[m.Name] = true
		for _, c := range m.Checks {
			if !slices.Contains(checkNames, c) {
				t.Errorf("%s: no check %q", m.Name, c)
			}
		}
		if (m.Effect == Harmless) != (len(m.Checks) == 0) || m.Description == "" {
			t.Errorf("%s: effect %s with checks %q, description %q", m.Name, m.Effect, m.Checks, m.Description)
		}
		if i%effort.Of(1, 15) != 0 {
			continue
		}
		of := plain
		if m.Needs != 0 {
			of = joins
		}
		one, ok := m.Apply(of.day)
		again, _ := m.Apply(of.day)
		if !ok {
			t.Errorf("%s does not apply", m.Name)
			continue
		}
		changed := one.Log()
		if bytes.Equal(changed, of.log) && bytes.Equal(one.Journal(), of.journal) && one.Policy == policy {
			t.Errorf("%s changes nothing", m.Name)
		}
		if !bytes.Equal(changed, again.Log()) || !bytes.Equal(one.Journal(), again.Journal()) {
			t.Errorf("%s is not the same twice", m.Name)
		}
		if !strings.Contains(string(one.Readme()), "`"+m.Name+"`, seed 5") {
			t.Errorf("%s is not in the README", m.Name)
		}
		if !slices.IsSortedFunc(one.Events, func(a, b *Event) int { return a.Staged.Compare(b.Staged) }) {
			t.Errorf("%s: the log is out of order", m.Name)
		}
	}
	if len(names) != len(Mutations(5)) {
		t.Error("two mutations have one name")
	}
	for _, of := range []rendered{plain, joins} {
		if day := of.day; !bytes.Equal(day.Log(), of.log) || !bytes.Equal(day.Journal(), of.journal) || day.Policy != policy || len(day.Applied) > 0 {
			t.Error("the clean day was changed")
		}
	}
}

// plantedIn returns the events that a mutation put into a day.
func plantedIn(clean, day *Day) []*Event {
	was := make(map[*Event]bool, len(clean.Events))
	for _, e := range clean.Events {
		was[e] = true
	}
	return slices.DeleteFunc(slices.Clone(day.Events), func(e *Event) bool { return was[e] })
}

// What a mutation of the kind "breaks" plants is a request that needs a binding, by the judgement of today's analyze.
func TestPlantsNeedABinding(t *testing.T) {
	day, seeds := clean(t, 22, Options{Servers: 3}), effort.Of(uint64(3), 1)
	for i, m := range Mutations(0) {
		if i%effort.Of(1, 12) != 0 || m.Effect != Breaks || strings.Contains(m.Name, "torn") || m.Name == "plant-any" || strings.Contains(m.Name, "race") || strings.HasSuffix(m.Name, "-oversized") {
			continue // what analyze does not see today, or takes for a race
		}
		if m.Name == "node-impersonates" || m.Name == "node-not-asked" {
			continue // nor whom a node may act as, nor what Node allows and was not asked about: a check alone shows that
		}
		day := day
		if m.Name == "forced-get" {
			day = clean(t, 22, Options{Servers: 3, Features: Deployments}) // pods go
		}
		for seed := range seeds {
			m.Seed = seed
			bad, ok := m.Apply(day)
			if !ok {
				t.Fatalf("%s does not apply", m.Name)
			}
			all := plantedIn(day, bad)
			if len(all) == 0 {
				t.Errorf("%s, seed %d: nothing is planted", m.Name, seed)
			}
			if !slices.ContainsFunc(all, ofNodes) {
				continue // nor what others depend on
			}
			r := analyze(t, bad)
			if r.Worst().String() == "" {
				t.Errorf("%s, seed %d: %s: nothing is found", m.Name, seed, bad.Applied[0].What)
			}
		}
	}
}

// ofNodes reports whether an event is of a node or of somebody who acts as one.
func ofNodes(e *Event) bool {
	u := e.User
	if e.Impersonated != nil {
		u = e.Impersonated
	}
	return nodeOf(u) != "" || slices.Contains(u.Groups, "system:nodes")
}

func TestPlantsStandWhereTheySay(t *testing.T) {
	day := clean(t, 23, Options{})
	place := func(name string) (*Event, int, int) {
		m, _ := Named(name, 3)
		bad, _ := m.Apply(day)
		e := plantedIn(day, bad)
		if len(e) == 0 {
			t.Fatalf("%s plants nothing", name)
		}
		last := e[len(e)-1]
		return last, slices.Index(bad.Events, e[0]), len(bad.Events) - 1 - slices.Index(bad.Events, last)
	}
	if _, before, _ := place("plant-first"); before != 0 {
		t.Errorf("%d events before the first", before)
	}
	if _, _, after := place("plant-last"); after != 0 {
		t.Errorf("%d events after the last", after)
	}
	if e, _, after := place("plant-torn-last"); after != 0 || bytes.HasSuffix(e.appendLine(nil), []byte("\n")) {
		t.Errorf("%d events after the torn one: %s", after, e.appendLine(nil))
	}
	if e, _, _ := place("plant-oversized"); len(e.appendLine(nil)) <= 4<<20 {
		t.Errorf("an oversized event has %d bytes", len(e.appendLine(nil)))
	}
	if e, _, _ := place("plant-padded"); len(e.appendLine(nil)) > 4<<20 || len(e.URI) < 1000 {
		t.Errorf("a padded event has %d bytes, its URI %d", len(e.appendLine(nil)), len(e.URI))
	}
	if e, _, _ := place("plant-impersonated"); e.Impersonated == nil || nodeOf(e.Impersonated) == "" || nodeOf(e.User) != "" {
		t.Errorf("impersonated: %+v by %+v", e.Impersonated, e.User)
	}
	if e, _, _ := place("impersonation-refused"); e.Impersonated != nil || !strings.Contains(e.Message, "cannot impersonate") {
		t.Errorf("refused: %s", e.appendLine(nil))
	}
	e, _, _ := place("plant-in-race")
	if !slices.ContainsFunc(day.pods, func(p *pod) bool {
		before := p.bound.Sub(e.Received)
		return p.namespace == e.Ref.Namespace && p.node.name == nodeOf(e.User) && before > 0 && before < time.Second
	}) {
		t.Errorf("no pod is bound after %s", e.appendLine(nil))
	}
}

// What a removal says is gone is gone, and nothing else is.
func TestRemovalsRemove(t *testing.T) {
	day := clean(t, 24, Options{Servers: 3})
	removed := func(name string) []*Event {
		m, _ := Named(name, 2)
		bad, ok := m.Apply(day)
		if !ok {
			t.Fatalf("%s does not apply", name)
		}
		return plantedIn(bad, day)
	}
	same := func(name string, list []*Event, of func(e *Event) string) {
		t.Helper()
		if len(list) == 0 {
			t.Errorf("%s: nothing is gone", name)
		}
		for _, e := range list {
			if of(e) != of(list[0]) || of(e) == "" {
				t.Errorf("%s: %q and %q are gone", name, of(list[0]), of(e))
				return
			}
		}
	}
	node := func(e *Event) string { return nodeOf(e.User) }
	for _, name := range []string{"remove-node-hour", "remove-node-reads", "remove-silent-node", "remove-all-but-two", "remove-object-watches"} {
		same(name, removed(name), node)
	}
	same("remove-watch-kind", removed("remove-watch-kind"), func(e *Event) string { return node(e) + " " + e.Ref.Resource })
	for seed := range uint64(6) {
		m, _ := Named("remove-server", seed)
		bad, _ := m.Apply(day)
		left := map[int]bool{}
		for _, e := range bad.Events {
			left[e.Server] = true
		}
		if len(left) != 2 {
			t.Errorf("seed %d: events of servers %v are left", seed, left)
		}
	}
	same("remove-identity-leases", removed("remove-identity-leases"), func(e *Event) string { return e.User.Username })
	same("remove-node-gets", removed("remove-node-gets"), func(e *Event) string { return e.Verb + e.Ref.Resource })
	if i := slices.IndexFunc(removed("remove-silent-node"), isBeat); i >= 0 {
		t.Error("a silent node's Lease is not renewed")
	}
	if n, all := len(removed("remove-tenth")), len(day.Events); n < all/12 || n > all/8 {
		t.Errorf("a tenth of %d is %d", all, n)
	}
	m, _ := Named("remove-annotations", 2)
	if bad, _ := m.Apply(day); bytes.Contains(bad.Log(), []byte("authorization.k8s.io/decision")) {
		t.Error("there are annotations left")
	}
}

func TestCompose(t *testing.T) {
	day := clean(t, 25, Options{})
	a, _ := Named("plant-request", 1)
	b, _ := Named("remove-server", 1) // does not apply to one server
	c, _ := Named("remove-hour", 1)
	var got []string
	for _, m := range Compose(day, a, b, c).Applied {
		got = append(got, m.Mutation.Name)
	}
	if diff := cmp.Diff([]string{"plant-request", "remove-hour"}, got); diff != "" {
		t.Errorf("applied (-want +got):\n%s", diff)
	}
}

// What is kept of the rendering changes nothing: neither of the day, nor of a mutation that changes copies of its events and entries.
func TestRender(t *testing.T) {
	o := Options{Servers: 2, Features: Deployments | Drains}
	plain, kept := clean(t, 23, o), clean(t, 23, o)
	kept.Render()
	same := func(name string, a, b *Day) {
		t.Helper()
		for what, f := range map[string]func(*Day) []byte{
			"Log": (*Day).Log, "Journal": (*Day).Journal,
			"Read":        func(d *Day) []byte { return readAll(t, d.Read()) },
			"ReadJournal": func(d *Day) []byte { return readAll(t, d.ReadJournal()) },
		} {
			want := a.Log()
			if strings.HasSuffix(what, "Journal") {
				want = a.Journal()
			}
			if got := f(b); !bytes.Equal(got, want) {
				t.Errorf("%s: %s is of %d bytes, without what is kept it is of %d and other ones", name, what, len(got), len(want))
			}
		}
	}
	same("clean", plain, kept)
	copies := 0 // of which the original is kept
	for i, m := range Mutations(6) {
		a, ok := m.Apply(plain)
		b, also := m.Apply(kept)
		if ok != also {
			t.Errorf("%s: %t, %t", m.Name, ok, also)
		}
		if !ok {
			continue
		}
		copied := slices.ContainsFunc(b.Events, func(e *Event) bool { return e.rendered.of != nil && e.rendered.of != e }) ||
			slices.ContainsFunc(b.State, func(e *Entry) bool { return e.rendered.of != nil && e.rendered.of != e })
		if copied {
			copies++
		}
		if i%effort.Of(1, 20) == 0 || copied && copies <= 3 {
			same(m.Name, a, b)
		}
	}
	if copies < 3 {
		t.Errorf("%d mutations change copies", copies)
	}
}

func readAll(t *testing.T, r io.Reader) []byte {
	t.Helper()
	b, err := io.ReadAll(iotest.HalfReader(r))
	if err != nil {
		t.Error(err)
	}
	return b
}
