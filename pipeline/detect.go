package pipeline

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/internal/nodeid"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// DetectionEntry is the entry of a detection: a finding without a request. Its ID is the same for the same rule, subject, object,
// reason and phase in the same minute: so it counts once, however often it is found. s says whose address one is; it may be nil.
func DetectionEntry(d *rules.Detection, s rules.State) tally.Entry {
	k := tally.Key{
		Rule: d.Rule, Node: d.Subject, Verb: d.Verb, APIGroup: d.APIGroup, Resource: d.Resource, Subresource: d.Subresource,
		Namespace: d.Namespace, Name: d.Name, Product: d.Product, Apart: d.Apart,
		Binding: rbac.BindingRef{Kind: d.Binding.Kind, Namespace: d.Binding.Namespace, Name: d.Binding.Name},
	}
	if rules.ByReason(k.Rule) {
		k.Reason = d.Reason
	}
	h := sha256.New()
	for _, s := range []string{
		k.Rule, k.Node, k.Verb, k.APIGroup, k.Resource, k.Subresource, k.Namespace, k.Name, string(k.Reason), k.Apart, d.Phase,
		d.Time.UTC().Truncate(time.Minute).Format(time.RFC3339),
	} {
		h.Write([]byte(s))
		h.Write([]byte{0})
	}
	f := tally.Finding{Key: k, Reason: d.Reason, Severity: d.Severity, Allowed: d.Allowed, Params: d.Params}
	if n := len(d.AuditIDs); n > 0 {
		// A finding has one, and its group gathers those of later ones: not the same again and again.
		f.AuditID = d.AuditIDs[n-1]
	}
	e := tally.Entry{Time: d.Time.UTC(), Findings: []tally.Finding{f}, Origin: detectedOrigin(d, s)}
	copy(e.ID[:], h.Sum(nil))
	return e.Own()
}

// detectedOrigin is who made the requests of a detection, and from where, as far as it tells: it is of several requests. A node's subject is the name in
// the user name of an identity that has the nodes' group.
func detectedOrigin(d *rules.Detection, s rules.State) tally.Origin {
	o := tally.Origin{Several: true, User: d.Subject}
	o.Address.Address = d.Params.Text(rules.ParamAddress)
	if s != nil && o.Address.Address != "" {
		o.Address.Node = s.NodeAt(o.Address.Address)
	}
	switch name := d.Params.Text(rules.ParamUser); {
	case name != "":
		o.User = name
	case d.Subject != "" && !strings.Contains(d.Subject, ":"):
		o.User, o.Groups = nodeid.UserPrefix+d.Subject, []string{user.NodesGroup}
	}
	return o
}

// silentAfter is how long no request must have been judged for the clock to move the detectors' time on.
const silentAfter = rules.DefaultLateness

// AheadAtMost is how far ahead of our clock a request may be for detectors, whose time would run ahead with it, and for the log to reach up to it.
const AheadAtMost = time.Hour

// observe returns what detectors look at of a judged request, nil if they have no use for it.
func (e *Engine) observe(j *Judgement, received time.Time) []byte {
	if e.over == nil || !rules.Observes(&j.Request) {
		return nil
	}
	now := e.opt.Now()
	e.runsAhead(j.Time.Sub(received), now)
	if !j.Time.Before(now.Add(AheadAtMost)) {
		return nil
	}
	e.over.buf = rules.AppendObservation(e.over.buf[:0], &j.Request, received)
	return slices.Clone(e.over.buf)
}

const (
	// aheadCounts is from when on a request counts as ahead of our clock: less is usual where clocks are kept together.
	aheadCounts = 2 * time.Second
	// aheadTold is from when on it is logged, at most so often.
	aheadTold      = 30 * time.Second
	aheadToldEvery = 10 * time.Minute
)

// ahead is what is known of requests that were dated ahead of our clock when they came in.
type ahead struct {
	requests int64
	most     time.Duration // since it was logged
	told     time.Time
}

// runsAhead takes in by how much a request was dated ahead of when it came in, and logs it if it is much: which API server it is nobody can tell.
func (e *Engine) runsAhead(by time.Duration, now time.Time) {
	a := &e.ahead
	if by < aheadCounts {
		return
	}
	a.requests++
	if a.most = max(a.most, by); a.most < aheadTold || !a.told.IsZero() && now.Sub(a.told) < aheadToldEvery {
		return
	}
	e.opt.Log.Warn().Stringer("ahead", a.most).Int64("requests", a.requests).
		Msg("requests are dated ahead of this machine's clock: that of an API server, or this one, is wrong; the rules over time look at them when their time has come, and never at those that are an hour ahead")
	a.most, a.told = 0, now
}

// part is called when a partition is closed.
func (e *Engine) part(l *partition) {
	if e.over != nil && l.name == tally.OverTimeLane {
		e.over.lose()
	}
}
