package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
)

// Verdicts on readiness.
const (
	VerdictReady    = "ready"
	VerdictNotReady = "not ready"
	VerdictUnknown  = "not enough evidence"
)

// Hole is something that the evidence lacks, because of which nothing is "ready".
type Hole struct {
	// Kind is log, policy, node, state, agreement, mode or rule.
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// Kinds of holes.
const (
	HoleLog       = "log"
	HolePolicy    = "policy"
	HoleNode      = "node"
	HoleState     = "state"
	HoleAgreement = "agreement"
	HoleMode      = "mode"
	HoleRule      = "rule"
)

// Client is one whose requests would break without a binding.
type Client struct {
	// UserAgent is the product of the user agent, which is the client's own claim; Binding is the only one that lets it through.
	UserAgent string `json:"userAgent"`
	Binding   string `json:"binding"`
	Requests  int64  `json:"requests"`
	// Nodes counts the nodes whose credential it used.
	Nodes int       `json:"nodes"`
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Days is the trend: each day (UTC) of the window, also one without any.
	Days []Day `json:"days"`
	// Needs are what it asked for, the most frequent first, at most MaxNeeds; More counts the others.
	Needs []Need `json:"needs"`
	More  int    `json:"more"`

	ref Binding
}

// MaxNeeds bounds what is listed of a client in Readiness. The findings have all.
const MaxNeeds = 50

// Need is one kind of request that would break.
type Need struct {
	Node        string    `json:"node"`
	Verb        string    `json:"verb"`
	APIGroup    string    `json:"apiGroup"`
	Resource    string    `json:"resource"`
	Subresource string    `json:"subresource"`
	Namespace   string    `json:"namespace"`
	Name        string    `json:"name"`
	Count       int64     `json:"count"`
	Last        time.Time `json:"last"`
}

// Day counts requests of one day, UTC.
type Day struct {
	Day   string `json:"day"`
	Count int64  `json:"count"`
}

// Identity is one that does not conform: the Node authorizer will not serve it.
type Identity struct {
	Identity string `json:"identity"`
	// Reason is "group missing", "name form", "letter case", "host name", "unregistered name", "no node identity" or "shared certificate".
	Reason   string    `json:"reason"`
	Message  string    `json:"message"`
	Requests int64     `json:"requests"`
	Clients  []string  `json:"clients"`
	Last     time.Time `json:"last"`
}

// Denial is one that persists: the same node is denied the same again and again.
type Denial struct {
	Node      string    `json:"node"`
	UserAgent string    `json:"userAgent"`
	Message   string    `json:"message"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// maxTrend bounds the days of a trend.
const maxTrend = tally.MaxDays

// need is what a client needs a binding for.
type need struct {
	ref              Binding
	binding, product string // binding is ref in words
	requests         int64
	findings         []*Finding
}

// across says how many nodes and which kinds of request it is about.
func (n *need) across() (nodes int64, kinds map[string]bool) {
	names := map[string]bool{}
	kinds = map[string]bool{}
	for _, f := range n.findings {
		names[f.Node], kinds[what(f)] = true, true
	}
	return int64(len(names)), kinds
}

// breaking counts a finding's requests that would break without the binding.
func breaking(f *Finding) int64 { return f.Count - f.low }

// needs sums up the findings of excess access by binding and client, the most requests first. count is how many of a finding's requests matter.
func needs(r *Report, count func(*Finding) int64) []*need {
	type key struct{ binding, product string }
	all := map[key]*need{}
	var out []*need
	for i := range r.Findings {
		f := &r.Findings[i]
		requests := count(f)
		if f.Rule != rules.ExcessAccess || requests == 0 {
			continue
		}
		k := key{bindingOf(f), f.UserAgent}
		n := all[k]
		if n == nil {
			n = &need{binding: k.binding, product: k.product}
			if f.Binding != nil {
				n.ref = *f.Binding
			}
			all[k], out = n, append(out, n)
		}
		n.requests += requests
		n.findings = append(n.findings, f)
	}
	slices.SortFunc(out, func(a, b *need) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), compareBindings(&a.ref, &b.ref), cmp.Compare(a.binding, b.binding), cmp.Compare(a.product, b.product))
	})
	return out
}

// clients are what would break, by binding and user agent, the most requests first.
func clients(r *Report) []Client {
	out := []Client{}
	for _, n := range needs(r, breaking) {
		nodes, _ := n.across()
		c := Client{
			UserAgent: n.product, Binding: n.binding, Requests: n.requests, Nodes: int(nodes), First: n.findings[0].First, Last: n.findings[0].Last, ref: n.ref,
		}
		days := map[int64]int64{}
		for _, f := range n.findings {
			if f.First.Before(c.First) {
				c.First = f.First
			}
			if f.Last.After(c.Last) {
				c.Last = f.Last
			}
			for _, d := range f.days {
				days[d.Day] += d.Count
			}
			c.Needs = append(c.Needs, Need{f.Node, f.Verb, f.APIGroup, f.Resource, f.Subresource, f.Namespace, f.Name, breaking(f), f.Last})
		}
		c.Days = trend(&r.Window, days)
		slices.SortStableFunc(c.Needs, func(a, b Need) int { return cmp.Compare(b.Count, a.Count) }) // the findings are in order
		if c.More = max(0, len(c.Needs)-MaxNeeds); c.More > 0 {
			c.Needs = slices.Clip(c.Needs[:MaxNeeds])
		}
		out = append(out, c)
	}
	return out
}

// bindingOf names the binding that a finding of excess access is about.
func bindingOf(f *Finding) string {
	switch {
	case f.Binding != nil:
		return f.Binding.Kind + " " + joinName(f.Binding.Namespace, f.Binding.Name)
	case f.wide:
		return "some RBAC binding"
	}
	return "an RBAC binding that the log does not name"
}

// trend has every day of the window, the latest maxTrend of them.
func trend(w *Window, count map[int64]int64) []Day {
	out := []Day{}
	if w.From == nil {
		return out
	}
	last := tally.DayOf(*w.To)
	for d := max(tally.DayOf(*w.From), last-maxTrend+1); d <= last; d++ {
		out = append(out, Day{time.Unix(d*24*60*60, 0).UTC().Format(time.DateOnly), count[d]})
	}
	return out
}

// identities are those that do not conform, in order of reason and name.
func identities(r *Report) []Identity {
	type key struct{ reason, message string }
	at := map[key]int{}
	out := []Identity{}
	for i := range r.Findings {
		f := &r.Findings[i]
		reason := nonconformity(f)
		if reason == "" || f.Count == f.low {
			continue
		}
		k := key{reason, f.Message}
		j, there := at[k]
		if !there {
			j = len(out)
			at[k] = j
			out = append(out, Identity{Identity: f.Node, Reason: reason, Message: f.Message})
		}
		x := &out[j]
		x.Requests += f.Count - f.low
		if !slices.Contains(x.Clients, f.UserAgent) {
			x.Clients = append(x.Clients, f.UserAgent)
		}
		if f.Last.After(x.Last) {
			x.Last = f.Last
		}
	}
	for i := range out {
		slices.Sort(out[i].Clients)
	}
	slices.SortFunc(out, func(a, b Identity) int {
		return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// nonconformity is why the identity of a finding does not conform, "" if the finding is about something else.
func nonconformity(f *Finding) string {
	detail, _, _ := strings.Cut(f.detail, ",")
	switch {
	case f.Rule == "node-credential-misuse" && f.detail == "certificate":
		return "shared certificate"
	case f.Rule != "node-identity":
		return ""
	case detail == "group":
		return "group missing"
	case detail == "kubelet":
		return "no node identity"
	case detail == "unregistered" && strings.Contains(f.Message, "which differs in its letter case"):
		return "letter case"
	case detail == "unregistered" && strings.Contains(f.Message, "; there is a Node "):
		return "host name"
	case detail == "unregistered":
		return "unregistered name"
	}
	return "name form"
}

// denials are those that persist.
func denials(r *Report) []Denial {
	out := []Denial{}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Rule == "persistent-node-deny" {
			out = append(out, Denial{f.Node, f.UserAgent, f.Message, f.First, f.Last})
		}
	}
	return out
}

// unseen are the nodes of the cluster that made no request in the window.
func unseen(r *Report, known []string) []string {
	seen := map[string]bool{}
	for i := range r.Nodes {
		seen[r.Nodes[i].Name] = true
	}
	out := []string{}
	if seen[tally.Others] {
		return out // there were too many to be told apart
	}
	for _, name := range known {
		if !seen[tally.Bounded(name)] {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

const (
	// stillSilent is how recent the last word of a silent node must be for it to be silent still: it is told every ten minutes.
	stillSilent = 15 * time.Minute
	// toldFor is for how long it is told; nobody knows how a longer silence ended.
	toldFor = 23 * time.Hour
)

// holeOf is the kind of hole that a gap in the log is, "" where nothing is missing that could decide. A silent node is a hole as long as
// it is silent: what it does when it comes back is not known.
func holeOf(r *Report, f *Finding) string {
	switch {
	case f.detail == "silent node":
		if r.Window.To == nil || f.Last.Before(r.Window.To.Add(-stillSilent)) && f.Last.Sub(f.First) < toldFor {
			return ""
		}
		return HoleNode
	case f.Severity == rules.Low.String():
		return ""
	case f.detail == "silent nodes":
		return HoleNode
	case strings.HasPrefix(f.detail, "policy-"), f.detail == "no secret reads":
		return HolePolicy
	case f.detail == "no verdicts":
		return HoleState
	}
	return HoleLog
}

// someOf names the first few of many.
func someOf(names []string, most int) string {
	all := make([]string, 0, most)
	for _, s := range names[:min(most, len(names))] {
		all = append(all, Visible(s))
	}
	s := strings.Join(all, ", ")
	if len(names) > most {
		s += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return s
}
