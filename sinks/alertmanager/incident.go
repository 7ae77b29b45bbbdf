package alertmanager

import (
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/tally"
)

// IncidentRule stands in the label rule of the alert of an incident, and its alert name is made of it.
const IncidentRule = "credential-incident"

// credential is whose incident an alert is.
type credential struct{ cluster, node string }

// incidentKey is the key of the alert of an incident.
func incidentKey(f *sinks.Finding, s rules.Severity) key {
	return key{cluster: clean(f.Cluster), rule: IncidentRule, severity: s.String(), node: clean(f.Node)}
}

func (k *key) isIncident() bool { return k.rule == IncidentRule }

// resolveAfter is how long after its last finding an alert of the key is over: an incident is, once it is not open any more.
func (o *Options) resolveAfter(k *key) time.Duration {
	if k.isIncident() {
		return max(o.ResolveAfter, incidents.Pause)
	}
	return o.ResolveAfter
}

// longest is the longest of all keys.
func (o *Options) longest() time.Duration {
	if o.Incidents {
		return max(o.ResolveAfter, incidents.Pause)
	}
	return o.ResolveAfter
}

func actOf(f *sinks.Finding, s rules.Severity) rules.Act {
	if f.Node == "" {
		return rules.Circumstance
	}
	return rules.ActOf(f.Rule, tally.ReasonOf(f.Reason, f.Detail), s, f.Authorized, f.Allowed)
}

// actsFirst puts what somebody did before circumstances, so that the incident is there when its circumstances come.
func (o *Options) actsFirst(all []sinks.Finding) []sinks.Finding {
	if !o.Incidents {
		return all
	}
	out := slices.Clone(all)
	rank := func(f *sinks.Finding) int {
		if s, err := rules.ParseSeverity(f.Severity); err == nil && actOf(f, s) != rules.Circumstance {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b sinks.Finding) int { return rank(&a) - rank(&b) })
	return out
}

// keyFor is the key of the alert that tells of a finding. told is false where the alert of an incident tells of it already: it is no more severe, and
// lasts whatever the incident does.
func (b *book) keyFor(f *sinks.Finding, s rules.Severity) (k key, told bool) {
	k = keyOf(f)
	if !b.o.Incidents {
		return k, true
	}
	open := b.incidents[credential{k.cluster, k.node}]
	if open != nil && !open.fires() {
		open = nil
	}
	act := actOf(f, s)
	if act == rules.Circumstance {
		about := k.node != "" && !apart(f.Rule)
		return k, open == nil || !about || s > severityOf(&open.key)
	}
	worst := incidents.SeverityOf(act, s)
	if open != nil {
		worst = max(worst, severityOf(&open.key))
	}
	return incidentKey(f, worst), true
}

// apart reports whether no incident tells of findings of a rule.
func apart(rule string) bool { return !rules.OfHolder(rule) && rule != IncidentRule }

func severityOf(k *key) rules.Severity {
	s, err := rules.ParseSeverity(k.severity)
	if err != nil {
		return rules.None
	}
	return s
}

// lead makes the alert that of its credential's incident. It ends the one before, of a lower severity, and alerts of findings that it tells of.
func (b *book) lead(a *alert, now time.Time) {
	if !a.key.isIncident() || a.key.node == "" || !a.fires() {
		return
	}
	whose := credential{a.key.cluster, a.key.node}
	if b.incidents[whose] == a {
		return
	}
	b.incidents[whose] = a
	for _, o := range b.order {
		if o == a || !o.fires() || o.key.cluster != a.key.cluster || o.key.node != a.key.node || apart(o.key.rule) || severityOf(&o.key) > severityOf(&a.key) {
			continue
		}
		if o.key.isIncident() {
			a.first = earlier(a.first, o.first)
			a.before += o.count()
		}
		o.resolved, o.closed = now, now
		b.hurry = b.hurry || !o.silent()
	}
}
