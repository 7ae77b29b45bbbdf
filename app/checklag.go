package app

import (
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/evidence"
	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// lagBook tells the lag of an API server's graph from disagreement. Of a log it keeps what the graph allows and the API server's Node authorizer refused
// a kubelet, and whether that authorizer allowed the same later. A client that is no kubelet does not try again, so that its requests are none.
type lagBook struct {
	kubelets []string
	of       map[lagKey]*refusals
	keys     map[tally.Key]*tally.Key // of findings, each once
	count    int
}

// lagKey is what the graph has one answer to.
type lagKey struct{ node, verb, group, resource, sub, namespace, name string }

// refusals are those of one key. What comes before open is resolved.
type refusals struct {
	all  []refusal
	open int
}

// refusal is a request that Node refused. Where RBAC let it through, key is the group of its finding; nil elsewhere.
type refusal struct {
	at      time.Time
	auditID string
	key     *tally.Key
	low     bool // harmless, so that its group counts it as low
	// resolved says that the same was allowed later.
	resolved bool
}

const (
	// maxRefusals bounds what is kept. What is beyond it is disagreement.
	maxRefusals = 100_000
	// lagFor is how long after its start an API server may not know all that leads to a node.
	lagFor = time.Minute
	// missedSlots is how far apart renewals of an API server's Lease are at the most, in slots of the ledger: every ten seconds and up to 4 % later.
	missedSlots = 3
)

func newLagBook(kubelets []string) *lagBook {
	return &lagBook{kubelets: kubelets, of: map[lagKey]*refusals{}, keys: map[tally.Key]*tally.Key{}}
}

// add takes in a judgement with its entry, in the order of time: it keeps the request if it may have been refused for lag, and takes it for an answer to
// those that were. What a static rule allows does not depend on the graph.
func (b *lagBook) add(j *pipeline.Judgement, e *tally.Entry) {
	if !j.IsNode || j.Answer.Static || j.Answer.Race || j.Answer.Verdict != nodeauthz.Allow {
		return
	}
	refused := j.Observed.NodeVerdict == nodeauthz.Deny
	if !refused && (len(b.of) == 0 || j.Observed.NodeVerdict != nodeauthz.Allow) {
		return
	}
	a := j.Attrs
	k := lagKey{j.Node, a.Verb, a.APIGroup, a.Resource, a.Subresource, a.Namespace, a.Name}
	if a.Verb == "list" || a.Verb == "watch" { // of one object they need what a get needs
		k.verb = "get"
	}
	of := b.of[k]
	if !refused {
		if of != nil {
			of.resolve(j.Time)
		}
		return
	}
	if b.count >= maxRefusals || j.Impersonator != "" || !rules.IsKubelet(rules.Product(j.Event.UserAgent), b.kubelets) {
		return
	}
	b.count++
	r := refusal{at: j.Time, auditID: strings.Clone(tally.Bounded(j.Event.AuditID))}
	for i := range e.Findings {
		if f := &e.Findings[i]; f.Key.Rule == rules.ExcessAccess {
			r.key, r.low = b.key(f.Key), rules.Harmless(f.Severity, f.Reason)
		}
	}
	if of == nil {
		for _, s := range []*string{&k.node, &k.verb, &k.group, &k.resource, &k.sub, &k.namespace, &k.name} {
			*s = strings.Clone(*s)
		}
		of = &refusals{}
		b.of[k] = of
	}
	of.all = append(of.all, r)
}

// resolve notes that the same was allowed at a time.
func (of *refusals) resolve(t time.Time) {
	for i := of.open; i < len(of.all); i++ {
		r := &of.all[i]
		if r.resolved = r.resolved || r.at.Before(t); r.resolved && i == of.open {
			of.open++
		}
	}
}

// key returns the key that is kept of one.
func (b *lagBook) key(k tally.Key) *tally.Key {
	one := b.keys[k]
	if one == nil {
		k.Own()
		one = &k
		b.keys[k] = one
	}
	return one
}

// lag is what of a log was lag.
type lag struct {
	// requests counts those that were refused, by audit ID and time.
	requests map[lagged]int64
	// uses are those that RBAC let through, by the group of their finding.
	uses map[tally.Key]lagUses
}

type lagged struct {
	auditID string
	at      time.Time
}

// lagUses counts findings, and those of them that are harmless.
type lagUses struct{ count, low int64 }

// lag returns what came at most a minute after an API server's start and was allowed later.
func (b *lagBook) lag(l *evidence.Ledger) lag {
	out := lag{map[lagged]int64{}, map[tally.Key]lagUses{}}
	if b == nil {
		return out
	}
	for _, of := range b.of {
		for i := range of.all {
			r := &of.all[i]
			if !r.resolved || !startedBefore(l, r.at) {
				continue
			}
			out.requests[lagged{r.auditID, r.at.UTC()}]++
			if r.key != nil {
				u := out.uses[*r.key]
				u.count++
				if r.low {
					u.low++
				}
				out.uses[*r.key] = u
			}
		}
	}
	return out
}

// startedBefore reports whether an API server started at most lagFor before t: it looked for its Lease, or renewed it again after it had missed a renewal
// or more. It serves before it does either.
func startedBefore(l *evidence.Ledger, t time.Time) bool {
	from, to := t.Add(-lagFor-evidence.SlotLength), t.Add(evidence.SlotLength)
	first, last := evidence.HourOf(from), evidence.HourOf(to)
	for _, name := range l.Servers(first, last) {
		within := func(slot int64) bool { at := evidence.SlotStart(slot); return !at.Before(from) && !at.After(to) }
		for slot := range l.ServerStarts(name, first, last) {
			if within(slot) {
				return true
			}
		}
		before := int64(0)
		for slot := range l.ServerRenewals(name, first-1, last) {
			if slot-before > missedSlots && within(slot) {
				return true
			}
			before = slot
		}
	}
	return false
}
