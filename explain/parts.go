package explain

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/nodetrail/nodetrail/nodeauthz"
	"github.com/nodetrail/nodetrail/pipeline"
	"github.com/nodetrail/nodetrail/rbac"
	"github.com/nodetrail/nodetrail/report"
)

// maxOtherTimes bounds RBAC.Before and RBAC.After.
const maxOtherTimes = 10

// rbac is what RBAC says of the request, then and at other times.
func (x *Explainer) rbac(j *pipeline.Judgement) RBAC {
	out := RBAC{Grants: []Grant{}, Before: []Grant{}, After: []Grant{}}
	if x.o.RBAC == nil {
		return out.named(j)
	}
	then := map[rbac.Grant]rbac.GrantLife{}
	for l := range x.o.RBAC.GrantLives(j.Attrs) {
		switch {
		case l.Covers(j.Time):
			then[l.Grant] = l
		case !l.To.IsZero() && !l.To.After(j.Time):
			out.Before = insert(out.Before, grantOf(&l), func(a, b *Grant) bool { return a.To.After(*b.To) })
		case !l.From.IsZero():
			out.After = insert(out.After, grantOf(&l), func(a, b *Grant) bool { return a.From.Before(*b.From) })
		}
	}
	for g := range x.o.RBAC.Grants(j.Attrs, j.Time) {
		out.Allowed = true
		if len(out.Grants) == MaxGrants {
			out.More++
			continue
		}
		l, known := then[g]
		if !known { // it came between
			l = rbac.GrantLife{Grant: g}
		}
		out.Grants = append(out.Grants, grantOf(&l))
	}
	out.Known = out.Allowed || x.o.RBAC.Covers(j.Time)
	return out.named(j)
}

// named marks the grant that the API server named, and adds it where the state does not have it.
func (r RBAC) named(j *pipeline.Judgement) RBAC {
	if !j.Observed.HasGrant {
		return r
	}
	r.Known, r.Allowed = true, true
	g := grantOf(&rbac.GrantLife{Grant: j.Observed.Grant})
	for i := range r.Grants {
		if o := &r.Grants[i]; o.Binding == g.Binding && o.Role == g.Role && o.Subject.Kind == g.Subject.Kind && o.Subject.Name == g.Subject.Name {
			o.Named = true
			return r
		}
	}
	g.Named = true
	r.Grants = append([]Grant{g}, r.Grants...)
	return r
}

// insert keeps the first few of a list in order.
func insert(list []Grant, g Grant, before func(a, b *Grant) bool) []Grant {
	i := len(list)
	for i > 0 && before(&g, &list[i-1]) {
		i--
	}
	if i == maxOtherTimes {
		return list
	}
	list = append(list, Grant{})
	copy(list[i+1:], list[i:])
	list[i] = g
	return list[:min(len(list), maxOtherTimes)]
}

// subjects are all who may do it through RBAC.
func (x *Explainer) subjects(attrs *authorizer.AttributesRecord, at time.Time) Subjects {
	out := Subjects{Grants: []Grant{}}
	if x.o.RBAC == nil {
		return out
	}
	out.Known = x.o.RBAC.Covers(at)
	for l := range x.o.RBAC.GrantsToAnyone(attrs, at) {
		if len(out.Grants) == MaxGrants {
			out.More++
			continue
		}
		out.Grants = append(out.Grants, grantOf(&l))
	}
	return out
}

func grantOf(l *rbac.GrantLife) Grant {
	return Grant{
		Binding: bindingOf(l.Binding), Role: Role(l.Role), Subject: Subject(l.Subject),
		From: optional(l.From), To: optional(l.To), ForNodes: l.ForNodes(), Ambient: l.Ambient(),
	}
}

func bindingOf(b rbac.BindingRef) Binding { return Binding(b) }

// history is what of the evidence is about time.
func (x *Explainer) history(ev *nodeauthz.Evidence, j *pipeline.Judgement) History {
	h := History{
		From: wireTime(j.Time.Add(-x.o.Window)), To: wireTime(j.Time.Add(x.o.Window)), Changes: make([]Change, 0, len(ev.Changes)),
		Earlier: ev.Earlier, Later: ev.Later,
	}
	before, after := -1, -1
	for i := range ev.Changes {
		c := &ev.Changes[i]
		steps := stepsOf(c.Steps)
		h.Changes = append(h.Changes, Change{
			Time: wireTime(c.At.Time.Add(-c.At.Lag)), Until: wireTime(c.At.Time.Add(c.At.Slop)), Source: sourceOf(c.At.Source), Began: c.Began, Steps: steps,
			Node: c.Node, Own: j.IsNode && c.Node != "" && c.Node == j.Node, Words: changeWords(c, steps),
			Outside: c.At.Time.Before(j.Time.Add(-x.o.Window)) || c.At.Time.After(j.Time.Add(x.o.Window)),
		})
		if c.At.Time.After(j.Time) {
			if after < 0 {
				after = i
			}
		} else {
			before = i
		}
	}
	if before >= 0 {
		h.Changes[before].Nearest = "before"
	}
	if after >= 0 {
		h.Changes[after].Nearest = "after"
	}
	return h
}

func sourceOf(s nodeauthz.Source) string {
	switch s {
	case nodeauthz.SourceAudit:
		return "audit"
	case nodeauthz.SourceWatch:
		return "watch"
	}
	return "object"
}

// changeWords says what happened, without its time.
func changeWords(c *nodeauthz.Change, steps []Step) string {
	bound := steps[len(steps)-1] // what is on the node, where the change is of that
	if c.Node == "" {
		if c.Began {
			return fmt.Sprintf("%s got %s", bound, steps[len(steps)-2])
		}
		return fmt.Sprintf("%s no longer had %s", bound, steps[len(steps)-2])
	}
	if bound.Kind != nodeKind {
		if c.Began {
			return fmt.Sprintf("%s on %s began to use %s", bound, c.Node, steps[0])
		}
		return fmt.Sprintf("%s on %s no longer used %s", bound, c.Node, steps[0])
	}
	bound = steps[len(steps)-2]
	if c.Began {
		if bound.Kind == nodeauthz.KindPod.String() {
			return fmt.Sprintf("%s was bound to %s", bound, c.Node)
		}
		return fmt.Sprintf("%s began to name %s", bound, c.Node)
	}
	return fmt.Sprintf("%s on %s was deleted", bound, c.Node)
}

// consequences are the fates of the request without bindings.
func (x *Explainer) consequences(j *pipeline.Judgement, ex *Explanation, made bool) []Consequence {
	out := []Consequence{}
	if x.o.RBAC == nil || !report.ConcernsNodes(j) {
		return out
	}
	add := func(c Consequence, without func(rbac.Grant) bool) {
		w := report.WhatIf{RBAC: x.o.RBAC, Change: x.o.RBAC.Change(without, nil), Then: x.o.Then}
		fate := w.Of(j)
		if !made && !j.Allowed && (j.Answer.Verdict == nodeauthz.Unknown || !ex.RBAC.Known) {
			fate.Outcome = report.Undecided // nobody knows whether it would pass today
		}
		c.Outcome, c.Uncertain = fate.Outcome.String(), fate.Uncertain
		if fate.ByRBAC {
			b := bindingOf(fate.Grant.Binding)
			c.By = &b
		}
		c.Words = outcomeWords(fate.Outcome, &c)
		out = append(out, c)
	}
	add(Consequence{Without: "all that bindings give to the group system:nodes and to users named system:node:..."}, rbac.Grant.ForNodes)
	seen := map[Binding]bool{}
	single := func(b Binding) {
		if seen[b] || len(out) == MaxConsequences {
			return
		}
		seen[b] = true
		add(Consequence{Without: b.String(), Binding: &b}, func(g rbac.Grant) bool { return g.Binding == rbac.BindingRef(b) })
	}
	if j.Observed.HasGrant {
		single(bindingOf(j.Observed.Grant.Binding))
	}
	for i := range ex.RBAC.Grants {
		single(ex.RBAC.Grants[i].Binding)
	}
	return out
}

func outcomeWords(o report.Outcome, c *Consequence) string {
	words := ""
	switch o {
	case report.AllowedByNode:
		words = "Node allows it anyway"
	case report.AllowedByRBAC:
		words = "still allowed by " + c.By.String()
	case report.AllowedByOther:
		words = "still allowed by another authorizer"
	case report.Breaks:
		words = "breaks"
	case report.Fruitless:
		words = "would be refused; it failed anyway"
	case report.Race:
		words = "passes or not, by how far the API server's graph is at that moment"
	case report.Undecided:
		words = "not known"
	case report.Refused:
		words = "refused with and without these rights"
	case report.Gained:
		words = "would pass"
	}
	if c.Uncertain {
		words += ", as far as the state knows"
	}
	return words
}

// setSelector adds a field selector to a request; what is none is passed over.
func setSelector(a *authorizer.AttributesRecord, selector string) {
	if selector == "" {
		return
	}
	s, err := fields.ParseSelector(selector)
	if err != nil {
		return
	}
	a.FieldSelectorRequirements = s.Requirements()
}
