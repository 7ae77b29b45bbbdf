package alertmanager

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
)

func byIncident(o *Options) { o.Incidents = true }

// thief adds what a thief does in a minute: refused reads, reads through two bindings as two rules flag them, and what is the node's own meanwhile.
func thief(b *bench, s *Sink, node string, minute int) {
	var all []sinks.Finding
	add := func(rule string, reason rules.Reason, severity, name string, allowed bool) *sinks.Finding {
		f := b.finding(node, name, 0)
		f.ID, f.Rule, f.Reason, f.Severity, f.Allowed, f.Authorized = fmt.Sprint(rule, node, name, severity), rule, reason, severity, allowed, allowed
		all = append(all, f)
		return &all[len(all)-1]
	}
	for i := range 25 {
		add("out-of-scope-secret-read", rules.ReadRefused, "medium", fmt.Sprint("made-up-", minute, "-", i), false)
	}
	for i := range 2 {
		name := fmt.Sprint("secret-", minute, "-", i)
		for _, rule := range []string{"out-of-scope-secret-read", rules.ExcessAccess} {
			f := add(rule, rules.ReadSucceeded, "critical", name, true)
			f.Binding.Name = []string{"legacy", "other"}[i]
		}
	}
	add(rules.ExcessAccess, rules.BindingNeeded, "high", "settings", true)
	add(rules.CredentialMisuse, rules.ForeignClient, "high", "", true)
	add(rules.DenySpike, rules.SpikeOfNode, "high", "", false)
	b.store.add(all...)
	s.Add(all)
	b.settle()
}

// fired are all alerts that ever fired, with their severities.
func fired(m *manager) []string {
	var out []string
	for _, r := range m.received() {
		if name := r.Labels["alertname"] + " " + r.Labels["node"] + " " + r.Labels["severity"]; r.firing() && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

func TestOneAlertForATheft(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin(byIncident)
	for minute := range 20 {
		if minute == 10 {
			b.end(s)
			b.pass(30 * time.Second)
			s = b.begin(byIncident)
		}
		thief(b, s, "worker-3", minute)
		if minute >= 5 && minute < 15 {
			thief(b, s, "worker-5", minute) // a second thief
		}
		b.pass(time.Minute)
	}
	if got := fired(b.peers[0]); !slices.Equal(got, []string{"CredentialIncident worker-3 critical", "CredentialIncident worker-5 critical"}) {
		t.Errorf("alerts: %q", got)
	}
	log := b.peers[0].received()
	last := log[len(log)-1]
	if last.Labels["rule"] != IncidentRule || last.Labels["namespace"] != "" || last.Annotations["runbook_url"] != DefaultRunbooks+"docs/incidents.md" ||
		last.GeneratorURL != "https://nodetrail.example/incidents?credential="+last.Labels["node"] {
		t.Errorf("%+v", last)
	}
	// It fires for as long as the incident is open, although findings of their own are over after a quarter of an hour.
	b.pass(50 * time.Minute)
	if firing, _ := b.peers[0].has(); len(firing) != 2 && len(firing) != 1 {
		t.Errorf("fifty minutes later: %q", firing)
	}
	b.pass(15 * time.Minute)
	if firing, _ := b.peers[0].has(); len(firing) != 0 {
		t.Errorf("an hour later: %q", firing)
	}
}

// A finding worse than the incident keeps an alert of its own. An incident that gets worse has another alert, in place of the first. Circumstances have alerts when
// no incident is open.
func TestIncidentHidesNothingWorse(t *testing.T) {
	b := newBench(t, 1)
	s := b.begin(byIncident)
	find := func(rule string, reason rules.Reason, severity string, allowed bool) {
		f := b.finding("worker-1", "x", 0)
		f.ID, f.Rule, f.Reason, f.Severity, f.Allowed, f.Authorized = rule+severity, rule, reason, severity, allowed, allowed
		b.find(s, f)
	}
	want := func(when string, names ...string) {
		t.Helper()
		b.pass(30 * time.Second)
		var got []string
		b.peers[0].set(func() {
			for _, r := range b.peers[0].alerts {
				if r.EndsAt.After(b.clock.Now()) {
					got = append(got, r.Labels["alertname"]+" "+r.Labels["severity"])
				}
			}
		})
		slices.Sort(got)
		if !slices.Equal(got, names) {
			t.Errorf("%s: %q, want %q", when, got, names)
		}
	}
	find(rules.NodeIdentity, rules.NameDomain, "high", true)
	want("a circumstance alone", "NodeIdentity high")
	find("out-of-scope-secret-read", rules.ReadRefused, "medium", false)
	want("and a refusal", "CredentialIncident medium", "NodeIdentity high")
	find(rules.NodeIdentity, rules.Privileged, "critical", true)
	want("and what is worse", "CredentialIncident medium", "NodeIdentity critical", "NodeIdentity high")
	find("out-of-scope-secret-read", rules.ReadSucceeded, "critical", true)
	want("and a success", "CredentialIncident critical")
	find("out-of-scope-secret-read", rules.ReadRefused, "medium", false)
	find(rules.NodeIdentity, rules.NameDomain, "high", true)
	want("and more", "CredentialIncident critical")
	b.pass(61 * time.Minute)
	find(rules.NodeIdentity, rules.NameDomain, "high", true)
	want("an hour later", "NodeIdentity high")
}
