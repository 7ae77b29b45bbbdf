package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/nodetrail/nodetrail/checks"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rules"
	"github.com/nodetrail/nodetrail/tally"
	"github.com/nodetrail/nodetrail/wording"
)

// Verdicts on readiness.
const (
	VerdictReady    = string(checks.AnswerReady)
	VerdictWaived   = string(checks.AnswerReadyWaived)
	VerdictNotReady = string(checks.AnswerNotReady)
	VerdictUnknown  = string(checks.AnswerNotEnough)
)

// Hole is a gap with its sentence: something that the evidence lacks, or, without a kind, a doubt. The checks decide what it means.
type Hole struct {
	codes.Gap
	Message string `json:"message"`
}

// Client is one whose requests would break without a binding.
type Client struct {
	// UserAgent is the user agent without its version, which is the client's own claim; Binding is the only one that lets it through.
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

// Identity is one with a wrong user or group: the Node authorizer will not serve it.
type Identity struct {
	Identity string `json:"identity"`
	// Code is the reason's stable code.
	Code rules.Reason `json:"code"`
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
	needKey
	requests int64
	findings []*Finding
}

// needKey is the binding, which is empty where it is not known, and the client.
type needKey struct {
	ref     Binding
	wide    bool // any binding
	product string
}

// binding are the parameters that name the binding.
func (k *needKey) binding() codes.Params {
	switch {
	case k.ref != (Binding{}):
		return bindingParams(k.ref)
	case k.wide:
		return codes.Params{codes.Text(codes.ParamWide, "true")}
	}
	return nil
}

func bindingParams(b Binding) codes.Params {
	return codes.Params{
		codes.Text(codes.ParamBindingKind, b.Kind), codes.Text(codes.ParamBindingNamespace, b.Namespace), codes.Text(codes.ParamBinding, b.Name),
	}
}

// params say whose requests these are, how many, and of which kinds.
func (n *need) params() codes.Params {
	nodes, kinds := n.across()
	p := append(codes.Params{
		codes.Int(codes.ParamCount, n.requests), codes.Text(codes.ParamClient, n.product), codes.Int(codes.ParamNodes, nodes),
	}, n.binding()...)
	p = append(p, codes.Int(codes.ParamTotal, len(kinds)))
	return append(p, codes.List(codes.ParamRequest, kinds[:min(len(kinds), listedKinds)])...)
}

// listedKinds is how many kinds of requests a blocker names.
const listedKinds = 4

// across says how many nodes and which kinds of request it is about.
func (n *need) across() (nodes int64, kinds []string) {
	names := map[string]bool{}
	for _, f := range n.findings {
		names[f.Node] = true
		kinds = append(kinds, what(f))
	}
	slices.Sort(kinds)
	return int64(len(names)), slices.Compact(kinds)
}

// breaking counts a finding's requests that would break without the binding.
func breaking(f *Finding) int64 { return f.Count - f.low - f.lagged }

// needs sums up the findings of access that needs RBAC by binding and client, the most requests first. count is how many of a finding's requests matter.
func needs(r *Report, count func(*Finding) int64) []*need {
	all := map[needKey]*need{}
	var out []*need
	for i := range r.Findings {
		f := &r.Findings[i]
		requests := count(f)
		if f.Rule != rules.ExcessAccess || f.aside || requests == 0 {
			continue
		}
		k := needKey{product: f.UserAgent}
		if f.Binding != nil {
			k.ref = *f.Binding
		} else {
			k.wide = f.wide
		}
		n := all[k]
		if n == nil {
			n = &need{needKey: k}
			all[k], out = n, append(out, n)
		}
		n.requests += requests
		n.findings = append(n.findings, f)
	}
	slices.SortFunc(out, func(a, b *need) int {
		return cmp.Or(cmp.Compare(b.requests, a.requests), compareBindings(&a.ref, &b.ref), compareFlags(a.wide, b.wide), cmp.Compare(a.product, b.product))
	})
	return out
}

// clients are what would break, by binding and user agent, the most requests first.
func clients(r *Report) []Client {
	out := []Client{}
	for _, n := range needs(r, breaking) {
		nodes, _ := n.across()
		c := Client{
			UserAgent: n.product, Binding: wording.Binding(n.binding()), Requests: n.requests, Nodes: int(nodes), First: n.findings[0].First, Last: n.findings[0].Last, ref: n.ref,
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

func compareFlags(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
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

// identities are those with a wrong user or group, in order of reason and name.
func identities(r *Report, w wording.Words) []Identity {
	type key struct {
		reason        rules.Reason
		name, similar string
	}
	at := map[key]int{}
	out := []Identity{}
	for i := range r.Findings {
		f := &r.Findings[i]
		if !unserved(f) || f.Count == f.low {
			continue
		}
		k := key{f.Reason, f.Node, f.Params.Text(rules.ParamSimilar) + f.Params.Text(rules.ParamFirst)}
		j, there := at[k]
		if !there {
			j = len(out)
			at[k] = j
			out = append(out, Identity{Identity: f.Node, Code: f.Reason, Reason: w.Identity(f.Reason), Message: f.Message})
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
	slices.SortStableFunc(out, func(a, b Identity) int { // the findings are in order
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Identity, b.Identity))
	})
	return out
}

// unserved reports whether the finding is about an identity that the Node authorizer does not serve, or that does not name one node.
func unserved(f *Finding) bool {
	return f.Rule == rules.NodeIdentity && f.Reason != rules.Privileged || f.Rule == rules.CredentialMisuse && f.Reason == rules.SharedCertificate
}

// denials are those that persist.
func denials(r *Report) []Denial {
	out := []Denial{}
	for i := range r.Findings {
		if f := &r.Findings[i]; f.Rule == rules.PersistentDeny {
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
		return out // there were too many to be kept apart
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
	// stillSilent is how recent the last word of a silent node must be for it to be silent still: it is reported every ten minutes.
	stillSilent = 15 * time.Minute
	// toldFor is for how long it is reported; nobody knows how a longer silence ended.
	toldFor = 23 * time.Hour
)

// holeOf is the kind of gap that a finding of the rule on gaps stands for, Doubt where nothing is missing that could decide. A silent node is a
// gap as long as it is silent: what it does when it comes back is not known.
func holeOf(r *Report, f *Finding) codes.Kind {
	switch {
	case f.Reason == rules.NodeSilent:
		if r.Window.To == nil || f.Last.Before(r.Window.To.Add(-stillSilent)) && f.Last.Sub(f.First) < toldFor {
			return codes.Doubt
		}
	case f.Severity == rules.Low.String():
		return codes.Doubt
	}
	return rules.GapOf(f.Reason)
}

// someOf names the first few of many.
func someOf(names []string, most int) string { return wording.Some(names, len(names), most) }
