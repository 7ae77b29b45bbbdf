package alertmanager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
)

// told is what a peer heard of each alert: "NAME NODE SEVERITY from STARTS" of what fired, in the order of coming, and "... until ENDS" of what was
// resolved. Times are minutes since the start. What is repeated is left out.
func told(m *manager) []string {
	var out []string
	minutes := func(t time.Time) string { return fmt.Sprintf("%.2f", t.Sub(start).Minutes()) }
	for _, r := range m.received() {
		s := strings.TrimSpace(fmt.Sprint(r.Labels["alertname"], " ", r.Labels["node"], " ", r.Labels["severity"], " from ", minutes(r.StartsAt)))
		if !r.firing() {
			s += " until " + minutes(r.EndsAt)
		}
		if !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.Sort(out)
	return out
}

func (b *bench) wantTold(what string, want ...string) {
	b.t.Helper()
	slices.Sort(want)
	for i, p := range b.peers {
		if got := told(p); !slices.Equal(got, want) {
			b.t.Errorf("%s: peer %d heard\n  %s\nwant\n  %s", what, i, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
	}
}

// read is a request for a secret, refused or not.
func (b *bench) read(node, name string, succeeded bool) sinks.Finding {
	f := b.finding(node, name, 0)
	f.Reason = rules.ReadSucceeded
	if !succeeded {
		f.ID, f.Reason, f.Severity, f.Allowed, f.Authorized = f.ID+"-refused", rules.ReadRefused, "medium", false, false
	}
	return f
}

// restarts are the ways in which a sink ends and another begins with what the store has.
var restarts = map[string]func(b *bench, s *Sink, change ...func(*Options)) *Sink{
	"killed": func(b *bench, s *Sink, change ...func(*Options)) *Sink {
		b.end(s)
		return b.begin(change...)
	},
	"stopped": func(b *bench, s *Sink, change ...func(*Options)) *Sink {
		b.stop(s)
		return b.begin(change...)
	},
	"replaced": func(b *bench, s *Sink, change ...func(*Options)) *Sink {
		alerts := b.replaced(s)
		return b.begin(append(change, func(o *Options) { o.Before = func(context.Context) []Kept { return alerts } })...)
	},
}

// stop closes a sink in order.
func (b *bench) stop(s *Sink) {
	b.t.Helper()
	_ = s.Close(context.Background())
	b.forget(s)
}

func (b *bench) replaced(s *Sink) []Kept {
	defer b.forget(s)
	return s.HandOver()
}

func (b *bench) forget(s *Sink) {
	b.sinks = slices.DeleteFunc(b.sinks, func(o *Sink) bool { return o == s })
}

func eachRestart(t *testing.T, test func(t *testing.T, b *bench, restart func(s *Sink, change ...func(*Options)) *Sink)) {
	for name, restart := range restarts {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 2)
			test(t, b, func(s *Sink, change ...func(*Options)) *Sink {
				return restart(b, s, append([]func(*Options){byIncident}, change...)...)
			})
		})
	}
}

// An alert that gave way before any peer had it is never resolved, neither at once nor by those that read the findings again.
func TestNothingResolvedThatNoPeerHad(t *testing.T) {
	eachRestart(t, func(t *testing.T, b *bench, restart func(*Sink, ...func(*Options)) *Sink) {
		s := b.begin(byIncident)
		all := []sinks.Finding{b.read("worker-2", "a", false), b.read("worker-2", "b", true)}
		b.store.add(all...)
		s.Add(all)
		b.pass(5 * time.Minute)
		for range 3 {
			s = restart(s)
			b.pass(3 * time.Minute)
			b.find(s, b.read("worker-2", "c", false))
			b.pass(2 * time.Minute)
		}
		b.wantTold("a theft", "CredentialIncident worker-2 critical from 0.00")
	})
}

// What a peer had and what gave way is resolved, with one and the same end by each process; no alert begins at another time.
func TestResolvedOnce(t *testing.T) {
	eachRestart(t, func(t *testing.T, b *bench, restart func(*Sink, ...func(*Options)) *Sink) {
		s := b.begin(byIncident)
		b.find(s, b.read("worker-3", "a", false))
		b.pass(4 * time.Minute)
		b.find(s, b.read("worker-3", "b", true))
		b.pass(2 * time.Minute)
		for range 3 {
			s = restart(s)
			b.pass(2 * time.Minute)
		}
		b.wantTold("a theft after a refusal",
			"CredentialIncident worker-3 medium from 0.00", "CredentialIncident worker-3 medium from 0.00 until 4.00", "CredentialIncident worker-3 critical from 0.00")
		if n := s.Stats(); n.Firing != 1 || n.Resolved != 1 {
			t.Errorf("%+v", n)
		}
		b.pass(20 * time.Minute)
		if n := s.Stats(); n.Firing != 1 || n.Resolved != 0 {
			t.Errorf("%+v", n)
		}
		b.pass(60 * time.Minute)
		restart(s)
		b.pass(20 * time.Minute)
		b.wantTold("when it is over",
			"CredentialIncident worker-3 medium from 0.00", "CredentialIncident worker-3 medium from 0.00 until 4.00",
			"CredentialIncident worker-3 critical from 0.00", "CredentialIncident worker-3 critical from 0.00 until 64.00")
		if n := b.store.kept(); n != 0 {
			t.Errorf("%d are kept", n)
		}
	})
}

// An alert that a peer had before the restart, and that gave way meanwhile, is resolved; so is one that was over meanwhile, as of then.
func TestResolvedAfterRestart(t *testing.T) {
	b := newBench(t, 2)
	s := b.begin(byIncident)
	b.find(s, b.read("worker-3", "a", false))
	own := b.read("worker-4", "", true)
	own.Rule, own.Severity = rules.NodeIdentity, "high"
	b.find(s, own)
	b.pass(time.Minute)
	b.end(s)
	b.pass(9 * time.Minute)
	b.store.add(b.read("worker-3", "b", true)) // found by another process, or by this before it was killed
	b.pass(10 * time.Minute)
	b.begin(byIncident)
	b.pass(10 * time.Minute)
	b.wantTold("a theft meanwhile",
		"CredentialIncident worker-3 medium from 0.00", "CredentialIncident worker-3 medium from 0.00 until 20.00", "CredentialIncident worker-3 critical from 0.00",
		"NodeIdentity worker-4 high from 0.00", "NodeIdentity worker-4 high from 0.00 until 15.00")
}

// An exception ends the alerts of the findings that it covers, and touches no other: neither those of the same rule nor an incident that is left with less.
func TestReplacedWithAnException(t *testing.T) {
	eachRestart(t, func(t *testing.T, b *bench, restart func(*Sink, ...func(*Options)) *Sink) {
		s := b.begin(byIncident)
		for _, node := range []string{"worker-1", "worker-2", "worker-3"} {
			f := b.finding(node, "", 0)
			f.Rule, f.Severity = rules.NodeIdentity, "high"
			b.find(s, f)
		}
		b.find(s, b.read("worker-5", "refused", false))
		b.find(s, b.read("worker-5", "read", true))
		b.find(s, b.read("worker-6", "read", true))
		b.pass(2 * time.Minute)
		except := func(o *Options) {
			o.Recent = func(ctx context.Context, since time.Time) ([]sinks.Finding, error) {
				all, err := b.store.Recent(ctx, since)
				return slices.DeleteFunc(all, func(f sinks.Finding) bool { return f.Node == "worker-2" || f.Name == "read" && f.Node == "worker-5" }), err
			}
		}
		s = restart(s, except)
		b.pass(2 * time.Minute)
		s = restart(s, except)
		b.pass(2 * time.Minute)
		b.wantTold("an exception",
			"NodeIdentity worker-1 high from 0.00", "NodeIdentity worker-2 high from 0.00", "NodeIdentity worker-3 high from 0.00",
			"NodeIdentity worker-2 high from 0.00 until 2.00",
			"CredentialIncident worker-5 medium from 0.00", "CredentialIncident worker-5 medium from 0.00 until 0.00",
			"CredentialIncident worker-5 critical from 0.00", "CredentialIncident worker-5 critical from 0.00 until 2.00",
			"CredentialIncident worker-6 critical from 0.00")
		if n := s.Stats(); n.Firing != 4 {
			t.Errorf("%+v", n)
		}
	})
}

// A peer that takes an alert while it gives way hears of its end.
func TestGivesWayWhileItIsSent(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin(byIncident)
	b.end(s)
	now := b.clock.Now()
	book := s.book
	refused, worse := b.read("worker-1", "a", false), b.read("worker-1", "b", true)
	book.fold(&refused, now, live)
	batch, _ := book.due(0, now, maxBatch, false)
	book.fold(&worse, now, live)
	if next, _ := book.due(0, now, maxBatch, false); len(batch) != 1 || len(next) != 1 || next[0].alert == batch[0].alert {
		t.Errorf("%d are sent, and then %d", len(batch), len(next))
	}
	book.sent(0, &batch[0], now, false)
	if next, _ := book.due(0, now, maxBatch, false); len(next) != 2 || next[0].firing || next[0].alert != batch[0].alert {
		t.Errorf("%d are sent then", len(next))
	}
}

// What a peer has taken is stored at once, and an incident that lasts longer than the store is read back begins when it did.
func TestKeptAtOnceAndForLong(t *testing.T) {
	b := newBench(t, 2)
	s := b.begin(byIncident)
	b.find(s, b.read("worker-3", "a", false))
	b.end(s)
	b.store.add(b.read("worker-3", "b", true))
	s = b.begin(byIncident)
	for range 18 {
		b.pass(10 * time.Minute)
		b.find(s, b.read("worker-3", "c", true))
	}
	b.end(s)
	b.begin(byIncident)
	b.pass(2 * time.Minute)
	b.wantTold("a theft that lasts",
		"CredentialIncident worker-3 medium from 0.00", "CredentialIncident worker-3 medium from 0.00 until 0.00", "CredentialIncident worker-3 critical from 0.00")
}
