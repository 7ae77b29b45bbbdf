package alertmanager

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/incidents"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/sinks"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// key is what makes an alert one. Its strings are as they are sent.
type key struct{ cluster, rule, reason, severity, node, namespace, resource string }

func keyOf(f *sinks.Finding) key {
	resource := f.Resource
	if f.APIGroup != "" {
		resource += "." + f.APIGroup
	}
	if f.Subresource != "" {
		resource += "/" + f.Subresource
	}
	reason := ""
	if rules.ByReason(f.Rule) { // of other rules it may change from one request to the next
		reason = string(f.Reason)
	}
	return key{
		cluster: clean(f.Cluster), rule: clean(f.Rule), reason: clean(reason), severity: clean(f.Severity), node: clean(f.Node), namespace: clean(f.Namespace),
		resource: clean(resource),
	}
}

// The reasons of alerts that stand for findings which are too many to be distinguished.
const (
	manyRefused = "many-refused"
	manyAllowed = "many-allowed"
)

// ofNode is the key of what is too much of one node to be distinguished, ofRule of what is too much of all nodes.
func (k key) ofNode(allowed bool) key {
	k.namespace, k.resource, k.reason = "", "", manyRefused
	if allowed {
		k.reason = manyAllowed
	}
	return k
}

func (k key) ofRule(allowed bool) key {
	k = k.ofNode(allowed)
	k.node = ""
	return k
}

// class is what alerts share a bound with.
type class struct {
	cluster, rule, severity, node string
	allowed                       bool
}

func (k key) class(allowed bool) class {
	return class{cluster: k.cluster, rule: k.rule, severity: k.severity, node: k.node, allowed: allowed}
}

// text is the key of what a Keeper has.
func (k key) text(sink string) string {
	parts := []string{sink, k.cluster, k.rule, k.severity, k.node, k.namespace, k.resource}
	if k.reason != "" {
		parts = append(parts, k.reason)
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return "" // strings can always be written
	}
	return keptPrefix + string(b)
}

// alert is one alert that is sent.
type alert struct {
	key   key
	class class
	// first and last are of its findings; learnt is when it was made, taken when a peer took it first.
	first, last, learnt, taken time.Time
	// found is when a finding was found last that was over by then, zero if none was.
	found time.Time
	// resolved is when it was over, zero while it fires; closed is since when that is sent.
	resolved, closed time.Time
	// begun counts how often it began.
	begun int
	sent  []mark // by peer
	kept  bool   // a Keeper has it
	saved times  // as the Keeper has them
	// unread says that it was resumed, and that the reading under way had nothing of it yet.
	unread bool

	// What is told of it is of the newest of its weightiest findings; that is as old as told.
	told    time.Time
	tells   int // its weight
	id      string
	reason  rules.Reason
	params  codes.Params
	message string
	detail  string
	verb    string
	binding sinks.Binding
	client  string
	runbook string
	auditID []string
	allowed bool // one of the requests succeeded
	passed  bool // one passed authorization
	origins tally.Origins
	names   []named // of objects, the newest first
	more    bool    // there are further objects
	// hours counts by the hour; read is what the reading of the store under way has come to, before what is no longer distinguished.
	hours, read map[int64]int64
	before      int64
}

// times are what a Keeper has of an alert.
type times struct{ first, last, taken, found, resolved time.Time }

func (a *alert) times() times { return times{a.first, a.last, a.taken, a.found, a.resolved} }

func (t times) equal(o times) bool {
	return t.first.Equal(o.first) && t.last.Equal(o.last) && t.taken.Equal(o.taken) && t.found.Equal(o.found) && t.resolved.Equal(o.resolved)
}

type mark struct {
	at       time.Time // zero if the peer was never sent it
	firing   bool
	refusals int // one after the other, 0 if it was taken
}

type named struct {
	name   string
	last   time.Time
	weight int
}

// weight puts findings of allowed requests before others, of each those that are worse, and of these those that say which object was reached from where.
func weight(f *sinks.Finding) int {
	s, err := rules.ParseSeverity(f.Severity)
	if err != nil {
		s = rules.None
	}
	n := int(incidents.SeverityOf(actOf(f, s), s))
	if f.Authorized {
		n += int(rules.Critical) + 1
	}
	n *= 2
	if objectOf(f) != "" && f.Params.Has(rules.ParamAddress) {
		n++
	}
	return n
}

// objectOf names the object of a finding: NAMESPACE/NAME, or NAMESPACE/* and * for all of a namespace and of the cluster; "" if it is about none.
func objectOf(f *sinks.Finding) string {
	name := f.Name
	switch f.Verb {
	case "list", "watch", "deletecollection":
		if name == "" && f.Resource != "" {
			name = "*"
		}
	}
	if name != "" && f.Namespace != "" {
		name = f.Namespace + "/" + name
	}
	return name
}

const maxNames = 20

func (a *alert) fires() bool { return a.resolved.IsZero() }

// silent reports whether the alert is over before any peer took it: then no peer hears of its end. One that is being sent may be taken yet.
func (a *alert) silent() bool { return !a.fires() && a.taken.IsZero() }

// news reports whether a peer does not know yet that the alert fires, or is over.
func (a *alert) news(peer int) bool {
	m := &a.sent[peer]
	return !a.silent() && (m.at.IsZero() || m.firing != a.fires())
}

// again begins the alert anew.
func (a *alert) again(first, now time.Time) {
	a.first, a.learnt, a.taken, a.found, a.resolved, a.closed = first, now, time.Time{}, time.Time{}, time.Time{}, time.Time{}
	a.hours, a.read, a.before, a.allowed, a.passed, a.tells, a.names, a.more = nil, nil, 0, false, false, 0, nil, false
	a.origins, a.unread = tally.Origins{}, false
	a.begun++
	clear(a.sent)
}

// tell keeps what of a finding is reported.
func (a *alert) tell(f *sinks.Finding, last time.Time) {
	if last.Before(a.first) {
		return // of a time when it did not fire
	}
	a.allowed, a.passed = a.allowed || f.Allowed, a.passed || f.Authorized
	a.origins.Merge(&f.Origins)
	w := weight(f)
	if name := objectOf(f); name != "" {
		a.name(bounded(name, maxObject), last, w)
	}
	if a.id != "" && (w < a.tells || w == a.tells && !last.After(a.told)) {
		return
	}
	a.told, a.tells, a.id, a.runbook = last, w, clean(f.ID), clean(f.Runbook)
	a.reason, a.params = f.Reason, f.Params.Own()
	a.message, a.detail = bounded(f.Message, maxText), bounded(f.Detail, maxText)
	a.verb, a.client = clean(f.Verb), clean(f.UserAgent)
	a.binding = sinks.Binding{Kind: clean(f.Binding.Kind), Namespace: clean(f.Binding.Namespace), Name: clean(f.Binding.Name)}
	const most = 5
	a.auditID = a.auditID[:0]
	for _, id := range f.AuditIDs[:min(most, len(f.AuditIDs))] {
		a.auditID = append(a.auditID, clean(id))
	}
}

// finding is what is reported, as the finding that tells it.
func (a *alert) finding() sinks.Finding {
	f := sinks.Finding{
		ID: a.id, Cluster: a.key.cluster, Rule: a.key.rule, Severity: a.key.severity, Node: a.key.node, Verb: a.verb, Resource: a.key.resource,
		Namespace: a.key.namespace, UserAgent: a.client, Binding: a.binding, Allowed: a.allowed, Authorized: a.passed, Origins: a.origins.Filled(), Reason: a.reason, Params: a.params, Message: a.message, Detail: a.detail,
		Count: max(1, a.count()), First: a.first, Last: a.last, AuditIDs: slices.Clone(a.auditID), Runbook: a.runbook,
	}
	if len(a.names) > 0 {
		f.Name = strings.TrimPrefix(a.names[0].name, a.key.namespace+"/")
	}
	return f
}

func bindingName(b sinks.Binding) string {
	switch {
	case b.Name == "":
		return ""
	case b.Namespace == "":
		return b.Kind + "/" + b.Name
	}
	return b.Kind + "/" + b.Namespace + "/" + b.Name
}

func (a *alert) name(name string, last time.Time, weight int) {
	i := slices.IndexFunc(a.names, func(n named) bool { return n.name == name })
	if i >= 0 {
		a.names[i].last, a.names[i].weight = later(a.names[i].last, last), max(a.names[i].weight, weight)
	} else {
		a.names = append(a.names, named{name, last, weight})
	}
	slices.SortStableFunc(a.names, func(x, y named) int {
		return cmp.Or(cmp.Compare(y.weight, x.weight), y.last.Compare(x.last), cmp.Compare(x.name, y.name))
	})
	if len(a.names) > maxNames {
		a.names, a.more = a.names[:maxNames], true
	}
}

func hourOf(t time.Time) int64 { return t.Truncate(time.Hour).Unix() }

// atLeast counts a finding that may have come from the store.
func (a *alert) atLeast(last time.Time, n int64) {
	if a.hours == nil {
		a.hours = map[int64]int64{}
	}
	if h := hourOf(last); a.hours[h] < n {
		a.hours[h] = n
	}
}

// reading counts what the store has of one group in one hour.
func (a *alert) reading(last time.Time, n int64) {
	h := hourOf(last)
	if h < hourOf(a.first) {
		return
	}
	if a.read == nil {
		a.read = map[int64]int64{}
	}
	a.read[h] += n
}

func (a *alert) counted() {
	for h, n := range a.read {
		if a.hours == nil {
			a.hours = map[int64]int64{}
		}
		a.hours[h] = max(a.hours[h], n)
	}
	a.read = nil
	const most = 48 // more than ResolveAfter and what is read at the start reach back
	for len(a.hours) > most {
		oldest := int64(0)
		for h := range a.hours {
			if oldest == 0 || h < oldest {
				oldest = h
			}
		}
		a.before += a.hours[oldest]
		delete(a.hours, oldest)
	}
}

func (a *alert) count() int64 {
	n := a.before
	for _, c := range a.hours {
		n += c
	}
	return n
}

// size estimates the bytes of the alert as it is sent.
func (a *alert) size() int64 {
	const fixed = 700
	n := fixed + len(a.message) + len(a.detail) + len(a.client) + len(a.binding.Name)
	for _, s := range a.names {
		n += len(s.name)
	}
	return int64(n)
}

// alertJSON is postableAlert of Alertmanager's API v2.
type alertJSON struct {
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	StartsAt     time.Time         `json:"startsAt"`
	EndsAt       time.Time         `json:"endsAt"`
	GeneratorURL string            `json:"generatorURL,omitempty"`
}

func (a *alert) labels(o *Options) map[string]string {
	k := &a.key
	return withLabels(o.Labels, map[string]string{
		"alertname": rules.AlertName(k.rule), "cluster": k.cluster, "severity": k.severity, "level": severityOf(k).Level(), "rule": k.rule, "reason": k.reason, "node": k.node, "namespace": k.namespace,
		"resource": k.resource,
	})
}

func (a *alert) annotations(b *book) map[string]string {
	k := &a.key
	summary := b.titles[k.rule]
	if summary == "" {
		summary = k.rule
	}
	if k.node != "" {
		summary += ": " + k.node
	}
	names := make([]string, len(a.names))
	for i, n := range a.names {
		names[i] = n.name
	}
	list := strings.Join(names, ", ")
	if a.more {
		list += ", and others"
	}
	description := a.message
	if n := a.count(); n > 1 {
		description = fmt.Sprintf("%s (the newest of %d)", description, n)
	}
	runbook := ""
	if a.runbook != "" {
		runbook = b.o.Runbooks + a.runbook
	}
	if k.isIncident() {
		runbook = b.o.Runbooks + "docs/incidents.md"
	}
	out := map[string]string{
		"summary": summary, "description": description, "detail": a.detail, "reason": string(a.reason), "count": strconv.FormatInt(a.count(), 10), "objects": list,
		"address": clean(a.params.Text(rules.ParamAddress)), "who": bounded(wording.Who(&a.origins), maxText), "from": bounded(wording.From(&a.origins), maxText),
		"answers": bounded(wording.Answered(&a.origins), maxText), "verb": a.verb, "client": a.client, "binding": bindingName(a.binding), "auditIDs": strings.Join(a.auditID, ", "), "allowed": strconv.FormatBool(a.allowed),
		"runbook_url": runbook,
	}
	return withLabels(nil, out)
}

const (
	maxName   = 253              // of names in Kubernetes
	maxObject = 63 + 1 + maxName // of NAMESPACE/NAME
	maxText   = 1024
)

// clean makes any bytes a short line of UTF-8.
func clean(s string) string { return bounded(s, maxName) }

// bounded makes any bytes a line of UTF-8 of at most so many bytes.
func bounded(s string, most int) string {
	bad := func(r rune) bool { return r == utf8.RuneError || wording.Hidden(r) }
	if len(s) > most {
		cut := most - len("…")
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	if strings.ContainsFunc(s, bad) {
		s = strings.Map(func(r rune) rune {
			if bad(r) {
				return '?'
			}
			return r
		}, s)
	}
	return strings.Clone(s)
}
