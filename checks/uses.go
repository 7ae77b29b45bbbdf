package checks

import (
	"slices"

	"github.com/nodetrail/nodetrail/rbac"
)

// fates are those of the bindings that are about nodes. Of a binding that is not there nothing is known, and it counts as one that goes.
func fates(in *Input) func(rbac.BindingRef) (Fate, bool) {
	all := map[rbac.BindingRef]Fate{}
	for i := range in.Bindings {
		all[in.Bindings[i].Binding] = Unrelated
	}
	for _, b := range Inventory(in.Bindings, systemNodeRules(in), in.Keep) {
		all[b.Binding] = b.Fate
	}
	return func(ref rbac.BindingRef) (Fate, bool) {
		f, known := all[ref]
		return f, known
	}
}

func (u *Use) item(code Code) Item {
	return Item{
		Code: code, Node: u.Node, Request: u.Request, From: u.First, To: u.Last, Object: u.Object, Client: u.Client, Value: NameOf(u.Binding),
		AuditIDs: u.AuditIDs, Count: u.Count,
	}
}

// stays reports whether the binding that let it through, whose fate in the end is given, is none of those that go: neither in the end, nor when it let the
// request through, unless the owner keeps it. One that went then gave more than it gives now, and one that goes may give the client what it needs. One that is
// empty in the end was not when it let the request through.
func (u *Use) stays(in *Input, f Fate, known bool) bool {
	return known && (f == Stays || f == Unrelated) && (!u.Went || f == Stays && slices.Contains(in.Keep, u.Binding))
}

// Harmless reports whether the client does not notice when RBAC refuses the request: it was refused by admission anyway, it continues
// without an answer, or it is a kubelet that asks for what was on its own node until just before, whether it is there or not. The answers of a proxied backend say nothing about that.
func (u *Use) Harmless() bool {
	if u.Proxy || u.Impersonation && u.Outcome != OutcomeRefused {
		return false
	}
	switch u.Outcome {
	case OutcomeRefused:
		return true
	case OutcomeSucceeded, OutcomeNotFound, OutcomeFailed:
		return u.Tolerated || u.Kubelet && u.Node != "" && u.JustGone
	}
	return false
}

func nothingDepends(in *Input) Result {
	p := proof{}
	if !in.BindingsKnown {
		p.unproven(Item{Code: CodeBindingsUnknown})
	}
	fate := fates(in)
	p.count(in.Log.Requests, in.Log.Requests)
	for i := range in.Uses {
		u := &in.Uses[i]
		if u.Race || u.Unlimited && u.Harmless() {
			continue // races-decided; a kubelet's late look, which nothing is to be said of
		}
		f, known := fate(u.Binding)
		switch {
		case u.stays(in, f, known):
			p.list(u.item(CodeStayingUse))
		case u.Unlimited && !in.Limited:
			p.list(u.item(CodeNeedsLater))
		case f == Stays && !u.Ended && !u.Lag && !u.Harmless():
			p.unproven(u.item(CodeGaveMore)) // it does not give this any more, and one that goes may
		case u.Ended && !u.Harmless():
			p.unproven(u.item(CodeOtherEnded)) // the client may have ended with it
		case u.Unlimited:
			p.fail(u.item(CodeNeedsSinceLimited))
		case u.Lag:
			p.list(u.item(CodeLag))
		case u.Harmless():
			p.list(u.item(CodeHarmlessUse))
		case u.Given:
			p.unproven(u.item(CodeGivesRights))
		case u.Perhaps:
			p.unproven(u.item(CodeMayAsk))
		case u.Outcome == OutcomeUnknown:
			p.unproven(u.item(CodeAnswerUnknown))
		case u.Unseen:
			p.unproven(u.item(CodeOwnUnknown))
		default:
			p.fail(u.item(CodeNeedsBinding))
		}
	}
	if p.onlyOpen(CodeOwnUnknown) {
		return p.done(NextRecordState)
	}
	return p.done(NextMoveClients)
}

// noExcessUse asks of all bindings, those that stay and those of everybody apart.
func noExcessUse(in *Input) Result {
	p := proof{}
	if !in.BindingsKnown {
		p.unproven(Item{Code: CodeBindingsUnknown})
	}
	fate := fates(in)
	p.count(in.Log.Requests, in.Log.Requests)
	for i := range in.Uses {
		u := &in.Uses[i]
		if u.Unlimited || u.Given || u.Ended || u.Perhaps {
			continue // the Node authorizer or another binding gave it: no-excess-rights
		}
		f, known := fate(u.Binding)
		switch {
		case f == Stays && u.stays(in, f, known) && !u.TooMuch:
			p.list(u.item(CodeStayingUse))
		case u.Lag:
			p.list(u.item(CodeLag))
		case u.Harmless() || u.Race && u.Kubelet:
			p.list(u.item(CodeHarmlessUse))
		case u.Outcome == OutcomeUnknown:
			p.unproven(u.item(CodeAnswerUnknown))
		case u.Unseen:
			p.unproven(u.item(CodeOwnUnknown))
		default:
			p.fail(u.item(CodeExcessUse))
		}
	}
	if p.onlyOpen(CodeOwnUnknown) {
		return p.done(NextRecordState)
	}
	return p.done(NextStopUse)
}

func racesDecided(in *Input) Result {
	p := proof{}
	if !in.RacesKnown {
		p.unproven(Item{Code: CodeNotLookedAt})
	}
	p.count(in.Log.Requests, in.Log.Requests)
	for i := range in.Races {
		r := &in.Races[i]
		item := Item{
			Node: r.Node, Request: r.Request, Object: r.Object, Client: r.Client, From: r.First, To: r.Last, AuditIDs: r.AuditIDs, Count: r.ByRBAC + r.Undecided,
		}
		switch {
		case r.ByRBAC > 0 && !r.Kubelet:
			item.Code = CodeRaceNotExcused
			p.fail(item)
		case r.Undecided > 0 && !r.Kubelet:
			item.Code = CodeRaceUndecided
			p.unproven(item)
		case r.ByRBAC+r.Undecided > in.MaxRaces:
			item.Code = CodeManyRaces
			p.unproven(item)
		}
	}
	return p.done(NextLookAtRaces)
}

func identitiesConform(in *Input) Result {
	p := proof{}
	if on, known := ruleState(in, "node-identity"); !known {
		p.unproven(Item{Code: CodeRuleUnknown, Object: "node-identity"})
	} else if !on {
		p.unproven(Item{Code: CodeRuleOff, Object: "node-identity"})
	}
	p.count(in.Log.Requests, in.Log.Requests)
	for i := range in.Identities {
		x := &in.Identities[i]
		item := Item{Code: x.Reason, Object: x.User, To: x.Last, From: x.Last, AuditIDs: x.AuditIDs, Count: x.Count}
		if x.Harmless {
			if item.Code, item.Value = CodeIdentityHarmless, string(x.Reason); x.Gone {
				item.Code = CodeIdentityGone
			}
			p.list(item)
			continue
		}
		p.fail(item)
	}
	return p.done(NextFixIdentities)
}

func agreement(in *Input) Result {
	p := proof{}
	a := &in.Agreement
	wrong, unordered, unwatched := a.More, int64(0), int64(0)
	for i := range a.Disagreements {
		d := &a.Disagreements[i]
		item := Item{Code: CodeDisagreement, Node: d.Node, Request: d.Request, Object: d.Object, From: d.At, To: d.At, Count: 1}
		if d.AuditID != "" {
			item.AuditIDs = []string{d.AuditID}
		}
		if d.Lag {
			item.Code = CodeLag
			p.list(item)
			continue
		}
		wrong++
		switch {
		case d.Unwatched:
			item.Code = CodeNotWatched
			unwatched++
			p.unproven(item)
		case d.Unordered:
			item.Code = CodeWholeSeconds
			unordered++
			p.unproven(item)
		default:
			p.fail(item)
		}
	}
	if a.More > 0 {
		p.fail(Item{Code: CodeDisagreement, Count: a.More})
	}
	if a.Rests > 0 && a.Compared == 0 {
		p.unproven(Item{Code: CodeNotCompared, Count: a.Rests})
	}
	if a.Compared > 0 {
		p.count(a.Compared, a.Compared-wrong)
	} else {
		p.count(a.Decided, a.Decided)
	}
	if unordered > 0 && unordered == wrong {
		return p.done(NextKeepFractions)
	}
	if unwatched > 0 && unwatched == wrong {
		return p.done(NextRecordState)
	}
	return p.done(NextCheckState)
}
