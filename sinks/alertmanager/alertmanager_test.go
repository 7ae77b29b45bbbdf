package alertmanager

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
)

func want(t *testing.T, m *manager, firing, over []string) {
	t.Helper()
	if f, o := m.has(); !cmp.Equal(f, firing) || !cmp.Equal(o, over) {
		t.Fatalf("firing %q, over %q, want %q and %q", f, o, firing, over)
	}
}

const worker1 = "OutOfScopeSecretRead worker-1"

// One alert from its beginning to when it is forgotten.
func TestLife(t *testing.T) {
	b := newBench(t, 2)
	s := b.begin()
	b.find(s, b.finding("worker-1", "db", 10*time.Second))
	b.pass(2 * time.Second)
	for _, p := range b.peers {
		want(t, p, []string{worker1}, nil)
	}
	first := b.peers[0].received()[0]
	wantAlert := alertJSON{
		Labels: map[string]string{
			"alertname": "OutOfScopeSecretRead", "cluster": "prod", "severity": "critical", "level": "critical", "rule": "out-of-scope-secret-read", "node": "worker-1",
			"namespace": "shop", "resource": "secrets", "team": "platform",
		},
		Annotations: map[string]string{
			"description": "get secret shop/db by node worker-1",
			"count":       "1", "objects": "shop/db", "verb": "get", "client": "curl", "binding": "ClusterRoleBinding/system:node", "auditIDs": "audit-db",
			"allowed": "true", "runbook_url": DefaultRunbooks + "docs/rules/out-of-scope-secret-read.md",
		},
		StartsAt: start.Add(-10 * time.Second), EndsAt: start.Add(5 * time.Minute), GeneratorURL: "https://nodetrail.example/findings/id-worker-1-db",
	}
	for _, r := range rules.All() {
		if r.Name == "out-of-scope-secret-read" {
			wantAlert.Annotations["summary"] = r.Title() + ": worker-1"
		}
	}
	if diff := cmp.Diff(wantAlert, first.alertJSON); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	b.pass(16 * time.Minute)
	want(t, b.peers[0], nil, []string{worker1})
	b.pass(30 * time.Minute)
	if st := s.Stats(); st.Firing != 0 || st.Resolved != 0 {
		t.Errorf("at the end: %+v", st)
	}
	for _, p := range b.peers {
		var before received
		over := 0
		for _, r := range p.received() {
			if !before.at.IsZero() {
				gap := r.at.Sub(before.at)
				if r.firing() == before.firing() && gap < time.Minute {
					t.Errorf("sent again after %s", gap)
				}
				if before.firing() && before.EndsAt.Sub(r.at) < 3*time.Minute {
					t.Errorf("sent again %s before its end", before.EndsAt.Sub(r.at))
				}
			}
			if r.firing() && r.EndsAt.Sub(r.at) < 4*time.Minute {
				t.Errorf("ends %s ahead", r.EndsAt.Sub(r.at))
			}
			if !r.StartsAt.Equal(start.Add(-10 * time.Second)) {
				t.Errorf("starts at %s", r.StartsAt)
			}
			if !r.firing() {
				over++
			}
			before = r
		}
		if last := before.at.Sub(start); over < 11 || last < 29*time.Minute || last > 31*time.Minute {
			t.Errorf("sent %d times as resolved, the last after %s", over, last)
		}
	}
}

// what continues keeps the alert, and more objects are the same alert.
func TestGoesOn(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin()
	for i := range 24 {
		b.find(s, b.finding("worker-1", fmt.Sprintf("s-%d", i), 0))
		b.pass(5 * time.Minute)
		want(t, b.peers[0], []string{worker1}, nil)
	}
	all := b.peers[0].received()
	last := all[len(all)-1]
	var objects []string
	for i := 23; i >= 4; i-- {
		objects = append(objects, fmt.Sprintf("shop/s-%d", i))
	}
	if got := last.Annotations["objects"]; got != strings.Join(objects, ", ")+", and others" {
		t.Errorf("objects: %s", got)
	}
	if got := last.Annotations["count"]; got != "24" {
		t.Errorf("count: %s", got)
	}
	if !last.StartsAt.Equal(start) || last.GeneratorURL != "https://nodetrail.example/findings/id-worker-1-s-23" {
		t.Errorf("%+v", last)
	}
	b.pass(16 * time.Minute)
	want(t, b.peers[0], nil, []string{worker1})
	b.find(s, b.finding("worker-1", "s-0", 0)) // again, while it is still sent as resolved
	b.pass(2 * time.Second)
	want(t, b.peers[0], []string{worker1}, nil)
	all = b.peers[0].received()
	if last = all[len(all)-1]; !last.StartsAt.Equal(b.clock.Now().Add(-2 * time.Second)) {
		t.Errorf("begins anew at %s, now %s", last.StartsAt, b.clock.Now())
	}
}

// One peer is down: the others receive it, and the first receives it when it is back.
func TestOnePeerDown(t *testing.T) {
	b := newBench(t, 3)
	b.peers[1].set(func() { b.peers[1].down = true })
	s := b.begin()
	b.find(s, b.finding("worker-1", "db", 0))
	b.pass(time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
	want(t, b.peers[2], []string{worker1}, nil)
	if st := s.Stats().Peers[1]; st.Length != 1 || st.Bytes == 0 || st.Failures < 3 || st.Sent != 0 || st.FailingSince.IsZero() || st.MaxLength != 10_000 {
		t.Errorf("%+v", st)
	}
	b.peers[1].set(func() { b.peers[1].down = false })
	b.pass(time.Minute)
	want(t, b.peers[1], []string{worker1}, nil)
	if st := s.Stats().Peers[1]; st.Length != 0 || st.Sent == 0 || !st.FailingSince.IsZero() || st.LastSuccess.IsZero() {
		t.Errorf("%+v", st)
	}
	if s.Stats().Peers[0].Name == s.Stats().Peers[1].Name {
		t.Error("two peers of one name")
	}
}

// All peers are down for longer than the alert lasts, and the process is killed meanwhile: the peers receive it all the same.
func TestAllPeersDown(t *testing.T) {
	b := newBench(t, 2)
	for _, p := range b.peers {
		p.set(func() { p.down = true })
	}
	s := b.begin()
	b.find(s, b.finding("worker-1", "db", 0))
	b.pass(20 * time.Minute)
	b.end(s)
	if b.store.kept() != 1 {
		t.Fatalf("%d alerts are kept", b.store.kept())
	}
	b.pass(time.Hour)
	s = b.begin()
	b.pass(2 * time.Minute)
	for _, p := range b.peers {
		p.set(func() { p.down = false })
	}
	b.pass(2 * time.Minute)
	for _, p := range b.peers {
		want(t, p, []string{worker1}, nil)
		r := p.received()[0]
		if !r.StartsAt.Equal(start) || r.Annotations["objects"] != "shop/db" || r.Annotations["count"] != "1" ||
			r.Annotations["description"] != "get secret shop/db by node worker-1" || r.Labels["resource"] != "secrets" {
			t.Errorf("%+v", r)
		}
	}
	// It fires long enough to be a page, and another kill does not change that.
	b.end(s)
	b.begin()
	b.pass(time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
	b.pass(10 * time.Minute)
	for _, p := range b.peers {
		want(t, p, nil, []string{worker1})
	}
	b.pass(resolvedFor)
	if b.store.kept() != 0 {
		t.Errorf("%d alerts are kept", b.store.kept())
	}
}

// What nobody ever takes is given up after a day.
func TestNeverTaken(t *testing.T) {
	b := newBench(t, 1)
	b.peers[0].set(func() { b.peers[0].down = true })
	s := b.begin()
	b.find(s, b.finding("worker-1", "db", 0))
	for range 26 {
		b.clock.advance(time.Hour)
		b.settle()
	}
	b.pass(2 * time.Minute)
	if st := s.Stats(); st.Firing+st.Resolved != 0 || b.store.kept() != 0 {
		t.Errorf("%+v, %d kept", st, b.store.kept())
	}
}

// A process that begins continues with the alerts of its predecessor: those that fire, and those that were over meanwhile.
func TestRestart(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin()
	b.find(s, b.finding("worker-2", "old", 0))
	b.pass(12 * time.Minute)
	b.find(s, b.finding("worker-1", "db", 0))
	b.pass(time.Minute)
	b.find(s, b.finding("worker-1", "other", 0))
	b.end(s)
	b.store.add(b.finding("worker-3", "stored-not-sent", 0))
	b.pass(4 * time.Minute)
	s = b.begin()
	b.pass(2 * time.Second)
	want(t, b.peers[0], []string{worker1, "OutOfScopeSecretRead worker-3"}, []string{"OutOfScopeSecretRead worker-2"})
	for _, r := range b.peers[0].received() {
		if r.Labels["node"] == "worker-1" && !r.StartsAt.Equal(start.Add(12*time.Minute)) {
			t.Errorf("starts at %s", r.StartsAt)
		}
		if r.at.Sub(start) > 17*time.Minute && r.Labels["node"] == "worker-1" && (r.Annotations["objects"] != "shop/other, shop/db" || r.Annotations["count"] != "2") {
			t.Errorf("%v", r.Annotations)
		}
	}
	b.pass(15 * time.Minute)
	want(t, b.peers[0], nil, []string{worker1, "OutOfScopeSecretRead worker-2", "OutOfScopeSecretRead worker-3"})
	b.pass(30 * time.Minute)
	if st := s.Stats(); st.Firing+st.Resolved != 0 {
		t.Errorf("%+v", st)
	}
}

// Two analyzers on one store: neither resolves what the other finds, and each sends the alerts of both.
func TestTwoAnalyzers(t *testing.T) {
	b := newBench(t, 1)
	first, second := b.begin(), b.begin()
	for i := range 8 {
		b.find([]*Sink{first, second}[i%2], b.finding("worker-1", "db", 0))
		b.pass(10 * time.Minute)
	}
	for _, r := range b.peers[0].received() {
		if !r.firing() {
			t.Fatalf("resolved at %s", r.at)
		}
	}
	if a, b := first.Stats().Firing, second.Stats().Firing; a != 1 || b != 1 {
		t.Errorf("%d and %d fire", a, b)
	}
	b.end(second)
	b.pass(time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
	b.pass(20 * time.Minute)
	want(t, b.peers[0], nil, []string{worker1})
}

// While the store cannot be read nothing is resolved.
func TestStoreAway(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin()
	b.find(s, b.finding("worker-1", "db", 0))
	b.store.mu.Lock()
	b.store.fail = true
	b.store.mu.Unlock()
	b.pass(20 * time.Minute)
	want(t, b.peers[0], []string{worker1}, nil)
	if s.Stats().StoreFailures == 0 {
		t.Error("no failure was counted")
	}
	b.store.mu.Lock()
	b.store.fail = false
	b.store.mu.Unlock()
	b.pass(time.Minute)
	want(t, b.peers[0], nil, []string{worker1})
}

func TestWhatMakesNone(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin(func(o *Options) { o.MinSeverity, o.Since = rules.High, start })
	tooOld, low, odd := b.finding("a", "x", 16*time.Minute), b.finding("b", "x", 0), b.finding("c", "x", 0)
	tooOld.Count, low.Severity, odd.Severity = 7, "medium", ""
	for _, f := range []sinks.Finding{tooOld, low, odd} {
		b.find(s, f)
	}
	future := b.finding("d", "x", -1000*time.Hour)
	b.find(s, future) // of a clock that is wrong: found now
	b.pass(5 * time.Minute)
	want(t, b.peers[0], []string{"OutOfScopeSecretRead d"}, nil)
	if st := s.Stats(); st.TooOld != 7 || st.Firing != 1 {
		t.Errorf("%+v", st)
	}
	b.pass(15 * time.Minute)
	want(t, b.peers[0], nil, []string{"OutOfScopeSecretRead d"})
}

// Beyond the bound there is one alert for each rule and severity.
func TestFolded(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin(func(o *Options) { o.MaxAlerts = 250 })
	for i := range 1000 {
		f := b.finding(fmt.Sprintf("n-%d", i), "x", 0)
		b.store.add(f)
		s.Add([]sinks.Finding{f})
	}
	b.pass(3 * time.Minute)
	firing, _ := b.peers[0].has()
	if len(firing) != 251 || firing[0] != "OutOfScopeSecretRead " {
		t.Errorf("%d fire, the first is %q", len(firing), firing[0])
	}
	if st := s.Stats(); st.Folded != 750 || st.Firing != 251 {
		t.Errorf("%+v", st)
	}
	for _, r := range b.peers[0].received() {
		if r.Labels["node"] == "" && (r.Labels["severity"] != "critical" || r.Labels["resource"] != "") {
			t.Errorf("%v", r.Labels)
		}
	}
	posts := map[int]int{}
	for _, r := range b.peers[0].received() {
		posts[r.posts]++
	}
	for n := range maps.Values(posts) {
		if n > maxBatch {
			t.Errorf("%d alerts at once", n)
		}
	}
}

// What a sink keeps that is no more is forgotten in the end, and is no alert of another one's.
func TestKeptByNobody(t *testing.T) {
	b := newBench(t, 1)
	row := func(key string, learnt time.Duration) Kept {
		f := b.finding("worker-1", "db", learnt)
		return Kept{Key: keptPrefix + key, First: f.First, Last: f.Last, Learnt: f.First, Finding: f}
	}
	young, old := row("young", time.Hour), row("old", 72*time.Hour)
	b.store.alerts[young.Key], b.store.alerts[old.Key] = young, old
	s := b.begin()
	b.pass(time.Minute)
	if _, stays := b.store.alerts[young.Key]; !stays || b.store.kept() != 1 || s.Stats().Firing != 0 {
		t.Errorf("%d kept, %+v", b.store.kept(), s.Stats())
	}
}
