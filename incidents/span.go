package incidents

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/nodetrail/nodetrail/audit"
	"github.com/nodetrail/nodetrail/codes"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/rules"
)

func (s *span) incident(cluster string, of holder, now time.Time) Incident {
	in := Incident{
		ID: ID(cluster, of.id(), s.first), Credential: of.name, Kind: of.kind, State: Quiet, First: s.first.UTC(), Last: s.last.UTC(),
		Addresses:  seen(s.all(), (*part).from, MaxAddresses),
		UserAgents: seen(s.acts, func(p *part) []string { return []string{p.key.Product} }, MaxAgents), Rules: rulesOf(s.all()), Bindings: s.bindings(),
	}
	worst := rules.Low
	for _, p := range s.acts {
		worst = max(worst, SeverityOf(p.act, p.group.Severity))
	}
	in.Severity = worst.String()
	in.count(s)
	switch {
	case in.Excepted == in.Findings:
		in.State = Closed
	case now.Sub(s.last) < Pause:
		in.State = Open
	}
	in.Rotate = rotate(s.acts)
	in.Timeline = s.timeline(in.State)
	in.Contain = in.contain(s)
	return in
}

// all are the parts that count, what was done before circumstances.
func (s *span) all() []*part { return slices.Concat(s.acts, s.beside) }

// from is where the requests came from: of what was done all addresses, of circumstances the one that the finding names.
func (p *part) from() []string {
	out := []string{p.group.Params.Text(rules.ParamAddress)}
	if p.act != rules.Circumstance {
		for i := range p.group.Origins.Addresses {
			out = append(out, p.group.Origins.Addresses[i].Address)
		}
	}
	for i, text := range out {
		if a, ok := audit.PlainAddress(text); ok {
			out[i] = a.String() // 192.0.2.1 and ::ffff:192.0.2.1 are one
		}
	}
	return out
}

// seen lists values with when they were seen, in that order.
func seen(parts []*part, of func(*part) []string, most int) []Seen {
	at := map[string]*Seen{}
	for _, p := range parts {
		for _, v := range of(p) {
			if v == "" {
				continue
			}
			o := at[v]
			if o == nil {
				o = &Seen{Value: v, First: p.group.First.UTC(), Last: p.group.Last.UTC()}
				at[v] = o
			}
			if p.group.First.Before(o.First) {
				o.First = p.group.First.UTC()
			}
			if p.group.Last.After(o.Last) {
				o.Last = p.group.Last.UTC()
			}
		}
	}
	out := make([]Seen, 0, len(at))
	for _, o := range at {
		out = append(out, *o)
	}
	slices.SortFunc(out, func(a, b Seen) int { return cmp.Or(a.First.Compare(b.First), strings.Compare(a.Value, b.Value)) })
	return slices.Clip(out[:min(len(out), most)])
}

func rulesOf(parts []*part) []string {
	names := map[string]bool{}
	for i := range parts {
		names[parts[i].key.Rule] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// bindings are those that allowed what was done.
func (s *span) bindings() []Binding {
	all := map[rbac.BindingRef]bool{}
	for _, p := range s.acts {
		if p.group.Allowed && p.key.Binding.Name != "" {
			all[p.key.Binding] = true
		}
	}
	out := make([]Binding, 0, len(all))
	for b := range all {
		out = append(out, Binding(b))
	}
	slices.SortFunc(out, func(a, b Binding) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return out
}

// object is what the part is about.
func (p *part) object() Object {
	k := &p.key
	return Object{APIGroup: k.APIGroup, Resource: k.Resource, Subresource: k.Subresource, Namespace: k.Namespace, Name: k.Name}
}

// Text names the object: RESOURCE[.GROUP][/SUBRESOURCE] [NAMESPACE/]NAME.
func (o *Object) Text() string {
	s := o.Resource
	if o.APIGroup != "" {
		s += "." + o.APIGroup
	}
	if o.Subresource != "" {
		s += "/" + o.Subresource
	}
	switch {
	case o.Namespace != "" && o.Name == "":
		s += " in " + o.Namespace
	case o.Namespace != "":
		s += " " + o.Namespace + "/" + o.Name
	case o.Name != "":
		s += " " + o.Name
	}
	return strings.TrimSpace(s)
}

// rotate are the objects whose content was disclosed: the API server answers with the whole object to a patch, and to a deletion that waits for a finalizer, as
// one with propagationPolicy=Foreground does, and with the objects to their deletion as a collection.
func rotate(acts []*part) []Object {
	disclosing := []string{"get", "list", "watch", "patch", "delete", "deletecollection"}
	out := []Object{}
	for _, p := range acts {
		k := &p.key
		if p.act != rules.Succeeded || k.APIGroup != "" {
			continue
		}
		read := k.Resource == "secrets" && k.Subresource == "" && slices.Contains(disclosing, k.Verb)
		if token := k.Resource == "serviceaccounts" && k.Subresource == "token" && k.Verb == "create"; !read && !token {
			continue
		}
		out = append(out, p.object())
	}
	slices.SortFunc(out, compareObjects)
	return slices.Clip(slices.Compact(out))
}

func compareObjects(a, b Object) int {
	return cmp.Or(strings.Compare(a.Resource, b.Resource), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Subresource, b.Subresource), strings.Compare(a.APIGroup, b.APIGroup))
}

// ofSearch reports whether the part is a finding about many requests, of which some were refused.
func (p *part) ofSearch() bool {
	return p.group.Reason == rules.ManyWithinMinutes || p.group.Reason == rules.ManyWithinDay
}

// timeline has the first odd use, the first refusal, the first success, the peak, and the latest, by time.
func (s *span) timeline(state State) []Moment {
	out := []Moment{}
	first := func(act rules.Act, code codes.Code) {
		var p *part // the first, by the order of acts
		for _, o := range s.acts {
			// A search begins with whatever came first, refused or not: the moment is that of a request, if one is known.
			if o.act == act && (p == nil || p.ofSearch() && !o.ofSearch()) {
				p = o
			}
		}
		if p != nil {
			object := p.object()
			m := Moment{At: p.group.First.UTC(), Code: code, Params: codes.Params{
				codes.Text(codes.ParamRule, p.key.Rule), codes.Text(codes.ParamReason, string(p.group.Reason)),
			}}
			if p.key.Verb != "" {
				m.Params = append(m.Params, codes.Text(rules.ParamObject, p.key.Verb+" "+object.Text()))
			}
			if b := p.key.Binding; b.Name != "" {
				m.Params = append(m.Params, codes.Text(codes.ParamBindingKind, b.Kind), codes.Text(codes.ParamBindingNamespace, b.Namespace), codes.Text(codes.ParamBinding, b.Name))
			}
			for _, key := range []string{rules.ParamAddress, rules.ParamHome} {
				if v := p.group.Params.Text(key); v != "" {
					m.Params = append(m.Params, codes.Text(key, v))
				}
			}
			out = append(out, m)
		}
	}
	first(rules.OddUse, FirstOddUse)
	first(rules.Refused, FirstRefusal)
	first(rules.Succeeded, FirstSuccess)
	if m, is := s.peak(); is {
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b Moment) int { return a.At.Compare(b.At) })
	return append(out, Moment{At: s.last.UTC(), Code: Latest, Params: codes.Params{codes.Text(codes.ParamKind, string(state))}})
}

// peak is the worst minute of a spike of denials, or else the hour with the most requests.
func (s *span) peak() (Moment, bool) {
	var best int64
	var at time.Time
	by := "1h0m0s"
	for _, b := range s.beside {
		p := &b.group.Params
		when := p.Time(rules.ParamPeakAt)
		if n := p.Int(rules.ParamPeak); !when.IsZero() && (n > best || n == best && when.Before(at)) {
			best, at, by = n, when, "1m0s"
		}
	}
	if best == 0 {
		hours := map[time.Time][]*part{}
		for _, p := range s.acts {
			h := p.group.First.UTC().Truncate(time.Hour)
			hours[h] = append(hours[h], p)
		}
		for h, parts := range hours {
			n := int64(0)
			for _, r := range rows(parts, nil) {
				n += r.Requests
			}
			if n > best || n == best && h.Before(at) {
				best, at = n, h
			}
		}
		if at.Before(s.first) {
			at = s.first
		}
	}
	return Moment{At: at.UTC(), Code: Peak, Params: codes.Params{codes.Int(codes.ParamCount, best), codes.Text(codes.ParamBy, by)}}, best > 0
}

// contain are the steps that end the access.
func (in *Incident) contain(s *span) []Step {
	name := codes.Text(codes.ParamNode, in.Credential)
	out := []Step{}
	step := func(code codes.Code, p ...codes.Param) {
		out = append(out, Step{Code: code, Params: append(codes.Params{}, p...), Commands: []string{}})
	}
	switch in.Kind {
	case OfNode:
		step(Drain, name)
		step(Isolate, append(codes.Params{name}, in.from()...)...)
		step(RemovePods, name)
	case OfBootstrap:
		step(DeleteToken, name)
	case OfUser:
		p := codes.Params{name}
		if in.Credential == user.Anonymous { // there is no credential: what is left are the addresses
			p = append(p, in.from()...)
		}
		step(RevokeUser, p...)
	}
	for i := range in.Bindings {
		b := &in.Bindings[i]
		step(RemoveRights, codes.Text(codes.ParamBindingKind, b.Kind), codes.Text(codes.ParamBindingNamespace, b.Namespace), codes.Text(codes.ParamBinding, b.Name))
	}
	if len(in.Rotate) > 0 {
		step(Rotate, codes.Int(codes.ParamCount, len(in.Rotate)))
	}
	if in.Kind == OfNode {
		step(Expiry, name)
		step(LookFurther, name, codes.Time(rules.ParamSince, in.First), codes.Time(rules.ParamUntil, in.Last))
	}
	return out
}

// from are the first addresses of the incident, as parameters.
func (in *Incident) from() (out codes.Params) {
	for i := range in.Addresses[:min(len(in.Addresses), 10)] {
		out = append(out, codes.Text(rules.ParamAddress, in.Addresses[i].Value))
	}
	return out
}
